//! `preview` says what `drive` would do, and does nothing: no agent, no file, no lock.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{CacheVerdict, DrivePreview, DriveResult, NextAction, TaskStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, tree, workflow};
use serde_json::{Value, json};

#[tokio::test]
async fn of_a_workflow_touches_nothing() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let server = Server::start(&ws, framing).await;
        let (before, home) = (ws.snapshot(), tree::snapshot(&ws.home()));
        let params = json!({ "workflow": { "id": "architecture-review" }, "inputs": { "question": "Where is it?" } });
        let preview: DrivePreview = server.ok("preview", server.here(params)).await;
        assert_eq!(preview.next_action, NextAction::Dispatch, "{preview:#?}");
        assert_eq!((preview.pending_workers, preview.completed_workers), (preview.planned_workers, 0));
        assert_eq!(preview.next_task_id.as_ref(), Some(&preview.plan[0].tasks[0].id));
        assert_eq!(preview.next_phase.as_ref(), Some(&preview.plan[0].id));
        assert_eq!((preview.plan[0].width, preview.plan[0].tasks.len()), (6, 6));
        assert!(preview.agent_configured && preview.run_id.is_none());
        tree::assert_same(&before, &ws.snapshot(), "after preview");
        tree::assert_same(&home, &tree::snapshot(&ws.home()), "after preview");
        assert!(ws.agent_runs().is_empty());
        server.finish().await;
    }
}

#[tokio::test]
async fn of_a_run_touches_nothing_and_follows_its_state() {
    let ws = TestWorkspace::new();
    let workflow = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&workflow, json!({ "once": true })).await;
    let params = server.here(json!({ "runId": first.run_id }));

    let before = ws.snapshot();
    let preview: DrivePreview = server.ok("preview", params.clone()).await;
    tree::assert_same(&before, &ws.snapshot(), "after preview of a run under way");
    assert_eq!(
        (preview.next_action, preview.next_task_id.as_ref().map(AsRef::as_ref)),
        (NextAction::Dispatch, Some("then:b"))
    );
    assert_eq!((preview.completed_workers, preview.pending_workers), (1, 1));
    assert_eq!(preview.plan[0].tasks[0].status, TaskStatus::Completed);

    let _: DriveResult = server.ok("resume", params.clone()).await;
    let before = ws.snapshot();
    let preview: DrivePreview = server.ok("preview", params).await;
    tree::assert_same(&before, &ws.snapshot(), "after preview of a finished run");
    assert_eq!(preview.next_action, NextAction::Complete, "{preview:#?}");
    server.finish().await;
}

#[tokio::test]
async fn shows_the_invocation_without_its_secrets() {
    let ws = TestWorkspace::new();
    let secret = "sk-made-up-for-tests-0123456789";
    let agent = config::fixture(&ws, &["--print", "hello", "--api-key", secret]);
    ws.configure(&config::config([("keyed", agent)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = json!({ "workflow": { "inline": workflow(1, [phase("map", [task("map:a")])]) } });
    let preview: DrivePreview = server.ok("preview", server.here(params)).await;
    let planned = &preview.plan[0].tasks[0];
    let invocation = planned.invocation.as_deref().unwrap();
    assert!(invocation.contains("fixture-agent") && invocation.contains("--api-key <redacted>"), "{invocation}");
    assert_eq!(planned.cache.state, CacheVerdict::Off);
    for message in server.finish().await {
        assert!(!message.to_string().contains(secret), "{message}");
    }
}

#[tokio::test]
async fn tells_what_stands_in_the_way() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let workflow = workflow(1, [phase("map", [task("map:a").agent("nobody")])]);
    let before = ws.snapshot();
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "workflow": { "inline": workflow } }))).await;
    assert_eq!((preview.next_action, preview.agent_configured), (NextAction::Blocked, false), "{preview:#?}");
    let told = format!("{:?} {:?}", preview.blockers, preview.plan[0].tasks[0].blockers);
    assert!(told.contains("nobody"), "{told}");
    tree::assert_same(&before, &ws.snapshot(), "after preview");
    server.finish().await;
}

