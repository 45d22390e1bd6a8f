//! The nine endpoints of section 10.3, each asked by one task alone and by three in a window: what becomes of every kind of
//! answer, in the same words.

use std::time::Duration;

use flowdrive_protocol::run::{RunStatus, StepAction};
use flowdrive_tests::endpoint::{EndpointServer, Request, Response};
use flowdrive_tests::results::{self, Kind};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, workflow};
use serde_json::{Value, json};

use crate::support::{limited, reasons, steps, tasks};

/// Why the first of three tasks parked, or none if all were accepted; the same alone and in a window, or this fails.
async fn outcome<F>(answer: impl Fn(Request) -> F + Clone + Send + Sync + 'static) -> Option<String>
where
    F: Future<Output = Response> + Send + 'static,
{
    let mut found = Vec::new();
    for width in [1, 3] {
        let endpoint = EndpointServer::start(answer.clone()).await;
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("remote", limited(config::endpoint(endpoint.url()), 10_000))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let document = workflow(3, [phase("map", tasks(3))]);
        let result = server.drive(&document, json!({ "maxAttempts": 1, "concurrency": width })).await;
        server.finish().await;
        let parked = steps(&result, StepAction::Park);
        assert!(parked.is_empty() || parked.len() == 3, "{}", reasons(&result));
        assert_eq!(result.status == RunStatus::Complete, parked.is_empty());
        found.push(parked.first().and_then(|step| step.reason.clone()));
    }
    assert_eq!(found[0], found[1], "alone and in a window");
    found.remove(0)
}

fn always(answer: Response) -> impl Fn(Request) -> std::future::Ready<Response> + Clone + Send + Sync + 'static {
    move |_| std::future::ready(answer.clone())
}

fn good_text() -> String {
    results::text(Kind::Good, "x", CITE).unwrap()
}

#[tokio::test]
async fn t1_fenced_markdown_and_exit_0_is_a_result() {
    assert_eq!(outcome(always(Response::json(&json!({ "exitCode": 0, "stdout": good_text() })))).await, None);
}

#[tokio::test]
async fn t2_result_and_usage_in_one_object_is_a_result() {
    let stdout = json!({ "result": good_text(), "usage": { "inputTokens": 1 } }).to_string();
    assert_eq!(outcome(always(Response::json(&json!({ "exitCode": 0, "stdout": stdout })))).await, None);
}

#[tokio::test]
async fn t3_exit_code_that_is_not_0_parks_and_its_text_is_no_result() {
    let reason = outcome(always(Response::json(&json!({ "exitCode": 7, "stdout": good_text() })))).await;
    assert_eq!(reason.as_deref(), Some("agent hop failed: map:0: failed (exit 7) (attempt 1/1)"));
}

#[tokio::test]
async fn t4_null_is_told_to_be_null() {
    let reason = outcome(always(Response::json(&Value::Null))).await.unwrap();
    assert!(reason.contains("agent endpoint error: runner answered with null, not a JSON object"), "{reason}");
}

#[tokio::test]
async fn t5_redirect_elsewhere_is_refused_and_nobody_elses_answer_is_trusted() {
    let elsewhere = EndpointServer::good(CITE, Duration::ZERO).await;
    let target = elsewhere.url().to_owned();
    let reason = outcome(always(Response::new(302, "").header("location", &target))).await.unwrap();
    assert!(reason.contains("redirect"), "{reason}");
    assert!(elsewhere.exchanges().is_empty(), "the other place was asked");
}

#[tokio::test]
async fn t5_redirect_that_would_turn_the_task_into_a_question_is_refused() {
    // To the same place, which would answer a GET well.
    let answer = |request: Request| async move {
        if request.method == "GET" {
            Response::json(&json!({ "exitCode": 0, "stdout": good_text() }))
        } else {
            Response::new(302, "").header("location", "/delegate")
        }
    };
    let reason = outcome(answer).await.unwrap();
    assert!(reason.contains("302"), "{reason}");
}

#[tokio::test]
async fn t6_web_page_is_told_to_be_no_json() {
    let reason = outcome(always(Response::new(200, "<html>hello</html>"))).await.unwrap();
    assert!(
        reason.contains("runner answered with something that is not JSON") && reason.contains("<html>"),
        "{reason}"
    );
}

#[tokio::test]
async fn t7_job_with_a_space_in_its_id_is_followed_to_its_end() {
    let answer = |request: Request| async move {
        match (request.method.as_str(), request.target.as_str()) {
            ("POST", _) => Response::json(&json!({ "jobId": "a b" })),
            (_, "/delegate?jobId=a%20b" | "/delegate?jobId=a+b") => {
                Response::json(&json!({ "jobId": "a b", "done": true, "exitCode": 0, "stdout": good_text() }))
            }
            _ => Response::new(404, ""),
        }
    };
    assert_eq!(outcome(answer).await, None);
}

#[tokio::test]
async fn t8_endpoint_that_never_answers_is_given_up_with_its_limit_named() {
    for width in [1, 2] {
        let endpoint = EndpointServer::start(|_| std::future::pending()).await;
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("remote", limited(config::endpoint(endpoint.url()), 300))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let document = workflow(2, [phase("map", tasks(2))]);
        let result = server.drive(&document, json!({ "maxAttempts": 1, "concurrency": width })).await;
        let expected = "agent hop failed: agent endpoint error: timed out after 300ms (attempt 1/1)";
        assert!(
            steps(&result, StepAction::Park).iter().all(|step| step.reason.as_deref() == Some(expected)),
            "{result:#?}"
        );
        assert_eq!(result.parked_workers, 2);
        server.finish().await;
    }
}

#[tokio::test]
async fn t9_503_is_waited_out_and_costs_no_attempt() {
    let answer = |request: Request| async move {
        if request.number < 2 { Response::new(503, "later") } else { Response::good(&request, CITE) }
    };
    assert_eq!(outcome(answer).await, None);
}
