//! Statements 40 to 42, 107 to 113, 132, 133 and 136: what a result has to hold up to before it counts, and that whatever
//! goes wrong meanwhile leaves nothing half-accepted.

use std::fs;
use std::os::unix::fs::symlink;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::pkcs8::EncodePublicKey as _;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::{Signer as _, SigningKey};
use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::feedback::{FeedbackClass, FeedbackRecord};
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StepAction};
use flowdrive_tests::endpoint::{EndpointServer, Request, Response};
use flowdrive_tests::results::{self, Kind};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{
    GOOD, alone, drive, journal, journal_file, of_type, reasons, records, shell, steps, views, written,
};

/// Drives one task with one attempt; gives the record it parked with.
async fn refused(ws: &TestWorkspace, only: flowdrive_tests::workflow::Task) -> (DriveResult, FeedbackRecord) {
    let server = Server::start(ws, Framing::Ndjson).await;
    let result = server.drive(&alone(only), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.parked_workers), (RunStatus::Parked, 1), "{result:#?}");
    let mut open = records(&server, &result.run_id).await;
    assert_eq!(open.len(), 1, "{open:#?}");
    server.finish().await;
    (result, open.remove(0))
}

#[tokio::test]
async fn a40_promised_artifact_has_to_exist_and_then_the_task_goes_on() {
    let ws = TestWorkspace::new();
    let writes = format!("mkdir -p out; echo done >out/list.txt; {GOOD}");
    ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("writer", shell(&writes))]));
    let promise = |agent: &str| task("map:0").agent(agent).set("artifacts", json!(["out/list.txt"]));
    let (_, record) = refused(&ws, promise("good")).await;
    assert_eq!(
        (record.code.as_str(), record.classification),
        ("missing-artifact-path", FeedbackClass::MissingArtifact)
    );
    assert!(record.message.contains("out/list.txt"), "{record:#?}");
    let result = drive(&ws, &alone(promise("writer")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
}

#[tokio::test]
async fn a41_task_of_a_later_round_of_a_loop_is_held_to_its_artifacts_too() {
    let ws = TestWorkspace::new();
    let block = r#"{"summary":"s","findings":[{"id":"f","severity":"P3"}],"evidence":["src/lib.rs:1"]}"#;
    let found = format!("printf '```cw:result\\n{block}\\n```\\n' >\"$1\"");
    // The first round writes the file, the second takes it away.
    let script = format!("if head -1 \"$2\" | grep -q '@r2'; then rm -f out.txt; else touch out.txt; fi; {found}");
    ws.configure(&config::config([("agent", shell(&script))]));
    let mut round = phase("sweep", [task("sweep:t").set("artifacts", json!(["out.txt"]))]);
    round["loop"] = json!({ "maxRounds": 3, "until": { "noNewFindings": true } });
    let result = drive(&ws, &workflow(1, [round]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.completed_workers, result.parked_workers), (1, 1), "{result:#?}");
    let parked = steps(&result, StepAction::Park)[0];
    assert_eq!(parked.task_id.as_ref().unwrap().as_str(), "sweep:t@r2");
    assert!(parked.reason.as_deref().unwrap().contains("out.txt"), "{parked:?}");
}

#[tokio::test]
async fn f107_block_that_is_no_object_is_refused_in_plain_words() {
    for body in ["null", "3", "\"text\"", "[1]"] {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("odd", shell(&format!("printf '```cw:result\\n{body}\\n```\\n' >\"$1\"")))]));
        let (_, record) = refused(&ws, task("map:0")).await;
        assert_eq!((record.code.as_str(), record.classification), ("result-parse-error", FeedbackClass::ParseError));
        assert!(record.message.contains("cw:result") && record.message.contains("object"), "{}", record.message);
        assert!(!record.message.contains("undefined") && !record.message.contains("Cannot read"), "{}", record.message);
    }
}

