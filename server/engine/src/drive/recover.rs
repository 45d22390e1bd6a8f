//! What an earlier drive left open: outcomes that were recorded but not judged, and attempts that never ended.

use super::Driver;
use crate::EngineError;
use crate::model::journal::JournalEvent;
use crate::model::state::Verdict;

impl Driver {
    /// Judges what was delivered, ends what still runs, and puts the rest back to wait. Costs no attempt.
    pub(super) fn recover(&mut self) -> Result<(), EngineError> {
        let state = self.job.record.state();
        let open: Vec<_> = state
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(place, task)| {
                let attempt = task.attempts.last().filter(|attempt| attempt.verdict == Verdict::Open)?;
                Some((place, task.id.clone(), attempt.clone()))
            })
            .collect();
        drop(state);
        for (place, id, attempt) in open {
            if let Some(outcome) = &attempt.outcome {
                self.judge(place, &attempt.worker, outcome)?;
                continue;
            }
            let delegator = &self.job.delegator;
            let found = match (&attempt.process, &attempt.marker) {
                (Some(process), _) => self.job.runtime.block_on(delegator.end_orphan(process)),
                (None, Some(marker)) => self.job.runtime.block_on(delegator.end_marked(marker)),
                (None, None) => false,
            };
            if found {
                tracing::warn!(task = %id, worker = %attempt.worker, "ended an agent that a dead server left behind");
            }
            let reason = "the server that ran it ended".to_owned();
            self.job.record.record(&JournalEvent::TaskInterrupted { task: id, worker: attempt.worker, reason })?;
        }
        self.job.record.write()?;
        Ok(())
    }
}
