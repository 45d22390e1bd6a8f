//! From a journal to a state, and to the events of it that clients are told: for the run's writer when it opens the
//! record, and for readers, who take no lock.

use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::time::Timestamp;
use serde::Deserialize;

use super::{ReportDigests, Snapshot};
use crate::model::journal::{JournalEvent, client_events};
use crate::model::state::{FoldError, RunState};
use crate::store::{Entry, JournalPosition, RunPaths, StoreError, read_entries_with, snapshot};

/// A run's state, read without lock: the snapshot and what the journal holds beyond it.
///
/// # Errors
/// As [`Record::open`].
pub fn read_state(paths: &RunPaths, run_id: &RunId) -> Result<RunState, StoreError> {
    let read_from = |mut fold: Fold| {
        let from = fold.position.clone();
        // A large run's state is not copied for the sake of a restart, which hardly ever comes.
        let mut restarted = false;
        read_entries_with(paths, run_id, from, &mut |entry| match entry {
            Some(entry) if !restarted => fold.take(paths, run_id, entry),
            Some(_) => {}
            None => restarted = true,
        })?;
        Ok((!restarted).then_some(fold))
    };
    match read_from(Fold::from_snapshot(paths, run_id)) {
        Ok(Some(fold)) => return fold.finish(paths),
        // A torn tail was cut off under our hands, or the snapshot is of another journal: all of it is read.
        Ok(None) | Err(StoreError::PositionUnknown { .. }) => {}
        Err(fault) => return Err(fault),
    }
    Fold::default().of_all(paths, run_id)?.finish(paths)
}

/// How far into the journal the snapshot goes, where there is one of this run.
pub(crate) fn snapshot_position(paths: &RunPaths, run_id: &RunId) -> Option<JournalPosition> {
    /// The rest is passed over, not taken in.
    #[derive(Deserialize)]
    struct Head {
        position: JournalPosition,
        state: Whose,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Whose {
        run_id: RunId,
    }
    let head = snapshot::load::<Head>(&paths.state)?;
    (head.state.run_id == *run_id).then_some(head.position)
}

/// The lifecycle events of a run after `since`, oldest first, `limit` at most; and whether there are more.
///
/// # Errors
/// As [`Record::open`].
pub fn replay(
    paths: &RunPaths,
    run_id: &RunId,
    since: u64,
    limit: usize,
) -> Result<(Vec<ProgressEvent>, bool), StoreError> {
    let mut fold = Fold { keep_after: Some(since), ..Fold::default() }.of_all(paths, run_id)?;
    if let Some(fault) = fold.fault.take() {
        return Err(fault);
    }
    let more = fold.kept.len() > limit;
    fold.kept.truncate(limit);
    Ok((fold.kept, more))
}

/// Folds entries as they are read. A fault is kept, since a visitor cannot stop the reading.
#[derive(Default)]
pub(super) struct Fold {
    state: Option<RunState>,
    pub(super) position: Option<JournalPosition>,
    pub(super) report: Option<ReportDigests>,
    pub(super) folded: u64,
    keep_after: Option<u64>,
    kept: Vec<ProgressEvent>,
    fault: Option<StoreError>,
}

impl Fold {
    pub(super) fn from_snapshot(paths: &RunPaths, run_id: &RunId) -> Self {
        let Some(found) = snapshot::load::<Snapshot>(&paths.state) else { return Self::default() };
        if found.state.run_id != *run_id {
            tracing::warn!(path = %paths.state.display(), "the snapshot is another run's; rebuilding it");
            return Self::default();
        }
        let mut state = found.state;
        state.reindex();
        Self { state: Some(state), position: Some(found.position), report: found.report, ..Self::default() }
    }

    /// Folds all of a journal, read without lock.
    fn of_all(mut self, paths: &RunPaths, run_id: &RunId) -> Result<Self, StoreError> {
        read_entries_with(paths, run_id, None, &mut |entry| match entry {
            Some(entry) => self.take(paths, run_id, entry),
            None => self.restart(),
        })?;
        Ok(self)
    }

    fn restart(&mut self) {
        (self.state, self.folded, self.fault) = (None, 0, None);
        self.kept.clear();
    }

    pub(super) fn take(&mut self, paths: &RunPaths, run_id: &RunId, entry: Entry<JournalEvent>) {
        if self.fault.is_some() {
            return;
        }
        self.folded += 1;
        let report = paths.report.to_string_lossy();
        let outcome = match (&mut self.state, entry.event) {
            (None, JournalEvent::RunPlanned(plan)) if plan.run_id != *run_id => Err(FoldError::OtherRun(plan.run_id)),
            (None, JournalEvent::RunPlanned(plan)) => {
                RunState::planned_at(*plan, entry.at).map(|state| self.state = Some(state))
            }
            (None, _) => Err(FoldError::NoPlan),
            (Some(state), event) => fold(state, &event, entry.at, &report).map(|events| {
                if let Some(after) = self.keep_after {
                    self.kept.extend(events.into_iter().filter(|event| event.seq > after));
                }
            }),
        };
        if let Err(fault) = outcome {
            self.fault = Some(unfit(paths, entry.seq, &fault));
        }
    }

    pub(super) fn finish(self, paths: &RunPaths) -> Result<RunState, StoreError> {
        match (self.fault, self.state) {
            (Some(fault), _) => Err(fault),
            (None, Some(state)) => Ok(state),
            (None, None) => Err(unfit(paths, 1, &FoldError::NoPlan)),
        }
    }
}

/// Folds an event in and numbers what clients are told of it.
pub(super) fn fold(
    state: &mut RunState,
    event: &JournalEvent,
    at: Timestamp,
    report: &str,
) -> Result<Vec<ProgressEvent>, FoldError> {
    state.apply(event, at)?;
    let events = client_events(event, state, report);
    Ok(events
        .into_iter()
        .map(|event| {
            state.event_seq += 1;
            ProgressEvent { run_id: state.run_id.clone(), seq: state.event_seq, at, event }
        })
        .collect())
}

pub(super) fn unfit(paths: &RunPaths, line: u64, fault: &FoldError) -> StoreError {
    let (path, line, problem) = (paths.journal.clone(), Some(line), fault.to_string());
    match fault {
        FoldError::TooNew(_) => StoreError::Unsupported { path, line, problem },
        _ => StoreError::Corrupt { path, line, problem },
    }
}