#[tokio::test]
async fn f108_evidence_that_is_no_text_keeps_no_task_that_requires_none_from_being_accepted() {
    let ws = TestWorkspace::new();
    let body = r#"{"summary":"s","findings":[],"evidence":[7,null,true,{"at":1},"src/lib.rs:1"]}"#;
    ws.configure(&config::config([("odd", shell(&format!("printf '```cw:result\\n{body}\\n```\\n' >\"$1\"")))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    let accepted = of_type(&journal(&ws, &result.run_id), "taskAccepted").remove(0);
    let evidence = accepted["result"]["evidence"].as_array().unwrap();
    assert!(evidence.iter().all(|item| item["locator"].is_string()), "{evidence:#?}");
    assert!(evidence.iter().any(|item| item["locator"] == "src/lib.rs:1" && item["kind"] == "file"), "{evidence:#?}");
}

#[tokio::test]
async fn f109_result_that_is_a_link_out_of_its_folder_is_refused() {
    let ws = TestWorkspace::new();
    let outside = ws.beside("outside.md");
    fs::write(&outside, results::text(Kind::Good, "outside", CITE).unwrap()).unwrap();
    ws.configure(&config::config([("linker", shell(&format!("ln -s {outside} \"$1\"")))]));
    let (result, record) = refused(&ws, task("map:0")).await;
    assert!(record.message.contains("symbolic link"), "{record:#?}");
    assert!(!ws.run_folder(&result.run_id).join("results").exists(), "nothing of it was taken");
}

#[tokio::test]
async fn h136_result_outside_its_folder_is_a_fault_of_the_sandbox() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("linker", shell("ln -s ../../../../../../README.md \"$1\""))]));
    let (_, record) = refused(&ws, task("map:0")).await;
    assert_eq!((record.code.as_str(), record.classification), ("sandbox-write-denied", FeedbackClass::SandboxPolicy));
}

#[tokio::test]
async fn f110_evidence_behind_a_link_out_of_the_workspace_is_refused_and_a_linked_workspace_is_not() {
    let ws = TestWorkspace::new();
    fs::write(ws.beside("secret.txt"), "one\n").unwrap();
    symlink(ws.beside("secret.txt"), ws.path().join("inside.txt")).unwrap();
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &["--cite", "src/lib.rs:2"])),
        ("out", config::fixture(&ws, &["--cite", "inside.txt:1"])),
    ]));
    let (_, record) = refused(&ws, task("map:0").agent("out").needs_evidence()).await;
    assert!(record.message.contains("outside the workspace"), "{record:#?}");
    // The same workspace by another name.
    let linked = ws.root().join("linked");
    symlink(ws.path(), &linked).unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = json!({ "workspace": linked, "workflow": { "inline": alone(task("map:0").needs_evidence()) } });
    let result: DriveResult = server.ok("drive", params).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    server.finish().await;
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// What a signing agent does with a task: reads its input, delivers a result, and signs what it used; for the result as
/// well with `covers`. The key is made up.
fn signed(request: &Request, covers: bool, deliver: &str) -> Response {
    let key = SigningKey::from_bytes(&[7; 32]);
    let manifest = &request.json()["manifest"];
    let input = fs::read(manifest["inputPath"].as_str().unwrap()).unwrap();
    let run = manifest["resultPath"].as_str().unwrap().split("/runs/").nth(1).unwrap().split('/').next().unwrap();
    let result = results::text(Kind::Good, &request.task(), CITE).unwrap();
    let usage = json!({ "inputTokens": 7, "outputTokens": 5 });
    // Objects of serde_json are in the order of their keys, which is the form that is signed.
    let mut payload = json!({ "usage": usage, "runId": run, "taskId": request.task(), "promptDigest": sha256(&input) });
    if covers {
        payload["resultDigest"] = json!(sha256(result.as_bytes()));
    }
    let signature = BASE64_STANDARD.encode(key.sign(payload.to_string().as_bytes()).to_bytes());
    let delivered = if deliver.is_empty() { result } else { result.replace("is answered", deliver) };
    let stdout = json!({ "result": delivered, "usage": usage, "usageSignature": signature }).to_string();
    Response::json(&json!({ "exitCode": 0, "stdout": stdout }))
}

fn signer(endpoint: &EndpointServer, key: bool, required: bool) -> AgentConfig {
    let public = SigningKey::from_bytes(&[7; 32]).verifying_key().to_public_key_pem(LineEnding::LF).unwrap();
    AgentConfig {
        attest_public_key: key.then_some(public),
        require_attested_usage: Some(required),
        ..config::endpoint(endpoint.url())
    }
}

