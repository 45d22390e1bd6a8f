//! Telling of events: lifecycle events from the drive's own thread, agents' activity from wherever it is read. One lock
//! keeps the order, so that an activity never carries the number of an event that comes after it.

use std::sync::{Arc, Mutex, PoisonError};

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::{RunId, TaskId, WorkerId};
use flowdrive_protocol::time::Timestamp;

use crate::engine::EventSink;

/// Where a drive's events go. Clones share the order.
#[derive(Clone)]
pub(super) struct Announcer {
    run_id: RunId,
    sink: Arc<dyn EventSink>,
    last: Arc<Mutex<u64>>,
}

impl Announcer {
    /// `last` is the number of the newest lifecycle event told by earlier drives.
    pub(super) fn new(run_id: RunId, sink: Arc<dyn EventSink>, last: u64) -> Self {
        Self { run_id, sink, last: Arc::new(Mutex::new(last)) }
    }

    /// Tells lifecycle events, in order.
    pub(super) fn lifecycle(&self, events: Vec<ProgressEvent>) {
        for event in events {
            // The number is set by a move: a sink that panicked while it was told leaves it whole.
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = event.seq;
            self.sink.event(event);
        }
    }

    /// Tells what an agent is doing.
    pub(super) fn activity(&self, task_id: &TaskId, worker_id: &WorkerId, text: String) {
        let event = Event::AgentActivity { task_id: task_id.clone(), worker_id: worker_id.clone(), text, coalesced: 0 };
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.sink.event(ProgressEvent { run_id: self.run_id.clone(), seq: *last, at: Timestamp::now(), event });
    }
}
