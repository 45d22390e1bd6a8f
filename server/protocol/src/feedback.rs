//! Feedback records: what a person has to decide before a run can go on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{FeedbackId, NodeId, RunId, TaskId, WorkerId};
use crate::outcome::Evidence;
use crate::time::Timestamp;

/// A feedback record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRecord {
    /// Version of this shape.
    pub schema_version: u32,
    /// The record's id, derived from its class, task and attempt.
    pub id: FeedbackId,
    /// The run it belongs to.
    pub run_id: RunId,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Where it stands.
    pub status: FeedbackStatus,
    /// How much it matters.
    pub severity: FeedbackSeverity,
    /// What kind of fault it is.
    pub classification: FeedbackClass,
    /// Who found it.
    pub source: FeedbackSource,
    /// The fault's code, such as `missing-required-evidence`.
    pub code: String,
    /// The fault in a sentence.
    pub message: String,
    /// The node at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The task at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The attempt at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerId>,
    /// The file at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether doing the same again could help.
    pub retryable: bool,
    /// What was brought forward for the resolution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Files brought forward for the resolution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// How it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// The verified node that closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by_node_id: Option<NodeId>,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Timestamp>,
    /// What the person who closed it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_note: Option<String>,
    /// What the task is told when it is tried again, or whoever does the correction task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// The correction task, where one was written down: a file of the run's folder, `<feedback id>.md`. No drive runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction_task_id: Option<TaskId>,
}

/// Where a feedback record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FeedbackStatus {
    /// Waits for a person.
    Open,
    /// A correction task exists.
    Tasked,
    /// Closed, by a verified node or by trying again.
    Resolved,
    /// Closed without a correction.
    Rejected,
}

/// How much a feedback record matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FeedbackSeverity {
    /// Look when there is time.
    Low,
    /// Look.
    Medium,
    /// Look now.
    High,
}

/// What kind of fault a feedback record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackClass {
    /// A file that should exist does not.
    MissingArtifact,
    /// A claim without evidence.
    MissingEvidence,
    /// The verifying stage refused.
    VerifierFailure,
    /// A state change that is not allowed.
    StateTransition,
    /// A stage's contract was broken.
    ContractViolation,
    /// Outside the sandbox.
    SandboxPolicy,
    /// A result that could not be read.
    ParseError,
    /// A stage failed.
    PipelineFailure,
    /// A fault of the program.
    RuntimeError,
    /// None of these.
    Unknown,
}

impl FeedbackClass {
    /// The class on the wire, and inside ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingArtifact => "missing-artifact",
            Self::MissingEvidence => "missing-evidence",
            Self::VerifierFailure => "verifier-failure",
            Self::StateTransition => "state-transition",
            Self::ContractViolation => "contract-violation",
            Self::SandboxPolicy => "sandbox-policy",
            Self::ParseError => "parse-error",
            Self::PipelineFailure => "pipeline-failure",
            Self::RuntimeError => "runtime-error",
            Self::Unknown => "unknown",
        }
    }
}

/// Who found the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackSource {
    /// A failed node.
    StateNode,
    /// The drive.
    PipelineRunner,
    /// The evidence gate.
    Verifier,
    /// A stage's contract.
    Contract,
    /// A person at the command line.
    Cli,
    /// A person.
    Manual,
}

/// How a feedback record is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// By a verified node, which must be named.
    Resolved,
    /// Without a correction. The task stays parked.
    Rejected,
    /// The task is opened again, with guidance; `resume` runs it.
    Retry,
    /// Not yet: a correction task is written down, and the record waits until that is done and it is closed in one of
    /// the other ways.
    Tasked,
}
