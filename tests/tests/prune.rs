//! Removing runs: what may go goes, what may not stays, and a removal that is cut short leaves whole runs or none.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::method::{ListRunsResult, VerifyRunResult};
use flowdrive_protocol::prune::PruneRunsResult;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, config, phase, task, workflow};
use serde_json::{Value, json};

fn one(task_id: &str) -> Value {
    workflow(1, [phase("map", [task(task_id)])])
}

async fn listed(server: &Server) -> BTreeSet<String> {
    let found: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
    assert!(found.unreadable.is_empty(), "{found:#?}");
    found.runs.into_iter().map(|run| run.run_id.to_string()).collect()
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn removed(result: &PruneRunsResult) -> Vec<&str> {
    result.removed.iter().map(|run| run.run_id.as_str()).collect()
}

/// Three complete runs, the second with a run of its own inside, one that parked, one that is not at its end.
async fn five(ws: &TestWorkspace, server: &Server) {
    ws.write(".cw/workflows/inner.json", &{
        let mut inner = one("inner:a");
        inner["id"] = json!("inner");
        inner.to_string()
    });
    let nested = task("sub:a").set("subWorkflow", json!({ "id": "inner", "bindResult": "report" }));
    for (run, document) in [("c1", one("map:a")), ("c2", workflow(1, [phase("map", [nested])])), ("c3", one("map:a"))] {
        let result = server.drive(&document, json!({ "runId": run })).await;
        assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    }
    let parks = workflow(1, [phase("map", [task("map:p").agent("idle").needs_evidence()])]);
    server.drive(&parks, json!({ "runId": "p1", "maxAttempts": 1 })).await;
    let two = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])]);
    server.drive(&two, json!({ "runId": "i1", "once": true })).await;
}

fn workspace() -> TestWorkspace {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &[])),
        ("idle", config::fixture(&ws, &["--kind", "no-evidence"])),
        ("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")])),
    ]));
    ws
}

#[tokio::test]
async fn the_oldest_complete_runs_go_with_their_children_and_all_others_stay() {
    let ws = workspace();
    let server = Server::start(&ws, Framing::Lsp).await;
    five(&ws, &server).await;
    let all = listed(&server).await;
    let (children, parents): (BTreeSet<_>, BTreeSet<_>) =
        all.iter().cloned().partition(|run| run.starts_with("sub-c2"));
    assert_eq!((children.len(), parents), (1, names(["c1", "c2", "c3", "i1", "p1"])));
    let prune = async |wish: Value| -> PruneRunsResult { server.ok("pruneRuns", server.here(wish)).await };

    let dry = prune(json!({ "keep": 1, "dryRun": true })).await;
    assert_eq!((dry.dry_run, removed(&dry)), (true, vec!["c1", "c2"]), "{dry:#?}");
    assert_eq!(dry.removed[1].children.len(), 1, "{dry:#?}");
    assert!(dry.removed.iter().all(|run| run.bytes > 1000) && dry.bytes > 2000 && dry.kept == 3, "{dry:#?}");
    assert_eq!(listed(&server).await, all, "a dry run removes nothing");
    assert!(!ws.path().join(".cw/trash").exists(), "and makes nothing");

    assert!(removed(&prune(json!({ "olderThanMs": 3_600_000, "keep": 0 })).await).is_empty(), "all are young");
    assert!(removed(&prune(json!({ "keep": 9 })).await).is_empty());
    let done = prune(json!({ "keep": 1 })).await;
    assert_eq!((removed(&done), done.bytes, done.kept), (vec!["c1", "c2"], dry.bytes, 3), "{done:#?}");
    assert_eq!(listed(&server).await, names(["c3", "i1", "p1"]));
    assert!(!ws.path().join(".cw/trash").exists(), "nothing is left of them");
    server.err("showRun", server.here(json!({ "runId": "c1" }))).await.assert_kind(ErrorKind::RunNotFound);

    // Others only when asked for by how they stand.
    let parked = prune(json!({ "olderThanMs": 0, "statuses": ["parked"] })).await;
    assert_eq!(removed(&parked), ["p1"]);
    // The id is free again.
    let again = server.drive(&one("map:a"), json!({ "runId": "c1" })).await;
    assert_eq!(again.status, RunStatus::Complete);
    // What is left can be gone on with.
    let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": "i1" }))).await;
    assert_eq!(resumed.status, RunStatus::Complete);
    server.finish().await;
}

