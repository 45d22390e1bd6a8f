//! One drive a run, whoever asks; readers are never held up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::json;

async fn gated(ws: &TestWorkspace) -> (Server, i64, String) {
    ws.configure(&config::config([("gated", config::fixture(ws, &["--gate", &ws.beside("gate")]))]));
    let server = Server::start(ws, Framing::Lsp).await;
    let workflow = workflow(2, [phase("map", [task("map:a"), task("map:b")])]);
    let (request, run) = server.start_drive(&workflow, json!({})).await;
    (server, request, run)
}

#[tokio::test]
async fn a_second_drive_is_refused_while_preview_still_answers() {
    let ws = TestWorkspace::new();
    let (server, request, run) = gated(&ws).await;
    let other = Server::start(&ws, Framing::Ndjson).await;
    let params = server.here(json!({ "runId": run }));
    for (who, asked) in [("the same server", &server), ("another server", &other)] {
        for method in ["drive", "resume"] {
            let error = asked.err(method, params.clone()).await;
            let details = error.assert_kind(ErrorKind::RunLocked);
            assert_eq!(details.pid, Some(server.pid()), "{who}, {method}: {error:?}");
            assert!(error.message.contains(&run), "{who}: {error:?}");
        }
        let preview: DrivePreview = asked.ok("preview", params.clone()).await;
        assert_eq!(preview.planned_workers, 2, "{who}");
        let view: RunView = asked.ok("showRun", params.clone()).await;
        assert!(view.summary.driving, "{who} sees that somebody drives it");
    }
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    let again: DriveResult = other.ok("resume", params).await;
    assert_eq!(again.status, RunStatus::Complete, "the lock went with the drive");
    other.finish().await;
    server.finish().await;
}

#[tokio::test]
async fn a_run_id_that_is_taken_is_not_planned_again() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let workflow = workflow(1, [phase("map", [task("map:a")])]);
    let first = server.drive(&workflow, json!({ "runId": "my-run" })).await;
    assert_eq!(first.run_id.as_str(), "my-run");
    let params = server.here(json!({ "runId": "my-run", "workflow": { "inline": workflow } }));
    let second = server.call("drive", params).await;
    let error = second.unwrap_err();
    assert_eq!(error.code, -32602, "the id is the client's choice, so the fault is none of the server's: {error:?}");
    assert!(error.message.contains("my-run exists already"), "{error:?}");
    assert_eq!(ws.agent_runs()["map:a"], 1, "the first run's work was done again");
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": "my-run" }))).await;
    assert_eq!(view.summary.status, RunStatus::Complete);
    server.finish().await;
}

/// Waits for all of them at once.
async fn join_all(waits: Vec<impl Future<Output = ()>>) {
    let mut waits: Vec<_> = waits.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        waits.retain_mut(|wait| wait.as_mut().poll(context).is_pending());
        if waits.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Ten requests, to three servers, for the same run at the same moment.
#[tokio::test]
async fn of_ten_requests_to_three_servers_exactly_one_drives_each_time() {
    const ROUNDS: usize = 25;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let mut servers = Vec::new();
    for framing in [Framing::Ndjson, Framing::Lsp, Framing::Ndjson] {
        servers.push(Server::start(&ws, framing).await);
    }
    let phases = (0..=ROUNDS).map(|n| phase(&format!("p{n}"), [task(&format!("p{n}:a"))]));
    ws.open_gate("gate");
    let wish = json!({ "runId": "race", "once": true });
    let planned = servers[0].drive(&workflow(1, phases), wish.clone()).await;
    assert_eq!((planned.completed_workers, planned.planned_workers as usize), (1, ROUNDS + 1));

    let pids: Vec<u32> = servers.iter().map(Server::pid).collect();
    for round in 0..ROUNDS {
        fs::remove_file(ws.beside("gate")).unwrap();
        let mut asked = Vec::new();
        for n in 0..10 {
            let server = &servers[(round + n) % servers.len()];
            let method = if n % 2 == 0 { "resume" } else { "drive" };
            asked.push((server, server.send(method, server.here(wish.clone())).await));
        }
        // The one that drives waits at the gate, so nine answers come, and all of them are refusals.
        let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let waiting = asked.iter().map(|(server, id)| {
            let answered = answered.clone();
            async move {
                let answer = server.answer(*id).await;
                let _ = answered.send(answer);
            }
        });
        let all = join_all(waiting.collect::<Vec<_>>());
        let count = async {
            let mut drivers = std::collections::BTreeSet::new();
            for refused in 0..9 {
                match answers.recv().await.unwrap() {
                    Ok(result) => panic!("round {round}: a second drive went ahead after {refused}: {result:#}"),
                    Err(error) => {
                        let details = error.assert_kind(ErrorKind::RunLocked);
                        assert!(details.host.is_some() && details.since.is_some(), "round {round}: {error:?}");
                        drivers.insert(details.pid.unwrap());
                    }
                }
            }
            assert_eq!(drivers.len(), 1, "round {round}: all are told of the same one");
            assert!(drivers.iter().all(|pid| pids.contains(pid)), "round {round}: {drivers:?}");
            ws.open_gate("gate");
            let won: DriveResult = serde_json::from_value(answers.recv().await.unwrap().unwrap()).unwrap();
            assert_eq!(won.completed_workers as usize, round + 2, "round {round}: each drive does one task");
        };
        tokio::join!(all, count);
    }
    assert_eq!(ws.agent_runs().values().sum::<usize>(), ROUNDS + 1, "a task was run twice: {:?}", ws.agent_runs());
    println!("{ROUNDS} rounds of ten requests to three servers, one drive each");
    for server in servers {
        server.finish().await;
    }
}
