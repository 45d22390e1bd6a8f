//! The fold: what each event makes of the state before it.
//!
//! Must not do anything but move what the event says into the state: a fold of the same journal is the same state.

use flowdrive_protocol::ids::{PhaseId, RunId, TaskId, WorkerId};
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;
use thiserror::Error;

use super::{Attempt, Ended, PhaseState, Refused, RunState, Verdict};
use crate::model::journal::{JournalEvent, STATE_VERSION};

/// Why an event does not fit the state before it: the journal was damaged, or not written by this program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FoldError {
    /// The first event is not the plan.
    #[error("the journal does not begin with the run's plan")]
    NoPlan,
    /// A second plan.
    #[error("the run is planned twice")]
    PlannedTwice,
    /// The plan names another run.
    #[error("the plan is for run {0}")]
    OtherRun(RunId),
    /// The run was written by a newer program.
    #[error("the run has state version {0}; this program knows versions up to {STATE_VERSION}")]
    TooNew(u32),
    /// An event names a task, phase, attempt or record that does not exist.
    #[error("an event names {what} {id}, which the run does not have")]
    Unknown {
        /// What was named.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// An event does not follow from the state before it.
    #[error("task {task} cannot be {event} while it is {status:?}")]
    Illegal {
        /// The task.
        task: TaskId,
        /// What was recorded.
        event: &'static str,
        /// How the task stands.
        status: TaskStatus,
    },
}

impl RunState {
    /// Takes an event in.
    ///
    /// # Errors
    /// [`FoldError`] when the event does not fit; the state is then unchanged.
    pub fn apply(&mut self, event: &JournalEvent, at: Timestamp) -> Result<(), FoldError> {
        use JournalEvent as J;
        match event {
            J::RunPlanned(_) => return Err(FoldError::PlannedTwice),
            J::DriveStarted { settings, .. } => {
                self.settings = Some(settings.clone());
                (self.ended, self.unfinished) = (None, true);
            }
            J::PhaseStarted { phase, .. } => self.phase_mut(phase)?.started = true,
            J::PhaseFinished { phase } => self.phase_mut(phase)?.finished = true,
            J::TaskDispatched { task, worker, agent, marker, prompt_digest, .. } => {
                let place = self.expect(task, "dispatched", &[TaskStatus::Pending])?;
                let state = &mut self.tasks[place];
                state.not_before = None;
                // One is most often all: room for more would be most of what a task takes.
                state.attempts.reserve_exact(1);
                state.attempts.push(Attempt {
                    worker: worker.clone(),
                    agent: agent.clone(),
                    started_at: at,
                    prompt_digest: prompt_digest.clone(),
                    marker: marker.clone(),
                    process: None,
                    session: None,
                    outcome: None,
                    verdict: Verdict::Open,
                });
                if marker.is_some() {
                    self.counts.count_agent(agent, |used| used.running += 1);
                }
                self.set_status(place, TaskStatus::Running);
            }
            J::ProcessStarted { task, worker, process } => {
                self.attempt_mut(task, worker)?.process = Some(process.clone());
            }
            J::SessionKnown { task, worker, session } => {
                self.attempt_mut(task, worker)?.session = Some(session.clone());
            }
            J::OutcomeRecorded { task, worker, outcome } => {
                let attempt = self.attempt_mut(task, worker)?;
                let ran = attempt.end_process();
                attempt.session = outcome.report.session.clone().or(attempt.session.take());
                attempt.outcome = Some(outcome.clone());
                let agent = attempt.agent.clone();
                if ran {
                    self.counts.count_agent(&agent, |used| used.running -= 1);
                }
                self.counts.count_outcome(&agent, outcome);
            }
            J::TaskAccepted { task, worker, source, result, .. } => {
                let place = self.expect(task, "accepted", &[TaskStatus::Running])?;
                self.attempt_mut(task, worker)?.judged(Verdict::Accepted);
                let state = &mut self.tasks[place];
                state.accepted = Some((**result).clone());
                state.accepted_at = Some(at);
                state.source = Some(*source);
                (state.refusal, state.guidance, state.transient) = (None, None, 0);
                self.set_status(place, TaskStatus::Completed);
            }
            J::TaskRetrying { task, worker, counted, code, reason, not_before, .. } => {
                let place = self.expect(task, "retried", &[TaskStatus::Running])?;
                self.attempt_mut(task, worker)?.judged(Verdict::Refused);
                let state = &mut self.tasks[place];
                if *counted {
                    state.failures += 1;
                    state.transient = 0;
                    state.refusal = Some(Refused { code: code.clone(), reason: reason.clone() });
                } else {
                    state.transient += 1;
                }
                state.not_before = *not_before;
                self.set_status(place, TaskStatus::Pending);
            }
            J::TaskParked { task, worker, attempts, code, reason, feedback } => {
                let place = self.expect(task, "parked", &[TaskStatus::Running])?;
                self.attempt_mut(task, worker)?.judged(Verdict::Refused);
                let state = &mut self.tasks[place];
                state.failures = *attempts;
                state.refusal = Some(Refused { code: code.clone(), reason: reason.clone() });
                self.set_status(place, TaskStatus::Failed);
                self.feedback.insert(feedback.id.to_string(), (**feedback).clone());
            }
            J::TaskInterrupted { task, worker, .. } => {
                let place = self.expect(task, "interrupted", &[TaskStatus::Running])?;
                let attempt = self.attempt_mut(task, worker)?;
                attempt.judged(Verdict::Interrupted);
                let (ran, agent) = (attempt.end_process(), attempt.agent.clone());
                if ran {
                    self.counts.count_agent(&agent, |used| used.running -= 1);
                }
                self.set_status(place, TaskStatus::Pending);
            }
            J::FeedbackOpened { record } => {
                self.feedback.insert(record.id.to_string(), (**record).clone());
            }
            J::FeedbackClosed { feedback, also, closing } => {
                let ids = || std::iter::once(feedback).chain(also);
                if let Some(unknown) = ids().find(|id| !self.feedback.contains_key(id.as_str())) {
                    return Err(FoldError::Unknown { what: "feedback record", id: unknown.to_string() });
                }
                ids().try_for_each(|id| self.close_feedback(id.as_str(), closing, at))?;
            }
            J::LoopDecided { phase, round, done, .. } => self.decide_loop(phase, *round, *done)?,
            J::Committed { commit } => self.commits.push(commit.clone()),
            J::BudgetWarned { budget, .. } => self.budget_warned = Some(*budget),
            J::StopRequested { .. } => {}
            J::DriveFinished { status, reason } => {
                self.ended = Some(Ended { status: *status, reason: reason.clone() });
                self.unfinished = false;
            }
        }
        self.updated_at = at;
        Ok(())
    }

