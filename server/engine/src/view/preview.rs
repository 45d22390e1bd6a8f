//! What a drive would do first, and with what.

use std::collections::BTreeMap;

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::ids::{AgentName, RunId};
use flowdrive_protocol::run::{
    CacheState, CacheVerdict, DrivePreview, NextAction, PlannedLoop, PlannedPhase, PlannedSubWorkflow, PlannedTask,
    TaskStatus,
};

use super::forecast::Forecast;
use crate::decide::next::runnable_phase;
use crate::decide::next::width;
use crate::decide::{budget, looping};
use crate::delegate::Usable;
use crate::drive::cached::{Lookup, Nested};
use crate::model::state::{PhaseState, RunState};
use crate::workflow;

/// Previews a run, or one that would be planned. `driver` names the process that drives it now, if any. Of the plan's
/// tasks, `limit` from `offset` on are told.
#[must_use]
pub(crate) fn preview(
    state: &RunState,
    planned: bool,
    lookup: Lookup<'_>,
    driver: Option<String>,
    (offset, limit): (usize, usize),
) -> DrivePreview {
    let Lookup { settings, agents, delegator, workspace } = lookup;
    let usable = Usable::new(delegator.clone());
    let agent_of = |place: usize| state.spec(place).agent.as_ref().unwrap_or(&settings.agent);
    let unusable = |name: &AgentName| match agents.get(name) {
        Ok(agent) => usable.fault(agent).map(|reason| format!("agent {name} cannot be used: {reason}")),
        Err(fault) => Some(fault.to_string()),
    };
    let missing = |place: usize| {
        if state.spec(place).sub_workflow.is_some() {
            return None;
        }
        unusable(agent_of(place))
    };
    let left = |place: &usize| state.tasks[*place].status != TaskStatus::Completed;
    // A large run has few agents.
    let to_do = (0..state.tasks.len()).filter(|place| left(place) && state.spec(*place).sub_workflow.is_none());
    let wanted: BTreeMap<&AgentName, usize> = to_do.map(|place| (agent_of(place), place)).collect();
    let agent_configured = wanted.into_values().all(|place| missing(place).is_none());

    let mut blockers: Vec<String> = driver.into_iter().collect();
    let budget = budget::allowed(state, settings);
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
    let mut described: BTreeMap<(AgentName, Option<String>, &'static str), String> = BTreeMap::new();
    let mut forecast = Forecast::new(state, lookup);
    // Many tasks may name the same one.
    let mut nested: BTreeMap<&str, Result<PlannedSubWorkflow, String>> = BTreeMap::new();
    let mut planned_task = |phase: usize, place: &usize| {
        let (spec, name) = (state.spec(*place), agent_of(*place));
        // A task that is a workflow of its own starts no agent.
        let agent = agents.get(name).ok().filter(|_| spec.sub_workflow.is_none());
        let off = CacheState { state: CacheVerdict::Off, reason: None, depends_on: None };
        let inner = spec.sub_workflow.as_ref().map(|sub| {
            nested.entry(&sub.id).or_insert_with(|| {
                let nested = Nested::of(sub, workspace.root())?;
                Ok(PlannedSubWorkflow {
                    id: sub.id.clone(),
                    title: nested.workflows.first().map(|outer| outer.title.clone()).unwrap_or_default(),
                    tasks: u32::try_from(nested.tasks().count()).unwrap_or(u32::MAX),
                    agents: nested.agents(&settings.agent).into_iter().collect(),
                })
            })
        });
        let mut blockers: Vec<String> = missing(*place).into_iter().collect();
        match inner.as_deref() {
            Some(Err(fault)) => blockers.push(fault.clone()),
            Some(Ok(inner)) => blockers.extend(inner.agents.iter().filter_map(unusable)),
            None => {}
        }
        if !left(place) {
            blockers.clear();
        }
        PlannedTask {
            id: state.tasks[*place].id.clone(),
            status: state.tasks[*place].status,
            agent: spec.sub_workflow.is_none().then(|| name.clone()),
            invocation: spec.sub_workflow.as_ref().map(|own| format!("workflow {}", own.id)).or_else(|| {
                let agent = agent?;
                let model = spec.model.as_deref().or(agent.model.as_deref());
                let known = described.entry((name.clone(), model.map(str::to_owned), spec.sandbox.as_str()));
                Some(known.or_insert_with(|| delegator.describe(agent, model, spec.sandbox)).clone())
            }),
            cache: Some(*place).filter(left).and_then(|place| forecast.of(phase, place)).unwrap_or(off),
            sub_workflow: inner.and_then(|inner| inner.as_ref().ok()).cloned(),
            blockers,
        }
    };
    let open = state.planned() - state.completed() - state.parked();
    let (mut to_skip, mut to_tell) = (offset, limit);
    // The part of a phase's tasks that falls within what is asked for.
    let mut page = |phase: &PhaseState| {
        let skipped = to_skip.min(phase.tasks.len());
        let told = to_tell.min(phase.tasks.len() - skipped);
        (to_skip, to_tell) = (to_skip - skipped, to_tell - told);
        skipped..skipped + told
    };
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
        warnings: workflow::slips(&state.workflow, &state.inputs),
        plan: state
            .phases
            .iter()
            .enumerate()
            .map(|(place, phase)| PlannedPhase {
                id: phase.id.clone(),
                title: phase.title.clone(),
                mode: phase.mode,
                width: width(state, phase, settings),
                status: phase.status(),
                total_tasks: u32::try_from(phase.tasks.len()).unwrap_or(u32::MAX),
                looping: planned_loop(state, phase),
                tasks: phase.tasks[page(phase)].iter().map(|task| planned_task(place, task)).collect(),
            })
            .collect(),
    }
}

fn planned_loop(state: &RunState, phase: &PhaseState) -> Option<PlannedLoop> {
    let (round, spec) = (phase.looping.as_ref()?, state.loop_spec(phase)?);
    Some(PlannedLoop {
        round: round.round,
        max_rounds: spec.max_rounds.get(),
        until: looping::in_words(&spec.until),
        decided: round.decided,
    })
}
