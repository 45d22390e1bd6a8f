//! `bench wire`: what the protocol costs. From starting the program to the answer of `initialize`, beside starting it for
//! `--version`; a `preview` of a small run, beside `serverInfo`, which does nothing; and a run that tells events as fast as it
//! can record them, for a client that reads them beside one that wants none. (How many events the way to a client carries
//! is measured in the server's own tests, `flow`, where nothing has to be recorded.)

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use flowdrive_protocol::event::EventKind;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

const ROUNDS: usize = 15;
const TASKS: usize = 2_000;
const PAIRS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(300);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// All three.
pub(crate) async fn wire() {
    let ws = TestWorkspace::new();
    start(&ws).await;
    calls(&ws).await;
    events(&ws).await;
}

async fn start(ws: &TestWorkspace) {
    let (mut version, mut introduced) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let status = ws.flowdrive(&["--version"]).stdout(Stdio::null()).status().expect("the program starts");
        assert!(status.success());
        version.push(began.elapsed());
        let began = Instant::now();
        let server = Server::builder(ws, Framing::Lsp).start().await;
        introduced.push(began.elapsed());
        server.finish().await;
    }
    let (version, introduced) = (median(version), median(introduced));
    let ratio = introduced.as_secs_f64() / version.as_secs_f64();
    tell(&format!(
        "start: `initialize` answered after {introduced:.2?}; `--version` ends after {version:.2?}; ratio {ratio:.2}"
    ));
}

async fn calls(ws: &TestWorkspace) {
    let server = Server::start(ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(2, [phase("map", [task("map:a"), task("map:b")])]), json!({})).await;
    let (mut nothing, mut preview) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS * 20 {
        let began = Instant::now();
        let _: Value = server.ok("serverInfo", json!({})).await;
        nothing.push(began.elapsed());
        let began = Instant::now();
        let _: Value = server.ok("preview", server.here(json!({ "runId": result.run_id }))).await;
        preview.push(began.elapsed());
    }
    server.finish().await;
    let (nothing, preview) = (median(nothing), median(preview));
    tell(&format!("calls: `preview` of a run of 2 tasks {preview:.2?}; `serverInfo` {nothing:.2?}"));
}

/// A run whose results are all known already: no agent is started, so that events follow each other as fast as they can be
/// recorded. Driven in turn for a client that gets them and for one that wants none.
async fn events(ws: &TestWorkspace) {
    ws.configure(&config::config([("instant", config::fixture(ws, &[]))]));
    let document = workflow(32, [phase("map", (0..TASKS).map(|n| task(&format!("map:{n}"))))]);
    let kinds: Vec<String> =
        EventKind::ALL.iter().map(|kind| text(&serde_json::to_value(kind).expect("a kind is JSON"))).collect();
    let quiet = json!({ "notifications": { "optOut": kinds } });
    let told = Server::start(ws, Framing::Lsp).await.with_patience(PATIENCE);
    let untold = Server::builder(ws, Framing::Lsp).options(quiet).start().await.with_patience(PATIENCE);
    told.drive(&document, json!({ "incremental": true, "concurrency": 32 })).await;
    let (mut with, mut without, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let before = told.events().len();
        let took = again(&told, &document).await;
        rates.push((told.events().len() - before) as f64 / took.as_secs_f64());
        with.push(took);
        without.push(again(&untold, &document).await);
    }
    assert_eq!(untold.events().len(), 0, "it wanted none");
    told.finish().await;
    untold.finish().await;
    rates.sort_unstable_by(f64::total_cmp);
    let (with, without) = (median(with), median(without));
    tell(&format!(
        "events: a run of {TASKS} known results takes {with:.2?} when its events are read ({:.0} a second), {without:.2?} when \
         none are wanted; ratio {:.3}",
        rates[PAIRS / 2],
        with.as_secs_f64() / without.as_secs_f64(),
    ));
}

fn text(value: &Value) -> String {
    value.as_str().expect("a kind is a text").to_owned()
}

async fn again(server: &Server, document: &Value) -> Duration {
    let began = Instant::now();
    let result = server.drive(document, json!({ "incremental": true, "concurrency": 32 })).await;
    let took = began.elapsed();
    let used = result.steps.iter().filter(|step| step.handle_kind.as_deref() == Some("result-cache")).count();
    assert_eq!(used, TASKS, "a run that starts agents says nothing of events");
    took
}
