//! The journal of a run, as its one writer holds it: append, write, sync. Reading without the lock is in [`super::read`].
//!
//! `append` only buffers. `write` hands all that is buffered to the kernel in one call, which outlives a crash of this
//! process. `sync` puts it on the disk, which outlives a power cut. A crash can keep the first events of a batch and lose the
//! others: what has to hold together is one event. Must not: know what an event means.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::paths::RunPaths;
use super::place::Ending;
pub use super::read::{Entry, Loaded, Recorded, TornTail, read_entries, read_entries_with};
use super::{StoreError, atomic, faults, line, read};

/// What is kept of the buffer after a write, in bytes. The plan of a large run is megabytes long; nothing later is.
const MOST_KEPT: usize = 256 * 1024;

/// A place in a journal: the end of a whole line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalPosition {
    /// Number of the last event before it; 0 at the start.
    pub seq: u64,
    /// Bytes before it.
    pub offset: u64,
    /// The hash of the last line before it; at the start, the one that stands for the run's id.
    pub head: String,
}

impl JournalPosition {
    /// The start of a run's journal.
    #[must_use]
    pub fn start(run_id: &RunId) -> Self {
        Self { seq: 0, offset: 0, head: line::genesis(run_id.as_str()) }
    }
}

/// What was appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The event's number, from 1, one higher each time.
    pub seq: u64,
    /// The time it was given.
    pub at: Timestamp,
}

/// A journal open for writing. Whoever holds it holds the run's lock: two writers would tear each other's chain.
#[derive(Debug)]
pub struct Journal<E> {
    path: PathBuf,
    paths: RunPaths,
    file: Arc<File>,
    /// Lines not yet handed to the kernel.
    buffer: Vec<u8>,
    /// After everything appended, the buffered lines included.
    position: JournalPosition,
    /// How far the file goes.
    written: u64,
    /// What it ends with.
    ending: Ending,
    /// How far it is known to be on disk.
    synced: u64,
    poison: Option<String>,
    events: PhantomData<fn(E)>,
}

impl<E: Recorded> Journal<E> {
    /// Makes the journal of a new run. What a crash at a run's birth left, less than one whole line, is cleared away.
    ///
    /// # Errors
    /// [`StoreError::RunExists`] when there is a journal with a line in it; otherwise what the disk refuses.
    pub fn create(paths: &RunPaths, run_id: &RunId) -> Result<Self, StoreError> {
        let path = &paths.journal;
        faults::point("journal.create").map_err(StoreError::io("create", path))?;
        let mut file = atomic::open_options()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(StoreError::io("create", path))?;
        read::require_regular(&file, path)?;
        if read::holds_a_line(&mut file).map_err(StoreError::io("read", path))? {
            return Err(StoreError::RunExists { run_id: run_id.clone(), path: paths.dir.clone() });
        }
        file.set_len(0).map_err(StoreError::io("clear", path))?;
        atomic::sync_dir(&paths.dir)?;
        Ok(Self::at(paths, file, JournalPosition::start(run_id), Ending::default()))
    }

    /// Opens the journal of a run, for the holder of its lock, and reads the entries after `from` (all without it). A
    /// torn last line, left by a crash, is cut off and reported.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the line for damage anywhere else; [`StoreError::PositionUnknown`] when `from` is
    /// not the end of a line of this journal; [`StoreError::Unsupported`] for lines of a newer Flowdrive.
    pub fn open(
        paths: &RunPaths,
        run_id: &RunId,
        from: Option<JournalPosition>,
    ) -> Result<(Self, Loaded<E>), StoreError> {
        let mut entries = Vec::new();
        let (journal, end) = Self::open_with(paths, run_id, from, &mut |entry| entries.push(entry))?;
        Ok((journal, Loaded { entries, position: end.position, torn: end.torn }))
    }

