//! Statements 48 to 62: what a drive does next, how many at once, and what a failed attempt leads to.

use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{DriveResult, RunStatus, StepAction, StepStatus, TaskStatus};
use flowdrive_tests::ledger::{self, peak};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, wait, workflow};
use serde_json::{Value, json};

use crate::support::{
    GOOD, alone, argv, drive, inputs, journal, limited, of_type, reasons, resume, shell, steps, tasks, views, workers,
};

#[tokio::test]
async fn b48_unconfigured_agent_blocks_and_nothing_is_made() {
    let ws = TestWorkspace::new();
    let result = drive(&ws, &alone(task("map:0").agent("nobody")), json!({})).await;
    assert_eq!((result.status, result.completed_workers, result.commit_id.as_ref()), (RunStatus::Blocked, 0, None));
    assert!(!result.agent_configured);
    let last = result.steps.last().unwrap();
    assert_eq!((last.action, last.status), (StepAction::Blocked, StepStatus::Blocked));
    let words = "refusing rather than fabricating a completion";
    assert!(last.reason.as_deref().unwrap().contains(words), "{last:?}");
    assert_eq!(views(&ws, &result.run_id).await[0].status, TaskStatus::Pending);
    assert_eq!(workers(&ws, &result.run_id), Vec::<String>::new());
}

#[tokio::test]
async fn b49_once_does_one_task_of_two_and_does_not_commit() {
    let ws = TestWorkspace::new();
    let result = drive(&ws, &workflow(1, [sequential("map", tasks(2))]), json!({ "once": true })).await;
    assert_eq!((result.status, result.completed_workers, result.commit_id), (RunStatus::InProgress, 1, None));
    assert_eq!(ws.agent_runs(), [("map:0".to_owned(), 1)].into());
}

#[tokio::test]
async fn b50_once_on_a_finished_run_is_complete() {
    let ws = TestWorkspace::new();
    let run = drive(&ws, &alone(task("map:0")), json!({})).await.run_id;
    let again = resume(&ws, &run, json!({ "once": true })).await;
    assert_eq!((again.status, again.completed_workers), (RunStatus::Complete, 1));
}

#[tokio::test]
async fn b51_run_without_tasks_is_committed_and_complete() {
    let ws = TestWorkspace::new();
    for phases in [vec![], vec![phase("empty", [])]] {
        let result = drive(&ws, &workflow(1, phases), json!({})).await;
        assert_eq!((result.status, result.planned_workers), (RunStatus::Complete, 0), "{result:#?}");
        assert!(result.commit_id.is_some());
        assert_eq!(of_type(&journal(&ws, &result.run_id), "committed").len(), 1);
    }
}

#[tokio::test]
async fn b52_third_failure_parks_with_the_count_in_its_reason() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("failing", shell("exit 7"))]));
    let result = drive(&ws, &alone(task("map:0")), json!({})).await;
    assert_eq!((result.status, result.parked_workers), (RunStatus::Parked, 1));
    let told: Vec<(StepAction, StepStatus, Option<u32>)> =
        result.steps.iter().map(|step| (step.action, step.status, step.attempts)).collect();
    assert_eq!(
        told,
        [
            (StepAction::Fulfill, StepStatus::Failed, Some(1)),
            (StepAction::Fulfill, StepStatus::Failed, Some(2)),
            (StepAction::Park, StepStatus::Parked, Some(3)),
        ]
    );
    assert_eq!(result.steps[0].reason.as_deref(), Some("agent hop failed: map:0: failed (exit 7)"));
    assert!(result.steps[2].reason.as_deref().unwrap().ends_with("(attempt 3/3)"), "{:?}", result.steps);
}

#[tokio::test]
async fn b53_attempts_are_counted_across_processes() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("failing", shell("exit 7"))]));
    let run = drive(&ws, &alone(task("map:0")), json!({ "once": true })).await.run_id;
    resume(&ws, &run, json!({ "once": true })).await;
    let last = resume(&ws, &run, json!({})).await;
    let parks = steps(&last, StepAction::Park);
    assert_eq!((last.status, last.steps.len(), parks[0].attempts), (RunStatus::Parked, 1, Some(3)), "{last:#?}");
}

#[tokio::test]
async fn b54_refused_result_is_tried_again_and_the_next_attempt_is_told_why() {
    for (kind, words) in
        [("bad-json", "Invalid cw:result JSON"), ("no-evidence", "requires grounded cw:result evidence")]
    {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("bad", config::fixture(&ws, &["--kind", kind, "--good-when", words]))]));
        let result = drive(&ws, &alone(task("map:0").needs_evidence()), json!({})).await;
        assert_eq!((result.status, ws.agent_runs()["map:0"]), (RunStatus::Complete, 2), "{result:#?}");
        assert!(steps(&result, StepAction::Fulfill)[0].reason.as_deref().unwrap().contains(words));
        assert!(inputs(&ws, &result.run_id, "map:0")[1].contains(words));
    }
}

