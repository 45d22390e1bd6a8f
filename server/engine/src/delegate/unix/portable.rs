//! Starting programs where Linux's own ways are not there: through the standard library.
//!
//! Must not: decide what is run.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use crate::delegate::launch::Launch;

/// A program, ready to be started.
#[derive(Debug)]
pub(super) struct Ready(Command);

/// Where programs are started.
#[derive(Debug)]
pub(super) struct Starter;

impl Ready {
    /// Makes all that is needed, on whichever thread.
    ///
    /// # Errors
    /// When there is no room for another open file.
    pub(super) fn of(launch: &Launch<'_>) -> io::Result<Self> {
        launch.command().map(Self)
    }
}

impl Starter {
    /// Ready for the first.
    pub(super) const fn new() -> Self {
        Self
    }

    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// What the system says when it cannot.
    pub(super) fn start(&mut self, ready: Ready) -> io::Result<Child> {
        let Ready(mut command) = ready;
        command.process_group(0).spawn()
    }
}