fn attestation(ws: &TestWorkspace, result: &DriveResult) -> Value {
    of_type(&journal(ws, &result.run_id), "taskAccepted").remove(0)["result"]["attestation"].take()
}

#[tokio::test]
async fn f111_usage_that_has_to_be_signed_and_is_not_is_refused_before_anything_changes() {
    let ws = TestWorkspace::new();
    let report = json!({ "usage": { "inputTokens": 7 } }).to_string();
    let mut unsigned = config::fixture(&ws, &["--print", &report]);
    unsigned.require_attested_usage = Some(true);
    let public = SigningKey::from_bytes(&[7; 32]).verifying_key().to_public_key_pem(LineEnding::LF).unwrap();
    unsigned.attest_public_key = Some(public);
    ws.configure(&config::config([("unsigned", unsigned)]));
    let (result, record) = refused(&ws, task("map:0")).await;
    assert!(record.message.contains("must sign"), "{record:#?}");
    assert!(of_type(&journal(&ws, &result.run_id), "taskAccepted").is_empty());
    assert!(!ws.run_folder(&result.run_id).join("results").exists());
}

#[tokio::test]
async fn f112_signature_does_not_hold_for_another_result_than_the_one_it_covers() {
    let endpoint = EndpointServer::start(|request| async move { signed(&request, true, "is invented") }).await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("signer", signer(&endpoint, true, true))]));
    let (_, record) = refused(&ws, task("map:0")).await;
    assert!(record.message.contains("signature does not match"), "{record:#?}");
    // The same answer with the result it was signed for passes.
    let endpoint = EndpointServer::start(|request| async move { signed(&request, true, "") }).await;
    ws.configure(&config::config([("signer", signer(&endpoint, true, true))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    assert_eq!(attestation(&ws, &result), json!({ "status": "attested", "coversResult": true }));
}

#[tokio::test]
async fn h132_signature_of_the_usage_alone_never_counts_for_the_result() {
    let endpoint = EndpointServer::start(|request| async move { signed(&request, false, "") }).await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("signer", signer(&endpoint, true, true))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    assert_eq!(attestation(&ws, &result), json!({ "status": "attested" }), "it does not say that it covers the result");
}

#[tokio::test]
async fn h133_without_a_key_usage_is_unattested_and_the_report_says_so() {
    let endpoint = EndpointServer::start(|request| async move { signed(&request, true, "") }).await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("signer", signer(&endpoint, false, false))]));
    let result = drive(&ws, &alone(task("map:0")), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    let found = attestation(&ws, &result);
    assert_eq!(found["status"], "unattested");
    assert!(found["reason"].as_str().unwrap().contains("no trust key configured"), "{found:#}");
    let report = fs::read_to_string(&result.report_path).unwrap();
    assert!(
        report.contains("- **unattested**: all usage: no report of it is signed by a key you configured"),
        "{report}"
    );
    // And where a key stands behind it, nothing of the kind is said.
    ws.configure(&config::config([("signer", signer(&endpoint, true, false))]));
    let result = drive(&ws, &alone(task("map:0")), json!({})).await;
    assert!(!fs::read_to_string(&result.report_path).unwrap().contains("unattested"));
}

#[tokio::test]
async fn f113_record_that_somebody_damaged_leaves_nothing_half_accepted_and_is_never_complete() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&alone(task("map:0")), json!({})).await;
    written(&ws, &run, "processStarted", 1).await;
    let file = journal_file(&ws, &run);
    let sound = fs::read(&file).unwrap();
    fs::write(&file, [&sound[..], b"not a line of a journal\n"].concat()).unwrap();
    ws.open_gate("gate");
    server.answer(request).await.unwrap_err().assert_kind(ErrorKind::RunCorrupt);
    // However often it is tried, nothing is accepted on top of the damage.
    for method in ["resume", "drive"] {
        server.err(method, server.here(json!({ "runId": run }))).await.assert_kind(ErrorKind::RunCorrupt);
    }
    fs::write(&file, sound).unwrap();
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert_eq!((view.summary.completed_workers, view.summary.status), (0, RunStatus::InProgress));
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 1));
    server.finish().await;
    // Its agent had ended, and how was noted: it is judged now, not run again.
    assert_eq!(views(&ws, &run).await[0].attempts, 1);
}
