//! Seeing that a child has ended without reaping it, so that its number, and its group's, stay its own until everything it
//! started is ended too.
//!
//! Must not: reap.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

#[cfg(target_os = "linux")]
use super::linux;
use super::spawn::Started;

/// Waits for a child's end.
#[derive(Debug)]
pub(in crate::delegate) struct Exit(Way);

#[derive(Debug)]
enum Way {
    /// A handle to the process that becomes readable (Linux).
    Handle(AsyncFd<OwnedFd>),
    /// A thread that waits.
    Thread(watch::Receiver<bool>),
}

impl Exit {
    /// For a child that nobody has waited for.
    ///
    /// # Errors
    /// When the number is none.
    pub(in crate::delegate) fn of(started: &Started) -> io::Result<Self> {
        let pid = i32::try_from(started.child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        #[cfg(target_os = "linux")]
        if let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            && let Ok(handle) = linux::watch(handle)
        {
            return Ok(Self(Way::Handle(handle)));
        }
        let (ended, seen) = watch::channel(false);
        tokio::task::spawn_blocking(move || {
            // EXITED without reaping. An error means that there is no such child, which is an end as well.
            while matches!(
                waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT),
                Err(rustix::io::Errno::INTR)
            ) {}
            let _ = ended.send(true);
        });
        Ok(Self(Way::Thread(seen)))
    }

    /// Resolves when the child has ended, at once if it has. Can be called and dropped any number of times.
    pub(in crate::delegate) async fn wait(&mut self) {
        match &mut self.0 {
            // An error can only mean that the runtime shuts down; whoever reaps then waits a little longer.
            Way::Handle(handle) => drop(handle.readable().await),
            Way::Thread(ended) => drop(ended.wait_for(|ended| *ended).await),
        }
    }
}
