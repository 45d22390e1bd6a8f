//! At the edge of what is allowed: the longest ids, requests that meet, agents that reach into the record.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
#[cfg(unix)]
use std::fs::OpenOptions;
#[cfg(unix)]
use std::io::Write;
#[cfg(unix)]
use std::path::Path;

#[cfg(unix)]
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

#[cfg(unix)]
type Offence = (&'static str, fn(&Path));

/// What an agent, or whoever cleans up too much, can do to the folder of a run that is driven.
#[cfg(unix)]
const OFFENCES: &[Offence] = &[
    ("the journal is written to", |run| {
        let mut file = OpenOptions::new().append(true).open(run.join("journal.jsonl")).unwrap();
        file.write_all(b"{}\n").unwrap();
    }),
    ("the journal is cut", |run| {
        OpenOptions::new().write(true).open(run.join("journal.jsonl")).unwrap().set_len(500).unwrap();
    }),
    ("the journal is cut and grown again", |run| {
        let file = OpenOptions::new().write(true).open(run.join("journal.jsonl")).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(500).unwrap();
        file.set_len(length).unwrap();
    }),
    ("the journal is deleted", |run| fs::remove_file(run.join("journal.jsonl")).unwrap()),
    ("the journal is replaced by its copy", |run| {
        fs::copy(run.join("journal.jsonl"), run.join("copy")).unwrap();
        fs::rename(run.join("copy"), run.join("journal.jsonl")).unwrap();
    }),
    ("the folder is removed", |run| fs::remove_dir_all(run).unwrap()),
    ("the folder is moved away, and a link to another put in its place", |run| {
        fs::rename(run, run.with_extension("away")).unwrap();
        fs::create_dir(run.with_extension("other")).unwrap();
        std::os::unix::fs::symlink(run.with_extension("other"), run).unwrap();
    }),
    ("the folder is moved away, and a link to it put in its place", |run| {
        fs::rename(run, run.with_extension("away")).unwrap();
        std::os::unix::fs::symlink(run.with_extension("away"), run).unwrap();
    }),
    ("another folder is put in its place", |run| {
        fs::rename(run, run.with_extension("away")).unwrap();
        fs::create_dir(run).unwrap();
    }),
];

#[cfg(unix)]
#[tokio::test]
async fn a_run_whose_record_somebody_else_touched_is_never_complete_and_nothing_is_written_elsewhere() {
    for (offence, commit) in OFFENCES {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let (request, run) = server.start_drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
        wait::until("the agent to run", || (ws.agent_runs().len() == 1).then_some(())).await;
        let folder = ws.run_folder(&run);
        // The agent's process is written down as well.
        wait::until("its process to be known", || {
            fs::read_to_string(folder.join("journal.jsonl")).unwrap().contains("processStarted").then_some(())
        })
        .await;
        commit(&folder);
        let list = |folder: &Path| -> Vec<_> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name()).filter(|name| name != "ended.log" && name != "workers").collect()
        };
        let other = [folder.clone(), folder.with_extension("other")];
        let before: Vec<_> = other.iter().map(|folder| list(folder)).collect();
        ws.open_gate("gate");
        let error = server.answer(request).await.expect_err(offence);
        error.assert_kind(ErrorKind::RunCorrupt);
        let after: Vec<_> = other.iter().map(|folder| list(folder)).collect();
        assert_eq!(before, after, "{offence}: something was written where the run is not");
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
