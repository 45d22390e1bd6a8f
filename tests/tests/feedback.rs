//! What happens to a result that does not hold: tried again with the reason, parked with a feedback record, and closed
//! by a person in one of three ways.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::feedback::{FeedbackClass, FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::method::ListFeedbackResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StepAction, StepStatus, TaskStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, ledger, phase, task, workflow};
use serde_json::{Value, json};

/// A run with one accepted task and one that parked because its result cites nothing.
async fn parked(ws: &TestWorkspace, framing: Framing) -> (Server, DriveResult, FeedbackRecord) {
    ws.configure(&config::config([
        ("good", config::fixture(ws, &[])),
        ("idle", config::fixture(ws, &["--kind", "no-evidence"])),
    ]));
    let server = Server::start(ws, framing).await;
    let tasks = [task("map:good"), task("map:bad").agent("idle").needs_evidence()];
    let document = workflow(2, [phase("map", tasks), phase("verdict", [task("verdict:all").needs_evidence()])]);
    let result = server.drive(&document, json!({})).await;
    let record = one_record(&server, &result).await;
    (server, result, record)
}

async fn one_record(server: &Server, result: &DriveResult) -> FeedbackRecord {
    let params = server.here(json!({ "runId": result.run_id }));
    let listed: ListFeedbackResult = server.ok("listFeedback", params).await;
    assert_eq!(listed.feedback.len(), 1, "{listed:#?}");
    listed.feedback[0].clone()
}

fn resolve(server: &Server, record: &FeedbackRecord, fields: Value) -> Value {
    let mut params = server.here(fields);
    params["runId"] = json!(record.run_id);
    params["feedbackId"] = json!(record.id);
    params
}

fn input_of(ws: &TestWorkspace, run: &str, worker: &str) -> String {
    fs::read_to_string(ws.run_folder(run).join("workers").join(worker).join("input.md")).unwrap()
}

#[tokio::test]
async fn three_refusals_park_the_task_and_open_one_record() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (server, result, record) = parked(&ws, framing).await;
        assert_eq!((result.status, result.completed_workers, result.parked_workers), (RunStatus::Parked, 1, 1));
        assert_eq!(result.commit_id, None);
        assert_eq!(ws.agent_runs(), [("map:bad".to_owned(), 3), ("map:good".to_owned(), 1)].into());

        let steps: Vec<_> = result
            .steps
            .iter()
            .filter(|step| step.task_id.as_ref().is_some_and(|id| id.as_str() == "map:bad"))
            .filter(|step| step.action != StepAction::Dispatch)
            .map(|step| (step.action, step.status, step.attempts))
            .collect();
        assert_eq!(
            steps,
            [
                (StepAction::Fulfill, StepStatus::Failed, Some(1)),
                (StepAction::Fulfill, StepStatus::Failed, Some(2)),
                (StepAction::Park, StepStatus::Parked, Some(3)),
            ]
        );
        let reason = result.steps.iter().find(|s| s.action == StepAction::Park).unwrap().reason.clone().unwrap();
        assert!(reason.contains("(attempt 3/3)") && reason.contains("evidence"), "{reason}");

        assert_eq!((record.status, record.classification), (FeedbackStatus::Open, FeedbackClass::MissingEvidence));
        assert_eq!(record.code, "missing-required-evidence");
        assert_eq!(record.task_id.as_ref().map(AsRef::as_ref), Some("map:bad"));
        assert!(record.message.contains("map:bad"), "{}", record.message);

        let events: Vec<Event> = server.lifecycle(result.run_id.as_str()).into_iter().map(|e| e.event).collect();
        let retries = events.iter().filter(|event| matches!(event, Event::TaskRetrying { .. })).count();
        assert_eq!(retries, 2);
        assert!(events.iter().any(|e| matches!(e, Event::TaskParked { attempts: 3, .. })));
        let opened =
            events.iter().any(|e| matches!(e, Event::FeedbackOpened { feedback_id, .. } if *feedback_id == record.id));
        assert!(opened, "{events:#?}");
        let report = fs::read_to_string(&result.report_path).unwrap();
        assert!(report.contains("map:bad") && report.contains("evidence"), "the report says what parked and why");
        server.finish().await;
    }
}

