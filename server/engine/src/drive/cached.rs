//! Results of earlier runs: taken where nothing they depend on changed, judged again like any other, and kept.

use std::collections::BTreeSet;
use std::path::Path;

use flowdrive_protocol::ids::{AgentName, WorkerId};
use flowdrive_protocol::outcome::Evidence;
use flowdrive_protocol::run::{CacheState, CacheVerdict};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::{Sandbox, SubWorkflow, Task, Workflow};
use serde_json::{Value, json};

use super::judge::OnDisk;
use super::{Driver, child_run_id};
use crate::EngineError;
use crate::accept::finding::FINDING_EVIDENCE;
use crate::accept::grounds;
use crate::accept::parse::HARVESTED_EVIDENCE;
use crate::config::Agents;
use crate::decide::cache::{self, CacheKey};
use crate::delegate::Delegator;
use crate::model::agent::{Agent, Assignment};
use crate::model::journal::{DriveSettings, JournalEvent};
use crate::model::outcome::{Ending, HandleKind, Outcome};
use crate::model::state::RunState;
use crate::record::read_state;
use crate::store::cache::{Kept, TaskCache};
use crate::store::canonical::sha256_hex;
use crate::store::{Workspace, replace_file, worker};
use crate::workflow::{self, MAX_DEPTH};

impl Driver {
    /// The result of an earlier run that may stand for this task's, and what is told of the search; nothing for a task
    /// whose result is not to be reused.
    pub(super) fn kept_result(
        &self,
        state: &RunState,
        task: usize,
        agent: &Agent,
    ) -> (Option<CacheState>, Option<String>) {
        let looked_up = self.lookup().find(state, task, agent, || cache::upstream(state, task));
        let Some((told, text)) = looked_up else { return (None, None) };
        if text.is_some() && state.tasks[task].refusal.is_some() {
            // A result that was refused once is not taken again.
            return (Some(refused_before()), None);
        }
        (Some(told), text)
    }

    fn lookup(&self) -> Lookup<'_> {
        Lookup {
            settings: &self.job.settings,
            agents: &self.job.agents,
            delegator: &self.job.delegator,
            workspace: &self.job.workspace,
        }
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
        let upstream = || cache::upstream(&state, task);
        let Some(Ok(key)) = self.lookup().key(&state, task, agent, upstream) else { return };
        // Looked at by incremental drives alone, which take nothing that another kept.
        let cited = self.job.settings.incremental.then(|| cited(&state, task, &self.job.workspace)).flatten();
        let stands_on = cited.and_then(|cited| grounds::grounds(&cited, &OnDisk(&self.job.workspace)));
        let text = worker::read_result(&self.job.record.paths.worker(worker));
        if let Ok(Some(text)) = text
            && let Err(fault) = cache_of(&state, task).keep(&key, Kept { text, stands_on })
        {
            tracing::warn!(task = %state.tasks[task].id, %fault, "the result was not kept for later runs");
        }
    }
}

/// All that a task's result cites, and, where it is a workflow of its own, what the results of its tasks do. None where that
/// is not all: lists of evidence are cut at some length.
fn cited(state: &RunState, task: usize, workspace: &Workspace) -> Option<Vec<Evidence>> {
    let accepted = state.tasks[task].accepted.as_ref()?;
    let mut cited: Vec<Evidence> = accepted.evidence.clone();
    if state.spec(task).sub_workflow.is_some() {
        let id = child_run_id(state, task)?;
        let child = read_state(&workspace.existing_run(&id).ok()?, &id).ok()?;
        for place in 0..child.tasks.len() {
            cited.extend(self::cited(&child, place, workspace)?);
        }
        return Some(cited);
    }
    let cut = cited.len() >= HARVESTED_EVIDENCE
        || accepted.findings.iter().any(|finding| finding.evidence.len() >= FINDING_EVIDENCE);
    cited.extend(accepted.findings.iter().flat_map(|finding| finding.evidence.iter().cloned()));
    (!cut).then_some(cited)
}

/// What is told of a task whose kept result, or one after it, did not hold.
pub(crate) fn refused_before() -> CacheState {
    miss("the result that was kept, or one after it, was refused".to_owned())
}

fn miss(reason: String) -> CacheState {
    CacheState { state: CacheVerdict::Miss, reason: Some(reason), depends_on: None }
}

/// What results are looked up with: the same for a drive and for a preview of it.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    /// What was asked.
    pub(crate) settings: &'a DriveSettings,
    /// The agents.
    pub(crate) agents: &'a Agents,
    /// Says how each is called.
    pub(crate) delegator: &'a Delegator,
    /// What results cite.
    pub(crate) workspace: &'a Workspace,
}

