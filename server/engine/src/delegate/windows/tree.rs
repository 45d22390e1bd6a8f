//! Ending everything a delegation started: the job object it is in.
//!
//! Must not: decide when a tree is to end.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::Spawner;
use crate::model::outcome::ProcessIdentity;
use crate::windows::Job;

/// Looks before we give up on what cannot be ended: a process stuck in the kernel.
const MOST_ROUNDS: u32 = 60;

/// Longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A child and everything it starts. Dropped, it ends.
#[derive(Debug)]
pub(in crate::delegate) struct Tree {
    job: Job,
    leader: u32,
}

impl Tree {
    /// Of a child that was started in this job.
    pub(super) const fn new(job: Job, leader: u32) -> Self {
        Self { job, leader }
    }

    /// Ends all of it.
    pub(in crate::delegate) fn kill(&self) {
        if let Err(error) = self.job.end() {
            tracing::warn!(%error, "a job object could not be ended; it ends with this server");
        }
    }

    /// Nobody has to know here when the child is reaped: a job is no number.
    pub(in crate::delegate) fn let_leader_go(&mut self) {}

    /// The processes in it but for the child itself.
    fn others(&self) -> Vec<i32> {
        let all =
            self.job.processes().inspect_err(|error| tracing::warn!(%error, "a job object could not be looked at"));
        let others = all.unwrap_or_default().into_iter().filter(|pid| *pid != self.leader);
        others.map(|pid| i32::try_from(pid).unwrap_or(i32::MAX)).collect()
    }
}

/// What was left when a tree was to end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::delegate) struct Swept {
    /// Processes found alive, the leader not among them.
    pub(in crate::delegate) found: bool,
    /// Processes that could not be ended.
    pub(in crate::delegate) left: Vec<i32>,
}

/// Ends trees.
#[derive(Debug, Clone)]
pub(in crate::delegate) struct Sweeper;

impl Sweeper {
    /// Needs to know nothing of the other delegations here.
    pub(in crate::delegate) fn new(_: TaskTracker, _: &Spawner) -> Self {
        Self
    }

    /// There is no request a program would get: it is ended.
    #[expect(clippy::unused_async, reason = "the same shape as on Unix")]
    pub(in crate::delegate) async fn ask(&self, _: &ProcessIdentity, tree: &Tree) {
        tree.kill();
    }

    /// Ends every process of the delegation. Without a tree there is nothing: it ended with its server.
    pub(in crate::delegate) async fn sweep(&self, _: &ProcessIdentity, tree: Option<&Tree>) -> Swept {
        let mut swept = Swept::default();
        let Some(tree) = tree else { return swept };
        let mut pause = Duration::from_millis(1);
        for _ in 0..MOST_ROUNDS {
            swept.left = tree.others();
            if swept.left.is_empty() {
                break;
            }
            swept.found = true;
            tree.kill();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        swept
    }
}
