//! What a drive would do first, and with what.

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::ids::{AgentName, RunId};
use flowdrive_protocol::run::{
    CacheState, CacheVerdict, DrivePreview, NextAction, PlannedPhase, PlannedTask, TaskStatus,
};

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::Agents;
use crate::decide::cache;
use crate::decide::next::runnable_phase;
use crate::decide::next::width;
use crate::delegate::{Delegator, Usable};
use crate::model::agent::Agent;
use crate::model::journal::DriveSettings;
use crate::model::state::RunState;
use crate::store::cache::TaskCache;

/// Previews a run, or one that would be planned. `driver` names the process that drives it now, if any.
#[must_use]
pub fn preview(
    state: &RunState,
    planned: bool,
    settings: &DriveSettings,
    agents: &Agents,
    delegator: &Delegator,
    driver: Option<String>,
) -> DrivePreview {
    let usable = Usable::new(delegator.clone());
    let missing = |place: usize| {
        if state.spec(place).sub_workflow.is_some() {
            return None;
        }
        let name = state.spec(place).agent.as_ref().unwrap_or(&settings.agent);
        match agents.get(name) {
            Ok(agent) => usable.fault(agent).map(|reason| format!("agent {name} cannot be used: {reason}")),
            Err(fault) => Some(fault.to_string()),
        }
    };
    let left = |place: &usize| state.tasks[*place].status != TaskStatus::Completed;
    let order: Vec<usize> = state.phases.iter().flat_map(|phase| phase.tasks.iter().copied()).collect();
    let agent_configured = order.iter().filter(|place| left(place)).all(|place| missing(*place).is_none());

    let mut blockers: Vec<String> = driver.into_iter().collect();
    let budget = state.workflow.limits.token_budget;
    let next = runnable_phase(state).map(|place| &state.phases[place]).and_then(|phase| {
        let of = |status| phase.unsettled().iter().copied().find(|place| state.tasks[*place].status == status);
        of(TaskStatus::Running).or_else(|| of(TaskStatus::Pending))
    });
    let next_action = match next {
        None if state.completed() == state.planned() => {
            if state.terminal_commit().is_some() {
                NextAction::Complete
            } else {
                NextAction::Commit
            }
        }
        None => {
            let parked = state.tasks.iter().find(|task| task.status == TaskStatus::Failed);
            blockers.extend(parked.map(|task| format!("task {} is parked; close its feedback with retry", task.id)));
            NextAction::Blocked
        }
        Some(_) if budget > 0 && state.tokens_spent() >= budget => {
            blockers
                .push(format!("token budget exhausted: {} recorded tokens >= budget {budget}", state.tokens_spent()));
            NextAction::Blocked
        }
        Some(place) => match missing(place) {
            Some(fault) => {
                blockers.push(fault);
                NextAction::Blocked
            }
            None if state.tasks[place].status == TaskStatus::Running => NextAction::Fulfill,
            None => NextAction::Dispatch,
        },
    };
    // Redacting a command line costs more than all else here, and most tasks share theirs.
    let mut described: BTreeMap<(AgentName, Option<String>), String> = BTreeMap::new();
    let mut planned_task = |place: &usize| {
        let spec = state.spec(*place);
        let name = spec.agent.as_ref().unwrap_or(&settings.agent);
        let agent = agents.get(name).ok();
        PlannedTask {
            id: state.tasks[*place].id.clone(),
            status: state.tasks[*place].status,
            agent: Some(name.clone()),
            invocation: agent.map(|agent| {
                let model = spec.model.as_deref().or(agent.model.as_deref());
                let known = described.entry((name.clone(), model.map(str::to_owned)));
                known.or_insert_with(|| delegator.describe(agent, model)).clone()
            }),
            cache: match agent.filter(|_| left(place)) {
                Some(agent) => cache_state(state, *place, settings, agent, delegator),
                None => CacheState { state: CacheVerdict::Off, reason: None },
            },
            blockers: missing(*place).into_iter().filter(|_| left(place)).collect(),
        }
    };
    let open = state.planned() - state.completed() - state.parked();
    DrivePreview {
        schema_version: SCHEMA_VERSION,
        run_id: planned.then(|| -> RunId { state.run_id.clone() }),
        workflow_id: state.workflow.id.clone(),
        planned_workers: state.planned(),
        pending_workers: open,
        completed_workers: state.completed(),
        parked_workers: state.parked(),
        next_action,
        next_task_id: next.map(|place| state.tasks[place].id.clone()),
        next_phase: next.map(|place| state.tasks[place].phase.clone()),
        agent_configured,
        blockers,
        plan: state
            .phases
            .iter()
            .map(|phase| PlannedPhase {
                id: phase.id.clone(),
                title: phase.title.clone(),
                mode: phase.mode,
                width: width(state, phase, settings),
                status: phase.status(),
                tasks: phase.tasks.iter().map(&mut planned_task).collect(),
            })
            .collect(),
    }
}

/// Whether an earlier run's result would be taken, and why or why not.
fn cache_state(
    state: &RunState,
    place: usize,
    settings: &DriveSettings,
    agent: &Agent,
    delegator: &Delegator,
) -> CacheState {
    // Before anything is hashed or redacted: a large run asks this for each of its tasks.
    if !settings.incremental && state.spec(place).result_cache.is_none() {
        return CacheState { state: CacheVerdict::Off, reason: None };
    }
    let told = |state, reason: String| CacheState { state, reason: Some(reason) };
    let key = match cache::key(state, place, settings.incremental, &delegation(state, place, agent, delegator)) {
        Ok(key) => key,
        Err(reason) => return told(CacheVerdict::Miss, reason),
    };
    let kept = TaskCache::of(Path::new(&state.workspace), &state.workflow.id, &state.tasks[place].id);
    match kept.find(&key) {
        Some(_) => told(CacheVerdict::Hit, "nothing it depends on changed".to_owned()),
        None => match kept.newest() {
            Some(newest) => told(CacheVerdict::Miss, cache::difference(&key, &newest)),
            None => told(CacheVerdict::Miss, "no result was kept yet".to_owned()),
        },
    }
}

/// What a task is run with, as far as its result can depend on it; no secret is in it.
#[must_use]
pub fn delegation(state: &RunState, place: usize, agent: &Agent, delegator: &Delegator) -> String {
    let model = state.spec(place).model.as_deref().or(agent.model.as_deref());
    format!("{} {} {}", agent.name, model.unwrap_or_default(), delegator.describe(agent, model))
}
