//! Looking at all processes again and again: what was seen once is not looked at twice.
//!
//! Most processes of a machine are older than any delegation, and most of the others are leaders that are supervised here.
//! Neither can be what somebody looks for; they are passed over by their numbers alone, so that a look costs a list of
//! `/proc` and a little for each process that might be somebody's.
//!
//! Must not: pass over a process because of its number where that may be another's by now.

use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::os::unix::fs::DirEntryExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::process::{self, Process, Snapshot};

/// The leaders that are supervised and not reaped yet: as long as one is among them its number is its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaders(Arc<Mutex<HashSet<i32>>>);

/// A place among the leaders. To be given up before the leader is reaped.
#[derive(Debug)]
pub(super) struct Leading {
    leaders: Leaders,
    pid: i32,
}

impl Leaders {
    /// Enters a child that nobody has waited for.
    pub(super) fn enter(&self, pid: i32) -> Leading {
        self.set().insert(pid);
        Leading { leaders: self.clone(), pid }
    }

    fn have(&self, pid: i32) -> bool {
        self.set().contains(&pid)
    }

    /// Each change of it is whole, so a poisoned lock is taken as it is.
    fn set(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.leaders.set().remove(&self.pid);
    }
}

/// A process as its folder in `/proc` tells it from others without a look into it: a number that is given out again comes
/// with another folder, which has another inode.
type Folder = (i32, u64);

/// What looks remember.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// When processes started.
    started: HashMap<Folder, u64>,
}

impl Census {
    /// The processes now, but for these leaders and what started before `since`.
    pub(super) fn look(&mut self, since: u64, leaders: &Leaders) -> Snapshot {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Snapshot::default() };
        let mut started = HashMap::with_capacity(self.started.len());
        let mut processes = Vec::new();
        for folder in entries.flatten().filter_map(|entry| folder(&entry)) {
            let known = self.started.get(&folder).copied();
            if let Some(ticks) = known.filter(|ticks| *ticks < since) {
                started.insert(folder, ticks);
                continue;
            }
            // Asked only now, for each by itself: once it is none any more its number can be anybody's.
            if leaders.have(folder.0) {
                continue;
            }
            let Some((process, alive)) = process::read_stat(folder.0) else { continue };
            started.insert(folder, process.start_ticks);
            if alive && process.start_ticks >= since {
                let marker = process::read_marker(folder.0);
                processes.push(Process { marker, ..process });
            }
        }
        self.started = started;
        Snapshot::of(processes)
    }
}

fn folder(entry: &DirEntry) -> Option<Folder> {
    Some((entry.file_name().to_str()?.parse().ok()?, entry.ino()))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> (Child, i32) {
        let child = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        (child, pid)
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_leader_is_passed_over_until_it_is_reaped() {
        let (child, pid) = sleeper();
        let (mut census, leaders) = (Census::default(), Leaders::default());
        let sees = |census: &mut Census| census.look(0, &leaders).pids().contains(&pid);
        assert!(sees(&mut census));
        let leading = leaders.enter(pid);
        assert!(!sees(&mut census));
        drop(leading);
        assert!(sees(&mut census));
        end(child);
        assert!(!sees(&mut census));
    }

    #[test]
    fn what_is_known_to_be_old_is_seen_by_who_asks_for_older() {
        let (child, pid) = sleeper();
        let (mut census, leaders) = (Census::default(), Leaders::default());
        let ticks = process::start_ticks(pid).unwrap();
        for _ in 0..2 {
            assert!(!census.look(ticks + 1, &leaders).pids().contains(&pid));
            assert!(census.look(ticks, &leaders).pids().contains(&pid));
        }
        end(child);
        assert!(!census.look(0, &leaders).pids().contains(&pid));
        assert!(!census.started.keys().any(|known| known.0 == pid), "nothing is remembered of what is gone");
    }

    /// What passing over stands on: as long as it lives a process keeps its folder's inode, and no two that live share one.
    #[test]
    fn a_folder_tells_processes_apart() {
        let list = || -> HashMap<i32, u64> {
            std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| folder(&entry)).collect()
        };
        let children: Vec<_> = (0..20).map(|_| sleeper()).collect();
        let (first, second) = (list(), list());
        let mut inodes = HashSet::new();
        for (_, pid) in &children {
            assert_eq!(first[pid], second[pid]);
            assert!(inodes.insert(first[pid]), "{pid} has another's inode");
        }
        children.into_iter().for_each(|(child, _)| end(child));
        let (again, pid) = sleeper();
        assert!(inodes.insert(list()[&pid]), "a new process has an old one's inode");
        end(again);
    }
}
