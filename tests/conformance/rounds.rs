//! Statements 22 to 27 and 47: what is on the disk before, during and after a window, and how much of it.

use std::fs;

use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, TaskStatus};
use flowdrive_tests::endpoint::EndpointServer;
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, wait, workflow};
use serde_json::json;

use crate::support::{alone, drive, journal, journal_file, names, of_type, resume, tasks, workers, written};

/// A workflow beside the others of the workspace, of one task.
fn write_inner(ws: &TestWorkspace) {
    let mut inner = workflow(2, [phase("map", [task("inner:a")])]);
    inner["id"] = json!("inner");
    ws.write(".cw/workflows/inner.json", &inner.to_string());
}

fn nested(id: &str) -> flowdrive_tests::workflow::Task {
    task(id).set("subWorkflow", json!({ "id": "inner" }))
}

#[tokio::test]
async fn a22_no_agent_is_started_for_a_task_that_is_a_workflow() {
    let ws = TestWorkspace::new();
    write_inner(&ws);
    let document = workflow(3, [phase("map", [nested("map:one"), task("map:plain"), nested("map:two")])]);
    let result = drive(&ws, &document, json!({ "concurrency": 3 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    assert_eq!(ws.agent_runs(), [("inner:a".to_owned(), 2), ("map:plain".to_owned(), 1)].into());
}

#[tokio::test]
async fn a23_killed_amid_sub_workflows_their_tasks_are_running_with_their_workers_on_disk() {
    let ws = TestWorkspace::new();
    write_inner(&ws);
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(2, [phase("map", [nested("map:one"), nested("map:two")])]);
    let (_, run) = server.start_drive(&document, json!({})).await;
    wait::until("both children's agents to run", || (ws.agent_runs().get("inner:a") == Some(&2)).then_some(())).await;
    server.kill().await;
    let server = Server::start(&ws, Framing::Ndjson).await;
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    for task in &view.tasks {
        assert_eq!(task.status, TaskStatus::Running, "{task:#?}");
        let worker = task.worker_id.as_ref().unwrap().as_str();
        assert!(ws.run_folder(&run).join("workers").join(worker).join("input.md").is_file());
    }
    // Carried on, not planned afresh: there are the same three runs as before.
    ws.open_gate("gate");
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    assert_eq!(names(&ws.path().join(".cw/runs")).len(), 3);
    server.finish().await;
}

#[tokio::test]
async fn a24_dispatches_of_cache_hits_are_recorded_before_they_are_settled() {
    let ws = TestWorkspace::new();
    let document = workflow(3, [phase("map", tasks(3))]);
    drive(&ws, &document, json!({ "incremental": true })).await;
    let result = drive(&ws, &document, json!({ "incremental": true })).await;
    assert!(result.steps.iter().filter(|step| step.handle_kind.as_deref() == Some("result-cache")).count() == 3);
    let events = journal(&ws, &result.run_id);
    for task in ["map:0", "map:1", "map:2"] {
        let at = |kind: &str| events.iter().position(|event| event["type"] == kind && event["task"] == task).unwrap();
        assert!(at("taskDispatched") < at("outcomeRecorded") && at("outcomeRecorded") < at("taskAccepted"));
        let dispatched = &events[at("taskDispatched")];
        assert!(workers(&ws, &result.run_id).contains(&dispatched["worker"].as_str().unwrap().to_owned()));
    }
}

#[tokio::test]
async fn a25_killed_amid_a_window_its_tasks_are_running_and_a_resume_starts_each_once_more() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let (_, run) = server.start_drive(&workflow(4, [phase("map", tasks(4))]), json!({})).await;
    wait::until("all agents to run", || (ws.agent_runs().len() == 4).then_some(())).await;
    let before = workers(&ws, &run);
    server.kill().await;
    let server = Server::start(&ws, Framing::Ndjson).await;
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    let mut running: Vec<String> = view.tasks.iter().map(|task| task.worker_id.as_ref().unwrap().to_string()).collect();
    running.sort();
    assert!(view.tasks.iter().all(|task| task.status == TaskStatus::Running), "{:#?}", view.tasks);
    assert_eq!(running, before);
    ws.open_gate("gate");
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete);
    // An attempt never works in the folder of the one before: one more folder each, and no attempt was counted.
    assert_eq!(workers(&ws, &run).len(), 8);
    let attempts = of_type(&journal(&ws, &run), "taskDispatched");
    assert!(attempts.iter().all(|event| event["attempt"] == 1), "{attempts:#?}");
    assert!(ws.agent_runs().values().all(|runs| *runs == 2), "{:?}", ws.agent_runs());
    server.finish().await;
}

#[tokio::test]
async fn a26_resume_with_nothing_to_start_writes_its_begin_and_its_end_alone() {
    let ws = TestWorkspace::new();
    let run = drive(&ws, &workflow(3, [phase("map", tasks(3))]), json!({})).await.run_id;
    let before = journal(&ws, &run);
    resume(&ws, &run, json!({})).await;
    let after = journal(&ws, &run);
    assert_eq!(after[..before.len()], before[..]);
    let added: Vec<&str> = after[before.len()..].iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(added, ["driveStarted", "driveFinished"]);
}

#[tokio::test]
async fn a27_what_is_written_for_a_task_does_not_grow_with_the_run() {
    let endpoint = EndpointServer::good(CITE, std::time::Duration::ZERO).await;
    let mut per_task = Vec::new();
    for count in [16, 64] {
        let ws = TestWorkspace::new();
        let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
        ws.configure(&config::config([("remote", config::endpoint(endpoint.url())), ("gated", gated)]));
        let mut all = tasks(count);
        all.push(task("map:last").agent("gated"));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let (request, run) = server.start_drive(&workflow(16, [phase("map", all)]), json!({})).await;
        written(&ws, &run, "taskAccepted", count).await;
        written(&ws, &run, "processStarted", 1).await;
        // The state as a whole was not written for any of them.
        assert!(!ws.run_folder(&run).join("state.json").exists(), "the whole state was written within a window");
        let bytes = fs::metadata(journal_file(&ws, &run)).unwrap().len();
        per_task.push(bytes / (count as u64 + 1));
        ws.open_gate("gate");
        let result: DriveResult = server.result(request).await;
        assert_eq!(result.status, RunStatus::Complete);
        assert!(ws.run_folder(&run).join("state.json").is_file());
        server.finish().await;
    }
    // Four times the tasks; only numbers and ids are a digit longer.
    assert!(per_task[1] * 20 <= per_task[0] * 21, "bytes a task: {per_task:?}");
}

#[tokio::test]
async fn a47_record_of_a_commit_is_small_however_large_the_run_is() {
    let endpoint = EndpointServer::good(CITE, std::time::Duration::ZERO).await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    let document = workflow(32, [phase("map", tasks(300)), sequential("verdict", [task("verdict:all")])]);
    let result = drive(&ws, &document, json!({})).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 301));
    let committed = of_type(&journal(&ws, &result.run_id), "committed");
    assert_eq!(committed.len(), 1);
    let bytes = committed[0].to_string().len();
    assert!(bytes < 4096, "{bytes} bytes");
    // The line itself, with its hashes, is no longer either.
    let text = fs::read_to_string(journal_file(&ws, &result.run_id)).unwrap();
    assert!(text.lines().find(|line| line.contains("\"committed\"")).unwrap().len() < 4096);
}

#[tokio::test]
async fn a27_accepted_is_on_disk_before_anybody_is_told() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&alone(task("map:0")), json!({})).await;
    let told: Vec<String> =
        server.lifecycle(result.run_id.as_str()).iter().map(|event| json!(event.event)["type"].to_string()).collect();
    assert!(told.contains(&"\"taskAccepted\"".to_owned()), "{told:?}");
    server.finish().await;
    // Whoever reads the journal alone, with nothing else of the run's folder, sees the same.
    fs::remove_file(ws.run_folder(&result.run_id).join("state.json")).unwrap();
    assert_eq!(resume(&ws, &result.run_id, json!({})).await.completed_workers, 1);
}
