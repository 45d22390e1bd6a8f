//! Weak points of the earlier tool that its statements do not name, from section 10: what a server has to do better, each
//! where it can be tested from outside.

use std::fs;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::run::{CacheVerdict, DrivePreview, DriveResult, NextAction, RunStatus, RunView, TaskStatus};
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, census, config, phase, sequential, task, wait, workflow};
use serde_json::{Value, json};

use crate::support::{GOOD, alone, drive, names, reasons, records, resume, shell, tasks, written};

fn gate(ws: &TestWorkspace) -> flowdrive_protocol::config::AgentConfig {
    config::fixture(ws, &["--gate", &ws.beside("gate")])
}

#[tokio::test]
async fn w01_server_answers_and_drives_others_while_an_agent_runs() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", gate(&ws)), ("quick", config::fixture(&ws, &[]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&alone(task("map:0")), json!({})).await;
    written(&ws, &run, "processStarted", 1).await;
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "runId": run }))).await;
    assert_eq!(preview.next_action, NextAction::Fulfill);
    let other = server.drive(&alone(task("map:0").agent("quick")), json!({})).await;
    assert_eq!(other.status, RunStatus::Complete);
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert_eq!((view.summary.driving, view.tasks[0].status), (true, TaskStatus::Running));
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
}

