//! Statements 114 to 120, 129, 130 and 135: records that wait for a person, who may close them and how, and that nothing is
//! lost or kept twice when several write.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::feedback::{FeedbackClass, FeedbackRecord, FeedbackSeverity, FeedbackStatus};
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, RpcError, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

use crate::support::{drive, journal, journal_file, names, records, resume, shell, tasks, verify, views, workers};

/// A run with one task that was accepted and so many that parked.
async fn parked(ws: &TestWorkspace, count: usize) -> (Server, DriveResult, Vec<FeedbackRecord>) {
    ws.configure(&config::config([
        ("idle", config::fixture(ws, &["--kind", "no-evidence"])),
        ("good", config::fixture(ws, &[])),
    ]));
    let server = Server::start(ws, Framing::Ndjson).await;
    let all = tasks(count).into_iter().map(flowdrive_tests::workflow::Task::needs_evidence);
    let all = [task("good:a").agent("good")].into_iter().chain(all);
    let result = server.drive(&workflow(8, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    let open = records(&server, &result.run_id).await;
    assert_eq!(open.len(), count);
    (server, result, open)
}

fn closing(server: &Server, record: &FeedbackRecord, mut fields: Value) -> Value {
    fields["runId"] = json!(record.run_id);
    fields["feedbackId"] = json!(record.id);
    server.here(fields)
}

/// Closes a record; asks again while somebody else has the run.
async fn reject(server: &Server, record: &FeedbackRecord) -> FeedbackRecord {
    loop {
        let answer = server.call("resolveFeedback", closing(server, record, json!({ "resolution": "rejected" }))).await;
        match answer {
            Ok(closed) => return serde_json::from_value(closed).unwrap(),
            Err(error) => drop(error.assert_kind(ErrorKind::RunLocked)),
        }
    }
}

#[tokio::test]
async fn f114_two_processes_that_write_at_once_lose_nothing_and_keep_one_chain() {
    let ws = TestWorkspace::new();
    let (one, result, open) = parked(&ws, 8).await;
    let other = Server::start(&ws, Framing::Ndjson).await;
    let (left, right) = open.split_at(4);
    let close = async |server: &Server, records: &[FeedbackRecord]| {
        for record in records {
            assert_eq!(reject(server, record).await.status, FeedbackStatus::Rejected);
        }
    };
    tokio::join!(close(&one, left), close(&other, right));
    assert!(records(&one, &result.run_id).await.iter().all(|record| record.status == FeedbackStatus::Rejected));
    let found = verify(&one, &result.run_id).await;
    assert!(found.ok, "{found:#?}");
    other.finish().await;
    one.finish().await;
}

#[tokio::test]
async fn h129_ten_changes_by_five_processes_at_once_are_all_there() {
    let ws = TestWorkspace::new();
    let (first, result, open) = parked(&ws, 10).await;
    let mut servers = vec![first];
    for _ in 0..4 {
        servers.push(Server::start(&ws, Framing::Ndjson).await);
    }
    let close = async |(server, records): (&Server, &[FeedbackRecord])| {
        for record in records {
            reject(server, record).await;
        }
    };
    let mut pairs = servers.iter().zip(open.chunks(2));
    let mut next = || close(pairs.next().unwrap());
    tokio::join!(next(), next(), next(), next(), next());
    let closed = records(&servers[0], &result.run_id).await;
    assert_eq!(closed.iter().filter(|record| record.status == FeedbackStatus::Rejected).count(), 10);
    for server in servers {
        server.finish().await;
    }
}

#[tokio::test]
async fn h130_events_written_by_several_are_counted_exactly_and_chained() {
    let ws = TestWorkspace::new();
    let (one, result, open) = parked(&ws, 4).await;
    let before = verify(&one, &result.run_id).await;
    let other = Server::start(&ws, Framing::Ndjson).await;
    tokio::join!(reject(&one, &open[0]), reject(&other, &open[1]));
    tokio::join!(reject(&other, &open[2]), reject(&one, &open[3]));
    let after = verify(&other, &result.run_id).await;
    assert!(after.ok && after.problems.is_empty(), "{after:#?}");
    assert_eq!(after.events, before.events + 4);
    let text = fs::read_to_string(journal_file(&ws, &result.run_id)).unwrap();
    assert_eq!(text.lines().count() as u64, after.events);
    let seqs: Vec<u64> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=after.events).collect::<Vec<_>>());
    other.finish().await;
    one.finish().await;
}

