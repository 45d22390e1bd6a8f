//! An editor that is opened again shows at once what it showed when it was closed: the findings and open feedback of each
//! folder's newest run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

fn one_task(id: &str) -> Value {
    workflow(1, [phase("map", [task(id)])])
}

/// Drives a run of one task there with a server of its own, whose client shows no diagnostics.
async fn drive(ws: &TestWorkspace, run: &str, task: &str, status: RunStatus) {
    let server = Server::start(ws, Framing::Lsp).await;
    let result = server.drive(&one_task(task), json!({ "runId": run, "maxAttempts": 1 })).await;
    assert_eq!(result.status, status, "{result:#?}");
    server.finish().await;
}

fn folder(ws: &TestWorkspace) -> Value {
    json!({ "uri": format!("file://{}", ws.text()), "name": "folder" })
}

/// A server whose client shows diagnostics, with these folders open.
async fn open(ws: &TestWorkspace, folders: &[&TestWorkspace]) -> Server {
    let server = Server::builder(ws, Framing::Lsp).without_handshake().start().await;
    let folders: Vec<Value> = folders.iter().map(|ws| folder(ws)).collect();
    let capabilities = json!({ "textDocument": { "publishDiagnostics": {} } });
    let opening = json!({ "processId": null, "capabilities": capabilities, "workspaceFolders": folders });
    let _: Value = server.ok("initialize", opening).await;
    server.notify("initialized", json!({})).await;
    server
}

/// The runs whose diagnostics are shown for a file now.
fn shown(messages: &[Value], ws: &TestWorkspace, file: &str) -> Option<Vec<String>> {
    let uri = format!("file://{}/{file}", ws.text());
    let mut told = messages.iter().filter(|message| message["method"] == "textDocument/publishDiagnostics");
    let last = told.rfind(|message| message["params"]["uri"] == uri)?;
    let runs = last["params"]["diagnostics"].as_array().unwrap();
    Some(runs.iter().map(|one| one["data"]["runId"].as_str().unwrap().to_owned()).collect())
}

async fn wait_shown(server: &Server, ws: &TestWorkspace, file: &str, runs: &[&str]) {
    let fits = |messages: &[Value]| shown(messages, ws, file).filter(|shown| shown == runs).map(drop);
    server.wait_for(&format!("{file} to be shown with {runs:?}"), fits).await;
}

#[tokio::test]
async fn findings_and_open_feedback_of_the_newest_run_are_shown_when_a_folder_is_opened() {
    let (first, second) = (TestWorkspace::new(), TestWorkspace::new());
    first.configure(&config::config([("only", config::fixture(&first, &[]))]));
    second.configure(&config::config([("only", config::fixture(&second, &["--kind", "no-evidence"]))]));
    drive(&first, "run-before", "map:a", RunStatus::Complete).await;
    drive(&first, "newer", "map:b", RunStatus::Complete).await;
    let parked = Server::start(&second, Framing::Lsp).await;
    let strict = workflow(1, [phase("map", [task("map:c").needs_evidence()])]);
    parked.drive(&strict, json!({ "runId": "parked", "maxAttempts": 1 })).await;
    parked.finish().await;

    // Nothing is asked of it, nothing is driven.
    let server = open(&first, &[&first]).await;
    wait_shown(&server, &first, "src/lib.rs", &["newer"]).await;

    let report = ".cw/runs/parked/report.md";
    let change = json!({ "event": { "added": [folder(&second)], "removed": [] } });
    server.notify("workspace/didChangeWorkspaceFolders", change).await;
    wait_shown(&server, &second, report, &["parked"]).await;
    let change = json!({ "event": { "added": [], "removed": [folder(&second)] } });
    server.notify("workspace/didChangeWorkspaceFolders", change).await;
    wait_shown(&server, &second, report, &[]).await;

    // It takes part in what follows as a run of this session does.
    let result = server.drive(&one_task("map:d"), json!({ "runId": "newest" })).await;
    assert_eq!(result.status, RunStatus::Complete);
    wait_shown(&server, &first, "src/lib.rs", &["newest"]).await;
    let messages = server.finish().await;
    assert!(!messages.iter().any(|message| message.to_string().contains("run-before")), "an older run was shown too");
}
