//! Starting agents, each in a job object before it runs.
//!
//! Must not: decide what is run or wait for its end.

use std::io;

use super::{Child, Tree};
use crate::delegate::launch::Launch;
use crate::model::outcome::ProcessIdentity;
use crate::windows::start;

/// Starts agents.
#[derive(Debug)]
pub(in crate::delegate) struct Spawner;

/// A process that was started and not yet waited for.
#[derive(Debug)]
pub(in crate::delegate) struct Started {
    /// The process.
    pub(in crate::delegate) child: Child,
    /// It, and what it will start.
    pub(in crate::delegate) tree: Tree,
}

impl Started {
    /// Who it is, for one that was started with this marker. No later server will look for it: it ends with this one.
    pub(in crate::delegate) fn identity(&self, marker: String) -> ProcessIdentity {
        let group = i32::try_from(self.child.id()).unwrap_or(0);
        ProcessIdentity { group, start_ticks: 0, boot_id: String::new(), marker }
    }
}

impl Spawner {
    /// Ready at once.
    ///
    /// # Errors
    /// Never here.
    #[expect(clippy::unnecessary_wraps, reason = "the same shape as on Unix")]
    pub(in crate::delegate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Starts a program in a job of its own. Starting takes long enough here not to be done on a thread that others
    /// wait for.
    ///
    /// # Errors
    /// What the system says when it cannot.
    pub(in crate::delegate) async fn spawn(&self, launch: &Launch<'_>) -> io::Result<Started> {
        let mut command = launch.command()?;
        let started = tokio::task::spawn_blocking(move || {
            let (child, job) = start(&mut command)?;
            Ok(Started { tree: Tree::new(job, child.id()), child })
        });
        // Were this dropped meanwhile, the job would be too, and end what is in it.
        started.await.map_err(io::Error::other)?
    }
}
