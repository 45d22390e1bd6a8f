//! Results of earlier runs: taken where nothing they depend on changed, judged again like any other, and kept.

use std::path::Path;

use flowdrive_protocol::ids::WorkerId;
use flowdrive_protocol::run::{CacheState, CacheVerdict};
use flowdrive_protocol::time::Timestamp;

use super::Driver;
use crate::EngineError;
use crate::decide::cache::{self, CacheKey};
use crate::delegate::Delegator;
use crate::model::agent::{Agent, Assignment};
use crate::model::journal::{DriveSettings, JournalEvent};
use crate::model::outcome::{Ending, HandleKind, Outcome};
use crate::model::state::RunState;
use crate::store::cache::TaskCache;
use crate::store::canonical::sha256_hex;
use crate::store::{replace_file, worker};

impl Driver {
    /// The result of an earlier run that may stand for this task's, and what is told of the search; nothing for a task
    /// whose result is not to be reused.
    pub(super) fn kept_result(
        &self,
        state: &RunState,
        task: usize,
        agent: &Agent,
    ) -> (Option<CacheState>, Option<String>) {
        let looked_up = lookup(state, task, &self.job.settings, agent, &self.job.delegator);
        let Some((told, text)) = looked_up else { return (None, None) };
        if text.is_some() && state.tasks[task].refusal.is_some() {
            // A result that was refused once is not taken again.
            let reason = Some("the result that was kept, or one after it, was refused".to_owned());
            return (Some(CacheState { state: CacheVerdict::Miss, reason }), None);
        }
        (Some(told), text)
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
        let Some(Ok(key)) = key(&state, task, &self.job.settings, agent, &self.job.delegator) else { return };
        let text = worker::read_result(&self.job.record.paths.worker(worker));
        if let Ok(Some(text)) = text
            && let Err(fault) = cache_of(&state, task).keep(&key, &text)
        {
            tracing::warn!(task = %state.tasks[task].id, %fault, "the result was not kept for later runs");
        }
    }
}

/// Looks for an earlier run's result that may stand for a task's: what is told of the search, and its text if it was
/// found. None for a task whose result is not to be reused.
pub(crate) fn lookup(
    state: &RunState,
    task: usize,
    settings: &DriveSettings,
    agent: &Agent,
    delegator: &Delegator,
) -> Option<(CacheState, Option<String>)> {
    let told = |state, reason: String| CacheState { state, reason: Some(reason) };
    let key = match key(state, task, settings, agent, delegator)? {
        Ok(key) => key,
        Err(reason) => return Some((told(CacheVerdict::Miss, reason), None)),
    };
    let kept = cache_of(state, task);
    Some(match kept.find(&key) {
        Some(text) => (told(CacheVerdict::Hit, "nothing it depends on changed".to_owned()), Some(text)),
        None => match kept.newest() {
            Some(newest) => (told(CacheVerdict::Miss, cache::difference(&key, &newest)), None),
            None => (told(CacheVerdict::Miss, "no result was kept yet".to_owned()), None),
        },
    })
}

/// What a task's result is looked up by, or why it has no key. None for a task whose result is not to be reused.
fn key(
    state: &RunState,
    task: usize,
    settings: &DriveSettings,
    agent: &Agent,
    delegator: &Delegator,
) -> Option<Result<CacheKey, String>> {
    // Before anything is hashed or redacted: a large run asks this for each of its tasks.
    if !settings.incremental && state.spec(task).result_cache.is_none() {
        return None;
    }
    let model = state.spec(task).model.as_deref().or(agent.model.as_deref());
    let delegation = format!(
        "{} {} {}",
        agent.name,
        model.unwrap_or_default(),
        delegator.describe(agent, model, state.spec(task).sandbox)
    );
    Some(cache::key(state, task, settings.incremental, &delegation))
}

fn cache_of(state: &RunState, task: usize) -> TaskCache {
    TaskCache::of(Path::new(&state.workspace), &state.workflow.id, &state.tasks[task].id)
}
