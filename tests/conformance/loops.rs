//! Statements 72 to 81 and 134: phases that run again, and workflows inside workflows.

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StepAction};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

use crate::support::{GOOD, alone, drive, inputs, journal, names, of_type, reasons, shell, tasks, verify};

/// A workflow whose one phase loops.
fn looping(until: &Value, rounds: u32) -> Value {
    let mut round = phase("sweep", [task("sweep:t")]);
    round["loop"] = json!({ "maxRounds": rounds, "until": until });
    workflow(1, [round])
}

/// An agent that finds something in every round but for the one named.
fn finding_until(round: &str) -> flowdrive_protocol::config::AgentConfig {
    let finding = r#"{"id":"f","summary":"found","severity":"P3","evidence":["src/lib.rs:1"]}"#;
    let with = format!(
        r#"printf '```cw:result\n{{"summary":"s","findings":[{finding}],"evidence":["src/lib.rs:1"]}}\n```\n' >"$1""#
    );
    shell(&format!("if head -1 \"$2\" | grep -q '{round}$'; then {GOOD}; else {with}; fi"))
}

fn decisions(ws: &TestWorkspace, result: &DriveResult) -> Vec<(u64, bool, bool)> {
    of_type(&journal(ws, &result.run_id), "loopDecided")
        .iter()
        .map(|event| {
            let flag = |name: &str| event[name].as_bool().unwrap();
            (event["round"].as_u64().unwrap(), flag("done"), flag("atCap"))
        })
        .collect()
}

async fn tasks_of(server: &Server, result: &DriveResult) -> Vec<(String, String)> {
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
    view.tasks.iter().map(|task| (task.id.to_string(), task.phase.to_string())).collect()
}

#[tokio::test]
async fn c72_loop_ends_with_the_first_round_that_finds_nothing() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("finder", finding_until("@r3"))]));
    let result = drive(&ws, &looping(&json!({ "noNewFindings": true }), 9), json!({})).await;
    assert_eq!((result.status, result.planned_workers, result.completed_workers), (RunStatus::Complete, 1, 3));
    assert_eq!(decisions(&ws, &result), [(1, false, false), (2, false, false), (3, true, false)]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!(view.phases.len(), 3);
    server.finish().await;
}

#[tokio::test]
async fn c73_loop_that_never_ends_by_itself_ends_at_its_cap() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("finder", finding_until("@r99"))]));
    let result = drive(&ws, &looping(&json!({ "noNewFindings": true }), 2), json!({})).await;
    assert_eq!(decisions(&ws, &result), [(1, false, false), (2, true, true)]);
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 2));
}

#[tokio::test]
async fn c74_condition_nobody_knows_ends_the_loop_after_the_first_round() {
    let ws = TestWorkspace::new();
    let result = drive(&ws, &looping(&json!({ "predicate": "made-up" }), 5), json!({})).await;
    assert_eq!(decisions(&ws, &result), [(1, true, false)]);
    let event = of_type(&journal(&ws, &result.run_id), "loopDecided").remove(0);
    let reason = "loop predicate \"made-up\" not registered — stopping fail-closed";
    assert_eq!((result.status, event["reason"].as_str()), (RunStatus::Complete, Some(reason)));
}

#[tokio::test]
async fn c75_loop_ends_at_its_token_target_and_is_blocked_by_a_smaller_budget() {
    for (budget, status, rounds) in [(0, RunStatus::Complete, 3), (12, RunStatus::Blocked, 2)] {
        let ws = TestWorkspace::new();
        let report = json!({ "usage": { "input_tokens": 4, "output_tokens": 2 } }).to_string();
        ws.configure(&config::config([("priced", config::fixture(&ws, &["--print", &report]))]));
        let mut document = looping(&json!({ "budgetTarget": 18 }), 9);
        document["limits"]["tokenBudget"] = json!(budget);
        let result = drive(&ws, &document, json!({})).await;
        assert_eq!((result.status, result.completed_workers), (status, rounds), "{result:#?}");
        assert_eq!(decisions(&ws, &result).len(), rounds as usize);
    }
}

