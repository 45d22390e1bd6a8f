//! The disk fails, full or broken, at each place where it is written between an agent's end and the recorded acceptance of
//! its result: nothing is half accepted, the error is clear, and a resume comes to the same end without running what ran.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::method::VerifyRunResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, TaskStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, config, phase, task, workflow};
use serde_json::{Value, json};

const RUN: &str = "failing";

struct Scene {
    ws: TestWorkspace,
    document: Value,
}

/// What a fault left.
struct Left {
    /// The place that failed.
    name: String,
    /// Whether the agent had ended by itself, and the server knew.
    ended: bool,
    /// Whether the journal on the disk had the acceptance when the drive answered.
    accepted: bool,
    /// Whether the drive went on over it.
    shrugged: bool,
}

impl Scene {
    fn new(arguments: &[&str]) -> Self {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("only", config::fixture(&ws, arguments))]));
        Self { ws, document: workflow(1, [phase("map", [task("map:a").needs_evidence()])]) }
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.ws.run_folder(RUN).join("journal.jsonl")).unwrap_or_default()
    }

    /// What the run holds at its end, times and places aside.
    async fn held(&self, server: &Server, when: &str) -> Value {
        let params = server.here(json!({ "runId": RUN }));
        let verified: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
        assert!(verified.ok, "{when}: {verified:#?}");
        let view: RunView = server.ok("showRun", params).await;
        let task = &view.tasks[0];
        let result = fs::read_to_string(task.result_path.as_ref().unwrap()).unwrap();
        json!({
            "status": view.summary.status, "task": task.status, "attempts": task.attempts, "summary": task.summary,
            "findings": task.findings, "result": result, "feedback": view.summary.open_feedback,
        })
    }

    /// Drives a new run with a disk that fails at that place. None when the drive does not get there.
    async fn fail_at(&self, point: u32, kind: &str) -> Option<Left> {
        let _ = fs::remove_dir_all(self.ws.path().join(".cw"));
        let _ = fs::remove_file(self.ws.ledger());
        let builder = Server::builder(&self.ws, Framing::Ndjson).program(binary::fault_injected());
        let server = builder.env("FLOWDRIVE_FAIL_AT", &format!("{point}:{kind}")).start().await;
        let wish = server.here(json!({ "runId": RUN, "workflow": { "inline": self.document } }));
        let answer = server.call("drive", wish).await;
        let log = server.log();
        let line = log.lines().find(|line| line.contains("fault injection: ")).unwrap_or_default().to_owned();
        let name = line.rsplit_once('(').map_or("", |(_, name)| name.trim_end_matches(')')).to_owned();
        let when = format!("{kind} at point {point} ({name})");
        let accepted = self.journal().contains("\"type\":\"taskAccepted\"");
        // Known to the server: one that was killed in its last moments has not ended by itself.
        let noted =
            fs::read_to_string(self.ws.run_folder(RUN).join("ended.log")).is_ok_and(|notes| notes.ends_with('\n'));
        let ended = noted || self.journal().contains("\"type\":\"outcomeRecorded\"");
        if let Err(error) = &answer {
            let details = error.assert_kind(ErrorKind::StorageFailed);
            assert!(!details.hint.is_empty() && error.message.len() > 20, "{when}: {error:?}");
            if self.ws.run_folder(RUN).exists() && !self.journal().is_empty() {
                // What is told is what is on the disk: accepted whole, or not at all.
                let params = server.here(json!({ "runId": RUN }));
                if let Ok(view) = server.call("showRun", params).await {
                    let view: RunView = serde_json::from_value(view).unwrap();
                    let told = view.tasks[0].status == TaskStatus::Completed;
                    assert_eq!(told, accepted, "{when}: {view:#?}");
                    assert_eq!(view.tasks[0].summary.is_some(), accepted, "{when}");
                    let committed = self.journal().contains("\"type\":\"committed\"");
                    assert!(committed || view.summary.status != RunStatus::Complete, "{when}");
                }
            }
        }
        server.finish().await;
        (!name.is_empty()).then(|| Left { name, ended, accepted, shrugged: answer.is_ok() })
    }

    /// Resumes with a sound disk, and compares the end.
    async fn recover(&self, left: &Left, expected: &Value, when: &str) {
        let server = Server::start(&self.ws, Framing::Ndjson).await;
        let result: DriveResult = server.ok("resume", server.here(json!({ "runId": RUN }))).await;
        assert_eq!(result.status, RunStatus::Complete, "{when}: {result:#?}");
        assert_eq!(&self.held(&server, when).await, expected, "{when}");
        server.finish().await;
        let journal = self.journal();
        assert_eq!(journal.matches("\"type\":\"taskAccepted\"").count(), 1, "{when}");
        assert_eq!(journal.matches("\"type\":\"committed\"").count(), 1, "{when}");
        assert!(!journal.contains("taskRetrying"), "{when}: a disk is no fault of the agent's");
        if left.ended {
            assert_eq!(self.ws.agent_runs()["map:a"], 1, "{when}: the agent had ended and ran again");
            assert!(!journal.contains("taskInterrupted"), "{when}");
        }
    }
}

async fn every_place(arguments: &[&str], wanted: &[&str]) {
    let scene = Scene::new(arguments);
    let server = Server::start(&scene.ws, Framing::Ndjson).await;
    let result = server.drive(&scene.document, json!({ "runId": RUN })).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let expected = scene.held(&server, "undisturbed").await;
    server.finish().await;
    let mut between: BTreeMap<String, u32> = BTreeMap::new();
    for point in 1..400 {
        // Both kinds at each place in question; elsewhere, one after the other is enough to find the way.
        let Some(left) = scene.fail_at(point, if point % 2 == 0 { "enospc" } else { "eio" }).await else { break };
        if !left.ended {
            continue;
        }
        let when = format!("after a fault at point {point} ({})", left.name);
        scene.recover(&left, &expected, &when).await;
        if left.shrugged || left.accepted {
            continue;
        }
        *between.entry(left.name).or_insert(0) += 1;
        let other = if point % 2 == 0 { "eio" } else { "enospc" };
        // Where exactly an agent ends among the places differs from run to run.
        if let Some(left) = scene.fail_at(point, other).await.filter(|left| left.ended) {
            scene.recover(&left, &expected, &format!("{when}, the other kind")).await;
        }
    }
    for name in wanted {
        assert!(between.contains_key(*name), "no fault struck {name} between end and acceptance: {between:?}");
    }
}

#[tokio::test]
async fn at_each_write_of_a_short_results_acceptance() {
    every_place(&[], &["journal.write"]).await;
}

#[tokio::test]
async fn at_each_write_of_a_long_results_acceptance() {
    every_place(&["--pad-kb", "80"], &["atomic.write", "atomic.fsync", "atomic.rename", "dir.fsync", "journal.write"])
        .await;
}
