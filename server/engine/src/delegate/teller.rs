//! Notices from a delegation's task to whoever awaits it. Lifecycle notices are kept until they are read; of activity only
//! the newest line is, so that a slow reader costs nothing.
//!
//! Must not: wait.

use tokio::sync::{mpsc, watch};

use crate::model::outcome::{Notice, ProcessIdentity};

/// The task's side.
#[derive(Debug)]
pub(super) struct Teller {
    lifecycle: mpsc::UnboundedSender<Notice>,
    activity: watch::Sender<Option<String>>,
}

/// The reader's side.
#[derive(Debug)]
pub(super) struct Hearer {
    lifecycle: mpsc::UnboundedReceiver<Notice>,
    activity: watch::Receiver<Option<String>>,
}

/// Both sides.
#[must_use]
pub(super) fn channel() -> (Teller, Hearer) {
    // Unbounded, but a delegation tells at most two of these: its process and its session.
    let (lifecycle, heard) = mpsc::unbounded_channel();
    let (activity, newest) = watch::channel(None);
    (Teller { lifecycle, activity }, Hearer { lifecycle: heard, activity: newest })
}

impl Teller {
    /// Its process exists.
    pub(super) fn process(&self, identity: ProcessIdentity) {
        let _ = self.lifecycle.send(Notice::ProcessStarted(identity));
    }

    /// The agent's session is known.
    pub(super) fn session(&self, session: String) {
        let _ = self.lifecycle.send(Notice::Session(session));
    }

    /// What the agent is doing.
    pub(super) fn activity(&self, line: String) {
        self.activity.send_replace(Some(line));
    }
}

impl Hearer {
    /// The next notice; none when the task is over and everything was read. Nothing is lost when this is dropped.
    pub(super) async fn next(&mut self) -> Option<Notice> {
        let mut told = true;
        loop {
            tokio::select! {
                biased;
                notice = self.lifecycle.recv(), if told => match notice {
                    Some(notice) => return Some(notice),
                    None => told = false,
                },
                changed = self.activity.changed() => {
                    changed.ok()?;
                    if let Some(line) = self.activity.borrow_and_update().clone() {
                        return Some(Notice::Activity(line));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_activity_and_every_lifecycle_notice_arrive() {
        let (teller, mut hearer) = channel();
        teller.activity("1".into());
        teller.activity("2".into());
        teller.session("s".into());
        drop(teller);
        assert_eq!(hearer.next().await, Some(Notice::Session("s".into())));
        assert_eq!(hearer.next().await, Some(Notice::Activity("2".into())));
        assert_eq!(hearer.next().await, None);
        assert_eq!(hearer.next().await, None);
    }
}