#[tokio::test]
async fn each_task_is_shown_with_its_own_sandbox() {
    let ws = TestWorkspace::new();
    let preset = flowdrive_protocol::config::AgentConfig {
        preset: Some(flowdrive_protocol::config::Preset::Claude),
        ..flowdrive_protocol::config::AgentConfig::default()
    };
    ws.configure(&config::config([("claude", preset)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let tasks = ["default", "readonly", "workspace-write"]
        .map(|sandbox| json!({ "id": format!("map:{sandbox}"), "prompt": "p", "sandbox": sandbox }));
    let document = json!({ "schemaVersion": 1, "id": "w", "title": "t", "phases": [{ "id": "map", "tasks": tasks }] });
    let params = server.here(json!({ "workflow": { "inline": document } }));
    let preview: DrivePreview = server.ok("preview", params).await;
    let shown: Vec<&str> = preview.plan[0].tasks.iter().filter_map(|task| task.invocation.as_deref()).collect();
    assert_eq!(shown.len(), 3);
    assert!(shown[0] != shown[1] && shown[1] != shown[2], "{shown:#?}");
    assert!(shown[2].contains("Write") && !shown[1].contains("Write"), "{shown:#?}");
    server.finish().await;
}

#[tokio::test]
async fn loops_and_workflows_inside_are_shown_for_what_they_are() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let child = workflow(1, [phase("map", [task("map:x"), task("map:y").agent("nobody")])]);
    ws.write(".cw/workflows/child.json", &serde_json::to_string(&child).unwrap().replace("made-for-a-test", "child"));
    let nested = task("in:child").set("subWorkflow", json!({ "id": "child" }));
    let mut document = workflow(2, [phase("dig", [task("dig:a")]), phase("in", [nested])]);
    document["phases"][0]["loop"] = json!({ "maxRounds": 3, "until": { "findingsBelow": "P2" } });
    let server = Server::start(&ws, Framing::Lsp).await;
    let params = server.here(json!({ "workflow": { "inline": document } }));
    let preview: DrivePreview = server.ok("preview", params).await;
    let looping = preview.plan[0].looping.as_ref().unwrap();
    assert_eq!((looping.round, looping.max_rounds, looping.decided), (1, 3, false));
    assert_eq!(looping.until, "a round has no finding of P2 or worse");
    assert_eq!(preview.plan[1].looping, None);
    let inside = preview.plan[1].tasks[0].sub_workflow.as_ref().unwrap();
    assert_eq!((inside.id.as_str(), inside.tasks), ("child", 2));
    assert_eq!(inside.agents.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["a", "nobody"]);
    // What would make it fail is said before it is driven.
    let blockers = &preview.plan[1].tasks[0].blockers;
    assert!(blockers.len() == 1 && blockers[0].contains("nobody"), "{blockers:?}");
    server.finish().await;
}

#[tokio::test]
async fn a_placeholder_that_names_no_input_is_told_by_preview_and_drive() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let mut document = workflow(1, [phase("map", [task("map:a"), task("map:b")])]);
    document["phases"][0]["tasks"][0]["prompt"] = json!("About {{qestion}} and {{depth}}. task-marker=map:a");
    document["inputs"]["depth"] = json!({ "type": "string" });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let preview = async |inputs: Value| -> Vec<String> {
        let params = server.here(json!({ "workflow": { "inline": document }, "inputs": inputs }));
        server.ok::<DrivePreview>("preview", params).await.warnings
    };
    let told = preview(json!({})).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("task map:a") && told[0].contains("{{depth}}") && told[0].contains("not given"),
        "{told:?}"
    );
    assert!(told[1].contains("{{qestion}}") && told[1].contains("did you mean `question`?"), "{told:?}");
    let given = preview(json!({ "depth": "all" })).await;
    assert_eq!(given, told[1..], "an input that is given is no slip");
    let result = server.drive(&document, json!({})).await;
    let events = server.lifecycle(result.run_id.as_str());
    let warned = events.iter().find_map(|event| match &event.event {
        Event::RunStarted { warnings, .. } => Some(warnings.clone()),
        _ => None,
    });
    assert_eq!(warned, Some(told));
    server.finish().await;
}
