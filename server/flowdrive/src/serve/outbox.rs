//! Everything that leaves for the client goes through here: one queue, one writer. Putting something in never blocks, so
//! that a client that does not read cannot hold up a run; what bounds the queue is in [`queue`].
//!
//! Must not: write anything itself, or wait with the lock held.

mod kinds;
mod queue;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::method;
use serde::Serialize;
use tokio::sync::{Notify, mpsc, watch};

use super::framing::{Framing, encode};
pub(crate) use kinds::{CatchUp, Limits, Render, Source, Stream};
use kinds::{Next, Out};
use queue::Queue;

/// A notification as it goes out. `None` when it cannot be encoded, which is logged.
pub(crate) fn notification<P: Serialize>(method: &str, params: &P) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    serde_json::to_vec(&Notification { jsonrpc: "2.0", method, params })
        .inspect_err(|error| tracing::error!(method, %error, "a notification could not be encoded"))
        .ok()
}

/// The outbox. Clones share it.
#[derive(Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when the writer may have something to do.
    wake: Condvar,
    /// Told when answers have left.
    room: Notify,
    /// Whether the client is gone.
    broken: watch::Sender<bool>,
    /// Whether the writer has ended.
    ended: watch::Sender<bool>,
    catch_up: mpsc::UnboundedSender<CatchUp>,
}

struct State {
    queue: Queue,
    framing: Option<Framing>,
    broken: bool,
    closed: bool,
    /// The writer waits for events to be read again.
    asked: bool,
}

impl Outbox {
    /// An outbox, and where it asks for events to be read again; these come back by [`Self::caught_up`].
    pub(crate) fn new(limits: Limits) -> (Self, mpsc::UnboundedReceiver<CatchUp>) {
        // Holds at most one request: the next is made when this one has been served.
        let (catch_up, requests) = mpsc::unbounded_channel();
        let state = State { queue: Queue::new(limits), framing: None, broken: false, closed: false, asked: false };
        let shared = Shared {
            state: Mutex::new(state),
            wake: Condvar::new(),
            room: Notify::new(),
            broken: watch::Sender::new(false),
            ended: watch::Sender::new(false),
            catch_up,
        };
        (Self { shared: Arc::new(shared) }, requests)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between two related changes; a poisoned queue is still a whole one.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, change: impl FnOnce(&mut Queue)) {
        let mut state = self.state();
        if !state.broken {
            change(&mut state.queue);
            drop(state);
            self.shared.wake.notify_one();
        }
    }

    /// Sets how messages are laid out from now on.
    pub(crate) fn set_framing(&self, framing: Framing) {
        self.state().framing = Some(framing);
    }

