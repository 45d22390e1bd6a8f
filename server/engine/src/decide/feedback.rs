//! Feedback records: what opens one, and what may close one.

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackSource, FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{FeedbackId, RunId, TaskId, WorkerId};
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::time::Timestamp;
use thiserror::Error;

use crate::accept::feedback::{self as class, classify};
use crate::model::node;
use crate::model::state::RunState;

/// What a record is opened for.
pub struct Fault<'a> {
    /// The fault's code.
    pub code: &'a str,
    /// In a sentence.
    pub message: &'a str,
    /// The stage that found it, such as `verify`.
    pub stage: Option<&'a str>,
    /// Who found it, where its code does not tell.
    pub source: Option<FeedbackSource>,
    /// The task at fault, and its attempt.
    pub task: Option<(&'a TaskId, &'a WorkerId)>,
}

/// A new record. `name` makes its id unique in the run: it derives from task and attempt, never from a counter over
/// arrivals. None when `name` does not fit an id.
#[must_use]
pub fn open(run: &RunId, fault: &Fault<'_>, name: &str, at: Timestamp) -> Option<FeedbackRecord> {
    let (class, severity, source) = classify(&class::Fault {
        code: fault.code,
        stage: fault.stage,
        source: fault.source,
        contract: false,
        retryable: fault.task.is_some(),
    });
    Some(FeedbackRecord {
        schema_version: SCHEMA_VERSION,
        id: FeedbackId::new(format!("feedback-{}-{name}", class.as_str())).ok()?,
        run_id: run.clone(),
        created_at: at,
        updated_at: at,
        status: FeedbackStatus::Open,
        severity,
        classification: class,
        source,
        code: fault.code.to_owned(),
        message: fault.message.to_owned(),
        node_id: fault.task.and_then(|(task, _)| node::node_id(run, "task", task.as_str())),
        task_id: fault.task.map(|(task, _)| task.clone()),
        worker_id: fault.task.map(|(_, worker)| worker.clone()),
        path: None,
        retryable: fault.task.is_some(),
        evidence: Vec::new(),
        artifacts: Vec::new(),
        resolution: None,
        resolved_by_node_id: None,
        resolved_at: None,
        resolution_note: None,
        guidance: None,
    })
}

/// Why a record cannot be closed as asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolutionRefused {
    /// There is no such record.
    #[error("Unknown feedback id for run {run}: {id}")]
    Unknown {
        /// The run.
        run: RunId,
        /// The id given.
        id: FeedbackId,
    },
    /// `resolved` needs a node.
    #[error("Feedback {0} cannot resolve without a verified node id")]
    NoNode(FeedbackId),
    /// The node does not exist.
    #[error("Feedback {id} resolution node not found: {node}")]
    NodeNotFound {
        /// The record.
        id: FeedbackId,
        /// The node given.
        node: String,
    },
    /// The node stands for nothing that holds.
    #[error("Feedback {id} resolution node must be verified or committed; {node} is {status}")]
    NodeNotVerified {
        /// The record.
        id: FeedbackId,
        /// The node given.
        node: String,
        /// How it stands.
        status: &'static str,
    },
    /// The record is closed already, in another way.
    #[error("Feedback {0} is closed already as {1:?}")]
    Closed(FeedbackId, Resolution),
    /// Only a parked task can be tried again.
    #[error("Feedback {0} cannot be retried: its task is not parked")]
    NothingToRetry(FeedbackId),
}

/// Whether a record may be closed as asked. `Ok(None)`: it is closed in just that way already, and nothing changes.
///
/// # Errors
/// [`ResolutionRefused`] when it may not.
pub fn check(state: &RunState, params: &ResolveFeedbackParams) -> Result<Option<()>, ResolutionRefused> {
    let id = &params.feedback_id;
    let record = state
        .feedback
        .get(id.as_str())
        .ok_or_else(|| ResolutionRefused::Unknown { run: state.run_id.clone(), id: id.clone() })?;
    if matches!(record.status, FeedbackStatus::Resolved | FeedbackStatus::Rejected) {
        let same = record.resolution == Some(params.resolution)
            && (params.resolution != Resolution::Resolved || record.resolved_by_node_id == params.node_id);
        let closed = record.resolution.unwrap_or(Resolution::Rejected);
        // A rejected record can still be reopened by a retry: people change their mind.
        if same {
            return Ok(None);
        }
        if closed != Resolution::Rejected {
            return Err(ResolutionRefused::Closed(id.clone(), closed));
        }
    }
    match params.resolution {
        Resolution::Rejected => {}
        Resolution::Resolved => {
            let wanted = params.node_id.as_ref().ok_or_else(|| ResolutionRefused::NoNode(id.clone()))?;
            let node = node::find(state, wanted)
                .ok_or_else(|| ResolutionRefused::NodeNotFound { id: id.clone(), node: wanted.to_string() })?;
            if !node.status.settles() {
                return Err(ResolutionRefused::NodeNotVerified {
                    id: id.clone(),
                    node: wanted.to_string(),
                    status: node.status.as_str(),
                });
            }
        }
        Resolution::Retry => {
            let parked = record
                .task_id
                .as_ref()
                .and_then(|task| state.task_by_id(task))
                .is_some_and(|place| state.tasks[place].status == flowdrive_protocol::run::TaskStatus::Failed);
            if !parked {
                return Err(ResolutionRefused::NothingToRetry(id.clone()));
            }
        }
    }
    Ok(Some(()))
}
