//! What `preview` answers: what a drive would do, task by task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PhaseStatus, TaskStatus};
use crate::ids::{AgentName, PhaseId, RunId, TaskId, WorkflowId};
use crate::workflow::PhaseMode;

/// The answer to `preview`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrivePreview {
    /// Version of this shape.
    pub schema_version: u32,
    /// The run, when one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// Tasks in the run.
    pub planned_workers: u32,
    /// Tasks to do.
    pub pending_workers: u32,
    /// Tasks accepted.
    pub completed_workers: u32,
    /// Tasks parked.
    pub parked_workers: u32,
    /// What `drive` would do first.
    pub next_action: NextAction,
    /// The task it would do it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_task_id: Option<TaskId>,
    /// That task's phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_phase: Option<PhaseId>,
    /// Whether every task that is left has an agent.
    pub agent_configured: bool,
    /// What stands in the way, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<String>,
    /// What is allowed but likely a slip, such as a placeholder that names no input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The phases, and what each task would be run with: of `taskLimit` tasks, counted over all phases.
    pub plan: Vec<PlannedPhase>,
}

/// What `drive` would do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NextAction {
    /// Start a task.
    Dispatch,
    /// Carry on a task that was started.
    Fulfill,
    /// Commit the run.
    Commit,
    /// Nothing may be done.
    Blocked,
    /// Nothing is left to do.
    Complete,
}

/// A phase of a preview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPhase {
    /// The phase.
    pub id: PhaseId,
    /// Its name for people.
    pub title: String,
    /// How its tasks run.
    pub mode: PhaseMode,
    /// How many would run at once.
    pub width: u32,
    /// How it stands.
    pub status: PhaseStatus,
    /// How many tasks it has.
    #[serde(default)]
    pub total_tasks: u32,
    /// For a phase that is gone through again: how often at most, and what ends that.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub looping: Option<PlannedLoop>,
    /// Those of its tasks that were asked for.
    pub tasks: Vec<PlannedTask>,
}

/// The loop that a phase of a preview belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedLoop {
    /// Which round the phase is, from 1. Later rounds are planned when they are decided.
    pub round: u32,
    /// Rounds at most.
    pub max_rounds: u32,
    /// What ends the loop before that, in words.
    pub until: String,
    /// Whether it was decided how this round ends.
    pub decided: bool,
}

/// The workflow that is driven in a task's place, as a preview tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedSubWorkflow {
    /// What the task names.
    pub id: String,
    /// The workflow's title.
    pub title: String,
    /// Its tasks, those of the workflows inside it with them.
    pub tasks: u32,
    /// The agents they go to.
    pub agents: Vec<AgentName>,
}

/// A task of a preview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedTask {
    /// The task.
    pub id: TaskId,
    /// How it stands.
    pub status: TaskStatus,
    /// The agent it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The command line or URL, secrets replaced. Placeholders that depend on the attempt are left as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<String>,
    /// Whether an earlier result would be used.
    pub cache: CacheState,
    /// For a task that is a workflow of its own: what that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_workflow: Option<PlannedSubWorkflow>,
    /// What stands in this task's way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<String>,
}

/// Whether an earlier result would be used, and why or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheState {
    /// The verdict.
    pub state: CacheVerdict,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In a preview: the earlier task, or phase, whose result this hangs on. It cannot be known before, and a `miss` is then no
    /// more than what is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<String>,
}

/// Whether an earlier result would be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheVerdict {
    /// It would.
    Hit,
    /// None fits.
    Miss,
    /// Caching is not asked for.
    Off,
}
