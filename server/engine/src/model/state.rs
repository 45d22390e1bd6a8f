//! A run's state: the fold of its journal.
//!
//! Must not depend on the order in which agents finished: everything is kept in task order, and ids derive from task
//! and attempt. Two runs with the same outcomes have the same state, times aside.

use std::collections::BTreeMap;

use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{AgentName, InputName, NodeId, PhaseId, RunId, TaskId, WorkerId};
use flowdrive_protocol::run::{PhaseStatus, RunStatus, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::{Loop, PhaseMode, Task, Workflow};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::journal::{AcceptedResult, Commit, DriveSettings, JournalEvent, RunPlanned, STATE_VERSION, TERMINAL_REASON};
use super::outcome::{Outcome, ProcessIdentity};

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunState {
    /// [`STATE_VERSION`] of the writer.
    pub schema_version: u32,
    /// The run.
    pub run_id: RunId,
    /// Its workflow.
    pub workflow: Workflow,
    /// `bundled`, `inline`, or the file it was read from.
    pub workflow_source: String,
    /// Its inputs.
    pub inputs: BTreeMap<InputName, serde_json::Value>,
    /// The folder it is about.
    pub workspace: String,
    /// When it was planned.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its phases, in the order they run.
    pub phases: Vec<PhaseState>,
    /// Its tasks. A task's place never changes; later rounds of a loop are added at the end.
    pub tasks: Vec<TaskState>,
    /// Its feedback records, by id.
    pub feedback: BTreeMap<String, FeedbackRecord>,
    /// Its commits.
    pub commits: Vec<Commit>,
    /// Lifecycle events sent so far.
    pub event_seq: u64,
    /// The newest drive's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<DriveSettings>,
    /// How the newest drive ended; absent while one is under way, and after one that died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Whether a drive began and did not say that it ended: one is under way, or died.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// Place of each task by its id. Not stored: made anew at load.
    #[serde(skip)]
    index: BTreeMap<TaskId, usize>,
    /// Counts, so that asking for them does not walk the tasks. Not stored: made anew at load.
    #[serde(skip)]
    counts: Counts,
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// How the run stood.
    pub status: RunStatus,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    completed: u32,
    parked: u32,
    tokens: u64,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseState {
    /// Its id.
    pub id: PhaseId,
    /// Its name for people.
    pub title: String,
    /// How its tasks run.
    pub mode: PhaseMode,
    /// Places of its tasks in [`RunState::tasks`].
    pub tasks: Vec<usize>,
    /// Whether `PhaseStarted` was recorded.
    #[serde(default)]
    pub started: bool,
    /// Whether `PhaseFinished` was recorded.
    #[serde(default)]
    pub finished: bool,
    /// For a phase that loops, and each of its later rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looping: Option<LoopState>,
    /// Tasks accepted. Not stored: made anew at load.
    #[serde(skip)]
    completed: u32,
    /// Tasks that wait or run. Not stored: made anew at load.
    #[serde(skip)]
    open: u32,
    /// Tasks parked. Not stored: made anew at load.
    #[serde(skip)]
    parked: u32,
    /// Every task before this one in `tasks` is accepted or parked, so that looking for the next one costs the same in
    /// a phase of ten thousand. Not stored: made anew at load.
    #[serde(skip)]
    settled: usize,
}

/// Where a loop stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopState {
    /// The phase the loop is declared on.
    pub origin: PhaseId,
    /// This phase's round, from 1.
    pub round: u32,
    /// Whether the decision after this round was made.
    pub decided: bool,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    /// Its id.
    pub id: TaskId,
    /// Place of its phase in [`Workflow::phases`], and of its definition there.
    pub spec: (usize, usize),
    /// Its phase.
    pub phase: PhaseId,
    /// How it stands.
    pub status: TaskStatus,
    /// Failed attempts that count, since it was last opened.
    pub failures: u32,
    /// Transient faults in a row.
    pub transient: u32,
    /// Its attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What the next attempt is told besides the prompt: what was refused, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refused>,
    /// What a person told it when reopening it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// When the next attempt may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The accepted result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedResult>,
    /// When it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// Where the accepted result came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ResultSource>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The fault's code.
    pub code: String,
    /// In a sentence.
    pub reason: String,
}

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its id.
    pub worker: WorkerId,
    /// The agent.
    pub agent: AgentName,
    /// When it was dispatched.
    pub started_at: Timestamp,
    /// SHA-256 of its `input.md`.
    pub prompt_digest: String,
    /// What marks its agent's processes, while no outcome is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// Its process, while no outcome is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// The agent's own session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// How it was judged.
    pub verdict: Verdict,
}

