//! Noticing that an agent has delivered and forgotten to exit. Some do: their result is worth no less for it.
//!
//! Must not: end anything.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::result_file;

/// Notices an agent that has written its whole result and does not exit.
#[derive(Debug)]
pub(super) struct Linger {
    result: PathBuf,
    quiet: Duration,
    grace: Duration,
    /// When to look next.
    next: Instant,
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    stamp: result_file::Stamp,
    since: Instant,
    complete: bool,
}

impl Linger {
    /// `quiet`: silence after which a complete result counts as finished; `grace`: how long the agent may then go on.
    pub(super) fn new(result: PathBuf, quiet: Duration, grace: Duration) -> Self {
        Self { result, quiet, grace, next: Instant::now() + quiet, seen: None }
    }

    /// When it is worth looking again.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Whether the result has been complete, and the file and the agent quiet, for long enough.
    pub(super) async fn is_over(&mut self, last_output: Instant) -> bool {
        let now = Instant::now();
        self.next = now + (self.quiet / 2).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let Some(stamp) = result_file::stamp(&self.result).await else {
            self.seen = None;
            return false;
        };
        if self.seen.as_ref().is_none_or(|seen| seen.stamp != stamp) {
            let complete = result_file::holds_result(&self.result, stamp).await;
            self.seen = Some(Seen { stamp, since: now, complete });
        }
        self.seen
            .as_ref()
            .is_some_and(|seen| seen.complete && now >= seen.since.max(last_output) + self.quiet + self.grace)
    }
}
