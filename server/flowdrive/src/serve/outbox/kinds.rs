//! What the queue is told and what it tells: limits, where events come from, messages, and what the writer does next.
//!
//! Must not: know in which order anything leaves.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowdrive_protocol::event::EventKind;
use flowdrive_protocol::ids::RunId;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// While fewer messages than this wait, the client counts as fast and every activity line is kept.
    pub(crate) slack: usize,
    /// Lifecycle events waiting over all runs, in bytes; beyond it runs are put behind.
    pub(crate) event_bytes: usize,
    /// Answers waiting; beyond it no further message is read.
    pub(crate) answers: usize,
    /// The same in bytes.
    pub(crate) answer_bytes: usize,
    /// Shortest time between two reports of one progress.
    pub(crate) report_every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            slack: 1024,
            event_bytes: 8 * 1024 * 1024,
            answers: 1024,
            answer_bytes: 64 * 1024 * 1024,
            report_every: Duration::from_millis(250),
        }
    }
}

/// Where events come from: one drive. Equal when the number is.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The drive's number in this server.
    pub(crate) drive: u64,
    /// The workspace the drive was asked for.
    pub(crate) workspace: Option<String>,
    /// Events that are not told.
    pub(crate) opt_out: HashSet<EventKind>,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.drive == other.drive
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.drive.hash(state);
    }
}

/// One run as one drive tells of it.
pub(crate) type Stream = (Arc<Source>, RunId);

/// A run's events that have to be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CatchUp {
    /// Whose.
    pub(crate) stream: Stream,
    /// Those after this one.
    pub(crate) since: u64,
}

/// Says how far something is, when asked. Asked at most as often as it is told, however often it changes.
pub(crate) trait Render: Send + Sync {
    /// The message with the newest state.
    fn render(&self) -> Option<Vec<u8>>;
}

/// A message to write.
pub(crate) enum Out {
    /// As it is.
    Bytes(Vec<u8>),
    /// Made when it is written, without the queue held.
    Report(Arc<dyn Render>),
}

impl Out {
    /// The message, if there is one.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Report(report) => report.render(),
        }
    }
}

/// What the writer does next.
pub(crate) enum Next {
    /// Write these messages.
    Write(Vec<Out>),
    /// Nothing before these events have been read again.
    CatchUp(CatchUp),
    /// Nothing before this time, or before something is put in.
    Idle(Option<Instant>),
}