#[tokio::test]
async fn f115_torn_last_line_is_cut_off_and_only_that() {
    let ws = TestWorkspace::new();
    let (server, result, open) = parked(&ws, 1).await;
    server.finish().await;
    let file = journal_file(&ws, &result.run_id);
    let whole = fs::read(&file).unwrap();
    let torn = &whole[whole.len() - 200..whole.len() - 1];
    OpenOptions::new().append(true).open(&file).unwrap().write_all(&torn[..90]).unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    reject(&server, &open[0]).await;
    let after = fs::read(&file).unwrap();
    assert_eq!(after[..whole.len()], whole[..], "what was whole stayed as it was");
    assert!(after[whole.len()..].starts_with(b"{\"at\":"), "the next line begins where the torn one did");
    assert!(verify(&server, &result.run_id).await.ok);
    server.finish().await;
}

#[tokio::test]
async fn f116_record_is_resolved_by_a_verified_node_and_by_nothing_else() {
    let ws = TestWorkspace::new();
    let (server, result, open) = parked(&ws, 1).await;
    let (record, run) = (&open[0], result.run_id.as_str());
    let ask = async |fields: Value| server.call("resolveFeedback", closing(&server, record, fields)).await;
    let message = |answer: Result<Value, RpcError>| {
        let error = answer.unwrap_err();
        error.assert_kind(ErrorKind::ResolutionRefused);
        error.message
    };
    let said = message(ask(json!({ "resolution": "resolved" })).await);
    assert_eq!(said, format!("Feedback {} cannot resolve without a verified node id", record.id));
    let unknown = format!("{run}:verifier:nobody");
    let said = message(ask(json!({ "resolution": "resolved", "nodeId": unknown })).await);
    assert_eq!(said, format!("Feedback {} resolution node not found: {unknown}", record.id));
    // A task that is completed, and as such proves nothing.
    let completed = format!("{run}:task:good:a");
    let said = message(ask(json!({ "resolution": "resolved", "nodeId": completed })).await);
    assert!(
        said.starts_with(&format!("Feedback {} resolution node must be verified or committed", record.id)),
        "{said}"
    );
    let node = format!("{run}:verifier:good:a");
    let closed = ask(json!({ "resolution": "resolved", "nodeId": node, "message": "seen to" })).await.unwrap();
    let closed: FeedbackRecord = serde_json::from_value(closed).unwrap();
    assert_eq!((closed.status, closed.resolution_note.as_deref()), (FeedbackStatus::Resolved, Some("seen to")));
    assert_eq!(closed.resolved_by_node_id.as_ref().map(AsRef::as_ref), Some(node.as_str()));
    assert!(closed.resolved_at.is_some());
    server.finish().await;
}

#[tokio::test]
async fn f117_fault_that_is_recorded_already_gets_no_second_record_until_the_first_is_resolved() {
    let ws = TestWorkspace::new();
    let (server, result, open) = parked(&ws, 1).await;
    let run = json!({ "runId": result.run_id, "maxAttempts": 1 });
    for _ in 0..2 {
        let again: DriveResult = server.ok("resume", server.here(run.clone())).await;
        assert_eq!(again.status, RunStatus::Parked);
        assert_eq!(records(&server, &result.run_id).await, open);
    }
    let _: FeedbackRecord =
        server.ok("resolveFeedback", closing(&server, &open[0], json!({ "resolution": "retry" }))).await;
    let again: DriveResult = server.ok("resume", server.here(run)).await;
    assert_eq!((again.status, again.parked_workers), (RunStatus::Parked, 1));
    let both = records(&server, &result.run_id).await;
    assert_eq!(both.iter().map(|r| r.status).collect::<Vec<_>>(), [FeedbackStatus::Resolved, FeedbackStatus::Open]);
    assert_ne!(both[0].id, both[1].id);
    server.finish().await;
}