#[tokio::test]
async fn a_run_that_is_being_driven_is_never_touched_and_a_parent_that_goes_on_keeps_its_children() {
    let ws = workspace();
    let (server, other) = (Server::start(&ws, Framing::Lsp).await, Server::start(&ws, Framing::Ndjson).await);
    let document = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b").agent("gated")])]);
    let (request, run) = server.start_drive(&document, json!({ "runId": "busy" })).await;
    for asked in [&server, &other] {
        let wish = asked.here(json!({ "keep": 0, "statuses": ["complete", "parked", "blocked", "in-progress"] }));
        for dry in [true, false] {
            let mut wish = wish.clone();
            wish["dryRun"] = json!(dry);
            let result: PruneRunsResult = asked.ok("pruneRuns", wish).await;
            assert!(result.removed.is_empty(), "{result:#?}");
            assert_eq!(result.skipped.len(), 1, "{result:#?}");
            assert_eq!((result.skipped[0].name.as_str(), result.skipped[0].kind), ("busy", ErrorKind::RunLocked));
        }
    }
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, result.run_id.as_str()), (RunStatus::Complete, run.as_str()));

    // A complete child of a run that is not complete is not a run by itself.
    ws.write(".cw/workflows/inner.json", &{
        let mut inner = one("inner:a");
        inner["id"] = json!("inner");
        inner.to_string()
    });
    let nested = task("sub:a").set("subWorkflow", json!({ "id": "inner", "bindResult": "report" }));
    let parent = workflow(1, [phase("sub", [nested]), phase("then", [task("then:b")])]);
    server.drive(&parent, json!({ "runId": "parent", "once": true })).await;
    let result: PruneRunsResult = server.ok("pruneRuns", server.here(json!({ "keep": 0 }))).await;
    assert_eq!(removed(&result), ["busy"], "{result:#?}");
    let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": "parent" }))).await;
    assert_eq!(resumed.status, RunStatus::Complete);
    assert_eq!(ws.agent_runs()["inner:a"], 1, "the child was paid for twice");
    other.finish().await;
    server.finish().await;
}

#[tokio::test]
async fn kept_results_go_by_their_last_use_and_only_when_asked_for() {
    let ws = workspace();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let kept = task("map:kept").set("resultCache", json!({ "keyInput": "question" }));
    let document = workflow(1, [phase("map", [kept])]);
    server.drive(&document, json!({ "runId": "first" })).await;
    let cache = ws.path().join(".cw/cache/worker-results");
    let files = || -> Vec<_> {
        let folders = fs::read_dir(&cache).unwrap().flatten();
        folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten()).map(|entry| entry.path()).collect()
    };
    assert_eq!(files().len(), 2);
    let result: PruneRunsResult = server.ok("pruneRuns", server.here(json!({ "keep": 0 }))).await;
    assert_eq!((removed(&result), result.cached_results), (vec!["first"], 0), "runs alone were asked for");
    let old = SystemTime::now() - Duration::from_secs(3600);
    for file in files() {
        fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    // A use makes it young.
    server.drive(&document, json!({ "runId": "second" })).await;
    assert_eq!(ws.agent_runs()["map:kept"], 1);
    let result: PruneRunsResult = server.ok("pruneRuns", server.here(json!({ "cacheOlderThanMs": 60_000 }))).await;
    assert_eq!((result.cached_results, result.removed.len(), files().len()), (0, 0, 2), "{result:#?}");
    let result: PruneRunsResult = server.ok("pruneRuns", server.here(json!({ "cacheOlderThanMs": 0 }))).await;
    assert_eq!((result.cached_results, result.removed.len()), (1, 0), "{result:#?}");
    assert!(result.bytes > 0 && fs::read_dir(&cache).unwrap().count() == 0);
    server.finish().await;
}

