//! The main job: a workflow is driven to its end, told step by step, and leaves a report that can be trusted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StepAction, StepStatus};
use flowdrive_tests::events::assert_numbered;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, wait, workflow};
use serde_json::{Value, json};

#[tokio::test]
async fn a_workflow_from_a_file_is_driven_over_newline_json() {
    let ws = TestWorkspace::new();
    ws.write(
        ".cw/workflows/mine.toml",
        r#"
schemaVersion = 1
id = "mine"
title = "Mine"
[inputs.question]
type = "string"
required = true
[[phases]]
id = "map"
mode = "parallel"
[[phases.tasks]]
id = "map:a"
prompt = "{{question}} task-marker=map:a"
[[phases.tasks]]
id = "map:b"
prompt = "{{question}} task-marker=map:b"
[[phases]]
id = "verdict"
[[phases.tasks]]
id = "verdict:all"
prompt = "{{question}} task-marker=verdict:all"
requiresEvidence = true
"#,
    );
    let server = Server::start(&ws, Framing::Ndjson).await;
    for (number, workflow) in [json!({ "id": "mine" }), json!({ "path": ".cw/workflows/mine.toml" })].iter().enumerate()
    {
        let params = json!({ "workflow": workflow, "inputs": { "question": "Why?" } });
        let id = server.send("drive", server.here(params)).await;
        let result: DriveResult = server.result(id).await;
        assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
        assert_eq!(result.planned_workers, 3);
        let input = |worker: &str| {
            fs::read_to_string(ws.run_folder(&result.run_id).join("workers").join(worker).join("input.md"))
        };
        let accepted = result.steps.iter().find(|step| step.action == StepAction::Accept).unwrap();
        let text = input(accepted.worker_id.as_ref().unwrap().as_str()).unwrap();
        assert!(text.contains("Why?"), "the question is in the agent's input: {text}");
        assert_eq!(ws.agent_runs(), ["map:a", "map:b", "verdict:all"].map(|t| (t.to_owned(), number + 1)).into());
    }
    server.finish().await;
}

#[tokio::test]
async fn every_notice_of_a_drive_comes_before_its_answer() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Lsp).await;
    let tasks = (0..30).map(|n| task(&format!("map:{n}"))).collect::<Vec<_>>();
    let workflow = workflow(8, [phase("map", tasks)]);
    let params = server.here(json!({ "workflow": { "inline": workflow }, "workDoneToken": 7 }));
    let request = server.send("drive", params).await;
    let result: DriveResult = server.result(request).await;
    let messages = server.finish().await;
    let position = |found: &dyn Fn(&Value) -> bool| messages.iter().rposition(found).unwrap();
    let answer = position(&|message| message["id"] == request && message.get("method").is_none());
    let last_event = position(&|message| message["method"] == "flowdrive/progress");
    let end = position(&|message| message["method"] == "$/progress" && message["params"]["token"] == 7);
    assert!(last_event < answer && end < answer, "event {last_event}, end {end}, answer {answer}");
    assert_eq!(messages[last_event]["params"]["type"], "runFinished");
    assert_eq!(messages[end]["params"]["value"]["kind"], "end");
    assert_eq!(result.completed_workers, 30);
}

#[tokio::test]
async fn a_client_that_missed_events_gets_the_same_ones_again() {
    let ws = TestWorkspace::new();
    let workflow = workflow(4, [phase("map", [task("map:a"), task("map:b")]), phase("then", [task("then:c")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow, json!({})).await;
    let run = result.run_id.as_str();
    let live = server.lifecycle(run);
    assert_numbered(&live);
    let all: RunView = server.ok("showRun", server.here(json!({ "runId": run, "sinceSeq": 0 }))).await;
    assert_eq!(all.events, live);
    assert_eq!((all.last_seq, all.more_events), (live.len() as u64, false));
    server.finish().await;

    // Also from another process, after the fact.
    let server = Server::start(&ws, Framing::Lsp).await;
    let rest: RunView = server.ok("showRun", server.here(json!({ "runId": run, "sinceSeq": 3 }))).await;
    assert_eq!(rest.events, live[3..]);
    server.finish().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_slows_nobody_and_loses_no_lifecycle_event() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("loud", config::fixture(&ws, &["--print-mb", "1"]))]));
        let server = Server::start(&ws, framing).await;
        let document = workflow(4, [phase("map", (0..24).map(|n| task(&format!("map:{n}"))))]);
        let (request, run) = server.start_drive(&document, json!({})).await;
        server.read(false);
        // Far more than a pipe holds is said meanwhile; the drive gets to its end all the same.
        let journal = ws.run_folder(&run).join("journal.jsonl");
        wait::until("the run to end on disk", || {
            fs::read_to_string(&journal).is_ok_and(|text| text.contains("driveFinished")).then_some(())
        })
        .await;
        assert_eq!(ws.agent_runs().len(), 24);
        server.read(true);
        let result: DriveResult = server.result(request).await;
        assert_eq!(result.status, RunStatus::Complete);
        assert_numbered(&server.events());
        let live = server.lifecycle(&run);
        let view: RunView = server.ok("showRun", server.here(json!({ "runId": run, "sinceSeq": 0 }))).await;
        assert_eq!(view.events, live);
        server.finish().await;
    }
}

