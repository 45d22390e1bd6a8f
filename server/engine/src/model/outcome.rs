//! How a delegation ended. One type for every kind of agent: nothing after this point knows which kind it was.

use flowdrive_protocol::ids::AgentName;
use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::Attempt;

/// How a delegation ended. Holds no secret: everything in it has been redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The end itself.
    pub ending: Ending,
    /// Whether a process or an endpoint did it.
    pub handle: HandleKind,
    /// The command line or URL, redacted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub invocation: String,
    /// The process's exit code, or the one the endpoint reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What the agent said about itself.
    #[serde(default)]
    pub report: AgentReport,
    /// SHA-256 of what it printed (`sha256:` and 64 hex digits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_digest: Option<String>,
    /// SHA-256 of the result it left, in the same form. None where it left none, or one too long to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_digest: Option<String>,
    /// The last of what it wrote to standard error, redacted, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Names of the provider variables that were passed on. Never values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwarded_env: Vec<String>,
    /// Whether something it started outlived it and had to be ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaked: bool,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

impl Outcome {
    /// An outcome of which nothing but its end is known, as of now.
    #[must_use]
    pub fn bare(ending: Ending, handle: HandleKind, invocation: String, started_at: Timestamp) -> Self {
        Self {
            ending,
            handle,
            invocation,
            exit_code: None,
            report: AgentReport::default(),
            stdout_digest: None,
            result_digest: None,
            stderr_tail: String::new(),
            forwarded_env: Vec::new(),
            leaked: false,
            started_at,
            ended_at: Timestamp::now(),
        }
    }

    /// Lets go of what is neither shown nor decided upon once the outcome is judged. The journal keeps all of it.
    pub(crate) fn forget_particulars(&mut self) {
        self.invocation = String::new();
        (self.stdout_digest, self.result_digest) = (None, None);
        self.stderr_tail = String::new();
        (self.report.raw_usage, self.report.usage_signature) = (None, None);
    }
}

/// How an attempt ended, as it is noted before the journal has it, with what tells whose end it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Noted {
    /// The agent.
    pub agent: AgentName,
    /// What marked its processes.
    pub marker: String,
    /// Its process, where it was one and was seen to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Noted {
    /// Whether it tells of the attempt that the journal has: the same agent, the same marker, which is made anew for each
    /// attempt, and the same process where the journal has one. A note that was left from elsewhere, or made up by one who
    /// does not know these, is none.
    #[must_use]
    pub fn is_of(&self, attempt: &Attempt) -> bool {
        let same_process = match (&attempt.process, &self.process) {
            (Some(recorded), Some(noted)) => recorded == noted,
            (Some(_), None) => false,
            // The server died before it wrote the start down.
            (None, Some(noted)) => noted.marker == self.marker,
            (None, None) => true,
        };
        self.agent == attempt.agent && attempt.marker.as_ref() == Some(&self.marker) && same_process
    }
}

/// The end of a delegation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Ending {
    /// The agent ended well. Whether its result is any good is judged later.
    Completed,
    /// The agent ran and failed, or could not be run.
    Failed {
        /// Stable, in kebab case: `agent-exit`, `agent-timeout`, `agent-stalled`, `agent-spawn`, `output-too-large`,
        /// `endpoint-error`, `endpoint-overloaded`, `agent-signalled`, `agent-cleanup` and the like.
        code: String,
        /// In a sentence; names what to do where that is known.
        reason: String,
        /// Set when trying again later could help though nothing is changed (429, connection reset, EAGAIN).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transient: Option<Transient>,
    },
    /// It was ended because the drive was told to stop. Costs no attempt.
    Interrupted,
}

/// A fault that may pass by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transient {
    /// How long the other side asked us to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Nobody listens where it was asked: more likely something that was not started than something that is busy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

/// What did the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandleKind {
    /// A child process.
    Process,
    /// An HTTP endpoint.
    Endpoint,
    /// Nobody: an earlier run's result was taken.
    ResultCache,
    /// A run of another workflow.
    SubWorkflow,
}

impl HandleKind {
    /// As a step names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Endpoint => "endpoint",
            Self::ResultCache => "result-cache",
            Self::SubWorkflow => "sub-workflow",
        }
    }
}

/// What an agent said about itself. Never filled in from what it was asked to be.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentReport {
    /// The model it says it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it says it used, in our spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
    /// The same as it wrote it, for its signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_usage: Option<Box<serde_json::Value>>,
    /// Its signature over that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_signature: Option<String>,
    /// Its own session id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What a delegation tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Its process exists. Written to the journal, so that a later process can find and end what this one left.
    ProcessStarted(ProcessIdentity),
    /// A line of what the agent is doing, redacted, at most 500 characters.
    Activity(String),
    /// The agent's own session id, as soon as it is known.
    Session(String),
}

/// A process group, told apart from any later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessIdentity {
    /// The group's id, which is its leader's process id.
    pub group: i32,
    /// The leader's start time in clock ticks since boot (field 22 of `/proc/<pid>/stat`); 0 where that is unknown.
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`, empty where that is unknown.
    pub boot_id: String,
    /// The value of the marker variable (`FLOWDRIVE_DELEGATION`) that everything it starts inherits.
    pub marker: String,
}

#[cfg(test)]
mod tests {
    use flowdrive_protocol::ids::WorkerId;

    use super::*;
    use crate::model::state::Verdict;

    fn process(marker: &str) -> ProcessIdentity {
        ProcessIdentity { group: 7, start_ticks: 70, boot_id: "boot".to_owned(), marker: marker.to_owned() }
    }

    fn agent(name: &str) -> AgentName {
        AgentName::new(name).unwrap()
    }

    #[test]
    fn a_note_is_of_the_attempt_that_the_journal_has_or_of_none() {
        let now = Timestamp::from_millis(1_767_323_045_678);
        let attempt = |marker: Option<&str>, process| Attempt {
            worker: WorkerId::new("worker-a-0001").unwrap(),
            agent: agent("one"),
            started_at: now,
            prompt_digest: String::new(),
            marker: marker.map(str::to_owned),
            process,
            session: None,
            outcome: None,
            verdict: Verdict::Open,
        };
        let note = |name: &str, marker: &str, process| Noted {
            agent: agent(name),
            marker: marker.to_owned(),
            process,
            outcome: Outcome::bare(Ending::Completed, HandleKind::Process, String::new(), now),
        };
        let later = ProcessIdentity { start_ticks: 71, ..process("m") };
        let cases = [
            (true, attempt(Some("m"), None), note("one", "m", None)),
            (true, attempt(Some("m"), None), note("one", "m", Some(process("m")))),
            (true, attempt(Some("m"), Some(process("m"))), note("one", "m", Some(process("m")))),
            (false, attempt(Some("m"), Some(process("m"))), note("one", "m", None)),
            (false, attempt(Some("m"), Some(process("m"))), note("one", "m", Some(later))),
            (false, attempt(Some("m"), None), note("one", "m", Some(process("other")))),
            (false, attempt(Some("m"), None), note("one", "other", None)),
            (false, attempt(Some("m"), None), note("two", "m", None)),
            (false, attempt(None, None), note("one", "m", None)),
            (false, attempt(None, None), note("one", "", None)),
        ];
        for (number, (fits, attempt, note)) in cases.into_iter().enumerate() {
            assert_eq!(note.is_of(&attempt), fits, "case {number}");
        }
    }
}
