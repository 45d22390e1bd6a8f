//! Starting agents. All of them are started by one thread that lives as long as any of them.
//!
//! On Linux the child asks to be killed when its parent *thread* dies (`PR_SET_PDEATHSIG` is tied to the thread that
//! started it), so a child of a passing worker thread would be killed with it. A thread of our own ends only with the
//! server, and then, also after `SIGKILL`, every agent's leader dies with it.
//!
//! Must not: decide what is run or wait for its end.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use super::census::Leaders;
use super::process;
use super::tree::Tree;
use super::{Child, Ready, Starter};
use crate::delegate::launch::Launch;
use crate::model::outcome::ProcessIdentity;

/// The thread. Hold it as long as a child of it may live.
#[derive(Debug)]
pub(in crate::delegate) struct Spawner {
    requests: mpsc::Sender<Request>,
    leaders: Leaders,
}

struct Request {
    ready: Ready,
    answer: oneshot::Sender<io::Result<Untaken>>,
}

/// A process that was started and that nobody has taken yet. One that nobody takes does not live.
struct Untaken(Option<Child>);

impl Untaken {
    /// From here on it is the caller's.
    fn take(mut self) -> Option<Child> {
        self.0.take()
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            Tree::of(child).kill();
            let _ = child.kill();
            let _ = child.wait();
        }
    }
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
            let mut starter = Starter::new();
            for Request { ready, answer } in inbox {
                let started = starter.start(ready).map(|child| Untaken(Some(child)));
                // Whoever asked may be gone; it then ends here.
                drop(answer.send(started));
            }
        })?;
        Ok(Self { requests, leaders: Leaders::default() })
    }

    /// The leaders of all that was started here and is not reaped yet.
    pub(super) fn leaders(&self) -> Leaders {
        self.leaders.clone()
    }

    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// What the system says when it cannot.
    pub(in crate::delegate) async fn spawn(&self, launch: &Launch<'_>) -> io::Result<Started> {
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts agents is gone");
        self.requests.send(Request { ready: Ready::of(launch)?, answer }).map_err(|_| gone())?;
        let child = started.await.map_err(|_| gone())??.take().ok_or_else(gone)?;
        let tree = Tree::of_known(&child, &self.leaders);
        // Not yet waited for, so the number is still this child's, also when it has ended already.
        let start_ticks = process::start_ticks(tree.group()).unwrap_or(0);
        Ok(Started { child, tree, start_ticks })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
