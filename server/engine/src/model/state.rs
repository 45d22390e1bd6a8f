//! A run's state: the fold of its journal.
//!
//! Must not depend on the order in which agents finished: everything is kept in task order, and ids derive from task
//! and attempt. Two runs with the same outcomes have the same state, times aside.

mod counts;
mod feedback;
mod fold;
mod loops;
mod phase;
mod task;

use std::collections::BTreeMap;

use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::ids::{AgentName, InputName, NodeId, RunId, TaskId};
use flowdrive_protocol::run::{RunStatus, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::{Loop, Task, Workflow};
use serde::{Deserialize, Serialize};

use super::journal::{Commit, DriveSettings, RunPlanned, STATE_VERSION, TERMINAL_REASON};
pub use counts::AgentUse;
use counts::Counts;
pub use fold::FoldError;
pub use phase::{LoopState, PhaseState};
pub use task::{Attempt, Refused, TaskState, Verdict};

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
    #[serde(deserialize_with = "super::exact::list")]
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

impl RunState {
    /// The state right after planning.
    ///
    /// # Errors
    /// [`FoldError::TooNew`] when a newer program wrote it.
    pub fn planned_at(plan: RunPlanned, at: Timestamp) -> Result<Self, FoldError> {
        if plan.schema_version > STATE_VERSION {
            return Err(FoldError::TooNew(plan.schema_version));
        }
        let planned = plan.workflow.phases.iter().map(|phase| phase.tasks.len()).sum();
        let mut tasks = Vec::with_capacity(planned);
        let mut phases = Vec::with_capacity(plan.workflow.phases.len());
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
