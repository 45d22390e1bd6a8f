//! Benchmarks against the real binary, as ratios to something run beside it on the same machine.
//! `bench window`: a mixed window of slow agents against the ideal schedule. `bench overhead`: 512 instant tasks at
//! width 32 against `xargs -P 32` starting the same program. `bench size [TASKS...]`: see the module of that name.
//! `bench leaks [COUNT]`: so many timeouts (1,000) of agents with grandchildren, and the processes they left.
//! `bench wire`: see the module of that name.
//! `bench memory`: the server's peak while 16 agents print 50 MiB each.

mod size;
mod wire;

use std::io::Write as _;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::endings;
use flowdrive_tests::endpoint::EndpointServer;
use flowdrive_tests::ledger::{self, peak};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, config, phase, task, workflow};
use serde_json::json;

const ROUNDS: usize = 5;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let all = wanted.is_empty();
    let mut known = false;
    if all || wanted.iter().any(|name| name == "window") {
        runtime.block_on(mixed_window());
        runtime.block_on(uneven_window());
        known = true;
    }
    if all || wanted.iter().any(|name| name == "overhead") {
        runtime.block_on(overhead());
        known = true;
    }
    if let Some(at) = wanted.iter().position(|name| name == "size") {
        let sizes: Vec<usize> = wanted[at + 1..].iter().map_while(|word| word.parse().ok()).collect();
        runtime.block_on(size::size(&sizes));
        known = true;
    }
    if let Some(at) = wanted.iter().position(|name| name == "leaks") {
        let count = wanted.get(at + 1).and_then(|count| count.parse().ok()).unwrap_or(1_000);
        if !runtime.block_on(leaks(count)) {
            return ExitCode::FAILURE;
        }
        known = true;
    }
    if wanted.iter().any(|name| name == "wire") {
        runtime.block_on(wire::wire());
        known = true;
    }
    if wanted.iter().any(|name| name == "memory") {
        if !runtime.block_on(memory()) {
            return ExitCode::FAILURE;
        }
        known = true;
    }
    if !known {
        say("usage: bench [window] [overhead] [size [TASKS...]] [leaks [COUNT]] [wire] [memory]");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("the figures can be printed");
}

/// Four command and four endpoint agents of two seconds each, at width 8.
async fn mixed_window() {
    let ws = TestWorkspace::new();
    let endpoint = EndpointServer::good(CITE, Duration::from_secs(2)).await;
    ws.configure(&config::config([
        ("program", config::fixture(&ws, &["--sleep-ms", "2000"])),
        ("remote", config::endpoint(endpoint.url())),
    ]));
    let tasks = (0..8).map(|n| task(&format!("map:{n}")).agent(if n % 2 == 0 { "program" } else { "remote" }));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let took = drive(&server, &workflow(8, [phase("map", tasks)]), 8).await;
    let mut spans = ledger::spans(&ws.ledger());
    spans.extend(endpoint.exchanges().iter().map(|exchange| exchange.span));
    say(&format!(
        "window/mixed: 4 command + 4 endpoint agents of 2 s at width 8: {:.2} s, {:.2} x ideal, {} at once",
        took.as_secs_f64(),
        took.as_secs_f64() / 2.0,
        peak(&spans),
    ));
    server.finish().await;
}

/// Forty agents of 50 to 500 ms at width 8, against a greedy schedule of the same lengths.
async fn uneven_window() {
    let ws = TestWorkspace::new();
    let lengths: Vec<u64> = (0..40).map(|n| 50 + (n * 173) % 451).collect();
    let names: Vec<&'static str> = lengths.iter().map(|length| &*format!("sleep-{length}").leak()).collect();
    let agents: Vec<_> = lengths
        .iter()
        .zip(&names)
        .map(|(length, name)| (*name, config::fixture(&ws, &["--sleep-ms", &length.to_string()])))
        .collect();
    ws.configure(&config::config(agents));
    let tasks = names.iter().enumerate().map(|(n, name)| task(&format!("map:{n}")).agent(name));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let took = drive(&server, &workflow(8, [phase("map", tasks)]), 8).await;
    let mut slots = [0_u64; 8];
    for length in &lengths {
        *slots.iter_mut().min().expect("there are slots") += length;
    }
    let ideal = Duration::from_millis(*slots.iter().max().expect("there are slots"));
    say(&format!(
        "window/uneven: 40 agents of 50-500 ms at width 8: {:.2} s, ideal {:.2} s, {:.1} % of ideal",
        took.as_secs_f64(),
        ideal.as_secs_f64(),
        100.0 * ideal.as_secs_f64() / took.as_secs_f64(),
    ));
    server.finish().await;
}

