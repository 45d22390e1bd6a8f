//! Many events to a client that reads: all of them arrive, in order, and whoever tells them is not held up. An ordinary run
//! tells some thousands; `FLOWDRIVE_FLOW_EVENTS=1000000 cargo test --release -p flowdrive flow -- --nocapture` measures.

use std::io::{BufRead, BufReader, PipeReader};
use std::thread;
use std::time::{Duration, Instant};

use flowdrive_protocol::event::ProgressEvent;
use tokio::sync::oneshot;

use super::*;

/// Told a second where the pace is set: what the design asks for.
const PACE: u32 = 50_000;
/// Told at once, so that a pause between them is long enough to be one.
const BURST: u32 = 100;

/// What a client got.
#[derive(Debug, Default)]
struct Got {
    lifecycle: u64,
    activity: u64,
    /// Lines of activity that were merged into others.
    merged: u64,
}

/// Reads as a client does: every line as JSON. Says when the first event is there; ends with that of the drive's end.
fn read(output: PipeReader, first: oneshot::Sender<()>) -> Got {
    let mut first = Some(first);
    let mut got = Got::default();
    for line in BufReader::with_capacity(64 * 1024, output).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["method"] != "flowdrive/progress" {
            continue;
        }
        let event = &message["params"];
        match event["type"].as_str() {
            Some("agentActivity") => {
                got.activity += 1;
                got.merged += event["coalesced"].as_u64().unwrap_or(0);
                assert!(event["seq"].as_u64() <= Some(got.lifecycle), "activity does not overtake: {message}");
            }
            Some(kind) => {
                got.lifecycle += 1;
                if let Some(first) = first.take() {
                    first.send(()).unwrap();
                }
                assert_eq!(event["seq"], got.lifecycle, "no gap, no repetition");
                if kind == "runFinished" {
                    break;
                }
            }
            None => panic!("{message}"),
        }
    }
    got
}

/// Tells `count` events, one of ten a lifecycle event, and how long telling them took in all and at most.
fn tell(engine: &Fake, count: u32, paced: bool) -> (Duration, Duration) {
    let events: Vec<ProgressEvent> = (0..10)
        .map(|n| {
            if n == 0 {
                fake::accepted("r", 2)
            } else {
                fake::activity("r", 1, &format!("t{n}"), "reading src/main.rs")
            }
        })
        .collect();
    let begun = Instant::now();
    let (mut spent, mut longest) = (Duration::ZERO, Duration::ZERO);
    let mut seq = 1;
    for number in 0..count {
        if paced && number % BURST == 0 {
            let due = begun + Duration::from_secs(1) * number / PACE;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let mut event = events[(number % 10) as usize].clone();
        seq += u64::from(event.event.is_lifecycle());
        event.seq = seq;
        let before = Instant::now();
        engine.tell(0, event);
        let took = before.elapsed();
        spent += took;
        longest = longest.max(took);
    }
    let last = json!({"type": "runFinished", "status": "complete", "completedWorkers": 4, "parkedWorkers": 0, "reportPath": "r"});
    engine.tell(0, fake::event("r", seq + 1, &last));
    (spent, longest)
}

async fn flow(count: u32, paced: bool) {
    let engine = Arc::new(Fake::default());
    let (input, chunks) = mpsc::channel(16);
    let (output, written) = io::pipe().unwrap();
    let (_signals, received) = mpsc::channel(4);
    let outside = Outside { signals: received, complain: Box::new(io::sink()), input_ended: watch::channel(false).1 };
    let backend = engine.clone();
    let options = Options::default();
    let server = tokio::spawn(async move {
        run(backend, Standing::default(), &options, chunks, written, outside, Limits::default()).await
    });
    let (first, begins) = oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || read(output, first));
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"drive\",\"params\":{\"runId\":\"r\"}}\n";
    input.send(line.to_vec()).await.unwrap();
    begins.await.unwrap();
    let begun = Instant::now();
    let telling = engine.clone();
    let (spent, longest) = tokio::task::spawn_blocking(move || tell(&telling, count, paced)).await.unwrap();
    let got = reading.await.unwrap();
    let took = begun.elapsed();
    engine.drive(0).complete();
    drop(input);
    assert_eq!(server.await.unwrap().unwrap(), 0);
    let activity = u64::from(count - count.div_ceil(10));
    assert_eq!(got.lifecycle, 2 + u64::from(count.div_ceil(10)), "{got:?}");
    assert_eq!(got.activity + got.merged, activity, "every line was sent or counted: {got:?}");
    let rate = (got.lifecycle + got.activity) as f64 / took.as_secs_f64();
    let told = format!(
        "flow, {}: {count} events told, {} sent in {took:.2?} ({rate:.0} a second), {} lines merged; telling one took {:.2?} on \
         average, {longest:.2?} at most\n",
        if paced { "50,000 a second" } else { "as fast as can be" },
        got.lifecycle + got.activity,
        got.merged,
        spent / count,
    );
    io::Write::write_all(&mut io::stderr(), told.as_bytes()).unwrap();
}

fn count() -> u32 {
    std::env::var("FLOWDRIVE_FLOW_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_at_the_pace_of_the_design_arrives_whole() {
    flow(count(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flow_as_fast_as_can_be_arrives_whole() {
    flow(count(), false).await;
}
