//! Feedback records: what opens one, and what may close one.

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackSource, FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{FeedbackId, RunId, TaskId, WorkerId};
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;
use thiserror::Error;

use crate::accept::feedback::{self as class, classify};
use crate::model::journal::Closing;
use crate::model::node;
use crate::model::state::RunState;
use crate::store::task_name;
use crate::workflow;

/// A verdict cites files that are gone.
pub const COMMIT_UNRESOLVABLE: &str = "commit-verifier-evidence-unresolvable";

/// An accepted result is no longer what was accepted.
pub const COMMIT_RESULT_CHANGED: &str = "commit-verifier-result-changed";

/// The codes of commits that were refused.
pub const COMMIT_REFUSALS: [&str; 2] = [COMMIT_UNRESOLVABLE, COMMIT_RESULT_CHANGED];

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

/// A parked task's fault as its record tells it: what happened, where, and what to do next. `reason` is the step's, whose
/// form other programs match on; its code says the same to a machine.
#[must_use]
pub fn in_words(task: &TaskId, worker: &WorkerId, reason: &str) -> String {
    let (reason, tries) = match reason.rsplit_once(" (attempt ") {
        Some((rest, count)) if count.ends_with(')') => match count[..count.len() - 1].split_once('/') {
            Some((tries, all)) => (rest, format!(" after {tries} of {all} attempts")),
            None => (reason, String::new()),
        },
        _ => (reason, String::new()),
    };
    const LOGS: &str = "its output is in the attempt's `logs`. Mend the agent";
    const LEFT: &str = "what it left is in the attempt's `result.md`. Mend what is wrong";
    let forms = [
        ("agent hop failed: ", "The agent failed: ", LOGS),
        ("agent produced no result.md", "The agent ended without an error, but wrote no result (`result.md`)", LOGS),
        ("result.md rejected: ", "The result was refused: ", LEFT),
        ("result cache rejected: ", "The result kept from an earlier run was refused: ", LEFT),
        (
            "sub-workflow result rejected by parent gate: ",
            "The result of the task's workflow was refused: ",
            "it is in the attempt's `result.md`. Mend what is wrong",
        ),
        (
            "sub-workflow ",
            "The task's workflow did not give a result: sub-workflow ",
            "its own run has the rest. Mend that",
        ),
    ];
    let form = forms.iter().find_map(|(form, words, mend)| Some((*words, reason.strip_prefix(form)?, *mend)));
    let (words, rest, mend) = form.unwrap_or(("", reason, LOGS));
    let end = if rest.ends_with(['.', '!', '?']) || (words.ends_with('.') && rest.is_empty()) { "" } else { "." };
    format!(
        "Task {task} is parked{tries}. {words}{rest}{end} The last attempt is {worker}; {mend}, or say in a `retry` what the \
         next attempt is to do otherwise, then resume the run."
    )
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
    #[error("Feedback {0} is closed already, as {how}", how = how(*.1))]
    Closed(FeedbackId, Resolution),
    /// Only a parked task can be tried again.
    #[error("Feedback {0} cannot be retried: its task is not parked")]
    NothingToRetry(FeedbackId),
    /// It was closed by a retry, and other guidance comes too late for that.
    #[error("Feedback {id} was closed by a retry already, and other guidance comes too late: {late}")]
    TooLate {
        /// The record.
        id: FeedbackId,
        /// How its task stands.
        late: Late,
    },
}

/// Why guidance reaches no attempt any more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Late {
    /// The attempt that was given the earlier guidance is under way.
    #[error("task {0} is being tried with what was said before")]
    Running(TaskId),
    /// It passed.
    #[error("task {0} was tried again and its result was accepted")]
    Accepted(TaskId),
    /// It failed, and another record waits or waited for that.
    #[error("task {task} was tried again and parked anew, as {newer}")]
    Parked {
        /// The task.
        task: TaskId,
        /// The record of that.
        newer: FeedbackId,
    },
    /// There is nothing to try.
    #[error("it is about no task of the run")]
    NoTask,
}

const fn how(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Resolved => "resolved",
        Resolution::Rejected => "rejected",
        Resolution::Retry => "retried",
        Resolution::Tasked => "tasked",
    }
}

