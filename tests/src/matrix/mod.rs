//! The crash matrix: one small run with everything in it, driven again and again. Each time the server dies, or its disk
//! fails, at another of the places where it touches the disk; each time a fresh server has to bring the run to the same
//! end, without paying for anything twice and without leaving a process.

mod compare;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::{ListRunsResult, VerifyRunResult};
use flowdrive_protocol::run::{RunStatus, RunView};
use serde_json::{Value, json};

use crate::server::Server;
use crate::{RpcError, census};
use compare::Outcome;
use scene::{Journal, RUN, Scene};

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL.
    Crash,
    /// SIGKILL after half of the bytes of a write.
    Torn,
    /// The disk is full, once.
    Full,
    /// The disk fails, once.
    Broken,
}

impl Blow {
    fn variable(self, point: u64) -> (&'static str, String) {
        match self {
            Self::Crash => ("FLOWDRIVE_CRASH_AT", point.to_string()),
            Self::Torn => ("FLOWDRIVE_CRASH_AT", format!("{point}:torn")),
            Self::Full => ("FLOWDRIVE_FAIL_AT", format!("{point}:enospc")),
            Self::Broken => ("FLOWDRIVE_FAIL_AT", format!("{point}:eio")),
        }
    }
}

/// What was tried.
#[derive(Debug, Default)]
pub struct Summary {
    /// Places at which the server died, or its disk failed.
    pub points: u64,
    /// The names of those places, and how often each was hit.
    pub names: BTreeMap<String, u64>,
    /// Drives that went on over a failure that does not matter.
    pub shrugged: u64,
}

/// Tries every `stride`-th point from `first` on, until a drive ends without being hit.
///
/// # Panics
/// At the first point after which something is not as it should be.
pub async fn run(program: &Path, blow: Blow, first: u64, stride: u64, say: &mut dyn FnMut(&str)) -> Summary {
    let mut scene = Scene::new(program).await;
    scene.seed().await;
    let expected = scene.undisturbed().await;
    let mut summary = Summary::default();
    let mut point = first;
    loop {
        scene.reset();
        let (name, value) = blow.variable(point);
        let server = scene.server(&[(name, &value)]).await;
        let hit = match blow {
            Blow::Crash | Blow::Torn => crash(&scene, server, point, &expected).await,
            Blow::Full | Blow::Broken => fail(&scene, server, point, &expected, &mut summary).await,
        };
        let Some(name) = hit else { return summary };
        summary.points += 1;
        say(&format!("{blow:?} at point {point} ({name}): recovered"));
        *summary.names.entry(name).or_insert(0) += 1;
        point += stride;
    }
}

/// Drives until the server dies, then to the end with a fresh one. None when it did not die.
async fn crash(scene: &Scene, mut server: Server, point: u64, expected: &Outcome) -> Option<String> {
    if scene.advance(&server).await.is_some() {
        let log = server.log();
        server.finish().await;
        return (!struck(&log).is_empty()).then(|| panic!("the server outlived its crash at point {point}"));
    }
    server.wait_exit().await;
    let name = struck(&server.log());
    assert!(!name.is_empty(), "the server died at no point it names (point {point}):\n{}", server.log());
    recover(scene, &format!("after a crash at point {point} ({name})"), expected).await;
    Some(name)
}

/// Drives with a disk that fails once. None when it did not.
async fn fail(scene: &Scene, server: Server, point: u64, expected: &Outcome, summary: &mut Summary) -> Option<String> {
    let fault = scene.advance(&server).await.unwrap_or_else(|| server.fail("the server died"));
    let log = server.log();
    let name = struck(&log);
    if name.is_empty() {
        server.finish().await;
        return None;
    }
    match fault {
        Ok(()) => summary.shrugged += 1,
        Err(error) => {
            error.assert_kind(ErrorKind::StorageFailed);
        }
    }
    // A client that was told that a run began is told that it ended, however that came.
    for run in scene.run_names() {
        let told = server.lifecycle(&run);
        let began = told.iter().any(|told| matches!(told.event, Event::RunStarted { .. }));
        let ended = told
            .last()
            .is_some_and(|told| matches!(told.event, Event::RunFinished { .. } | Event::FeedbackClosed { .. }));
        if began && !ended {
            server.fail(&format!("after a failed disk at point {point} ({name}), the end of {run} was not told"));
        }
        if !told.windows(2).all(|pair| pair[0].seq < pair[1].seq) {
            server.fail(&format!("after a failed disk at point {point} ({name}), the numbers of {run} do not rise"));
        }
    }
    // The server lives, and has left nobody behind.
    let _: Value = server.ok("listRuns", server.here(json!({}))).await;
    census::assert_none(scene.ws.root(), &[server.pid()], &format!("after a failed disk at point {point} ({name})"));
    server.finish().await;
    recover(scene, &format!("after a failed disk at point {point} ({name})"), expected).await;
    Some(name)
}

