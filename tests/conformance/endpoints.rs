//! Statements 11 to 21: endpoint agents in a window. They are in flight together, with the same request as alone; each
//! answer, good or bad, is its own task's and nobody else's.

use std::time::Duration;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::{DriveResult, RunStatus, StepAction};
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::results::{self, Kind};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

use crate::support::{alone, drive, journal, limited, of_type, outcomes, reasons, steps, tasks, workers};

fn with_endpoint(endpoint: &EndpointServer) -> TestWorkspace {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    ws
}

fn window(count: u32) -> Value {
    workflow(count, [phase("map", tasks(count as usize))])
}

#[tokio::test]
async fn a11_all_endpoint_tasks_of_a_window_are_in_flight_at_once() {
    let endpoint = EndpointServer::barrier(16, CITE).await;
    let result = drive(&with_endpoint(&endpoint), &window(16), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 16));
}

#[tokio::test]
async fn a12_request_is_byte_for_byte_the_same_alone_and_in_a_window() {
    let endpoint = EndpointServer::good(CITE, Duration::ZERO).await;
    let ws = with_endpoint(&endpoint);
    for (run, width) in [("run-one", 1), ("run-two", 3)] {
        let result = drive(&ws, &window(3), json!({ "runId": run, "concurrency": width })).await;
        assert_eq!(result.status, RunStatus::Complete);
    }
    let body = |run: &str, task: &str| -> String {
        let found = endpoint
            .exchanges()
            .into_iter()
            .map(|exchange| exchange.request)
            .find(|request| request.task() == task && request.json()["resultPath"].as_str().unwrap().contains(run));
        let request = found.unwrap();
        let mut fields: Vec<String> = request.json().as_object().unwrap().keys().cloned().collect();
        fields.sort();
        assert_eq!(fields, ["manifest", "prompt", "resultPath", "sandboxProfileId"], "no model is asked for");
        // The run's own id is all that may differ.
        String::from_utf8(request.body).unwrap().replace(run, "RUN")
    };
    for task in ["map:0", "map:1", "map:2"] {
        assert_eq!(body("run-one", task), body("run-two", task));
    }
}

#[tokio::test]
async fn a13_command_wins_over_an_endpoint_and_without_either_nothing_is_asked() {
    let endpoint = EndpointServer::good(CITE, Duration::ZERO).await;
    let ws = TestWorkspace::new();
    let command = config::fixture(&ws, &[]).command.unwrap().join(" ");
    let server = Server::builder(&ws, Framing::Ndjson)
        .env("CW_AGENT_COMMAND", &command)
        .env("CW_AGENT_ENDPOINT", endpoint.url())
        .start()
        .await;
    let result = server.drive(&window(2), json!({ "agent": "env" })).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    assert!(steps(&result, StepAction::Accept).iter().all(|step| step.handle_kind.as_deref() == Some("process")));
    server.finish().await;
    // In one agent of the file, both are a mistake, and it is said rather than guessed at.
    let mut both = config::fixture(&ws, &[]);
    both.endpoint = Some(endpoint.url().to_owned());
    ws.configure(&config::config([("both", both)]));
    let refused = ws.flowdrive(&["doctor", "--config"]).arg(ws.config_file()).output().unwrap();
    assert!(!refused.status.success(), "{refused:?}");
    // An agent nobody configured is neither started nor asked.
    let ws = with_endpoint(&endpoint);
    let result = drive(&ws, &alone(task("map:0").agent("nobody")), json!({})).await;
    assert_eq!((result.status, workers(&ws, &result.run_id).len()), (RunStatus::Blocked, 0));
    assert!(endpoint.exchanges().is_empty(), "the endpoint was asked");
}

#[tokio::test]
async fn a14_window_without_tasks_asks_nobody() {
    let endpoint = EndpointServer::good(CITE, Duration::ZERO).await;
    let result = drive(&with_endpoint(&endpoint), &workflow(4, [phase("map", [])]), json!({})).await;
    assert_eq!((result.status, result.planned_workers), (RunStatus::Complete, 0), "{result:#?}");
    assert!(endpoint.exchanges().is_empty());
}

/// Drives one task whose endpoint always answers like this, alone and among others; gives the reasons and exit codes.
async fn refused(answer: Response) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for width in [1, 4] {
        let answer = answer.clone();
        let endpoint = EndpointServer::start(move |_| std::future::ready(answer.clone())).await;
        let ws = with_endpoint(&endpoint);
        let result = drive(&ws, &window(4), json!({ "maxAttempts": 1, "concurrency": width })).await;
        assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 0, 4));
        let outcome = outcomes(&ws, &result.run_id, "map:0").remove(0);
        found.push((steps(&result, StepAction::Park)[0].reason.clone().unwrap(), outcome["exitCode"].clone()));
    }
    found
}

