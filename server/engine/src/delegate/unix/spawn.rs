//! Starting agents. All of them are started by one thread that lives as long as any of them.
//!
//! On Linux the child asks to be killed when its parent *thread* dies (`PR_SET_PDEATHSIG` is tied to the thread that
//! forked), so a child of a passing worker thread would be killed with it. A thread of our own ends only with the server,
//! and then, also after `SIGKILL`, every agent's leader dies with it.
//!
//! Must not: decide what is run or wait for its end. The only module of a Unix build with `unsafe` code.
#![allow(unsafe_code)]

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use super::process;
use super::tree::Tree;
use crate::model::outcome::ProcessIdentity;

/// The thread. Hold it as long as a child of it may live.
#[derive(Debug)]
pub(in crate::delegate) struct Spawner {
    requests: mpsc::Sender<Request>,
}

struct Request {
    command: Command,
    answer: oneshot::Sender<io::Result<Started>>,
}

/// A process that was started and not yet waited for.
#[derive(Debug)]
pub(in crate::delegate) struct Started {
    /// The process.
    pub(in crate::delegate) child: Child,
    /// It, and what it will start.
    pub(in crate::delegate) tree: Tree,
    /// When it started, in clock ticks since boot; 0 where that is unknown.
    start_ticks: u64,
}

impl Started {
    /// Who it is, for one that was started with this marker.
    pub(in crate::delegate) fn identity(&self, marker: String) -> ProcessIdentity {
        ProcessIdentity {
            group: self.tree.group(),
            start_ticks: self.start_ticks,
            boot_id: process::boot_id().to_owned(),
            marker,
        }
    }
}

impl Spawner {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for us.
    pub(in crate::delegate) fn new() -> io::Result<Self> {
        let (requests, inbox) = mpsc::channel::<Request>();
        thread::Builder::new().name("flowdrive-spawn".to_owned()).spawn(move || {
            for Request { command, answer } in inbox {
                let started = start(command);
                if let Err(Ok(mut unwanted)) = answer.send(started) {
                    // Whoever asked is gone; a process nobody owns must not live.
                    unwanted.tree.kill();
                    let _ = unwanted.child.kill();
                    let _ = unwanted.child.wait();
                }
            }
        })?;
        Ok(Self { requests })
    }

    /// Starts the command in a process group of its own.
    ///
    /// # Errors
    /// What the system says when it cannot.
    pub(in crate::delegate) async fn spawn(&self, command: Command) -> io::Result<Started> {
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts agents is gone");
        self.requests.send(Request { command, answer }).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}

fn start(mut command: Command) -> io::Result<Started> {
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        let parent = rustix::process::getpid();
        // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe work is allowed. It
        // makes two system calls (prctl and getppid) through rustix, which on Linux neither allocate nor lock, touches
        // no memory but a captured integer, and makes errors from raw codes, which does not allocate either.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
                // The parent may have died before the call above took effect.
                if rustix::process::getppid() == Some(parent) {
                    Ok(())
                } else {
                    Err(io::Error::from(rustix::io::Errno::SRCH))
                }
            });
        }
    }
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).unwrap_or(0);
    // Not yet waited for, so the number is still this child's, also when it has ended already.
    let start_ticks = process::start_ticks(pid).unwrap_or(0);
    Ok(Started { child, tree: Tree::led_by(pid), start_ticks })
}

/// Watches a process handle for becoming readable, which it does when its process ends.
#[cfg(target_os = "linux")]
pub(super) fn watch(handle: std::os::fd::OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, stays open and gives the same descriptor until it is dropped, and it is moved into
    // the `AsyncFd`, from which nothing here takes it out again.
    unsafe { tokio::io::unix::AsyncFd::register_with_interest(handle, tokio::io::Interest::READABLE) }
        .map_err(io::Error::from)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_leads_its_own_group_and_dies_with_its_parent() {
        let spawner = Spawner::new().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exit 7"]);
        let mut started = spawner.spawn(command).await.unwrap();
        assert!(started.start_ticks > 0);
        assert_eq!(started.child.wait().unwrap().code(), Some(7));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let spawner = Spawner::new().unwrap();
        let error = spawner.spawn(Command::new("/no/such/program")).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn a_child_nobody_waits_for_is_ended() {
        let spawner = Spawner::new().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec sleep 1000"]).env(crate::delegate::env::MARKER, "spawn-test-unwanted");
        let (answer, gone) = oneshot::channel();
        drop(gone);
        spawner.requests.send(Request { command, answer }).unwrap();
        // The next answer comes after the thread has dealt with the one before.
        let mut next = spawner.spawn(Command::new("/bin/true")).await.unwrap();
        next.child.wait().unwrap();
        let identity = crate::model::outcome::ProcessIdentity {
            group: -1,
            start_ticks: 0,
            boot_id: String::new(),
            marker: "spawn-test-unwanted".to_owned(),
        };
        assert!(super::super::process::snapshot(0).members(&identity, false).is_empty());
    }
}
