//! Hands the server's events to whoever asked for them. Each reader has a queue of its own: lifecycle events are always
//! kept; activity lines are kept up to [`ACTIVITY_KEPT`] and beyond that only the newest of each worker, so that a
//! reader that is slow, or stopped, costs little and misses nothing that matters.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::{RunId, WorkerId};
use futures::Stream;

/// Activity lines a reader may be behind before older ones of the same worker are replaced.
pub(crate) const ACTIVITY_KEPT: usize = 1024;

/// All readers of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<HubState>>);

#[derive(Debug, Default)]
struct HubState {
    closed: bool,
    readers: Vec<Weak<Reader>>,
    last_seq: HashMap<RunId, u64>,
}

#[derive(Debug)]
struct Reader {
    /// Only events of this run; all when absent.
    run: Option<RunId>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<ProgressEvent>,
    /// How many events have left the queue: the absolute position of `events[0]`.
    taken: u64,
    /// Activity lines in the queue.
    activity: usize,
    /// Absolute position of each worker's newest activity line, if it is still in the queue.
    newest: HashMap<WorkerId, u64>,
    closed: bool,
    waker: Option<Waker>,
}

/// A poisoned lock only means that a reader panicked; the queue itself is changed in steps that cannot.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A new reader, of one run or of all. It gets what arrives from now on.
    pub(crate) fn subscribe(&self, run: Option<RunId>) -> EventStream {
        let mut state = lock(&self.0);
        let queue = Queue { closed: state.closed, ..Queue::default() };
        let reader = Arc::new(Reader { run, queue: Mutex::new(queue) });
        state.readers.retain(|reader| reader.strong_count() > 0);
        state.readers.push(Arc::downgrade(&reader));
        EventStream { reader }
    }

    /// Hands an event to every reader that wants it.
    pub(crate) fn publish(&self, event: &ProgressEvent) {
        let mut state = lock(&self.0);
        if let Some(seq) = state.last_seq.get_mut(&event.run_id) {
            *seq = (*seq).max(event.seq);
        } else {
            state.last_seq.insert(event.run_id.clone(), event.seq);
        }
        state.readers.retain(|reader| {
            let Some(reader) = reader.upgrade() else { return false };
            if reader.run.as_ref().is_none_or(|run| *run == event.run_id) {
                lock(&reader.queue).push(event.clone());
            }
            true
        });
    }

    /// The number of the newest event seen of a run.
    pub(crate) fn last_seq(&self, run: &RunId) -> Option<u64> {
        lock(&self.0).last_seq.get(run).copied()
    }

    /// No more events will come. Readers end when they have read what is queued.
    pub(crate) fn close(&self) {
        let readers = {
            let mut state = lock(&self.0);
            state.closed = true;
            std::mem::take(&mut state.readers)
        };
        for reader in readers.iter().filter_map(Weak::upgrade) {
            lock(&reader.queue).close();
        }
    }
}