#[tokio::test]
async fn w03_programs_and_endpoints_are_in_flight_together() {
    let ws = TestWorkspace::new();
    let asked = ws.beside("asked");
    // The endpoint answers when the program has begun, and the program ends when the endpoint was asked.
    let begun = ws.ledger();
    let endpoint = EndpointServer::start(move |request| {
        let (asked, begun) = (asked.clone(), begun.clone());
        async move {
            fs::write(asked, "").unwrap();
            wait::until("the program to begin", || begun.exists().then_some(())).await;
            Response::good(&request, CITE)
        }
    })
    .await;
    let program = config::fixture(&ws, &["--gate", &ws.beside("asked")]);
    ws.configure(&config::config([("program", program), ("remote", config::endpoint(endpoint.url()))]));
    let all = [task("map:0"), task("map:1").agent("remote")];
    let result = drive(&ws, &workflow(2, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
}

#[tokio::test]
async fn w14_result_left_by_a_failed_attempt_is_never_taken_for_the_next_ones() {
    let ws = TestWorkspace::new();
    // Writes well and fails; the next one writes nothing and ends well.
    let script = format!("if [ -e \"{0}\" ]; then exit 0; fi; touch \"{0}\"; {GOOD}; exit 3", ws.beside("was-here"));
    ws.configure(&config::config([("tricky", shell(&script))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 2 })).await;
    assert_eq!(result.status, RunStatus::Parked);
    assert!(reasons(&result).contains("agent produced no result.md (attempt 2/2)"), "{}", reasons(&result));
}

#[tokio::test]
async fn w16_budget_is_looked_at_before_every_agent_of_a_window() {
    let ws = TestWorkspace::new();
    let report = json!({ "usage": { "totalTokens": 6 } }).to_string();
    ws.configure(&config::config([("priced", config::fixture(&ws, &["--print", &report]))]));
    let mut document = workflow(2, [phase("map", tasks(12))]);
    document["limits"]["tokenBudget"] = json!(18);
    let result = drive(&ws, &document, json!({})).await;
    assert_eq!(result.status, RunStatus::Blocked, "{result:#?}");
    // Three fill it; one more may have been under way with the third.
    assert!((3..=4).contains(&result.completed_workers), "{result:#?}");
}

#[tokio::test]
async fn w18_record_closed_while_the_run_is_driven_is_not_lost_and_its_task_goes_on() {
    let ws = TestWorkspace::new();
    let idle = config::fixture(&ws, &["--kind", "no-evidence", "--good-when", "Look again"]);
    ws.configure(&config::config([("gated", gate(&ws)), ("idle", idle)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let all = [task("map:0"), task("map:1").agent("idle").needs_evidence()];
    let (request, run) = server.start_drive(&workflow(2, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    server.wait_event("it to park", |e| matches!(e.event, Event::TaskParked { .. })).await;
    let record = records(&server, &run).await.remove(0);
    let fields = json!({ "runId": run, "feedbackId": record.id, "resolution": "retry", "guidance": "Look again" });
    let _: FeedbackRecord = server.ok("resolveFeedback", server.here(fields)).await;
    server.wait_events("it to be accepted", 1, |e| matches!(e, Event::TaskAccepted { .. })).await;
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 2), "{}", reasons(&result));
    server.finish().await;
}

#[tokio::test]
async fn w18_second_drive_in_the_same_process_is_refused_like_any_other() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", gate(&ws))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&alone(task("map:0")), json!({})).await;
    let error = server.err("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(error.assert_kind(ErrorKind::RunLocked).pid, Some(server.pid()));
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, ws.agent_runs()["map:0"]), (RunStatus::Complete, 1));
    server.finish().await;
}

#[tokio::test]
async fn w19_endpoint_gets_its_credentials_in_a_header_and_an_answer_without_end_is_cut_off() {
    let endless = vec![b'x'; 33 * 1024 * 1024];
    let endpoint = EndpointServer::start(move |request| {
        let endless = endless.clone();
        async move {
            match request.task().as_str() {
                "map:0" => Response::good(&request, CITE),
                _ => Response::new(200, endless),
            }
        }
    })
    .await;
    let ws = TestWorkspace::new();
    let mut remote = config::endpoint(endpoint.url());
    remote.headers.insert("authorization".to_owned(), "MADE_UP_AUTHORIZATION".to_owned());
    ws.configure(&config::config([("remote", remote)]));
    let server =
        Server::builder(&ws, Framing::Ndjson).env("MADE_UP_AUTHORIZATION", "Bearer made-up-for-tests").start().await;
    let result = server.drive(&workflow(2, [phase("map", tasks(2))]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.completed_workers, result.parked_workers), (1, 1));
    assert!(reasons(&result).contains("byte cap"), "{}", reasons(&result));
    let header = endpoint.exchanges()[0].request.headers.iter().find(|(name, _)| name == "authorization").cloned();
    assert_eq!(header.unwrap().1, "Bearer made-up-for-tests");
    assert_eq!(crate::support::holding(&ws.path(), "made-up-for-tests"), Vec::<std::path::PathBuf>::new());
    server.finish().await;
}

#[tokio::test]
async fn w23_preview_knows_the_budget_the_driver_the_cache_and_what_is_done() {
    let ws = TestWorkspace::new();
    let report = json!({ "usage": { "totalTokens": 12 } }).to_string();
    ws.configure(&config::config([("good", config::fixture(&ws, &["--print", &report])), ("gated", gate(&ws))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut document = workflow(1, [sequential("map", tasks(2))]);
    document["limits"]["tokenBudget"] = json!(12);
    let spent = server.drive(&document, json!({ "incremental": true })).await;
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "runId": spent.run_id }))).await;
    assert_eq!(preview.next_action, NextAction::Blocked);
    assert!(preview.blockers.iter().any(|blocker| blocker.contains("token budget exhausted")), "{preview:#?}");
    let params = json!({ "workflow": { "inline": document }, "incremental": true });
    let preview: DrivePreview = server.ok("preview", server.here(params)).await;
    let verdicts: Vec<CacheVerdict> = preview.plan[0].tasks.iter().map(|task| task.cache.state).collect();
    assert_eq!(verdicts, [CacheVerdict::Hit, CacheVerdict::Miss]);
    let (request, run) = server.start_drive(&alone(task("map:0").agent("gated")), json!({})).await;
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "runId": run }))).await;
    assert!(preview.blockers.iter().any(|blocker| blocker.contains(&server.pid().to_string())), "{preview:#?}");
    ws.open_gate("gate");
    let _: DriveResult = server.result(request).await;
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "runId": run }))).await;
    assert_eq!(preview.next_action, NextAction::Complete);
    server.finish().await;
}

