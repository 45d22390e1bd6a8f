//! A run's record: the journal and the state folded from it, kept together. Whoever drives or changes a run goes
//! through [`Record`]; whoever only reads goes through [`read_state`] and [`replay`], and takes no lock.
//!
//! Must not decide anything: it writes down what it is told.

mod fold;
mod restore;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::run::RunStatus;
use flowdrive_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::journal::{JournalEvent, RunPlanned};
use crate::model::state::{FoldError, RunState};
use crate::store::{Journal, JournalPosition, RunPaths, StoreError, check_entries, snapshot};
pub(crate) use fold::snapshot_position;
use fold::{Fold, fold, unfit};
pub use fold::{read_state, replay};
use restore::{ResultFiles, restore_lost_results};

/// Events between two snapshots, at least. More for larger runs, so that the cost per task stays the same.
const SNAPSHOT_INTERVAL: u64 = 1_000;

/// What `state.json` holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Version of this shape.
    pub schema_version: u32,
    /// How far into the journal the state goes.
    pub position: JournalPosition,
    /// The state.
    pub state: RunState,
    /// The reports that were written of this very state.
    #[serde(default)]
    pub report: Option<ReportDigests>,
}

/// What the reports held when they were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportDigests {
    /// Of `report.md`.
    pub markdown: String,
    /// Of `report.html`.
    pub page: String,
}

/// A run's record, as its one writer holds it.
pub struct Record {
    /// Where everything of the run is.
    pub paths: RunPaths,
    journal: Journal<JournalEvent>,
    state: Arc<RwLock<RunState>>,
    announce: Vec<ProgressEvent>,
    since_snapshot: u64,
    /// The reports written of this state; none when it has changed since.
    report: Option<ReportDigests>,
}

impl Record {
    /// Begins the record of a new run. Nothing is on disk for certain before [`Record::sync`].
    ///
    /// # Errors
    /// What the disk refuses.
    pub fn create(paths: RunPaths, plan: RunPlanned) -> Result<Self, StoreError> {
        let paths = paths.opened()?;
        let mut journal = Journal::create(&paths, &plan.run_id)?;
        // Moved, not copied, into its event and out again: the plan of a large run is its largest part.
        let event = JournalEvent::RunPlanned(Box::new(plan));
        let at = journal.append(&event)?.at;
        // Handed on at once: what a line of that length is built in is given back.
        journal.write()?;
        let state = match event {
            JournalEvent::RunPlanned(plan) => RunState::planned_at(*plan, at),
            _ => Err(FoldError::NoPlan),
        };
        let state = state.map_err(|fault| unfit(&paths, 1, &fault))?;
        let state = Arc::new(RwLock::new(state));
        Ok(Self { paths, journal, state, announce: Vec::new(), since_snapshot: 1, report: None })
    }

    /// Opens the record of a run for its one writer, who holds the run's lock. A torn last line is cut off, and results
    /// whose files were lost (they are not flushed one by one) are written anew from the journal.
    ///
    /// # Errors
    /// When the record does not add up, was written by a newer Flowdrive, or cannot be read.
    pub fn open(paths: RunPaths, run_id: &RunId) -> Result<Self, StoreError> {
        let paths = paths.opened()?;
        // Whoever goes on with a run stands on all of its record: every line is checked, though only those after the
        // snapshot are folded. The two are large, and nothing of the one is needed for the other.
        let (snapshot, checked) = std::thread::scope(|scope| {
            let load = || Fold::from_snapshot(&paths, run_id);
            let loading = std::thread::Builder::new().name("flowdrive-load".to_owned()).spawn_scoped(scope, load);
            let checked = check_entries::<JournalEvent>(&paths, run_id);
            // With no thread to be had, or one that panicked, it is loaded here.
            (loading.ok().and_then(|loading| loading.join().ok()).unwrap_or_else(load), checked)
        });
        let (mut fold, end) = (snapshot, checked?);
        // A snapshot is only ever taken of what was synced: one that is ahead means that whole lines were lost since, and
        // going on would run again what was accepted.
        if let Some(ahead) = fold.position.as_ref().filter(|position| position.seq > end.position.seq) {
            return Err(StoreError::PositionUnknown { path: paths.journal, seq: ahead.seq, offset: ahead.offset });
        }
        if let Some(torn) = end.torn {
            tracing::warn!(path = %paths.journal.display(), bytes = torn.bytes, "cut off a torn last line");
        }
        let mut report = fold.report.take();
        let mut open = |fold: &mut Fold| {
            let from = fold.position.clone();
            Journal::open_with(&paths, run_id, from, &mut |entry| {
                report = report.take().filter(|_| leaves_report(&entry.event));
                fold.take(&paths, run_id, entry);
            })
        };
        let journal = match open(&mut fold) {
            Err(StoreError::PositionUnknown { .. }) => {
                tracing::warn!(path = %paths.state.display(), "the snapshot is not of this journal; rebuilding it");
                fold = Fold::default();
                let opened = open(&mut fold);
                report = None;
                opened?.0
            }
            opened => opened?.0,
        };
        let folded = fold.folded;
        let state = fold.finish(&paths)?;
        let restored = restore_lost_results(&paths, run_id, &state)?;
        report = report.filter(|_| restored == ResultFiles::Untouched);
        let state = Arc::new(RwLock::new(state));
        Ok(Self { paths, journal, state, announce: Vec::new(), since_snapshot: folded, report })
    }