#[tokio::test]
async fn the_next_attempt_is_told_what_was_refused_and_why() {
    let ws = TestWorkspace::new();
    let (server, result, _) = parked(&ws, Framing::Ndjson).await;
    let workers: Vec<String> = ledger::read(&ws.ledger())
        .into_iter()
        .filter(|e| e.task == "map:bad" && e.what == ledger::What::Start)
        .map(|e| e.worker)
        .collect();
    assert_eq!(workers.len(), 3);
    let inputs: Vec<String> = workers.iter().map(|worker| input_of(&ws, result.run_id.as_str(), worker)).collect();
    // Ids derive from task and attempt, so each attempt has a folder of its own.
    let mut distinct = workers.clone();
    distinct.dedup();
    assert_eq!(distinct.len(), 3, "{workers:?}");
    let words = "requires grounded cw:result evidence";
    assert!(!inputs[0].contains(words), "nothing was refused before the first attempt: {}", inputs[0]);
    assert!(inputs[1].contains(words), "{}", inputs[1]);
    server.finish().await;
}

#[tokio::test]
async fn resolving_fails_closed_and_then_works_with_a_verified_node() {
    let ws = TestWorkspace::new();
    let (server, result, record) = parked(&ws, Framing::Lsp).await;
    let run = result.run_id.as_str();
    // Closing a record takes the run's lock, whose text says who has it.
    let record_on_disk = || {
        let mut files = ws.snapshot();
        files.retain(|path, _| !path.ends_with("drive.lock"));
        files
    };
    let before = record_on_disk();
    let refused = [
        (json!({ "resolution": "resolved" }), "cannot resolve without a verified node id"),
        (json!({ "resolution": "resolved", "nodeId": format!("{run}:verifier:no-such-task") }), "not found"),
        (json!({ "resolution": "resolved", "nodeId": format!("{run}:task:map:bad") }), "must be verified or committed"),
    ];
    for (fields, words) in refused {
        let error = server.err("resolveFeedback", resolve(&server, &record, fields.clone())).await;
        error.assert_kind(ErrorKind::ResolutionRefused);
        assert!(error.message.contains(words), "{fields}: {error:?}");
    }
    let mut other = record.clone();
    other.id = "feedback-no-such-record".parse().unwrap();
    let error = server.err("resolveFeedback", resolve(&server, &other, json!({ "resolution": "rejected" }))).await;
    error.assert_kind(ErrorKind::FeedbackUnknown);
    flowdrive_tests::tree::assert_same(&before, &record_on_disk(), "after resolutions that were all refused");
    assert_eq!(one_record(&server, &result).await, record);

    let node = format!("{run}:verifier:map:good");
    let fields = json!({
        "resolution": "resolved", "nodeId": node, "message": "settled by hand", "evidence": ["src/store.rs:2"],
    });
    let closed: FeedbackRecord = server.ok("resolveFeedback", resolve(&server, &record, fields)).await;
    assert_eq!(closed.status, FeedbackStatus::Resolved);
    assert_eq!(closed.resolved_by_node_id.as_ref().map(AsRef::as_ref), Some(node.as_str()));
    assert!(closed.resolved_at.is_some());
    assert_eq!(closed.resolution_note.as_deref(), Some("settled by hand"));
    assert_eq!(closed.evidence.last().map(|evidence| evidence.locator.as_str()), Some("src/store.rs:2"));
    assert_eq!(one_record(&server, &result).await, closed);

    // No drive is under way that could tell it, but it is part of the run's story.
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run, "sinceSeq": 0 }))).await;
    let told = view.events.last().map(|event| &event.event);
    assert!(matches!(told, Some(Event::FeedbackClosed { feedback_id, .. }) if *feedback_id == closed.id), "{told:?}");
    let verified: Value = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
    assert_eq!(verified["ok"], true, "{verified:#}");
    server.finish().await;
}

