//! What a client asks for to draw itself: some tasks of a run, what runs were asked, which agents there are, until when a
//! task waits.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::{ListAgentsResult, ListRunsResult};
use flowdrive_protocol::run::{AgentKind, DriveResult, RunView, TaskStatus};
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

#[tokio::test]
async fn a_run_can_be_asked_for_some_of_its_tasks() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let tasks = (0..6).map(|n| task(&format!("map:{n}")));
    let run = server.drive(&workflow(6, [phase("map", tasks)]), json!({})).await.run_id;
    for (wish, expected) in [
        (json!({ "taskIds": ["map:4", "map:1"] }), &["map:1", "map:4"][..]),
        (json!({ "taskIds": ["map:4", "map:1"], "taskOffset": 1 }), &["map:4"]),
        (json!({ "taskIds": ["map:4", "map:1"], "taskLimit": 1 }), &["map:1"]),
        (json!({ "taskIds": ["map:2", "map:2", "gone"] }), &["map:2"]),
        (json!({ "taskIds": ["gone"] }), &[]),
        (json!({ "taskIds": [], "taskOffset": 4 }), &["map:4", "map:5"]),
    ] {
        let mut params = server.here(wish.clone());
        params["runId"] = json!(run);
        let view: RunView = server.ok("showRun", params).await;
        let found: Vec<&str> = view.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!((found.as_slice(), view.total_tasks), (expected, 6), "{wish}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a_list_of_runs_says_what_each_was_asked() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut document = workflow(1, [phase("map", [task("map:a")])]);
    document["inputs"] = json!({
        "question": { "type": "string" },
        "places": { "type": "string", "repeated": true },
        "strict": { "type": "boolean", "default": true },
    });
    let long = "Wo \u{1f980} ".repeat(400);
    let places: Vec<String> = (0..40).map(|n| format!("src/{n}")).collect();
    let given = json!({ "inputs": { "question": long, "places": places } });
    let run = server.drive(&document, given).await.run_id;
    let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
    let asked = serde_json::to_value(&listed.runs[0].inputs).unwrap();
    let shown = asked["question"].as_str().unwrap();
    assert!(shown.ends_with('…') && long.starts_with(shown.trim_end_matches('…')), "{shown}");
    assert_eq!((shown.chars().count(), asked["places"].as_array().unwrap().len()), (201, 10));
    assert_eq!(asked["strict"], true);
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert_eq!(serde_json::to_value(&view.inputs).unwrap()["question"], json!(long), "the run itself has it whole");
    server.finish().await;
}

#[tokio::test]
async fn the_agents_are_listed_with_what_speaks_against_them() {
    let ws = TestWorkspace::new();
    let missing = AgentConfig { command: Some(vec!["no-such-program-anywhere".into()]), ..AgentConfig::default() };
    let keyed = AgentConfig {
        headers: [("Authorization".to_owned(), "MADE_UP_TOKEN".to_owned())].into(),
        ..config::endpoint("http://127.0.0.1:9/delegate")
    };
    ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("missing", missing), ("remote", keyed)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let listed: ListAgentsResult = server.ok("listAgents", json!({})).await;
    server.finish().await;
    let of = |name: &str| listed.agents.iter().find(|agent| agent.name.as_str() == name).unwrap();
    assert!(of("good").usable && of("good").default && of("good").reason.is_none(), "{:?}", of("good"));
    assert!(of("builtin:survey").usable, "{:?}", of("builtin:survey"));
    assert_eq!(listed.agents.iter().filter(|agent| agent.default).count(), 1);
    let missing = of("missing");
    assert_eq!((missing.kind, missing.usable), (AgentKind::Command, false));
    assert!(missing.reason.as_ref().unwrap().contains("no-such-program-anywhere"), "{missing:?}");
    let remote = of("remote");
    assert_eq!((remote.kind, remote.usable), (AgentKind::Endpoint, false));
    assert!(remote.reason.as_ref().unwrap().contains("MADE_UP_TOKEN"), "{remote:?}");
}

/// Its agent asked for an hour: the task waits, and says until when.
#[tokio::test]
async fn a_task_that_waits_after_a_passing_fault_says_until_when() {
    let ws = TestWorkspace::new();
    let busy = EndpointServer::sequence(vec![Response::new(429, "later").header("retry-after", "3600")], CITE).await;
    ws.configure(&config::config([("busy", config::endpoint(busy.url()))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    let wait = server.wait_event("a retry", |event| matches!(event.event, Event::TaskRetrying { .. })).await;
    let Event::TaskRetrying { not_before, .. } = wait.event else { panic!("{wait:?}") };
    assert!(not_before.is_some());
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert_eq!((view.tasks[0].status, view.tasks[0].not_before), (TaskStatus::Pending, not_before));
    let _: Value = server.ok("stop", server.here(json!({ "runId": run, "mode": "now" }))).await;
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.completed_workers, 0);
    server.finish().await;
}
