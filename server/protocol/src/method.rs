//! The methods: their names, parameters and results. Every method takes one object and answers one object.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::feedback::{FeedbackRecord, FeedbackStatus, Resolution};
use crate::ids::{AgentName, FeedbackId, InputName, NodeId, RunId};
use crate::run::{DoctorCheck, RunSummary, StopMode, UnreadableRun, VerifyProblem, WorkflowSummary};

/// Runs a workflow, or carries a run on, to its end.
pub const DRIVE: &str = "drive";
/// Says what `drive` would do. Starts nothing, writes nothing.
pub const PREVIEW: &str = "preview";
/// Carries a run on.
pub const RESUME: &str = "resume";
/// Closes a feedback record.
pub const RESOLVE_FEEDBACK: &str = "resolveFeedback";
/// Ends a drive early.
pub const STOP: &str = "stop";
/// The runs of a workspace, newest first.
pub const LIST_RUNS: &str = "listRuns";
/// One run, and the events a client missed.
pub const SHOW_RUN: &str = "showRun";
/// A run's feedback records.
pub const LIST_FEEDBACK: &str = "listFeedback";
/// The workflows that can be driven.
pub const LIST_WORKFLOWS: &str = "listWorkflows";
/// Checks a run's record against itself and the files on disk.
pub const VERIFY_RUN: &str = "verifyRun";
/// Removes runs, and kept results, that nobody needs any more.
pub const PRUNE_RUNS: &str = "pruneRuns";
/// Looks at the installation: agents, configuration, workspace.
pub const DOCTOR: &str = "doctor";
/// Name, version and protocol version; for clients that skip `initialize`.
pub const SERVER_INFO: &str = "serverInfo";
/// Notification to the client: a [`crate::event::ProgressEvent`].
pub const PROGRESS: &str = "flowdrive/progress";

/// Which workflow: `{ "id": ... }`, `{ "path": ... }` or `{ "inline": ... }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkflowRef {
    /// A bundled workflow, or one under `.cw/workflows/` of the workspace.
    Id(String),
    /// A TOML or JSON file; relative to the workspace when not absolute.
    Path(String),
    /// The workflow itself. Its shape is that of the workflow schema; it is checked there, so that faults name the field.
    Inline(serde_json::Value),
}

/// Parameters of `drive`. Either `workflow` with `inputs`, or `runId`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriveParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowRef>,
    /// Values for its inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<InputName, serde_json::Value>,
    /// The run to carry on; or, with `workflow`, the id for the new run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The agent for tasks that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// How many agents at once, in every phase. Wins over the workflow's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Fill one window, settle it, stop.
    #[serde(default)]
    pub once: bool,
    /// Reuse results of earlier runs wherever nothing they depend on changed.
    #[serde(default)]
    pub incremental: bool,
    /// Attempts before a task parks. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<NonZeroU32>,
    /// Tokens the run may spend in all, in place of the workflow's limit. 0: no limit. Kept for later drives of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Accept results whose usage carries no valid signature, though the agent must sign it. What is accepted so is recorded
    /// and stands in the report. For this drive only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unattested: bool,
    /// Token for `$/progress`, as the Language Server Protocol has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_done_token: Option<ProgressToken>,
}

/// A progress token: a string or an integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ProgressToken {
    /// A number.
    Number(i32),
    /// A text.
    Text(String),
}

/// Parameters of `resume`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// The agent for tasks that name none. When absent, the one that an earlier drive of the run named, if it is still
    /// configured; else the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// How many agents at once, in every phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Fill one window, settle it, stop.
    #[serde(default)]
    pub once: bool,
    /// Reuse results of earlier runs wherever nothing they depend on changed.
    #[serde(default)]
    pub incremental: bool,
    /// Attempts before a task parks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<NonZeroU32>,
    /// Tokens the run may spend in all, in place of the limit it had. 0: no limit. Kept for later drives of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Accept results whose usage carries no valid signature, though the agent must sign it. What is accepted so is recorded
    /// and stands in the report. For this drive only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unattested: bool,
    /// Token for `$/progress`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_done_token: Option<ProgressToken>,
}

impl From<ResumeParams> for DriveParams {
    fn from(resume: ResumeParams) -> Self {
        Self {
            workspace: resume.workspace,
            workflow: None,
            inputs: BTreeMap::new(),
            run_id: Some(resume.run_id),
            agent: resume.agent,
            concurrency: resume.concurrency,
            once: resume.once,
            incremental: resume.incremental,
            max_attempts: resume.max_attempts,
            token_budget: resume.token_budget,
            allow_unattested: resume.allow_unattested,
            work_done_token: resume.work_done_token,
        }
    }
}

/// Parameters of `preview`: the same selection as `drive`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What would be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowRef>,
    /// Values for its inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<InputName, serde_json::Value>,
    /// The run that would be carried on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The agent for tasks that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// How many agents at once, in every phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Whether results of earlier runs would be reused.
    #[serde(default)]
    pub incremental: bool,
    /// Tasks of the plan to pass over. The counts and what is next are always those of the whole run.
    #[serde(default)]
    pub task_offset: u32,
    /// Tasks of the plan at most. Default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_limit: Option<u32>,
    /// Tokens the run may spend in all, in place of the limit it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
}

/// Parameters of `resolveFeedback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolveFeedbackParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// The record.
    pub feedback_id: FeedbackId,
    /// Further records to close in the same way. All are closed, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_ids: Vec<FeedbackId>,
    /// How it is closed.
    pub resolution: Resolution,
    /// For `resolved`: the node that settles it. It must exist and be verified or committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// A note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Locators that support the resolution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Files that support the resolution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// For `retry`: what the task is told when it is tried again. For `tasked`: what the correction task says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
}

/// Parameters of `stop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopParams {
    /// Absolute path of the folder the run is about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The run.
    pub run_id: RunId,
    /// How.
    #[serde(default)]
    pub mode: StopMode,
}

/// The answer to `stop`. How the drive ended is told by `runFinished` and by the answer to `drive`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StopResult {
    /// The run.
    pub run_id: RunId,
    /// Whether anybody drives it.
    pub driving: bool,
    /// How it is being stopped.
    pub mode: StopMode,
}

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
