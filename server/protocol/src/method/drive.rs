//! Parameters and answers of what drives runs, says what a drive would do, or stops one.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorkflowRef;
use crate::ids::{AgentName, InputName, RunId};
use crate::run::StopMode;

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
    /// Reuse results of earlier incremental drives wherever what a task is given, and what its result cites, is the same.
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
    /// Reuse results of earlier incremental drives wherever what a task is given, and what its result cites, is the same.
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
