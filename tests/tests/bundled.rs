//! The workflows that come with the program, driven by the agent that comes with it, over real sources.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, TaskStatus};
use flowdrive_tests::events::assert_numbered;
use flowdrive_tests::{Framing, Server, TestWorkspace};
use serde_json::{Value, json};

/// Every place a run's findings and evidence cite exists in the workspace. Returns how many there are.
fn assert_cited_places_exist(ws: &TestWorkspace, view: &RunView) -> usize {
    let mut places = 0;
    for evidence in view.tasks.iter().flat_map(|task| &task.findings).flat_map(|finding| &finding.evidence) {
        let Some(path) = &evidence.path else { continue };
        let text = fs::read_to_string(ws.path().join(path))
            .unwrap_or_else(|error| panic!("{} is cited: {error}", evidence.locator));
        let lines = text.lines().count();
        for line in [evidence.line, evidence.end_line].into_iter().flatten() {
            assert!(line >= 1 && line as usize <= lines, "{}: the file has {lines} lines", evidence.locator);
        }
        places += usize::from(evidence.line.is_some());
    }
    places
}

/// Every local link of the report leads to a file, and to a line of it where it names one. Returns the places with lines.
fn assert_links_lead_somewhere(report: &Path) -> usize {
    let text = fs::read_to_string(report).unwrap();
    let mut places = BTreeSet::new();
    for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
        let target = rest.split(')').next().unwrap().trim_matches(['<', '>']);
        if target.contains("://") || target.starts_with('#') {
            continue;
        }
        let (path, line) = target.split_once("#L").map_or((target, None), |(path, line)| (path, Some(line)));
        let file = report.parent().unwrap().join(path.replace("%20", " "));
        assert!(file.exists(), "the report links to {target}, that is {}, which is not there", file.display());
        if let Some(line) = line {
            let line: usize = line.split('-').next().unwrap().parse().unwrap();
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(line >= 1 && line <= lines, "{target}: the file has {lines} lines");
            places.insert(target.to_owned());
        }
    }
    places.len()
}

#[tokio::test]
async fn architecture_review_of_this_repository_with_the_embedded_agent() {
    let ws = TestWorkspace::copy_of_repository();
    let server = Server::start(&ws, Framing::Lsp).await;
    let params = json!({
        "workflow": { "id": "architecture-review" },
        "inputs": { "question": "How are runs stored?" },
        "agent": "builtin:survey",
        "workDoneToken": "review",
    });
    let result: DriveResult = server.ok("drive", server.here(params)).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    assert_eq!(result.workflow_id.as_str(), "architecture-review");
    assert_eq!((result.completed_workers, result.parked_workers), (result.planned_workers, 0));
    assert!(result.planned_workers >= 14, "six to map, six to assess, verify, verdict: {}", result.planned_workers);
    assert!(result.commit_id.is_some(), "a complete run is committed");

    let run = result.run_id.as_str();
    let events = server.lifecycle(run);
    assert_numbered(&server.events());
    assert!(matches!(events.first().map(|e| &e.event), Some(Event::RunStarted { resumed: false, .. })), "{events:#?}");
    assert!(
        matches!(events.last().map(|e| &e.event), Some(Event::RunFinished { status: RunStatus::Complete, .. })),
        "{events:#?}"
    );
    let accepted = events.iter().filter(|event| matches!(event.event, Event::TaskAccepted { .. })).count();
    assert_eq!(accepted, result.planned_workers as usize);

    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert!(view.tasks.iter().all(|task| task.status == TaskStatus::Completed));
    assert!(assert_cited_places_exist(&ws, &view) > 0, "the run cites nothing: {view:#?}");
    assert!(assert_links_lead_somewhere(Path::new(&result.report_path)) > 0, "the report cites nothing");
    assert!(Path::new(&result.state_path).is_file());

    let messages = server.finish().await;
    assert_progress(&messages, "review");
}

/// `$/progress` of a token: begin, reports with percentages that never fall, end.
fn assert_progress(messages: &[Value], token: &str) {
    let values: Vec<&Value> = messages
        .iter()
        .filter(|message| message["method"] == "$/progress" && message["params"]["token"] == token)
        .map(|message| &message["params"]["value"])
        .collect();
    assert_eq!(values.first().map(|value| &value["kind"]), Some(&json!("begin")), "{values:?}");
    assert_eq!(values.last().map(|value| &value["kind"]), Some(&json!("end")), "{values:?}");
    let inner = &values[1..values.len() - 1];
    assert!(inner.iter().all(|value| value["kind"] == "report"), "{values:?}");
    let percentages: Vec<u64> = values.iter().filter_map(|value| value["percentage"].as_u64()).collect();
    assert!(percentages.is_sorted() && percentages.iter().all(|p| *p <= 100), "{percentages:?}");
}

#[tokio::test]
async fn the_other_bundled_workflows_complete_too() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let workflows: Value = server.ok("listWorkflows", server.here(json!({}))).await;
    let ids: Vec<&str> = workflows["workflows"].as_array().unwrap().iter().filter_map(|w| w["id"].as_str()).collect();
    for id in ["quick-survey", "architecture-review", "research-synthesis"] {
        assert!(ids.contains(&id), "{id} is not in {ids:?}");
    }
    ws.write("papers/one.md", "# Storing runs\n\nA run is stored as a journal.\n");
    let question = "How is a run stored?";
    for (id, inputs) in [
        ("quick-survey", json!({ "question": question })),
        ("research-synthesis", json!({ "question": question, "folder": "papers" })),
    ] {
        let params = json!({
            "workflow": { "id": id },
            "inputs": inputs,
            "agent": "builtin:survey",
        });
        let result: DriveResult = server.ok("drive", server.here(params)).await;
        assert_eq!(result.status, RunStatus::Complete, "{id}: {result:#?}");
        let view: RunView = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
        assert!(assert_cited_places_exist(&ws, &view) > 0, "{id} cites nothing");
    }
    server.finish().await;
}

#[tokio::test]
async fn the_embedded_agent_gives_the_same_result_every_time() {
    let ws = TestWorkspace::new();
    ws.write(".gitignore", "secret.rs\n");
    ws.write("secret.rs", "// a run is stored here, but nobody may say so\n");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut results = Vec::new();
    for _ in 0..2 {
        let params = json!({
            "workflow": { "id": "quick-survey" },
            "inputs": { "question": "Where is a run stored?" },
            "agent": "builtin:survey",
        });
        let result: DriveResult = server.ok("drive", server.here(params)).await;
        assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
        let view: RunView = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
        let found: Vec<_> = view.tasks.iter().map(|task| (&task.id, &task.summary, &task.findings)).collect();
        let found = format!("{found:#?}");
        assert!(!found.contains("secret.rs"), "what git ignores is not cited: {found}");
        results.push(found);
    }
    assert_eq!(results[0], results[1]);
    server.finish().await;
}

#[tokio::test]
async fn an_empty_folder_is_told_to_hold_nothing_to_search() {
    let ws = TestWorkspace::new();
    for entry in fs::read_dir(ws.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { fs::remove_dir_all(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = json!({ "workflow": { "id": "quick-survey" }, "inputs": { "question": "Where is it?" },
        "agent": "builtin:survey", "maxAttempts": 1 });
    let id = server.send("drive", server.here(params)).await;
    let result: DriveResult = server.result(id).await;
    assert_eq!(result.status, RunStatus::Parked);
    let reason = result.steps[0].reason.as_ref().unwrap();
    assert!(reason.contains("has nothing to search"), "{reason}");
    server.finish().await;
}
