//! Replacing a file as a whole: whoever reads it sees the old bytes or the new ones, never a mixture.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use super::canonical::Hashing;
use super::{StoreError, faults};

/// How the names of temporary files begin.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// Writes a temporary file beside `path` (mode 0600) and renames it over it. With `durable` the bytes and the name are
/// on disk when this returns; without, a power cut may bring back the old file, or an empty one. For files of the run
/// whose lock the caller holds: what a crash leaves of it is swept up when the journal is next opened.
///
/// # Errors
/// What the disk refuses; the old file is then still there.
pub fn replace(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    replace_via(TEMPORARY_PREFIX, path, bytes, durable)
}

/// Size of the pieces in which [`replace_with`] writes.
const PIECE: usize = 256 * 1024;

/// Writes to a file, each time as one point where a fault can be injected.
struct Pieces<'f>(&'f File);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        faults::write_all(self.0, bytes, "atomic.write").map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// [`replace`] for what is too large to be held whole: `fill` writes it.
///
/// # Errors
/// What `fill` says, and as [`replace`].
pub(crate) fn replace_with(
    path: &Path,
    durable: bool,
    fill: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    put_in_pieces(TEMPORARY_PREFIX, path, durable, fill)
}

fn put_in_pieces(
    prefix: &str,
    path: &Path,
    durable: bool,
    fill: &mut dyn FnMut(&mut dyn Write) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    put(prefix, path, durable, &mut |file| {
        let mut pieces = BufWriter::with_capacity(PIECE, Pieces(file));
        fill(&mut pieces)?;
        pieces.flush().map_err(StoreError::io("write", path))
    })
}

/// [`replace_with`], not durable, for `fill` that writes in small pieces. Gives the digest of the whole.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_hashed(
    prefix: &str,
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<String, StoreError> {
    let mut digest = String::new();
    put_in_pieces(prefix, path, false, &mut |out| {
        let mut pieces = BufWriter::new(Hashing::on(out));
        fill(&mut pieces).and_then(|()| pieces.flush()).map_err(StoreError::io("write", path))?;
        digest = pieces.get_ref().digest();
        Ok(())
    })?;
    Ok(digest)
}

/// [`replace`] with names of temporary files that no sweep takes away.
pub(crate) fn replace_via(prefix: &str, path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    put(prefix, path, durable, &mut |file| {
        faults::write_all(file, bytes, "atomic.write").map_err(StoreError::io("write", path))
    })
}

fn put(
    prefix: &str,
    path: &Path,
    durable: bool,
    fill: &mut dyn FnMut(&File) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new()
        .prefix(prefix)
        .tempfile_in(dir)
        .map_err(StoreError::io("create a temporary file in", dir))?;
    fill(temporary.as_file())?;
    if durable {
        faults::point("atomic.fsync")
            .and_then(|()| temporary.as_file().sync_all())
            .map_err(StoreError::io("flush", path))?;
    }
    faults::point("atomic.rename").map_err(StoreError::io("replace", path))?;
    temporary.persist(path).map_err(|fault| StoreError::io("replace", path)(fault.error))?;
    if durable {
        sync_dir(dir)?;
    }
    Ok(())
}

/// Makes the names in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    faults::point("dir.fsync").and_then(|()| open_and_sync(dir)).map_err(StoreError::io("flush the folder", dir))
}

#[cfg(unix)]
fn open_and_sync(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

/// Elsewhere a folder cannot be opened as a file; renames are journaled by the file system.
#[cfg(not(unix))]
fn open_and_sync(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a folder; one that is there already is fine, a symbolic link or a file in its place is not.
pub(crate) fn ensure_dir(dir: &Path) -> Result<(), StoreError> {
    // Looked for first: nearly always it is there.
    if is_there(dir)? {
        return Ok(());
    }
    match fs::create_dir(dir) {
        // Somebody else made it meanwhile.
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => is_there(dir).map(drop),
        made => made.map_err(StoreError::io("create the folder", dir)),
    }
}

fn is_there(dir: &Path) -> Result<bool, StoreError> {
    match fs::symlink_metadata(dir) {
        Ok(meta) if meta.is_dir() => Ok(true),
        Ok(_) => Err(StoreError::corrupt(dir, None, "this is not a folder of its own")),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(fault) => Err(StoreError::io("look at", dir)(fault)),
    }
}

/// How files below the run folder are opened: never through a symbolic link, never waiting for the other end of a pipe.
pub(crate) fn open_options() -> fs::OpenOptions {
    #[allow(unused_mut)]
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    {
        use nix::fcntl::OFlag;
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        // A link is opened itself, and is no regular file.
        options.custom_flags(windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT);
    }
    options
}

/// Reads a file that others may have put something else in place of: no link is followed, nothing but a regular file is
/// read, nothing is waited for, and more than `most` bytes are an error.
///
/// # Errors
/// What the disk refuses; [`io::ErrorKind::FileTooLarge`]; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_options().read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Makes a file anew, in place of whatever is there, in a folder that is to be the very one it is named as: neither the
/// name nor the folder may be a link that leads elsewhere.
///
/// # Errors
/// What the disk refuses; [`io::ErrorKind::InvalidInput`] for a folder that leads elsewhere.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if let Err(fault) = fs::create_dir(folder)
        && fault.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(fault);
    }
    if dunce::canonicalize(folder)? != folder {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its folder is a link, or lies behind one"));
    }
    if let Err(fault) = fs::remove_file(path)
        && fault.kind() != io::ErrorKind::NotFound
    {
        return Err(fault);
    }
    open_options().read(true).write(true).create_new(true).open(path)
}

/// Removes temporary files that crashes left in a folder. Best effort.
pub(crate) fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let left_over = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        if left_over && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
