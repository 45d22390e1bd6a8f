//! Ending everything a delegation started, and nothing else.
//!
//! The group gets its signal while its leader is still unreaped, so its number cannot be anybody else's. What left the
//! group is found by looking at all processes (see [`Snapshot::members`]) in rounds, until a look finds none: one that
//! forks while we look is found by the next. Each is ended through a handle (pidfd) taken before its start time is
//! checked once more, so that a reused number is never hit.
//!
//! Looks are shared: one look at all processes serves every delegation that asked before it began, and in a
//! crowd looks keep a pause between them, so that hundreds of short delegations cost few of them.
//!
//! Must not: decide when a tree is to end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::process::{self, Process, Snapshot};
use crate::model::outcome::ProcessIdentity;

/// Looks before we give up on what cannot be ended: a process stuck in the kernel, or another user's.
const MOST_ROUNDS: u32 = 60;

/// Longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Sends a signal to a whole group. The leader must not have been reaped yet. A group that is gone is no error.
pub(super) fn signal_group(group: i32, signal: Signal) {
    // 0 and 1 are our own group and everybody's: never.
    if group > 1
        && let Some(pid) = Pid::from_raw(group)
    {
        let _ = kill_process_group(pid, signal);
    }
}

/// What was left when a tree was to end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Swept {
    /// Processes found alive, the leader not among them.
    pub(super) found: bool,
    /// Processes that could not be ended.
    pub(super) left: Vec<i32>,
}

/// Ends trees. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Sweeper {
    looks: Arc<Looks>,
    /// All delegations under way: the more there are, the more a look can serve that waits a little.
    delegations: TaskTracker,
}

#[derive(Debug)]
struct Looks {
    /// Whose turn it is to look. Who waits for it wants the outcome of the look under way.
    turn: Semaphore,
    latest: Mutex<Latest>,
    /// The start times of the delegations that wait for a look: nothing older than the oldest needs one.
    waiting: Mutex<Vec<u64>>,
}

#[derive(Debug, Default, Clone)]
struct Latest {
    began: Option<Instant>,
    took: Duration,
    since: u64,
    snapshot: Arc<Snapshot>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), latest: Mutex::default(), waiting: Mutex::default() }
    }
}

/// A place among those who wait for a look.
struct Waiting<'l> {
    looks: &'l Looks,
    since: u64,
}

impl<'l> Waiting<'l> {
    fn new(looks: &'l Looks, since: u64) -> Self {
        lock(&looks.waiting).push(since);
        Self { looks, since }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.looks.waiting);
        if let Some(at) = waiting.iter().position(|since| *since == self.since) {
            waiting.swap_remove(at);
        }
    }
}

/// Every critical section leaves its value whole, so a poisoned lock is taken as it is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sweeper {
    /// For the delegations of this tracker.
    pub(super) fn new(delegations: TaskTracker) -> Self {
        Self { looks: Arc::default(), delegations }
    }

    /// Ends every process of the delegation. `unreaped`: its leader has ended, or had its signal, and is the caller's to
    /// reap; it is neither counted nor waited for.
    pub(super) async fn sweep(&self, identity: &ProcessIdentity, unreaped: bool) -> Swept {
        let mut swept = Swept::default();
        let mut pause = Duration::from_millis(1);
        for _ in 0..MOST_ROUNDS {
            let snapshot = self.look(identity.start_ticks).await;
            let mut members: Vec<&Process> = snapshot.members(identity, unreaped);
            members.retain(|process| !(unreaped && process.pid == identity.group));
            if members.is_empty() {
                swept.left.clear();
                return swept;
            }
            swept.found = true;
            swept.left = members.iter().map(|process| process.pid).collect();
            if unreaped {
                // All at once, where a group forks faster than it can be looked through.
                signal_group(identity.group, Signal::KILL);
            }
            for member in members {
                kill(member);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        swept
    }

    /// A look at all processes that began after this was called.
    async fn look(&self, since: u64) -> Arc<Snapshot> {
        let called = Instant::now();
        let looks = &*self.looks;
        let _waiting = Waiting::new(looks, since);
        // The semaphore is never closed; were it, everybody would look for themselves.
        let _turn = looks.turn.acquire().await;
        let latest = lock(&looks.latest).clone();
        if let Some(began) = latest.began {
            if began > called && latest.since <= since {
                return latest.snapshot;
            }
            // Alone, nobody waits. In a crowd, at most about a fifth of one core goes into looking.
            let others = u32::try_from(self.delegations.len().saturating_sub(1)).unwrap_or(u32::MAX);
            tokio::time::sleep_until((began + latest.took * others.min(5)).into()).await;
        }
        let oldest = lock(&looks.waiting).iter().copied().min().unwrap_or(since).min(since);
        let began = Instant::now();
        let snapshot = tokio::task::spawn_blocking(move || process::snapshot(oldest)).await.unwrap_or_default();
        let snapshot = Arc::new(snapshot);
        let latest =
            Latest { began: Some(began), took: began.elapsed(), since: oldest, snapshot: Arc::clone(&snapshot) };
        *lock(&looks.latest) = latest;
        snapshot
    }
}

/// Kills one process, and never another that has got its number since.
#[cfg(target_os = "linux")]
fn kill(process: &Process) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(process.pid).filter(|_| process.pid > 1) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    // From here on the handle names whoever has the number now; is it still the one that was seen?
    if process::start_ticks(process.pid) != Some(process.start_ticks) {
        return;
    }
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(handle, Signal::KILL),
        Err(rustix::io::Errno::SRCH) => Ok(()),
        // Kernels without pidfds: the check above is as near as one can get.
        Err(_) => kill_process(pid, Signal::KILL),
    };
}

/// Without `/proc` no process outside a group is ever found.
#[cfg(not(target_os = "linux"))]
fn kill(_: &Process) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_reused_number_is_not_hit() {
        let mut child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let start_ticks = process::start_ticks(pid).unwrap();
        let mut seen = Process { pid, parent: 0, group: 0, session: 0, start_ticks: start_ticks + 1, marker: None };
        kill(&seen);
        assert_eq!(child.try_wait().unwrap(), None, "another start time is another process");
        seen.start_ticks = start_ticks;
        kill(&seen);
        assert!(!child.wait().unwrap().success());
    }

    #[tokio::test]
    async fn one_look_serves_all_who_asked_before_it_began() {
        let sweeper = Sweeper::new(TaskTracker::new());
        let asks: Vec<_> = (0..50).map(|since| sweeper.look(since)).collect();
        let looks = futures::future::join_all(asks).await;
        let mut distinct: Vec<_> = looks.iter().map(Arc::as_ptr).collect();
        distinct.sort();
        distinct.dedup();
        assert!(distinct.len() <= 2, "{} looks for 50 asks at once", distinct.len());
        assert!(lock(&sweeper.looks.waiting).is_empty());
    }
}