    /// As [`Journal::open`], handing each entry to `visit` in place of keeping them all.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_with(
        paths: &RunPaths,
        run_id: &RunId,
        from: Option<JournalPosition>,
        visit: &mut dyn FnMut(Entry<E>),
    ) -> Result<(Self, read::End), StoreError> {
        let path = &paths.journal;
        let file =
            atomic::open_options().read(true).append(true).open(path).map_err(read::open_fault(paths, run_id))?;
        read::require_regular(&file, path)?;
        let from = from.unwrap_or_else(|| JournalPosition::start(run_id));
        let end = read::entries(&file, path, from, visit)?;
        atomic::sweep(&paths.dir);
        atomic::sweep(&paths.results_dir);
        let ending = Ending::read(&file, end.position.offset).map_err(StoreError::io("read", path))?;
        let mut journal = Self::at(paths, file, end.position.clone(), ending);
        if end.torn.is_some() {
            journal.cut_back().map_err(StoreError::io("cut the torn last line of", path))?;
        }
        // What an earlier process wrote but never synced would otherwise count as synced.
        journal.synced = 0;
        Ok((journal, end))
    }

    fn at(paths: &RunPaths, file: File, position: JournalPosition, ending: Ending) -> Self {
        let written = position.offset;
        Self {
            path: paths.journal.clone(),
            paths: paths.clone(),
            file: Arc::new(file),
            buffer: Vec::new(),
            position,
            written,
            ending,
            synced: written,
            poison: None,
            events: PhantomData,
        }
    }

    /// Adds an event to the buffer, with the present time.
    ///
    /// # Errors
    /// When the event has no JSON form, or an earlier write failed.
    pub fn append(&mut self, event: &E) -> Result<Appended, StoreError> {
        self.append_at(event, Timestamp::now())
    }

    /// Adds an event to the buffer, with a time of the caller's.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_at(&mut self, event: &E, at: Timestamp) -> Result<Appended, StoreError> {
        self.refuse_if_poisoned()?;
        let seq = self.position.seq + 1;
        let before = self.buffer.len();
        let hash = line::write(&mut self.buffer, &at.to_string(), event, &self.position.head, seq, E::VERSION)?;
        let grown = (self.buffer.len() - before) as u64;
        self.position = JournalPosition { seq, offset: self.position.offset + grown, head: hash };
        Ok(Appended { seq, at })
    }

    /// Hands all buffered lines to the kernel in one write. From then on readers see them, and a crash of this process
    /// loses none of them.
    ///
    /// # Errors
    /// What the disk refuses. The journal is then poisoned: nothing of the batch is kept, and nothing more is accepted.
    pub fn write(&mut self) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.refuse_if_touched()?;
        let result = faults::write_all(&self.file, &self.buffer, "journal.write");
        if let Err(source) = result {
            self.poison = Some(source.to_string());
            // Best effort: if even this fails, the next open finds a torn tail and cuts it.
            if let Err(fault) = self.cut_back() {
                tracing::warn!(path = %self.path.display(), %fault, "could not cut back a partly written journal");
            }
            return Err(StoreError::Io { action: "write", path: self.path.clone(), source });
        }
        self.written += self.buffer.len() as u64;
        self.ending.push(&self.buffer);
        self.buffer.clear();
        self.buffer.shrink_to(MOST_KEPT);
        Ok(())
    }

    /// Writes what is buffered and puts it on the disk; does nothing when there is nothing new. The flush runs on a
    /// blocking thread. Safe to drop half way: what was written stays written, and the next call flushes it.
    ///
    /// # Errors
    /// As [`Journal::write`]. A failed flush poisons too: the kernel may have dropped the bytes, so trying again would
    /// report success without them.
    pub async fn sync(&mut self) -> Result<(), StoreError> {
        match self.start_sync()? {
            Some(flush) => {
                let flushed = flush.run().await;
                self.finish_sync(flushed)
            }
            None => Ok(()),
        }
    }

    /// As [`Journal::sync`], on this thread.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    pub fn sync_blocking(&mut self) -> Result<(), StoreError> {
        match self.start_sync()? {
            Some(flush) => {
                let flushed = flush.run_here();
                self.finish_sync(flushed)
            }
            None => Ok(()),
        }
    }

    /// The first half of [`Journal::sync`], for a loop that has other work while the disk is busy: writes what is
    /// buffered and returns the flush to be run, or none when all is on disk. Give its outcome to
    /// [`Journal::finish_sync`]. More may be appended and written meanwhile; it needs a later sync.
    ///
    /// # Errors
    /// As [`Journal::write`].
    pub fn start_sync(&mut self) -> Result<Option<Flush>, StoreError> {
        self.write()?;
        Ok((self.synced < self.written).then(|| Flush { file: Arc::clone(&self.file), upto: self.written }))
    }

    /// The second half of a sync.
    ///
    /// # Errors
    /// When the flush failed; the journal is then poisoned.
    pub fn finish_sync(&mut self, flushed: Flushed) -> Result<(), StoreError> {
        match flushed.result {
            Ok(()) => {
                self.synced = self.synced.max(flushed.upto);
                Ok(())
            }
            Err(source) => {
                self.poison = Some(source.to_string());
                Err(StoreError::Io { action: "flush", path: self.path.clone(), source })
            }
        }
    }

    /// The end of the journal, everything appended included. A snapshot may carry it only once it is synced.
    #[must_use]
    pub fn position(&self) -> JournalPosition {
        self.position.clone()
    }

    /// Whether everything appended is on disk.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.buffer.is_empty() && self.synced >= self.written
    }

    /// Puts another file in place of the journal's, to see how a refused write is met.
    #[cfg(test)]
    pub(super) fn break_for_test(&mut self, file: File) {
        self.file = Arc::new(file);
    }

    fn refuse_if_poisoned(&self) -> Result<(), StoreError> {
        match &self.poison {
            None => Ok(()),
            Some(reason) => Err(StoreError::Poisoned { path: self.path.clone(), reason: reason.clone() }),
        }
    }

    /// An agent that reaches into the run's folder must not have its run reported as complete over a record that nobody
    /// can read. Nothing is cut off: what was put there is for people to look at.
    fn refuse_if_touched(&mut self) -> Result<(), StoreError> {
        let looked = self.paths.require_in_place().and_then(|()| {
            let seen = self.ending.disturbance(&self.file, &self.path, self.written);
            match seen.map_err(StoreError::io("look at", &self.path))? {
                Some(problem) => Err(StoreError::corrupt(&self.path, None, problem)),
                None => Ok(()),
            }
        });
        looked.inspect_err(|fault| self.poison = Some(fault.to_string()))
    }

    /// Takes the file back to its last whole line.
    fn cut_back(&mut self) -> io::Result<()> {
        faults::point("journal.cut")?;
        self.file.set_len(self.written)?;
        self.file.sync_all()
    }
}

/// A flush to be run away from the async threads.
#[derive(Debug)]
#[must_use = "nothing is on disk before it has run"]
pub struct Flush {
    file: Arc<File>,
    upto: u64,
}

/// How a [`Flush`] went; for [`Journal::finish_sync`].
#[derive(Debug)]
#[must_use = "a failed flush has to reach the journal"]
pub struct Flushed {
    upto: u64,
    result: io::Result<()>,
}

impl Flush {
    /// Runs it on a blocking thread.
    pub async fn run(self) -> Flushed {
        let upto = self.upto;
        match tokio::task::spawn_blocking(move || self.run_here()).await {
            Ok(flushed) => flushed,
            Err(fault) => Flushed { upto, result: Err(io::Error::other(fault)) },
        }
    }

    /// Runs it on this thread.
    pub fn run_here(self) -> Flushed {
        let result = faults::point("journal.fsync").and_then(|()| self.file.sync_data());
        Flushed { upto: self.upto, result }
    }
}