impl Queue {
    fn push(&mut self, event: ProgressEvent) {
        if self.closed {
            return;
        }
        if let Event::AgentActivity { worker_id, .. } = &event.event {
            let full = self.activity >= ACTIVITY_KEPT;
            let waiting = self.newest.get(worker_id).and_then(|position| {
                let index = usize::try_from(position.checked_sub(self.taken)?).ok()?;
                self.events.get_mut(index)
            });
            if let (true, Some(waiting)) = (full, waiting) {
                replace_activity(waiting, event.event);
                return;
            }
            self.activity += 1;
            self.newest.insert(worker_id.clone(), self.taken + self.events.len() as u64);
        }
        self.events.push_back(event);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn pop(&mut self) -> Option<ProgressEvent> {
        let event = self.events.pop_front()?;
        if let Event::AgentActivity { worker_id, .. } = &event.event {
            self.activity -= 1;
            if self.newest.get(worker_id) == Some(&self.taken) {
                self.newest.remove(worker_id);
            }
        }
        self.taken += 1;
        Some(event)
    }

    fn close(&mut self) {
        self.closed = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Puts a newer line in an older one's place. The older one's `seq` stays, so that numbers never fall along the queue.
fn replace_activity(waiting: &mut ProgressEvent, newer: Event) {
    if let (
        Event::AgentActivity { text, coalesced, .. },
        Event::AgentActivity { text: new_text, coalesced: new_coalesced, .. },
    ) = (&mut waiting.event, newer)
    {
        *text = new_text;
        *coalesced += new_coalesced + 1;
    }
}

/// Events, in the order the server sent them. Ends when the connection does, or, for a drive, when the drive is answered.
#[derive(Debug)]
pub struct EventStream {
    reader: Arc<Reader>,
}

impl EventStream {
    /// The next event; none when no more will come.
    pub async fn next(&mut self) -> Option<ProgressEvent> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// The next event, if one is there already.
    pub fn try_next(&mut self) -> Option<ProgressEvent> {
        lock(&self.reader.queue).pop()
    }

    /// A handle that ends this stream from elsewhere.
    pub(crate) fn closer(&self) -> impl FnOnce() + Send + 'static {
        let reader = Arc::downgrade(&self.reader);
        move || {
            if let Some(reader) = reader.upgrade() {
                lock(&reader.queue).close();
            }
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<ProgressEvent>> {
        let mut queue = lock(&self.reader.queue);
        match queue.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if queue.closed => Poll::Ready(None),
            None => {
                queue.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Stream for EventStream {
    type Item = ProgressEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ProgressEvent>> {
        self.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowdrive_protocol::ids::TaskId;
    use flowdrive_protocol::run::StopMode;
    use flowdrive_protocol::time::Timestamp;

    fn event(run: &str, seq: u64, event: Event) -> ProgressEvent {
        ProgressEvent { run_id: RunId::new(run).unwrap(), seq, at: Timestamp::from_millis(0), event }
    }

    fn lifecycle(run: &str, seq: u64) -> ProgressEvent {
        event(run, seq, Event::StopRequested { mode: StopMode::Now, by: "test".into() })
    }

    fn activity(worker: &str, seq: u64, text: &str) -> ProgressEvent {
        let event_kind = Event::AgentActivity {
            task_id: TaskId::new("t").unwrap(),
            worker_id: WorkerId::new(worker).unwrap(),
            text: text.into(),
            coalesced: 0,
        };
        event("r", seq, event_kind)
    }

    #[tokio::test]
    async fn a_slow_reader_keeps_every_lifecycle_event_and_the_newest_line_of_each_worker() {
        let hub = Hub::default();
        let mut stream = hub.subscribe(None);
        for seq in 1..=5_000 {
            hub.publish(&lifecycle("r", seq));
            for worker in ["a", "b"] {
                hub.publish(&activity(worker, seq, &format!("{worker} {seq}")));
            }
        }
        hub.close();
        let (mut numbers, mut lines, mut left_out, mut last) = (Vec::new(), 0_u64, 0, HashMap::new());
        let mut previous = 0;
        while let Some(event) = stream.next().await {
            assert!(event.seq >= previous, "numbers never fall");
            previous = event.seq;
            match event.event {
                Event::AgentActivity { worker_id, text, coalesced, .. } => {
                    lines += 1;
                    left_out += coalesced;
                    last.insert(worker_id.to_string(), text);
                }
                _ => numbers.push(event.seq),
            }
        }
        assert_eq!(numbers, (1..=5_000).collect::<Vec<_>>());
        assert_eq!(lines, ACTIVITY_KEPT as u64);
        assert_eq!(lines + left_out, 10_000, "what was left out is counted");
        assert_eq!((last["a"].as_str(), last["b"].as_str()), ("a 5000", "b 5000"));
    }

    #[tokio::test]
    async fn a_reader_that_keeps_up_gets_every_line() {
        let hub = Hub::default();
        let mut stream = hub.subscribe(None);
        for number in 0..3 * ACTIVITY_KEPT {
            hub.publish(&activity("a", 1, &number.to_string()));
            let Some(Event::AgentActivity { text, coalesced: 0, .. }) = stream.next().await.map(|event| event.event)
            else {
                panic!("line {number} is missing")
            };
            assert_eq!(text, number.to_string());
        }
    }

    #[tokio::test]
    async fn a_reader_of_one_run_sees_no_other_and_is_woken() {
        let hub = Hub::default();
        let mut one = hub.subscribe(Some(RunId::new("one").unwrap()));
        let reading = tokio::spawn(async move { (one.next().await, one.next().await) });
        tokio::task::yield_now().await;
        hub.publish(&lifecycle("two", 1));
        hub.publish(&lifecycle("one", 9));
        hub.close();
        let (first, second) = reading.await.unwrap();
        assert_eq!(first.map(|event| event.seq), Some(9));
        assert_eq!(second, None);
        assert_eq!(hub.last_seq(&RunId::new("one").unwrap()), Some(9));
        assert_eq!(hub.subscribe(None).next().await, None, "a reader that comes too late ends at once");
    }

    #[test]
    fn a_reader_that_went_away_is_forgotten() {
        let hub = Hub::default();
        drop(hub.subscribe(None));
        hub.publish(&lifecycle("r", 1));
        assert!(lock(&hub.0).readers.is_empty());
    }
}
