//! Feedback records: what opens one, and what may close one.

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackSource, FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{FeedbackId, RunId, TaskId, WorkerId};
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;
use thiserror::Error;

use crate::accept::feedback::{self as class, classify};
use crate::model::node;
use crate::model::state::RunState;
use crate::store::task_name;
use crate::workflow;

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
        correction_task_id: None,
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

/// The records that are to be closed as asked. None of those that are closed in just that way already: asking twice
/// changes nothing.
///
/// # Errors
/// [`ResolutionRefused`] when one of them may not; then none may.
pub fn due(state: &RunState, params: &ResolveFeedbackParams) -> Result<Vec<FeedbackId>, ResolutionRefused> {
    let mut due = Vec::new();
    for id in std::iter::once(&params.feedback_id).chain(&params.feedback_ids) {
        if check(state, params, id)? && !due.contains(id) {
            due.push(id.clone());
        }
    }
    Ok(due)
}

/// Whether a record may be closed as asked, and is not yet.
fn check(state: &RunState, params: &ResolveFeedbackParams, id: &FeedbackId) -> Result<bool, ResolutionRefused> {
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
            return Ok(false);
        }
        if closed != Resolution::Rejected {
            return Err(ResolutionRefused::Closed(id.clone(), closed));
        }
    }
    match params.resolution {
        Resolution::Rejected => {}
        Resolution::Tasked if record.status == FeedbackStatus::Tasked => return Ok(false),
        Resolution::Tasked => {}
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
                .is_some_and(|place| state.tasks[place].status == TaskStatus::Failed);
            if !parked {
                return Err(ResolutionRefused::NothingToRetry(id.clone()));
            }
        }
    }
    Ok(true)
}

/// Records for parked tasks that no record stands for: it was closed by another node's result, and the task is parked
/// still. Without one there would be nothing that a person could close with `retry`. A rejected record stands.
#[must_use]
pub fn uncollected(state: &RunState, at: Timestamp) -> Vec<FeedbackRecord> {
    let parked = state.tasks.iter().filter(|task| task.status == TaskStatus::Failed);
    parked
        .filter_map(|task| {
            let worker = &task.attempts.last()?.worker;
            let of_attempt = |record: &&FeedbackRecord| record.worker_id.as_ref() == Some(worker);
            let known: Vec<_> = state.feedback.values().filter(of_attempt).collect();
            if known.iter().any(|record| record.status != FeedbackStatus::Resolved) {
                return None;
            }
            let refusal = task.refusal.as_ref()?;
            let fault = Fault {
                code: &refusal.code,
                message: &refusal.reason,
                stage: None,
                source: Some(FeedbackSource::StateNode),
                task: Some((&task.id, worker)),
            };
            let name = format!("{}-{:04}-{}", task_name(&task.id), task.attempts.len(), known.len() + 1);
            open(&state.run_id, &fault, &name, at)
        })
        .collect()
}

/// The text of a record's correction task: what is wrong, what was asked, and how to close it.
#[must_use]
pub fn correction(state: &RunState, record: &FeedbackRecord) -> String {
    let mut text = format!(
        "# Correction task for {}\n\n- run: {}\n- fault: {} ({})\n",
        record.id,
        state.run_id,
        record.code,
        record.classification.as_str()
    );
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    let place = record.task_id.as_ref().and_then(|task| state.task_by_id(task));
    if let (Some(task), Some(worker)) = (&record.task_id, &record.worker_id) {
        line(format!("- task: {task}, attempt {worker}"));
    }
    line(format!("\n## What is wrong\n\n{}", record.message.trim_end()));
    if let Some(place) = place {
        let prompt = workflow::render(&state.spec(place).prompt, &state.inputs);
        line(format!("\n## What was asked\n\n{}", prompt.trim_end()));
    }
    if let Some(guidance) = &record.guidance {
        line(format!("\n## Guidance\n\n{}", guidance.trim_end()));
    }
    let resolve = format!("flowdrive feedback resolve {} {}", state.run_id, record.id);
    line(format!(
        "\n## When it is done\n\nNo drive runs this task. Correct what is wrong, then close the record:\n\n    \
         {resolve} --resolution resolved --node NODE --evidence PLACE\n\nor have the task tried again with what was \
         learned:\n\n    {resolve} --resolution retry --guidance \"...\""
    ));
    text
}
