//! An attempt's folder: made before its agent starts, read when it ends. Agents may leave anything in it.
//!
//! Nothing here is flushed: all of it can be made again, or is recorded in the journal.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flowdrive_protocol::ids::{TaskId, WorkerId};
use flowdrive_protocol::time::Timestamp;
use serde_json::Value;

use super::canonical::sha256_hex;
use super::paths::RunPaths;
use super::{StoreError, atomic, faults};
use crate::model::agent::WorkerFolder;
use crate::model::journal::AcceptedResult;

/// Longest result read, in bytes.
pub const MAX_RESULT_BYTES: u64 = 32 * 1024 * 1024;

/// Makes the folder of an attempt, with its input and manifest. One that is there already, left by a crash or by the
/// same attempt interrupted, is cleared away first, so that nothing stale in it can be taken for this attempt's work.
/// Other attempts' folders are not touched, and no symbolic link is followed.
///
/// # Errors
/// What the disk refuses; [`StoreError::Corrupt`] when `workers` is not a folder.
pub fn create_worker(
    paths: &RunPaths,
    worker: &WorkerId,
    input_md: &str,
    manifest: &Value,
) -> Result<WorkerFolder, StoreError> {
    let folder = paths.worker(worker);
    paths.require_in_place()?;
    faults::point("worker.mkdir").map_err(StoreError::io("create the folder", &folder.dir))?;
    atomic::ensure_dir(&paths.workers_dir)?;
    match fs::create_dir(&folder.dir) {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {
            clear_away(&folder.dir)?;
            fs::create_dir(&folder.dir).map_err(StoreError::io("create the folder", &folder.dir))?;
        }
        other => other.map_err(StoreError::io("create the folder", &folder.dir))?,
    }
    for dir in [&folder.artifacts, &folder.logs] {
        fs::create_dir(dir).map_err(StoreError::io("create the folder", dir))?;
    }
    let mut manifest = serde_json::to_vec_pretty(manifest)
        .map_err(|source| StoreError::Encode { what: "a worker's manifest", source })?;
    manifest.push(b'\n');
    write_new(&folder.input, input_md.as_bytes())?;
    write_new(&folder.manifest, &manifest)?;
    Ok(folder)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    atomic::open_options()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|file| faults::write_all(&file, bytes, "worker.write"))
        .map_err(StoreError::io("write", path))
}

/// Removes a folder, or the link or file in its place. One that cannot be removed (agents leave folders they made
/// read-only) is moved aside instead.
fn clear_away(dir: &Path) -> Result<(), StoreError> {
    let meta = fs::symlink_metadata(dir).map_err(StoreError::io("look at", dir))?;
    let removed = if meta.is_dir() { fs::remove_dir_all(dir) } else { fs::remove_file(dir) };
    removed.or_else(|_| move_aside(dir)).map_err(StoreError::io("clear away", dir))
}

fn move_aside(dir: &Path) -> io::Result<()> {
    let parent = dir.parent().unwrap_or(Path::new("."));
    // An empty folder may be replaced by a rename, and its name is free by construction.
    let aside = tempfile::Builder::new().prefix(".old-").tempdir_in(parent)?.keep();
    fs::rename(dir, aside)
}

