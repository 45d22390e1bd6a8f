//! Tokens and agents that a run is carried on with: a budget that is spent blocks and can be raised; an agent that was named
//! stays with its run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::ListRunsResult;
use flowdrive_protocol::run::{DrivePreview, DriveResult, NextAction, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, workflow};
use serde_json::json;

/// Two spellings of the same use: ten tokens.
const SNAKE: &str = r#"{"usage":{"input_tokens":6,"output_tokens":4}}"#;
const CAMEL: &str = r#"{"usage":{"inputTokens":6,"outputTokens":4}}"#;

#[tokio::test]
async fn a_spent_budget_warns_blocks_and_is_raised() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("snake", config::fixture(&ws, &["--print", SNAKE])),
        ("camel", config::fixture(&ws, &["--print", CAMEL])),
    ]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let tasks = (0..6).map(|n| task(&format!("map:{n}")).agent(if n % 2 == 0 { "snake" } else { "camel" }));
    let mut document = workflow(1, [phase("map", tasks)]);
    document["limits"]["tokenBudget"] = json!(30);
    let result = server.drive(&document, json!({})).await;
    let run = result.run_id.to_string();
    assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Blocked, 3, 0));
    let reason = result.reason.unwrap();
    assert!(reason.contains("token budget exhausted: 30 recorded tokens >= budget 30"), "{reason}");
    assert!(reason.contains(&format!("flowdrive resume {run} --token-budget")), "{reason}");
    let warnings = || {
        let events = server.lifecycle(&run).into_iter();
        events.filter_map(|event| match event.event {
            Event::BudgetWarning { spent, budget } => Some((spent, budget)),
            _ => None,
        })
    };
    assert_eq!(warnings().collect::<Vec<_>>(), [(30, 30)], "20 of 30 is not most of it yet");
    let report = fs::read_to_string(&result.report_path).unwrap();
    assert!(report.contains("30 of a budget of 30"), "{report}");

    let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
    assert_eq!(listed.runs[0].next.as_deref(), Some(&*format!("flowdrive resume {run} --token-budget N")));

    // Without more, nothing starts. `preview` says so beforehand, and what a higher budget would change.
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "runId": run }))).await;
    assert_eq!(preview.next_action, NextAction::Blocked);
    let preview: DrivePreview = server.ok("preview", server.here(json!({ "runId": run, "tokenBudget": 50 }))).await;
    assert_eq!(preview.next_action, NextAction::Dispatch);
    let again: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!((again.status, again.completed_workers), (RunStatus::Blocked, 3));
    let more: DriveResult = server.ok("resume", server.here(json!({ "runId": run, "tokenBudget": 50 }))).await;
    assert_eq!((more.status, more.completed_workers), (RunStatus::Blocked, 5));
    assert_eq!(warnings().collect::<Vec<_>>(), [(30, 30), (40, 50)]);
    // It stays raised, until it is raised again; 0 takes it away.
    let again: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert!(again.reason.unwrap().contains("budget 50"), "the raised budget is the run's from then on");
    let rest: DriveResult = server.ok("resume", server.here(json!({ "runId": run, "tokenBudget": 0 }))).await;
    assert_eq!((rest.status, rest.completed_workers), (RunStatus::Complete, 6));
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "nothing was paid twice: {:?}", ws.agent_runs());
    server.finish().await;
}

#[tokio::test]
async fn no_form_of_a_count_is_a_way_past_a_budget() {
    // However an agent writes what it used, the next does not start once that is more than the budget.
    let counts = ["40", "39.5", "\"40\"", "4e1", "9007199254740992", "18446744073709551616", "1e300", "\"1e999\""];
    let fields = ["input_tokens", "outputTokens", "prompt_tokens", "totalTokens", "total_tokens"];
    for (field, count) in counts.map(|count| (fields[0], count)).into_iter().chain(fields.map(|field| (field, "1e300")))
    {
        let ws = TestWorkspace::new();
        let says = format!(r#"{{"usage":{{"{field}":{count}}}}}"#);
        ws.configure(&config::config([("a", config::fixture(&ws, &["--print", &says]))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let document = workflow(1, [phase("map", (0..3).map(|n| task(&format!("map:{n}"))))]);
        let result = server.drive(&document, json!({ "tokenBudget": 40 })).await;
        assert_eq!((result.status, result.completed_workers), (RunStatus::Blocked, 1), "{says}: {result:#?}");
        // A higher budget goes on, and sums of absurd counts do no harm.
        let rest: DriveResult =
            server.ok("resume", server.here(json!({ "runId": result.run_id, "tokenBudget": 0 }))).await;
        assert_eq!((rest.status, rest.completed_workers), (RunStatus::Complete, 3), "{says}: {rest:#?}");
        let verified: serde_json::Value = server.ok("verifyRun", server.here(json!({ "runId": result.run_id }))).await;
        assert_eq!(verified["ok"], true, "{says}: {verified:#}");
        server.finish().await;
    }
}

#[tokio::test]
async fn what_runs_is_reserved_so_that_a_wide_window_overshoots_by_no_more_than_one() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &["--print", SNAKE]))]));
    let server = Server::start(&ws, Framing::Lsp).await;
    let warm = sequential("warm", [task("warm:up")]);
    let document = workflow(8, [warm, phase("map", (0..20).map(|n| task(&format!("map:{n}"))))]);
    let result = server.drive(&document, json!({ "tokenBudget": 45 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Blocked, 5), "{result:#?}");
    server.finish().await;
}