#[tokio::test]
async fn rejecting_closes_the_record_and_leaves_the_task_parked() {
    let ws = TestWorkspace::new();
    let (server, result, record) = parked(&ws, Framing::Ndjson).await;
    let fields = json!({ "resolution": "rejected", "message": "not worth it" });
    let closed: FeedbackRecord = server.ok("resolveFeedback", resolve(&server, &record, fields)).await;
    assert_eq!((closed.status, closed.resolved_by_node_id), (FeedbackStatus::Rejected, None));
    let again: DriveResult = server.ok("resume", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!((again.status, again.parked_workers), (RunStatus::Parked, 1), "{again:#?}");
    assert_eq!(ws.agent_runs()["map:bad"], 3, "nothing was run again");
    let open: ListFeedbackResult =
        server.ok("listFeedback", server.here(json!({ "runId": result.run_id, "status": "open" }))).await;
    assert_eq!(open.feedback, []);
    server.finish().await;
}

#[tokio::test]
async fn retry_opens_the_task_again_with_guidance_and_resume_completes() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (server, result, record) = parked(&ws, framing).await;
        let run = result.run_id.as_str();
        let guidance = "Look in src/store.rs, and cite the line that stores.";
        let fields = json!({ "resolution": "retry", "guidance": guidance });
        let closed: FeedbackRecord = server.ok("resolveFeedback", resolve(&server, &record, fields)).await;
        assert_eq!((closed.status, closed.guidance.as_deref()), (FeedbackStatus::Resolved, Some(guidance)));
        let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
        let task = view.tasks.iter().find(|task| task.id.as_str() == "map:bad").unwrap();
        assert_eq!((task.status, view.summary.open_feedback), (TaskStatus::Pending, 0));
        server.finish().await;

        // The person also mended the agent; another server carries on.
        ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("idle", config::fixture(&ws, &[]))]));
        let server = Server::start(&ws, framing).await;
        let done: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
        assert_eq!((done.status, done.completed_workers), (RunStatus::Complete, 3), "{done:#?}");
        let runs = ws.agent_runs();
        assert_eq!((runs["map:good"], runs["map:bad"], runs["verdict:all"]), (1, 4, 1), "only what was open was run");
        let worker = ledger::read(&ws.ledger()).into_iter().rfind(|entry| entry.task == "map:bad").unwrap().worker;
        let input = input_of(&ws, run, &worker);
        assert!(input.contains(guidance), "{input}");
        server.finish().await;
    }
}

/// What closing a record again says, and what of the run's record it changes.
async fn again(server: &Server, ws: &TestWorkspace, record: &FeedbackRecord, fields: Value) -> (FeedbackRecord, bool) {
    let journal = || fs::read(ws.run_folder(&record.run_id).join("journal.jsonl")).unwrap();
    let before = journal();
    let answer: FeedbackRecord = server.ok("resolveFeedback", resolve(server, record, fields)).await;
    (answer, journal() != before)
}

