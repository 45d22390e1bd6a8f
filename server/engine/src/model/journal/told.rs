//! What clients are told of what was written down. Must not tell anything that a replay of the journal would not.

use flowdrive_protocol::event::Event;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::TaskId;

use super::JournalEvent;
use crate::model::state::RunState;
use crate::workflow;

/// What clients are told of a journal event; `state` is the run with the event applied. Both a drive and a replay go
/// through here, so a replayed event is the one that was sent.
#[must_use]
pub fn client_events(event: &JournalEvent, state: &RunState, report_path: &str) -> Vec<Event> {
    use JournalEvent as J;
    let phase_of = |task: &TaskId| state.task_by_id(task).map(|index| state.phase_of(index).id.clone());
    match event {
        J::DriveStarted { resumed, .. } => vec![Event::RunStarted {
            workflow_id: state.workflow.id.to_string(),
            title: state.workflow.title.clone(),
            planned_workers: state.planned(),
            completed_workers: state.completed(),
            resumed: *resumed,
            warnings: if *resumed { Vec::new() } else { workflow::slips(&state.workflow, &state.inputs) },
        }],
        J::PhaseStarted { phase, width } => state
            .phases
            .iter()
            .filter(|candidate| candidate.id == *phase)
            .map(|found| Event::PhaseStarted {
                phase: phase.clone(),
                title: found.title.clone(),
                tasks: u32::try_from(found.tasks.len()).unwrap_or(u32::MAX),
                width: *width,
            })
            .collect(),
        J::TaskDispatched { task, worker, agent, attempt, cache, .. } => phase_of(task)
            .map(|phase| Event::TaskDispatched {
                task_id: task.clone(),
                worker_id: worker.clone(),
                phase,
                agent: agent.clone(),
                attempt: *attempt,
                cache: cache.clone(),
            })
            .into_iter()
            .collect(),
        J::TaskAccepted { task, worker, source, result, .. } => phase_of(task)
            .map(|phase| Event::TaskAccepted {
                task_id: task.clone(),
                worker_id: worker.clone(),
                phase,
                source: *source,
                summary: result.summary.chars().take(300).collect(),
                findings: u32::try_from(result.findings.len()).unwrap_or(u32::MAX),
                usage: result.usage.as_deref().cloned(),
            })
            .into_iter()
            .collect(),
        J::TaskRetrying { task, worker, attempts, max_attempts, code, reason, not_before, counted } => {
            vec![Event::TaskRetrying {
                task_id: task.clone(),
                worker_id: worker.clone(),
                attempt: attempts + u32::from(!counted),
                max_attempts: *max_attempts,
                code: code.clone(),
                reason: reason.clone(),
                not_before: *not_before,
            }]
        }
        J::TaskParked { task, worker, attempts, code, reason, feedback } => {
            let mut events: Vec<Event> = phase_of(task)
                .map(|phase| Event::TaskParked {
                    task_id: task.clone(),
                    worker_id: worker.clone(),
                    phase,
                    attempts: *attempts,
                    code: code.clone(),
                    reason: reason.clone(),
                })
                .into_iter()
                .collect();
            events.push(opened(feedback));
            events
        }
        J::FeedbackOpened { record } => vec![opened(record)],
        J::FeedbackClosed { feedback, also, closing } => std::iter::once(feedback)
            .chain(also)
            .map(|id| Event::FeedbackClosed { feedback_id: id.clone(), status: closing.status() })
            .collect(),
        J::PhaseFinished { phase } => vec![Event::PhaseFinished {
            phase: phase.clone(),
            completed: state
                .phases
                .iter()
                .find(|candidate| candidate.id == *phase)
                .map_or(0, |found| u32::try_from(found.tasks.len()).unwrap_or(u32::MAX)),
        }],
        J::Committed { commit } => vec![Event::Checkpoint {
            commit_id: commit.id.clone(),
            reason: commit.reason.clone(),
            verifier_gated: commit.verifier.is_some(),
        }],
        J::BudgetWarned { spent, budget } => vec![Event::BudgetWarning { spent: *spent, budget: *budget }],
        J::StopRequested { mode, by } => vec![Event::StopRequested { mode: *mode, by: by.clone() }],
        J::DriveFinished { status, reason } => vec![Event::RunFinished {
            status: *status,
            reason: reason.clone(),
            completed_workers: state.completed(),
            parked_workers: state.parked(),
            report_path: report_path.to_owned(),
        }],
        J::RunPlanned(_)
        | J::ProcessStarted { .. }
        | J::SessionKnown { .. }
        | J::OutcomeRecorded { .. }
        | J::TaskInterrupted { .. }
        | J::LoopDecided { .. } => Vec::new(),
    }
}

fn opened(record: &FeedbackRecord) -> Event {
    Event::FeedbackOpened {
        feedback_id: record.id.clone(),
        task_id: record.task_id.clone(),
        classification: record.classification,
        severity: record.severity,
        message: record.message.clone(),
    }
}
