//! `bench wire`: what the protocol costs. From starting the program to the answer of `initialize`, beside starting it for
//! `--version`; a `preview` of a small run, beside `serverInfo`, which does nothing; and the events of an agent that prints
//! as fast as it can, as one reading client gets them.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::event::Event;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

const ROUNDS: usize = 15;
const LINES: u64 = 300_000;

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

async fn events(ws: &TestWorkspace) {
    let command = ["seq", "1", &LINES.to_string()].map(str::to_owned).to_vec();
    let printing = AgentConfig { command: Some(command), ..AgentConfig::default() };
    ws.configure(&config::config([("printing", printing)]));
    let server = Server::start(ws, Framing::Ndjson).await.with_patience(Duration::from_secs(120));
    let began = Instant::now();
    server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "maxAttempts": 1 })).await;
    let took = began.elapsed();
    let (mut sent, mut merged) = (0_u64, 0_u64);
    for event in server.events() {
        sent += 1;
        if let Event::AgentActivity { coalesced, .. } = event.event {
            merged += coalesced;
        }
    }
    server.finish().await;
    let rate = sent as f64 / took.as_secs_f64();
    tell(&format!(
        "events: {sent} in {took:.2?}, {rate:.0} a second, from {LINES} lines of one agent; {merged} more were merged, since the client read more slowly than that"
    ));
}
