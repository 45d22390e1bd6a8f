//! At the edge of what is allowed: the longest ids, requests that meet, agents that reach into the record.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::io::Write;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::method::{ListFeedbackResult, StopResult};
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, census, config, phase, task, wait, workflow};
use serde_json::{Value, json};

#[tokio::test]
async fn the_longest_ids_there_may_be_are_driven_and_parked_like_any_other() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &[])),
        ("idle", config::fixture(&ws, &["--kind", "no-evidence"])),
    ]));
    ws.write(".cw/workflows/inner.json", &{
        let mut inner = workflow(1, [phase("map", [task("inner:a")])]);
        inner["id"] = json!("inner");
        inner.to_string()
    });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let long = |letter: &str| letter.repeat(180);
    let nested = task(&long("c")).set("subWorkflow", json!({ "id": "inner", "bindResult": "report" }));
    let tasks = [task(&long("a")), task(&long("B")).agent("idle").needs_evidence(), nested];
    let fields = json!({ "runId": "r".repeat(180), "maxAttempts": 1 });
    let result = server.drive(&workflow(3, [phase("map", tasks)]), fields).await;
    assert_eq!(
        (result.status, result.completed_workers, result.parked_workers),
        (RunStatus::Parked, 2, 1),
        "{result:#?}"
    );
    let listed: ListFeedbackResult = server.ok("listFeedback", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!(listed.feedback.len(), 1);
    server.finish().await;
}

#[tokio::test]
async fn records_may_be_closed_by_requests_that_meet() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("idle", config::fixture(&ws, &["--kind", "no-evidence"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let tasks = (0..8).map(|n| task(&format!("map:{n}")).needs_evidence());
    let result = server.drive(&workflow(8, [phase("map", tasks)]), json!({ "maxAttempts": 1 })).await;
    let run = server.here(json!({ "runId": result.run_id }));
    let listed: ListFeedbackResult = server.ok("listFeedback", run.clone()).await;
    assert_eq!(listed.feedback.len(), 8);
    let mut asked = Vec::new();
    for record in &listed.feedback {
        let mut params = run.clone();
        params["feedbackId"] = json!(record.id);
        params["resolution"] = json!("rejected");
        asked.push(server.send("resolveFeedback", params).await);
    }
    for id in asked {
        let closed: FeedbackRecord = server.result(id).await;
        assert_eq!(closed.status, FeedbackStatus::Rejected);
    }
    let verified: Value = server.ok("verifyRun", run).await;
    assert_eq!(verified["ok"], true, "{verified:#}");
    server.finish().await;
}

#[tokio::test]
async fn a_stop_that_ends_agents_is_answered_when_they_are_gone() {
    for same in [true, false] {
        let ws = TestWorkspace::new();
        let stubborn = config::fixture(&ws, &["--gate", &ws.beside("gate"), "--fork", "2", "--ignore-term"]);
        ws.configure(&config::config([("stubborn", stubborn)]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let other = Server::start(&ws, Framing::Ndjson).await;
        let (request, run) =
            server.start_drive(&workflow(2, [phase("map", [task("map:a"), task("map:b")])]), json!({})).await;
        wait::until("the agents to run", || (ws.agent_runs().len() == 2).then_some(())).await;
        let asked = if same { &server } else { &other };
        let stopped: StopResult = asked.ok("stop", server.here(json!({ "runId": run, "mode": "now" }))).await;
        census::assert_none(ws.root(), &[server.pid(), other.pid()], "when the stop was answered");
        assert!(stopped.driving);
        let result: DriveResult = server.result(request).await;
        assert_eq!(result.completed_workers, 0);
        other.finish().await;
        server.finish().await;
    }
}

#[tokio::test]
async fn a_run_whose_journal_somebody_else_touched_is_never_complete() {
    for cut in [false, true] {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let (request, run) = server.start_drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
        wait::until("the agent to run", || (ws.agent_runs().len() == 1).then_some(())).await;
        // The agent's process is written down as well.
        wait::until("its process to be known", || {
            fs::read_to_string(ws.run_folder(&run).join("journal.jsonl"))
                .unwrap()
                .contains("processStarted")
                .then_some(())
        })
        .await;
        let journal = ws.run_folder(&run).join("journal.jsonl");
        let mut file = OpenOptions::new().write(true).append(!cut).open(journal).unwrap();
        if cut {
            file.set_len(500).unwrap();
        } else {
            file.write_all(b"{}\n").unwrap();
        }
        ws.open_gate("gate");
        let error = server.answer(request).await.unwrap_err();
        error.assert_kind(ErrorKind::RunCorrupt);
        server.finish().await;
    }
}

#[tokio::test]
async fn a_journal_that_lost_whole_lines_does_not_verify() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a"), task("map:b")])]), json!({})).await;
    let run = server.here(json!({ "runId": result.run_id }));
    let journal = ws.run_folder(&result.run_id).join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let kept: String = text.split_inclusive('\n').take(8).collect();
    fs::write(&journal, kept).unwrap();
    let verified: Value = server.ok("verifyRun", run).await;
    assert_eq!(verified["ok"], false);
    assert_eq!(verified["problems"][0]["code"], "journal-cut", "{verified:#}");
    server.finish().await;
}
