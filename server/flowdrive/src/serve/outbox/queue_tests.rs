use std::time::Duration;

use flowdrive_protocol::ids::{RunId, WorkerId};
use flowdrive_protocol::time::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

use super::super::kinds::Source;
use super::*;

fn limits() -> Limits {
    Limits { slack: 0, event_bytes: 10_000, answers: 4, answer_bytes: 1000, report_every: Duration::from_millis(250) }
}

fn stream(run: &str) -> Stream {
    (Arc::new(Source { drive: 1, ..Source::default() }), RunId::new(run).unwrap())
}

fn activity(seq: u64, task: &str, text: &str) -> ProgressEvent {
    ProgressEvent {
        run_id: RunId::new("r").unwrap(),
        seq,
        at: Timestamp::from_millis(0),
        event: Event::AgentActivity {
            task_id: TaskId::new(task).unwrap(),
            worker_id: WorkerId::new("w").unwrap(),
            text: text.into(),
            coalesced: 0,
        },
    }
}

fn texts(messages: Vec<Out>) -> Vec<String> {
    messages.into_iter().filter_map(Out::into_bytes).map(|bytes| String::from_utf8(bytes).unwrap()).collect()
}

/// When the queue has something to do again, if it has nothing now.
fn idle(queue: &mut Queue, now: Instant) -> Option<Instant> {
    match queue.next(now) {
        Next::Idle(due) => due,
        Next::Write(messages) => panic!("writes {:?}", texts(messages)),
        Next::CatchUp(request) => panic!("asks for {request:?}"),
    }
}

fn asks(queue: &mut Queue) -> Option<CatchUp> {
    match queue.next(Instant::now()) {
        Next::CatchUp(request) => Some(request),
        _ => None,
    }
}

/// Reports what was put in last.
#[derive(Default)]
struct Newest(std::sync::Mutex<String>);

impl Render for Newest {
    fn render(&self) -> Option<Vec<u8>> {
        Some(self.0.lock().unwrap().clone().into_bytes())
    }
}

impl Newest {
    fn set(&self, queue: &mut Queue, text: &str) {
        text.clone_into(&mut self.0.lock().unwrap());
        queue.report(7);
    }
}

fn write(queue: &mut Queue, now: Instant) -> Vec<String> {
    match queue.next(now) {
        Next::Write(messages) => texts(messages),
        Next::Idle(_) => Vec::new(),
        Next::CatchUp(request) => panic!("asks for {request:?}"),
    }
}

/// `text` and `coalesced` of activity notifications; other messages as they are.
fn lines(messages: &[String]) -> Vec<(String, u64)> {
    messages
        .iter()
        .map(|message| match serde_json::from_str::<Value>(message) {
            Ok(Value::Object(object)) => {
                let params = &object["params"];
                (params["text"].as_str().unwrap().to_owned(), params["coalesced"].as_u64().unwrap_or(0))
            }
            _ => (message.clone(), 0),
        })
        .collect()
}

#[test]
fn messages_leave_in_the_order_they_were_put_in() {
    let mut queue = Queue::new(limits());
    queue.lifecycle(&stream("r"), 1, b"one".to_vec());
    queue.notice(b"two".to_vec());
    queue.answer(b"three".to_vec());
    assert_eq!(write(&mut queue, Instant::now()), ["one", "two", "three"]);
    assert_eq!(idle(&mut queue, Instant::now()), None);
}

#[test]
fn only_the_newest_activity_of_a_task_waits() {
    let mut queue = Queue::new(limits());
    for n in 0..1000 {
        queue.activity(stream("r"), activity(3, "a", &format!("a{n}")));
        queue.activity(stream("r"), activity(3, "b", &format!("b{n}")));
    }
    assert_eq!(queue.items.len(), 2);
    assert_eq!(lines(&write(&mut queue, Instant::now())), [("a999".into(), 999), ("b999".into(), 999)]);
    queue.activity(stream("r"), activity(3, "a", "later"));
    assert_eq!(lines(&write(&mut queue, Instant::now())), [("later".into(), 0)]);
}

#[test]
fn a_client_that_reads_gets_every_line() {
    let mut queue = Queue::new(Limits { slack: 10, ..limits() });
    for n in 0..10 {
        queue.activity(stream("r"), activity(3, "a", &n.to_string()));
    }
    queue.activity(stream("r"), activity(3, "a", "x"));
    queue.activity(stream("r"), activity(3, "a", "y"));
    let told = lines(&write(&mut queue, Instant::now()));
    assert_eq!(told.len(), 11);
    assert_eq!(told[10], ("y".into(), 1));
}

