//! A workflow: data, never code. Written as TOML or JSON; names agents, but can never say what command an agent is,
//! since a workflow comes with a repository and a repository is not trusted.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, InputName, PhaseId, TaskId, WorkflowId};
use crate::outcome::Severity;

/// A workflow document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workflow {
    /// Version of this document's format. Only 1 exists.
    pub schema_version: u32,
    /// The workflow's id.
    pub id: WorkflowId,
    /// One line for people.
    pub title: String,
    /// What it is for, in a sentence or two.
    #[serde(default)]
    pub summary: String,
    /// Bounds on what a run may use.
    #[serde(default)]
    pub limits: Limits,
    /// What the user is asked for, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<InputName, InputSpec>,
    /// The phases, in the order they run.
    #[serde(default)]
    pub phases: Vec<Phase>,
}

/// Bounds on what a run may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Agents of this run in flight at once, at most.
    pub max_concurrent_agents: NonZeroU32,
    /// Tasks the workflow may hold, loops expanded, at most.
    pub max_agents: NonZeroU32,
    /// Tokens the run may spend, as agents report them. 0: no limit.
    pub token_budget: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const FOUR: NonZeroU32 = NonZeroU32::new(4).unwrap();
        const MANY: NonZeroU32 = NonZeroU32::new(20_000).unwrap();
        Self { max_concurrent_agents: FOUR, max_agents: MANY, token_budget: 0 }
    }
}

/// One input of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputSpec {
    /// The type a value must have.
    #[serde(rename = "type")]
    pub kind: InputType,
    /// Whether a run can be planned without it.
    #[serde(default)]
    pub required: bool,
    /// Whether it takes a list of values.
    #[serde(default)]
    pub repeated: bool,
    /// The value when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
    /// What it is for.
    #[serde(default)]
    pub description: String,
}

/// The type of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InputType {
    /// Any text.
    String,
    /// A file or folder inside the workspace.
    Path,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Any JSON value.
    Json,
}

/// A phase: tasks that run before those of the next phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phase {
    /// The phase's id, unique in the workflow.
    pub id: PhaseId,
    /// A name for people; the id when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How many of its tasks run at once.
    #[serde(default)]
    pub mode: PhaseMode,
    /// Runs the phase again, a bounded number of times.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub looping: Option<Loop>,
    /// The tasks, in the order they are chosen.
    #[serde(default)]
    pub tasks: Vec<Task>,
}

/// How a phase's tasks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PhaseMode {
    /// One after the other.
    #[default]
    Sequential,
    /// Up to the workflow's limit at once.
    Parallel,
}

/// A bounded loop over a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Loop {
    /// Rounds at most, the first included.
    pub max_rounds: NonZeroU32,
    /// When to stop before that.
    pub until: LoopUntil,
}

/// The condition that ends a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LoopUntil {
    /// The latest round's results hold no finding at all.
    NoNewFindings(True),
    /// The latest round's results hold no finding of this severity or a worse one.
    FindingsBelow(Severity),
    /// This many tokens were recorded over the whole run.
    BudgetTarget(u64),
    /// A named predicate; one that is not known ends the loop.
    Predicate(String),
}

/// The literal `true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "bool", into = "bool")]
#[schemars(with = "bool")]
pub struct True;

impl TryFrom<bool> for True {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        value.then_some(Self).ok_or("must be true")
    }
}

impl From<True> for bool {
    fn from(_: True) -> Self {
        true
    }
}

/// A task: one piece of work for one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// The task's id, unique in the workflow.
    pub id: TaskId,
    /// What the agent is asked. `{{name}}` is replaced by the input of that name.
    #[serde(default)]
    pub prompt: String,
    /// Refuse a result that cites nothing. Ids that start with `verify`, `verdict` or `synthesis` always require it.
    #[serde(default)]
    pub requires_evidence: bool,
    /// Refuse a result that stands on Flowdrive's own files (`.cw`) rather than on what it was to look at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reviews_repo: bool,
    /// The sandbox policy the agent is told of, and its environment is built by.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// The agent that runs it; the run's agent when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The model the agent is asked to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Wall-clock limit for one attempt, in milliseconds; the agent's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Attempts before the task parks; the drive's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<NonZeroU32>,
    /// Reuse an earlier run's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_cache: Option<ResultCache>,
    /// Run another workflow in the task's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_workflow: Option<SubWorkflow>,
    /// Paths, relative to the workspace, that must exist when the task is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
}

/// Named sandbox policies, as the earlier tool has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// Reads the workspace, runs commands, uses the network.
    #[default]
    Default,
    /// Reads the workspace; no network.
    Readonly,
    /// Reads and writes the workspace.
    WorkspaceWrite,
    /// Reads its input and writes its result; nothing else.
    LockedDown,
}

impl Sandbox {
    /// The policy's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Readonly => "readonly",
            Self::WorkspaceWrite => "workspace-write",
            Self::LockedDown => "locked-down",
        }
    }
}

/// Reuse of an earlier run's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResultCache {
    /// The input whose value keys the cache.
    pub key_input: InputName,
    /// Give the task the results of earlier phases in full, and key the cache by them too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_completed_results: Option<IncludeResults>,
}

/// Which results a task is given in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IncludeResults {
    /// Those of every phase before its own.
    PreviousPhases,
}

/// Another workflow in a task's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubWorkflow {
    /// A bundled workflow's id, or a path relative to the workspace.
    pub id: String,
    /// Inputs for it; `{{name}}` is replaced by the parent's input of that name, or by nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<InputName, String>,
    /// What of the child becomes this task's result.
    #[serde(default)]
    pub bind_result: BindResult,
}

/// What of a child run becomes its parent task's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BindResult {
    /// The child's `report.md`.
    #[default]
    Report,
    /// The result of the child's verdict or synthesis task.
    VerdictResult,
}
