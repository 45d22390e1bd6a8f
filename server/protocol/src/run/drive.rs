//! What a drive answers: how the run stands, and what was done.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RunStatus, StopMode};
use crate::ids::{CommitId, PhaseId, RunId, TaskId, WorkerId, WorkflowId};

/// The answer to `drive` and `resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriveResult {
    /// Version of this shape.
    pub schema_version: u32,
    /// The run.
    pub run_id: RunId,
    /// Its workflow.
    pub workflow_id: WorkflowId,
    /// How the run stands.
    pub status: RunStatus,
    /// What this drive did, in task order.
    pub steps: Vec<Step>,
    /// Tasks in the run when the drive began.
    pub planned_workers: u32,
    /// Tasks accepted.
    pub completed_workers: u32,
    /// Tasks parked.
    pub parked_workers: u32,
    /// The terminal commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_id: Option<CommitId>,
    /// Where the report is.
    pub report_path: String,
    /// Where the snapshot of the state is.
    pub state_path: String,
    /// Whether every task that is left has an agent.
    pub agent_configured: bool,
    /// Why the drive ended, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Set when the drive ended because a stop was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopMode>,
}

/// One step of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Version of this shape.
    pub schema_version: u32,
    /// What was done.
    pub action: StepAction,
    /// How it went.
    pub status: StepStatus,
    /// The run.
    pub run_id: RunId,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The attempt's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PhaseId>,
    /// `agent`, where an agent did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_id: Option<Cow<'static, str>>,
    /// The attempt, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// `process`, `endpoint`, `result-cache` or `sub-workflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle_kind: Option<Cow<'static, str>>,
    /// The model, as the agent reported it; `unreported` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_model: Option<Cow<'static, str>>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepAction {
    /// Recorded a task as started.
    Dispatch,
    /// Ran an agent.
    Fulfill,
    /// Accepted a result.
    Accept,
    /// Committed the run.
    Commit,
    /// Parked a task.
    Park,
    /// Found nothing that may be done.
    Blocked,
    /// Found nothing left to do.
    Complete,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// Well.
    Ok,
    /// The task parked.
    Parked,
    /// The drive is blocked.
    Blocked,
    /// Badly; it is tried again.
    Failed,
    /// The run is complete.
    Complete,
}