#[tokio::test]
async fn other_guidance_is_taken_in_until_the_task_is_tried_again() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (server, result, record) = parked(&ws, framing).await;
        let run = result.run_id.as_str();
        let retry = |words: &str| json!({ "resolution": "retry", "guidance": words });
        // Without guidance at first; then it comes; then the same twice; then other words. What was said last counts.
        let mut resolved_at = None;
        for (fields, told, changes) in [
            (json!({ "resolution": "retry" }), None, true),
            (json!({ "resolution": "retry" }), None, false),
            (retry("Look in src/lib.rs."), Some("Look in src/lib.rs."), true),
            (retry("Look in src/lib.rs."), Some("Look in src/lib.rs."), false),
            (json!({ "resolution": "retry" }), Some("Look in src/lib.rs."), false),
            (retry("  "), Some("Look in src/lib.rs."), false),
            (retry("Look in src/store.rs."), Some("Look in src/store.rs."), true),
            (json!({ "resolution": "retry", "message": "a note" }), Some("Look in src/store.rs."), true),
        ] {
            let (closed, changed) = again(&server, &ws, &record, fields.clone()).await;
            assert_eq!((closed.guidance.as_deref(), changed), (told, changes), "{fields}");
            assert_eq!(closed.status, FeedbackStatus::Resolved);
            assert_eq!(closed.resolved_at, *resolved_at.get_or_insert(closed.resolved_at), "closed once: {fields}");
        }
        server.finish().await;

        // Another server reads it from the journal, and the next attempt is told the last words alone.
        ws.configure(&config::config([
            ("good", config::fixture(&ws, &[])),
            ("idle", config::fixture(&ws, &["--kind", "no-evidence", "--gate", &ws.beside("gate")])),
        ]));
        let server = Server::start(&ws, framing).await;
        let id = server.send("resume", server.here(json!({ "runId": run, "maxAttempts": 1 }))).await;
        server
            .wait_event(
                "the next attempt",
                |e| matches!(&e.event, Event::TaskDispatched { task_id, .. } if task_id.as_str() == "map:bad"),
            )
            .await;
        let late = |words: &'static str| (retry("Too late."), words);
        let (fields, words) = late("is being tried with what was said before");
        let error = server.err("resolveFeedback", resolve(&server, &record, fields)).await;
        error.assert_kind(ErrorKind::ResolutionRefused);
        assert!(error.message.contains(words), "{error:?}");
        ws.open_gate("gate");
        let parked_anew: DriveResult = server.result(id).await;
        assert_eq!(parked_anew.status, RunStatus::Parked, "{parked_anew:#?}");
        let worker = ledger::read(&ws.ledger()).into_iter().rfind(|entry| entry.task == "map:bad").unwrap().worker;
        let input = input_of(&ws, run, &worker);
        assert!(input.contains("Look in src/store.rs.") && !input.contains("Look in src/lib.rs."), "{input}");

        // It parked anew: the words belong to the record of that, and the error names it.
        let newer = records(&server, run).await.into_iter().find(|r| r.status == FeedbackStatus::Open).unwrap();
        let (fields, words) = late(newer.id.as_str().to_owned().leak());
        let error = server.err("resolveFeedback", resolve(&server, &record, fields)).await;
        error.assert_kind(ErrorKind::ResolutionRefused);
        assert!(error.message.contains(words), "{error:?}");
        // Said of the newer one, they reach the attempt; once its result is accepted there is nothing to guide.
        let (_, changed) = again(&server, &ws, &newer, retry("Cite src/store.rs:2.")).await;
        assert!(changed);
        // The older record's closing still answers the same, and cannot put its words in the newer one's place.
        let (_, changed) = again(&server, &ws, &record, retry("Look in src/store.rs.")).await;
        assert!(!changed);
        server.err("resolveFeedback", resolve(&server, &record, retry("Old words."))).await;
        server.finish().await;

        ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("idle", config::fixture(&ws, &[]))]));
        let server = Server::start(&ws, framing).await;
        let done: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
        assert_eq!(done.status, RunStatus::Complete, "{done:#?}");
        let worker = ledger::read(&ws.ledger()).into_iter().rfind(|entry| entry.task == "map:bad").unwrap().worker;
        let input = input_of(&ws, run, &worker);
        assert!(input.contains("Cite src/store.rs:2.") && !input.contains("words"), "{input}");
        let error = server.err("resolveFeedback", resolve(&server, &newer, retry("Too late."))).await;
        error.assert_kind(ErrorKind::ResolutionRefused);
        assert!(error.message.contains("was accepted"), "{error:?}");
        let verified: Value = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
        assert_eq!(verified["ok"], true, "{verified:#}");
        server.finish().await;
    }
}

#[tokio::test]
async fn a_closed_record_takes_in_whatever_is_said_of_it_anew() {
    let node = |run: &str| format!("{run}:verifier:map:good");
    for how in ["rejected", "resolved", "tasked"] {
        let ws = TestWorkspace::new();
        let (server, result, record) = parked(&ws, Framing::Ndjson).await;
        let said = |fields: Value| {
            let mut fields = fields;
            fields["resolution"] = json!(how);
            if how == "resolved" {
                fields["nodeId"] = json!(node(result.run_id.as_str()));
            }
            fields
        };
        for (fields, changes) in [
            (said(json!({ "message": "first" })), true),
            (said(json!({ "message": "first" })), false),
            (said(json!({})), false),
            (said(json!({ "message": "second", "evidence": ["src/store.rs:2"] })), true),
            (said(json!({ "evidence": ["src/store.rs:2"], "artifacts": ["notes.md"] })), true),
            (said(json!({ "evidence": ["src/store.rs:2"], "artifacts": ["notes.md"] })), false),
            (said(json!({ "guidance": "ask the author" })), true),
            (said(json!({ "guidance": "ask the author" })), false),
        ] {
            let (_, changed) = again(&server, &ws, &record, fields.clone()).await;
            assert_eq!(changed, changes, "{how}: {fields}");
        }
        let closed = one_record(&server, &result).await;
        assert_eq!(closed.resolution_note.as_deref(), Some("second"), "{how}");
        assert_eq!(closed.guidance.as_deref(), Some("ask the author"), "{how}");
        assert_eq!((closed.evidence.len(), closed.artifacts.len()), (1, 1), "{how}");
        if how == "tasked" {
            let text = fs::read_to_string(ws.run_folder(&result.run_id).join(format!("{}.md", record.id))).unwrap();
            assert!(text.contains("ask the author"), "{text}");
        }
        server.finish().await;
    }
}

