//! A workspace: the folder a run is about, with its runs below `.cw/runs/`, and reads of its files for evidence.
//!
//! Must not: follow a symbolic link out of the workspace, or wait on a pipe or device someone put there.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::time::Timestamp;

use super::canonical::Hashing;
use super::paths::RunPaths;
use super::{StoreError, atomic, read};

/// Longest file read for evidence, in bytes.
pub const MAX_EVIDENCE_BYTES: u64 = 16 * 1024 * 1024;

/// Largest file of which it is told whether it changed, in bytes.
const MAX_COMPARED_BYTES: u64 = 256 * 1024 * 1024;

/// Bytes looked at to tell text from other data.
const BINARY_PROBE: usize = 8000;

/// A workspace that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
}

/// A folder below `.cw/runs/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunListing {
    /// Its name.
    pub name: String,
    /// The name as a run id; none when it is not one.
    pub id: Option<RunId>,
    /// When its journal was last written to; when there is none, when the folder changed.
    pub modified: Option<Timestamp>,
}

impl RunListing {
    /// Whether the folder is still there.
    #[must_use]
    pub fn exists(&self, workspace: &Workspace) -> bool {
        fs::symlink_metadata(workspace.runs_dir().join(&self.name)).is_ok()
    }
}

/// A file of the workspace, as evidence may cite it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceFile {
    /// Its text. Bytes that are not UTF-8 are replaced; lines stay what they are.
    Text(String),
    /// It holds zero bytes near its start: no lines to cite.
    Binary,
    /// Longer than [`MAX_EVIDENCE_BYTES`].
    TooBig,
    /// A folder.
    Folder,
    /// A pipe, socket or device. Never opened for reading.
    Special,
    /// There, but not readable by this user.
    Unreadable,
    /// Not there.
    Missing,
    /// Outside the workspace, by `..`, an absolute path or a symbolic link.
    Outside,
}

