//! What waits to be written, and in which order it leaves. A pure state machine: time is handed in.
//!
//! Answers, requests and lifecycle events leave in the order they were put in. What may be thinned out for a client that
//! reads slowly is thinned out here: agent activity to the newest line per task, progress reports to the newest per
//! token. A run whose events fill the queue is put *behind*: its events are dropped, a marker takes their place, and
//! they are read again from the run's record once the marker is reached.
//!
//! Must not: block, do I/O, or grow without bound.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::method;

use super::kinds::{CatchUp, Limits, Next, Out, Render, Stream};
use super::notification;

#[derive(Debug)]
enum Item {
    Answer(Vec<u8>),
    /// A message whose number is bounded by what causes it.
    Notice(Vec<u8>),
    Event {
        stream: Stream,
        seq: u64,
        bytes: Vec<u8>,
    },
    /// The place of the line kept under the key, if the number is still the same.
    Activity {
        key: (Stream, TaskId),
        number: u64,
    },
    Begin {
        progress: u64,
        bytes: Vec<u8>,
    },
    Behind(Stream),
}

#[derive(Debug)]
struct Kept {
    number: u64,
    event: ProgressEvent,
}

struct Reports {
    render: Arc<dyn Render>,
    begun: bool,
    changed: bool,
    sent_at: Option<Instant>,
}

#[derive(Debug)]
struct Behind {
    since: u64,
    latest: u64,
}

/// The queue.
pub(crate) struct Queue {
    limits: Limits,
    items: VecDeque<Item>,
    answers: usize,
    answer_bytes: usize,
    event_bytes: usize,
    activity: HashMap<(Stream, TaskId), Kept>,
    /// Activity items whose line has moved further back.
    stale: usize,
    numbers: u64,
    reports: BTreeMap<u64, Reports>,
    behind: HashMap<Stream, Behind>,
}

