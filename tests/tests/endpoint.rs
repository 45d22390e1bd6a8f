//! Endpoint agents: what they are sent, and what becomes of every kind of answer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, results, task, workflow};
use serde_json::{Value, json};

fn tasks(count: usize) -> Vec<flowdrive_tests::workflow::Task> {
    (0..count).map(|n| task(&format!("map:{n}"))).collect()
}

/// Drives `count` tasks with this endpoint, each with so many attempts.
async fn drive(endpoint: &EndpointServer, count: usize, attempts: u32) -> (TestWorkspace, DriveResult) {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(u32::try_from(count).unwrap(), [phase("map", tasks(count))]);
    let result = server.drive(&document, json!({ "maxAttempts": attempts })).await;
    server.finish().await;
    (ws, result)
}

fn reasons(result: &DriveResult) -> String {
    result.steps.iter().filter_map(|step| step.reason.as_deref()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn all_of_a_window_are_in_flight_at_once() {
    let endpoint = EndpointServer::barrier(12, CITE).await;
    let (_, result) = drive(&endpoint, 12, 1).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 12));
    assert_eq!(endpoint.exchanges().len(), 12, "nobody was asked twice");
}

#[tokio::test]
async fn the_request_has_the_agreed_shape_alone_and_in_a_window() {
    let endpoint = EndpointServer::good(CITE, Duration::ZERO).await;
    for count in [1, 3] {
        let (_, result) = drive(&endpoint, count, 1).await;
        assert_eq!(result.status, RunStatus::Complete);
    }
    let exchanges = endpoint.exchanges();
    assert_eq!(exchanges.len(), 4);
    for exchange in &exchanges {
        let request = &exchange.request;
        let content_type =
            request.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        assert_eq!((request.method.as_str(), content_type), ("POST", Some("application/json")));
        let body = request.json();
        let mut fields: Vec<&str> =
            body.as_object().unwrap().keys().map(String::as_str).filter(|f| *f != "model").collect();
        fields.sort_unstable();
        assert_eq!(fields, ["manifest", "prompt", "resultPath", "sandboxProfileId"], "{body:#}");
        for field in ["workerDir", "manifestPath", "inputPath", "resultPath", "prompt"] {
            assert!(body["manifest"][field].is_string(), "{field} in {body:#}");
        }
        assert_eq!(body["prompt"], body["manifest"]["prompt"]);
        assert_eq!(body["sandboxProfileId"], "default");
    }
}

#[tokio::test]
async fn a_job_is_polled_until_it_is_done() {
    let endpoint = EndpointServer::jobs(1, CITE).await;
    let (_, result) = drive(&endpoint, 2, 1).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 2), "{}", reasons(&result));
    let polls = endpoint.exchanges().iter().filter(|exchange| exchange.request.method == "GET").count();
    assert_eq!(polls, 4, "each job was polled twice");
}

#[tokio::test]
async fn too_many_requests_is_waited_out_and_costs_no_result() {
    for status in [429, 503] {
        let answers = vec![Response::new(status, "later").header("retry-after", "1"); 2];
        let endpoint = EndpointServer::sequence(answers, CITE).await;
        let (_, result) = drive(&endpoint, 1, 3).await;
        assert_eq!(result.status, RunStatus::Complete, "{status}: {}", reasons(&result));
        let exchanges = endpoint.exchanges();
        assert_eq!(exchanges.len(), 3);
        for pair in exchanges.windows(2) {
            // The endpoint asked for a second. Less would be an error; more is a matter of the machine.
            assert!(pair[1].span.start >= pair[0].span.end + 990, "{status}: Retry-After was not obeyed: {pair:#?}");
        }
    }
}

#[tokio::test]
async fn a_failing_endpoint_parks_its_task_and_no_other() {
    let endpoint = EndpointServer::start(|request| async move {
        if request.task() == "map:1" { Response::new(500, "made-up fault") } else { Response::good(&request, CITE) }
    })
    .await;
    let (_, result) = drive(&endpoint, 4, 1).await;
    assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 3, 1));
    assert!(reasons(&result).contains("500"), "{}", reasons(&result));
}

#[tokio::test]
async fn an_answer_that_is_none_is_never_taken_for_a_success() {
    let body = results::text(results::Kind::Good, "map:0", CITE).unwrap();
    let cases: Vec<(&str, Response, &str)> = vec![
        ("no exit code", Response::json(&json!({ "stdout": body })), "exitCode"),
        ("null", Response::json(&Value::Null), "endpoint"),
        ("HTML", Response::new(200, "<html>hello</html>"), "endpoint"),
        ("exit 7", Response::json(&json!({ "exitCode": 7, "stdout": body })), "exit 7"),
        ("nothing", Response::json(&json!({ "exitCode": 0, "stdout": "" })), "result.md"),
        ("a redirect elsewhere", Response::new(302, "").header("location", "http://127.0.0.1:1/other"), "302"),
    ];
    for (name, answer, words) in cases {
        let endpoint = EndpointServer::start(move |_| std::future::ready(answer.clone())).await;
        let (_, result) = drive(&endpoint, 1, 1).await;
        assert_eq!((result.status, result.completed_workers), (RunStatus::Parked, 0), "{name}");
        assert!(reasons(&result).contains(words), "{name}: {}", reasons(&result));
    }
}

#[tokio::test]
async fn a_result_beside_usage_is_a_result() {
    let text = results::text(results::Kind::Good, "map:0", CITE).unwrap();
    let stdout =
        json!({ "result": text, "model": "made-up-model", "usage": { "input_tokens": 7, "output_tokens": 5 } });
    let endpoint = EndpointServer::start(move |_| {
        std::future::ready(Response::json(&json!({ "exitCode": 0, "stdout": stdout.to_string() })))
    })
    .await;
    let (ws, result) = drive(&endpoint, 1, 1).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let view: Value = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!(view["tasks"][0]["reportedModel"], "made-up-model", "{view:#}");
    assert_eq!(view["tasks"][0]["usage"], json!({ "inputTokens": 7, "outputTokens": 5 }));
    server.finish().await;
}

#[tokio::test]
async fn an_endpoint_that_never_answers_is_given_up_at_its_own_deadline() {
    let endpoint = EndpointServer::start(|_| std::future::pending()).await;
    let ws = TestWorkspace::new();
    let mut silent = config::endpoint(endpoint.url());
    silent.timeout_ms = Some(500);
    ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("silent", silent)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(2, [phase("map", [task("map:0").agent("silent"), task("map:1")])]);
    let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 1, 1));
    assert!(reasons(&result).contains("timed out after 500"), "{}", reasons(&result));
    server.finish().await;
}

#[tokio::test]
async fn many_bytes_of_many_scripts_arrive_whole() {
    let long = "漢字かな".repeat(20_000);
    let text = format!("{}\n{long}\n", results::text(results::Kind::Good, "map:0", CITE).unwrap());
    let sent = text.clone();
    let endpoint =
        EndpointServer::start(move |_| std::future::ready(Response::json(&json!({ "exitCode": 0, "stdout": sent }))))
            .await;
    let (ws, result) = drive(&endpoint, 1, 1).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    let worker = result.steps.iter().find_map(|step| step.worker_id.clone()).unwrap();
    let file = ws.run_folder(&result.run_id).join("workers").join(worker.as_str()).join("result.md");
    assert_eq!(std::fs::read_to_string(file).unwrap().trim_end(), text.trim_end());
}
