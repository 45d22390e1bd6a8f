//! Statements 1 to 10: one drive at a time, whoever asks and whatever a crash left behind. Flowdrive's lock is the kernel's, so
//! that what the file says proves nothing; the rules about who is let in are the same.

use std::fs;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, tree, workflow};
use serde_json::json;

use crate::support::{alone, dead_process, drive, hold_lock, journal_file, resume, tasks, written};

/// A run whose first task is accepted and whose second waits.
async fn half_done(ws: &TestWorkspace) -> String {
    let document = workflow(1, [sequential("map", tasks(2))]);
    drive(ws, &document, json!({ "once": true })).await.run_id.to_string()
}

async fn gated(ws: &TestWorkspace) -> (Server, i64, String) {
    ws.configure(&config::config([("gated", config::fixture(ws, &["--gate", &ws.beside("gate")]))]));
    let server = Server::start(ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&alone(task("map:0")), json!({})).await;
    written(ws, &run, "processStarted", 1).await;
    (server, request, run)
}

#[tokio::test]
async fn a01_second_drive_is_refused_with_the_first_ones_pid() {
    let ws = TestWorkspace::new();
    let (first, request, run) = gated(&ws).await;
    let lock = ws.run_folder(&run).join("drive.lock");
    let before = fs::read(&lock).unwrap();
    let second = Server::start(&ws, Framing::Ndjson).await;
    let error = second.err("resume", second.here(json!({ "runId": run }))).await;
    assert_eq!(error.assert_kind(ErrorKind::RunLocked).pid, Some(first.pid()));
    let words = format!("being driven by another process (pid {}", first.pid());
    assert!(error.message.contains(&words), "{error:?}");
    assert_eq!(fs::read(&lock).unwrap(), before, "a refused drive touched the lock of the first");
    ws.open_gate("gate");
    let result: DriveResult = first.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    second.finish().await;
    first.finish().await;
}

#[tokio::test]
async fn a02_lock_of_a_dead_process_is_taken_over_and_given_up_again() {
    let ws = TestWorkspace::new();
    let run = half_done(&ws).await;
    let lock = ws.run_folder(&run).join("drive.lock");
    fs::write(&lock, json!({ "pid": dead_process(), "host": "here" }).to_string()).unwrap();
    assert_eq!(resume(&ws, &run, json!({})).await.status, RunStatus::Complete);
    // The file stays: a lock on a deleted file excludes nobody. It names nobody any more, and anybody gets it.
    assert_eq!(fs::read_to_string(&lock).unwrap(), "");
    drop(hold_lock(&lock, ""));
}

#[tokio::test]
async fn a02_lock_of_a_killed_server_went_with_it() {
    let ws = TestWorkspace::new();
    let (mut first, _, run) = gated(&ws).await;
    first.kill().await;
    ws.open_gate("gate");
    assert_eq!(resume(&ws, &run, json!({})).await.status, RunStatus::Complete);
}

