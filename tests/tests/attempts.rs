//! Attempts that fail: why each is refused, how often it is tried again, and that nothing of a failed one is taken.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::feedback::FeedbackClass;
use flowdrive_protocol::method::ListFeedbackResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, StepStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::json;

#[tokio::test]
async fn every_kind_of_bad_result_is_refused_with_its_own_reason() {
    let cases = [
        ("no-evidence", "evidence", FeedbackClass::MissingEvidence),
        ("ungrounded", "evidence", FeedbackClass::MissingEvidence),
        ("bad-json", "cw:result", FeedbackClass::ParseError),
        ("not-an-object", "cw:result", FeedbackClass::ParseError),
        ("missing-file", "src/never-written.rs", FeedbackClass::MissingEvidence),
        ("missing-line", "999999", FeedbackClass::MissingEvidence),
        ("bare-finding", "evidence", FeedbackClass::MissingEvidence),
        ("nothing", "result.md", FeedbackClass::Unknown),
    ];
    for (kind, words, class) in cases {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("bad", config::fixture(&ws, &["--kind", kind]))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let document = workflow(1, [phase("map", [task("map:a").needs_evidence()])]);
        let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
        assert_eq!((result.status, result.parked_workers), (RunStatus::Parked, 1), "{kind}: {result:#?}");
        let listed: ListFeedbackResult =
            server.ok("listFeedback", server.here(json!({ "runId": result.run_id }))).await;
        let [record] = &listed.feedback[..] else { panic!("{kind}: {listed:#?}") };
        assert!(record.message.contains(words), "{kind}: {record:#?}");
        if class != FeedbackClass::Unknown {
            assert_eq!(record.classification, class, "{kind}: {record:#?}");
        }
        server.finish().await;
    }
}

#[tokio::test]
async fn an_agent_that_fails_and_then_succeeds_is_accepted() {
    let ws = TestWorkspace::new();
    let times = format!("2:{}", ws.beside("counter"));
    ws.configure(&config::config([("flaky", config::fixture(&ws, &["--fail-times", &times]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!((result.status, ws.agent_runs()["map:a"]), (RunStatus::Complete, 3), "{result:#?}");
    let failures: Vec<&str> =
        result.steps.iter().filter(|s| s.status == StepStatus::Failed).filter_map(|s| s.reason.as_deref()).collect();
    assert!(failures.len() == 2 && failures.iter().all(|reason| reason.contains("exit 1")), "{failures:?}");
    server.finish().await;
}

#[tokio::test]
async fn attempts_are_counted_across_servers() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("failing", config::fixture(&ws, &["--exit", "7", "--kind", "nothing"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "once": true })).await;
    server.finish().await;
    assert_eq!(
        (first.status, ws.agent_runs()["map:a"]),
        (RunStatus::InProgress, 1),
        "one window, one attempt: {first:#?}"
    );
    let server = Server::start(&ws, Framing::Ndjson).await;
    let last: DriveResult = server.ok("resume", server.here(json!({ "runId": first.run_id }))).await;
    assert_eq!((last.status, ws.agent_runs()["map:a"]), (RunStatus::Parked, 3), "{last:#?}");
    server.finish().await;
}

#[tokio::test]
async fn a_result_left_by_a_failed_attempt_is_never_accepted() {
    let ws = TestWorkspace::new();
    // Writes a good result and then fails; the next attempt writes nothing and ends well.
    let script = "n=$(cat \"$0\" 2>/dev/null | wc -c); printf x >> \"$0\"; \
                  if [ \"$n\" = 0 ]; then printf '```cw:result\\n{\"summary\":\"stale\",\"evidence\":[\"src/lib.rs:1\"]}\\n```\\n' > \"$1\"; exit 3; fi";
    let mut agent = config::fixture(&ws, &[]);
    agent.command = Some(vec!["sh".into(), "-c".into(), script.into(), ws.beside("count"), "{{result}}".into()]);
    ws.configure(&config::config([("tricky", agent)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "maxAttempts": 2 })).await;
    assert_eq!(result.status, RunStatus::Parked, "{result:#?}");
    assert!(
        result.steps.iter().any(|s| s.reason.as_deref().is_some_and(|r| r.contains("no result.md"))),
        "{result:#?}"
    );
    server.finish().await;
}
