//! Statements 63 to 71 and 140: how a drive ends, and what the commit at the end of a run stands on.

use std::fs;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::feedback::{FeedbackClass, FeedbackRecord, FeedbackSeverity, FeedbackStatus};
use flowdrive_protocol::run::{DrivePreview, DriveResult, NextAction, RunStatus, StepAction, StopMode};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, wait, workflow};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{alone, drive, journal, of_type, records, resume, shell, tasks, written};

async fn under_way(ws: &TestWorkspace, count: usize) -> (Server, i64, String) {
    let gated = config::fixture(ws, &["--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("gated", gated), ("failing", shell("exit 7"))]));
    let server = Server::start(ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(2, [phase("map", tasks(count))]), json!({})).await;
    wait::until("two agents to run", || (ws.agent_runs().len() == 2.min(count)).then_some(())).await;
    (server, request, run)
}

#[tokio::test]
async fn b63_first_signal_settles_what_runs_and_the_second_ends_at_once() {
    for (signal, name, code) in [(Signal::SIGINT, "SIGINT", 130), (Signal::SIGTERM, "SIGTERM", 143)] {
        let ws = TestWorkspace::new();
        let (mut server, request, _) = under_way(&ws, 4).await;
        server.signal(signal);
        server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
        ws.open_gate("gate");
        let result: DriveResult = server.result(request).await;
        assert_eq!((result.status, result.completed_workers), (RunStatus::Blocked, 2), "{result:#?}");
        assert!(result.reason.as_deref().unwrap().contains(name), "{result:#?}");
        server.wait_exit().await;
        assert_eq!(ws.agent_runs().len(), 2, "nothing new was started");

        let ws = TestWorkspace::new();
        let (mut server, _, _) = under_way(&ws, 4).await;
        server.signal(signal);
        server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
        server.signal(signal);
        assert_eq!(server.wait_exit().await.code(), Some(code));
    }
}

#[tokio::test]
async fn b64_signal_amid_the_last_task_does_not_keep_the_run_from_being_complete() {
    let ws = TestWorkspace::new();
    let (mut server, request, run) = under_way(&ws, 1).await;
    server.signal(Signal::SIGTERM);
    server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, result.stopped), (RunStatus::Complete, None), "{result:#?}");
    assert!(result.commit_id.is_some());
    server.wait_exit().await;
    assert_eq!(of_type(&journal(&ws, &run), "committed").len(), 1);
}

#[tokio::test]
async fn b65_stop_is_reported_as_a_stop_with_what_parked_beside_it() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("gated", gated), ("failing", shell("exit 7"))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let all = [task("map:0").agent("failing"), task("map:1"), task("map:2")];
    let (request, run) = server.start_drive(&workflow(2, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    server.wait_event("the failing one to park", |e| matches!(e.event, Event::TaskParked { .. })).await;
    let _: serde_json::Value = server.ok("stop", server.here(json!({ "runId": run }))).await;
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, result.stopped), (RunStatus::Blocked, Some(StopMode::Graceful)), "{result:#?}");
    assert_eq!(result.parked_workers, 1);
    let reason = result.reason.unwrap();
    assert!(reason.contains("interrupted") && reason.contains("1 task is parked"), "{reason}");
    server.finish().await;
}

#[tokio::test]
async fn b67_state_is_kept_by_the_drive_and_nobody_elses_file_gets_into_it() {
    let ws = TestWorkspace::new();
    let run = drive(&ws, &workflow(1, [sequential("map", tasks(4))]), json!({ "once": true })).await.run_id;
    ws.configure(&config::config([("good", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let request = server.send("resume", server.here(json!({ "runId": run }))).await;
    written(&ws, run.as_str(), "taskDispatched", 2).await;
    // It was read once, at the start: what stands there meanwhile is never read, and replaced at the end.
    fs::write(ws.run_folder(&run).join("state.json"), "nonsense").unwrap();
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 4), "{result:#?}");
    assert_eq!(ws.state(&run)["state"]["state"]["tasks"].as_array().unwrap().len(), 4);
    server.finish().await;
}

#[tokio::test]
async fn b68_what_another_process_wrote_between_two_drives_is_seen() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([(
        "idle",
        config::fixture(&ws, &["--kind", "no-evidence", "--good-when", "Look again"]),
    )]));
    let first = Server::start(&ws, Framing::Ndjson).await;
    let result = first.drive(&alone(task("map:0").needs_evidence()), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Parked);
    let second = Server::start(&ws, Framing::Ndjson).await;
    let record = records(&second, &result.run_id).await.remove(0);
    let fields =
        json!({ "runId": result.run_id, "feedbackId": record.id, "resolution": "retry", "guidance": "Look again" });
    let _: FeedbackRecord = second.ok("resolveFeedback", second.here(fields)).await;
    second.finish().await;
    let done: DriveResult = first.ok("resume", first.here(json!({ "runId": result.run_id }))).await;
    assert_eq!((done.status, done.parked_workers), (RunStatus::Complete, 0), "{done:#?}");
    first.finish().await;
}

