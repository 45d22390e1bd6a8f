//! Results of earlier runs: taken where nothing they depend on changed, judged again like any other, and kept.

use flowdrive_protocol::ids::WorkerId;
use flowdrive_protocol::time::Timestamp;

use super::Driver;
use crate::EngineError;
use crate::decide::cache::{self, CacheKey};
use crate::model::agent::{Agent, Assignment};
use crate::model::journal::JournalEvent;
use crate::model::outcome::{Ending, HandleKind, Outcome};
use crate::model::state::RunState;
use crate::store::cache::TaskCache;
use crate::store::canonical::sha256_hex;
use crate::store::{replace_file, worker};
use crate::view::preview::delegation;

impl Driver {
    fn cache_key(&self, state: &RunState, task: usize, agent: &Agent) -> Option<CacheKey> {
        // Most tasks are not cached, and to describe a delegation costs more than the rest.
        if !self.job.settings.incremental && state.spec(task).result_cache.is_none() {
            return None;
        }
        let delegation = delegation(state, task, agent, &self.job.delegator);
        cache::key(state, task, self.job.settings.incremental, &delegation).ok()
    }

    fn cache_of(&self, state: &RunState, task: usize) -> TaskCache {
        TaskCache::of(self.job.workspace.root(), &state.workflow.id, &state.tasks[task].id)
    }

    /// The result of an earlier run that may stand for this task's.
    pub(super) fn kept_result(&self, state: &RunState, task: usize, agent: &Agent) -> Option<String> {
        let key = self.cache_key(state, task, agent)?;
        self.cache_of(state, task).find(&key)
    }

    /// Takes an earlier run's result as this attempt's. Its dispatch is recorded; no agent starts.
    pub(super) fn take_kept(
        &mut self,
        task: usize,
        worker: &WorkerId,
        assignment: &Assignment,
        text: &str,
    ) -> Result<(), EngineError> {
        replace_file(&assignment.folder.result, text.as_bytes(), false)?;
        let bare = Outcome::bare(Ending::Completed, HandleKind::ResultCache, String::new(), Timestamp::now());
        let outcome = Outcome { result_digest: Some(sha256_hex(text)), ..bare };
        self.job.record.record(&JournalEvent::OutcomeRecorded {
            task: assignment.task_id.clone(),
            worker: worker.clone(),
            outcome: Box::new(outcome.clone()),
        })?;
        self.judge(task, worker, &outcome)
    }

    /// Keeps an accepted result for later runs. A run does not depend on that: a fault is a warning.
    pub(super) fn keep_result(&self, task: usize, worker: &WorkerId) {
        let state = self.job.record.state();
        let Some(attempt) = state.tasks[task].attempts.last() else { return };
        let Ok(agent) = self.job.agents.get(&attempt.agent) else { return };
        let Some(key) = self.cache_key(&state, task, agent) else { return };
        let text = worker::read_result(&self.job.record.paths.worker(worker));
        if let Ok(Some(text)) = text
            && let Err(fault) = self.cache_of(&state, task).keep(&key, &text)
        {
            tracing::warn!(task = %state.tasks[task].id, %fault, "the result was not kept for later runs");
        }
    }
}