#[tokio::test]
async fn a_record_closed_while_nobody_drives_is_told_like_any_other_event() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let (server, result, record) = parked(&ws, framing).await;
        let closed = resolve(&server, &record, json!({ "resolution": "rejected" }));
        let answer: FeedbackRecord = server.ok("resolveFeedback", closed).await;
        assert_eq!(answer.status, FeedbackStatus::Rejected);
        let live = server.lifecycle(result.run_id.as_str());
        assert!(matches!(live.last().unwrap().event, Event::FeedbackClosed { .. }), "{live:#?}");
        let params = server.here(json!({ "runId": result.run_id, "sinceSeq": 0 }));
        let view: RunView = server.ok("showRun", params).await;
        assert_eq!(view.events, live, "no gap between what was told and what is kept");
        server.finish().await;
    }
}

/// A run with three parked tasks and one that is accepted; their records, in task order.
async fn three_parked(ws: &TestWorkspace) -> (Server, DriveResult, Vec<FeedbackRecord>) {
    ws.configure(&config::config([
        ("good", config::fixture(ws, &[])),
        ("idle", config::fixture(ws, &["--kind", "no-evidence"])),
    ]));
    let server = Server::start(ws, Framing::Ndjson).await;
    let bad = ["map:a", "map:b", "map:c"].map(|id| task(id).agent("idle").needs_evidence());
    let tasks = bad.into_iter().chain([task("map:good")]);
    let result = server.drive(&workflow(4, [phase("map", tasks)]), json!({ "maxAttempts": 1 })).await;
    let records = records(&server, result.run_id.as_str()).await;
    (server, result, records)
}

async fn records(server: &Server, run: &str) -> Vec<FeedbackRecord> {
    let listed: ListFeedbackResult = server.ok("listFeedback", server.here(json!({ "runId": run }))).await;
    listed.feedback
}

#[tokio::test]
async fn records_opened_at_once_have_ids_of_their_own() {
    let ws = TestWorkspace::new();
    let (server, result, opened) = three_parked(&ws).await;
    assert_eq!((result.parked_workers, opened.len()), (3, 3));
    let ids: std::collections::BTreeSet<_> = opened.iter().map(|record| &record.id).collect();
    assert_eq!(ids.len(), 3, "{opened:#?}");
    for (record, id) in opened.iter().zip(["map:a", "map:b", "map:c"]) {
        assert_eq!(record.task_id.as_ref().unwrap().as_str(), id, "listed in task order");
    }
    server.finish().await;
}

#[tokio::test]
async fn several_records_are_closed_by_one_request_or_none_is() {
    let ws = TestWorkspace::new();
    let (server, result, opened) = three_parked(&ws).await;
    let run = result.run_id.as_str();
    let all = |others: Value, fields: Value| {
        let mut params = resolve(&server, &opened[0], fields);
        params["feedbackIds"] = others;
        params
    };
    // One of them cannot be closed so, and none is.
    let unknown = all(json!([opened[1].id, "feedback-no-such-record"]), json!({ "resolution": "rejected" }));
    server.err("resolveFeedback", unknown).await.assert_kind(ErrorKind::FeedbackUnknown);
    let node = json!({ "resolution": "resolved", "nodeId": format!("{run}:verifier:map:good") });
    let one = resolve(&server, &opened[2], node.clone());
    let _: FeedbackRecord = server.ok("resolveFeedback", one).await;
    let closed_otherwise = all(json!([opened[1].id, opened[2].id]), json!({ "resolution": "rejected" }));
    server.err("resolveFeedback", closed_otherwise).await.assert_kind(ErrorKind::ResolutionRefused);
    let now = records(&server, run).await;
    assert_eq!((&now[0], &now[1]), (&opened[0], &opened[1]));

    let both = all(json!([opened[1].id, opened[0].id]), json!({ "resolution": "retry", "guidance": "cite it" }));
    let first: FeedbackRecord = server.ok("resolveFeedback", both.clone()).await;
    assert_eq!((&first.id, first.status), (&opened[0].id, FeedbackStatus::Resolved));
    let closed = records(&server, run).await;
    assert!(closed.iter().all(|record| record.status == FeedbackStatus::Resolved), "{closed:#?}");
    // Asked twice, nothing changes, and the answer is the same.
    let journal = || fs::read(ws.run_folder(run).join("journal.jsonl")).unwrap();
    let before = journal();
    let again: FeedbackRecord = server.ok("resolveFeedback", both).await;
    assert_eq!((again, journal()), (first, before));
    let told = server.lifecycle(run).into_iter().filter(|e| matches!(e.event, Event::FeedbackClosed { .. })).count();
    assert_eq!(told, 3, "each record's closing is told once");
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    let status = |id: &str| view.tasks.iter().find(|task| task.id.as_str() == id).unwrap().status;
    assert_eq!(
        (status("map:a"), status("map:b"), status("map:c")),
        (TaskStatus::Pending, TaskStatus::Pending, TaskStatus::Failed)
    );
    server.finish().await;
}

