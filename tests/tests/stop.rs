//! Every way a drive ends early: asked to stop, cancelled, signalled, or left by its client. Whichever it is, the run
//! can be carried on, and no process is left.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::StopResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StopMode, TaskStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, census, config, phase, task, wait, workflow};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A drive of six tasks, two at a time, whose agents wait at a gate, have children, and do not heed SIGTERM.
async fn under_way(ws: &TestWorkspace, framing: Framing) -> (Server, i64, String) {
    let stubborn = config::fixture(ws, &["--gate", &ws.beside("gate"), "--fork", "2", "--ignore-term"]);
    ws.configure(&config::config([("stubborn", stubborn)]));
    let server = Server::start(ws, framing).await;
    let tasks = (0..6).map(|n| task(&format!("map:{n}")));
    let (request, run) = server.start_drive(&workflow(2, [phase("map", tasks)]), json!({})).await;
    wait::until("two agents to run", || (ws.agent_runs().len() == 2).then_some(())).await;
    (server, request, run)
}

/// Carries a run on with another server, and asserts that it completes.
async fn carry_on(ws: &TestWorkspace, run: &str) {
    ws.open_gate("gate");
    let server = Server::start(ws, Framing::Ndjson).await;
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 6), "{result:#?}");
    assert_eq!(result.stopped, None);
    let verified: Value = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
    assert_eq!(verified["ok"], true, "{verified:#}");
    server.finish().await;
}

#[tokio::test]
async fn a_graceful_stop_settles_what_is_in_flight_and_starts_nothing() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (server, request, run) = under_way(&ws, framing).await;
        let stopped: StopResult = server.ok("stop", server.here(json!({ "runId": run }))).await;
        assert_eq!((stopped.driving, stopped.mode), (true, StopMode::Graceful));
        server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
        ws.open_gate("gate");
        let result: DriveResult = server.result(request).await;
        assert_eq!((result.stopped, result.completed_workers), (Some(StopMode::Graceful), 2), "{result:#?}");
        assert!(matches!(result.status, RunStatus::InProgress | RunStatus::Blocked), "{result:#?}");
        assert_eq!(ws.agent_runs().len(), 2, "nothing new was started");
        assert!(
            result.reason.as_deref().is_some_and(|reason| reason.contains(&run)),
            "it says how to resume: {result:#?}"
        );
        let nobody: StopResult = server.ok("stop", server.here(json!({ "runId": run }))).await;
        assert!(!nobody.driving, "nobody drives it any more");
        server.finish().await;
        carry_on(&ws, &run).await;
        assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    }
}

#[tokio::test]
async fn a_stop_now_is_answered_when_the_agents_are_gone() {
    let ws = TestWorkspace::new();
    let (server, request, run) = under_way(&ws, Framing::Lsp).await;
    let _: StopResult = server.ok("stop", server.here(json!({ "runId": run, "mode": "now" }))).await;
    let result: DriveResult = server.result(request).await;
    census::assert_none(ws.root(), &[server.pid()], "when the stopped drive was answered");
    assert_eq!((result.stopped, result.completed_workers, result.parked_workers), (Some(StopMode::Now), 0, 0));
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert!(view.tasks.iter().all(|task| task.status == TaskStatus::Pending), "{:#?}", view.tasks);
    server.finish().await;
    carry_on(&ws, &run).await;
}

#[tokio::test]
async fn a_cancelled_drive_is_answered_at_once_and_settles_what_is_in_flight() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (server, request, run) = under_way(&ws, framing).await;
        server.notify("$/cancelRequest", json!({ "id": request })).await;
        let error = server.answer(request).await.expect_err("a cancelled request is answered with an error");
        assert_eq!(error.code, -32800, "{error:?}");
        assert!(!census::processes(ws.root(), &[server.pid()]).is_empty(), "what is in flight is settled, not torn");
        ws.open_gate("gate");
        let end = server.wait_event("the drive to end", |e| matches!(e.event, Event::RunFinished { .. })).await;
        let Event::RunFinished { completed_workers, .. } = end.event else { unreachable!("asked for above") };
        assert_eq!((completed_workers, ws.agent_runs().len()), (2, 2));
        server.finish().await;
        carry_on(&ws, &run).await;
    }
}