#[tokio::test]
async fn w24_progress_is_events_and_a_line_of_what_each_agent_does() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("chatty", config::fixture(&ws, &["--print", "reading src/lib.rs"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&alone(task("map:0")), json!({})).await;
    let told: Vec<Value> = server.events().iter().map(|event| json!(event)).collect();
    let of = |kind: &str| told.iter().filter(|event| event["type"] == kind).count();
    let kinds =
        ["runStarted", "phaseStarted", "taskDispatched", "taskAccepted", "phaseFinished", "checkpoint", "runFinished"];
    for kind in kinds {
        assert_eq!(of(kind), 1, "{kind} in {told:#?}");
    }
    let activity = told.iter().find(|event| event["type"] == "agentActivity").unwrap();
    assert_eq!((activity["text"].as_str(), activity["taskId"].as_str()), (Some("reading src/lib.rs"), Some("map:0")));
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
}

#[tokio::test]
async fn w25_children_are_driven_together_stop_with_their_parent_and_are_carried_on() {
    let ws = TestWorkspace::new();
    // Three agents in three children, who all wait for each other.
    let meet = format!("3:{}", ws.beside("meeting"));
    let agent = config::fixture(&ws, &["--meet", &meet, "--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("sociable", agent)]));
    let mut inner = alone(task("inner:a"));
    inner["id"] = json!("inner");
    ws.write(".cw/workflows/inner.json", &inner.to_string());
    let nested = ["map:0", "map:1", "map:2"].map(|id| task(id).set("subWorkflow", json!({ "id": "inner" })));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(3, [phase("map", nested)]), json!({})).await;
    wait::until("all three to run", || (ws.agent_runs().get("inner:a") == Some(&3)).then_some(())).await;
    let _: Value = server.ok("stop", server.here(json!({ "runId": run, "mode": "now" }))).await;
    let stopped: DriveResult = server.result(request).await;
    census::assert_none(ws.root(), &[server.pid()], "after the parent was stopped");
    assert_eq!((stopped.completed_workers, stopped.parked_workers), (0, 0));
    server.finish().await;
    ws.open_gate("gate");
    assert_eq!(resume(&ws, &run, json!({})).await.status, RunStatus::Complete);
    assert_eq!(names(&ws.path().join(".cw/runs")).len(), 4, "no child was planned again");
}

#[tokio::test]
async fn w27_drive_can_be_cancelled_and_settles_what_runs() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", gate(&ws))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(1, [sequential("map", tasks(2))]), json!({})).await;
    written(&ws, &run, "processStarted", 1).await;
    server.notify("$/cancelRequest", json!({ "id": request })).await;
    assert_eq!(server.answer(request).await.unwrap_err().code, -32800);
    ws.open_gate("gate");
    server.wait_event("the drive to end", |e| matches!(e.event, Event::RunFinished { .. })).await;
    assert_eq!(ws.agent_runs(), [("map:0".to_owned(), 1)].into());
    server.finish().await;
}

#[tokio::test]
async fn v2_what_makes_no_sense_is_refused_with_its_field_and_nothing_is_made() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = alone(task("map:0"));
    for (field, value) in [
        ("maxAttempts", json!(0)),
        ("maxAttempts", json!("three")),
        ("once", json!("maybe")),
        ("inputs", json!("none")),
        ("runId", json!("../../etc")),
        ("runId", json!("a/b")),
        ("runId", json!("..")),
    ] {
        let mut params = json!({ "workflow": { "inline": document } });
        params[field] = value.clone();
        let error = server.err("drive", server.here(params)).await;
        assert_eq!(error.code, -32602, "{field} {value}: {error:?}");
        assert!(error.message.contains(field), "{field} {value}: {error:?}");
    }
    assert!(!ws.path().join(".cw").exists());
    server.finish().await;
}
