//! How a drive ends: the run's status, the reason, and the last step.

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::run::{RunStatus, Step, StepAction, StepStatus, StopMode};

use super::budget;
use super::next::End;
use crate::model::state::RunState;

/// How a drive ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// How the run stands.
    pub status: RunStatus,
    /// Why, where there is something to say.
    pub reason: Option<String>,
    /// The last step.
    pub step: Option<Step>,
    /// Set when a stop ended it.
    pub stopped: Option<StopMode>,
}

/// Concludes. `by` is who asked for a stop; `committed` whether this drive made the terminal commit.
#[must_use]
pub fn conclude(state: &RunState, end: &End, by: &str, committed: bool) -> Conclusion {
    let resume = format!("resume: flowdrive resume {}", state.run_id);
    let blocked = |reason: String, task: Option<usize>| {
        let mut step = step(state, StepAction::Blocked, StepStatus::Blocked);
        step.reason = Some(reason.clone());
        step.task_id = task.map(|place| state.tasks[place].id.clone());
        step.phase = task.map(|place| state.tasks[place].phase.clone());
        Conclusion { status: RunStatus::Blocked, reason: Some(reason), step: Some(step), stopped: None }
    };
    match end {
        End::Complete => Conclusion {
            status: RunStatus::Complete,
            reason: (state.planned() == 0).then(|| "the workflow has no tasks: no agent was asked anything".to_owned()),
            step: (!committed).then(|| step(state, StepAction::Complete, StepStatus::Complete)),
            stopped: None,
        },
        End::Stopped(mode) => {
            let parked = match state.parked() {
                0 => String::new(),
                1 => " (1 task is parked)".to_owned(),
                n => format!(" ({n} tasks are parked)"),
            };
            let concluded = blocked(format!("drive interrupted by {by}{parked} — {resume}"), None);
            Conclusion { stopped: Some(*mode), ..concluded }
        }
        End::Once if state.parked() > 0 => parked(state),
        End::Once => Conclusion {
            status: RunStatus::InProgress,
            reason: Some(format!("one window was filled and settled — {resume}")),
            step: None,
            stopped: None,
        },
        End::Parked if state.parked() > 0 => parked(state),
        End::Parked => blocked("no eligible worker (a parked/failed worker blocks the phase gate)".to_owned(), None),
        End::Budget { task, spent, budget } => blocked(
            format!(
                "token budget exhausted: {spent} recorded tokens >= budget {budget} — refusing to spawn further agents — \
                 {resume} --token-budget N, with a higher N"
            ),
            Some(*task),
        ),
        End::NoAgent { task, agent } => blocked(
            format!("agent backend not configured: {agent} — refusing rather than fabricating a completion"),
            Some(*task),
        ),
        End::Unusable { task, agent, reason } => blocked(
            format!("agent {agent} cannot be used: {reason}; `flowdrive doctor` looks at every agent — {resume}"),
            Some(*task),
        ),
        End::Exhausted(bound) => {
            blocked(format!("drive reached max iteration limit ({bound}) before a terminal state — {resume}"), None)
        }
    }
}

/// The conclusion when the terminal commit was refused.
#[must_use]
pub fn commit_refused(state: &RunState, message: &str) -> Conclusion {
    let mut last = step(state, StepAction::Blocked, StepStatus::Blocked);
    last.reason = Some(message.to_owned());
    Conclusion { status: RunStatus::Blocked, reason: Some(message.to_owned()), step: Some(last), stopped: None }
}

/// Why a run that nobody drives stands as it does: as its last drive said, or, where that could not say anything, what its
/// record shows.
#[must_use]
pub fn standing(state: &RunState) -> Option<String> {
    if state.status() == RunStatus::Complete {
        return None;
    }
    match &state.ended {
        Some(ended) => ended.reason.clone(),
        None if state.unfinished => Some("interrupted: the server that drove it ended before the run did".to_owned()),
        None if state.settings.is_none() => Some("planned, and not driven yet".to_owned()),
        None => Some("a parked task is open again and waits to be run".to_owned()),
    }
}

/// The command that carries a run on that nobody drives. None when nothing is left to do.
#[must_use]
pub fn next_step(state: &RunState) -> Option<String> {
    if state.status() == RunStatus::Complete {
        return None;
    }
    let waits = state.parked() > 0 && state.open_feedback() > 0;
    let pending = state.planned() > state.completed() + state.parked();
    Some(if waits && !(pending && state.ended.is_none()) {
        format!("flowdrive feedback list {}", state.run_id)
    } else if state.settings.as_ref().is_some_and(|settings| budget::exhausted(state, settings).is_some()) {
        format!("flowdrive resume {} --token-budget N", state.run_id)
    } else {
        format!("flowdrive resume {}", state.run_id)
    })
}

fn parked(state: &RunState) -> Conclusion {
    let open = state.open_feedback();
    let tasks = if state.parked() == 1 {
        "1 task is parked".to_owned()
    } else {
        format!("{} tasks are parked", state.parked())
    };
    let records =
        if open == 1 { "1 feedback record is open".to_owned() } else { format!("{open} feedback records are open") };
    Conclusion { status: RunStatus::Parked, reason: Some(format!("{tasks}, {records}")), step: None, stopped: None }
}

/// A step of a run, nothing but its action and status filled in.
#[must_use]
pub fn step(state: &RunState, action: StepAction, status: StepStatus) -> Step {
    Step {
        schema_version: SCHEMA_VERSION,
        action,
        status,
        run_id: state.run_id.clone(),
        task_id: None,
        worker_id: None,
        phase: None,
        backend_id: None,
        attempts: None,
        handle_kind: None,
        reported_model: None,
        reason: None,
    }
}
