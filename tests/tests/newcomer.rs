//! What meets those who have not set everything up yet: a program that is not installed, an endpoint that is not running, a
//! configuration with a slip in it. Each is told at once, with what to do, and costs nothing.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::DoctorResult;
use flowdrive_protocol::run::{CheckStatus, DriveResult, RunStatus};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

fn program(path: &str) -> AgentConfig {
    AgentConfig { command: Some(vec![path.to_owned(), "{{result}}".to_owned()]), ..AgentConfig::default() }
}

fn run(ws: &TestWorkspace, arguments: &[&str]) -> Output {
    let config = ws.config_file();
    ws.flowdrive(arguments).arg("--workspace").arg(ws.path()).arg("--config").arg(config).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn a_program_that_is_not_there_costs_no_attempt_and_the_others_work_on() {
    let ws = TestWorkspace::new();
    let later = ws.beside("installed-later.sh");
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &["--cite", CITE])),
        ("later", program(&later)),
        ("absent", program("made-up-agent-nobody-has")),
    ]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let tasks = [task("map:a").agent("later"), task("map:b"), task("map:c").agent("later"), task("map:d")];
    let document = workflow(4, [phase("map", tasks)]);
    let preview: Value = server.ok("preview", server.here(json!({ "workflow": { "inline": document } }))).await;
    assert_eq!(
        (&preview["agentConfigured"], &preview["nextAction"]),
        (&json!(false), &json!("blocked")),
        "{preview:#}"
    );
    assert!(preview["blockers"][0].as_str().unwrap().contains(&later), "{preview:#}");

    let result = server.drive(&document, json!({})).await;
    assert_eq!(
        (result.status, result.completed_workers, result.parked_workers, result.agent_configured),
        (RunStatus::Blocked, 2, 0, false),
        "{result:#?}"
    );
    let reason = result.reason.as_deref().unwrap();
    for part in ["agent later", later.as_str(), "does not exist", "flowdrive doctor", "flowdrive resume"] {
        assert!(reason.contains(part), "{part:?} in {reason}");
    }
    let view: Value = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!((&view["tasks"][0]["attempts"], &view["tasks"][0]["status"]), (&json!(0), &json!("pending")));

    // A name without a folder: where it was looked for is told.
    let other = workflow(1, [phase("map", [task("map:a").agent("absent")])]);
    let absent = server.drive(&other, json!({})).await;
    let reason = absent.reason.unwrap();
    assert!(reason.contains("made-up-agent-nobody-has") && reason.contains("PATH searched: "), "{reason}");

    // Installed meanwhile: nothing has to be taken back first.
    let text = format!("#!/bin/sh\nprintf 'It is there.\\n\\nSee {CITE}.\\n' >\"$1\"\n");
    std::fs::write(&later, text).unwrap();
    std::fs::set_permissions(&later, std::fs::Permissions::from_mode(0o755)).unwrap();
    let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": result.run_id }))).await;
    assert_eq!((resumed.status, resumed.completed_workers), (RunStatus::Complete, 4), "{resumed:#?}");
    assert_eq!(ws.agent_runs().len(), 2, "nothing accepted was run again");
    server.finish().await;
}

#[tokio::test]
async fn a_header_without_its_variable_is_told_before_anything_is_sent() {
    let ws = TestWorkspace::new();
    let mut remote = config::endpoint("http://127.0.0.1:9/delegate");
    remote.headers = [("authorization".to_owned(), "NOT_SET_ANYWHERE".to_owned())].into();
    ws.configure(&config::config([("remote", remote)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    assert_eq!((result.status, result.parked_workers), (RunStatus::Blocked, 0), "{result:#?}");
    assert!(result.reason.as_ref().unwrap().contains("NOT_SET_ANYWHERE"), "{result:#?}");
    server.finish().await;
}

#[tokio::test]
async fn an_endpoint_that_is_not_running_is_told_at_once_with_the_time_of_the_next_try() {
    let ws = TestWorkspace::new();
    // Bound and closed again: nobody listens there.
    let address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    ws.configure(&config::config([("remote", config::endpoint(&format!("http://{address}/delegate")))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.parked_workers), (RunStatus::Parked, 1), "{result:#?}");
    let events = server.lifecycle(result.run_id.as_str());
    let retries: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.event {
            Event::TaskRetrying { code, reason, not_before, .. } => Some((event.at, code, reason, not_before)),
            _ => None,
        })
        .collect();
    assert_eq!(retries.len(), 4, "as many tries as cost nothing where nobody listens: {retries:#?}");
    for (at, code, reason, not_before) in retries {
        assert_eq!(code, "endpoint-unreachable");
        assert!(reason.contains("is it running?") && reason.contains(&address.to_string()), "{reason}");
        let until = not_before.expect("the event says when it is tried again");
        // Four pauses of at most 0.5, 1, 2 and 4 seconds.
        assert!((-50..=4_000).contains(&(until.as_millis() - at.as_millis())), "{at} to {until}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a_broken_configuration_keeps_nobody_from_looking() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(1, [phase("map", [task("map:a")])]);
    let result = server.drive(&document, json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
    std::fs::write(ws.config_file(), "defaultAgent = \"mine\"\n[agents.mine]\npreset = \"cluade\"\n").unwrap();
    let fault = "did you mean `claude`?";
    let id = result.run_id.as_str();
    for command in [&["runs"][..], &["show", id], &["verify", id], &["feedback", "list", id], &["workflows"]] {
        let output = run(&ws, command);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", said(&output));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("warning:") && stderr.contains(fault), "{command:?}: {stderr}");
    }
    let output = run(&ws, &["doctor", "--json"]);
    let doctor: DoctorResult = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert!(!doctor.ok);
    let check = doctor.checks.iter().find(|check| check.name == "configuration").unwrap();
    assert!(check.status == CheckStatus::Fail && check.message.contains(fault), "{check:?}");
    assert!(doctor.checks.iter().any(|check| check.name == "workspace" && check.status == CheckStatus::Ok));
    for command in
        [&["drive", "quick-survey", "--input", "question=x"][..], &["preview", "quick-survey"], &["resume", id]]
    {
        let output = run(&ws, command);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", said(&output));
        assert!(said(&output).contains(fault), "{command:?}: {}", said(&output));
    }
}

#[test]
fn doctor_tells_of_runs_that_cannot_be_read() {
    let ws = TestWorkspace::new();
    let folder = ws.path().join(".cw/runs/made-up-run");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("journal.jsonl"), "{\"not\": \"a journal\"}\n{}\n").unwrap();
    let output = run(&ws, &["doctor", "--json"]);
    let doctor: DoctorResult = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let check = doctor.checks.iter().find(|check| check.name == "runs").unwrap();
    assert!(check.status == CheckStatus::Warn && check.message.contains("made-up-run"), "{check:?}");
}

#[test]
fn a_built_in_agent_is_suggested_by_its_whole_name() {
    let ws = TestWorkspace::new();
    let output = run(&ws, &["drive", "quick-survey", "--input", "question=x", "--agent", "survey"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("did you mean `builtin:survey`?"), "{}", said(&output));
}
