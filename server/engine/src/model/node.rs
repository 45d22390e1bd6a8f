//! The provenance graph: what each result, verdict and commit of a run stands on. Derived from the state, so that it
//! can never disagree with it.

use flowdrive_protocol::feedback::FeedbackStatus;
use flowdrive_protocol::ids::{NodeId, RunId};
use flowdrive_protocol::run::TaskStatus;

use super::state::RunState;

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id: `<run>:<kind>:<what>`.
    pub id: NodeId,
    /// How it stands.
    pub status: NodeStatus,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeStatus {
    /// Not begun.
    Pending,
    /// Begun.
    Running,
    /// Done, without evidence behind it.
    Completed,
    /// Failed.
    Failed,
    /// Done, with evidence that holds.
    Verified,
    /// Part of a commit.
    Committed,
}

impl NodeStatus {
    /// Whether the node can close a feedback record.
    #[must_use]
    pub const fn settles(self) -> bool {
        matches!(self, Self::Verified | Self::Committed)
    }

    /// The status in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Verified => "verified",
            Self::Committed => "committed",
        }
    }
}

/// The id of a node of `run`. Task and commit ids fit the grammar of node ids, so this always gives one.
#[must_use]
pub fn node_id(run: &RunId, kind: &str, what: &str) -> Option<NodeId> {
    NodeId::new(format!("{run}:{kind}:{what}")).ok()
}

/// Finds a node by its id.
#[must_use]
pub fn find(state: &RunState, id: &NodeId) -> Option<Node> {
    let rest = id.as_str().strip_prefix(state.run_id.as_str())?.strip_prefix(':')?;
    let (kind, what) = rest.split_once(':').unwrap_or((rest, ""));
    let status = match kind {
        "input" if what.is_empty() => NodeStatus::Completed,
        "task" | "result" | "verifier" => {
            let Some(index) = state.tasks.iter().position(|task| task.id.as_str() == what) else {
                let status = correction(state, what).filter(|_| kind == "task")?;
                return Some(Node { id: id.clone(), status });
            };
            let task = &state.tasks[index];
            match (kind, task.status, &task.accepted) {
                ("task", TaskStatus::Pending, _) => NodeStatus::Pending,
                ("task", TaskStatus::Running, _) => NodeStatus::Running,
                ("task", TaskStatus::Failed, _) => NodeStatus::Failed,
                (_, TaskStatus::Completed, Some(result)) if kind == "verifier" && result.verified => {
                    NodeStatus::Verified
                }
                ("verifier", TaskStatus::Completed, _) => NodeStatus::Failed,
                (_, TaskStatus::Completed, _) => NodeStatus::Completed,
                _ => return None,
            }
        }
        "commit" | "checkpoint" => {
            let commit = state.commits.iter().find(|commit| commit.id.as_str() == what)?;
            match (kind, commit.verifier.is_some()) {
                ("commit", true) => NodeStatus::Committed,
                ("checkpoint", false) => NodeStatus::Completed,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(Node { id: id.clone(), status })
}

/// How the correction task of a feedback record stands. Its id is `feedback:<record>`.
fn correction(state: &RunState, task: &str) -> Option<NodeStatus> {
    let record = state.feedback.get(task.strip_prefix("feedback:")?)?;
    record.correction_task_id.as_ref()?;
    Some(match record.status {
        FeedbackStatus::Open | FeedbackStatus::Tasked => NodeStatus::Pending,
        FeedbackStatus::Resolved => NodeStatus::Completed,
        FeedbackStatus::Rejected => NodeStatus::Failed,
    })
}
