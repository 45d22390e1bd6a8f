//! The lock of a run's drive: a kernel lock on `drive.lock`, so that it ends with its process however that dies.
//!
//! The file's text only tells others who holds it; the text proves nothing, and the file is never deleted (a lock on a
//! deleted file excludes nobody). A reader asks with a shared lock that it lets go at once. An acquirer that meets one
//! can tell: it gets a shared lock itself, which no drive would allow, and tries again.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use flowdrive_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::paths::RunPaths;
use super::{StoreError, atomic, read, stop};

/// Rounds against readers that hold the lock for a moment. Each such moment is some microseconds.
const TRIES: u32 = 200;

/// How often a run may be removed and made anew under the hands of one who wants its lock.
const REPLACED: u32 = 8;

/// Milliseconds that one who is refused waits for the holder to say who it is.
const NAMING: u32 = 25;

/// Who drives a run, as the lock file tells. Parts are unknown when it was read while being written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LockHolder {
    /// The process.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The machine it is on.
    #[serde(default)]
    pub host: Option<String>,
    /// Since when.
    #[serde(default)]
    pub since: Option<Timestamp>,
}

impl LockHolder {
    fn this_process() -> Self {
        Self { pid: Some(std::process::id()), host: host_name(), since: Some(Timestamp::now()) }
    }

    /// Whether it is this process.
    #[must_use]
    pub fn is_this_process(&self) -> bool {
        self.pid == Some(std::process::id()) && self.host == host_name()
    }

    /// What it does with the run, for the sentence that names it.
    pub(super) fn doing(&self) -> &'static str {
        if self.is_this_process() { "in use by this server already" } else { "being driven by another process" }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "pid {pid}")?,
            None => f.write_str("pid unknown")?,
        }
        if let Some(host) = &self.host {
            write!(f, " on {host}")?;
        }
        if let Some(since) = self.since {
            write!(f, ", since {since}")?;
        }
        Ok(())
    }
}

/// The right to drive a run and to write its journal. Given up when dropped, or when the process ends.
#[derive(Debug)]
#[must_use = "the lock is given up when this is dropped"]
pub struct RunLock {
    file: File,
}

impl RunLock {
    /// Takes the lock, or says at once who has it. A second try in the same process is refused like any other. May wait
    /// some milliseconds when readers are looking at the lock, never for a drive.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::LockUnsupported`] where the file system knows no locks; what the disk
    /// refuses.
    pub fn acquire(paths: &RunPaths) -> Result<Self, StoreError> {
        for _ in 0..REPLACED {
            let mut lock = Self::take(paths)?;
            // A run that was removed while its lock was waited for has left this file behind, and a run of the same id that
            // came after it has another: a lock on the old one would exclude nobody.
            if !lock.is_of(paths) {
                continue;
            }
            // The text is a courtesy: a full disk must not keep a run from being resumed.
            if let Err(fault) = write_holder(&mut lock.file, &LockHolder::this_process()) {
                tracing::warn!(path = %paths.lock.display(), %fault, "could not note who holds the lock");
            }
            // What was asked of an earlier holder. From here on readers see the lock, and what they ask is for this one:
            // cleared any later, it would be lost.
            if let Err(fault) = stop::clear_stop(paths) {
                tracing::warn!(%fault, "could not clear an old request to stop");
            }
            return Ok(lock);
        }
        Err(StoreError::RunNotFound { run_id: paths.run_id.clone(), path: paths.journal.clone() })
    }