#[tokio::test]
async fn b55_of_sixteen_with_a_hang_a_crash_and_a_dirty_result_thirteen_are_accepted() {
    let ws = TestWorkspace::new();
    let hanging = limited(config::fixture(&ws, &["--gate", &ws.beside("never")]), 1_500);
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &[])),
        ("hanging", hanging),
        ("crashing", shell("kill -SEGV $$")),
        ("dirty", config::fixture(&ws, &["--kind", "bad-json"])),
    ]));
    let agents = [(2, "hanging"), (7, "crashing"), (11, "dirty")];
    let all = (0..16).map(|n| {
        let special = agents.iter().find(|(place, _)| *place == n).map_or("good", |(_, agent)| agent);
        task(&format!("map:{n}")).agent(special)
    });
    let result = drive(&ws, &workflow(16, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 13, 3));
    let order: Vec<String> = result.steps.iter().filter_map(|step| Some(step.task_id.as_ref()?.to_string())).collect();
    assert_eq!(order, (0..16).map(|n| format!("map:{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn b56_parked_task_stops_neither_its_siblings_nor_any_but_later_phases() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("failing", shell("exit 7"))]));
    let mut all = tasks(6);
    all[0] = task("map:0").agent("failing");
    let document = workflow(2, [phase("map", all), phase("later", [task("later:a")])]);
    let result = drive(&ws, &document, json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 5, 1));
    assert!(!ws.agent_runs().contains_key("later:a"));
}

#[tokio::test]
async fn b57_explicit_width_wins_over_the_workflows_and_without_one_that_holds() {
    let ws = TestWorkspace::new();
    let meet = format!("8:{}", ws.beside("meeting"));
    ws.configure(&config::config([("sociable", config::fixture(&ws, &["--meet", &meet]))]));
    // Eight who wait for each other would never end with fewer at once.
    let result = drive(&ws, &workflow(2, [phase("map", tasks(8))]), json!({ "concurrency": 8 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 8));

    let ws = TestWorkspace::new();
    ws.configure(&config::config([("slow", config::fixture(&ws, &["--sleep-ms", "40"]))]));
    drive(&ws, &workflow(2, [phase("map", tasks(8))]), json!({})).await;
    assert!(peak(&ledger::spans(&ws.ledger())) <= 2, "the workflow's own width was exceeded");
}

#[tokio::test]
async fn b57_width_is_a_number_also_as_a_word_of_the_command_line() {
    let ws = TestWorkspace::new();
    let meet = format!("8:{}", ws.beside("meeting"));
    ws.configure(&config::config([("sociable", config::fixture(&ws, &["--meet", &meet]))]));
    ws.write("eight.json", &workflow(2, [phase("map", tasks(8))]).to_string());
    let mut command = ws.flowdrive(&["drive", "eight.json", "--concurrency", "8", "--json", "--config"]);
    let output = command.arg(ws.config_file()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // In JSON a number is a number; a word in its place is a mistake of the client's, and is said to be one.
    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = json!({ "workflow": { "path": "eight.json" }, "concurrency": "8" });
    assert_eq!(server.err("drive", server.here(params)).await.code, -32602);
    server.finish().await;
}

#[tokio::test]
async fn b58_explicit_width_of_one_is_one_also_in_a_parallel_phase() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("slow", config::fixture(&ws, &["--sleep-ms", "30"]))]));
    let result = drive(&ws, &workflow(4, [phase("map", tasks(4))]), json!({ "concurrency": 1 })).await;
    assert_eq!((result.status, peak(&ledger::spans(&ws.ledger()))), (RunStatus::Complete, 1));
}

#[tokio::test]
async fn b59_window_of_two_takes_the_third_task_when_a_slot_is_free_and_commits_once() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("quick", config::fixture(&ws, &[])), ("gated", gated)]));
    let all = [task("map:0").agent("gated"), task("map:1"), task("map:2")];
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(2, [phase("map", all)]), json!({})).await;
    server.wait_events("both quick ones", 2, |e| matches!(e, Event::TaskAccepted { .. })).await;
    assert_eq!(of_type(&journal(&ws, &run), "committed"), Vec::<Value>::new());
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    let commits = of_type(&journal(&ws, &run), "committed");
    assert_eq!((commits.len(), commits[0]["commit"]["id"].as_str()), (1, Some("state-0001")));
    server.finish().await;
}

