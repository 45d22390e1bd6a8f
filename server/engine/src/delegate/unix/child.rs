//! A child that was started without the standard library, as the standard library has them.
//!
//! Must not: reap unless asked to. Dropped, it is left as it is.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ChildStderr, ChildStdout, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A child, alive or not.
#[derive(Debug)]
pub(in crate::delegate) struct Child {
    pid: Pid,
    status: Option<ExitStatus>,
    /// What it prints, until somebody takes it.
    pub(in crate::delegate) stdout: Option<ChildStdout>,
    /// What it says of its faults, until somebody takes it.
    pub(in crate::delegate) stderr: Option<ChildStderr>,
}

impl Child {
    /// Of a process that is a child of this one, and that nobody has waited for or will but through this.
    pub(super) const fn new(pid: Pid, stdout: ChildStdout, stderr: ChildStderr) -> Self {
        Self { pid, status: None, stdout: Some(stdout), stderr: Some(stderr) }
    }

    /// Its number.
    pub(in crate::delegate) const fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Kills it. Once it is reaped the number may be another's, and this does nothing.
    ///
    /// # Errors
    /// What the system says.
    pub(in crate::delegate) fn kill(&mut self) -> io::Result<()> {
        if self.status.is_none() {
            kill_process(self.pid, Signal::KILL)?;
        }
        Ok(())
    }

    /// Waits for its end and reaps it.
    ///
    /// # Errors
    /// When there is no such child any more.
    pub(in crate::delegate) fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            match self.reap(WaitOptions::empty()) {
                Ok(Some(status)) => return Ok(status),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reaps it if it has ended.
    ///
    /// # Errors
    /// When there is no such child any more.
    pub(in crate::delegate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        Ok(self.reap(WaitOptions::NOHANG)?)
    }

    fn reap(&mut self, how: WaitOptions) -> Result<Option<ExitStatus>, Errno> {
        if self.status.is_none() {
            self.status = waitpid(Some(self.pid), how)?.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.status)
    }
}
