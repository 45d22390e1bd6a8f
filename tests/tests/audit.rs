//! What a run's record and report say of the trust that was given: signatures that were demanded, names that were passed on,
//! and a report that is made again from the record, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use flowdrive_protocol::config::{AgentConfig, EnvPolicy};
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, workflow};
use serde_json::{Value, json};

const USAGE: &str = r#"{"usage":{"input_tokens":6,"output_tokens":4},"usageSignature":"bm90IG9uZQ=="}"#;

/// The public key of RFC 8410's example. Nothing here is signed by it.
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

fn journal(ws: &TestWorkspace, run: &str) -> Vec<Value> {
    let text = fs::read_to_string(ws.run_folder(run).join("journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
}

#[tokio::test]
async fn a_missing_signature_is_refused_unless_the_drive_allows_it_and_that_is_on_record() {
    let ws = TestWorkspace::new();
    let signing = AgentConfig {
        attest_public_key: Some(KEY.to_owned()),
        require_attested_usage: Some(true),
        ..config::fixture(&ws, &["--print", USAGE])
    };
    ws.configure(&config::config([("signing", signing), ("other", config::fixture(&ws, &["--print", USAGE]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(2, [phase("map", [task("map:a"), task("map:b").agent("other")])]);
    let refused = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    assert_eq!((refused.status, refused.completed_workers), (RunStatus::Parked, 1), "{refused:#?}");
    let run = refused.run_id.as_str();
    assert!(journal(&ws, run).iter().any(|event| event["code"] == "telemetry-unattested-blocked"));

    let allowed = server.drive(&document, json!({ "maxAttempts": 1, "allowUnattested": true })).await;
    assert_eq!((allowed.status, allowed.completed_workers), (RunStatus::Complete, 2), "{allowed:#?}");
    let events = journal(&ws, allowed.run_id.as_str());
    let overridden: Vec<&Value> =
        events.iter().filter(|event| event["result"]["attestation"]["overridden"] == true).collect();
    assert_eq!(overridden.len(), 1, "once, and only where a signature was demanded: {events:#?}");
    assert_eq!((&overridden[0]["type"], &overridden[0]["task"]), (&json!("taskAccepted"), &json!("map:a")));
    assert_eq!(overridden[0]["result"]["attestation"]["status"], "unattested");
    assert_eq!(events.iter().find(|e| e["type"] == "driveStarted").unwrap()["settings"]["allowUnattested"], true);
    let report = fs::read_to_string(&allowed.report_path).unwrap();
    assert!(report.contains("**unsigned**: `map:a` accepted"), "{report}");
    assert!(!fs::read_to_string(&refused.report_path).unwrap().contains("unsigned"));

    // For one drive only: the next one demands it again.
    let once = server.drive(&document, json!({ "concurrency": 1, "once": true, "allowUnattested": true })).await;
    assert_eq!(once.completed_workers, 1);
    let reversed = workflow(1, [sequential("map", [task("map:b").agent("other"), task("map:a")])]);
    let begun = server.drive(&reversed, json!({ "once": true, "allowUnattested": true })).await;
    let params = server.here(json!({ "runId": begun.run_id, "maxAttempts": 1 }));
    let resumed: DriveResult = server.ok("resume", params).await;
    assert_eq!((resumed.status, resumed.parked_workers), (RunStatus::Parked, 1), "{resumed:#?}");
    server.finish().await;
}

#[tokio::test]
async fn names_of_variables_that_were_passed_on_are_on_record_alone_and_in_a_window_and_values_never() {
    let ws = TestWorkspace::new();
    let secret = "sk-made-up-for-tests-0123456789";
    let denying = AgentConfig {
        env: Some(EnvPolicy { deny: vec!["OPENAI_API_KEY".to_owned()], ..EnvPolicy::default() }),
        ..config::fixture(&ws, &[])
    };
    ws.configure(&config::config([("open", config::fixture(&ws, &[])), ("closed", denying)]));
    let server = Server::builder(&ws, Framing::Ndjson).env("OPENAI_API_KEY", secret).start().await;
    for width in [1, 4] {
        let tasks = [task("map:a"), task("map:b"), task("map:shut").agent("closed")];
        let result = server.drive(&workflow(4, [phase("map", tasks)]), json!({ "concurrency": width })).await;
        assert_eq!(result.status, RunStatus::Complete);
        let events = journal(&ws, result.run_id.as_str());
        let outcomes: Vec<&Value> = events.iter().filter(|event| event["type"] == "outcomeRecorded").collect();
        assert_eq!(outcomes.len(), 3);
        for event in outcomes {
            let names = event["outcome"]["forwardedEnv"].as_array().cloned().unwrap_or_default();
            assert_eq!(names.contains(&json!("OPENAI_API_KEY")), event["task"] != "map:shut", "{event}");
        }
        let report = fs::read_to_string(&result.report_path).unwrap();
        assert!(report.contains("**passed on to agents**") && report.contains("OPENAI_API_KEY"), "{report}");
        let files = ws.snapshot().into_keys().map(|path| ws.path().join(path)).filter(|path| path.is_file());
        for path in files {
            let bytes = fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
    server.finish().await;
}

#[tokio::test]
async fn a_report_is_made_again_from_the_record_byte_for_byte() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &["--print", r#"{"model":"m-1","usage":{"total_tokens":7}}"#])),
        ("bad", config::fixture(&ws, &["--kind", "no-evidence"])),
    ]));
    let server = Server::start(&ws, Framing::Lsp).await;
    let tasks = [task("map:a"), task("map:bad").agent("bad").needs_evidence(), task("map:c")];
    let hunt = json!({ "id": "hunt", "loop": { "maxRounds": 2, "until": { "noNewFindings": true } },
        "tasks": [{ "id": "hunt:x", "prompt": "task-marker=hunt:x" }] });
    let document = workflow(2, [hunt, phase("map", tasks)]);
    let result = server.drive(&document, json!({ "maxAttempts": 2, "tokenBudget": 1000 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Parked, 4), "{result:#?}");
    let run = result.run_id.to_string();
    let folder = ws.run_folder(&run);
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let before = (read("report.md"), read("report.html"));
    server.finish().await;

    let names = ["report.md", "report.html", "state.json"];
    names.iter().for_each(|name| fs::remove_file(folder.join(name)).unwrap());
    let server = Server::start(&ws, Framing::Ndjson).await;
    let _: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert!(!folder.join("report.md").exists(), "reading writes nothing");
    let _: RunView = server.ok("showRun", server.here(json!({ "runId": run, "writeReport": true }))).await;
    assert!((read("report.md"), read("report.html")) == before, "{}", String::from_utf8_lossy(&read("report.md")));
    server.finish().await;

    // The command line does the same.
    names[..2].iter().for_each(|name| fs::remove_file(folder.join(name)).unwrap());
    let shown = ws.flowdrive(&["report", &run]).output().unwrap();
    assert!(shown.status.success() && shown.stdout == before.0, "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(read("report.html") == before.1);
}

#[tokio::test]
async fn a_run_whose_accepted_result_was_changed_is_never_complete() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(1, [sequential("map", [task("map:a"), task("map:b")])]);
    let begun = server.drive(&document, json!({ "once": true })).await;
    assert_eq!((begun.status, begun.completed_workers), (RunStatus::InProgress, 1));
    let run = begun.run_id.as_str();
    let results = ws.run_folder(run).join("results");
    let file = fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    // As many bytes as before, so that nothing but its digest tells.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("is answered", "is ANSWERED")).unwrap();
    for _ in 0..2 {
        let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
        assert_eq!((resumed.status, &resumed.commit_id), (RunStatus::Blocked, &None), "{resumed:#?}");
        let reason = resumed.reason.unwrap();
        assert!(reason.contains("map:a") && reason.contains("flowdrive verify"), "{reason}");
    }
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert_eq!((view.summary.status, view.summary.open_feedback), (RunStatus::Blocked, 1));
    // The journal has the text.
    fs::remove_file(&file).unwrap();
    let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(resumed.status, RunStatus::Complete, "{resumed:#?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    server.finish().await;
}
