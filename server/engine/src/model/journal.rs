//! What is written down: one event for each thing that happened to a run. The journal is the truth; every state is a
//! fold over it ([`super::state::RunState::apply`]).
//!
//! Must not hold anything that depends on the order in which agents happened to finish: ids derive from task and
//! attempt.

mod told;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{AgentName, CommitId, FeedbackId, InputName, NodeId, PhaseId, RunId, TaskId, WorkerId};
use flowdrive_protocol::outcome::{Evidence, Finding, Usage};
use flowdrive_protocol::run::{CacheState, RunStatus, StopMode};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::Workflow;
use serde::{Deserialize, Serialize};

use super::outcome::{Outcome, ProcessIdentity};
pub use told::client_events;

/// The version of the journal's events. Raised when an older reader could misread them.
pub const STATE_VERSION: u32 = 1;

/// Longest result, in bytes, whose text the journal carries. A longer one is flushed to the disk before it is recorded.
pub const MAX_CARRIED: usize = 64 * 1024;

/// The reason of the commit that ends a run.
pub const TERMINAL_REASON: &str = "agent-delegation-drive: audited verdict committed";

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum JournalEvent {
    /// The run was planned. Always the first event.
    RunPlanned(Box<RunPlanned>),
    /// A process began to drive the run.
    DriveStarted {
        /// Its process id.
        pid: u32,
        /// Its machine.
        host: String,
        /// What it was asked.
        settings: DriveSettings,
        /// Whether an earlier drive is carried on.
        resumed: bool,
    },
    /// The first task of a phase is about to start.
    PhaseStarted {
        /// The phase.
        phase: PhaseId,
        /// How many of its tasks run at once.
        width: u32,
    },
    /// An attempt begins; its agent starts once this is on disk.
    TaskDispatched {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// The agent.
        agent: AgentName,
        /// Attempts that counted before this one, plus one.
        attempt: u32,
        /// SHA-256 of the attempt's `input.md`.
        prompt_digest: String,
        /// What marks the processes of its agent, recorded before there is one: a server that dies right after starting
        /// it leaves no other trace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String>,
        /// For a task whose result may be reused: whether it was, and why or why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<CacheState>,
    },
    /// The attempt's process exists.
    ProcessStarted {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// How a later process can find it.
        process: ProcessIdentity,
    },
    /// The agent named its own session.
    SessionKnown {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// The agent's session id.
        session: String,
    },
    /// The attempt ended. Not judged yet.
    OutcomeRecorded {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// The attempt's result passed.
    TaskAccepted {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// Where the result came from.
        source: ResultSource,
        /// The result.
        result: Box<AcceptedResult>,
        /// Its text, up to [`MAX_CARRIED`] bytes: its file need not be flushed, and can be written anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The attempt failed and the task is tried again.
    TaskRetrying {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// Whether the attempt counts.
        counted: bool,
        /// Attempts that counted so far.
        attempts: u32,
        /// Attempts allowed.
        max_attempts: u32,
        /// The fault's code.
        code: String,
        /// Why.
        reason: String,
        /// When the next attempt may start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    /// The task's attempts are used up.
    TaskParked {
        /// The task.
        task: TaskId,
        /// The last attempt's id.
        worker: WorkerId,
        /// Attempts that counted.
        attempts: u32,
        /// The fault's code.
        code: String,
        /// Why.
        reason: String,
        /// The feedback record that opens with it.
        feedback: Box<FeedbackRecord>,
    },
    /// The attempt was ended from outside; the task waits again and no attempt is counted.
    TaskInterrupted {
        /// The task.
        task: TaskId,
        /// The attempt's id.
        worker: WorkerId,
        /// Why.
        reason: String,
    },
    /// A feedback record opened that no single task caused.
    FeedbackOpened {
        /// The record.
        record: Box<FeedbackRecord>,
    },
    /// A feedback record was closed, or given a correction task.
    FeedbackClosed {
        /// The record.
        feedback: FeedbackId,
        /// Others that were closed with it, in the same way: one event, so that all are or none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<FeedbackId>,
        /// How.
        closing: Box<Closing>,
    },
    /// A loop decided whether to run once more.
    LoopDecided {
        /// The phase the loop is declared on.
        phase: PhaseId,
        /// The round that was looked at, from 1.
        round: u32,
        /// Whether the loop is done.
        done: bool,
        /// Whether it is done because no more rounds are allowed.
        at_cap: bool,
        /// Why.
        reason: String,
    },
    /// All of a phase's tasks are accepted.
    PhaseFinished {
        /// The phase.
        phase: PhaseId,
    },
    /// The run was committed.
    Committed {
        /// The commit.
        commit: Commit,
    },
    /// Most of the token budget is spent. Recorded once for each budget.
    BudgetWarned {
        /// Tokens recorded.
        spent: u64,
        /// Tokens allowed.
        budget: u64,
    },
    /// A stop was asked for.
    StopRequested {
        /// How.
        mode: StopMode,
        /// By whom.
        by: String,
    },
    /// The drive ended.
    DriveFinished {
        /// How the run stands.
        status: RunStatus,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// What a run is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPlanned {
    /// [`STATE_VERSION`] of the writer.
    pub schema_version: u32,
    /// The run.
    pub run_id: RunId,
    /// The workflow, whole: later changes to its file do not change the run.
    pub workflow: Workflow,
    /// `bundled`, `inline`, or the file it was read from.
    pub workflow_source: String,
    /// Its inputs, checked.
    pub inputs: BTreeMap<InputName, serde_json::Value>,
    /// The folder the run is about.
    pub workspace: String,
}

/// What a drive was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriveSettings {
    /// The agent for tasks that name none.
    pub agent: AgentName,
    /// Whether somebody named it, so that later drives of the run take it too. A default follows the configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_named: bool,
    /// The width asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<NonZeroU32>,
    /// Fill one window, settle it, stop.
    #[serde(default)]
    pub once: bool,
    /// Reuse results of earlier runs.
    #[serde(default)]
    pub incremental: bool,
    /// Attempts before a task parks.
    pub max_attempts: NonZeroU32,
    /// Tokens the run may spend, in place of the workflow's limit. 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u64>,
    /// Accept results without the signature that their agent must give.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unattested: bool,
}

/// A result that passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedResult {
    /// Its first line.
    pub summary: String,
    /// Its findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "super::exact::findings")]
    pub findings: Vec<Finding>,
    /// What it stands on as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "super::exact::list")]
    pub evidence: Vec<Evidence>,
    /// Whether it held neither findings nor evidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_capture: bool,
    /// Whether evidence that holds stands behind it, so that it can close feedback and gate a commit.
    pub verified: bool,
    /// The file below the run's folder.
    pub path: String,
    /// SHA-256 of that file.
    pub digest: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// What the agent said it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// What that is worth; absent for a result no agent made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Attestation>,
}

/// What an agent's report of its usage is worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attestation {
    /// The verdict.
    pub status: AttestationStatus,
    /// Why it is not attested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the signature stands for the result as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub covers_result: bool,
    /// Whether a signature was demanded and its lack allowed by whoever asked for the drive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overridden: bool,
}

/// Whether an agent's report of its usage is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttestationStatus {
    /// By the key that the user configured.
    Attested,
    /// Not, or not by that key.
    Unattested,
    /// There is no report.
    Absent,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commit {
    /// Its id.
    pub id: CommitId,
    /// Why.
    pub reason: String,
    /// The verified node behind it; a commit without one is an unverified checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<NodeId>,
    /// The workspace's git commit at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_head: Option<String>,
}

/// How a feedback record was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Closing {
    /// How.
    pub resolution: Resolution,
    /// The verified node that settles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// A note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What supports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Files that support it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What the task is told when it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
}

impl Closing {
    /// The status a record has after it.
    #[must_use]
    pub const fn status(&self) -> FeedbackStatus {
        match self.resolution {
            Resolution::Resolved | Resolution::Retry => FeedbackStatus::Resolved,
            Resolution::Rejected => FeedbackStatus::Rejected,
            Resolution::Tasked => FeedbackStatus::Tasked,
        }
    }
}