#[tokio::test]
async fn c76_tasks_of_a_round_are_named_after_the_first_rounds() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("finder", finding_until("@r3"))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&looping(&json!({ "noNewFindings": true }), 9), json!({})).await;
    let expected = [("sweep:t", "sweep"), ("sweep:t@r2", "sweep@r2"), ("sweep:t@r3", "sweep@r3")];
    let expected = expected.map(|(task, phase)| (task.to_owned(), phase.to_owned()));
    assert_eq!(tasks_of(&server, &result).await, expected);
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
    assert!(view.phases[2].title.contains("(round 3)"), "{:?}", view.phases);
    assert!(inputs(&ws, &result.run_id, "sweep:t@r3")[0].contains("task-marker=sweep:t"), "the same prompt");
    server.finish().await;
}

#[tokio::test]
async fn c77_decision_is_written_with_the_acceptance_that_leads_to_it() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("finder", finding_until("@r3"))]));
    let document = looping(&json!({ "noNewFindings": true }), 9);
    let mut reasons = Vec::new();
    // Another time, the same decisions.
    for _ in 0..2 {
        let result = drive(&ws, &document, json!({})).await;
        let events = journal(&ws, &result.run_id);
        for (at, event) in events.iter().enumerate().filter(|(_, event)| event["type"] == "loopDecided") {
            assert_eq!(events[at - 1]["type"], "taskAccepted", "{event:#}");
        }
        reasons.push(of_type(&events, "loopDecided"));
    }
    assert_eq!(reasons[0], reasons[1]);
}

/// Writes a workflow of one task that is the workflow named, or none.
fn write_level(ws: &TestWorkspace, id: &str, below: Option<&str>) {
    let inner = match below {
        Some(below) => task("t").set("subWorkflow", json!({ "id": below })),
        None => task("t"),
    };
    let mut document = alone(inner);
    document["id"] = json!(id);
    ws.write(&format!(".cw/workflows/{id}.json"), &document.to_string());
}

#[tokio::test]
async fn c78_workflow_inside_itself_or_too_deep_is_refused_before_anything_is_made() {
    let ws = TestWorkspace::new();
    write_level(&ws, "selfish", Some("selfish"));
    write_level(&ws, "ping", Some("pong"));
    write_level(&ws, "pong", Some("ping"));
    for level in 0..6 {
        write_level(&ws, &format!("level-{level}"), (level < 5).then(|| format!("level-{}", level + 1)).as_deref());
    }
    let server = Server::start(&ws, Framing::Ndjson).await;
    for (id, words) in [("selfish", "cycle"), ("ping", "cycle"), ("level-0", "depth limit exceeded (> 4)")] {
        let error = server.err("drive", server.here(json!({ "workflow": { "id": id } }))).await;
        error.assert_kind(ErrorKind::WorkflowInvalid);
        assert!(error.message.contains(words), "{id}: {error:?}");
    }
    assert!(!ws.path().join(".cw/runs").exists(), "a run was made");
    // What is just deep enough is driven to its end.
    let result: DriveResult = server.ok("drive", server.here(json!({ "workflow": { "id": "level-2" } }))).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    server.finish().await;
}

