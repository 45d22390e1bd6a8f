//! The server as a child process: how it is started, watched, and seen to its end.
//!
//! One task owns the child from spawn to reap. It lets the child leave by itself once its input is closed, and kills it
//! when it does not.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use crate::error::ClientError;

/// How long the server has to leave after its input was closed.
pub(crate) const EXIT_GRACE: Duration = Duration::from_secs(3);

/// How much of a captured stderr is kept, in bytes.
const TAIL_BYTES: usize = 16 * 1024;

/// How long is waited for the rest of stderr after the server's end. A process it left behind may hold it open.
const TAIL_GRACE: Duration = Duration::from_millis(200);

/// Windows' name for a process that gets no Ctrl-C of its parent's console.
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;

/// How the server is started.
#[derive(Debug, Clone)]
pub struct ServerCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables, on top of our own.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory; our own when absent.
    pub cwd: Option<PathBuf>,
    /// Where its stderr goes.
    pub stderr: StderrMode,
}

/// Where the server's stderr goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StderrMode {
    /// Kept, the end of it, for the error that says the server died.
    #[default]
    Capture,
    /// To our own stderr.
    Inherit,
}

impl ServerCommand {
    /// `PROGRAM serve --stdio --framing ndjson`, in the current directory.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: ["serve", "--stdio", "--framing", "ndjson"].map(OsString::from).to_vec(),
            env: Vec::new(),
            cwd: None,
            stderr: StderrMode::default(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Another working directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Another place for stderr.
    #[must_use]
    pub const fn stderr(mut self, stderr: StderrMode) -> Self {
        self.stderr = stderr;
        self
    }

    /// Starts the server, and the task that sees it to its end once `closing` turns true or its sender is gone.
    pub(crate) fn start(&self, closing: watch::Receiver<bool>) -> Result<Started, ClientError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(match self.stderr {
                StderrMode::Capture => Stdio::piped(),
                StderrMode::Inherit => Stdio::inherit(),
            })
            // For the case that the runtime goes away before the task below has done its work.
            .kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        // A Ctrl-C at the terminal is for us alone; the server is told by us.
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(windows)]
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
        let fault = |source| ClientError::Spawn { program: self.program.to_string_lossy().into_owned(), source };
        let mut child = command.spawn().map_err(fault)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fault(std::io::Error::other("its stdin and stdout are not pipes")));
        };
        let tail = Tail::default();
        let (exit_sender, exit) = watch::channel(None);
        let process = Process { pid: child.id(), exit, tail: tail.clone() };
        let stderr = child.stderr.take();
        tokio::spawn(supervise(child, stderr, tail, closing, exit_sender));
        Ok(Started { stdin, stdout, process })
    }
}

/// A server just started.
pub(crate) struct Started {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) process: Process,
}

/// What can be known of the server process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pid: Option<u32>,
    exit: watch::Receiver<Option<ExitStatus>>,
    tail: Tail,
}

impl Process {
    pub(crate) const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits until the process was reaped. None when its end could not be observed.
    pub(crate) async fn ended(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    pub(crate) fn stderr_tail(&self) -> String {
        self.tail.text()
    }
}

async fn supervise(
    mut child: Child,
    stderr: Option<ChildStderr>,
    tail: Tail,
    mut closing: watch::Receiver<bool>,
    exit: watch::Sender<Option<ExitStatus>>,
) {
    let reading = stderr.map(|stderr| tokio::spawn(read_tail(stderr, tail)));
    let mut ended = tokio::select! {
        status = child.wait() => status,
        () = closed(&mut closing) => match tokio::time::timeout(EXIT_GRACE, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                tracing::warn!("the server did not leave in time and is killed");
                kill(&mut child).await
            }
        },
    };
    if ended.is_err() {
        ended = kill(&mut child).await;
    }
    if let Some(reading) = reading {
        let stop = reading.abort_handle();
        if tokio::time::timeout(TAIL_GRACE, reading).await.is_err() {
            stop.abort();
        }
    }
    match ended {
        Ok(status) => {
            exit.send_replace(Some(status));
        }
        Err(error) => tracing::warn!(%error, "the server's end could not be observed"),
    }
}

/// Waits until `closing` turns true or its sender is gone.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, which means the same.
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn kill(child: &mut Child) -> std::io::Result<ExitStatus> {
    child.start_kill()?;
    child.wait().await
}

/// The end of a stream of bytes.
#[derive(Debug, Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let surplus = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..surplus);
    }

    fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).trim().to_owned()
    }
}

async fn read_tail(mut stderr: impl AsyncRead + Unpin, tail: Tail) {
    let mut buffer = vec![0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        tail.push(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_of_stderr_is_kept() {
        let tail = Tail::default();
        let mut text = "x".repeat(3 * TAIL_BYTES);
        text.push_str("\nthe last line\n");
        read_tail(text.as_bytes(), tail.clone()).await;
        let kept = tail.text();
        assert!(kept.ends_with("x\nthe last line"), "{kept}");
        assert!(kept.len() <= TAIL_BYTES);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_server_that_does_not_leave_by_itself_is_reaped() {
        let (sender, closing) = watch::channel(false);
        let mut command = ServerCommand::new("sh");
        command.args = ["-c", "echo made-up failure >&2; exit 7"].map(OsString::from).to_vec();
        let started = command.start(closing).unwrap();
        let status = started.process.ended().await.unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(started.process.stderr_tail(), "made-up failure");
        drop(sender);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let (_sender, closing) = watch::channel(false);
        let Err(error) = ServerCommand::new("/nonexistent/flowdrive").start(closing) else {
            panic!("nothing is there to be started")
        };
        assert!(error.to_string().starts_with("cannot start the server `/nonexistent/flowdrive`"), "{error}");
        assert!(error.hint().is_some());
    }
}