#[test]
fn a_newer_line_does_not_overtake_the_lifecycle_event_before_it() {
    let mut queue = Queue::new(limits());
    queue.activity(stream("r"), activity(3, "a", "first attempt"));
    queue.lifecycle(&stream("r"), 4, b"retrying".to_vec());
    queue.activity(stream("r"), activity(4, "a", "second attempt"));
    let told = lines(&write(&mut queue, Instant::now()));
    assert_eq!(told, [("retrying".into(), 0), ("second attempt".into(), 1)]);
}

#[test]
fn places_of_lines_that_moved_on_do_not_pile_up() {
    let mut queue = Queue::new(limits());
    for seq in 0..100_000 {
        queue.activity(stream("r"), activity(seq, "a", "x"));
    }
    assert!(queue.items.len() < 5000, "{}", queue.items.len());
    assert_eq!(lines(&write(&mut queue, Instant::now())), [("x".into(), 99_999)]);
}

#[test]
fn reports_keep_their_distance_and_the_newest_wins() {
    let mut queue = Queue::new(limits());
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let newest = Arc::new(Newest::default());
    queue.begin(7, b"begin".to_vec(), newest.clone());
    newest.set(&mut queue, "10");
    assert_eq!(write(&mut queue, at(0)), ["begin", "10"]);
    newest.set(&mut queue, "20");
    newest.set(&mut queue, "30");
    assert_eq!(idle(&mut queue, at(100)), Some(at(250)));
    assert_eq!(write(&mut queue, at(250)), ["30"]);
    newest.set(&mut queue, "40");
    queue.end(7, b"end".to_vec());
    newest.set(&mut queue, "too late");
    assert_eq!(write(&mut queue, at(300)), ["end"]);
    newest.set(&mut queue, "later still");
    assert_eq!(idle(&mut queue, at(9999)), None);
}

#[test]
fn a_report_waits_for_its_begin() {
    let mut queue = Queue::new(limits());
    queue.lifecycle(&stream("r"), 1, vec![b'x'; 20_000]);
    assert!(asks(&mut queue).is_some());
    let newest = Arc::new(Newest::default());
    queue.begin(7, b"begin".to_vec(), newest.clone());
    newest.set(&mut queue, "10");
    assert!(asks(&mut queue).is_some(), "nothing overtakes the marker");
    queue.caught_up(&stream("r"), vec![(1, Some(b"event".to_vec()))], false);
    assert_eq!(write(&mut queue, Instant::now()), ["event", "begin", "10"]);
}

#[test]
fn a_run_that_fills_the_queue_is_read_again_from_its_record() {
    let mut queue = Queue::new(limits());
    let event = |seq: u64| format!("{seq:0>1000}").into_bytes();
    queue.lifecycle(&stream("r"), 1, event(1));
    assert_eq!(write(&mut queue, Instant::now()).len(), 1);
    queue.lifecycle(&stream("small"), 1, b"small".to_vec());
    for seq in 2..=500 {
        queue.lifecycle(&stream("r"), seq, event(seq));
        assert!(queue.event_bytes <= limits().event_bytes);
    }
    queue.answer(b"answer".to_vec());
    assert!(queue.items.len() < 5, "{:?}", queue.items);

    assert_eq!(write(&mut queue, Instant::now()), ["small"]);
    assert_eq!(asks(&mut queue), Some(CatchUp { stream: stream("r"), since: 1 }));
    queue.caught_up(&stream("r"), (2..=300).map(|seq| (seq, Some(event(seq)))).collect(), true);
    let page = write(&mut queue, Instant::now()).len() + write(&mut queue, Instant::now()).len();
    assert_eq!(page, 299, "in two writes, since it is long");
    assert_eq!(asks(&mut queue), Some(CatchUp { stream: stream("r"), since: 300 }));
    queue.lifecycle(&stream("r"), 501, event(501));
    queue.caught_up(&stream("r"), (301..=500).map(|seq| (seq, Some(event(seq)))).collect(), false);
    assert_eq!(write(&mut queue, Instant::now()).len(), 200);
    assert_eq!(asks(&mut queue), Some(CatchUp { stream: stream("r"), since: 500 }), "501 came since");
    queue.caught_up(&stream("r"), vec![(501, Some(event(501)))], false);
    let rest = write(&mut queue, Instant::now());
    assert_eq!((rest.len(), rest[1].as_str()), (2, "answer"), "the answer leaves after the events before it");
    queue.lifecycle(&stream("r"), 502, event(502));
    assert_eq!(write(&mut queue, Instant::now()).len(), 1, "and the run is told of live again");
}

