//! What is refused, and what a workspace, a workflow or an agent is not trusted with.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, tree, workflow};
use serde_json::{Value, json};

#[tokio::test]
async fn what_cannot_be_planned_is_refused_with_its_place_and_leaves_no_trace() {
    let ws = TestWorkspace::new();
    let broken = ws.write("broken.toml", "schemaVersion = 1\nid = \"broken\"\ntitle = \"Broken\"\nphases = 7\n");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let before = ws.snapshot();

    let error = server.err("drive", server.here(json!({ "workflow": { "path": "broken.toml" } }))).await;
    let place = error.assert_kind(ErrorKind::WorkflowInvalid);
    assert!(place.file.is_some_and(|file| broken.ends_with(file)) && place.line == Some(4), "{error:?}");

    let twice = workflow(1, [phase("map", [task("map:a"), task("map:a")])]);
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": twice } }))).await;
    assert_eq!(
        error.assert_kind(ErrorKind::WorkflowInvalid).field.as_deref(),
        Some("phases[0].tasks[1].id"),
        "{error:?}"
    );

    let error = server.err("drive", server.here(json!({ "workflow": { "id": "no-such-workflow" } }))).await;
    assert!(error.message.contains("no-such-workflow"), "{error:?}");
    error.assert_kind(ErrorKind::WorkflowInvalid);

    let missing = json!({ "workflow": { "id": "quick-survey" } });
    let error = server.err("drive", server.here(missing)).await;
    assert!(error.message.contains("question"), "the missing input is named: {error:?}");

    let elsewhere = json!({ "workspace": ws.beside("nowhere"), "workflow": { "id": "quick-survey" }, "inputs": { "question": "x" } });
    server.err("drive", elsewhere).await.assert_kind(ErrorKind::WorkspaceInvalid);

    let unknown = json!({ "workflow": { "inline": workflow(1, [phase("map", [task("map:a")])]) }, "agent": "nobody" });
    let error = server.err("drive", server.here(unknown)).await;
    error.assert_kind(ErrorKind::AgentNotConfigured);
    assert!(error.message.contains("nobody"), "{error:?}");

    tree::assert_same(&before, &ws.snapshot(), "after workflows that could not be planned");
    assert!(ws.agent_runs().is_empty());
    server.finish().await;
}

#[tokio::test]
async fn a_run_that_is_not_there_is_refused_and_leaves_no_trace() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Lsp).await;
    let before = ws.snapshot();
    let feedback = json!({ "runId": "missing-run", "feedbackId": "f-1", "resolution": "rejected" });
    for (method, params) in [
        ("resume", json!({ "runId": "missing-run" })),
        ("drive", json!({ "runId": "missing-run" })),
        ("preview", json!({ "runId": "missing-run" })),
        ("showRun", json!({ "runId": "missing-run" })),
        ("listFeedback", json!({ "runId": "missing-run" })),
        ("verifyRun", json!({ "runId": "missing-run" })),
        ("stop", json!({ "runId": "missing-run" })),
        ("resolveFeedback", feedback),
    ] {
        let error = server.err(method, server.here(params)).await;
        error.assert_kind(ErrorKind::RunNotFound);
        assert!(error.message.contains("missing-run"), "{method}: {error:?}");
    }
    tree::assert_same(&before, &ws.snapshot(), "after asking for a run that is not there");
    server.finish().await;
}

#[tokio::test]
async fn a_workspace_cannot_say_what_an_agent_is() {
    let ws = TestWorkspace::new();
    let ran = ws.beside("ran");
    ws.write(".cw/config.toml", &format!("defaultAgent = \"evil\"\n[agents.evil]\ncommand = [\"touch\", \"{ran}\"]\n"));
    ws.write("flowdrive/config.toml", &format!("[agents.good]\ncommand = [\"touch\", \"{ran}\"]\n"));
    let mut document = workflow(1, [phase("map", [task("map:a")])]);
    document["agents"] = json!({ "evil": { "command": ["touch", ran] } });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": document } }))).await;
    error.assert_kind(ErrorKind::WorkflowInvalid);
    let evil = workflow(1, [phase("map", [task("map:a").agent("evil")])]);
    let result = server.drive(&evil, json!({})).await;
    assert_eq!((result.status, result.completed_workers, result.agent_configured), (RunStatus::Blocked, 0, false));
    assert!(result.reason.is_some_and(|reason| reason.contains("evil")), "the agent that is missing is named");
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert!(!Path::new(&ran).exists(), "a command from the workspace was run");
    server.finish().await;
}

#[tokio::test]
async fn a_secret_of_the_server_reaches_neither_the_record_nor_an_agent_that_was_not_given_it() {
    let ws = TestWorkspace::new();
    let seen = ws.beside("environment");
    let secret = "sk-made-up-for-tests-0123456789abcdefghij";
    let agent = config::fixture(&ws, &["--write-env", &seen, "--cite", CITE, "--print", secret]);
    ws.configure(&config::config([("curious", agent)]));
    let server = Server::builder(&ws, Framing::Ndjson)
        .env("MADE_UP_CANARY", "made-up-canary-value")
        .env("CW_WORKBENCH_TOKEN", "made-up-never-forwarded")
        .env("ANTHROPIC_API_KEY", "made-up-provider-key")
        .env("RUST_LOG", "trace")
        .start()
        .await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let environment = fs::read_to_string(&seen).unwrap();
    assert!(!environment.contains("made-up-canary-value") && !environment.contains("made-up-never-forwarded"));
    assert!(environment.contains("ANTHROPIC_API_KEY=made-up-provider-key"), "provider variables are passed on");
    let log = server.log();
    let said = server.finish().await.iter().map(Value::to_string).collect::<String>();
    for (what, text) in [("the log", log), ("the conversation", said)] {
        assert!(!text.contains(secret), "{what} holds a secret an agent printed");
        assert!(!text.contains("made-up-provider-key"), "{what} holds a provider key");
    }
    for (path, entry) in ws.snapshot() {
        if matches!(entry, tree::Entry::File(..)) {
            let text = fs::read(ws.path().join(&path)).unwrap();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains("made-up-provider-key"), "{} holds a provider key", path.display());
        }
    }
}
