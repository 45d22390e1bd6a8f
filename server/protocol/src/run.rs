//! Runs as clients see them: the result of a drive, a preview, and the views lists and trees are drawn from.

mod agent;
mod drive;
mod preview;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;
use crate::event::{ProgressEvent, ResultSource};
use crate::ids::{AgentName, InputName, PhaseId, RunId, TaskId, WorkerId, WorkflowId};
use crate::outcome::{Finding, Usage};
use crate::time::Timestamp;
use crate::workflow::{InputSpec, PhaseMode};

pub use agent::{AgentKind, AgentSummary};
pub use drive::{DriveResult, Step, StepAction, StepStatus};
pub use preview::{
    CacheState, CacheVerdict, DrivePreview, NextAction, PlannedLoop, PlannedPhase, PlannedSubWorkflow, PlannedTask,
};

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Every task accepted, and the run committed.
    Complete,
    /// At least one task used up its attempts.
    Parked,
    /// Something other than a parked task stands in the way.
    Blocked,
    /// There is more to do, and nothing in the way.
    InProgress,
}

impl RunStatus {
    /// The status on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Parked => "parked",
            Self::Blocked => "blocked",
            Self::InProgress => "in-progress",
        }
    }
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Waits for its turn.
    Pending,
    /// An agent works on it, or did when the run was last driven.
    Running,
    /// Accepted.
    Completed,
    /// Parked.
    Failed,
}

/// How a phase stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PhaseStatus {
    /// No task of it started.
    Pending,
    /// Some did.
    Running,
    /// All are accepted.
    Completed,
}

/// How a drive is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopMode {
    /// Nothing new starts; what is in flight is settled.
    #[default]
    Graceful,
    /// Agents are ended at once; their tasks go back to pending.
    Now,
}

/// One line of a list of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// The run.
    pub run_id: RunId,
    /// Its workflow.
    pub workflow_id: WorkflowId,
    /// The workflow's title.
    pub title: String,
    /// How it stands.
    pub status: RunStatus,
    /// When it was planned.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Tasks in it.
    pub planned_workers: u32,
    /// Tasks accepted.
    pub completed_workers: u32,
    /// Tasks parked.
    pub parked_workers: u32,
    /// Feedback that waits for a person.
    pub open_feedback: u32,
    /// Whether a process drives it now.
    pub driving: bool,
    /// Why it stands so, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do next, where it is not driven and something is left to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What it was asked: to tell it from other runs of its workflow. Long texts and lists are cut (texts end with `…`);
    /// `showRun` has them whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<InputName, serde_json::Value>,
}

/// A run that could not be listed, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableRun {
    /// The folder's name.
    pub name: String,
    /// What went wrong.
    pub kind: ErrorKind,
    /// The same in a sentence.
    pub message: String,
}

/// The answer to `showRun`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Version of this shape.
    pub schema_version: u32,
    /// The run in one line.
    pub summary: RunSummary,
    /// What it was asked.
    pub inputs: BTreeMap<InputName, serde_json::Value>,
    /// Its phases, in order.
    pub phases: Vec<PhaseView>,
    /// Its tasks, in order, from `taskOffset` on; of those that were asked for.
    pub tasks: Vec<TaskView>,
    /// How many tasks the run has in all.
    pub total_tasks: u32,
    /// The number of its newest lifecycle event.
    pub last_seq: u64,
    /// With `sinceSeq`: the lifecycle events after it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ProgressEvent>,
    /// With `sinceSeq`: whether there are more than were sent.
    #[serde(default)]
    pub more_events: bool,
    /// Where the report is.
    pub report_path: String,
    /// Where the snapshot of the state is.
    pub state_path: String,
}

/// A phase of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PhaseView {
    /// The phase.
    pub id: PhaseId,
    /// Its name for people.
    pub title: String,
    /// How its tasks run.
    pub mode: PhaseMode,
    /// How it stands.
    pub status: PhaseStatus,
    /// Its tasks.
    pub tasks: u32,
    /// Those accepted.
    pub completed: u32,
}

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// Its phase.
    pub phase: PhaseId,
    /// How it stands.
    pub status: TaskStatus,
    /// Attempts begun.
    pub attempts: u32,
    /// The newest attempt's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The newest attempt's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// When the newest attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When its agent ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Where the accepted result came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ResultSource>,
    /// The accepted result's first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The accepted result's findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The accepted result's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_path: Option<String>,
    /// Why the newest attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// For a task that waits after a passing fault: its next attempt does not start before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The model, as the agent reported it; `unreported` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_model: Option<String>,
    /// What the agent said it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A workflow that can be driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowSummary {
    /// Its id.
    pub id: WorkflowId,
    /// One line for people.
    pub title: String,
    /// What it is for.
    pub summary: String,
    /// `bundled`, or the file it was read from.
    pub source: String,
    /// What the user is asked for.
    pub inputs: BTreeMap<InputName, InputSpec>,
    /// How many tasks it has.
    pub tasks: u32,
}

/// One thing that does not add up in a run's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyProblem {
    /// What kind of problem it is, such as `hash-mismatch`.
    pub code: String,
    /// The same in a sentence.
    pub message: String,
    /// The file.
    pub path: String,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// One check of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorCheck {
    /// What was looked at.
    pub name: String,
    /// How it looks.
    pub status: CheckStatus,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Well.
    Ok,
    /// Worth knowing.
    Warn,
    /// Something will not work.
    Fail,
}