#[test]
fn a_record_that_cannot_be_read_does_not_stop_the_queue() {
    let mut queue = Queue::new(limits());
    queue.lifecycle(&stream("r"), 1, vec![b'x'; 20_000]);
    queue.answer(b"answer".to_vec());
    assert!(asks(&mut queue).is_some());
    queue.caught_up(&stream("r"), Vec::new(), false);
    assert_eq!(write(&mut queue, Instant::now()), ["answer"]);
}

#[test]
fn answers_that_are_not_read_stop_the_reading() {
    let mut queue = Queue::new(limits());
    for _ in 0..4 {
        assert!(queue.has_room());
        queue.answer(b"answer".to_vec());
    }
    assert!(!queue.has_room());
    write(&mut queue, Instant::now());
    assert!(queue.has_room());
    queue.answer(vec![b'x'; 2000]);
    assert!(!queue.has_room());
}

#[derive(Debug, Clone)]
enum Step {
    Lifecycle(bool, u16),
    Activity(bool, u8),
    Answer,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), 10..2000_u16).prop_map(|(run, size)| Step::Lifecycle(run, size)),
        4 => (any::<bool>(), 0..3_u8).prop_map(|(run, task)| Step::Activity(run, task)),
        1 => Just(Step::Answer),
        2 => Just(Step::Take),
    ]
}

proptest! {
    /// Whatever the order of things: every lifecycle event arrives once and in order, every answer arrives after what
    /// was put in before it, no activity line is lost count of, and memory stays within its bound.
    #[test]
    fn nothing_is_lost_and_nothing_overtakes(steps in prop::collection::vec(step(), 0..300)) {
        let mut queue = Queue::new(limits());
        let streams = [stream("r"), stream("s")];
        let mut newest = [0_u64; 2];
        let mut record: [Vec<Vec<u8>>; 2] = Default::default();
        let (mut answers, mut lines_put) = (Vec::new(), 0_u64);
        let mut seen: Vec<String> = Vec::new();
        let take = |queue: &mut Queue, record: &[Vec<Vec<u8>>; 2], seen: &mut Vec<String>| match queue.next(Instant::now()) {
            Next::Write(messages) => {
                seen.extend(texts(messages));
                true
            }
            Next::Idle(_) => false,
            Next::CatchUp(CatchUp { stream: asked, since }) => {
                let from = usize::try_from(since).unwrap();
                let all = &record[usize::from(asked == stream("s"))];
                let page: Vec<_> = all.iter().enumerate().skip(from).take(3).map(|(at, bytes)| (at as u64 + 1, Some(bytes.clone()))).collect();
                let more = from + page.len() < all.len();
                queue.caught_up(&asked, page, more);
                true
            }
        };
        for step in steps {
            match step {
                Step::Lifecycle(run, size) => {
                    let run = usize::from(run);
                    newest[run] += 1;
                    let bytes = format!("\"{run} {} {}\"", newest[run], "x".repeat(size.into())).into_bytes();
                    record[run].push(bytes.clone());
                    queue.lifecycle(&streams[run], newest[run], bytes);
                }
                Step::Activity(run, task) => {
                    lines_put += 1;
                    let run = usize::from(run);
                    queue.activity(streams[run].clone(), activity(newest[run], &format!("t{task}"), "x"));
                }
                Step::Answer => {
                    answers.push(newest);
                    queue.answer(format!("\"answer {}\"", answers.len()).into_bytes());
                }
                Step::Take => {
                    take(&mut queue, &record, &mut seen);
                }
            }
            prop_assert!(queue.event_bytes <= limits().event_bytes + 3 * 2100);
        }
        while take(&mut queue, &record, &mut seen) {}
        let (mut told, mut answered, mut lines_seen) = ([0_u64; 2], 0, 0);
        for message in seen {
            match serde_json::from_str::<Value>(&message).unwrap() {
                Value::String(text) if text.starts_with("answer") => {
                    let before: [u64; 2] = answers[answered];
                    prop_assert!(told[0] >= before[0] && told[1] >= before[1]);
                    answered += 1;
                }
                Value::String(text) => {
                    let mut words = text.split(' ');
                    let run: usize = words.next().unwrap().parse().unwrap();
                    told[run] += 1;
                    prop_assert_eq!(words.next().unwrap(), told[run].to_string());
                }
                activity => lines_seen += 1 + activity["params"]["coalesced"].as_u64().unwrap_or(0),
            }
        }
        prop_assert_eq!((told, answered, lines_seen), (newest, answers.len(), lines_put));
    }
}
