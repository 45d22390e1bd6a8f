//! A task and its attempts.

use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::ids::{AgentName, PhaseId, TaskId, WorkerId};
use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::journal::AcceptedResult;
use crate::model::outcome::{Outcome, ProcessIdentity};

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskState {
    /// Its id.
    pub id: TaskId,
    /// Place of its phase in [`Workflow::phases`], and of its definition there.
    pub spec: (usize, usize),
    /// Its phase.
    pub phase: PhaseId,
    /// How it stands.
    pub status: TaskStatus,
    /// Failed attempts that count, since it was last opened.
    pub failures: u32,
    /// Transient faults in a row.
    pub transient: u32,
    /// Its attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::model::exact::list")]
    pub attempts: Vec<Attempt>,
    /// What the next attempt is told besides the prompt: what was refused, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refused>,
    /// What a person told it when reopening it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// When the next attempt may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// The accepted result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedResult>,
    /// When it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    /// Where the accepted result came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ResultSource>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The fault's code.
    pub code: String,
    /// In a sentence.
    pub reason: String,
}

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its id.
    pub worker: WorkerId,
    /// The agent.
    pub agent: AgentName,
    /// When it was dispatched.
    pub started_at: Timestamp,
    /// SHA-256 of its `input.md`, until it is judged; the journal keeps it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt_digest: String,
    /// What marks its agent's processes, while no outcome is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// Its process, while no outcome is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// The agent's own session id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// How it was judged.
    pub verdict: Verdict,
}

/// How an attempt was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Not yet.
    Open,
    /// Its result passed.
    Accepted,
    /// It failed, or its result was refused.
    Refused,
    /// It was ended from outside.
    Interrupted,
}

impl TaskState {
    /// Its newest attempt, while that is not judged.
    #[must_use]
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.verdict == Verdict::Open)
    }

    pub(super) fn new(id: TaskId, spec: (usize, usize), phase: PhaseId) -> Self {
        Self {
            id,
            spec,
            phase,
            status: TaskStatus::Pending,
            failures: 0,
            transient: 0,
            attempts: Vec::new(),
            refusal: None,
            guidance: None,
            not_before: None,
            accepted: None,
            accepted_at: None,
            source: None,
        }
    }
}

impl Attempt {
    /// Takes its verdict. What from then on only the journal has to tell is let go: ten thousand attempts are held in
    /// memory at once, and written out whole in every snapshot.
    pub(super) fn judged(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        self.prompt_digest = String::new();
        if let Some(outcome) = &mut self.outcome {
            outcome.forget_particulars();
        }
    }

    /// Tokens it spent, as far as reported.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let usage = self.outcome.as_ref().and_then(|outcome| outcome.report.usage.as_deref());
        usage.map_or(0, Usage::spent)
    }
}
