//! One drive a run, whoever asks; readers are never held up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::json;

async fn gated(ws: &TestWorkspace) -> (Server, i64, String) {
    ws.configure(&config::config([("gated", config::fixture(ws, &["--gate", &ws.beside("gate")]))]));
    let server = Server::start(ws, Framing::Lsp).await;
    let workflow = workflow(2, [phase("map", [task("map:a"), task("map:b")])]);
    let (request, run) = server.start_drive(&workflow, json!({})).await;
    (server, request, run)
}

#[tokio::test]
async fn a_second_drive_is_refused_while_preview_still_answers() {
    let ws = TestWorkspace::new();
    let (server, request, run) = gated(&ws).await;
    let other = Server::start(&ws, Framing::Ndjson).await;
    let params = server.here(json!({ "runId": run }));
    for (who, asked) in [("the same server", &server), ("another server", &other)] {
        for method in ["drive", "resume"] {
            let error = asked.err(method, params.clone()).await;
            let details = error.assert_kind(ErrorKind::RunLocked);
            assert_eq!(details.pid, Some(server.pid()), "{who}, {method}: {error:?}");
            assert!(error.message.contains(&run), "{who}: {error:?}");
        }
        let preview: DrivePreview = asked.ok("preview", params.clone()).await;
        assert_eq!(preview.planned_workers, 2, "{who}");
        let view: RunView = asked.ok("showRun", params.clone()).await;
        assert!(view.summary.driving, "{who} sees that somebody drives it");
    }
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    let again: DriveResult = other.ok("resume", params).await;
    assert_eq!(again.status, RunStatus::Complete, "the lock went with the drive");
    other.finish().await;
    server.finish().await;
}

#[tokio::test]
async fn a_run_id_that_is_taken_is_not_planned_again() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let workflow = workflow(1, [phase("map", [task("map:a")])]);
    let first = server.drive(&workflow, json!({ "runId": "my-run" })).await;
    assert_eq!(first.run_id.as_str(), "my-run");
    let params = server.here(json!({ "runId": "my-run", "workflow": { "inline": workflow } }));
    let second = server.call("drive", params).await;
    let error = second.unwrap_err();
    assert_eq!(error.code, -32602, "the id is the client's choice, so the fault is none of the server's: {error:?}");
    assert!(error.message.contains("my-run exists already"), "{error:?}");
    assert_eq!(ws.agent_runs()["map:a"], 1, "the first run's work was done again");
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": "my-run" }))).await;
    assert_eq!(view.summary.status, RunStatus::Complete);
    server.finish().await;
}
