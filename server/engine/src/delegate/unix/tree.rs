//! Ending everything a delegation started, and nothing else.
//!
//! The group gets its signal while its leader is still unreaped, so its number cannot be anybody else's. What left the
//! group is found by looking at all processes (see [`Snapshot::members`]) in rounds, until a look finds none: one that
//! forks while we look is found by the next. Each is ended through a handle (pidfd) taken before its start time is
//! checked once more, so that a reused number is never hit.
//!
//! Looks are shared: one look at all processes serves every delegation that asked before it began, and in a
//! crowd looks keep a pause between them, so that hundreds of short delegations cost few of them (see also [`Census`]).
//!
//! Must not: decide when a tree is to end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::Child;
use super::census::{Census, Leaders, Leading};
use super::process::{self, Process, Snapshot};
use super::spawn::Spawner;
use crate::model::outcome::ProcessIdentity;

/// Looks before we give up on what cannot be ended: a process stuck in the kernel, or another user's.
const MOST_ROUNDS: u32 = 60;

/// Longest pause between two rounds.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long a look waits for each other delegation under way: it may end, and be served too.
const PAUSE_FOR_EACH: Duration = Duration::from_micros(100);

/// A child that nobody has reaped, and the group it leads: as long as it is unreaped the group's number is its own.
#[derive(Debug)]
pub(in crate::delegate) struct Tree {
    group: i32,
    leading: Option<Leading>,
}

impl Tree {
    /// That of a child that leads its own group.
    pub(super) fn of(child: &Child) -> Self {
        Self { group: i32::try_from(child.id()).unwrap_or(0), leading: None }
    }

    /// The same, with the leader among those that looks pass over.
    pub(super) fn of_known(child: &Child, leaders: &Leaders) -> Self {
        let tree = Self::of(child);
        Self { leading: Some(leaders.enter(tree.group)), ..tree }
    }

    /// To be called before the leader is reaped: from then on its number may be anybody's.
    pub(in crate::delegate) fn let_leader_go(&mut self) {
        self.leading = None;
    }

    /// The group's number.
    pub(super) const fn group(&self) -> i32 {
        self.group
    }