    fn expect(&self, task: &TaskId, event: &'static str, allowed: &[TaskStatus]) -> Result<usize, FoldError> {
        let place = self.task_by_id(task).ok_or_else(|| FoldError::Unknown { what: "task", id: task.to_string() })?;
        let status = self.tasks[place].status;
        if allowed.contains(&status) {
            Ok(place)
        } else {
            Err(FoldError::Illegal { task: task.clone(), event, status })
        }
    }

    fn phase_mut(&mut self, id: &PhaseId) -> Result<&mut PhaseState, FoldError> {
        self.phases
            .iter_mut()
            .find(|phase| phase.id == *id)
            .ok_or_else(|| FoldError::Unknown { what: "phase", id: id.to_string() })
    }

    fn attempt_mut(&mut self, task: &TaskId, worker: &WorkerId) -> Result<&mut Attempt, FoldError> {
        let place = self.task_by_id(task).ok_or_else(|| FoldError::Unknown { what: "task", id: task.to_string() })?;
        self.tasks[place]
            .attempts
            .iter_mut()
            .rev()
            .find(|attempt| attempt.worker == *worker)
            .ok_or_else(|| FoldError::Unknown { what: "attempt", id: worker.to_string() })
    }

    pub(super) fn set_status(&mut self, place: usize, status: TaskStatus) {
        let before = std::mem::replace(&mut self.tasks[place].status, status);
        let id = &self.tasks[place].phase;
        let Some(phase) = self.phases.iter_mut().find(|phase| phase.id == *id) else { return };
        *phase.count(before) -= 1;
        *phase.count(status) += 1;
        match before {
            TaskStatus::Completed => self.counts.completed -= 1,
            TaskStatus::Failed => self.counts.parked -= 1,
            TaskStatus::Pending | TaskStatus::Running => {}
        }
        match status {
            TaskStatus::Completed => self.counts.completed += 1,
            TaskStatus::Failed => self.counts.parked += 1,
            TaskStatus::Pending | TaskStatus::Running => {
                phase.settled = phase.settled.min(phase.tasks.partition_point(|other| *other < place));
            }
        }
        phase.advance(&self.tasks);
    }
}

impl Attempt {
    /// Forgets its process; says whether there may have been one.
    fn end_process(&mut self) -> bool {
        self.process = None;
        self.marker.take().is_some()
    }
}