#[tokio::test]
async fn a15_http_500_is_a_failure_that_names_it_and_has_no_exit_code() {
    for (reason, code) in refused(Response::new(500, "made-up fault")).await {
        assert!(reason.contains("responded 500"), "{reason}");
        assert_eq!(code, Value::Null);
    }
}

#[tokio::test]
async fn a16_answer_without_exit_code_is_a_failure_that_names_it() {
    let text = results::text(Kind::Good, "map:0", CITE).unwrap();
    for (reason, code) in refused(Response::json(&json!({ "done": true, "stdout": text }))).await {
        assert!(reason.contains("did not report an exitCode"), "{reason}");
        assert_eq!(code, Value::Null);
    }
}

#[tokio::test]
async fn a17_fault_of_one_request_has_the_same_words_alone_and_in_a_window() {
    let found = refused(Response::new(418, "made-up fault")).await;
    assert_eq!(found[0].0, "agent hop failed: agent endpoint error: runner responded 418 (attempt 1/1)");
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn a18_answer_in_a_window_becomes_the_result_and_nobody_is_asked_twice() {
    let endpoint = EndpointServer::good(CITE, Duration::from_millis(50)).await;
    let ws = with_endpoint(&endpoint);
    let result = drive(&ws, &window(5), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert_eq!(endpoint.exchanges().len(), 5);
    assert_eq!(of_type(&journal(&ws, &result.run_id), "processStarted").len(), 0, "an endpoint is no program");
    for step in steps(&result, StepAction::Accept) {
        assert_eq!(step.handle_kind.as_deref(), Some("endpoint"));
        let task = step.task_id.as_ref().unwrap().as_str();
        let folder = ws.run_folder(&result.run_id).join("workers").join(step.worker_id.as_ref().unwrap().as_str());
        let text = std::fs::read_to_string(folder.join("result.md")).unwrap();
        assert_eq!(text.trim_end(), results::text(Kind::Good, task, CITE).unwrap().trim_end());
    }
}

#[tokio::test]
async fn a19_one_failing_job_changes_nothing_for_its_siblings() {
    let endpoint = EndpointServer::start(|request| async move {
        match request.task().as_str() {
            "map:1" => Response::new(500, "made-up fault"),
            "map:3" => Response::json(&json!({ "exitCode": 9, "stdout": "" })),
            _ => Response::good(&request, CITE),
        }
    })
    .await;
    let result = drive(&with_endpoint(&endpoint), &window(6), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.completed_workers, result.parked_workers), (4, 2));
    let by_task: Vec<(&str, Option<&str>)> = result
        .steps
        .iter()
        .filter_map(|step| Some((step.task_id.as_ref()?.as_str(), step.reason.as_deref())))
        .collect();
    let order: Vec<&str> = by_task.iter().map(|(task, _)| *task).collect();
    assert_eq!(order, ["map:0", "map:1", "map:2", "map:3", "map:4", "map:5"]);
    assert!(by_task[1].1.unwrap().contains("responded 500") && by_task[3].1.unwrap().contains("exit 9"), "{by_task:?}");
}

#[tokio::test]
async fn a20_hung_job_is_settled_at_its_own_deadline() {
    let endpoint = EndpointServer::start(|_| std::future::pending()).await;
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
    let silent = limited(config::endpoint(endpoint.url()), 400);
    ws.configure(&config::config([("gated", gated), ("silent", silent)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(2, [phase("map", [task("map:0"), task("map:1").agent("silent")])]);
    let (request, _) = server.start_drive(&document, json!({ "maxAttempts": 1 })).await;
    // The other one has ten minutes, and is not done: the hung one does not wait for it.
    let parked = |e: &flowdrive_protocol::event::ProgressEvent| matches!(e.event, Event::TaskParked { .. });
    server.wait_event("the hung one to be parked", parked).await;
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    assert_eq!((result.completed_workers, result.parked_workers), (1, 1));
    assert!(reasons(&result).contains("agent endpoint error: timed out after 400ms"), "{}", reasons(&result));
    server.finish().await;
}

#[tokio::test]
async fn a21_long_text_of_three_byte_characters_arrives_byte_for_byte() {
    let long = "漢字かなハングル".repeat(10_000);
    let text = format!("{}\n{long}", results::text(Kind::Good, "map:0", CITE).unwrap());
    assert!(text.len() > 200_000);
    let sent = text.clone();
    let endpoint =
        EndpointServer::start(move |_| std::future::ready(Response::json(&json!({ "exitCode": 0, "stdout": sent }))))
            .await;
    let ws = with_endpoint(&endpoint);
    for width in [1, 3] {
        let result = drive(&ws, &window(3), json!({ "concurrency": width })).await;
        assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
        for worker in workers(&ws, &result.run_id) {
            let file = ws.run_folder(&result.run_id).join("workers").join(worker).join("result.md");
            // A text ends with a line feed; nothing else is added.
            assert!(std::fs::read(file).unwrap() == format!("{text}\n").as_bytes(), "some byte differs");
        }
    }
}