#[tokio::test]
async fn the_editors_own_cancel_button_works() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let server = Server::start(&ws, Framing::Lsp).await;
    let tasks = (0..3).map(|n| task(&format!("map:{n}")));
    let fields = json!({ "workDoneToken": "button" });
    let (request, run) = server.start_drive(&workflow(1, [phase("map", tasks)]), fields).await;
    wait::until("an agent to run", || (ws.agent_runs().len() == 1).then_some(())).await;
    server.notify("window/workDoneProgress/cancel", json!({ "token": "button" })).await;
    server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
    ws.open_gate("gate");
    let _ = server.answer(request).await;
    let end = server.wait_event("the drive to end", |e| matches!(e.event, Event::RunFinished { .. })).await;
    assert_eq!((end.run_id.as_str(), ws.agent_runs().len()), (run.as_str(), 1));
    server.finish().await;
}

#[tokio::test]
async fn shutdown_and_exit_end_busy_agents() {
    let ws = TestWorkspace::new();
    let (server, _, run) = under_way(&ws, Framing::Lsp).await;
    server.finish().await;
    carry_on(&ws, &run).await;
}

#[tokio::test]
async fn the_end_of_stdin_ends_busy_agents() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (mut server, _, run) = under_way(&ws, framing).await;
        server.close_stdin().await;
        server.wait_exit().await;
        census::assert_none(ws.root(), &[], "when the server had ended");
        carry_on(&ws, &run).await;
    }
}

#[tokio::test]
async fn sigterm_stops_gracefully_and_says_how_to_resume() {
    let ws = TestWorkspace::new();
    let (mut server, request, run) = under_way(&ws, Framing::Ndjson).await;
    server.signal(Signal::SIGTERM);
    let told = server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
    assert!(matches!(&told.event, Event::StopRequested { by, .. } if by == "SIGTERM"), "{told:?}");
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.stopped, result.completed_workers), (Some(StopMode::Graceful), 2), "{result:#?}");
    let reason = result.reason.unwrap_or_default();
    assert!(reason.contains("SIGTERM") && reason.contains("resume") && reason.contains(&run), "{reason}");
    let status = server.wait_exit().await;
    assert!(status.code().is_some(), "it ends by itself, not by the signal: {status}");
    census::assert_none(ws.root(), &[], "after SIGTERM");
    carry_on(&ws, &run).await;
}

#[tokio::test]
async fn a_second_signal_ends_at_once_with_its_own_exit_code() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let ws = TestWorkspace::new();
        let (mut server, _, run) = under_way(&ws, Framing::Lsp).await;
        server.signal(signal);
        server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
        server.signal(signal);
        let status = server.wait_exit().await;
        assert_eq!(status.code(), Some(code), "{signal}");
        census::assert_none(ws.root(), &[], "after the second signal");
        carry_on(&ws, &run).await;
    }
}

#[tokio::test]
async fn the_death_of_the_editor_ends_the_server_although_its_stdin_stays_open() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let mut editor = std::process::Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    let mut server = Server::builder(&ws, Framing::Lsp).process_id(editor.id()).start().await;
    server.start_drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    wait::until("the agent to run", || (ws.agent_runs().len() == 1).then_some(())).await;
    editor.kill().unwrap();
    editor.wait().unwrap();
    server.wait_exit().await;
    census::assert_none(ws.root(), &[], "after the editor's death");
}

#[tokio::test]
async fn an_agent_that_leaves_a_child_behind_does_not_hold_up_the_run() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("leaky", config::fixture(&ws, &["--fork", "3"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    census::assert_none(ws.root(), &[server.pid()], "after an agent that leaves children behind");
    server.finish().await;
}

#[tokio::test]
async fn an_agent_reading_stdin_gets_the_end_of_it_and_not_the_protocol() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("reader", config::fixture(&ws, &["--read-stdin"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(2, [phase("map", [task("map:a"), task("map:b")])]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    let _: Value = server.ok("listRuns", server.here(json!({}))).await;
    server.finish().await;
}

#[tokio::test]
async fn output_without_end_fails_that_agent_alone() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &["--print-mb", "20"])),
        ("flood", config::fixture(&ws, &["--print-mb", "40"])),
    ]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(2, [phase("map", [task("map:a"), task("map:b").agent("flood")])]);
    let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    assert_eq!(
        (result.status, result.completed_workers, result.parked_workers),
        (RunStatus::Parked, 1, 1),
        "{result:#?}"
    );
    let reason = result.steps.iter().filter_map(|step| step.reason.as_deref()).collect::<Vec<_>>().join("\n");
    assert!(reason.contains("stdout"), "{reason}");
    server.finish().await;
}