#[tokio::test]
async fn a_correction_task_is_written_down_and_the_record_waits_for_it() {
    let ws = TestWorkspace::new();
    let (server, result, record) = parked(&ws, Framing::Lsp).await;
    let run = result.run_id.as_str();
    let fields = json!({ "resolution": "tasked", "guidance": "Ask the author of src/store.rs." });
    let tasked: FeedbackRecord = server.ok("resolveFeedback", resolve(&server, &record, fields.clone())).await;
    assert_eq!((tasked.status, tasked.resolved_at), (FeedbackStatus::Tasked, None));
    let correction = tasked.correction_task_id.clone().unwrap();
    let file = ws.run_folder(run).join(format!("{}.md", record.id));
    let text = fs::read_to_string(&file).unwrap();
    for part in ["requires grounded cw:result evidence", "task-marker=map:bad", "Ask the author", "feedback resolve"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again: FeedbackRecord = server.ok("resolveFeedback", resolve(&server, &record, fields)).await;
    assert_eq!(again, tasked, "asked twice, the answer is the same");

    // No drive runs it, and the record still waits.
    let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!((resumed.status, resumed.parked_workers), (RunStatus::Parked, 1));
    assert_eq!(ws.agent_runs()["map:bad"], 3);
    let report = fs::read_to_string(&result.report_path).unwrap();
    assert!(report.contains(record.id.as_str()), "it waits for a person: {report}");
    // Its node is not verified, so it settles nothing by itself.
    let node = format!("{run}:task:{correction}");
    let params = resolve(&server, &record, json!({ "resolution": "resolved", "nodeId": node }));
    let error = server.err("resolveFeedback", params).await;
    assert!(error.message.contains("must be verified or committed") && error.message.contains("pending"), "{error:?}");
    let params = resolve(&server, &record, json!({ "resolution": "retry", "guidance": "The author says: line 2." }));
    let closed: FeedbackRecord = server.ok("resolveFeedback", params).await;
    assert_eq!(closed.status, FeedbackStatus::Resolved);
    server.finish().await;
}

#[tokio::test]
async fn a_task_that_is_parked_still_gets_a_new_record_when_its_own_was_settled_by_another_node() {
    let ws = TestWorkspace::new();
    let (server, result, record) = parked(&ws, Framing::Ndjson).await;
    let run = result.run_id.as_str();
    let node = json!({ "resolution": "resolved", "nodeId": format!("{run}:verifier:map:good") });
    let _: FeedbackRecord = server.ok("resolveFeedback", resolve(&server, &record, node)).await;
    for _ in 0..2 {
        let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
        assert_eq!((resumed.status, resumed.parked_workers), (RunStatus::Parked, 1));
        let now = records(&server, run).await;
        assert_eq!(now.len(), 2, "one more, however often it is resumed: {now:#?}");
    }
    let collected = records(&server, run).await.into_iter().find(|r| r.status == FeedbackStatus::Open).unwrap();
    assert_eq!(collected.source, flowdrive_protocol::feedback::FeedbackSource::StateNode);
    assert_eq!((&collected.code, &collected.message), (&record.code, &record.message));
    assert_ne!(collected.id, record.id);
    // So there is something to retry.
    let params = resolve(&server, &collected, json!({ "resolution": "retry" }));
    let _: FeedbackRecord = server.ok("resolveFeedback", params).await;
    server.finish().await;
}
