//! Agents as the engine runs them: the user's configuration, checked and with every default filled in.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use flowdrive_protocol::config::{EnvPolicy, Preset, StdinMode};
use flowdrive_protocol::ids::{AgentName, RunId, TaskId, WorkerId};
use flowdrive_protocol::workflow::Sandbox;

/// What `{{name}}` may name in an agent's arguments.
pub const PLACEHOLDERS: [&str; 6] = ["manifest", "input", "result", "workerDir", "prompt", "model"];

/// An agent that can be delegated to.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name in the configuration.
    pub name: AgentName,
    /// How it is reached.
    pub target: Target,
    /// The model it is asked to use, unless the task names one.
    pub model: Option<String>,
    /// Wall-clock limit for one delegation.
    pub timeout: Duration,
    /// Longest silence allowed.
    pub idle_timeout: Option<Duration>,
    /// Delegations to it in flight at once.
    pub max_concurrent: Option<NonZeroU32>,
    /// Which environment variables it gets.
    pub env: EnvPolicy,
    /// Ed25519 public key its reported usage must verify under (PEM text).
    pub attest_public_key: Option<String>,
    /// Refuse results whose usage carries no valid signature.
    pub require_attested_usage: bool,
}

/// How an agent is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A program. Placeholders in `argv` are replaced at each delegation.
    Command {
        /// Program and arguments; never empty.
        argv: Vec<String>,
        /// What it gets on standard input.
        stdin: StdinMode,
        /// How its output is read: a preset's own format, or the plain one.
        preset: Option<Preset>,
    },
    /// An HTTP endpoint.
    Endpoint {
        /// Where delegations are posted.
        url: String,
        /// Header name to the name of the environment variable that holds its value.
        headers: BTreeMap<String, String>,
        /// Certificates (PEM) that its own may be signed by, besides those the system trusts.
        ca: Option<String>,
    },
}

/// The default wall-clock limit for one delegation.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(600_000);

/// One attempt at a task, as handed to an agent.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The run.
    pub run_id: RunId,
    /// The task.
    pub task_id: TaskId,
    /// The attempt's id, and the name of its folder.
    pub worker_id: WorkerId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The agent's working directory.
    pub workspace: PathBuf,
    /// The attempt's folder and the files in it. Made before the agent starts.
    pub folder: WorkerFolder,
    /// The task's prompt, inputs filled in, with guidance and what was refused before.
    pub prompt: String,
    /// The model asked for.
    pub model: Option<String>,
    /// Wall-clock limit for this attempt.
    pub timeout: Duration,
    /// The sandbox policy.
    pub sandbox: Sandbox,
    /// What marks every process that the agent starts; no other delegation has it. See
    /// [`crate::delegate::Delegator::next_marker`].
    pub marker: String,
    /// The agent's own session id from an earlier attempt at this task, for agents that can carry one on.
    pub session: Option<String>,
}

/// The paths of an attempt's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerFolder {
    /// The folder.
    pub dir: PathBuf,
    /// What the agent is to read.
    pub input: PathBuf,
    /// What the agent is to write.
    pub result: PathBuf,
    /// The same as data.
    pub manifest: PathBuf,
    /// Where it may leave files.
    pub artifacts: PathBuf,
    /// Where its output is kept.
    pub logs: PathBuf,
}

impl WorkerFolder {
    /// The layout below `dir`.
    #[must_use]
    pub fn at(dir: PathBuf) -> Self {
        Self {
            input: dir.join("input.md"),
            result: dir.join("result.md"),
            manifest: dir.join("manifest.json"),
            artifacts: dir.join("artifacts"),
            logs: dir.join("logs"),
            dir,
        }
    }
}