/// 512 agents that end at once. Pairs are run in turn, so that a slow moment of the machine hits both.
async fn overhead() {
    const TASKS: usize = 512;
    const WIDTH: u32 = 32;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("instant", config::fixture(&ws, &[]))]));
    let document = workflow(WIDTH, [phase("map", (0..TASKS).map(|n| task(&format!("map:{n}"))))]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (mut ratios, mut cpus) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let before = reaped_by(std::process::id());
        let bare = xargs(&ws, TASKS, WIDTH);
        let bare_cpu = reaped_by(std::process::id()) - before;
        let before = used_by(server.pid());
        let driven = drive(&server, &document, WIDTH).await;
        let driven_cpu = used_by(server.pid()) - before;
        let (ratio, cpu) = (driven.as_secs_f64() / bare.as_secs_f64(), driven_cpu / bare_cpu);
        say(&format!(
            "overhead round {round}: xargs {:.3} s, flowdrive {:.3} s, ratio {ratio:.3}; \
             processor time {bare_cpu:.2} s, {driven_cpu:.2} s, ratio {cpu:.3}",
            bare.as_secs_f64(),
            driven.as_secs_f64(),
        ));
        ratios.push(ratio);
        cpus.push(cpu);
    }
    ratios.sort_by(f64::total_cmp);
    cpus.sort_by(f64::total_cmp);
    say(&format!(
        "overhead: {TASKS} instant tasks at width {WIDTH}: median {:.3} x xargs -P {WIDTH}, {:.3} x its processor time",
        ratios[ROUNDS / 2],
        cpus[ROUNDS / 2]
    ));
    server.finish().await;
}

/// Timeouts of agents with grandchildren. True when nothing was left.
async fn leaks(count: usize) -> bool {
    let since = Instant::now();
    let endings = endings::time_out(count, 16).await;
    say(&format!(
        "leaks: {} delegations ended at their time limit of 0.5 s, {} processes started by them, {} left, {:.1} s",
        endings.timed_out,
        endings.started,
        endings.left,
        since.elapsed().as_secs_f64(),
    ));
    endings.left == 0 && endings.timed_out == count
}

/// 16 agents of 50 MiB each: once within the cap of standard output, once over it. True when the peaks are within bounds.
async fn memory() -> bool {
    let mut within = true;
    for (stdout, stderr) in [(30, 20), (50, 0)] {
        let memory = endings::print(16, stdout, stderr).await;
        let mib = memory.peak_kib as f64 / 1024.0;
        say(&format!(
            "memory: {} agents at once print {stdout} MiB to stdout and {stderr} MiB to stderr each: server peak {mib:.1} MiB",
            memory.together,
        ));
        within &= memory.peak_kib < 100 * 1024;
    }
    within
}

/// Seconds of processor time of a process and of the children it has reaped. Unlike the time on a clock, it hardly depends
/// on what else the machine does.
fn used_by(pid: u32) -> f64 {
    let times = processor_times(pid);
    times.iter().sum()
}

/// The same, of the children alone.
fn reaped_by(pid: u32) -> f64 {
    let times = processor_times(pid);
    times[2] + times[3]
}

/// User, system, and both of reaped children, in seconds.
fn processor_times(pid: u32) -> [f64; 4] {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in brackets");
    let mut fields = rest.split(' ').skip(11).map(|field| field.parse::<f64>().expect("a number of ticks") / 100.0);
    std::array::from_fn(|_| fields.next().expect("four times"))
}

async fn drive(server: &Server, document: &serde_json::Value, width: u32) -> Duration {
    let since = Instant::now();
    let result = server.drive(document, json!({ "concurrency": width })).await;
    let took = since.elapsed();
    assert_eq!(result.status, RunStatus::Complete, "a benchmark of a run that did not complete says nothing");
    took
}

/// The same program, doing the same work for the same number of inputs, with nothing around it.
fn xargs(ws: &TestWorkspace, tasks: usize, width: u32) -> Duration {
    let folder = tempfile::tempdir_in(ws.root()).expect("a temporary folder");
    let input = folder.path().join("input.md");
    std::fs::write(&input, "task-marker=bare\n").expect("the input can be written");
    let mut command = ws.command("xargs");
    command.arg("-P").arg(width.to_string()).args(["-I", "{}"]).arg(binary::fixture_agent());
    command.arg("--input").arg(&input).arg("--result").arg(folder.path().join("result-{}.md"));
    command.arg("--worker").arg(folder.path().join("{}")).arg("--ledger").arg(folder.path().join("ledger"));
    let since = Instant::now();
    let mut child = command.stdin(Stdio::piped()).spawn().expect("xargs runs");
    let numbers: String = (0..tasks).map(|n| format!("{n}\n")).collect();
    child.stdin.take().expect("stdin is piped").write_all(numbers.as_bytes()).expect("xargs reads");
    assert!(child.wait().expect("xargs ends").success(), "xargs failed");
    let took = since.elapsed();
    assert_eq!(ledger::spans(&folder.path().join("ledger")).len(), tasks, "every bare agent ran");
    took
}
