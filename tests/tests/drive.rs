//! The main job: a workflow is driven to its end, told step by step, and leaves a report that can be trusted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StepAction, StepStatus, TaskStatus};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, wait, workflow};
use serde_json::{Value, json};

/// Lifecycle events are numbered 1, 2, 3 ...; activity carries the number before it.
fn assert_numbered(events: &[ProgressEvent]) {
    let mut last = 0;
    for event in events {
        let expected = if event.event.is_lifecycle() { last + 1 } else { last };
        assert_eq!(event.seq, expected, "after {last} came {event:?}");
        last = event.seq;
    }
}

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
    for id in ["quick-survey", "research-synthesis"] {
        let params = json!({
            "workflow": { "id": id },
            "inputs": { "question": "How is a run stored?" },
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
async fn a_run_that_is_not_there_is_refused_and_leaves_no_trace() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Lsp).await;
    let before = ws.snapshot();
    let feedback = json!({ "runId": "missing-run", "feedbackId": "f-1", "resolution": "rejected" });
    for (method, params) in [
        ("resume", json!({ "runId": "missing-run" })),
        ("drive", json!({ "runId": "missing-run" })),
        ("preview", json!({ "runId": "missing-run" })),
        ("showRun", json!({ "runId": "missing-run" })),
        ("listFeedback", json!({ "runId": "missing-run" })),
        ("verifyRun", json!({ "runId": "missing-run" })),
        ("stop", json!({ "runId": "missing-run" })),
        ("resolveFeedback", feedback),
    ] {
        let error = server.err(method, server.here(params)).await;
        error.assert_kind(ErrorKind::RunNotFound);
        assert!(error.message.contains("missing-run"), "{method}: {error:?}");
    }
    flowdrive_tests::tree::assert_same(&before, &ws.snapshot(), "after asking for a run that is not there");
    server.finish().await;
}

#[tokio::test]
async fn what_cannot_be_planned_is_refused_with_its_place_and_leaves_no_trace() {
    let ws = TestWorkspace::new();
    let broken = ws.write("broken.toml", "schemaVersion = 1\nid = \"broken\"\ntitle = \"Broken\"\nphases = 7\n");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let before = ws.snapshot();

    let error = server.err("drive", server.here(json!({ "workflow": { "path": "broken.toml" } }))).await;
    let place = error.assert_kind(ErrorKind::WorkflowInvalid);
    assert_eq!((place.file.as_deref(), place.line), (broken.to_str(), Some(4)), "{error:?}");

    let twice = workflow(1, [phase("map", [task("map:a"), task("map:a")])]);
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": twice } }))).await;
    assert_eq!(
        error.assert_kind(ErrorKind::WorkflowInvalid).field.as_deref(),
        Some("phases[0].tasks[1].id"),
        "{error:?}"
    );

    let error = server.err("drive", server.here(json!({ "workflow": { "id": "no-such-workflow" } }))).await;
    assert!(error.message.contains("no-such-workflow"), "{error:?}");
    error.assert_kind(ErrorKind::WorkflowInvalid);

    let missing = json!({ "workflow": { "id": "quick-survey" } });
    let error = server.err("drive", server.here(missing)).await;
    assert!(error.message.contains("question"), "the missing input is named: {error:?}");

    let elsewhere = json!({ "workspace": ws.beside("nowhere"), "workflow": { "id": "quick-survey" }, "inputs": { "question": "x" } });
    server.err("drive", elsewhere).await.assert_kind(ErrorKind::WorkspaceInvalid);

    let unknown = workflow(1, [phase("map", [task("map:a").agent("nobody")])]);
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": unknown } }))).await;
    error.assert_kind(ErrorKind::AgentNotConfigured);
    assert!(error.message.contains("nobody"), "{error:?}");

    flowdrive_tests::tree::assert_same(&before, &ws.snapshot(), "after workflows that could not be planned");
    assert!(ws.agent_runs().is_empty());
    server.finish().await;
}

#[tokio::test]
async fn a_workspace_cannot_say_what_an_agent_is() {
    let ws = TestWorkspace::new();
    let ran = ws.beside("ran");
    ws.write(".cw/config.toml", &format!("defaultAgent = \"evil\"\n[agents.evil]\ncommand = [\"touch\", \"{ran}\"]\n"));
    ws.write("flowdrive/config.toml", &format!("[agents.good]\ncommand = [\"touch\", \"{ran}\"]\n"));
    let mut document = workflow(1, [phase("map", [task("map:a")])]);
    document["agents"] = json!({ "evil": { "command": ["touch", ran] } });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": document } }))).await;
    error.assert_kind(ErrorKind::WorkflowInvalid);
    let evil = workflow(1, [phase("map", [task("map:a").agent("evil")])]);
    let error = server.err("drive", server.here(json!({ "workflow": { "inline": evil } }))).await;
    error.assert_kind(ErrorKind::AgentNotConfigured);
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert!(!Path::new(&ran).exists(), "a command from the workspace was run");
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
async fn a_secret_of_the_server_reaches_neither_the_record_nor_an_agent_that_was_not_given_it() {
    let ws = TestWorkspace::new();
    let seen = ws.beside("environment");
    let secret = "sk-made-up-for-tests-0123456789abcdefghij";
    let agent = config::fixture(&ws, &["--write-env", &seen, "--cite", CITE, "--print", secret]);
    ws.configure(&config::config([("curious", agent)]));
    let server = Server::builder(&ws, Framing::Ndjson)
        .env("MADE_UP_CANARY", "made-up-canary-value")
        .env("CW_WORKBENCH_TOKEN", "made-up-never-forwarded")
        .env("ANTHROPIC_API_KEY", "made-up-provider-key")
        .env("RUST_LOG", "trace")
        .start()
        .await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let environment = fs::read_to_string(&seen).unwrap();
    assert!(!environment.contains("made-up-canary-value") && !environment.contains("made-up-never-forwarded"));
    assert!(environment.contains("ANTHROPIC_API_KEY=made-up-provider-key"), "provider variables are passed on");
    let log = server.log();
    let said = server.finish().await.iter().map(Value::to_string).collect::<String>();
    for (what, text) in [("the log", log), ("the conversation", said)] {
        assert!(!text.contains(secret), "{what} holds a secret an agent printed");
        assert!(!text.contains("made-up-provider-key"), "{what} holds a provider key");
    }
    for (path, entry) in ws.snapshot() {
        if matches!(entry, flowdrive_tests::tree::Entry::File(..)) {
            let text = fs::read(ws.path().join(&path)).unwrap();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains("made-up-provider-key"), "{} holds a provider key", path.display());
        }
    }
}
