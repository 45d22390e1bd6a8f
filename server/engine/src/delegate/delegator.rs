//! The front of delegation: one call from start to end, on a task of its own that outlives whoever asked.
//!
//! Must not: let a process outlive its delegation, whatever becomes of the future, the caller or the runtime.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowdrive_protocol::ids::AgentName;
use flowdrive_protocol::workflow::Sandbox;
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::command;
use super::draft::Draft;
use super::endpoint;
use super::env;
use super::limits::{LONGEST_PAUSE, Limits};
use super::os::{self, Spawner, Sweeper};
use super::presets::SignIn;
use super::program;
use super::redact::{Redactor, redact_url};
use super::result_file;
use super::teller::{self, Teller};
use super::usable;
use crate::model::agent::{Agent, Assignment, Target};
use crate::model::outcome::{HandleKind, Notice, Outcome, ProcessIdentity};

/// Bytes of output that are taken from an agent.
pub(super) const OUTPUT_CAP: u64 = 32 * 1024 * 1024;

/// What a [`Delegator`] is made with.
#[derive(Debug, Clone)]
pub struct DelegatorOptions {
    /// The server's environment, from which agents' environments are built.
    pub parent_env: BTreeMap<String, String>,
    /// Delegations in flight at once, over all agents.
    pub max_concurrent: Option<NonZeroU32>,
    /// From `SIGTERM` to `SIGKILL` after a time limit.
    pub term_grace: Duration,
    /// From `SIGTERM` to `SIGKILL` after a stop.
    pub stop_grace: Duration,
    /// How long an agent's outputs may stay open after its own end, before what holds them is ended.
    pub leak_timeout: Duration,
    /// Silence after which a complete `result.md` counts as finished.
    pub result_quiet: Duration,
    /// How long an agent with a finished `result.md` may go on before it is ended and counted as completed.
    pub linger_grace: Duration,
    /// Bytes of output, or of an endpoint's answer, after which a delegation has failed.
    pub output_cap: u64,
}

impl Default for DelegatorOptions {
    fn default() -> Self {
        Self {
            parent_env: BTreeMap::new(),
            max_concurrent: None,
            term_grace: Duration::from_secs(5),
            stop_grace: Duration::from_secs(1),
            leak_timeout: Duration::from_millis(200),
            result_quiet: Duration::from_secs(2),
            linger_grace: Duration::from_secs(30),
            output_cap: OUTPUT_CAP,
        }
    }
}

impl DelegatorOptions {
    /// The defaults, with this process's own environment. Variables that are not UTF-8 are left out.
    #[must_use]
    pub fn from_process() -> Self {
        let parent_env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { parent_env, ..Self::default() }
    }
}

/// Why there is no delegator.
#[derive(Debug, Error)]
pub enum DelegateError {
    /// The system has no thread for us.
    #[error("cannot start the thread that starts agents: {0}; raise the limit on threads or processes")]
    NoThread(#[source] io::Error),
}

/// What can end a delegation from outside.
#[derive(Debug, Clone)]
pub(super) struct Stops {
    /// Ends it with a grace.
    pub(super) stop: CancellationToken,
    /// Ends it without any.
    pub(super) hurry: CancellationToken,
}

/// What is known of a command agent's program without giving it a task.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where it is; or, in words, why it is not.
    pub(crate) path: Result<PathBuf, String>,
    /// What it says its version is; or why it says none. None when it was not asked.
    pub(crate) version: Option<Result<String, String>>,
    /// What it could sign in with; none for a program whose ways are not known.
    pub(crate) sign_in: Option<SignIn>,
}

/// What all delegations share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: DelegatorOptions,
    pub(super) redactor: Arc<Redactor>,
    pub(super) clients: endpoint::Clients,
    pub(super) spawner: Spawner,
    pub(super) sweeper: Sweeper,
    limits: Limits,
    tasks: TaskTracker,
    stop: CancellationToken,
    hurry: CancellationToken,
    marker: String,
    delegations: AtomicU64,
}

impl Shared {
    /// A marker no other delegation has, of this server or another; inside an agent of another server, one that begins
    /// with that agent's, so that it can be found from there too.
    pub(super) fn next_marker(&self) -> String {
        format!("{}-{}", self.marker, self.delegations.fetch_add(1, Ordering::Relaxed))
    }

    /// Resolves when the server stops.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + use<> {
        self.stop.clone().cancelled_owned()
    }

    /// Gives the agent no new delegation for so long.
    pub(super) fn pause(&self, agent: &AgentName, wait: Duration) {
        self.limits.pause(agent, Instant::now() + wait.min(LONGEST_PAUSE));
    }
}

/// Runs delegations. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Delegator {
    shared: Arc<Shared>,
}