#[tokio::test]
async fn c79_result_of_a_sub_workflow_is_judged_like_any_other_and_both_records_add_up() {
    for (kind, status) in [("good", RunStatus::Complete), ("no-evidence", RunStatus::Parked)] {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("agent", config::fixture(&ws, &["--kind", kind]))]));
        // A verdict that cites something, or a report that holds nothing to cite.
        let (verdict, bind) = if kind == "good" { ("verdict:in", "verdict-result") } else { ("in", "report") };
        let mut inner = alone(task(verdict));
        inner["id"] = json!("inner");
        ws.write(".cw/workflows/inner.json", &inner.to_string());
        let bound = json!({ "id": "inner", "bindResult": bind });
        let server = Server::start(&ws, Framing::Ndjson).await;
        let nested = task("map:nested").needs_evidence().set("subWorkflow", bound);
        let result = server.drive(&alone(nested), json!({ "maxAttempts": 1 })).await;
        assert_eq!(result.status, status, "{}", reasons(&result));
        let runs = names(&ws.path().join(".cw/runs"));
        let child = runs.iter().find(|name| name.starts_with("sub-")).unwrap();
        assert!(child.starts_with(&format!("sub-{}-", result.run_id)), "{child}");
        if status == RunStatus::Complete {
            let accepted = result.steps.iter().find(|step| step.action == StepAction::Accept).unwrap();
            assert_eq!(accepted.handle_kind.as_deref(), Some("sub-workflow"));
        } else {
            assert!(reasons(&result).contains("sub-workflow result rejected by parent gate"), "{}", reasons(&result));
        }
        for run in runs {
            assert!(verify(&server, &run).await.ok, "{run}");
        }
        server.finish().await;
    }
}

#[tokio::test]
async fn c80_child_that_ends_parked_or_blocked_fails_its_task_with_that_status() {
    for (agent, status) in [("failing", "parked"), ("nobody", "blocked")] {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("failing", shell("exit 7"))]));
        let mut inner = alone(task("inner:a").agent(agent));
        inner["id"] = json!("inner");
        ws.write(".cw/workflows/inner.json", &inner.to_string());
        let nested = task("map:nested").set("subWorkflow", json!({ "id": "inner" }));
        let result = drive(&ws, &alone(nested), json!({ "maxAttempts": 1 })).await;
        assert_eq!((result.status, &result.commit_id), (RunStatus::Parked, &None));
        let words = format!("sub-workflow inner did not complete (status: {status})");
        assert!(reasons(&result).contains(&words), "{}", reasons(&result));
    }
}

#[tokio::test]
async fn c81_input_the_parent_does_not_have_becomes_nothing() {
    let ws = TestWorkspace::new();
    let mut inner = alone(task("inner:a").set("prompt", "Say [{{word}}] task-marker=inner:a"));
    inner["id"] = json!("inner");
    inner["inputs"] = json!({ "word": { "type": "string", "default": "unused" } });
    ws.write(".cw/workflows/inner.json", &inner.to_string());
    let sub = json!({ "id": "inner", "inputs": { "word": "<{{nobody}}|{{question}}>" } });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&alone(task("map:nested").set("subWorkflow", sub)), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    let child = names(&ws.path().join(".cw/runs")).into_iter().find(|name| name.starts_with("sub-")).unwrap();
    assert!(inputs(&ws, &child, "inner:a")[0].contains("Say [<|how this works>]"));
    server.finish().await;
}

#[tokio::test]
async fn h134_two_plain_siblings_and_a_sub_workflow_are_all_completed_on_disk() {
    let ws = TestWorkspace::new();
    let mut inner = workflow(2, [phase("map", tasks(3))]);
    inner["id"] = json!("inner");
    ws.write(".cw/workflows/inner.json", &inner.to_string());
    let nested = task("out:nested").set("subWorkflow", json!({ "id": "inner" }));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(3, [phase("out", [task("out:a"), nested, task("out:b")])]), json!({})).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 3), "{}", reasons(&result));
    let state = &ws.state(&result.run_id)["state"]["state"];
    let done: Vec<&str> = state["tasks"].as_array().unwrap().iter().map(|t| t["status"].as_str().unwrap()).collect();
    assert_eq!(done, ["completed"; 3]);
    // The child told its own story under its own id; none of it is in the parent's.
    let parents = server.lifecycle(result.run_id.as_str());
    assert!(
        parents
            .iter()
            .all(|e| !matches!(&e.event, Event::TaskAccepted { task_id, .. } if task_id.as_str().starts_with("map:")))
    );
    server.finish().await;
}