#[tokio::test]
async fn without_a_token_the_server_makes_one_for_an_editor_that_shows_progress() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Lsp).await;
    server.drive(&workflow(2, [phase("map", [task("map:a"), task("map:b")])]), json!({})).await;
    let messages = server.finish().await;
    let made = messages.iter().find(|message| message["method"] == "window/workDoneProgress/create").unwrap();
    let token = &made["params"]["token"];
    let kinds: Vec<&Value> = messages
        .iter()
        .filter(|message| message["method"] == "$/progress" && message["params"]["token"] == *token)
        .map(|message| &message["params"]["value"]["kind"])
        .collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&&json!("begin")), Some(&&json!("end"))), "{kinds:?}");
}

#[tokio::test]
async fn phases_follow_each_other_and_steps_are_in_task_order() {
    let ws = TestWorkspace::new();
    let (slow, fast) = (config::fixture(&ws, &["--gate", &ws.beside("gate")]), config::fixture(&ws, &[]));
    ws.configure(&config::config([("fast", fast), ("slow", slow)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let workflow = workflow(
        4,
        [
            phase("map", [task("map:z").agent("slow"), task("map:a"), task("map:m")]),
            phase("assess", [task("assess:b"), task("assess:a")]),
        ],
    );
    let (request, run) = server.start_drive(&workflow, json!({})).await;
    server.wait_events("the quick ones to be accepted", 2, |e| matches!(e, Event::TaskAccepted { .. })).await;
    let early = server.lifecycle(&run);
    assert!(!early.iter().any(|e| matches!(&e.event, Event::PhaseStarted { phase, .. } if phase.as_str() == "assess")));
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    let order: Vec<&str> = result
        .steps
        .iter()
        .filter(|step| step.action == StepAction::Accept)
        .map(|step| step.task_id.as_ref().unwrap().as_str())
        .collect();
    assert_eq!(order, ["map:z", "map:a", "map:m", "assess:b", "assess:a"]);
    assert!(result.steps.iter().any(|step| (step.action, step.status) == (StepAction::Commit, StepStatus::Complete)));
    server.finish().await;
}

#[tokio::test]
async fn once_fills_one_window_and_stops() {
    let ws = TestWorkspace::new();
    let workflow = workflow(2, [phase("map", [task("map:a"), task("map:b"), task("map:c")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&workflow, json!({ "once": true })).await;
    assert_eq!((first.status, first.completed_workers), (RunStatus::InProgress, 2), "{first:#?}");
    assert_eq!(first.commit_id, None);
    assert_eq!(ws.agent_runs().into_keys().collect::<Vec<_>>(), ["map:a", "map:b"]);

    let resume = server.here(json!({ "runId": first.run_id, "once": true }));
    let second: DriveResult = server.ok("resume", resume).await;
    assert_eq!(second.completed_workers, 3, "{second:#?}");
    let last: DriveResult = server.ok("resume", server.here(json!({ "runId": first.run_id }))).await;
    assert_eq!(last.status, RunStatus::Complete, "{last:#?}");
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());

    let again: DriveResult = server.ok("resume", server.here(json!({ "runId": first.run_id, "once": true }))).await;
    assert_eq!((again.status, &again.commit_id), (RunStatus::Complete, &last.commit_id), "a finished run stays so");
    server.finish().await;
}

#[tokio::test]
async fn several_runs_of_one_workspace_are_listed_newest_first() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let workflow = workflow(1, [sequential("map", [task("map:a")])]);
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(server.drive(&workflow, json!({})).await.run_id);
    }
    runs.reverse();
    let all: flowdrive_protocol::method::ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
    assert_eq!(all.runs.iter().map(|run| run.run_id.clone()).collect::<Vec<_>>(), runs);
    assert!(all.runs.iter().all(|run| run.status == RunStatus::Complete && !run.driving));
    let page: flowdrive_protocol::method::ListRunsResult =
        server.ok("listRuns", server.here(json!({ "limit": 1, "offset": 1 }))).await;
    assert_eq!((page.runs[0].run_id.clone(), page.runs.len(), page.total), (runs[1].clone(), 1, 3));
    server.finish().await;
}

#[tokio::test]
async fn a_workflow_without_tasks_is_complete_and_says_that_nothing_was_asked() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, []), json!({})).await;
    assert_eq!((result.status, result.planned_workers), (RunStatus::Complete, 0), "{result:#?}");
    assert!(result.reason.unwrap().contains("no tasks"));
    server.finish().await;
}

#[tokio::test]
async fn true_and_false_are_read_in_the_usual_words_and_no_others() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut document = workflow(1, [phase("map", [task("map:a").set("prompt", "deep={{deep}} task-marker=map:a")])]);
    document["inputs"]["deep"] = json!({ "type": "boolean", "required": true });
    for (text, read) in [
        ("yes", Some(true)),
        ("on", Some(true)),
        ("1", Some(true)),
        ("False", Some(false)),
        ("no", Some(false)),
        ("off", Some(false)),
        ("0", Some(false)),
        ("", Some(false)),
        ("maybe", None),
        ("2", None),
    ] {
        let params = json!({ "workflow": { "inline": document }, "inputs": { "deep": text } });
        let id = server.send("drive", server.here(params)).await;
        match (server.answer(id).await, read) {
            (Ok(answer), Some(read)) => {
                let run = answer["runId"].as_str().unwrap();
                let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
                assert_eq!(view.inputs.values().find(|value| value.is_boolean()), Some(&json!(read)), "{text:?}");
            }
            (Err(error), None) => assert!(error.message.contains("true or false"), "{text:?}: {error:?}"),
            (answer, _) => panic!("{text:?}: {answer:?}"),
        }
    }
    // A flag of a request is a boolean, never a text that looks like one.
    let params = json!({ "workflow": { "inline": document }, "inputs": { "deep": true }, "once": "false" });
    assert_eq!(server.err("drive", server.here(params)).await.code, -32602);
    server.finish().await;
}
