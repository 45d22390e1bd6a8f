//! One command agent from its start to its reaping: reads its pipes all along, keeps its time limits, and ends everything it
//! started before it reaps it.
//!
//! Must not: judge how it ended, retry, or leave a process behind whatever happens to the task it runs on.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::activity::Throttle;
use super::delegator::Stops;
use super::linger::Linger;
use super::os::{Child, Exit, Started, Sweeper, Tree};
use super::pipes::{Pipes, Read};
use super::stderr::Stderr;
use super::stdout::{Fault, Printed, Stdout};
use super::teller::Teller;
use crate::model::outcome::ProcessIdentity;

/// How long a process may take to be gone after `SIGKILL` before it counts as stuck.
pub(super) const KILL_WAIT: Duration = Duration::from_secs(10);

/// How long a pipe may take to run dry once every process that could hold it is gone.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// Time limits of one delegation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// From start to end.
    pub(super) timeout: Duration,
    /// Longest silence on both outputs.
    pub(super) idle: Option<Duration>,
    /// From `SIGTERM` to `SIGKILL` after a time limit.
    pub(super) term_grace: Duration,
    /// From `SIGTERM` to `SIGKILL` after a stop.
    pub(super) stop_grace: Duration,
    /// How long the outputs may stay open after the agent's own end.
    pub(super) leak: Duration,
    /// Silence after which a complete result counts as finished.
    pub(super) result_quiet: Duration,
    /// How long an agent with a finished result may go on before it is ended.
    pub(super) linger_grace: Duration,
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// By itself.
    Exited,
    /// Over its wall-clock limit.
    TimedOut,
    /// Silent for too long.
    Stalled,
    /// We were told to stop.
    Stopped,
    /// Its output was too much.
    Output(Fault),
    /// Its result was complete, and it did not exit.
    Lingered,
}

/// How it ended. When this exists, its processes do not.
#[derive(Debug)]
pub(super) struct End {
    /// Why.
    pub(super) cause: Cause,
    /// As the system says; none when it could not be reaped.
    pub(super) status: Option<ExitStatus>,
    /// Whether `SIGTERM` was not enough.
    pub(super) killed: bool,
    /// Whether something outlived the agent's own end.
    pub(super) leaked: bool,
    /// Processes that could not be ended.
    pub(super) left: Vec<i32>,
    /// What it printed.
    pub(super) printed: Printed,
    /// The end of its error output.
    pub(super) stderr_tail: String,
}

/// The process a delegation started with. Dropped unreaped, it takes its tree with it: a task that is torn down (a
/// runtime that shuts down, a panic) leaves nothing behind either.
#[derive(Debug)]
pub(super) struct Leader {
    child: Child,
    tree: Tree,
    reaped: bool,
}

impl Leader {
    /// For a child that nobody has waited for.
    pub(super) fn new(started: Started) -> Self {
        Self { child: started.child, tree: started.tree, reaped: false }
    }

    /// It, and what it started.
    pub(super) const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The child.
    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end, which has come or is certain.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.tree.let_leader_go();
        let status = self.child.wait();
        self.reaped = true;
        status
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.reaped {
            self.tree.kill();
            self.tree.let_leader_go();
            // Not waited for long: this may run on a thread that must not block.
            let _ = self.child.try_wait();
        }
    }
}

/// An agent under way.
#[derive(Debug)]
struct Running<'t> {
    leader: Leader,
    identity: ProcessIdentity,
    exit: Exit,
    pipes: Pipes,
    stdout: Stdout,
    stderr: Stderr,
    last_output: Instant,
    throttle: Throttle,
    teller: &'t Teller,
}

/// A process that was started, and what becomes of its output.
#[derive(Debug)]
pub(super) struct Job {
    /// The process.
    pub(super) started: Started,
    /// Who it is.
    pub(super) identity: ProcessIdentity,
    /// Reads its standard output.
    pub(super) stdout: Stdout,
    /// Reads its standard error.
    pub(super) stderr: Stderr,
    /// Where it is to leave its result.
    pub(super) result: PathBuf,
}

/// Supervises a process until it and all it started are gone.
///
/// # Errors
/// When its pipes cannot be read; it is ended then.
pub(super) async fn supervise(
    job: Job,
    timing: Timing,
    stops: &Stops,
    sweeper: &Sweeper,
    teller: &Teller,
) -> io::Result<End> {
    let exit = Exit::of(&job.started);
    let mut leader = Leader::new(job.started);
    let mut running = Running {
        exit: exit?,
        pipes: Pipes::of(&mut leader.child)?,
        leader,
        identity: job.identity,
        stdout: job.stdout,
        stderr: job.stderr,
        last_output: Instant::now(),
        throttle: Throttle::default(),
        teller,
    };
    let cause = running.run(timing, stops, Linger::new(job.result, timing.result_quiet, timing.linger_grace)).await;
    Ok(running.end(cause, timing, stops, sweeper).await)
}