#[tokio::test]
async fn the_tokens_of_a_sub_workflow_count_for_its_parent() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &["--print", CAMEL]))]));
    let child = workflow(2, [phase("map", [task("map:x"), task("map:y")])]);
    ws.write(".cw/workflows/child.json", &serde_json::to_string(&child).unwrap().replace("made-for-a-test", "child"));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let nested = task("in:child").set("subWorkflow", json!({ "id": "child" }));
    let document = workflow(1, [sequential("in", [nested, task("in:after")])]);
    let result = server.drive(&document, json!({ "tokenBudget": 20 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Blocked, 1), "{result:#?}");
    assert!(result.reason.unwrap().contains("20 recorded tokens"));
    server.finish().await;
}

#[tokio::test]
async fn a_named_agent_stays_with_its_run_and_a_default_follows_the_configuration() {
    let ws = TestWorkspace::new();
    let agents = |default: &'static str, others: [&'static str; 2]| {
        let bad = |name: &str| name != "good";
        let fixture = |name: &'static str| {
            let arguments: &[&str] = if bad(name) { &["--exit", "7"] } else { &[] };
            (name, config::fixture(&ws, arguments))
        };
        ws.configure(&config::config([default].into_iter().chain(others).map(fixture)));
    };
    let used = |server: &Server, run: &str| -> Vec<String> {
        let events = server.lifecycle(run).into_iter();
        events
            .filter_map(|event| match event.event {
                Event::TaskDispatched { agent, .. } => Some(agent.to_string()),
                _ => None,
            })
            .collect()
    };
    let document = workflow(1, [phase("map", [task("map:a"), task("map:b")])]);

    // A default is only what the configuration says at the time.
    agents("bad", ["good", "worse"]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let by_default = server.drive(&document, json!({ "once": true })).await;
    let named = server.drive(&document, json!({ "once": true, "agent": "good" })).await;
    let gone = server.drive(&document, json!({ "once": true, "agent": "worse" })).await;
    server.finish().await;

    agents("good", ["bad", "other"]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let resume = async |result: &DriveResult, extra: serde_json::Value| {
        let mut fields = server.here(extra);
        fields["runId"] = json!(result.run_id);
        server.ok::<DriveResult>("resume", fields).await
    };
    assert_eq!(resume(&by_default, json!({})).await.status, RunStatus::Complete);
    assert!(used(&server, by_default.run_id.as_str()).iter().all(|agent| agent == "good"));
    // The one that was named is gone, so the default takes over.
    assert_eq!(resume(&gone, json!({})).await.status, RunStatus::Complete);
    server.finish().await;

    agents("bad", ["good", "other"]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut fields = server.here(json!({ "runId": named.run_id }));
    let preview: DrivePreview = server.ok("preview", fields.clone()).await;
    assert_eq!(preview.plan[0].tasks[1].agent.as_ref().unwrap().as_str(), "good");
    fields["once"] = json!(true);
    let resumed: DriveResult = server.ok("resume", fields.clone()).await;
    assert_eq!(used(&server, named.run_id.as_str()), ["good"], "{resumed:#?}");
    // Naming another one wins, from then on.
    let other = server.drive(&document, json!({ "once": true, "agent": "good" })).await;
    let mut fields = server.here(json!({ "runId": other.run_id, "agent": "bad" }));
    let failed: DriveResult = server.ok("resume", fields.clone()).await;
    assert_eq!(failed.status, RunStatus::Parked);
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": other.run_id }))).await;
    assert_eq!(view.tasks[1].agent.as_ref().unwrap().as_str(), "bad");
    fields["agent"] = json!("no-such-agent");
    server.err("resume", fields).await.assert_kind(flowdrive_protocol::error::ErrorKind::AgentNotConfigured);
    server.finish().await;
}
