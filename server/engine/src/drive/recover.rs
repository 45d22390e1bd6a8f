//! What an earlier drive left open: outcomes that were recorded but not judged, ends that were noted but not recorded, and
//! attempts that never ended.

use std::collections::BTreeMap;

use flowdrive_protocol::ids::{TaskId, WorkerId};

use super::Driver;
use crate::EngineError;
use crate::model::journal::JournalEvent;
use crate::model::outcome::{Ending, HandleKind, Noted, Outcome};
use crate::store::canonical::sha256_hex;
use crate::store::{read_ended, worker};

impl Driver {
    /// Judges what was delivered, ends what still runs, and puts the rest back to wait. Costs no attempt.
    pub(super) fn recover(&mut self) -> Result<(), EngineError> {
        let state = self.job.record.state();
        let open: Vec<_> = state
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(place, task)| Some((place, task.id.clone(), task.open_attempt()?.clone())))
            .collect();
        drop(state);
        let mut noted: BTreeMap<WorkerId, Noted> = if open.iter().any(|(.., attempt)| attempt.outcome.is_none()) {
            read_ended(&self.job.record.paths)
        } else {
            BTreeMap::new()
        };
        for (place, id, attempt) in open {
            if let Some(outcome) = &attempt.outcome {
                self.judge_delivered(place, id, &attempt.worker, outcome)?;
                continue;
            }
            let left = self.job.delegator.end_left(attempt.process.as_ref(), attempt.marker.as_deref());
            let found = self.job.runtime.block_on(left);
            if found {
                tracing::warn!(task = %id, worker = %attempt.worker, "ended an agent that a dead server left behind");
            }
            let note = noted.remove(&attempt.worker).filter(|note| {
                let believed = note.is_of(&attempt);
                if !believed {
                    tracing::warn!(task = %id, worker = %attempt.worker, "a note of the agent's end does not fit the record");
                }
                believed
            });
            if let Some(Noted { outcome, .. }) = note {
                tracing::info!(task = %id, worker = %attempt.worker, "an agent had ended when its server died");
                let event = JournalEvent::OutcomeRecorded {
                    task: id.clone(),
                    worker: attempt.worker.clone(),
                    outcome: Box::new(outcome.clone()),
                };
                self.job.record.record(&event)?;
                self.judge_delivered(place, id, &attempt.worker, &outcome)?;
                continue;
            }
            let reason = "the server that ran it ended".to_owned();
            self.job.record.record(&JournalEvent::TaskInterrupted { task: id, worker: attempt.worker, reason })?;
        }
        self.job.record.write()?;
        Ok(())
    }

    /// Judges what an earlier drive's agent delivered, unless the machine lost it: results are not flushed before they are
    /// accepted, so a power cut can take one whose outcome is recorded. That is no fault of the agent's.
    fn judge_delivered(
        &mut self,
        place: usize,
        task: TaskId,
        worker: &WorkerId,
        outcome: &Outcome,
    ) -> Result<(), EngineError> {
        if outcome.ending == Ending::Completed && self.is_changed(worker, outcome) {
            tracing::warn!(%task, %worker, "the result of an agent that had ended is no longer what it left");
            let reason = "its result was lost before it was judged".to_owned();
            let event = JournalEvent::TaskInterrupted { task, worker: worker.clone(), reason };
            return Ok(self.job.record.record(&event)?);
        }
        self.judge(place, worker, outcome)
    }

    /// Whether a result is not the one that its agent's outcome tells of: gone, another, or there though it left none.
    fn is_changed(&self, worker: &WorkerId, outcome: &Outcome) -> bool {
        let found = worker::read_result(&self.job.record.paths.worker(worker));
        match (&outcome.result_digest, found) {
            (Some(left), Ok(Some(text))) => sha256_hex(&text) != *left,
            (Some(_), _) => true,
            (None, Ok(Some(_))) => matches!(outcome.handle, HandleKind::Process | HandleKind::Endpoint),
            (None, _) => false,
        }
    }
}
