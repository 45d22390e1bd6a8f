//! A run as clients see it: pure functions from the state to the shapes of the protocol.

mod forecast;
pub mod preview;

use std::collections::HashSet;

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::run::{PhaseView, RunSummary, RunView, TaskStatus, TaskView};
use serde_json::Value;

use crate::decide::finish;
use crate::model::state::RunState;
use crate::store::RunPaths;

/// One line of a list.
#[must_use]
pub fn summary(state: &RunState, driving: bool) -> RunSummary {
    RunSummary {
        run_id: state.run_id.clone(),
        workflow_id: state.workflow.id.clone(),
        title: state.workflow.title.clone(),
        status: state.status(),
        created_at: state.created_at,
        updated_at: state.updated_at,
        planned_workers: state.planned(),
        completed_workers: state.completed(),
        parked_workers: state.parked(),
        open_feedback: state.open_feedback(),
        driving,
        reason: if driving { None } else { finish::standing(state) },
        next: if driving { None } else { finish::next_step(state) },
        inputs: state.inputs.iter().map(|(name, value)| (name.clone(), brief(value))).collect(),
    }
}

/// Characters of a text, and items of a list or fields of an object, that a list of runs shows of an input.
const BRIEF_CHARS: usize = 200;
const BRIEF_ITEMS: usize = 10;

/// A value as a list shows it: long enough to know it again, short enough to be kept for thousands of runs.
fn brief(value: &Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > BRIEF_CHARS => {
            Value::String(text.chars().take(BRIEF_CHARS).chain(['…']).collect())
        }
        Value::Array(items) => items.iter().take(BRIEF_ITEMS).map(brief).collect(),
        Value::Object(fields) => {
            fields.iter().take(BRIEF_ITEMS).map(|(name, value)| (name.clone(), brief(value))).collect()
        }
        other => other.clone(),
    }
}

/// Which tasks of a run are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Only these; all when empty.
    pub ids: &'a [TaskId],
    /// So many of them are passed over.
    pub offset: usize,
    /// So many at most.
    pub limit: usize,
}

/// A run, and those of its tasks that are asked for.
#[must_use]
pub fn run(
    state: &RunState,
    paths: &RunPaths,
    driving: bool,
    asked: Asked<'_>,
    (events, more_events): (Vec<ProgressEvent>, bool),
) -> RunView {
    let ids: HashSet<&TaskId> = asked.ids.iter().collect();
    let order = state.phases.iter().flat_map(|phase| phase.tasks.iter().copied());
    let wanted = order.filter(|place| ids.is_empty() || ids.contains(&state.tasks[*place].id));
    RunView {
        schema_version: SCHEMA_VERSION,
        summary: summary(state, driving),
        inputs: state.inputs.clone(),
        phases: state
            .phases
            .iter()
            .map(|phase| PhaseView {
                id: phase.id.clone(),
                title: phase.title.clone(),
                mode: phase.mode,
                status: phase.status(),
                tasks: u32::try_from(phase.tasks.len()).unwrap_or(u32::MAX),
                completed: phase.completed(),
            })
            .collect(),
        tasks: wanted.skip(asked.offset).take(asked.limit).map(|place| task(state, place, paths)).collect(),
        total_tasks: state.planned(),
        last_seq: state.event_seq,
        events,
        more_events,
        report_path: paths.report.to_string_lossy().into_owned(),
        state_path: paths.state.to_string_lossy().into_owned(),
    }
}

fn task(state: &RunState, place: usize, paths: &RunPaths) -> TaskView {
    let task = &state.tasks[place];
    let attempt = task.attempts.last();
    let outcome = attempt.and_then(|attempt| attempt.outcome.as_deref());
    let accepted = task.accepted.as_ref();
    TaskView {
        id: task.id.clone(),
        phase: task.phase.clone(),
        status: task.status,
        attempts: u32::try_from(task.attempts.len()).unwrap_or(u32::MAX),
        worker_id: attempt.map(|attempt| attempt.worker.clone()),
        agent: attempt.map(|attempt| attempt.agent.clone()),
        started_at: attempt.map(|attempt| attempt.started_at),
        ended_at: outcome.map(|outcome| outcome.ended_at),
        source: task.source,
        summary: accepted.map(|result| result.summary.clone()),
        findings: accepted.map(|result| result.findings.clone()).unwrap_or_default(),
        result_path: accepted.map(|result| paths.dir.join(&result.path).to_string_lossy().into_owned()),
        failure: task.refusal.as_ref().filter(|_| task.status != TaskStatus::Completed).map(|r| r.reason.clone()),
        not_before: task.not_before.filter(|_| task.status == TaskStatus::Pending),
        reported_model: outcome.map(|o| o.report.model.clone().unwrap_or_else(|| "unreported".to_owned())),
        usage: outcome.and_then(|outcome| outcome.report.usage.as_deref().cloned()),
    }
}

/// Feedback records in task order; those of no task come last.
#[must_use]
pub fn feedback(state: &RunState, status: Option<FeedbackStatus>) -> Vec<FeedbackRecord> {
    let wanted = state.feedback.values().filter(|record| status.is_none_or(|status| record.status == status));
    let mut records: Vec<FeedbackRecord> = wanted.cloned().collect();
    let place =
        |record: &FeedbackRecord| record.task_id.as_ref().and_then(|task| state.task_by_id(task)).unwrap_or(usize::MAX);
    records.sort_by_key(|record| (place(record), record.id.clone()));
    records
}