#[tokio::test]
async fn b68_fault_of_one_drive_leaves_nothing_of_it_in_the_next() {
    let ws = TestWorkspace::new();
    let (server, request, run) = under_way(&ws, 1).await;
    written(&ws, &run, "processStarted", 1).await;
    let file = crate::support::journal_file(&ws, &run);
    let sound = fs::read(&file).unwrap();
    fs::write(&file, [&sound[..], b"{}\n"].concat()).unwrap();
    ws.open_gate("gate");
    server.answer(request).await.unwrap_err();
    fs::write(&file, &sound).unwrap();
    // What the failed drive had accepted in its own eyes was never written, so it did not happen.
    let view: flowdrive_protocol::run::RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert_eq!(view.summary.completed_workers, 0);
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    // How its agent ended was noted, so it is not run again.
    assert_eq!((result.status, ws.agent_runs()["map:0"]), (RunStatus::Complete, 1));
    server.finish().await;
}

#[tokio::test]
async fn b69_drive_of_a_finished_run_adds_one_step_and_no_commit() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&alone(task("map:0")), json!({})).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let again: DriveResult = server.ok("drive", params.clone()).await;
    assert_eq!(again.steps.iter().map(|step| step.action).collect::<Vec<_>>(), [StepAction::Complete]);
    assert_eq!((again.status, &again.commit_id), (RunStatus::Complete, &first.commit_id));
    assert_eq!(of_type(&journal(&ws, &first.run_id), "committed").len(), 1);
    let preview: DrivePreview = server.ok("preview", params).await;
    assert_eq!(preview.next_action, NextAction::Complete, "there is nothing left to commit");
    server.finish().await;
}

#[tokio::test]
async fn b69b_width_that_is_no_count_is_refused_and_nothing_is_made() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    for width in [json!(0), json!(-1), json!(1.5), json!("many"), json!(true), json!(1e40)] {
        let document = workflow(2, [phase("map", tasks(2))]);
        let params = server.here(json!({ "workflow": { "inline": document }, "concurrency": width }));
        let error = server.err("drive", params).await;
        assert_eq!(error.code, -32602, "{width}: {error:?}");
        assert!(error.message.contains("concurrency"), "{width}: {error:?}");
    }
    assert!(!ws.path().join(".cw").exists());
    server.finish().await;
}

#[tokio::test]
async fn b70_commit_that_is_refused_blocks_with_one_record_until_the_file_is_back() {
    let ws = TestWorkspace::new();
    ws.write("notes.md", "one\ntwo\n");
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &["--cite", "notes.md:2"])),
        // Takes away what the verdict stands on, after it was accepted.
        ("thief", shell(&format!("rm -f notes.md; {}", crate::support::GOOD))),
    ]));
    let last = [task("verdict:all").needs_evidence(), task("after:a").agent("thief")];
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut result = server.drive(&workflow(1, [sequential("end", last)]), json!({})).await;
    for _ in 0..3 {
        assert_eq!((result.status, result.completed_workers, &result.commit_id), (RunStatus::Blocked, 2, &None));
        assert!(result.reason.as_deref().unwrap().contains("notes.md:2"), "{result:#?}");
        result = server.ok("resume", server.here(json!({ "runId": result.run_id }))).await;
    }
    let open = records(&server, &result.run_id).await;
    assert_eq!(open.len(), 1, "one record, however often it was resumed: {open:#?}");
    assert_eq!(
        (open[0].classification, open[0].severity, open[0].status),
        (FeedbackClass::VerifierFailure, FeedbackSeverity::High, FeedbackStatus::Open)
    );
    ws.write("notes.md", "one\ntwo\n");
    let done: DriveResult = server.ok("resume", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!(done.status, RunStatus::Complete, "{done:#?}");
    // What the record was about is mended, and nobody is left to close it.
    let closed = records(&server, &result.run_id).await;
    assert_eq!(closed.len(), 1, "{closed:#?}");
    assert_eq!(closed[0].status, FeedbackStatus::Resolved, "{closed:#?}");
    let commit = done.commit_id.unwrap();
    let node = closed[0].resolved_by_node_id.as_ref().unwrap();
    assert!(node.as_str().ends_with(&format!(":commit:{commit}")), "{node}");
    assert_eq!(of_type(&journal(&ws, &result.run_id), "feedbackClosed").len(), 1);
    server.finish().await;
}

#[tokio::test]
async fn b71_verdict_has_to_cite_what_exists_whatever_its_flag_says() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("inventor", config::fixture(&ws, &["--kind", "missing-file"]))]));
    let result = drive(&ws, &alone(task("verdict:all")), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.commit_id), (RunStatus::Parked, None));
    assert!(result.steps[0].reason.as_deref().unwrap().contains("src/never-written.rs"), "{:?}", result.steps);
}

#[tokio::test]
async fn b50_resume_of_a_finished_run_starts_no_agent() {
    let ws = TestWorkspace::new();
    let run = drive(&ws, &workflow(2, [phase("map", tasks(2))]), json!({})).await.run_id;
    assert_eq!(resume(&ws, &run, json!({})).await.status, RunStatus::Complete);
    assert!(ws.agent_runs().values().all(|runs| *runs == 1));
}
