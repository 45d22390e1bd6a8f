//! Results of earlier runs, and of earlier phases: taken where nothing they depend on changed, and each task told why it was
//! or was not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;

use flowdrive_protocol::event::{Event, ResultSource};
use flowdrive_protocol::run::{CacheState, CacheVerdict, DrivePreview, DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, workflow};
use serde_json::{Value, json};

/// What a run's events say of the cache, by task.
fn told(server: &Server, result: &DriveResult) -> BTreeMap<String, CacheState> {
    let events = server.lifecycle(result.run_id.as_str()).into_iter();
    events
        .filter_map(|event| match event.event {
            Event::TaskDispatched { task_id, cache, .. } => Some((task_id.to_string(), cache?)),
            _ => None,
        })
        .collect()
}

fn previewed(preview: &DrivePreview) -> BTreeMap<String, CacheState> {
    let tasks = preview.plan.iter().flat_map(|phase| &phase.tasks);
    tasks.map(|task| (task.id.to_string(), task.cache.clone())).collect()
}

#[tokio::test]
async fn each_task_is_told_why_it_was_or_was_not_served_from_the_cache() {
    let ws = TestWorkspace::new();
    let configure = |model: &str| {
        let mut agent = config::fixture(&ws, &[]);
        agent.model = Some(model.to_owned());
        ws.configure(&config::config([("a", agent)]));
    };
    configure("one");
    let mut document =
        workflow(2, [phase("map", [task("map:a"), task("map:b")]), sequential("then", [task("then:c")])]);
    document["phases"][0]["tasks"][1]["prompt"] = json!("A fixed prompt. task-marker=map:b");
    let runs = |n: usize| ["map:a", "map:b", "then:c"].map(|id| (id.to_owned(), n)).into();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let drive = async |server: &Server, question: &str| {
        let request =
            json!({ "workflow": { "inline": document }, "inputs": { "question": question }, "incremental": true });
        let preview: DrivePreview = server.ok("preview", server.here(request.clone())).await;
        let id = server.send("drive", server.here(request)).await;
        let result: DriveResult = server.result(id).await;
        assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
        (previewed(&preview), told(server, &result), result)
    };
    let reason =
        |told: &BTreeMap<String, CacheState>, id: &str| (told[id].state, told[id].reason.clone().unwrap_or_default());

    let (_, first, _) = drive(&server, "how?").await;
    assert_eq!(reason(&first, "map:a"), (CacheVerdict::Miss, "no result was kept yet".to_owned()));
    let (before, second, result) = drive(&server, "how?").await;
    for id in ["map:a", "map:b", "then:c"] {
        assert_eq!(reason(&second, id), (CacheVerdict::Hit, "nothing it depends on changed".to_owned()), "{id}");
    }
    assert_eq!((&before["map:a"], &before["map:b"]), (&second["map:a"], &second["map:b"]), "preview said so before");
    assert_eq!(ws.agent_runs(), runs(1), "no agent was asked again");
    assert!(
        server.lifecycle(result.run_id.as_str()).iter().all(|event| {
            !matches!(event.event, Event::TaskAccepted { source, .. } if source != ResultSource::Cache)
        })
    );

    let (before, third, _) = drive(&server, "why?").await;
    assert_eq!(reason(&third, "map:a"), (CacheVerdict::Miss, "inputs, prompt changed".to_owned()));
    assert_eq!(reason(&third, "map:b"), (CacheVerdict::Miss, "inputs changed".to_owned()));
    assert_eq!(before["map:b"], third["map:b"]);
    assert!(before["then:c"].reason.as_ref().unwrap().contains("not known before"), "{before:#?}");
    server.finish().await;

    configure("two");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (_, fourth, _) = drive(&server, "why?").await;
    assert_eq!(reason(&fourth, "map:a"), (CacheVerdict::Miss, "agent changed".to_owned()));
    // Nothing is told where nothing was to be reused.
    let plain = server.drive(&document, json!({})).await;
    assert!(told(&server, &plain).is_empty());
    server.finish().await;
}

#[tokio::test]
async fn a_result_that_was_refused_is_not_taken_again_and_that_is_told() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = |evidence: bool| {
        let task = task("map:a").set("requiresEvidence", evidence);
        workflow(1, [phase("map", [task])])
    };
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let first = server.drive(&document(false), json!({ "incremental": true })).await;
    assert_eq!(first.status, RunStatus::Complete);
    // What it cites is gone.
    fs::rename(ws.path().join("src/lib.rs"), ws.path().join("src/old.rs")).unwrap();
    let second = server.drive(&document(true), json!({ "incremental": true, "maxAttempts": 2 })).await;
    let states: Vec<CacheState> = server
        .lifecycle(second.run_id.as_str())
        .into_iter()
        .filter_map(|event| match event.event {
            Event::TaskDispatched { cache, .. } => cache,
            _ => None,
        })
        .collect();
    assert_eq!(states.iter().map(|state| state.state).collect::<Vec<_>>(), [CacheVerdict::Hit, CacheVerdict::Miss]);
    assert!(states[1].reason.as_ref().unwrap().contains("refused"), "{states:?}");
    assert!(second.steps[0].reason.as_ref().unwrap().starts_with("result cache rejected: "), "{second:#?}");
    server.finish().await;
}

#[tokio::test]
async fn a_task_that_asks_for_it_is_given_earlier_results_in_full() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let cache = json!({ "keyInput": "question", "includeCompletedResults": "previous-phases" });
    let document: Value = workflow(
        2,
        [
            phase("map", [task("map:b"), task("map:a")]),
            sequential("then", [task("then:all").set("resultCache", cache), task("then:plain")]),
        ],
    );
    let result = server.drive(&document, json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let input = |id: &str| {
        let step = result.steps.iter().find(|step| step.task_id.as_ref().is_some_and(|t| t.as_str() == id)).unwrap();
        let worker = step.worker_id.as_ref().unwrap().as_str();
        fs::read_to_string(ws.run_folder(&result.run_id).join("workers").join(worker).join("input.md")).unwrap()
    };
    let text = input("then:all");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
    assert!(
        place("## Boundary") < place("BEGIN RESULT map:a") && place("BEGIN RESULT map:a") < place("BEGIN RESULT map:b")
    );
    assert!(text.contains("# Result of map:a") && text.contains("END RESULT map:b"), "{text}");
    assert!(!input("then:plain").contains("BEGIN RESULT"));
    server.finish().await;
}

#[tokio::test]
async fn a_task_about_the_workspace_is_not_answered_by_flowdrives_own_files() {
    let ws = TestWorkspace::new();
    // Two results of an earlier run, cited in place of the sources.
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let early = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "runId": "early" })).await;
    assert_eq!(early.status, RunStatus::Complete);
    server.finish().await;
    let cite = ".cw/runs/early/report.md:1,2";
    ws.configure(&config::config([("lost", config::fixture(&ws, &["--cite", cite]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let about = |reviews: bool| workflow(1, [phase("map", [task("map:a").set("reviewsRepo", reviews)])]);
    let fine = server.drive(&about(false), json!({ "maxAttempts": 1 })).await;
    assert_eq!(fine.status, RunStatus::Complete, "{fine:#?}");
    let lost = server.drive(&about(true), json!({ "maxAttempts": 1 })).await;
    assert_eq!(lost.status, RunStatus::Parked, "{lost:#?}");
    let reason = lost.steps[0].reason.as_ref().unwrap();
    assert!(reason.contains("is about the workspace") && reason.contains(".cw/runs/early"), "{reason}");
    server.finish().await;
}