impl Delegator {
    /// Needs no runtime yet; the HTTP clients are made when first used.
    ///
    /// # Errors
    /// When the thread that starts agents cannot be started.
    pub fn new(options: DelegatorOptions) -> Result<Self, DelegateError> {
        // The standard library's hasher is seeded from the system's randomness.
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let outer = options.parent_env.get(env::MARKER).map(|outer| format!("{outer}/")).unwrap_or_default();
        let tasks = TaskTracker::new();
        let spawner = Spawner::new().map_err(DelegateError::NoThread)?;
        let shared = Shared {
            redactor: Arc::new(Redactor::new(&options.parent_env)),
            clients: endpoint::Clients::default(),
            sweeper: Sweeper::new(tasks.clone(), &spawner),
            spawner,
            limits: Limits::new(options.max_concurrent),
            tasks,
            stop: CancellationToken::new(),
            hurry: CancellationToken::new(),
            marker: format!("{outer}{}-{random:016x}", std::process::id()),
            delegations: AtomicU64::new(1),
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Runs one delegation from start to end. When `stop` is cancelled, everything the agent started is ended, and only
    /// then it is [`Ending::Interrupted`]. Dropping the future ends it as well; [`Self::shutdown`] waits for that.
    ///
    /// [`Ending::Interrupted`]: crate::model::outcome::Ending::Interrupted
    pub async fn delegate(
        &self,
        agent: &Agent,
        assignment: &Assignment,
        notice: &(dyn Fn(Notice) + Send + Sync),
        stop: &CancellationToken,
    ) -> Outcome {
        let stop = stop.child_token();
        let _ended_when_dropped = stop.clone().drop_guard();
        let (teller, mut hearer) = teller::channel();
        let task = Task {
            shared: Arc::clone(&self.shared),
            agent: agent.clone(),
            assignment: assignment.clone(),
            stops: Stops { stop, hurry: self.shared.hurry.clone() },
        };
        let task = self.shared.tasks.spawn(task.run(teller));
        while let Some(told) = hearer.next().await {
            notice(told);
        }
        match task.await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(%error, task = %assignment.task_id, "a delegation's own task failed");
                let handle = match agent.target {
                    Target::Command { .. } => HandleKind::Process,
                    Target::Endpoint { .. } => HandleKind::Endpoint,
                };
                let draft = Draft::new(
                    handle,
                    self.describe(agent, None, assignment.sandbox),
                    Vec::new(),
                    &self.shared.redactor,
                );
                draft.failed("internal", "the delegation was torn by a fault of the server; its log says more", None)
            }
        }
    }

    /// The command line or URL, redacted, for a preview. What only an attempt knows stays as its placeholder.
    #[must_use]
    pub fn describe(&self, agent: &Agent, model: Option<&str>, sandbox: Sandbox) -> String {
        let model = model.or(agent.model.as_deref());
        match &agent.target {
            Target::Command { argv, stdin, preset } => {
                let target = command::Target { argv, stdin: *stdin, preset: *preset };
                command::describe(&self.shared, target, model, sandbox)
            }
            Target::Endpoint { url, .. } => redact_url(url),
        }
    }

