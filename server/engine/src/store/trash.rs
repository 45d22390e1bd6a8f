//! Removing runs: a run is renamed out of `.cw/runs/` in one step, and only then taken apart. So a removal that is cut short
//! leaves a run whole, or no run and some rubbish in `.cw/trash/`, which the next removal clears away.
//!
//! Must not: decide what goes, or follow a symbolic link.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::workspace::is_own_dir;
use super::{RunLock, RunPaths, StoreError, Workspace, atomic, faults};

/// How often a folder that somebody else is taking apart too is tried again.
const TRIES: u32 = 5;

/// A run that is out of the list and not taken apart yet.
#[derive(Debug)]
pub struct Discarded {
    path: PathBuf,
}

/// The rubbish of a workspace.
#[derive(Debug)]
pub struct Trash {
    runs: PathBuf,
    dir: PathBuf,
}

impl Trash {
    /// That of a workspace. Makes nothing.
    #[must_use]
    pub fn of(workspace: &Workspace) -> Self {
        let cw = workspace.root().join(".cw");
        Self { runs: cw.join("runs"), dir: cw.join("trash") }
    }

    /// What removals that were cut short left.
    ///
    /// # Errors
    /// What the disk refuses, and a symbolic link in the folder's place.
    pub fn leftovers(&self) -> Result<Vec<Discarded>, StoreError> {
        if !is_own_dir(&self.dir).map_err(StoreError::of_workspace)? {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&self.dir).map_err(StoreError::io("list", &self.dir))?;
        let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(Discarded { path: entry?.path() })).collect();
        paths.map_err(StoreError::io("list", &self.dir))
    }

    /// Takes a run out of the list, whole or not at all. Who asks holds its lock, so nobody drives it; whoever waits for
    /// that lock finds the run gone.
    ///
    /// # Errors
    /// What the disk refuses; the run is then still there.
    pub fn discard(&self, paths: &RunPaths, lock: &RunLock) -> Result<Discarded, StoreError> {
        debug_assert!(lock.is_of(paths), "the lock is the run's");
        atomic::ensure_dir(&self.dir).map_err(StoreError::of_workspace)?;
        // An empty folder may be replaced by a rename, and its name is free by construction.
        let place = tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(&self.dir)
            .map_err(StoreError::io("create a folder in", &self.dir))?
            .keep();
        let moved = faults::point("trash.rename").and_then(|()| fs::rename(&paths.dir, &place));
        if let Err(fault) = moved {
            let _ = fs::remove_dir(&place);
            return Err(StoreError::io("move away", &paths.dir)(fault));
        }
        Ok(Discarded { path: place })
    }

    /// Makes the renames durable. Before that, a power cut could bring a run back with a part of its files.
    ///
    /// # Errors
    /// What the disk refuses.
    pub fn sync(&self) -> Result<(), StoreError> {
        atomic::sync_dir(&self.dir)?;
        atomic::sync_dir(&self.runs)
    }

    /// Takes the folder away when nothing is left in it.
    pub fn tidy(&self) {
        let _ = fs::remove_dir(&self.dir);
    }
}

impl Discarded {
    /// Bytes of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes_of(&self.path)
    }

    /// Takes it apart.
    ///
    /// # Errors
    /// What the disk refuses; what is left is found again by [`Trash::leftovers`].
    pub fn remove(self) -> Result<(), StoreError> {
        let path = &self.path;
        let mut outcome = Ok(());
        for _ in 0..TRIES {
            outcome = faults::point("trash.remove").and_then(|()| remove(path));
            match &outcome {
                Ok(()) => return Ok(()),
                Err(_) if fs::symlink_metadata(path).is_err_and(|gone| gone.kind() == io::ErrorKind::NotFound) => {
                    return Ok(());
                }
                // Agents leave folders they made read-only.
                Err(fault) if fault.kind() == io::ErrorKind::PermissionDenied => open_up(path),
                Err(_) => {}
            }
        }
        outcome.map_err(StoreError::io("remove", path))
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// Makes folders writable for this user, as far as they are this user's.
fn open_up(dir: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Bytes of all files below a folder, links not followed. What cannot be looked at counts for nothing.
#[must_use]
pub fn bytes_of(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes_of(&entry.path())).sum()
}