impl Lookup<'_> {
    /// Looks for an earlier run's result that may stand for a task's: what is told of the search, and its text if it was
    /// found. None for a task whose result is not to be reused.
    pub(crate) fn find(
        self,
        state: &RunState,
        task: usize,
        agent: &Agent,
        upstream: impl FnOnce() -> Result<Value, String>,
    ) -> Option<(CacheState, Option<String>)> {
        let key = match self.key(state, task, agent, upstream)? {
            Ok(key) => key,
            Err(reason) => return Some((miss(reason), None)),
        };
        let kept = cache_of(state, task);
        Some(match kept.find(&key) {
            // With `resultCache` the workflow's author says what a result depends on.
            Some(found) => match self.settings.incremental.then(|| self.other_ground(&found)).flatten() {
                Some(reason) => (miss(reason), None),
                None => {
                    let reason = Some("nothing it depends on changed".to_owned());
                    (CacheState { state: CacheVerdict::Hit, reason, depends_on: None }, Some(found.text))
                }
            },
            None => match kept.newest() {
                Some(newest) => (miss(cache::difference(&key, &newest)), None),
                None => (miss("no result was kept yet".to_owned()), None),
            },
        })
    }

    /// Why a kept result may not stand any more, for all that it cites.
    fn other_ground(self, kept: &Kept) -> Option<String> {
        let Some(stands_on) = &kept.stands_on else { return Some("what it cites cannot be compared".to_owned()) };
        let place = grounds::changed(stands_on, &OnDisk(self.workspace))?;
        Some(format!("what it cites changed: {place}"))
    }

    /// Whether a task's result may be reused at all. Asked before anything is hashed or redacted: a large run asks this for
    /// each of its tasks.
    pub(crate) fn applies(self, state: &RunState, task: usize) -> bool {
        self.settings.incremental || state.spec(task).result_cache.is_some()
    }

    /// What a task's result is looked up by, or why it has no key. None for a task whose result is not to be reused.
    fn key(
        self,
        state: &RunState,
        task: usize,
        agent: &Agent,
        upstream: impl FnOnce() -> Result<Value, String>,
    ) -> Option<Result<CacheKey, String>> {
        if !self.applies(state, task) {
            return None;
        }
        let spec = state.spec(task);
        let inner = match spec.sub_workflow.as_ref().map(|sub| self.inner(state, sub)).transpose() {
            Ok(inner) => inner,
            Err(reason) => return Some(Err(reason)),
        };
        let model = spec.model.as_deref().or(agent.model.as_deref());
        let delegation = format!("{} {} {}", agent.name, model.unwrap_or_default(), self.described(agent, model, spec));
        Some(cache::key(state, task, self.settings.incremental, &delegation, inner.as_ref(), upstream))
    }

    /// What a sub-workflow's result depends on besides its parent: every workflow it leads to, as it is now, and what the
    /// agents are that their tasks go to.
    fn inner(self, state: &RunState, sub: &SubWorkflow) -> Result<Value, String> {
        let nested = Nested::of(sub, Path::new(&state.workspace))?;
        let agents: Vec<Value> = (nested.agents(&self.settings.agent).iter())
            .map(|name| match self.agents.get(name) {
                Ok(agent) => {
                    let model = agent.model.as_deref();
                    json!([name, model, self.delegator.describe(agent, model, Sandbox::default())])
                }
                Err(_) => json!([name]),
            })
            .collect();
        Ok(json!([sub, nested.workflows, agents]))
    }

    fn described(self, agent: &Agent, model: Option<&str>, spec: &Task) -> String {
        self.delegator.describe(agent, model, spec.sandbox)
    }
}

/// The workflows that a task in place of an agent leads to.
pub(crate) struct Nested {
    /// Outermost first; those inside one follow it.
    pub(crate) workflows: Vec<Workflow>,
}

impl Nested {
    /// Loads them. How deep they go was checked when the outermost was.
    pub(crate) fn of(sub: &SubWorkflow, workspace: &Path) -> Result<Self, String> {
        let mut workflows = Vec::new();
        let mut to_load = vec![(sub.clone(), 0)];
        while let Some((sub, depth)) = to_load.pop() {
            if depth > MAX_DEPTH {
                return Err(format!("the workflow {} lies too deep", sub.id));
            }
            let loaded = workflow::load_sub(&sub, workspace)
                .map_err(|fault| format!("its workflow {} cannot be loaded: {fault}", sub.id))?;
            let tasks = loaded.workflow.phases.iter().flat_map(|phase| &phase.tasks);
            to_load.extend(tasks.filter_map(|task| Some((task.sub_workflow.clone()?, depth + 1))));
            workflows.push(loaded.workflow);
        }
        Ok(Self { workflows })
    }

    /// The tasks that go to agents.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Task> {
        let tasks = self.workflows.iter().flat_map(|workflow| &workflow.phases).flat_map(|phase| &phase.tasks);
        tasks.filter(|task| task.sub_workflow.is_none())
    }

    /// Which agents those are, where tasks that name none go to `default`.
    pub(crate) fn agents(&self, default: &AgentName) -> BTreeSet<AgentName> {
        self.tasks().map(|task| task.agent.as_ref().unwrap_or(default).clone()).collect()
    }
}

fn cache_of(state: &RunState, task: usize) -> TaskCache {
    TaskCache::of(Path::new(&state.workspace), &state.workflow.id, &state.tasks[task].id)
}