#[tokio::test]
async fn f118_resume_of_a_parked_run_records_no_fault_twice() {
    let ws = TestWorkspace::new();
    let (server, result, open) = parked(&ws, 3).await;
    server.finish().await;
    let before = journal(&ws, &result.run_id);
    for _ in 0..2 {
        resume(&ws, &result.run_id, json!({})).await;
    }
    let added = &journal(&ws, &result.run_id)[before.len()..];
    assert!(added.iter().all(|event| ["driveStarted", "driveFinished"].contains(&event["type"].as_str().unwrap())));
    let server = Server::start(&ws, Framing::Ndjson).await;
    assert_eq!(records(&server, &result.run_id).await, open);
    server.finish().await;
}

#[tokio::test]
async fn f119_ids_of_records_say_the_class_the_task_and_the_attempt_whoever_parked_first() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("dirty", config::fixture(&ws, &["--kind", "bad-json"])),
        ("failing", shell("exit 7")),
    ]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let all = [task("one").agent("dirty"), task("two").agent("failing")];
    let result = server.drive(&workflow(2, [phase("map", all)]), json!({ "maxAttempts": 2 })).await;
    let ids: Vec<String> = records(&server, &result.run_id).await.iter().map(|record| record.id.to_string()).collect();
    assert_eq!(ids, ["feedback-parse-error-one-0002", "feedback-unknown-two-0002"]);
    server.finish().await;
}

#[tokio::test]
async fn f120_ids_that_look_alike_share_no_file() {
    let ws = TestWorkspace::new();
    let ids = ["a/b", "a_b", "a:b", "A_b"];
    let result = drive(&ws, &workflow(4, [phase("map", ids.map(task))]), json!({})).await;
    assert_eq!((result.status, workers(&ws, &result.run_id).len()), (RunStatus::Complete, 4));
    let mut folded: Vec<String> =
        names(&ws.run_folder(&result.run_id).join("results")).iter().map(|name| name.to_lowercase()).collect();
    folded.dedup();
    assert_eq!(folded.len(), 4, "also where upper and lower case are one: {folded:?}");
    for view in views(&ws, &result.run_id).await {
        let text = fs::read_to_string(view.result_path.unwrap()).unwrap();
        assert!(text.contains(&format!("{} is answered", view.id)), "{} points to another task's result", view.id);
    }
}

#[tokio::test]
async fn h135_record_of_a_fault_has_its_class_and_severity_and_is_written_once() {
    let ws = TestWorkspace::new();
    let (server, result, open) = parked(&ws, 1).await;
    assert_eq!(
        (open[0].classification, open[0].severity, open[0].code.as_str()),
        (FeedbackClass::MissingEvidence, FeedbackSeverity::Medium, "missing-required-evidence")
    );
    let written = journal(&ws, &result.run_id);
    let of_it: Vec<&Value> = written.iter().filter(|event| event["type"] == "taskParked").collect();
    assert_eq!((of_it.len(), &of_it[0]["feedback"]["id"]), (1, &json!(open[0].id)));
    server.finish().await;
}

#[tokio::test]
async fn f116_rejected_record_needs_no_node_and_its_task_stays_parked() {
    let ws = TestWorkspace::new();
    let (server, result, open) = parked(&ws, 1).await;
    assert_eq!(reject(&server, &open[0]).await.resolved_at, None);
    let again: DriveResult = server.ok("resume", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!((again.status, again.parked_workers), (RunStatus::Parked, 1));
    let error = server.err("resolveFeedback", {
        let mut other = open[0].clone();
        other.id = "feedback-nobody".parse().unwrap();
        closing(&server, &other, json!({ "resolution": "rejected" }))
    });
    error.await.assert_kind(ErrorKind::FeedbackUnknown);
    server.finish().await;
}