#[tokio::test]
async fn a_wish_that_lets_nothing_go_is_refused_and_the_command_line_asks_the_same() {
    let ws = workspace();
    let server = Server::start(&ws, Framing::Ndjson).await;
    for wish in [
        json!({}),
        json!({ "dryRun": true }),
        json!({ "statuses": ["complete"] }),
        json!({ "cacheOlderThanMs": 1, "statuses": ["complete"] }),
        json!({ "keep": -1 }),
        json!({ "keep": 1, "statuses": ["done"] }),
    ] {
        assert_eq!(server.err("pruneRuns", server.here(wish.clone())).await.code, -32602, "{wish}");
    }
    server.drive(&one("map:a"), json!({ "runId": "only" })).await;
    server.finish().await;
    let flowdrive = |arguments: &[&str]| {
        let output = Command::new(binary::flowdrive())
            .args(["runs", "prune", "--workspace"])
            .arg(ws.path())
            .arg("--config")
            .arg(ws.config_file())
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text, String::from_utf8(output.stderr).unwrap())
    };
    let (code, _, complaint) = flowdrive(&[]);
    assert_eq!(code, Some(2), "{complaint}");
    let (code, text, _) = flowdrive(&["--older-than", "0s", "--dry-run"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("only") && text.contains("would be removed; 0 runs kept"), "{text}");
    let (code, text, _) = flowdrive(&["--keep", "0", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let result: PruneRunsResult = serde_json::from_str(&text).unwrap();
    assert_eq!(removed(&result), ["only"]);
}

#[tokio::test]
async fn a_removal_that_is_cut_short_leaves_whole_runs_or_none_and_the_next_one_clears_up() {
    let ws = workspace();
    let mut points = 0;
    for point in 1.. {
        let _ = fs::remove_dir_all(ws.path().join(".cw"));
        let server = Server::start(&ws, Framing::Ndjson).await;
        for run in ["a", "b", "c"] {
            server.drive(&one("map:a"), json!({ "runId": run })).await;
        }
        server.finish().await;
        // An agent may leave folders that it made read-only.
        let mut stubborn = fs::metadata(ws.run_folder("a").join("workers")).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut stubborn, 0o555);
        fs::set_permissions(ws.run_folder("a").join("workers"), stubborn).unwrap();

        let builder = Server::builder(&ws, Framing::Ndjson).program(binary::fault_injected());
        let mut server = builder.env("FLOWDRIVE_CRASH_AT", &point.to_string()).start().await;
        if server.call_or_death("pruneRuns", server.here(json!({ "keep": 1 }))).await.is_some() {
            server.finish().await;
            assert_eq!(fs::read_dir(ws.path().join(".cw/runs")).unwrap().count(), 1);
            break;
        }
        server.wait_exit().await;
        points += 1;
        let server = Server::start(&ws, Framing::Ndjson).await;
        let left = listed(&server).await;
        assert!(left.contains("c"), "killed at point {point}: {left:?}");
        for run in &left {
            let verified: VerifyRunResult = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
            assert!(verified.ok, "killed at point {point}: {verified:#?}");
        }
        let again: PruneRunsResult = server.ok("pruneRuns", server.here(json!({ "keep": 1 }))).await;
        assert!(again.skipped.is_empty(), "killed at point {point}: {again:#?}");
        assert_eq!(again.removed.len() + 1, left.len(), "killed at point {point}");
        assert_eq!(listed(&server).await, names(["c"]), "killed at point {point}");
        assert!(!ws.path().join(".cw/trash").exists(), "killed at point {point}: the rubbish is still there");
        server.finish().await;
    }
    assert!(points >= 4, "a removal touches the disk more often than {points} times");
    println!("{points} points of a removal");
}
