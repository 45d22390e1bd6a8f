//! What ends a server from outside: signals, and the death of the process that the client named.
//!
//! Must not: end anything itself.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// A signal that ends the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// The terminal is gone: nobody is left to wait for.
    Hangup,
    /// Ctrl-C.
    Interrupt,
    /// `kill`.
    Terminate,
}

impl StopSignal {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// 128 and its number, as shells have it.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Hangup => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals as they come.
///
/// # Errors
/// When the system refuses a handler.
pub(crate) fn signals() -> io::Result<mpsc::Receiver<StopSignal>> {
    // More than two make no difference.
    let (sender, receiver) = mpsc::channel(4);
    for (kind, told) in [
        (SignalKind::hangup(), StopSignal::Hangup),
        (SignalKind::interrupt(), StopSignal::Interrupt),
        (SignalKind::terminate(), StopSignal::Terminate),
    ] {
        tokio::spawn(pass_on(signal(kind)?, told, sender.clone()));
    }
    Ok(receiver)
}

async fn pass_on(mut source: Signal, told: StopSignal, sender: mpsc::Sender<StopSignal>) {
    while source.recv().await.is_some() {
        if sender.send(told).await.is_err() {
            return;
        }
    }
}

/// Returns when the newest process named here has ended, with its id. Never while none is named.
pub(crate) async fn parent_ended(mut named: watch::Receiver<Option<u32>>) -> u32 {
    loop {
        let pid = *named.borrow_and_update();
        let Some(pid) = pid else {
            if named.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            continue;
        };
        tokio::select! {
            () = ended(pid) => return pid,
            changed = named.changed() => if changed.is_err() {
                ended(pid).await;
                return pid;
            },
        }
    }
}

async fn ended(pid: u32) {
    if watched(pid).await.is_err() {
        polled(pid).await;
    }
}

/// Waits on a handle of the process, which no other process can take over; on a thread, since that wait cannot be
/// called off.
#[cfg(target_os = "linux")]
async fn watched(pid: u32) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    let out_of_range = || io::Error::from(io::ErrorKind::InvalidInput);
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(out_of_range)?;
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(error) if error == rustix::io::Errno::SRCH => return Ok(()),
        handle => handle?,
    };
    let (told, ended) = tokio::sync::oneshot::channel();
    let wait = move || {
        let result = loop {
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) {
                Err(error) if error == rustix::io::Errno::INTR => {}
                result => break result.map(|_| ()).map_err(io::Error::from),
            }
        };
        // Nobody asks any more when another process was named since.
        let _ = told.send(result);
    };
    std::thread::Builder::new().name("client-watch".into()).spawn(wait)?;
    ended.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unused_async, reason = "the same shape as on Linux")]
async fn watched(_: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Looks at the process twice a second.
async fn polled(pid: u32) {
    let Ok(pid) = i32::try_from(pid) else { return };
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    loop {
        ticks.tick().await;
        // A process of another user is alive all the same.
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_the_process_named_last_is_noticed() {
        let mut child = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
        let (name, named) = watch::channel(None);
        let watching = tokio::spawn(parent_ended(named));
        name.send_replace(Some(std::process::id()));
        let pid = child.id().unwrap();
        name.send_replace(Some(pid));
        tokio::task::yield_now().await;
        assert!(!watching.is_finished());
        child.kill().await.unwrap();
        assert_eq!(watching.await.unwrap(), pid);
    }

    #[tokio::test]
    async fn a_process_that_is_not_there_has_ended() {
        let mut child = tokio::process::Command::new("true").spawn().unwrap();
        let pid = child.id().unwrap();
        child.wait().await.unwrap();
        ended(pid).await;
        polled(pid).await;
    }
}
