//! Parameters and answers of what only reads: lists, views, checks, and the server's name.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::feedback::{FeedbackRecord, FeedbackStatus};
use crate::ids::{RunId, TaskId};
use crate::run::{AgentSummary, DoctorCheck, RunSummary, UnreadableRun, VerifyProblem, WorkflowSummary};

/// Parameters of `listRuns`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRunsParams {
    /// Absolute path of the folder. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// How many at most. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroU32>,
    /// How many to pass over.
    #[serde(default)]
    pub offset: u32,
}

/// The answer to `listRuns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListRunsResult {
    /// The runs, newest first.
    pub runs: Vec<RunSummary>,
    /// Folders that hold no readable run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRun>,
    /// How many there are in all.
    pub total: u32,
}

/// Parameters of `showRun`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShowRunParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// Send the lifecycle events after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_seq: Option<u64>,
    /// Only these tasks, in the order of the run; one that the run does not have is left out. All when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<TaskId>,
    /// Tasks to pass over.
    #[serde(default)]
    pub task_offset: u32,
    /// Tasks at most. Default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_limit: Option<u32>,
    /// Write `report.md` and `report.html` anew from the run's record before answering; also while the run is driven. The
    /// same record always gives the same bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write_report: bool,
}

/// Parameters of `listFeedback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListFeedbackParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// Only those that stand like this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FeedbackStatus>,
}

/// The answer to `listFeedback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListFeedbackResult {
    /// The records, in task order.
    pub feedback: Vec<FeedbackRecord>,
}

/// Parameters of `listWorkflows`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListWorkflowsParams {
    /// Absolute path of a folder whose `.cw/workflows/` is listed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// The answer to `listWorkflows`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListWorkflowsResult {
    /// The workflows, bundled ones first.
    pub workflows: Vec<WorkflowSummary>,
    /// Files of the workspace's workflow folder that cannot be driven as they are, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<UnusableWorkflow>,
}

/// A workflow file that is not listed among the workflows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnusableWorkflow {
    /// The file, relative to the workspace.
    pub path: String,
    /// What is wrong with it, a line for each fault.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Parameters of `verifyRun`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyRunParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The run.
    pub run_id: RunId,
}

/// The answer to `verifyRun`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyRunResult {
    /// The run.
    pub run_id: RunId,
    /// Whether everything adds up.
    pub ok: bool,
    /// Journal lines checked.
    pub events: u64,
    /// The hash of the newest one, which stands for the whole journal.
    pub head: String,
    /// What does not add up.
    pub problems: Vec<VerifyProblem>,
}

/// Parameters of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorParams {
    /// Absolute path of a folder to look at too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// The answer to `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorResult {
    /// The server's version.
    pub version: String,
    /// Whether nothing failed.
    pub ok: bool,
    /// What was looked at.
    pub checks: Vec<DoctorCheck>,
}

/// Parameters of `listAgents`: agents are the user's, the same in every workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListAgentsParams {}

/// The answer to `listAgents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListAgentsResult {
    /// The agents, by name; those that are built in too.
    pub agents: Vec<AgentSummary>,
}

/// Parameters of `serverInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfoParams {
    /// The protocol version the client was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<u32>,
}

/// The answer to `serverInfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// `flowdrive`.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// The protocol version it speaks.
    pub protocol_version: u32,
    /// The oldest protocol version it still understands.
    pub min_protocol_version: u32,
    /// Every method it answers.
    pub methods: Vec<String>,
    /// Why the user's configuration is of no use. Requests that need an agent are refused with it; those that only read
    /// are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_fault: Option<String>,
}