/// Messages handed out at once hold about this many bytes.
const BATCH_BYTES: usize = 256 * 1024;

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            items: VecDeque::new(),
            answers: 0,
            answer_bytes: 0,
            event_bytes: 0,
            activity: HashMap::new(),
            stale: 0,
            numbers: 0,
            reports: BTreeMap::new(),
            behind: HashMap::new(),
        }
    }

    /// Whether another message should be read from the client.
    pub(crate) fn has_room(&self) -> bool {
        self.answers < self.limits.answers && self.answer_bytes < self.limits.answer_bytes
    }

    /// Whether nothing waits at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn answer(&mut self, bytes: Vec<u8>) {
        self.answers += 1;
        self.answer_bytes += bytes.len();
        self.items.push_back(Item::Answer(bytes));
    }

    pub(crate) fn notice(&mut self, bytes: Vec<u8>) {
        self.items.push_back(Item::Notice(bytes));
    }

    /// A lifecycle event, already encoded.
    pub(crate) fn lifecycle(&mut self, stream: &Stream, seq: u64, bytes: Vec<u8>) {
        if let Some(behind) = self.behind.get_mut(stream) {
            behind.latest = behind.latest.max(seq);
            return;
        }
        self.event_bytes += bytes.len();
        self.items.push_back(Item::Event { stream: stream.clone(), seq, bytes });
        if self.event_bytes > self.limits.event_bytes {
            self.put_behind(stream, seq);
        }
    }

    /// Drops the stream's events; a marker in place of the first says where they go.
    fn put_behind(&mut self, stream: &Stream, latest: u64) {
        let mut first = None;
        let mut freed = 0;
        self.items.retain_mut(|item| match item {
            Item::Event { stream: other, seq, bytes } if other == stream => {
                freed += bytes.len();
                if first.is_some() {
                    return false;
                }
                first = Some(*seq);
                *item = Item::Behind(stream.clone());
                true
            }
            _ => true,
        });
        self.event_bytes -= freed;
        if let Some(first) = first {
            self.behind.insert(stream.clone(), Behind { since: first.saturating_sub(1), latest });
        }
    }

    /// Puts in events that were read again, without bytes where the client does not want them. The marker stays until
    /// the newest has been put in.
    pub(crate) fn caught_up(&mut self, stream: &Stream, events: Vec<(u64, Option<Vec<u8>>)>, more: bool) {
        let Some(behind) = self.behind.get_mut(stream) else { return };
        let Some(at) = self.items.iter().position(|item| matches!(item, Item::Behind(other) if other == stream)) else {
            self.behind.remove(stream);
            return;
        };
        let last = events.last().map_or(behind.since, |(seq, _)| *seq);
        // A record that has nothing new to tell would keep the marker for ever.
        let done = events.is_empty() || (!more && last >= behind.latest);
        behind.since = last;
        let mut after = self.items.split_off(at);
        if done {
            after.pop_front();
            self.behind.remove(stream);
        }
        for (seq, bytes) in events.into_iter().filter_map(|(seq, bytes)| Some((seq, bytes?))) {
            self.event_bytes += bytes.len();
            self.items.push_back(Item::Event { stream: stream.clone(), seq, bytes });
        }
        self.items.append(&mut after);
    }

    /// A line of what an agent is doing.
    pub(crate) fn activity(&mut self, stream: Stream, event: ProgressEvent) {
        let Event::AgentActivity { task_id, .. } = &event.event else { return };
        let key = (stream, task_id.clone());
        if let Some(kept) = self.activity.get_mut(&key) {
            let left_out = coalesced(&kept.event) + 1;
            let moved = kept.event.seq != event.seq;
            kept.event = event;
            add_coalesced(&mut kept.event, left_out);
            if moved {
                // Lifecycle events came between; the newer line must not overtake them.
                self.numbers += 1;
                kept.number = self.numbers;
                self.stale += 1;
                self.items.push_back(Item::Activity { key, number: self.numbers });
                self.compact();
            }
        } else if self.items.len() < self.limits.slack {
            if let Some(bytes) = notification(method::PROGRESS, &event) {
                self.items.push_back(Item::Notice(bytes));
            }
        } else {
            self.numbers += 1;
            self.items.push_back(Item::Activity { key: key.clone(), number: self.numbers });
            self.activity.insert(key, Kept { number: self.numbers, event });
        }
    }

    /// Drops stale places once they are most of the queue, so that their cost is spread over those that made them.
    fn compact(&mut self) {
        if self.stale > 1024 && self.stale > self.items.len() / 2 {
            let activity = &self.activity;
            self.items.retain(|item| match item {
                Item::Activity { key, number } => activity.get(key).is_some_and(|kept| kept.number == *number),
                _ => true,
            });
            self.stale = 0;
        }
    }

    /// Begins a progress; its reports wait for this to leave.
    pub(crate) fn begin(&mut self, progress: u64, bytes: Vec<u8>, render: Arc<dyn Render>) {
        self.reports.insert(progress, Reports { render, begun: false, changed: false, sent_at: None });
        self.items.push_back(Item::Begin { progress, bytes });
    }

    /// Says that there is something new to report.
    pub(crate) fn report(&mut self, progress: u64) {
        if let Some(reports) = self.reports.get_mut(&progress) {
            reports.changed = true;
        }
    }

    /// Ends a progress; a report that still waits says nothing any more.
    pub(crate) fn end(&mut self, progress: u64, bytes: Vec<u8>) {
        if self.reports.remove(&progress).is_some() {
            self.items.push_back(Item::Notice(bytes));
        }
    }

    /// What is to be done now.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        let mut out = Vec::new();
        let mut size = 0;
        while size < BATCH_BYTES {
            if let Some(Item::Behind(stream)) = self.items.front() {
                if !out.is_empty() {
                    break;
                }
                let since = self.behind.get(stream).map_or(0, |behind| behind.since);
                return Next::CatchUp(CatchUp { stream: stream.clone(), since });
            }
            let Some(item) = self.items.pop_front() else { break };
            if let Some(bytes) = self.leave(item) {
                size += bytes.len();
                out.push(Out::Bytes(bytes));
            }
        }
        let mut due = None;
        for reports in self.reports.values_mut().filter(|reports| reports.begun && reports.changed) {
            let at = reports.sent_at.map_or(now, |sent| sent + self.limits.report_every);
            if at <= now {
                reports.sent_at = Some(now);
                reports.changed = false;
                out.push(Out::Report(reports.render.clone()));
            } else {
                due = Some(due.map_or(at, |earlier: Instant| earlier.min(at)));
            }
        }
        if out.is_empty() { Next::Idle(due) } else { Next::Write(out) }
    }

    fn leave(&mut self, item: Item) -> Option<Vec<u8>> {
        match item {
            Item::Answer(bytes) => {
                self.answers -= 1;
                self.answer_bytes -= bytes.len();
                Some(bytes)
            }
            Item::Notice(bytes) => Some(bytes),
            Item::Event { bytes, .. } => {
                self.event_bytes -= bytes.len();
                Some(bytes)
            }
            Item::Activity { key, number } => {
                if self.activity.get(&key).is_none_or(|kept| kept.number != number) {
                    self.stale = self.stale.saturating_sub(1);
                    return None;
                }
                self.activity.remove(&key).and_then(|kept| notification(method::PROGRESS, &kept.event))
            }
            Item::Begin { progress, bytes } => {
                if let Some(reports) = self.reports.get_mut(&progress) {
                    reports.begun = true;
                }
                Some(bytes)
            }
            // Seen to before an item is taken.
            Item::Behind(_) => None,
        }
    }
}

fn coalesced(event: &ProgressEvent) -> u64 {
    match &event.event {
        Event::AgentActivity { coalesced, .. } => *coalesced,
        _ => 0,
    }
}

fn add_coalesced(event: &mut ProgressEvent, more: u64) {
    if let Event::AgentActivity { coalesced, .. } = &mut event.event {
        *coalesced = coalesced.saturating_add(more);
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
