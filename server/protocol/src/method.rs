//! The methods: their names, parameters and results. Every method takes one object and answers one object.

mod drive;
mod look;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::feedback::Resolution;
use crate::ids::{FeedbackId, NodeId, RunId};

pub use drive::{DriveParams, PreviewParams, ProgressToken, ResumeParams, StopParams, StopResult};
pub use look::{
    DoctorParams, DoctorResult, ListAgentsParams, ListAgentsResult, ListFeedbackParams, ListFeedbackResult,
    ListRunsParams, ListRunsResult, ListWorkflowsParams, ListWorkflowsResult, ServerInfo, ServerInfoParams,
    ShowRunParams, UnusableWorkflow, VerifyRunParams, VerifyRunResult,
};

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
/// The agents that tasks can be given to, and whether each can be used. Starts nothing, asks nobody.
pub const LIST_AGENTS: &str = "listAgents";
/// Name, version and protocol version; for clients that skip `initialize`.
pub const SERVER_INFO: &str = "serverInfo";
/// Notification to the client: a [`crate::event::ProgressEvent`].
pub const PROGRESS: &str = "flowdrive/progress";

/// Which workflow: `{ "id": ... }`, `{ "path": ... }` or `{ "inline": ... }`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkflowRef {
    /// A bundled workflow, or one under `.cw/workflows/` of the workspace.
    Id(String),
    /// A TOML or JSON file; relative to the workspace when not absolute.
    Path(String),
    /// The workflow itself. Its shape is that of the workflow schema; it is checked there, so that faults name the field.
    Inline(Value),
}

/// By hand, for the sake of those who get it wrong: a name or a document by itself is what one tries first.
impl<'de> Deserialize<'de> for WorkflowRef {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let fault = |hint: &str| {
            D::Error::custom(format!(r#"takes {{"id": NAME}}, {{"path": FILE}} or {{"inline": DOCUMENT}}{hint}"#))
        };
        let fields = match Value::deserialize(input)? {
            Value::Object(fields) => fields,
            Value::String(name) => {
                return Err(fault(&format!(r#"; for the workflow of this name, {{"id": "{name}"}}"#)));
            }
            _ => return Err(fault("")),
        };
        if fields.contains_key("phases") {
            return Err(fault(r#"; a document goes into "inline""#));
        }
        let mut fields = fields.into_iter();
        match (fields.next(), fields.next()) {
            (Some((key, Value::String(text))), None) if key == "id" => Ok(Self::Id(text)),
            (Some((key, Value::String(text))), None) if key == "path" => Ok(Self::Path(text)),
            (Some((key, document)), None) if key == "inline" => Ok(Self::Inline(document)),
            (Some((key, _)), None) if matches!(&*key, "id" | "path") => Err(fault(&format!("; `{key}` takes a text"))),
            (Some((key, _)), None) => Err(fault(&format!("; `{key}` is none of them"))),
            _ => Err(fault(", one of them")),
        }
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_workflow_is_named_or_given_and_who_gets_it_wrong_is_told_how() {
        for (given, read) in [
            (json!({ "id": "a" }), WorkflowRef::Id("a".to_owned())),
            (json!({ "path": "a.toml" }), WorkflowRef::Path("a.toml".to_owned())),
            (json!({ "inline": { "id": "a", "phases": [] } }), WorkflowRef::Inline(json!({ "id": "a", "phases": [] }))),
            (json!({ "inline": 3 }), WorkflowRef::Inline(json!(3))),
        ] {
            assert_eq!(serde_json::from_value::<WorkflowRef>(given.clone()).unwrap(), read);
            assert_eq!(serde_json::to_value(read).unwrap(), given);
        }
        for (given, told) in [
            (json!("quick-survey"), r#"{"id": "quick-survey"}"#),
            (json!({ "id": "a", "phases": [] }), r#"a document goes into "inline""#),
            (json!({ "id": 3 }), "`id` takes a text"),
            (json!({ "name": "a" }), "`name` is none of them"),
            (json!({ "id": "a", "path": "b" }), "one of them"),
            (json!({}), "one of them"),
            (json!(null), r#"{"inline": DOCUMENT}"#),
            (json!([1]), r#"{"path": FILE}"#),
        ] {
            let fault = serde_json::from_value::<WorkflowRef>(given.clone()).unwrap_err().to_string();
            assert!(fault.contains(told), "{given}: {fault}");
        }
    }
}