#[tokio::test]
async fn a03_lock_with_a_malformed_text_counts_as_ownerless() {
    let ws = TestWorkspace::new();
    let document = workflow(1, [sequential("map", tasks(4))]);
    let run = drive(&ws, &document, json!({ "once": true })).await.run_id;
    let server = Server::start(&ws, Framing::Ndjson).await;
    for text in [&b"not a lock"[..], b"{\"pid\":\"x\"", b"\xff\xfe\x00"] {
        fs::write(ws.run_folder(&run).join("drive.lock"), text).unwrap();
        let step: DriveResult = server.ok("resume", server.here(json!({ "runId": run, "once": true }))).await;
        assert!(step.completed_workers > 1, "{step:#?}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a04_lock_that_is_held_is_respected_whoever_its_text_names() {
    let ws = TestWorkspace::new();
    let run = half_done(&ws).await;
    let lock = ws.run_folder(&run).join("drive.lock");
    // Process 1 is alive and belongs to somebody else; a dead one does not open the lock either while it is held.
    for pid in [1, dead_process()] {
        let held = hold_lock(&lock, &json!({ "pid": pid, "host": "elsewhere" }).to_string());
        let server = Server::start(&ws, Framing::Ndjson).await;
        let error = server.err("resume", server.here(json!({ "runId": run }))).await;
        assert_eq!(error.assert_kind(ErrorKind::RunLocked).pid, Some(pid), "{error:?}");
        server.finish().await;
        drop(held);
    }
    assert_eq!(ws.agent_runs().len(), 1, "nothing was started");
}

#[tokio::test]
async fn a05_own_pid_left_in_the_lock_does_not_refuse_its_own_process() {
    let ws = TestWorkspace::new();
    let run = half_done(&ws).await;
    let server = Server::start(&ws, Framing::Ndjson).await;
    fs::write(ws.run_folder(&run).join("drive.lock"), json!({ "pid": server.pid() }).to_string()).unwrap();
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
}

#[tokio::test]
async fn a06_unknown_run_is_not_found_and_nothing_is_created() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let before = ws.snapshot();
    for method in ["drive", "resume", "preview", "showRun"] {
        let error = server.err(method, server.here(json!({ "runId": "no-such-run" }))).await;
        error.assert_kind(ErrorKind::RunNotFound);
        assert!(error.message.contains("run not found: no-such-run"), "{error:?}");
    }
    tree::assert_same(&before, &ws.snapshot(), "after drives of a run that does not exist");
    server.finish().await;
}

#[tokio::test]
async fn a07_lock_is_asked_before_the_state_is_read() {
    let ws = TestWorkspace::new();
    let run = half_done(&ws).await;
    let held = hold_lock(&ws.run_folder(&run).join("drive.lock"), "{}");
    fs::write(ws.run_folder(&run).join("state.json"), "not a state").unwrap();
    let journal = fs::read(journal_file(&ws, &run)).unwrap();
    fs::write(journal_file(&ws, &run), [&journal[..40], b"\n"].concat()).unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let error = server.err("resume", server.here(json!({ "runId": run }))).await;
    error.assert_kind(ErrorKind::RunLocked);
    drop(held);
    // And with the lock free, damage is damage.
    server.err("resume", server.here(json!({ "runId": run }))).await.assert_kind(ErrorKind::RunCorrupt);
    server.finish().await;
}

#[tokio::test]
async fn a08_lock_is_given_up_when_the_drive_fails() {
    let ws = TestWorkspace::new();
    let (server, request, run) = gated(&ws).await;
    let sound = fs::read(journal_file(&ws, &run)).unwrap();
    fs::write(journal_file(&ws, &run), [&sound[..], b"{}\n"].concat()).unwrap();
    ws.open_gate("gate");
    server.answer(request).await.unwrap_err().assert_kind(ErrorKind::RunCorrupt);
    fs::write(journal_file(&ws, &run), sound).unwrap();
    // The same server, and another one.
    let again: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(again.status, RunStatus::Complete);
    server.finish().await;
    assert_eq!(resume(&ws, &run, json!({})).await.status, RunStatus::Complete);
}

#[tokio::test]
async fn a09_end_of_a_drive_leaves_the_lock_of_somebody_else_alone() {
    let ws = TestWorkspace::new();
    let (server, request, run) = gated(&ws).await;
    let lock = ws.run_folder(&run).join("drive.lock");
    // Somebody removed the file against all advice, and somebody else locked a new one.
    fs::remove_file(&lock).unwrap();
    let text = json!({ "pid": std::process::id(), "host": "here" }).to_string();
    let held = hold_lock(&lock, &text);
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert_eq!(fs::read_to_string(&lock).unwrap(), text);
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert!(view.summary.driving, "the other lock still holds");
    drop(held);
    server.finish().await;
}

#[tokio::test]
async fn a10_child_run_has_a_lock_of_its_own_and_waits_for_none() {
    let ws = TestWorkspace::new();
    ws.write(".cw/workflows/inner.json", &{
        let mut inner = workflow(1, [phase("map", [task("inner:a")])]);
        inner["id"] = json!("inner");
        inner.to_string()
    });
    let nested = task("map:nested").set("subWorkflow", json!({ "id": "inner" }));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&alone(nested), json!({ "concurrency": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let locks = fs::read_dir(ws.path().join(".cw/runs")).unwrap().map(|run| run.unwrap().path().join("drive.lock"));
    assert_eq!(locks.filter(|lock| lock.is_file()).count(), 2);
    server.finish().await;
}
