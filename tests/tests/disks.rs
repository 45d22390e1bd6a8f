//! Disks that are really full, or really read-only: a small file system of the server's own, mounted where its runs are.
//! Only where the system lets a user mount one; elsewhere these tests say that they were skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::{ListRunsResult, VerifyRunResult};
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, phase, task, workflow};
use serde_json::{Value, json};

/// A server that has a file system of a few hundred kilobytes at `.cw`; none where that is not allowed.
async fn server_with_small_disk(ws: &TestWorkspace) -> Option<Server> {
    let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: no file system can be mounted here");
        return None;
    }
    fs::create_dir_all(ws.path().join(".cw")).unwrap();
    let script = ws.root().join("server-with-small-disk");
    let text = format!(
        "#!/bin/sh\nexec unshare -rm sh -c 'mount -t tmpfs -o size=600k tmpfs \"{}/.cw\" && exec \"$@\"' sh {} \"$@\"\n",
        ws.text(),
        binary::flowdrive().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Some(Server::builder(ws, Framing::Ndjson).program(&script).start().await)
}

/// The state folder as the server sees it.
fn seen_by(server: &Server, ws: &TestWorkspace) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}/.cw", server.pid(), ws.text()))
}

fn remount(server: &Server, ws: &TestWorkspace, how: &str) {
    let pid = server.pid().to_string();
    let place = format!("{}/.cw", ws.text());
    let done = Command::new("nsenter")
        .args(["-t", &pid, "-U", "-m", "--preserve-credentials", "mount", "-o", how, &place])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn three() -> Value {
    workflow(1, [phase("one", [task("one:a")]), phase("two", [task("two:b")]), phase("three", [task("three:c")])])
}

async fn readers_answer(server: &Server, params: &Value) {
    let view: RunView = server.ok("showRun", params.clone()).await;
    assert_eq!(view.summary.completed_workers, 1, "what was accepted is accepted");
    let preview: DrivePreview = server.ok("preview", params.clone()).await;
    assert_eq!(preview.next_task_id.map(|id| id.to_string()).as_deref(), Some("two:b"));
    let verified: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
    assert!(verified.ok, "{verified:#?}");
    let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
    assert_eq!((listed.runs.len(), listed.unreadable.len()), (1, 0));
}

async fn completes(server: Server, ws: &TestWorkspace, params: Value) {
    let result: DriveResult = server.ok("resume", params.clone()).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 3), "{result:#?}");
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    let verified: VerifyRunResult = server.ok("verifyRun", params).await;
    assert!(verified.ok, "{verified:#?}");
    server.finish().await;
}

#[tokio::test]
async fn a_full_disk_stops_a_drive_with_a_clear_error_and_once_there_is_space_nothing_was_lost() {
    let ws = TestWorkspace::new();
    let Some(server) = server_with_small_disk(&ws).await else { return };
    let first = server.drive(&three(), json!({ "once": true })).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let filler = seen_by(&server, &ws).join("filler");
    // As full as it gets: whatever is written next needs a page that is not there.
    let full = fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);

    let error = server.err("resume", params.clone()).await;
    let details = error.assert_kind(ErrorKind::StorageFailed);
    assert!(error.message.contains("space") && details.hint.contains("Free some space"), "{error:?}");
    assert!(details.file.is_some_and(|file| file.contains(".cw/runs/")), "{error:?}");
    readers_answer(&server, &params).await;
    let told = server.lifecycle(first.run_id.as_str());
    assert!(matches!(told.last().unwrap().event, Event::RunFinished { .. }), "{told:#?}");
    // A new run is refused as clearly, and leaves nothing that could be taken for one.
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": three() } }))).await;
    error.assert_kind(ErrorKind::StorageFailed);
    fs::remove_file(&filler).unwrap();
    completes(server, &ws, params).await;
}

#[tokio::test]
async fn on_a_read_only_disk_runs_are_shown_and_driving_says_what_to_do() {
    let ws = TestWorkspace::new();
    let Some(server) = server_with_small_disk(&ws).await else { return };
    let first = server.drive(&three(), json!({ "once": true })).await;
    let params = server.here(json!({ "runId": first.run_id }));
    remount(&server, &ws, "remount,ro");
    for (method, wish) in [
        ("resume", params.clone()),
        ("drive", server.here(json!({ "workflow": { "inline": three() } }))),
        ("pruneRuns", server.here(json!({ "keep": 0, "statuses": ["in-progress"] }))),
    ] {
        match server.call(method, wish).await {
            Err(error) => {
                let details = error.assert_kind(ErrorKind::StorageFailed);
                assert!(details.hint.contains("writable"), "{method}: {error:?}");
                assert!(error.message.contains("Read-only"), "{method}: {error:?}");
            }
            Ok(result) if method == "pruneRuns" => {
                assert_eq!((&result["removed"], &result["skipped"][0]["kind"]), (&json!([]), &json!("storage-failed")));
            }
            Ok(result) => server.fail(&format!("{method} went ahead: {result:#}")),
        }
    }
    readers_answer(&server, &params).await;
    remount(&server, &ws, "remount,rw");
    completes(server, &ws, params).await;
}