    /// How messages are laid out, once that is known.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.state().framing
    }

    /// An answer, a list of them, or whatever else nothing more is to be read after while it has not left.
    pub(crate) fn answer(&self, bytes: Vec<u8>) {
        self.put(|queue| queue.answer(bytes));
    }

    /// A message that causes bound in number: a request to the client, or a notification that is not an event.
    pub(crate) fn notice(&self, bytes: Vec<u8>) {
        self.put(|queue| queue.notice(bytes));
    }

    /// An event of a run.
    pub(crate) fn event(&self, source: &Arc<Source>, event: ProgressEvent) {
        let stream = (source.clone(), event.run_id.clone());
        if event.event.is_lifecycle() {
            if let Some(bytes) = notification(method::PROGRESS, &event) {
                self.put(|queue| queue.lifecycle(&stream, event.seq, bytes));
            }
        } else {
            self.put(|queue| queue.activity(stream, event));
        }
    }

    /// Begins a progress; `progress` is our own number for it.
    pub(crate) fn begin(&self, progress: u64, bytes: Vec<u8>, render: Arc<dyn Render>) {
        self.put(|queue| queue.begin(progress, bytes, render));
    }

    /// Says that a progress has something new to report.
    pub(crate) fn report(&self, progress: u64) {
        self.put(|queue| queue.report(progress));
    }

    /// Ends a progress.
    pub(crate) fn end(&self, progress: u64, bytes: Vec<u8>) {
        self.put(|queue| queue.end(progress, bytes));
    }

    /// Events that were asked for; `more` when the record holds more after them.
    pub(crate) fn caught_up(&self, stream: &Stream, events: Vec<(u64, Option<Vec<u8>>)>, more: bool) {
        let mut state = self.state();
        state.asked = false;
        state.queue.caught_up(stream, events, more);
        drop(state);
        self.shared.wake.notify_one();
    }

    /// Returns when the client has read enough for another message to be taken from it.
    pub(crate) async fn room(&self) {
        loop {
            let notified = self.shared.room.notified();
            if self.state().queue.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Lets the writer end once everything has left.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.shared.wake.notify_one();
    }

    /// Returns when the client is found to be gone.
    pub(crate) async fn broken(&self) {
        // The sender lives as long as this handle.
        let _ = self.shared.broken.subscribe().wait_for(|broken| *broken).await;
    }

    /// Returns when the writer has ended: all has left, or the client is gone.
    pub(crate) async fn ended(&self) {
        let _ = self.shared.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// For the writer: waits for bytes to write. `None` when it is to end.
    pub(crate) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            let idle = if state.asked { Next::Idle(None) } else { state.queue.next(Instant::now()) };
            match idle {
                Next::Write(messages) => {
                    let framing = state.framing.unwrap_or(Framing::Ndjson);
                    let room = state.queue.has_room();
                    drop(state);
                    if room {
                        self.shared.room.notify_waiters();
                    }
                    let mut bytes = Vec::new();
                    for message in messages.into_iter().filter_map(Out::into_bytes) {
                        encode(framing, &message, &mut bytes);
                    }
                    return Some(bytes);
                }
                Next::CatchUp(request) => {
                    // Without anybody to ask, the gap in `seq` tells the client to use `showRun`.
                    state.asked = self.shared.catch_up.send(request.clone()).is_ok();
                    if !state.asked {
                        state.queue.caught_up(&request.stream, Vec::new(), false);
                    }
                }
                Next::Idle(_) if state.closed && !state.asked && state.queue.is_empty() => return None,
                Next::Idle(due) => {
                    let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
                    state = match wait {
                        None => self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                        Some(wait) => {
                            self.shared.wake.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                        }
                    };
                }
            }
        }
    }

    /// For the writer: the client is gone; nothing is kept for it any more.
    pub(crate) fn break_off(&self) {
        let mut state = self.state();
        state.broken = true;
        state.queue = Queue::new(Limits::default());
        drop(state);
        self.shared.room.notify_waiters();
        self.shared.broken.send_replace(true);
    }

    /// For the writer: it has ended.
    pub(crate) fn writer_ended(&self) {
        self.shared.ended.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_before_the_end_still_leaves() {
        let (outbox, _requests) = Outbox::new(Limits::default());
        outbox.set_framing(Framing::Ndjson);
        outbox.answer(b"1".to_vec());
        outbox.close();
        assert_eq!(outbox.take(), Some(b"1\n".to_vec()));
        assert_eq!(outbox.take(), None);
    }

    #[test]
    fn nothing_is_kept_for_a_client_that_is_gone() {
        let (outbox, _requests) = Outbox::new(Limits::default());
        outbox.break_off();
        outbox.answer(b"1".to_vec());
        outbox.close();
        assert_eq!(outbox.take(), None);
    }

    #[tokio::test]
    async fn reading_goes_on_once_answers_have_left() {
        let (outbox, _requests) = Outbox::new(Limits { answers: 1, ..Limits::default() });
        outbox.answer(b"1".to_vec());
        let waiting = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(outbox.take().is_some());
        waiting.await.unwrap();
    }
}
