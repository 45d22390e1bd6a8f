//! What agents came to, noted by whoever saw them end, before the drive gets to its journal: `ended.log` in the run's
//! folder. Between an agent's end and the journal lies a queue, and at its end a disk; a server that is killed there
//! would otherwise have to run an agent again that had done its work.
//!
//! A note is `sha256:<64 hex digits> <JSON>` and a line feed, the digest being that of the JSON. It is in the kernel's
//! hands when [`EndedLog::note`] returns, so it outlives this process; after a power cut it may be gone, and a note that
//! is not whole is none. The digest keeps out accidents, not forgers: what a note says of its attempt has to fit the
//! journal ([`crate::model::outcome::Noted::is_of`]). Must not: be flushed, be believed of an attempt whose end is in the
//! journal, or keep a drive from going on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flowdrive_protocol::ids::WorkerId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::canonical::{DIGEST_LEN, sha256_hex};
use super::{RunPaths, StoreError, atomic, faults, read};

/// Notes that are of no more use are thrown away when there are so many bytes of them.
const MOST_BYTES: u64 = 256 * 1024;

/// Longest file read back, in bytes: far more than one process leaves.
const MOST_READ: u64 = 256 * 1024 * 1024;

#[derive(Serialize)]
struct Written<'a, T> {
    worker: &'a WorkerId,
    note: &'a T,
}

#[derive(Deserialize)]
struct Found<T> {
    worker: WorkerId,
    note: T,
}

/// Where the ends of a drive's agents are noted. One for each drive; any thread may note.
#[derive(Debug)]
pub struct EndedLog {
    paths: RunPaths,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    file: Option<File>,
    bytes: u64,
    /// Notes whose attempts the journal does not have yet.
    waiting: usize,
}

impl EndedLog {
    /// The notes of a run, for the drive that holds its lock. Nothing is made before the first note.
    #[must_use]
    pub fn of(paths: &RunPaths) -> Self {
        Self { paths: paths.clone(), inner: Mutex::default() }
    }

    /// A file that was being written to when its writer panicked has a line that is not whole, which is no note.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how an attempt ended.
    ///
    /// # Errors
    /// What the disk refuses. The attempt's end is then known to this process alone.
    pub fn note<T: Serialize>(&self, worker: &WorkerId, note: &T) -> Result<(), StoreError> {
        let mut inner = self.inner();
        inner.waiting += 1;
        let json = serde_json::to_string(&Written { worker, note })
            .map_err(|source| StoreError::Encode { what: "an attempt's end", source })?;
        let line = format!("{} {json}\n", sha256_hex(&json));
        if inner.file.is_none() {
            self.paths.require_in_place()?;
            let file = atomic::open_options().append(true).create(true).open(&self.paths.ended);
            let file = file.map_err(StoreError::io("open", &self.paths.ended))?;
            read::require_regular(&file, &self.paths.ended)?;
            inner.bytes = file.metadata().map_err(StoreError::io("look at", &self.paths.ended))?.len();
            inner.file = Some(file);
        }
        if let Some(file) = &inner.file {
            faults::write_all(file, line.as_bytes(), "ended.write")
                .map_err(StoreError::io("write", &self.paths.ended))?;
        }
        inner.bytes += line.len() as u64;
        Ok(())
    }

    /// Says that so many of the attempts noted are in the journal, and handed to the kernel.
    pub fn recorded(&self, attempts: usize) {
        let mut inner = self.inner();
        inner.waiting = inner.waiting.saturating_sub(attempts);
        if inner.waiting == 0 && inner.bytes >= MOST_BYTES {
            self.empty(&mut inner);
        }
    }

    /// Throws all notes away, those of earlier drives too: the journal on the disk has all of them.
    pub fn clear(&self) {
        let mut inner = self.inner();
        inner.file = None;
        inner.waiting = 0;
        match faults::point("ended.clear").and_then(|()| std::fs::remove_file(&self.paths.ended)) {
            Err(fault) if fault.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.paths.ended.display(), %fault, "notes of no more use could not be removed");
            }
            _ => inner.bytes = 0,
        }
    }

    fn empty(&self, inner: &mut Inner) {
        let Some(file) = &inner.file else { return };
        match faults::point("ended.clear").and_then(|()| file.set_len(0)) {
            Ok(()) => inner.bytes = 0,
            Err(fault) => {
                tracing::warn!(path = %self.paths.ended.display(), %fault, "notes of no more use could not be removed");
            }
        }
    }
}

/// What earlier drives noted, the newest of each attempt. Empty where there is nothing that can be read: the attempts
/// then count as interrupted.
#[must_use]
pub fn read_ended<T: DeserializeOwned>(paths: &RunPaths) -> BTreeMap<WorkerId, T> {
    let bytes = match read_all(&paths.ended) {
        Ok(bytes) => bytes,
        Err(fault) => {
            if fault.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(path = %paths.ended.display(), %fault, "what agents came to cannot be read");
            }
            return BTreeMap::new();
        }
    };
    bytes.split(|byte| *byte == b'\n').filter_map(one).collect()
}

fn one<T: DeserializeOwned>(line: &[u8]) -> Option<(WorkerId, T)> {
    let (digest, rest) = line.split_at_checked(DIGEST_LEN)?;
    let json = rest.strip_prefix(b" ")?;
    if sha256_hex(json).as_bytes() != digest {
        return None;
    }
    let found: Found<T> = serde_json::from_slice(json).ok()?;
    Some((found.worker, found.note))
}

fn read_all(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = atomic::open_options().read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_READ).read_to_end(&mut bytes)?;
    Ok(bytes)
}