    /// Text as it may be shown.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.shared.redactor.redact_text(text).into_owned()
    }

    /// Why the agent cannot be used, redacted; none when nothing speaks against it. Starts and asks nothing.
    pub(crate) fn unusable(&self, agent: &Agent) -> Option<String> {
        usable::fault(agent, &self.shared.options.parent_env).map(|reason| self.redact(&reason))
    }

    /// Looks for a command agent's program, in the environment the agent would get. A program that is named without a
    /// folder and found on `PATH` is asked for its version; that takes a few seconds at most. None for an endpoint.
    pub(crate) async fn look_for(&self, agent: &Agent) -> Option<Found> {
        let Target::Command { argv, preset, .. } = &agent.target else { return None };
        let name = argv.first().cloned().unwrap_or_default();
        let agent_env = env::build(&agent.env, &self.shared.options.parent_env);
        let sign_in = SignIn::look(*preset, &agent_env);
        let path = match program::find(&name, &agent_env.vars) {
            Ok(path) if program::is_program(&path) => path,
            Ok(_) => return Some(Found { path: Err(format!("{name} may not be executed")), version: None, sign_in }),
            Err(reason) => return Some(Found { path: Err(reason), version: None, sign_in }),
        };
        let version = if Path::new(&name).components().count() > 1 {
            None
        } else {
            let (shared, path) = (Arc::clone(&self.shared), path.clone());
            // On a task of its own: whoever asked may go, and the program has to be ended all the same.
            let asked = self.shared.tasks.spawn(async move { super::probe::version(&shared, &path, &agent_env).await });
            Some(asked.await.unwrap_or_else(|error| Err(format!("asking for its version failed: {error}"))))
        };
        Some(Found { path: Ok(path), version, sign_in })
    }

    /// Slots and cool-downs.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Delegations whose processes are not all reaped yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.tasks.len()
    }

    /// A marker no other delegation has, of this server or another. Recorded before an agent is started with it.
    #[must_use]
    pub fn next_marker(&self) -> String {
        self.shared.next_marker()
    }

    /// Ends what a dead server left of an attempt, by what it had recorded; true when there was something.
    pub async fn end_left(&self, process: Option<&ProcessIdentity>, marker: Option<&str>) -> bool {
        match (process, marker) {
            (Some(process), _) => self.end_orphan(process).await,
            (None, Some(marker)) => self.end_marked(marker).await,
            (None, None) => false,
        }
    }

    /// Ends what bears a delegation's marker, where a dead server had no time to record more; true when there was
    /// something. Where there is no `/proc` nothing is found.
    pub async fn end_marked(&self, marker: &str) -> bool {
        if marker.is_empty() {
            return false;
        }
        // No leader is known: number 0 is no process's, so only the marker counts.
        let (group, start_ticks, boot_id) = (0, 0, String::new());
        self.end(&ProcessIdentity { group, start_ticks, boot_id, marker: marker.to_owned() }).await
    }

    async fn end(&self, identity: &ProcessIdentity) -> bool {
        let swept = self.shared.sweeper.sweep(identity, None).await;
        if !swept.left.is_empty() {
            tracing::warn!(left = ?swept.left, "processes of a dead server could not be ended");
        }
        swept.found
    }

    /// Ends what a dead server left behind; true when there was something. Never hits a process that merely has got a
    /// number again: boot, start time and marker are checked. Where there is no `/proc` nothing is found.
    pub async fn end_orphan(&self, identity: &ProcessIdentity) -> bool {
        let known = !identity.marker.is_empty() && !identity.boot_id.is_empty() && identity.start_ticks > 0;
        known && os::is_this_boot(&identity.boot_id) && self.end(identity).await
    }

    /// Stops every delegation and waits until their processes are reaped, at most until the deadline. The last third of
    /// the time is for those that did not heed `SIGTERM`. After this, delegations end at once as interrupted.
    pub async fn shutdown(&self, deadline: Duration) {
        let shared = &self.shared;
        shared.stop.cancel();
        shared.tasks.close();
        let gone = |within: Duration| async move { tokio::time::timeout(within, shared.tasks.wait()).await.is_ok() };
        if !gone(deadline * 2 / 3).await {
            shared.hurry.cancel();
            if !gone(deadline / 3).await {
                tracing::warn!(left = shared.tasks.len(), "delegations were still being ended at the deadline");
            }
        }
    }
}

/// One delegation, as its own task owns it.
struct Task {
    shared: Arc<Shared>,
    agent: Agent,
    assignment: Assignment,
    stops: Stops,
}

impl Task {
    async fn run(self, teller: Teller) -> Outcome {
        let mut outcome = self.run_to_the_end(teller).await;
        // Whatever it came to: a result is read, quoted and kept also when its agent failed.
        let path = &self.assignment.folder.result;
        match result_file::redact(path, &self.redactor()).await {
            Ok(digest) => outcome.result_digest = digest,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a result cannot be looked through for secrets");
            }
        }
        outcome
    }

    /// What an agent's headers hold is secret whatever the variables are called.
    fn redactor(&self) -> Arc<Redactor> {
        let shared = &self.shared.redactor;
        match &self.agent.target {
            Target::Command { .. } => Arc::clone(shared),
            Target::Endpoint { headers, .. } => {
                let env = &self.shared.options.parent_env;
                shared.with(headers.values().filter_map(|name| env.get(name)).map(String::as_str))
            }
        }
    }

    async fn run_to_the_end(&self, teller: Teller) -> Outcome {
        let work = Box::pin(self.carry_out(&teller));
        let stop_with_server = async {
            self.shared.stop.cancelled().await;
            self.stops.stop.cancel();
            std::future::pending().await
        };
        tokio::select! {
            outcome = work => outcome,
            never = stop_with_server => never,
        }
    }

    async fn carry_out(&self, teller: &Teller) -> Outcome {
        let Self { shared, agent, assignment, stops } = self;
        match &agent.target {
            Target::Command { argv, stdin, preset } => {
                let target = command::Target { argv, stdin: *stdin, preset: *preset };
                command::run(shared, agent, target, assignment, teller, stops).await
            }
            Target::Endpoint { url, headers, ca } => {
                let target = endpoint::Target { url, headers, ca: ca.as_deref() };
                endpoint::run(shared, agent, target, &self.redactor(), assignment, stops).await
            }
        }
    }
}
