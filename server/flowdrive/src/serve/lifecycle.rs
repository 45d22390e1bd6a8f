//! What ends a server from outside: signals, and the death of the process that the client named.
//!
//! Must not: end anything itself.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

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
#[cfg(unix)]
pub(crate) fn signals() -> io::Result<mpsc::Receiver<StopSignal>> {
    use tokio::signal::unix::{SignalKind, signal};

    // More than two make no difference.
    let (sender, receiver) = mpsc::channel(4);
    for (kind, told) in [
        (SignalKind::hangup(), StopSignal::Hangup),
        (SignalKind::interrupt(), StopSignal::Interrupt),
        (SignalKind::terminate(), StopSignal::Terminate),
    ] {
        let mut source = signal(kind)?;
        tokio::spawn(pass_on(move |context| source.poll_recv(context), told, sender.clone()));
    }
    // With a handler, a file that may not grow any more is a fault of the disk like any other, and no silent death.
    drop(signal(SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32))?);
    Ok(receiver)
}

/// The console's events as they come: the nearest there is.
///
/// # Errors
/// When the system refuses a handler.
#[cfg(windows)]
pub(crate) fn signals() -> io::Result<mpsc::Receiver<StopSignal>> {
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

    let (sender, receiver) = mpsc::channel(4);
    let (mut interrupt, mut terminate, mut close, mut shutdown) =
        (ctrl_c()?, ctrl_break()?, ctrl_close()?, ctrl_shutdown()?);
    tokio::spawn(pass_on(move |context| interrupt.poll_recv(context), StopSignal::Interrupt, sender.clone()));
    tokio::spawn(pass_on(move |context| terminate.poll_recv(context), StopSignal::Terminate, sender.clone()));
    tokio::spawn(pass_on(move |context| close.poll_recv(context), StopSignal::Hangup, sender.clone()));
    tokio::spawn(pass_on(move |context| shutdown.poll_recv(context), StopSignal::Hangup, sender));
    Ok(receiver)
}

async fn pass_on(
    mut next: impl FnMut(&mut Context<'_>) -> Poll<Option<()>>,
    told: StopSignal,
    sender: mpsc::Sender<StopSignal>,
) {
    while poll_fn(&mut next).await.is_some() {
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

/// Waits on a handle of the process, which no other process can take over.
#[cfg(windows)]
async fn watched(pid: u32) -> io::Result<()> {
    if let Some(end) = flowdrive_engine::windows::ProcessEnd::of_pid(pid)? {
        end.wait().await;
    }
    Ok(())
}

#[cfg(not(any(target_os = "linux", windows)))]
#[allow(clippy::unused_async, reason = "the same shape as on Linux")]
async fn watched(_: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Looks at the process twice a second.
async fn polled(pid: u32) {
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    while is_alive(pid) {
        ticks.tick().await;
    }
}

/// A process of another user is alive all the same.
#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

#[cfg(windows)]
fn is_alive(pid: u32) -> bool {
    !matches!(flowdrive_engine::windows::ProcessEnd::of_pid(pid), Ok(None))
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
