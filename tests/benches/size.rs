//! `bench size`: what a run costs as it grows. Figures a user feels (time for each task, answers while nothing runs, memory)
//! and figures a disk feels (bytes, files, flushes).

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use flowdrive_protocol::method::ListRunsResult;
use flowdrive_protocol::run::{DrivePreview, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::json;

use super::{drive, say};

const WIDTH: u32 = 32;
const SIZES: [usize; 4] = [32, 512, 2_000, 10_000];

pub(super) async fn size(sizes: &[usize]) {
    say(
        "| tasks | ms per task | journal bytes per task | files per task | flushes per task | peak memory MiB | preview ms | showRun ms | resume ms |",
    );
    say("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for tasks in if sizes.is_empty() { &SIZES } else { sizes } {
        one(*tasks).await;
    }
    many_runs(1_000).await;
}

async fn one(tasks: usize) {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("instant", config::fixture(&ws, &[]))]));
    let document = workflow(WIDTH, [phase("map", (0..tasks).map(|n| task(&format!("map:{n}"))))]);
    let server = Server::start(&ws, Framing::Ndjson).await.with_patience(Duration::from_secs(1_800));
    let trace = Flushes::watch(server.pid(), &ws.root().join("flushes"));
    let since = Instant::now();
    let result = server.drive(&document, json!({ "concurrency": WIDTH })).await;
    let took = since.elapsed();
    assert_eq!(result.status, RunStatus::Complete, "a benchmark of a run that did not complete says nothing");
    let flushes = trace.map(Flushes::count);
    let memory = peak_memory(server.pid());
    server.finish().await;

    // What a client waits for that comes later: a server that knows nothing of the run yet, then one that does.
    let folder = ws.run_folder(&result.run_id);
    let journal = fs::metadata(folder.join("journal.jsonl")).expect("a run has a journal").len();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = server.here(json!({ "runId": result.run_id, "taskLimit": 100 }));
    let of_run = server.here(json!({ "runId": result.run_id, "taskLimit": 100 }));
    let cold = timed(async { server.ok::<RunView>("showRun", params.clone()).await }).await;
    let shown = median(&server, async |server| drop(server.ok::<RunView>("showRun", params.clone()).await)).await;
    let previewed =
        median(&server, async |server| drop(server.ok::<DrivePreview>("preview", of_run.clone()).await)).await;
    let resumed = drive_again(&server, &result.run_id).await;
    let flushes = flushes.map_or_else(|| "not counted".to_owned(), |count| format!("{:.2}", per(count as f64, tasks)));
    say(&format!(
        "| {tasks} | {:.2} | {:.0} | {:.1} | {flushes} | {memory:.0} | {:.1} | {:.1} (first: {:.1}) | {:.0} |",
        per(took.as_secs_f64() * 1e3, tasks),
        per(journal as f64, tasks),
        per(files(&folder) as f64, tasks),
        ms(previewed),
        ms(shown),
        ms(cold),
        ms(resumed),
    ));
    server.finish().await;
}

/// From the request to the answer, on a run in which nothing is left to do: reading its record, and writing its end.
async fn drive_again(server: &Server, run: &flowdrive_protocol::ids::RunId) -> Duration {
    median(server, async |server| {
        let _: flowdrive_protocol::run::DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    })
    .await
}

async fn many_runs(runs: usize) {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("instant", config::fixture(&ws, &[]))]));
    let document = workflow(1, [phase("map", [task("map:a")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    for _ in 0..runs {
        drive(&server, &document, 1).await;
    }
    server.finish().await;
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = timed(async {
        let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
        assert_eq!(listed.total as usize, runs);
    })
    .await;
    let page =
        median(&server, async |server| drop(server.ok::<ListRunsResult>("listRuns", server.here(json!({}))).await))
            .await;
    let all = median(&server, async |server| {
        drop(server.ok::<ListRunsResult>("listRuns", server.here(json!({ "limit": runs }))).await);
    })
    .await;
    say(&format!(
        "listRuns over {runs} runs: a page of 100 {:.1} ms (first: {:.1} ms), all {:.1} ms",
        ms(page),
        ms(first),
        ms(all)
    ));
    server.finish().await;
}

async fn timed<T>(work: impl Future<Output = T>) -> Duration {
    let since = Instant::now();
    work.await;
    since.elapsed()
}

/// The median of five.
async fn median(server: &Server, ask: impl AsyncFn(&Server)) -> Duration {
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(timed(ask(server)).await);
    }
    times.sort();
    times[2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn per(what: f64, tasks: usize) -> f64 {
    what / tasks as f64
}

/// `VmHWM` of a process, in MiB.
fn peak_memory(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().map_or(f64::NAN, |kib| kib / 1024.0)
}

fn files(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

/// A trace of a process's flushes; only where `FLOWDRIVE_BENCH_STRACE` asks for it, since it slows what it watches.
struct Flushes {
    tracer: std::process::Child,
    file: std::path::PathBuf,
}

impl Flushes {
    fn watch(pid: u32, file: &Path) -> Option<Self> {
        std::env::var_os("FLOWDRIVE_BENCH_STRACE")?;
        let tracer = std::process::Command::new("strace")
            .args(["-f", "-q", "-e", "trace=fsync,fdatasync", "--seccomp-bpf", "-o"])
            .arg(file)
            .args(["-p", &pid.to_string()])
            .spawn()
            .ok()?;
        // Until it is attached it counts nothing.
        std::thread::sleep(Duration::from_millis(500));
        Some(Self { tracer, file: file.to_owned() })
    }

    fn count(mut self) -> usize {
        if let Ok(pid) = i32::try_from(self.tracer.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGINT);
        }
        let _ = self.tracer.wait();
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().filter(|line| line.contains("sync(")).count()
    }
}