#[tokio::test]
async fn b60_steps_and_state_are_the_same_whoever_ends_first() {
    let mut found = Vec::new();
    for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
        let ws = TestWorkspace::new();
        // Each waits for a file of its own, and the files come in this order.
        let script = format!(
            "t=$(sed -n '1s/.*map://p' \"$2\"); while ! [ -e \"{}-$t\" ]; do sleep 0.01; done; {GOOD}",
            ws.beside("go")
        );
        ws.configure(&config::config([("waiting", shell(&script))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let document = workflow(4, [phase("map", tasks(4))]);
        let (request, run) = server.start_drive(&document, json!({ "runId": "the-run" })).await;
        for (count, n) in order.iter().enumerate() {
            ws.open_gate(&format!("go-{n}"));
            server.wait_events("its acceptance", count + 1, |e| matches!(e, Event::TaskAccepted { .. })).await;
        }
        let result: DriveResult = server.result(request).await;
        server.finish().await;
        let arrived: Vec<Value> =
            of_type(&journal(&ws, &run), "taskAccepted").iter().map(|e| e["task"].clone()).collect();
        let steps = json!(result.steps);
        let state = without_times(ws.state(&run)["state"]["state"].clone(), &ws);
        found.push((arrived, steps, state));
    }
    assert_ne!(found[0].0, found[1].0, "they did end in another order");
    assert_eq!(found[0].1, found[1].1);
    assert_eq!(found[0].2, found[1].2);
}

/// A state without what has to differ: times, processes, and where the workspace is.
fn without_times(mut state: Value, ws: &TestWorkspace) -> Value {
    fn clear(value: &mut Value, root: &str) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    let name = name.to_lowercase();
                    !name.ends_with("at")
                        && !["process", "marker", "invocation", "promptdigest"].contains(&name.as_str())
                });
                fields.values_mut().for_each(|value| clear(value, root));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| clear(value, root)),
            Value::String(text) => *text = text.replace(root, "ROOT"),
            _ => {}
        }
    }
    clear(&mut state, ws.root().to_str().unwrap());
    state
}

#[tokio::test]
async fn b61_interrupted_task_is_started_before_any_that_only_waits() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("quick", config::fixture(&ws, &[])), ("gated", gated)]));
    let all = [task("map:0").agent("gated"), task("map:1"), task("map:2").agent("gated"), task("map:3"), task("map:4")];
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let (_, run) = server.start_drive(&workflow(2, [phase("map", all)]), json!({})).await;
    wait::until("the gated two to run", || (ws.agent_runs().len() == 3).then_some(())).await;
    server.kill().await;
    let before = of_type(&journal(&ws, &run), "taskDispatched").len();
    ws.open_gate("gate");
    assert_eq!(resume(&ws, &run, json!({ "concurrency": 1 })).await.status, RunStatus::Complete);
    let started: Vec<String> = of_type(&journal(&ws, &run), "taskDispatched")[before..]
        .iter()
        .map(|event| event["task"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(started, ["map:0", "map:2", "map:3", "map:4"]);
}

#[tokio::test]
async fn b62_spent_token_budget_blocks_before_the_next_agent() {
    let reports = [
        (json!({ "inputTokens": 7, "outputTokens": 5 }), 12, RunStatus::Blocked),
        (json!({ "input_tokens": 7, "output_tokens": 5 }), 12, RunStatus::Blocked),
        // A total wins over the sum of its parts, in both directions.
        (json!({ "totalTokens": 12, "inputTokens": 1, "outputTokens": 1 }), 12, RunStatus::Blocked),
        (json!({ "total_tokens": 3, "input_tokens": 100, "output_tokens": 100 }), 12, RunStatus::Complete),
        (json!({ "inputTokens": 700, "outputTokens": 500 }), 0, RunStatus::Complete),
    ];
    for (usage, budget, expected) in reports {
        let ws = TestWorkspace::new();
        let report = json!({ "model": "made-up", "usage": usage }).to_string();
        ws.configure(&config::config([("priced", config::fixture(&ws, &["--print", &report]))]));
        let mut document = workflow(1, [sequential("map", tasks(3))]);
        document["limits"]["tokenBudget"] = json!(budget);
        let result = drive(&ws, &document, json!({})).await;
        assert_eq!(result.status, expected, "{usage} with a budget of {budget}: {result:#?}");
        if expected == RunStatus::Blocked {
            assert_eq!((result.completed_workers, ws.agent_runs().len()), (1, 1));
            let words = "token budget exhausted: 12 recorded tokens >= budget 12";
            assert!(reasons(&result).contains(words), "{}", reasons(&result));
        }
    }
}

#[tokio::test]
async fn b62_without_a_budget_nothing_is_counted_against_it() {
    let ws = TestWorkspace::new();
    let report = json!({ "usage": { "totalTokens": 1_000_000_000 } }).to_string();
    ws.configure(&config::config([(
        "priced",
        argv(&["/bin/sh", "-c", &format!("echo '{report}'; {GOOD}"), "x", "{{result}}"]),
    )]));
    let result = drive(&ws, &workflow(1, [sequential("map", tasks(3))]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
}
