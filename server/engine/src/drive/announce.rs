//! Telling of events: lifecycle events from the drive's own thread, agents' activity from wherever it is read. One lock
//! keeps the order, so that an activity never carries the number of an event that comes after it.

use std::sync::{Arc, Mutex, PoisonError};

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::{RunId, TaskId, WorkerId};
use flowdrive_protocol::run::RunStatus;
use flowdrive_protocol::time::Timestamp;

use crate::engine::EventSink;
use crate::store::RunPaths;
use crate::{EngineError, record};

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

    /// The number of the newest lifecycle event told.
    pub(super) fn last(&self) -> u64 {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that the drive ended by a fault. Its end cannot be recorded now; whoever goes on with the run records it under
    /// the number it gets here. Nothing is told of a drive of which the record has no beginning. The counts are for a record
    /// that cannot be read any more.
    pub(super) fn failed(&self, paths: &RunPaths, fault: &EngineError, (completed, parked): (u32, u32)) {
        let reason = format!("the drive ended by a fault: {fault}");
        let (seq, status, completed_workers, parked_workers) = match record::read_state(paths, &self.run_id) {
            Ok(state) if state.unfinished => (state.event_seq + 1, state.status(), state.completed(), state.parked()),
            // Its end was the last it recorded; only then the fault came.
            Ok(state) if state.event_seq > self.last() => {
                (state.event_seq, state.status(), state.completed(), state.parked())
            }
            Ok(_) => return,
            Err(unreadable) => {
                tracing::warn!(run = %self.run_id, %unreadable, "how a run stands cannot be told");
                (self.last() + 1, RunStatus::InProgress, completed, parked)
            }
        };
        let report_path = paths.report.to_string_lossy().into_owned();
        let event = Event::RunFinished { status, reason: Some(reason), completed_workers, parked_workers, report_path };
        self.lifecycle(vec![ProgressEvent { run_id: self.run_id.clone(), seq, at: Timestamp::now(), event }]);
    }

    /// Tells what an agent is doing.
    pub(super) fn activity(&self, task_id: &TaskId, worker_id: &WorkerId, text: String) {
        let event = Event::AgentActivity { task_id: task_id.clone(), worker_id: worker_id.clone(), text, coalesced: 0 };
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.sink.event(ProgressEvent { run_id: self.run_id.clone(), seq: *last, at: Timestamp::now(), event });
    }
}
