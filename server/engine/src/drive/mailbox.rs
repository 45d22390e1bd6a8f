//! What reaches a drive from outside: waiting for it, writing it down, and having what ended judged.
//!
//! Must not: decide what starts next.

use std::time::Duration;

use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::WorkerId;
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::run::StopMode;
use flowdrive_protocol::time::Timestamp;

use super::Driver;
use crate::EngineError;
use crate::delegate::Busy;
use crate::model::journal::JournalEvent;
use crate::model::outcome::{Ending, HandleKind, Notice, Outcome};
use crate::resolve;
use crate::store::{StoreError, stop};

/// How often the file through which other processes ask for a stop is looked at.
const STOP_FILE_INTERVAL: Duration = Duration::from_millis(250);

/// What reaches a drive from outside.
pub(crate) enum Message {
    /// An agent ended.
    Settled {
        /// Place of its task.
        task: usize,
        /// The attempt.
        worker: WorkerId,
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// A sub-workflow's run cannot be written down: no fault of its task's.
    ChildBroken {
        /// Place of the task.
        task: usize,
        /// What happened.
        fault: EngineError,
    },
    /// An agent told something that is written down.
    Noticed {
        /// Place of its task.
        task: usize,
        /// The attempt.
        worker: WorkerId,
        /// What it told.
        notice: Notice,
    },
    /// An agent that could take no more may now be able to.
    CapacityChanged,
    /// A stop is asked for.
    Stop {
        /// How.
        mode: StopMode,
        /// By whom.
        by: String,
    },
    /// A feedback record is to be closed.
    Resolve {
        /// How.
        params: Box<ResolveFeedbackParams>,
        /// Where the answer goes.
        reply: tokio::sync::oneshot::Sender<Result<FeedbackRecord, EngineError>>,
    },
}

impl Driver {
    /// Waits for something to happen, and takes all that did.
    pub(super) fn receive(&mut self, until: Option<Timestamp>) -> Vec<Message> {
        let mut wait = STOP_FILE_INTERVAL;
        if let Some(until) = until {
            let millis = until.as_millis().saturating_sub(Timestamp::now().as_millis()).max(1);
            wait = wait.min(Duration::from_millis(millis.unsigned_abs()));
        }
        let mut messages: Vec<Message> = self.job.mailbox.recv_timeout(wait).into_iter().collect();
        messages.extend(self.job.mailbox.try_iter());
        if let Some(mode) = stop::take_stop(&self.job.record.paths) {
            messages.push(Message::Stop { mode, by: "another process".to_owned() });
        }
        messages
    }

    /// Has the mailbox told when an agent that refused may be able to take more. One watch at a time.
    pub(super) fn watch_capacity(&mut self, busy: Busy) {
        if std::mem::replace(&mut self.watches_capacity, true) {
            return;
        }
        let changed = self.job.delegator.limits().changed_since(&busy);
        let (sender, kill) = (self.job.sender.clone(), self.kill.clone());
        self.job.runtime.spawn(async move {
            tokio::select! {
                () = changed => { let _ = sender.send(Message::CapacityChanged); }
                () = kill.cancelled() => {}
            }
        });
    }

    /// Writes down what arrived, hands it to the kernel, then judges the outcomes.
    pub(super) fn take(&mut self, messages: Vec<Message>) -> Result<(), EngineError> {
        let mut outcomes = Vec::new();
        let (mut broken, mut noted) = (None, 0);
        // Kept where a fault half way leaves the rest: whoever abandons the drive has to see each agent's end.
        self.unread.extend(messages);
        while let Some(message) = self.unread.pop_front() {
            match message {
                Message::Settled { task, worker, outcome } => {
                    noted += usize::from(is_noted(&outcome));
                    if self.in_flight.get(&task) != Some(&worker) {
                        continue;
                    }
                    self.in_flight.remove(&task);
                    self.children.remove(&task);
                    let id = self.job.record.state().tasks[task].id.clone();
                    self.job.record.record(&JournalEvent::OutcomeRecorded {
                        task: id,
                        worker: worker.clone(),
                        outcome: outcome.clone(),
                    })?;
                    outcomes.push((task, worker, outcome));
                }
                Message::ChildBroken { task, fault } => {
                    // Nothing is recorded of it: the next drive finds the attempt open and carries the child on.
                    self.in_flight.remove(&task);
                    self.children.remove(&task);
                    broken = Some(fault);
                }
                Message::Noticed { task, worker, notice } => self.note(task, worker, notice)?,
                Message::CapacityChanged => self.watches_capacity = false,
                Message::Stop { mode, by } => self.request_stop(mode, by)?,
                Message::Resolve { params, reply } => {
                    let answer = resolve::resolve(&mut self.job.record, &params);
                    self.replies.push((reply, answer));
                }
            }
        }
        self.job.record.write()?;
        if noted > 0 {
            self.ended.recorded(noted);
        }
        for (task, worker, outcome) in outcomes {
            self.judge(task, &worker, &outcome)?;
        }
        match broken {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn note(&mut self, task: usize, worker: WorkerId, notice: Notice) -> Result<(), StoreError> {
        if self.in_flight.get(&task) != Some(&worker) {
            return Ok(());
        }
        let id = self.job.record.state().tasks[task].id.clone();
        match notice {
            Notice::ProcessStarted(process) => {
                self.job.record.record(&JournalEvent::ProcessStarted { task: id, worker, process })
            }
            Notice::Session(session) => {
                self.job.record.record(&JournalEvent::SessionKnown { task: id, worker, session })
            }
            Notice::Activity(_) => Ok(()),
        }
    }

    fn request_stop(&mut self, mode: StopMode, by: String) -> Result<(), StoreError> {
        let stronger = match &self.stop {
            None => true,
            Some((StopMode::Graceful, _)) => mode == StopMode::Now,
            Some((StopMode::Now, _)) => false,
        };
        if stronger {
            self.job.record.record(&JournalEvent::StopRequested { mode, by: by.clone() })?;
            self.children.values().for_each(|child| child.stop(mode, &by));
            self.stop = Some((mode, by));
        }
        if mode == StopMode::Now {
            self.kill.cancel();
        }
        Ok(())
    }
}

/// Whether an outcome comes from an agent, whose end was noted.
fn is_noted(outcome: &Outcome) -> bool {
    matches!(outcome.handle, HandleKind::Process | HandleKind::Endpoint) && outcome.ending != Ending::Interrupted
}