/// What the agent wrote as its result; none when it wrote nothing.
///
/// # Errors
/// [`StoreError::ResultRefused`], which the agent can be told, when it is not a regular file, too long, or not UTF-8.
pub fn read_result(folder: &WorkerFolder) -> Result<Option<String>, StoreError> {
    let path = &folder.result;
    let refused = |reason: String| StoreError::ResultRefused { path: path.clone(), reason, escapes: false };
    // Looked at before it is opened, for the sake of the reason given; opening guards against a change in between.
    match fs::symlink_metadata(path) {
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(fault) => return Err(StoreError::io("read", path)(fault)),
        Ok(meta) if meta.is_symlink() => {
            let reason = "the result is a symbolic link; write a file in its place".into();
            return Err(StoreError::ResultRefused { path: path.clone(), reason, escapes: true });
        }
        Ok(meta) if !meta.is_file() => return Err(refused("the result is not a regular file".into())),
        Ok(_) => {}
    }
    let file = atomic::open_options().read(true).open(path).map_err(StoreError::io("read", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_RESULT_BYTES + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    if bytes.len() as u64 > MAX_RESULT_BYTES {
        return Err(refused(format!("the result is longer than {MAX_RESULT_BYTES} bytes")));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(fault) => {
            let at = fault.utf8_error().valid_up_to();
            Err(refused(format!("the result is not UTF-8 text: byte {at} fits no character")))
        }
    }
}

/// Puts an accepted result where the report points to, all or nothing. Only with `durable` does it outlive a power cut.
///
/// # Errors
/// What the disk refuses.
pub fn publish_result(paths: &RunPaths, task: &TaskId, text: &str, durable: bool) -> Result<PathBuf, StoreError> {
    paths.require_in_place()?;
    atomic::ensure_dir(&paths.results_dir)?;
    let path = paths.result(task);
    atomic::replace(&path, text.as_bytes(), durable)?;
    Ok(path)
}

/// What became of a published result's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFile {
    /// It is what was accepted.
    AsAccepted,
    /// It holds something else.
    Changed,
    /// It cannot be read.
    Missing,
}

/// Looks at a published result, byte by byte.
#[must_use]
pub fn look_at_result(path: &Path, digest: &str) -> ResultFile {
    match atomic::read_regular(path, MAX_RESULT_BYTES) {
        Ok(bytes) if sha256_hex(&bytes) == digest => ResultFile::AsAccepted,
        Ok(_) => ResultFile::Changed,
        Err(_) => ResultFile::Missing,
    }
}

/// [`look_at_result`] for many files: one that has the length it had, and was not written to since it was accepted, is
/// taken for what it was. Who sets back a file's time is found by `verify` alone.
#[must_use]
pub fn glance_at_result(path: &Path, digest: &str, bytes: u64, accepted: Option<Timestamp>) -> ResultFile {
    let Ok(meta) = fs::symlink_metadata(path) else { return ResultFile::Missing };
    if !meta.is_file() || meta.len() != bytes {
        return ResultFile::Changed;
    }
    // Published before it was recorded, so at the latest in the same millisecond.
    let untouched = accepted.zip(meta.modified().ok()).is_some_and(|(accepted, written)| {
        let after = Duration::from_millis(accepted.as_millis().saturating_add(1).max(0).unsigned_abs());
        written <= UNIX_EPOCH + after
    });
    if untouched { ResultFile::AsAccepted } else { look_at_result(path, digest) }
}

/// Tells which published results a power cut, or somebody, took away. Made once for a run: it knows when the machine
/// was started.
#[derive(Debug)]
pub struct ResultCheck {
    /// None where that is unknown: then every file is read.
    boot: Option<SystemTime>,
    results_dir: PathBuf,
    /// The folder they are in, held open: looking a name up in it takes a fraction of walking its whole path, for ten
    /// thousand names.
    #[cfg(unix)]
    folder: Option<fs::File>,
}

/// What became of a published result's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was not written to since it was accepted.
    Untouched,
    /// It was, and has the length it had.
    Touched,
    /// It is gone, has another length, or, where a power cut may have been, other bytes.
    Lost,
}

/// What a look at a file tells.
struct Seen {
    is_file: bool,
    bytes: u64,
    written: Option<SystemTime>,
}

impl ResultCheck {
    /// A check of a run's files, on this machine, now.
    #[must_use]
    pub fn new(paths: &RunPaths) -> Self {
        let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| {
            let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
            UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
        });
        Self {
            boot,
            results_dir: paths.results_dir.clone(),
            #[cfg(unix)]
            folder: atomic::open_options().read(true).open(&paths.results_dir).ok(),
        }
    }

    #[cfg(unix)]
    fn look(&self, name: &OsStr) -> Option<Seen> {
        use nix::sys::stat::{SFlag, fstatat};
        let found = fstatat(self.folder.as_ref()?, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let seconds = u64::try_from(found.st_mtime).ok();
        Some(Seen {
            is_file: SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFREG,
            bytes: u64::try_from(found.st_size).unwrap_or(0),
            written: seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
        })
    }

    #[cfg(not(unix))]
    fn look(&self, name: &OsStr) -> Option<Seen> {
        let found = fs::symlink_metadata(self.results_dir.join(name)).ok()?;
        Some(Seen { is_file: found.is_file(), bytes: found.len(), written: found.modified().ok() })
    }

    /// What became of the file of an accepted result: by one look at it, unless it is older than the machine's start
    /// (some file systems keep the length and lose the bytes); then by reading it. It is looked for by the name it was
    /// recorded with: making the names of ten thousand tasks anew takes longer than looking at as many files.
    #[must_use]
    pub fn fate(&self, result: &AcceptedResult, accepted: Option<Timestamp>) -> Fate {
        let Some(name) = Path::new(&result.path).file_name() else { return Fate::Lost };
        let Some(found) = self.look(name) else { return Fate::Lost };
        if !found.is_file || found.bytes != result.bytes {
            return Fate::Lost;
        }
        let written_since = self.boot.zip(found.written).is_some_and(|(boot, at)| at > boot);
        let path = self.results_dir.join(name);
        if !written_since && !fs::read(path).is_ok_and(|bytes| sha256_hex(&bytes) == result.digest) {
            return Fate::Lost;
        }
        let accepted =
            accepted.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_millis(at.as_millis().max(0).unsigned_abs())));
        // In whole seconds, as they are kept.
        let untouched = found.written.zip(accepted).is_some_and(|(written, accepted)| written <= accepted);
        if untouched { Fate::Untouched } else { Fate::Touched }
    }
}
