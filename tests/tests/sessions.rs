//! A known program's own session is recorded as soon as it streams, and carried on by the next attempt.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use flowdrive_protocol::config::{AgentConfig, Preset};
use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::json;

/// A stand-in for Claude Code: says its session and fails, then, asked to carry that session on, delivers.
const STAND_IN: &str = r#"#!/bin/sh
echo "$*" >>"CALLS"
cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"made-up-session-7"}'
case "$*" in
  *"--resume made-up-session-7"*)
    echo '{"type":"result","subtype":"success","is_error":false,"session_id":"made-up-session-7","result":"See CITE."}' ;;
  *) echo "made-up crash" >&2; exit 1 ;;
esac
"#;

#[tokio::test]
async fn the_next_attempt_carries_on_the_session_of_the_one_that_failed() {
    let ws = TestWorkspace::new();
    let (program, calls) = (ws.beside("claude"), ws.beside("calls"));
    fs::write(&program, STAND_IN.replace("CALLS", &calls).replace("CITE", CITE)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let claude = AgentConfig { preset: Some(Preset::Claude), ..AgentConfig::default() };
    ws.configure(&config::config([("claude", claude)]));
    let path = format!("{}:/usr/bin:/bin", ws.root().display());
    let server = Server::builder(&ws, Framing::Ndjson).env("PATH", &path).start().await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "maxAttempts": 2 })).await;
    server.finish().await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let calls = fs::read_to_string(calls).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(!calls[0].contains("--resume") && calls[1].contains("--resume made-up-session-7"), "{calls:?}");
    let journal = fs::read_to_string(ws.run_folder(&result.run_id).join("journal.jsonl")).unwrap_or_default();
    let (known, failed) = (journal.find("made-up-session-7"), journal.find("made-up crash"));
    assert!(known.is_some() && known < failed, "the session is recorded before the attempt's end");
}