/// Brings the run to its end with a fresh server, and checks all that must hold.
async fn recover(scene: &Scene, when: &str, expected: &Outcome) {
    let before = scene.journals();
    let (runs_before, noted) = (scene.runs(), scene.noted());
    let server = scene.server(&[]).await;
    // Nothing is called complete that its journal does not show to be.
    let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
    for run in listed.runs.iter().filter(|run| run.status == RunStatus::Complete) {
        let journal = &before[run.run_id.as_str()];
        let (accepted, committed) = (journal.of("taskAccepted").count(), journal.of("committed").count());
        assert_eq!((accepted, committed), (run.planned_workers as usize, 1), "{when}, {} is complete", run.run_id);
    }
    // A run that was complete is resumed too: its report and its snapshot may be missing.
    if scene.exists() {
        let resumed = server.call("resume", server.here(json!({ "runId": RUN }))).await;
        if let Err(error) = resumed {
            server.fail(&format!("{when}, the run cannot be resumed: {error:#?}"));
        }
    }
    match scene.advance(&server).await {
        Some(Ok(())) => {}
        other => server.fail(&format!("{when}, the run did not come to its end: {other:#?}")),
    }
    census::assert_none(scene.ws.root(), &[server.pid()], &format!("{when}, and a resume"));
    for run in scene.run_names() {
        let verified: VerifyRunResult = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
        assert!(verified.ok, "{when}, {run} does not verify: {:#?}", verified.problems);
    }
    for run in scene.run_names() {
        let params = json!({ "runId": run, "sinceSeq": 0, "taskLimit": 0 });
        let view: RunView = server.ok("showRun", server.here(params)).await;
        let numbers: Vec<u64> = view.events.iter().map(|told| told.seq).collect();
        let all: Vec<u64> = (1..=view.last_seq).collect();
        assert_eq!(numbers, all, "{when}, the events of {run} have no gap");
        let count = |fits: fn(&Event) -> bool| view.events.iter().filter(|told| fits(&told.event)).count();
        let began = count(|event| matches!(event, Event::RunStarted { .. }));
        let ended = count(|event| matches!(event, Event::RunFinished { .. }));
        assert_eq!(began, ended, "{when}, every drive of {run} that began has ended");
    }
    let outcome = Outcome::of(scene);
    outcome.assert_same(expected, when);
    let (runs, after) = (scene.runs(), scene.journals());
    for (run, journal) in &before {
        let all = &after[run];
        for task in journal.accepted() {
            let of_task =
                |kind: &'static str, journal: &Journal| journal.of(kind).filter(|e| e["task"] == task.as_str()).count();
            assert_eq!(of_task("taskAccepted", all), 1, "{when}, {task} was accepted twice");
            let dispatched = (of_task("taskDispatched", journal), of_task("taskDispatched", all));
            assert_eq!(dispatched.0, dispatched.1, "{when}, {task} was accepted before and delegated again");
        }
        // An agent whose end is written down does not run again, nor does that of an accepted task.
        for outcome in journal.of("outcomeRecorded") {
            let worker = outcome["worker"].as_str().unwrap_or_default();
            let started =
                |runs: &BTreeMap<String, BTreeSet<String>>| runs.values().any(|workers| workers.contains(worker));
            assert_eq!(started(&runs_before), started(&runs), "{when}, {worker} had ended and ran again");
        }
        let interrupted: BTreeSet<&str> = all.of("taskInterrupted").filter_map(|e| e["worker"].as_str()).collect();
        for outcome in journal.of("outcomeRecorded").filter(|e| e["outcome"]["ending"]["status"] != "interrupted") {
            let worker = outcome["worker"].as_str().unwrap_or_default();
            assert!(!interrupted.contains(worker), "{when}, the recorded outcome of {worker} was thrown away");
        }
    }
    // Nor does one whose end was noted and had not reached the journal yet.
    for (run, workers) in &noted {
        let all = &after[run];
        for worker in workers {
            let of = |kind: &'static str| all.of(kind).filter(|e| e["worker"] == worker.as_str()).count();
            assert_eq!(of("outcomeRecorded"), 1, "{when}, the end of {worker} was noted and not recorded");
            assert_eq!(of("taskInterrupted"), 0, "{when}, the end of {worker} was noted and thrown away");
        }
    }
    // Whatever ran more often than in an undisturbed drive was under way when the server died.
    let interrupted: usize = after.values().map(|journal| journal.of("taskInterrupted").count()).sum();
    for (task, workers) in &runs {
        let planned = expected.runs.get(task).copied().unwrap_or(0);
        assert!(workers.len() <= planned + interrupted, "{when}, {task} ran {} times", workers.len());
    }
    server.finish().await;
}

/// The name of the point that struck, as the server's log tells.
fn struck(log: &str) -> String {
    let line = log.lines().find(|line| line.contains("fault injection: "));
    let name = line.and_then(|line| line.rsplit_once('(')).map(|(_, rest)| rest.trim_end_matches(')').to_owned());
    name.unwrap_or_default()
}

/// How a request of the scene failed.
type Played = Option<Result<(), RpcError>>;
