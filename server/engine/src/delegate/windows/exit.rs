//! Seeing that a child has ended.
//!
//! Must not: reap.

use std::io;
use std::os::windows::io::AsHandle as _;

use super::spawn::Started;
use crate::windows::ProcessEnd;

/// Waits for a child's end.
#[derive(Debug)]
pub(in crate::delegate) struct Exit(ProcessEnd);

impl Exit {
    /// For a child that nobody has waited for.
    ///
    /// # Errors
    /// What the system refuses.
    pub(in crate::delegate) fn of(started: &Started) -> io::Result<Self> {
        ProcessEnd::of(started.child.as_handle().try_clone_to_owned()?).map(Self)
    }

    /// Resolves when the child has ended, at once if it has. Can be called and dropped any number of times.
    pub(in crate::delegate) async fn wait(&mut self) {
        self.0.wait().await;
    }
}