impl Running<'_> {
    /// Until it ends or has to be ended.
    async fn run(&mut self, timing: Timing, stops: &Stops, mut linger: Linger) -> Cause {
        let deadline = Instant::now().checked_add(timing.timeout);
        loop {
            let silent_until = timing.idle.and_then(|idle| self.last_output.checked_add(idle));
            // In this order: an agent that prints without end must not keep its limits from being seen.
            tokio::select! {
                biased;
                () = stops.stop.cancelled() => return Cause::Stopped,
                () = self.exit.wait() => return Cause::Exited,
                () = at(deadline) => return Cause::TimedOut,
                () = at(silent_until) => return Cause::Stalled,
                () = at(self.throttle.next()) => self.tell_activity(None),
                () = sleep_until(linger.next()) => {
                    if linger.is_over(self.last_output).await {
                        return Cause::Lingered;
                    }
                }
                read = self.pipes.read() => {
                    if let Some(fault) = self.take(read).await {
                        return Cause::Output(fault);
                    }
                }
            }
        }
    }

    /// Ends the tree and reaps the leader, reading what is still printed meanwhile.
    async fn end(mut self, cause: Cause, timing: Timing, stops: &Stops, sweeper: &Sweeper) -> End {
        let killed = cause != Cause::Exited && self.ask_and_wait(cause, timing, stops, sweeper).await;
        let gone = timeout_at(Instant::now() + KILL_WAIT, self.exit.wait()).await.is_ok();
        let mut held = false;
        if cause == Cause::Exited {
            held = !self.drain(Instant::now() + timing.leak, Some(&stops.hurry)).await;
        } else {
            self.leader.tree().kill();
        }
        let swept = sweeper.sweep(&self.identity, Some(self.leader.tree())).await;
        self.drain(Instant::now() + DRAIN_WAIT, None).await;
        self.tell_activity(None);
        let mut left = swept.left;
        let status = if gone {
            self.leader.reap().inspect_err(|error| tracing::error!(%error, "an agent could not be reaped")).ok()
        } else {
            left.insert(0, self.identity.group);
            None
        };
        End {
            cause,
            status,
            killed,
            leaked: cause == Cause::Exited && (held || swept.found),
            left,
            printed: self.stdout.finish().await,
            stderr_tail: self.stderr.finish().await,
        }
    }

    /// A request to end, the grace, the end, each to the whole tree. True when it took the last.
    async fn ask_and_wait(&mut self, cause: Cause, timing: Timing, stops: &Stops, sweeper: &Sweeper) -> bool {
        let began = Instant::now();
        let mut stopped = cause == Cause::Stopped;
        let mut ended = false;
        {
            let asking = sweeper.ask(&self.identity, self.leader.tree());
            tokio::pin!(asking);
            // First of all, and to the end unless there is no time: what left the group is found by looking.
            tokio::select! {
                biased;
                () = &mut asking => {}
                () = self.exit.wait() => ended = true,
                () = stops.hurry.cancelled() => {}
                () = sleep_until(began + timing.stop_grace) => {}
            }
        }
        while !ended {
            let deadline = began + if stopped { timing.stop_grace } else { timing.term_grace };
            tokio::select! {
                biased;
                () = self.exit.wait() => ended = true,
                () = stops.hurry.cancelled() => break,
                () = sleep_until(deadline) => break,
                () = stops.stop.cancelled(), if !stopped => stopped = true,
                read = self.pipes.read() => {
                    self.take(read).await;
                }
            }
        }
        if !ended {
            self.leader.tree().kill();
        }
        !ended
    }

    /// Reads until both outputs are closed. False when they were still open then.
    async fn drain(&mut self, deadline: Instant, hurry: Option<&CancellationToken>) -> bool {
        loop {
            if self.pipes.are_closed() {
                return true;
            }
            tokio::select! {
                biased;
                () = async { hurry.map_or_else(CancellationToken::new, Clone::clone).cancelled_owned().await } => return false,
                () = sleep_until(deadline) => return false,
                read = self.pipes.read() => {
                    self.take(read).await;
                }
            }
        }
    }

    /// Passes on what was read.
    async fn take(&mut self, read: Read) -> Option<Fault> {
        self.last_output = Instant::now();
        match read {
            Read::Out(len) => {
                let news = self.stdout.push(self.pipes.out(len)).await;
                if let Some(session) = news.session {
                    self.teller.session(session);
                }
                self.tell_activity(news.activity);
                news.fault
            }
            Read::Err(len) => {
                let activity = self.stderr.push(self.pipes.err(len)).await;
                self.tell_activity(activity);
                None
            }
            Read::Closed => None,
        }
    }

    fn tell_activity(&mut self, newest: Option<String>) {
        let now = Instant::now();
        let due = match newest {
            Some(line) => self.throttle.offer(line, now),
            None => self.throttle.due(now),
        };
        if let Some(line) = due {
            self.teller.activity(line);
        }
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
