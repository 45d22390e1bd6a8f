//! A run's state: the fold of its journal.
//!
//! Must not depend on the order in which agents finished: everything is kept in task order, and ids derive from task
//! and attempt. Two runs with the same outcomes have the same state, times aside.

mod feedback;
mod fold;
mod loops;
mod phase;

use std::collections::BTreeMap;

use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::ids::{AgentName, InputName, NodeId, PhaseId, RunId, TaskId, WorkerId};
use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::run::{RunStatus, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::{Loop, Task, Workflow};
use serde::{Deserialize, Serialize};

use super::journal::{AcceptedResult, Commit, DriveSettings, RunPlanned, STATE_VERSION, TERMINAL_REASON};
use super::outcome::{HandleKind, Outcome, ProcessIdentity};
pub use fold::FoldError;
pub use phase::{LoopState, PhaseState};

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
    /// The budget that a warning was given for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_warned: Option<u64>,
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

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Counts {
    completed: u32,
    parked: u32,
    tokens: u64,
    agents: BTreeMap<AgentName, AgentUse>,
}

/// What an agent used in a run, as far as it reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentUse {
    /// Its attempts under way.
    pub running: u32,
    /// Its attempts that ended and reported tokens.
    pub reported: u32,
    /// The tokens of those.
    pub tokens: u64,
}

impl Counts {
    /// Changes what is counted of an agent. One of which nothing is counted is not kept, so that counting along the way
    /// and counting anew give the same.
    fn count_agent(&mut self, agent: &AgentName, change: impl FnOnce(&mut AgentUse)) {
        let mut used = self.agents.remove(agent).unwrap_or_default();
        change(&mut used);
        if used != AgentUse::default() {
            self.agents.insert(agent.clone(), used);
        }
    }

    /// Counts an attempt's outcome.
    fn count_outcome(&mut self, agent: &AgentName, outcome: &Outcome) {
        let tokens = outcome.report.usage.as_ref().map_or(0, Usage::spent);
        self.tokens = self.tokens.saturating_add(tokens);
        // A sub-workflow's tokens are those of other agents.
        if tokens > 0 && matches!(outcome.handle, HandleKind::Process | HandleKind::Endpoint) {
            self.count_agent(agent, |used| {
                used.reported += 1;
                used.tokens = used.tokens.saturating_add(tokens);
            });
        }
    }
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
            budget_warned: None,
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
            for attempt in &task.attempts {
                if attempt.marker.is_some() {
                    self.counts.count_agent(&attempt.agent, |used| used.running += 1);
                }
                if let Some(outcome) = &attempt.outcome {
                    self.counts.count_outcome(&attempt.agent, outcome);
                }
            }
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

    /// What each agent used that runs, or that reported tokens.
    pub fn agents_used(&self) -> impl Iterator<Item = (&AgentName, &AgentUse)> {
        self.counts.agents.iter()
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
    /// Takes its verdict. What from then on only the journal has to tell is let go: ten thousand attempts are held in
    /// memory at once, and written out whole in every snapshot.
    fn judged(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        if let Some(outcome) = &mut self.outcome {
            outcome.forget_particulars();
        }
    }

    /// Tokens it spent, as far as reported.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let usage = self.outcome.as_ref().and_then(|outcome| outcome.report.usage.as_ref());
        usage.map_or(0, flowdrive_protocol::outcome::Usage::spent)
    }
}