impl Workspace {
    /// Opens a workspace.
    ///
    /// # Errors
    /// [`StoreError::WorkspaceInvalid`] unless the path is absolute and leads to a folder.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let invalid = |reason: String| StoreError::WorkspaceInvalid { path: path.to_owned(), reason };
        if !path.is_absolute() {
            return Err(invalid("the path is not absolute".into()));
        }
        let root = dunce::canonicalize(path).map_err(|fault| invalid(fault.to_string()))?;
        if !root.is_dir() {
            return Err(invalid("this is not a folder".into()));
        }
        Ok(Self { root })
    }

    /// The folder, with symbolic links resolved.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The places of a run, whether it exists or not.
    #[must_use]
    pub fn run(&self, id: &RunId) -> RunPaths {
        RunPaths::below(&self.runs_dir(), id)
    }

    fn runs_dir(&self) -> PathBuf {
        self.root.join(".cw").join("runs")
    }

    /// The places of a run that exists. Only looks: a few stats, and the journal up to its first line feed.
    ///
    /// # Errors
    /// [`StoreError::RunNotFound`], also for a folder with nothing in it but what a crash at a run's birth leaves;
    /// [`StoreError::Corrupt`] for a folder with content but no journal, and for a symbolic link in its place;
    /// [`StoreError::StateFolder`] where that is `.cw` itself, or `.cw/runs`.
    pub fn existing_run(&self, id: &RunId) -> Result<RunPaths, StoreError> {
        let paths = self.run(id);
        let missing = || StoreError::RunNotFound { run_id: id.clone(), path: paths.journal.clone() };
        for dir in [&self.root.join(".cw"), &self.runs_dir()] {
            if !is_own_dir(dir).map_err(StoreError::of_workspace)? {
                return Err(missing());
            }
        }
        if !is_own_dir(&paths.dir)? {
            return Err(missing());
        }
        if was_planned(&paths)? { Ok(paths) } else { Err(missing()) }
    }

    /// Every folder below `.cw/runs/`, newest first. Empty when there are no runs yet.
    ///
    /// # Errors
    /// What the disk refuses, and symbolic links in place of folders.
    pub fn list_runs(&self) -> Result<Vec<RunListing>, StoreError> {
        let runs = self.runs_dir();
        for dir in [&self.root.join(".cw"), &runs] {
            if !is_own_dir(dir).map_err(StoreError::of_workspace)? {
                return Ok(Vec::new());
            }
        }
        let mut listings = Vec::new();
        for entry in fs::read_dir(&runs).map_err(StoreError::io("list", &runs))? {
            let entry = entry.map_err(StoreError::io("list", &runs))?;
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = entry.file_name().to_str().and_then(|name| RunId::new(name).ok());
            let journal = entry.path().join("journal.jsonl");
            let meta = fs::symlink_metadata(journal).or_else(|_| entry.metadata());
            let modified = meta.and_then(|meta| meta.modified()).ok().map(timestamp);
            listings.push(RunListing { name, id, modified });
        }
        listings.sort_unstable_by(|a, b| (b.modified, &b.name).cmp(&(a.modified, &a.name)));
        Ok(listings)
    }

    /// Makes the folder of a new run. Takes over one that a crash at a run's birth left; the run's lock and
    /// [`super::Journal::create`] see to it that only one process gets to plan it.
    ///
    /// # Errors
    /// [`StoreError::RunExists`] when the run was planned; [`StoreError::Corrupt`] when the folder holds something
    /// else; what the disk refuses.
    pub fn create_run(&self, id: &RunId) -> Result<RunPaths, StoreError> {
        let paths = self.run(id);
        let cw = self.root.join(".cw");
        atomic::ensure_dir(&cw).map_err(StoreError::of_workspace)?;
        ignore_in_git(&cw)?;
        let runs = self.runs_dir();
        atomic::ensure_dir(&runs).map_err(StoreError::of_workspace)?;
        match fs::create_dir(&paths.dir) {
            Ok(()) => {}
            Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {
                if !is_own_dir(&paths.dir)? || was_planned(&paths)? {
                    return Err(StoreError::RunExists { run_id: id.clone(), path: paths.dir });
                }
            }
            Err(fault) => return Err(StoreError::io("create the folder", &paths.dir)(fault)),
        }
        atomic::sync_dir(&runs)?;
        Ok(paths)
    }

    /// Reads a file that evidence cites. Relative paths start at the workspace; an absolute one has to lead into it.
    #[must_use]
    pub fn read_workspace_file(&self, relative: &str) -> WorkspaceFile {
        let path = match self.resolve(relative) {
            Ok(path) => path,
            Err(other) => return other,
        };
        self.read_resolved(&path).unwrap_or_else(|fault| judge(&fault))
    }

    /// SHA-256 of a file's bytes, which may be more than evidence is read from. None for what is no plain file in the
    /// workspace, or is larger still.
    #[must_use]
    pub fn digest_of_file(&self, relative: &str) -> Option<String> {
        let path = self.resolve(relative).ok()?;
        let file = atomic::open_options().read(true).open(path).ok()?;
        let meta = file.metadata().ok().filter(|meta| meta.is_file() && meta.len() <= MAX_COMPARED_BYTES)?;
        let mut out = Hashing::on(io::sink());
        let copied = io::copy(&mut file.take(MAX_COMPARED_BYTES), &mut out).ok()?;
        (copied == meta.len()).then(|| out.digest())
    }

    /// Whether the path leads to a file or folder inside the workspace.
    #[must_use]
    pub fn path_exists_inside(&self, relative: &str) -> bool {
        self.resolve(relative).is_ok()
    }

    /// Where a path inside the workspace leads once links are followed: relative to the workspace, with `/` between parts.
    #[must_use]
    pub fn real_path(&self, relative: &str) -> Option<String> {
        let path = self.resolve(relative).ok()?;
        let inside = path.strip_prefix(&self.root).ok()?;
        Some(inside.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/"))
    }

    /// The real path of something that exists inside the workspace.
    fn resolve(&self, relative: &str) -> Result<PathBuf, WorkspaceFile> {
        if relative.is_empty() || relative.contains('\0') {
            return Err(WorkspaceFile::Missing);
        }
        // Before the disk is asked, so that nobody learns what exists outside.
        if self.leads_out(Path::new(relative)) {
            return Err(WorkspaceFile::Outside);
        }
        let path = dunce::canonicalize(self.root.join(relative)).map_err(|fault| judge(&fault))?;
        if path.starts_with(&self.root) { Ok(path) } else { Err(WorkspaceFile::Outside) }
    }

    fn leads_out(&self, path: &Path) -> bool {
        let path = match path.strip_prefix(&self.root) {
            Ok(inside) => inside,
            Err(_) if path.has_root() => return true,
            Err(_) => path,
        };
        let mut depth = 0_i64;
        path.components().any(|component| {
            depth += match component {
                Component::ParentDir => -1,
                Component::Normal(_) => 1,
                _ => 0,
            };
            depth < 0
        })
    }

    fn read_resolved(&self, path: &Path) -> io::Result<WorkspaceFile> {
        let kind = fs::symlink_metadata(path)?;
        if kind.is_dir() {
            return Ok(WorkspaceFile::Folder);
        }
        if !kind.is_file() {
            return Ok(WorkspaceFile::Special);
        }
        let file = atomic::open_options().read(true).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(WorkspaceFile::Special);
        }
        if meta.len() > MAX_EVIDENCE_BYTES {
            return Ok(WorkspaceFile::TooBig);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
        file.take(MAX_EVIDENCE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_EVIDENCE_BYTES {
            return Ok(WorkspaceFile::TooBig);
        }
        if bytes.iter().take(BINARY_PROBE).any(|byte| *byte == 0) {
            return Ok(WorkspaceFile::Binary);
        }
        Ok(WorkspaceFile::Text(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(fault) => String::from_utf8_lossy(fault.as_bytes()).into_owned(),
        }))
    }
}

