//! The window: how many agents are in flight at once, of both kinds together, and that the record does not depend on
//! who ends first.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{DriveResult, RunStatus, StepAction};
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::ledger::{self, peak};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

fn tasks(count: usize) -> Vec<flowdrive_tests::workflow::Task> {
    (0..count).map(|n| task(&format!("map:{n}"))).collect()
}

#[tokio::test]
async fn command_and_endpoint_agents_are_in_flight_together() {
    let ws = TestWorkspace::new();
    let endpoint = EndpointServer::good(CITE, Duration::from_secs(2)).await;
    ws.configure(&config::config([
        ("program", config::fixture(&ws, &["--sleep-ms", "2000"])),
        ("remote", config::endpoint(endpoint.url())),
    ]));
    let mixed = (0..8).map(|n| task(&format!("map:{n}")).agent(if n % 2 == 0 { "program" } else { "remote" }));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(8, [phase("map", mixed)]), json!({ "concurrency": 8 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let kinds = |kind| result.steps.iter().filter(|step| step.handle_kind.as_deref() == Some(kind)).count();
    assert!(kinds("process") >= 4 && kinds("endpoint") >= 4, "{:#?}", result.steps);

    let mut spans = ledger::spans(&ws.ledger());
    spans.extend(endpoint.exchanges().iter().map(|exchange| exchange.span));
    assert_eq!((spans.len(), peak(&spans)), (8, 8), "all eight share a moment: {spans:?}");
    server.finish().await;
}

#[tokio::test]
async fn an_explicit_width_wins_over_the_workflow_limit() {
    let ws = TestWorkspace::new();
    // Each agent waits for five others: with fewer than six at once, the run would never end.
    let meet = format!("6:{}", ws.beside("meeting"));
    ws.configure(&config::config([("sociable", config::fixture(&ws, &["--meet", &meet]))]));
    let server = Server::start(&ws, Framing::Lsp).await;
    let result = server.drive(&workflow(2, [phase("map", tasks(6))]), json!({ "concurrency": 6 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 6));
    server.finish().await;
}

#[tokio::test]
async fn an_explicit_width_of_one_is_one_also_in_a_parallel_phase() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("slow", config::fixture(&ws, &["--sleep-ms", "50"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(4, [phase("map", tasks(5))]), json!({ "concurrency": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete);
    let spans = ledger::spans(&ws.ledger());
    assert_eq!((spans.len(), peak(&spans)), (5, 1), "{spans:?}");
    server.finish().await;
}

#[tokio::test]
async fn without_a_width_the_workflow_limit_holds_and_is_used() {
    let ws = TestWorkspace::new();
    let meet = format!("3:{}", ws.beside("meeting"));
    ws.configure(&config::config([("sociable", config::fixture(&ws, &["--meet", &meet, "--sleep-ms", "50"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(3, [phase("map", tasks(9))]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    let spans = ledger::spans(&ws.ledger());
    assert_eq!((spans.len(), peak(&spans)), (9, 3), "{spans:?}");
    server.finish().await;
}

#[tokio::test]
async fn a_slot_is_filled_again_at_once() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("quick", config::fixture(&ws, &[])), ("gated", gated)]));
    let mut tasks = vec![task("map:slow").agent("gated")];
    tasks.extend((0..6).map(|n| task(&format!("map:{n}"))));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(2, [phase("map", tasks)]), json!({})).await;
    // The slow one is first and does not end: a barrier after the first two would stop the rest.
    server.wait_events("six results past the slow one", 6, |e| matches!(e, Event::TaskAccepted { .. })).await;
    let done: Vec<Event> = server.lifecycle(&run).into_iter().map(|event| event.event).collect();
    assert!(!done.iter().any(|e| matches!(e, Event::TaskAccepted { task_id, .. } if task_id.as_str() == "map:slow")));
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 7));
    server.finish().await;
}

#[tokio::test]
async fn an_agents_own_limit_is_kept_without_holding_up_the_others() {
    let ws = TestWorkspace::new();
    let scarce = config::at_most(config::fixture(&ws, &["--gate", &ws.beside("gate")]), 1);
    let meet = format!("3:{}", ws.beside("meeting"));
    ws.configure(&config::config([("plenty", config::fixture(&ws, &["--meet", &meet])), ("scarce", scarce)]));
    let mut tasks: Vec<_> = (0..3).map(|n| task(&format!("map:scarce-{n}")).agent("scarce")).collect();
    tasks.extend((0..3).map(|n| task(&format!("map:plenty-{n}"))));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, _) = server.start_drive(&workflow(6, [phase("map", tasks)]), json!({})).await;
    server.wait_events("the plentiful ones", 3, |e| matches!(e, Event::TaskAccepted { .. })).await;
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    let scarce: Vec<_> = ledger::read(&ws.ledger()).into_iter().filter(|e| e.task.contains("scarce")).collect();
    // Start, end, start, end ...: never two starts in a row.
    assert!(scarce.chunks(2).all(|pair| pair[0].pid == pair[1].pid), "{scarce:#?}");
    server.finish().await;
}

#[tokio::test]
async fn the_record_does_not_depend_on_who_ends_first() {
    // One task parks, one is tried twice, the rest pass; the agents end in one order, and then in the other.
    let names = ["first", "second", "third", "fourth", "fifth"];
    let mut records = Vec::new();
    for reversed in [false, true] {
        let ws = TestWorkspace::new();
        let counter = format!("1:{}", ws.beside("counter"));
        let agents = names.iter().map(|name| {
            let gate = ws.beside(name);
            let mut arguments = vec!["--gate", &gate, "--cite", CITE];
            match *name {
                "second" => arguments.extend(["--kind", "no-evidence"]),
                "fourth" => arguments.extend(["--fail-times", &counter]),
                _ => {}
            }
            (*name, config::fixture(&ws, &arguments))
        });
        ws.configure(&config::config(agents.collect::<Vec<_>>()));
        let tasks = names.iter().map(|name| task(&format!("map:{name}")).agent(name).needs_evidence());
        let document = workflow(5, [phase("map", tasks)]);
        let server = Server::start(&ws, Framing::Ndjson).await;
        let (request, _) = server.start_drive(&document, json!({ "runId": "a-run", "maxAttempts": 2 })).await;
        server.wait_events("all agents to start", 5, |e| matches!(e, Event::TaskDispatched { .. })).await;
        let order: Vec<&str> = if reversed { names.into_iter().rev().collect() } else { names.to_vec() };
        for name in order {
            ws.open_gate(name);
            let id = format!("map:{name}");
            server
                .wait_event(&format!("{id} to be settled"), |e| match &e.event {
                    Event::TaskAccepted { task_id, .. } | Event::TaskParked { task_id, .. } => task_id.as_str() == id,
                    _ => false,
                })
                .await;
        }
        let result: DriveResult = server.result(request).await;
        assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 4, 1));
        let root = ws.root().to_str().unwrap().to_owned();
        let report = std::fs::read_to_string(&result.report_path).unwrap();
        let cited: Vec<String> =
            report.lines().filter(|line| line.contains("src/")).map(|line| plain_text(line, &root)).collect();
        assert!(!cited.is_empty(), "{report}");
        records.push((plain(&serde_json::to_value(&result).unwrap(), &root), plain(&ws.state("a-run"), &root), cited));
        server.finish().await;
    }
    let [first, second] = &records[..] else { unreachable!("two rounds were driven") };
    assert_eq!(first.0, second.0, "the answers differ");
    assert_eq!(first.1, second.1, "the states differ");
    assert_eq!(first.2, second.2, "the reports differ");
}

/// A record without what cannot be the same twice: times, hashes, process ids, temporary paths.
fn plain(value: &Value, root: &str) -> Value {
    match value {
        Value::String(text) => json!(plain_text(text, root)),
        Value::Array(items) => items.iter().map(|item| plain(item, root)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let machine = ["pid", "group", "startTicks", "durationMs", "head"].contains(&name.as_str());
                (plain_text(name, root), if machine { json!("<left out>") } else { plain(value, root) })
            })
            .collect(),
        other => other.clone(),
    }
}

fn plain_text(text: &str, root: &str) -> String {
    let text = text.replace(root, "<root>");
    let hash = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if text.parse::<flowdrive_protocol::time::Timestamp>().is_ok() {
        "<time>".to_owned()
    } else if hash(text.strip_prefix("sha256:").unwrap_or(&text)) {
        "<hash>".to_owned()
    } else {
        text
    }
}

#[tokio::test]
async fn two_runs_share_the_servers_own_limit() {
    let ws = TestWorkspace::new();
    let mut config = config::config([("slow", config::fixture(&ws, &["--sleep-ms", "50"]))]);
    config.max_concurrent_agents = std::num::NonZeroU32::new(2);
    ws.configure(&config);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(4, [phase("map", tasks(4))]);
    let first = server.start_drive(&document, json!({})).await;
    let second = server.start_drive(&document, json!({})).await;
    for (request, _) in [first, second] {
        let result: DriveResult = server.result(request).await;
        assert_eq!(result.status, RunStatus::Complete);
    }
    let spans = ledger::spans(&ws.ledger());
    assert_eq!(spans.len(), 8);
    assert!(peak(&spans) <= 2, "{spans:?}");
    server.finish().await;
}

#[tokio::test]
async fn sixteen_agents_with_a_hang_a_crash_and_a_dirty_result_lose_only_those_three() {
    let ws = TestWorkspace::new();
    let mut hanging = config::fixture(&ws, &["--gate", &ws.beside("never"), "--fork", "1", "--ignore-term"]);
    hanging.timeout_ms = Some(1_000);
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &[])),
        ("hanging", hanging),
        ("crashing", config::fixture(&ws, &["--exit", "7", "--kind", "nothing"])),
        ("dirty", config::fixture(&ws, &["--kind", "bad-json"])),
    ]));
    let tasks = (0..16).map(|n| {
        let agent = ["hanging", "crashing", "dirty"].get(n / 4).filter(|_| n % 4 == 0).unwrap_or(&"good");
        task(&format!("map:{n}")).agent(agent)
    });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(16, [phase("map", tasks), phase("never", [task("never:reached")])]);
    let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 13, 3));
    let parked: Vec<(&str, &str)> = result
        .steps
        .iter()
        .filter(|step| step.action == StepAction::Park)
        .map(|step| (step.task_id.as_ref().unwrap().as_str(), step.reason.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(parked.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["map:0", "map:4", "map:8"]);
    assert!(parked[0].1.contains("timed out after 1000"), "{parked:?}");
    assert!(parked[1].1.contains("exit 7"), "{parked:?}");
    assert!(parked[2].1.contains("cw:result"), "{parked:?}");
    assert!(!ws.agent_runs().contains_key("never:reached"), "a parked task stops the phases after it");
    flowdrive_tests::census::assert_none(ws.root(), &[server.pid()], "after an agent timed out");
    server.finish().await;
}

#[tokio::test]
async fn each_agent_of_a_mixed_window_keeps_its_own_limit() {
    let ws = TestWorkspace::new();
    let endpoint = EndpointServer::good(CITE, Duration::from_millis(150)).await;
    let other = EndpointServer::good(CITE, Duration::from_millis(150)).await;
    ws.configure(&config::config([
        ("program", config::at_most(config::fixture(&ws, &["--sleep-ms", "150"]), 2)),
        ("remote", config::at_most(config::endpoint(endpoint.url()), 3)),
        ("other", config::at_most(config::endpoint(other.url()), 1)),
    ]));
    let kinds = ["program", "remote", "other"];
    let tasks = (0..18).map(|n| task(&format!("map:{n}")).agent(kinds[n % 3]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(16, [phase("map", tasks)]), json!({ "concurrency": 16 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 18), "{result:#?}");
    server.finish().await;
    let spans = |endpoint: &EndpointServer| endpoint.exchanges().iter().map(|it| it.span).collect::<Vec<_>>();
    let (programs, remote, other) = (ledger::spans(&ws.ledger()), spans(&endpoint), spans(&other));
    assert_eq!((programs.len(), remote.len(), other.len()), (6, 6, 6));
    let all: Vec<_> = [&programs, &remote, &other].into_iter().flatten().copied().collect();
    for (name, spans, most) in
        [("program", &programs, 2), ("remote", &remote, 3), ("other", &other, 1), ("all", &all, 6)]
    {
        assert!(peak(spans) <= most, "{name} had more than {most} at once: {spans:?}");
    }
    // Both kinds are in flight together; no limit makes the others wait.
    assert!(peak(&all) >= 3 && peak(&remote) >= 2, "{all:?}");
}

#[tokio::test]
async fn too_many_requests_pauses_every_task_of_that_agent_and_no_other() {
    let ws = TestWorkspace::new();
    let busy = EndpointServer::sequence(vec![Response::new(429, "later").header("retry-after", "2")], CITE).await;
    let free = EndpointServer::good(CITE, Duration::from_millis(300)).await;
    ws.configure(&config::config([
        ("busy", config::at_most(config::endpoint(busy.url()), 1)),
        ("free", config::at_most(config::endpoint(free.url()), 1)),
    ]));
    let names = ["busy", "free"];
    let tasks = (0..12).map(|n| task(&format!("map:{n}")).agent(names[usize::from(n >= 4)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(12, [phase("map", tasks)]), json!({ "maxAttempts": 1 })).await;
    let result: DriveResult = server.result(request).await;
    assert_eq!(
        (result.status, result.completed_workers),
        (RunStatus::Complete, 12),
        "waiting costs no attempt: {result:#?}"
    );
    let waits: Vec<_> = server
        .lifecycle(&run)
        .into_iter()
        .filter_map(|event| match event.event {
            Event::TaskRetrying { task_id, code, not_before, .. } => Some((event.at, task_id, code, not_before)),
            _ => None,
        })
        .collect();
    server.finish().await;
    let [(at, _, code, not_before)] = &waits[..] else { panic!("one task was refused: {waits:?}") };
    assert_eq!(code, "endpoint-overloaded");
    let end = not_before.expect("the wait says when it ends").as_millis();
    assert!(end >= at.as_millis() + 1_900, "the wait is at least the two seconds asked for: {waits:?}");

    let exchanges = busy.exchanges();
    assert_eq!(exchanges.len(), 5, "one was refused, and its task and three others were answered");
    let refused = exchanges[0].span.end;
    for exchange in &exchanges[1..] {
        assert!(
            exchange.span.start >= refused + 1_990,
            "a task of the agent was sent within its pause: {exchanges:#?}"
        );
    }
    let meanwhile =
        free.exchanges().iter().filter(|it| it.span.start > refused && it.span.end < refused + 1_990).count();
    assert!(meanwhile >= 1, "the other agent's tasks did not go on");
}
