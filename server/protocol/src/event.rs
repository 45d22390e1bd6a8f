//! What a client is told while a run is driven: the parameters of `flowdrive/progress`.
//!
//! Lifecycle events are numbered 1, 2, 3 ... per run, are kept with the run, and can be asked for again with `showRun`
//! and `sinceSeq`. `agentActivity` is a live line, not kept: it carries the number of the lifecycle event before it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::feedback::{FeedbackClass, FeedbackSeverity, FeedbackStatus};
use crate::ids::{AgentName, CommitId, FeedbackId, PhaseId, RunId, TaskId, WorkerId};
use crate::outcome::Usage;
use crate::run::{CacheState, RunStatus, StopMode};
use crate::time::Timestamp;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressEvent {
    /// The run.
    pub run_id: RunId,
    /// The event's number; for `agentActivity`, that of the lifecycle event before it.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $ty:ty,)* })*) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
        pub enum Event { $($(#[$doc])* $name { $($(#[$fdoc])* $field: $ty,)* },)* }

        /// The `type` of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub enum EventKind { $($(#[$doc])* $name,)* }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }

        impl Event {
            /// The event's type.
            #[must_use]
            pub const fn kind(&self) -> EventKind {
                match self { $(Self::$name { .. } => EventKind::$name,)* }
            }
        }
    };
}

events! {
    /// A drive of the run began.
    RunStarted {
        /// The workflow's id.
        workflow_id: String,
        /// The workflow's title.
        title: String,
        /// Tasks in the run.
        planned_workers: u32,
        /// Tasks already accepted by earlier drives.
        completed_workers: u32,
        /// Whether an earlier drive is carried on.
        resumed: bool,
        /// What of the workflow is allowed but likely a slip, such as a placeholder that names no input.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }
    /// The first task of a phase is about to start.
    PhaseStarted {
        /// The phase.
        phase: PhaseId,
        /// Its name for people.
        title: String,
        /// Its tasks.
        tasks: u32,
        /// How many run at once.
        width: u32,
    }
    /// A task was recorded as started; its agent starts next.
    TaskDispatched {
        /// The task.
        task_id: TaskId,
        /// The attempt's folder.
        worker_id: WorkerId,
        /// Its phase.
        phase: PhaseId,
        /// The agent.
        agent: AgentName,
        /// The attempt, from 1.
        attempt: u32,
        /// For a task whose result may be reused: whether it was, and why or why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<CacheState>,
    }
    /// A line of what an agent is doing.
    AgentActivity {
        /// The task.
        task_id: TaskId,
        /// The attempt's folder.
        worker_id: WorkerId,
        /// The line, cut to 500 characters, secrets replaced.
        text: String,
        /// Earlier lines of this task that were left out because the client reads slowly.
        #[serde(default, skip_serializing_if = "is_zero")]
        coalesced: u64,
    }
    /// A task's result passed.
    TaskAccepted {
        /// The task.
        task_id: TaskId,
        /// The attempt's folder.
        worker_id: WorkerId,
        /// Its phase.
        phase: PhaseId,
        /// Where the result came from.
        source: ResultSource,
        /// Its first line.
        summary: String,
        /// How many findings it holds.
        findings: u32,
        /// What the agent said it used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    }
    /// An attempt failed and the task is tried again.
    TaskRetrying {
        /// The task.
        task_id: TaskId,
        /// The attempt's folder.
        worker_id: WorkerId,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// Attempts allowed.
        max_attempts: u32,
        /// The fault's code.
        code: String,
        /// Why it failed.
        reason: String,
        /// When the next attempt starts, if not at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    }
    /// A task's attempts are used up.
    TaskParked {
        /// The task.
        task_id: TaskId,
        /// The last attempt's folder.
        worker_id: WorkerId,
        /// Its phase.
        phase: PhaseId,
        /// Attempts made.
        attempts: u32,
        /// The fault's code.
        code: String,
        /// Why the last one failed.
        reason: String,
    }
    /// A feedback record waits for a person.
    FeedbackOpened {
        /// The record.
        feedback_id: FeedbackId,
        /// The task it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task_id: Option<TaskId>,
        /// What kind of fault it is.
        classification: FeedbackClass,
        /// How much it matters.
        severity: FeedbackSeverity,
        /// The fault in a sentence.
        message: String,
    }
    /// A feedback record was closed, or is being worked on (`tasked`).
    FeedbackClosed {
        /// The record.
        feedback_id: FeedbackId,
        /// How it stands now.
        status: FeedbackStatus,
    }
    /// The run was committed.
    Checkpoint {
        /// The commit.
        commit_id: CommitId,
        /// Why.
        reason: String,
        /// Whether a verified verdict stands behind it.
        verifier_gated: bool,
    }
    /// A phase's tasks are all accepted.
    PhaseFinished {
        /// The phase.
        phase: PhaseId,
        /// Tasks accepted.
        completed: u32,
    }
    /// Agents reported to have spent four fifths of the token budget, or more.
    BudgetWarning {
        /// Tokens recorded.
        spent: u64,
        /// Tokens the run may spend.
        budget: u64,
    }
    /// A stop was asked for.
    StopRequested {
        /// How.
        mode: StopMode,
        /// By whom, such as `client`, `SIGTERM`, `shutdown`.
        by: String,
    }
    /// The drive ended.
    RunFinished {
        /// How the run stands.
        status: RunStatus,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Tasks accepted.
        completed_workers: u32,
        /// Tasks parked.
        parked_workers: u32,
        /// Where the report is.
        report_path: String,
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Event {
    /// Whether the event is kept and replayed. Only agent activity is not.
    #[must_use]
    pub const fn is_lifecycle(&self) -> bool {
        !matches!(self, Self::AgentActivity { .. })
    }
}

/// Where an accepted result came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResultSource {
    /// An agent made it.
    Agent,
    /// An earlier run's result, judged again.
    Cache,
    /// A child run.
    SubWorkflow,
}