fn judge(fault: &io::Error) -> WorkspaceFile {
    match fault.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput => WorkspaceFile::Missing,
        _ => WorkspaceFile::Unreadable,
    }
}

/// Whether a folder is there; a symbolic link or a file in its place is an error.
pub(super) fn is_own_dir(dir: &Path) -> Result<bool, StoreError> {
    match fs::symlink_metadata(dir) {
        Ok(meta) if meta.is_dir() => Ok(true),
        Ok(meta) if meta.is_symlink() => {
            Err(StoreError::corrupt(dir, None, "this is a symbolic link; run folders are never followed through one"))
        }
        Ok(_) => Err(StoreError::corrupt(dir, None, "this is not a folder")),
        Err(fault) if matches!(fault.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(fault) => Err(StoreError::io("look at", dir)(fault)),
    }
}

/// Whether a run's folder holds a journal with at least one whole line. False for what a crash at birth leaves.
fn was_planned(paths: &RunPaths) -> Result<bool, StoreError> {
    let path = &paths.journal;
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => {
            let mut file = atomic::open_options().read(true).open(path).map_err(StoreError::io("open", path))?;
            if read::holds_a_line(&mut file).map_err(StoreError::io("read", path))? {
                return Ok(true);
            }
        }
        Ok(_) => return Err(StoreError::corrupt(path, None, "this is not a regular file")),
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
        Err(fault) => return Err(StoreError::io("look at", path)(fault)),
    }
    for entry in fs::read_dir(&paths.dir).map_err(StoreError::io("list", &paths.dir))? {
        let entry = entry.map_err(StoreError::io("list", &paths.dir))?;
        let name = entry.file_name();
        let path = entry.path();
        let at_birth = path == paths.journal
            || path == paths.lock
            || path == paths.stop_request
            || name.to_string_lossy().starts_with(atomic::TEMPORARY_PREFIX)
            || name.to_string_lossy().starts_with(".stop-");
        if !at_birth {
            let problem =
                format!("this run folder holds {} but no journal with an entry in it", name.to_string_lossy());
            return Err(StoreError::corrupt(&paths.dir, None, problem));
        }
    }
    Ok(false)
}

/// Keeps runs out of the repository the workspace is. Left alone once it is there.
fn ignore_in_git(cw: &Path) -> Result<(), StoreError> {
    let path = cw.join(".gitignore");
    match atomic::open_options().write(true).create_new(true).open(&path) {
        Ok(mut file) => io::Write::write_all(&mut file, b"*\n").map_err(StoreError::io("write", &path)),
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(fault) => Err(StoreError::io("write", &path)(fault)),
    }
}

fn timestamp(time: std::time::SystemTime) -> Timestamp {
    let millis = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