/// The records that are to be closed as asked, or whose closing is to say more. None of those that say just that already:
/// asking twice changes nothing.
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

/// Whether a record may be closed as asked, and does not say all of that yet.
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
            return amends(state, params, record);
        }
        if closed != Resolution::Rejected {
            return Err(ResolutionRefused::Closed(id.clone(), closed));
        }
    }
    match params.resolution {
        Resolution::Rejected => {}
        Resolution::Tasked if record.status == FeedbackStatus::Tasked => return amends(state, params, record),
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

/// Whether a record that is closed as asked is told anything new. Other guidance for a retry needs an attempt that has not
/// begun yet: it is never taken in and then told to nobody.
fn amends(
    state: &RunState,
    params: &ResolveFeedbackParams,
    record: &FeedbackRecord,
) -> Result<bool, ResolutionRefused> {
    let differs = |said: &Option<String>, known: &Option<String>| {
        said.as_ref().is_some_and(|text| !text.trim().is_empty()) && said != known
    };
    let guided = differs(&params.guidance, &record.guidance);
    if guided
        && params.resolution == Resolution::Retry
        && let Some(late) = late(state, record)
    {
        return Err(ResolutionRefused::TooLate { id: record.id.clone(), late });
    }
    let known = |locator: &String| record.evidence.iter().any(|evidence| evidence.locator == *locator);
    Ok(guided
        || differs(&params.message, &record.resolution_note)
        || !params.evidence.iter().all(known)
        || !params.artifacts.iter().all(|artifact| record.artifacts.contains(artifact)))
}

/// Why guidance for a record's task would reach no attempt. None while the task waits for its next one.
fn late(state: &RunState, record: &FeedbackRecord) -> Option<Late> {
    let Some(place) = record.task_id.as_ref().and_then(|task| state.task_by_id(task)) else {
        return Some(Late::NoTask);
    };
    let task = &state.tasks[place];
    let attempt = |record: &FeedbackRecord| {
        let place = task.attempts.iter().position(|attempt| record.worker_id.as_ref() == Some(&attempt.worker));
        (place, record.created_at)
    };
    let of_task = state.feedback.values().filter(|other| other.task_id.as_ref() == Some(&task.id));
    match of_task.max_by_key(|other| attempt(other)).filter(|newest| newest.id != record.id) {
        Some(newer) => Some(Late::Parked { task: task.id.clone(), newer: newer.id.clone() }),
        None => match task.status {
            TaskStatus::Pending | TaskStatus::Failed => None,
            TaskStatus::Running => Some(Late::Running(task.id.clone())),
            TaskStatus::Completed => Some(Late::Accepted(task.id.clone())),
        },
    }
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
                message: &in_words(&task.id, worker, &refusal.reason),
                stage: None,
                source: Some(FeedbackSource::StateNode),
                task: Some((&task.id, worker)),
            };
            let name = format!("{}-{:04}-{}", task_name(&task.id), task.attempts.len(), known.len() + 1);
            open(&state.run_id, &fault, &name, at)
        })
        .collect()
}

/// How to close what the run's commit settled: the open records of commits that were refused before it. None if there are
/// none.
#[must_use]
pub fn settled_by_commit(state: &RunState) -> Option<(Vec<FeedbackId>, Closing)> {
    let commit = state.terminal_commit()?;
    let waits = |record: &&FeedbackRecord| {
        COMMIT_REFUSALS.contains(&record.code.as_str())
            && matches!(record.status, FeedbackStatus::Open | FeedbackStatus::Tasked)
    };
    let settled: Vec<FeedbackId> = state.feedback.values().filter(waits).map(|record| record.id.clone()).collect();
    let kind = if commit.verifier.is_some() { "commit" } else { "checkpoint" };
    (!settled.is_empty()).then(|| {
        let closing = Closing {
            resolution: Resolution::Resolved,
            node: node::node_id(&state.run_id, kind, commit.id.as_str()),
            message: Some(format!("what it was about was mended: the run is committed as {}", commit.id)),
            evidence: Vec::new(),
            artifacts: Vec::new(),
            guidance: None,
        };
        (settled, closing)
    })
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

#[cfg(test)]
#[path = "feedback_tests.rs"]
mod tests;