    /// Kills the group. One that is gone is no error.
    pub(in crate::delegate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // 0 and 1 are our own group and everybody's: never.
        if self.group > 1
            && let Some(pid) = Pid::from_raw(self.group)
        {
            let _ = kill_process_group(pid, signal);
        }
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

/// Ends trees. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::delegate) struct Sweeper {
    looks: Arc<Looks>,
    /// All delegations under way: the more there are, the more a look can serve that waits a little.
    delegations: TaskTracker,
}

#[derive(Debug)]
struct Looks {
    /// Whose turn it is to look. Who waits for it wants the outcome of the look under way.
    turn: Semaphore,
    latest: Mutex<Latest>,
    census: Arc<Mutex<Census>>,
    leaders: Leaders,
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

impl Looks {
    fn new(leaders: Leaders) -> Self {
        Self {
            turn: Semaphore::new(1),
            latest: Mutex::default(),
            census: Arc::default(),
            leaders,
            waiting: Mutex::default(),
        }
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
    /// For the delegations of this tracker, whose agents are started by this spawner.
    pub(in crate::delegate) fn new(delegations: TaskTracker, spawner: &Spawner) -> Self {
        Self { looks: Arc::new(Looks::new(spawner.leaders())), delegations }
    }

    /// Asks every process of the delegation to end: the group, and what left it. Each is continued as well: one that was
    /// stopped (by a terminal, a debugger, `SIGSTOP`) gets the request only then, and would cost the whole grace.
    ///
    /// Looks first: of what left the group and wiped its environment, only its parents tell whose it is, and a parent that
    /// was asked to end is soon gone.
    pub(in crate::delegate) async fn ask(&self, identity: &ProcessIdentity, tree: &Tree) {
        let politely = [Signal::TERM, Signal::CONT];
        let snapshot = self.look(identity.start_ticks).await;
        politely.into_iter().for_each(|signal| tree.signal(signal));
        for member in snapshot.members(identity, true).into_iter().filter(|member| member.group != identity.group) {
            send(member, &politely);
        }
    }

    /// Ends every process of the delegation. `tree`: its leader, which has ended, or had its signal, and is the caller's
    /// to reap; it is neither counted nor waited for. None: the leader was reaped, or was another server's.
    pub(in crate::delegate) async fn sweep(&self, identity: &ProcessIdentity, tree: Option<&Tree>) -> Swept {
        let mut swept = Swept::default();
        let mut pause = Duration::from_millis(1);
        for _ in 0..MOST_ROUNDS {
            let snapshot = self.look(identity.start_ticks).await;
            let mut members: Vec<&Process> = snapshot.members(identity, tree.is_some());
            members.retain(|process| tree.is_none() || process.pid != identity.group);
            if members.is_empty() {
                swept.left.clear();
                break;
            }
            swept.found = true;
            swept.left = members.iter().map(|process| process.pid).collect();
            // All at once, where a group forks faster than it can be looked through.
            tree.into_iter().for_each(Tree::kill);
            for member in members {
                send(member, &[Signal::KILL]);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        // Where there is no `/proc`, the group is all that can be ended; elsewhere this finds nobody.
        tree.into_iter().for_each(Tree::kill);
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
            // Alone, nobody waits. In a crowd, at most about a fifth of one core goes into looking, and each look serves
            // those that end within some milliseconds.
            let others = u32::try_from(self.delegations.len().saturating_sub(1)).unwrap_or(u32::MAX);
            let pause = (latest.took * others.min(5)).max(PAUSE_FOR_EACH * others.min(30));
            tokio::time::sleep_until((began + pause).into()).await;
        }
        let oldest = lock(&looks.waiting).iter().copied().min().unwrap_or(since).min(since);
        let began = Instant::now();
        let (census, leaders) = (Arc::clone(&looks.census), looks.leaders.clone());
        let snapshot =
            tokio::task::spawn_blocking(move || lock(&census).look(oldest, &leaders)).await.unwrap_or_default();
        let snapshot = Arc::new(snapshot);
        let latest =
            Latest { began: Some(began), took: began.elapsed(), since: oldest, snapshot: Arc::clone(&snapshot) };
        *lock(&looks.latest) = latest;
        snapshot
    }
}

/// Sends signals to one process, and never to another that has got its number since.
#[cfg(target_os = "linux")]
fn send(process: &Process, signals: &[Signal]) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = Pid::from_raw(process.pid).filter(|_| process.pid > 1) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    // From here on the handle names whoever has the number now; is it still the one that was seen?
    if process::start_ticks(process.pid) != Some(process.start_ticks) {
        return;
    }
    for &signal in signals {
        let _ = match &handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            Err(rustix::io::Errno::SRCH) => Ok(()),
            // Kernels without pidfds: the check above is as near as one can get.
            Err(_) => kill_process(pid, signal),
        };
    }
}

/// Without `/proc` no process outside a group is ever found.
#[cfg(not(target_os = "linux"))]
fn send(_: &Process, _: &[Signal]) {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_reused_number_is_not_hit() {
        let mut child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let start_ticks = process::start_ticks(pid).unwrap();
        let mut seen = Process { pid, parent: 0, group: 0, session: 0, start_ticks: start_ticks + 1, marker: None };
        send(&seen, &[Signal::KILL]);
        assert_eq!(child.try_wait().unwrap(), None, "another start time is another process");
        seen.start_ticks = start_ticks;
        send(&seen, &[Signal::KILL]);
        assert!(!child.wait().unwrap().success());
    }

    #[tokio::test]
    async fn one_look_serves_all_who_asked_before_it_began() {
        let sweeper = Sweeper::new(TaskTracker::new(), &Spawner::new().unwrap());
        let asks: Vec<_> = (0..50).map(|since| sweeper.look(since)).collect();
        let looks = futures::future::join_all(asks).await;
        let mut distinct: Vec<_> = looks.iter().map(Arc::as_ptr).collect();
        distinct.sort();
        distinct.dedup();
        assert!(distinct.len() <= 2, "{} looks for 50 asks at once", distinct.len());
        assert!(lock(&sweeper.looks.waiting).is_empty());
    }
}