    /// The state.
    pub fn state(&self) -> RwLockReadGuard<'_, RunState> {
        read(&self.state)
    }

    /// A handle on the state for readers in this process.
    #[must_use]
    pub fn shared(&self) -> Arc<RwLock<RunState>> {
        Arc::clone(&self.state)
    }

    /// Writes an event down and folds it in. It is durable, and told to clients, at the next [`Record::sync`].
    ///
    /// # Errors
    /// What the disk refuses; or that the event does not fit the state, which is a defect.
    pub fn record(&mut self, event: &JournalEvent) -> Result<(), StoreError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let at = Timestamp::now();
        let report = self.paths.report.to_string_lossy();
        // Folded first: an event that does not fit must not reach the journal.
        let events = fold(&mut state, event, at, &report)
            .map_err(|fault| unfit(&self.paths, self.journal.position().seq + 1, &fault))?;
        drop(state);
        self.journal.append_at(event, at)?;
        self.announce.extend(events);
        self.since_snapshot += 1;
        self.report = self.report.take().filter(|_| leaves_report(event));
        Ok(())
    }

    /// The reports written last, where they still say all there is to say: the run was finished, and nothing has happened
    /// to it since but drives that found nothing to do.
    #[must_use]
    pub fn report(&self) -> Option<&ReportDigests> {
        self.report.as_ref().filter(|_| self.state().status() == RunStatus::Complete)
    }

    /// Says that these reports of the present state were written.
    pub fn set_report(&mut self, report: ReportDigests) {
        self.report = Some(report);
    }

    /// Records the end of an earlier drive that died before it could. It was told to nobody, or by that drive itself; so it
    /// is not told again, but has its number and is there for those who ask what they missed.
    ///
    /// # Errors
    /// As [`Record::record`].
    pub fn close_unfinished(&mut self) -> Result<(), StoreError> {
        let state = self.state();
        let (unfinished, status) = (state.unfinished, state.status());
        drop(state);
        if unfinished {
            let reason = Some("the process that drove it ended before the drive did".to_owned());
            self.record(&JournalEvent::DriveFinished { status, reason })?;
            self.announce.pop_if(|last| matches!(last.event, Event::RunFinished { .. }));
        }
        Ok(())
    }

    /// Whether clients have something to be told at the next [`Record::sync`].
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.announce.is_empty()
    }

    /// Hands what was recorded to the kernel: it now outlives a crash of this process.
    ///
    /// # Errors
    /// What the disk refuses.
    pub fn write(&mut self) -> Result<(), StoreError> {
        self.journal.write()
    }

    /// Reads the whole journal and checks that it is what was written: line by line, to the last.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the line; what the disk refuses.
    pub fn check(&mut self) -> Result<(), StoreError> {
        self.write()?;
        let run_id = self.state().run_id.clone();
        let end = check_entries::<JournalEvent>(&self.paths, &run_id)?;
        if end.position == self.journal.position() {
            return Ok(());
        }
        let problem = format!("it ends with event {} and not as it was written", end.position.seq);
        Err(StoreError::corrupt(&self.paths.journal, None, problem))
    }

    /// Puts what was recorded on the disk, and gives the events that clients may now be told.
    ///
    /// # Errors
    /// What the disk refuses.
    pub fn sync(&mut self) -> Result<Vec<ProgressEvent>, StoreError> {
        self.journal.sync_blocking()?;
        let due = SNAPSHOT_INTERVAL.max(4 * u64::from(self.state().planned()));
        if self.since_snapshot >= due {
            self.save_snapshot()?;
        }
        Ok(std::mem::take(&mut self.announce))
    }

    /// Writes `state.json`. What it holds must have been synced.
    ///
    /// # Errors
    /// What the disk refuses.
    pub fn save_snapshot(&mut self) -> Result<(), StoreError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Borrowed<'a> {
            schema_version: u32,
            position: JournalPosition,
            state: &'a RunState,
            #[serde(skip_serializing_if = "Option::is_none")]
            report: Option<&'a ReportDigests>,
        }
        self.paths.require_in_place()?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let whole = Borrowed {
            schema_version: state.schema_version,
            position: self.journal.position(),
            state: &state,
            report: self.report.as_ref(),
        };
        snapshot::save(&self.paths.state, &whole, true)?;
        drop(state);
        self.since_snapshot = 0;
        Ok(())
    }
}

/// Whether an event changes nothing that the report of a finished run tells.
const fn leaves_report(event: &JournalEvent) -> bool {
    matches!(event, JournalEvent::DriveStarted { .. } | JournalEvent::DriveFinished { .. })
}

/// Reads a shared state. A panic elsewhere while it was being written cannot leave it half-written: events are folded
/// by moves after their checks.
pub fn read(state: &RwLock<RunState>) -> RwLockReadGuard<'_, RunState> {
    state.read().unwrap_or_else(PoisonError::into_inner)
}