    /// Whether the file that is locked is the one the run has now.
    #[must_use]
    pub fn is_of(&self, paths: &RunPaths) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let here = std::fs::symlink_metadata(&paths.lock).map(|meta| (meta.dev(), meta.ino()));
            let held = self.file.metadata().map(|meta| (meta.dev(), meta.ino()));
            matches!((here, held), (Ok(here), Ok(held)) if here == held)
        }
        // Elsewhere a folder with an open file in it cannot be moved away.
        #[cfg(not(unix))]
        paths.lock.is_file()
    }

    fn take(paths: &RunPaths) -> Result<Self, StoreError> {
        let path = &paths.lock;
        let mut file = atomic::open_options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|fault| open_fault(paths, fault))?;
        read::require_regular(&file, path)?;
        for round in 0..TRIES {
            match try_exclusive(&file, path)? {
                Attempt::Got => return Ok(Self { file }),
                Attempt::Refused => match try_shared(&file, path)? {
                    Attempt::Refused => break,
                    Attempt::Got => {
                        unlock(&file).map_err(StoreError::io("unlock", path))?;
                        back_off(round);
                    }
                },
            }
        }
        Err(StoreError::Locked { run_id: paths.run_id.clone(), holder: named_holder(&mut file) })
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // The text goes first, so that nobody is told a name that no longer holds it.
        let _ = self.file.set_len(0);
        // Closing is not enough: a child between fork and exec has the same open file.
        if let Err(fault) = unlock(&self.file) {
            tracing::warn!(%fault, "could not unlock a run; the lock ends with this process");
        }
    }
}

/// Who drives the run now; none when nobody does. Takes no lock that lasts and creates nothing. May be out of date when
/// it returns.
#[must_use]
pub fn is_locked(paths: &RunPaths) -> Option<LockHolder> {
    let mut file = atomic::open_options().read(true).open(&paths.lock).ok()?;
    match try_shared(&file, &paths.lock) {
        Ok(Attempt::Refused) => Some(read_holder(&mut file)),
        Ok(Attempt::Got) => {
            let _ = unlock(&file);
            None
        }
        Err(_) => None,
    }
}

/// Whether whoever drove the run last died holding its lock, as far as the file tells: who lets go of it takes the text away.
#[must_use]
pub fn was_abandoned(paths: &RunPaths) -> bool {
    std::fs::symlink_metadata(&paths.lock).is_ok_and(|meta| meta.is_file() && meta.len() > 0)
        && is_locked(paths).is_none()
}

enum Attempt {
    Got,
    Refused,
}

// fs2 by path: as methods these names are std's own, with another error type.
fn try_exclusive(file: &File, path: &Path) -> Result<Attempt, StoreError> {
    judge(fs2::FileExt::try_lock_exclusive(file), path)
}

fn try_shared(file: &File, path: &Path) -> Result<Attempt, StoreError> {
    judge(fs2::FileExt::try_lock_shared(file), path)
}

fn unlock(file: &File) -> io::Result<()> {
    fs2::FileExt::unlock(file)
}

fn judge(outcome: io::Result<()>, path: &Path) -> Result<Attempt, StoreError> {
    match outcome {
        Ok(()) => Ok(Attempt::Got),
        Err(fault) if fault.raw_os_error() == fs2::lock_contended_error().raw_os_error() => Ok(Attempt::Refused),
        Err(source) => Err(StoreError::LockUnsupported { path: path.to_owned(), source }),
    }
}

/// Spreads acquirers out, differently in each process.
fn back_off(round: u32) {
    if round < 20 {
        std::thread::yield_now();
    } else {
        std::thread::sleep(Duration::from_micros(u64::from(std::process::id() % 97) * 10 + 100));
    }
}

fn open_fault(paths: &RunPaths, fault: io::Error) -> StoreError {
    if fault.kind() == io::ErrorKind::NotFound {
        StoreError::RunNotFound { run_id: paths.run_id.clone(), path: paths.journal.clone() }
    } else {
        StoreError::io("open", &paths.lock)(fault)
    }
}

/// One write over the old text, so that a reader sees a whole text or a cut one, which it takes for unknown.
fn write_holder(file: &mut File, holder: &LockHolder) -> io::Result<()> {
    let mut text = serde_json::to_vec(holder)?;
    text.push(b'\n');
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)
}

/// The holder, who says who it is right after it got the lock: a moment later than one who is refused may ask.
fn named_holder(file: &mut File) -> LockHolder {
    for _ in 0..NAMING {
        let holder = read_holder(file);
        if holder.pid.is_some() {
            return holder;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    read_holder(file)
}

fn read_holder(file: &mut File) -> LockHolder {
    let mut text = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(4096).read_to_end(&mut text));
    match read {
        Ok(_) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => LockHolder::default(),
    }
}

#[cfg(unix)]
/// The name of this machine, where it is known.
#[must_use]
pub fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned())
}

#[cfg(not(unix))]
/// The name of this machine, where it is known.
#[must_use]
pub fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}