/// How an attempt was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Not yet.
    Open,
    /// Its result passed.
    Accepted,
    /// It failed, or its result was refused.
    Refused,
    /// It was ended from outside.
    Interrupted,
}

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
    /// The state right after planning.
    ///
    /// # Errors
    /// [`FoldError::TooNew`] when a newer program wrote it.
    pub fn planned_at(plan: RunPlanned, at: Timestamp) -> Result<Self, FoldError> {
        if plan.schema_version > STATE_VERSION {
            return Err(FoldError::TooNew(plan.schema_version));
        }
        let mut tasks = Vec::new();
        let mut phases = Vec::new();
        for (p, phase) in plan.workflow.phases.iter().enumerate() {
            let mut places = Vec::with_capacity(phase.tasks.len());
            for (t, task) in phase.tasks.iter().enumerate() {
                places.push(tasks.len());
                tasks.push(TaskState::new(task.id.clone(), (p, t), phase.id.clone()));
            }
            phases.push(PhaseState {
                id: phase.id.clone(),
                title: phase.title.clone().unwrap_or_else(|| phase.id.to_string()),
                mode: phase.mode,
                tasks: places,
                started: false,
                finished: false,
                looping: phase.looping.as_ref().map(|_| LoopState {
                    origin: phase.id.clone(),
                    round: 1,
                    decided: false,
                }),
                completed: 0,
                open: 0,
                parked: 0,
                settled: 0,
            });
        }
        let mut state = Self {
            schema_version: plan.schema_version,
            run_id: plan.run_id,
            workflow: plan.workflow,
            workflow_source: plan.workflow_source,
            inputs: plan.inputs,
            workspace: plan.workspace,
            created_at: at,
            updated_at: at,
            phases,
            tasks,
            feedback: BTreeMap::new(),
            commits: Vec::new(),
            event_seq: 0,
            settings: None,
            ended: None,
            unfinished: false,
            index: BTreeMap::new(),
            counts: Counts::default(),
        };
        state.reindex();
        Ok(state)
    }

    /// Makes what is not stored anew. To be called after a snapshot was read.
    pub fn reindex(&mut self) {
        self.index = self.tasks.iter().enumerate().map(|(place, task)| (task.id.clone(), place)).collect();
        self.counts = Counts::default();
        for phase in &mut self.phases {
            let statuses = phase.tasks.iter().map(|place| self.tasks[*place].status);
            (phase.completed, phase.open, phase.parked, phase.settled) = (0, 0, 0, 0);
            for status in statuses {
                match status {
                    TaskStatus::Completed => phase.completed += 1,
                    TaskStatus::Pending | TaskStatus::Running => phase.open += 1,
                    TaskStatus::Failed => phase.parked += 1,
                }
            }
            phase.advance(&self.tasks);
        }
        for task in &self.tasks {
            match task.status {
                TaskStatus::Completed => self.counts.completed += 1,
                TaskStatus::Failed => self.counts.parked += 1,
                TaskStatus::Pending | TaskStatus::Running => {}
            }
            self.counts.tokens += task.attempts.iter().map(Attempt::tokens).sum::<u64>();
        }
    }

    /// Tasks in the run.
    #[must_use]
    pub fn planned(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }

    /// Tasks accepted.
    #[must_use]
    pub const fn completed(&self) -> u32 {
        self.counts.completed
    }

    /// Tasks parked.
    #[must_use]
    pub const fn parked(&self) -> u32 {
        self.counts.parked
    }

    /// Tokens spent, as far as agents reported them, failed attempts included.
    #[must_use]
    pub const fn tokens_spent(&self) -> u64 {
        self.counts.tokens
    }

    /// Place of a task.
    #[must_use]
    pub fn task_by_id(&self, id: &TaskId) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// A task's definition.
    #[must_use]
    pub fn spec(&self, task: usize) -> &Task {
        let (phase, place) = self.tasks[task].spec;
        &self.workflow.phases[phase].tasks[place]
    }

    /// The phase a task belongs to.
    #[must_use]
    pub fn phase_of(&self, task: usize) -> &PhaseState {
        let id = &self.tasks[task].phase;
        self.phases.iter().find(|phase| phase.id == *id).unwrap_or(&self.phases[0])
    }

    /// The loop a phase belongs to, as its origin declares it.
    #[must_use]
    pub fn loop_spec(&self, phase: &PhaseState) -> Option<&Loop> {
        let origin = &phase.looping.as_ref()?.origin;
        self.workflow.phases.iter().find(|spec| spec.id == *origin)?.looping.as_ref()
    }

    /// The commit that ends the run, if it was made.
    #[must_use]
    pub fn terminal_commit(&self) -> Option<&Commit> {
        self.commits.iter().find(|commit| commit.reason == TERMINAL_REASON)
    }

    /// Feedback records that wait for a person.
    #[must_use]
    pub fn open_feedback(&self) -> u32 {
        let open = self.feedback.values().filter(|record| record.status == FeedbackStatus::Open).count();
        u32::try_from(open).unwrap_or(u32::MAX)
    }

    /// How the run stands, whether or not it is being driven.
    #[must_use]
    pub fn status(&self) -> RunStatus {
        if self.terminal_commit().is_some() && self.completed() == self.planned() {
            return RunStatus::Complete;
        }
        match &self.ended {
            Some(ended) if ended.status != RunStatus::Complete => ended.status,
            _ => RunStatus::InProgress,
        }
    }

    /// The node that stands for a task's verified result.
    #[must_use]
    pub fn verifier_node(&self, task: usize) -> Option<NodeId> {
        super::node::node_id(&self.run_id, "verifier", self.tasks[task].id.as_str())
    }

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
                (attempt.process, attempt.marker) = (None, None);
                attempt.session = outcome.report.session.clone().or(attempt.session.take());
                attempt.outcome = Some(outcome.clone());
                let tokens = attempt.tokens();
                self.counts.tokens += tokens;
            }
            J::TaskAccepted { task, worker, source, result, .. } => {
                let place = self.expect(task, "accepted", &[TaskStatus::Running])?;
                self.attempt_mut(task, worker)?.verdict = Verdict::Accepted;
                let state = &mut self.tasks[place];
                state.accepted = Some((**result).clone());
                state.accepted_at = Some(at);
                state.source = Some(*source);
                (state.refusal, state.guidance, state.transient) = (None, None, 0);
                self.set_status(place, TaskStatus::Completed);
            }
            J::TaskRetrying { task, worker, counted, code, reason, not_before, .. } => {
                let place = self.expect(task, "retried", &[TaskStatus::Running])?;
                self.attempt_mut(task, worker)?.verdict = Verdict::Refused;
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
                self.attempt_mut(task, worker)?.verdict = Verdict::Refused;
                let state = &mut self.tasks[place];
                state.failures = *attempts;
                state.refusal = Some(Refused { code: code.clone(), reason: reason.clone() });
                self.set_status(place, TaskStatus::Failed);
                self.feedback.insert(feedback.id.to_string(), (**feedback).clone());
            }
            J::TaskInterrupted { task, worker, .. } => {
                let place = self.expect(task, "interrupted", &[TaskStatus::Running])?;
                let attempt = self.attempt_mut(task, worker)?;
                attempt.verdict = Verdict::Interrupted;
                (attempt.process, attempt.marker) = (None, None);
                self.set_status(place, TaskStatus::Pending);
            }
            J::FeedbackOpened { record } => {
                self.feedback.insert(record.id.to_string(), (**record).clone());
            }
            J::FeedbackClosed { feedback, closing } => self.close_feedback(feedback.as_str(), closing, at)?,
            J::LoopDecided { phase, round, done, .. } => self.decide_loop(phase, *round, *done)?,
            J::Committed { commit } => self.commits.push(commit.clone()),
            J::StopRequested { .. } => {}
            J::DriveFinished { status, reason } => {
                self.ended = Some(Ended { status: *status, reason: reason.clone() });
                self.unfinished = false;
            }
        }
        self.updated_at = at;
        Ok(())
    }

    fn close_feedback(&mut self, id: &str, closing: &super::journal::Closing, at: Timestamp) -> Result<(), FoldError> {
        let record = self
            .feedback
            .get_mut(id)
            .ok_or_else(|| FoldError::Unknown { what: "feedback record", id: id.to_owned() })?;
        record.status = closing.status();
        record.updated_at = at;
        record.resolution = Some(closing.resolution);
        record.resolved_by_node_id = closing.node.clone();
        record.resolved_at = (record.status == FeedbackStatus::Resolved).then_some(at);
        record.resolution_note = closing.message.clone().or(record.resolution_note.take());
        record.guidance.clone_from(&closing.guidance);
        for evidence in &closing.evidence {
            if !record.evidence.iter().any(|known| known.locator == evidence.locator) {
                record.evidence.push(evidence.clone());
            }
        }
        for artifact in &closing.artifacts {
            if !record.artifacts.contains(artifact) {
                record.artifacts.push(artifact.clone());
            }
        }
        let task = record.task_id.clone();
        if closing.resolution == Resolution::Retry
            && let Some(place) = task.and_then(|task| self.task_by_id(&task))
            && self.tasks[place].status == TaskStatus::Failed
        {
            let state = &mut self.tasks[place];
            (state.failures, state.transient, state.not_before) = (0, 0, None);
            state.guidance.clone_from(&closing.guidance);
            self.set_status(place, TaskStatus::Pending);
            self.ended = None;
        }
        Ok(())
    }

    fn decide_loop(&mut self, origin: &PhaseId, round: u32, done: bool) -> Result<(), FoldError> {
        let unknown = || FoldError::Unknown { what: "loop round", id: format!("{origin} round {round}") };
        let place = self
            .phases
            .iter()
            .position(|phase| phase.looping.as_ref().is_some_and(|l| l.origin == *origin && l.round == round))
            .ok_or_else(unknown)?;
        let spec_phase = self.workflow.phases.iter().position(|spec| spec.id == *origin).ok_or_else(unknown)?;
        if let Some(looping) = &mut self.phases[place].looping {
            looping.decided = true;
        }
        if done {
            return Ok(());
        }
        let next = round + 1;
        let spec = &self.workflow.phases[spec_phase];
        let title = spec.title.clone().unwrap_or_else(|| spec.id.to_string());
        let id = PhaseId::new(format!("{origin}@r{next}")).map_err(|_| unknown())?;
        let mut places = Vec::with_capacity(spec.tasks.len());
        for (t, task) in spec.tasks.iter().enumerate() {
            let task_id = TaskId::new(format!("{}@r{next}", task.id)).map_err(|_| unknown())?;
            places.push(self.tasks.len());
            self.index.insert(task_id.clone(), self.tasks.len());
            self.tasks.push(TaskState::new(task_id, (spec_phase, t), id.clone()));
        }
        let open = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let phase = PhaseState {
            id,
            title: format!("{title} (round {next})"),
            mode: spec.mode,
            tasks: places,
            started: false,
            finished: false,
            looping: Some(LoopState { origin: origin.clone(), round: next, decided: false }),
            completed: 0,
            open,
            parked: 0,
            settled: 0,
        };
        self.phases.insert(place + 1, phase);
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

    fn set_status(&mut self, place: usize, status: TaskStatus) {
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

impl PhaseState {
    /// Tasks accepted.
    #[must_use]
    pub const fn completed(&self) -> u32 {
        self.completed
    }

    /// Tasks that wait or run.
    #[must_use]
    pub const fn open(&self) -> u32 {
        self.open
    }

    /// Tasks parked.
    #[must_use]
    pub const fn parked(&self) -> u32 {
        self.parked
    }

    /// Places of its tasks from the first that is neither accepted nor parked on.
    #[must_use]
    pub fn unsettled(&self) -> &[usize] {
        &self.tasks[self.settled..]
    }

    fn count(&mut self, status: TaskStatus) -> &mut u32 {
        match status {
            TaskStatus::Completed => &mut self.completed,
            TaskStatus::Failed => &mut self.parked,
            TaskStatus::Pending | TaskStatus::Running => &mut self.open,
        }
    }

    fn advance(&mut self, tasks: &[TaskState]) {
        let done = |place: &usize| matches!(tasks[*place].status, TaskStatus::Completed | TaskStatus::Failed);
        self.settled += self.tasks[self.settled..].iter().take_while(|place| done(place)).count();
    }

    /// Whether all of its tasks are accepted. True of a phase without tasks.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.completed as usize == self.tasks.len()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> PhaseStatus {
        if !self.tasks.is_empty() && self.is_complete() {
            PhaseStatus::Completed
        } else if self.started || self.completed > 0 {
            PhaseStatus::Running
        } else {
            PhaseStatus::Pending
        }
    }
}

impl TaskState {
    fn new(id: TaskId, spec: (usize, usize), phase: PhaseId) -> Self {
        Self {
            id,
            spec,
            phase,
            status: TaskStatus::Pending,
            failures: 0,
            transient: 0,
            attempts: Vec::new(),
            refusal: None,
            guidance: None,
            not_before: None,
            accepted: None,
            accepted_at: None,
            source: None,
        }
    }
}

impl Attempt {
    /// Tokens it spent, as far as reported.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let usage = self.outcome.as_ref().and_then(|outcome| outcome.report.usage.as_ref());
        usage.map_or(0, flowdrive_protocol::outcome::Usage::spent)
    }
}
