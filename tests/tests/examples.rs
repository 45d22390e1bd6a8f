//! The worked examples of `docs/agents.md`, run as they stand there.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, phase, task, workflow};
use serde_json::json;

/// The block that begins with this fence and contains these words.
fn block(fence: &str, words: &str) -> String {
    let text = fs::read_to_string(binary::repository().join("docs/agents.md")).unwrap();
    let closing = format!("\n{}\n", fence.trim_end_matches(char::is_alphabetic));
    text.split(&format!("\n{fence}\n"))
        .skip(1)
        .map(|rest| rest.split(&closing).next().unwrap())
        .find(|block| block.contains(words))
        .unwrap_or_else(|| panic!("docs/agents.md has no {fence} block with {words}"))
        .to_owned()
        + "\n"
}

async fn drive(ws: &TestWorkspace) -> (RunStatus, String) {
    let server = Server::start(ws, Framing::Ndjson).await;
    let document = workflow(1, [phase("map", [task("map:a").needs_evidence()])]);
    let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    server.finish().await;
    let report = fs::read_to_string(&result.report_path).unwrap_or_default();
    (result.status, format!("{report}\n{result:#?}"))
}

#[tokio::test]
async fn the_program_of_the_guide_is_an_agent() {
    let ws = TestWorkspace::new();
    let program = ws.beside("todo-agent");
    fs::write(&program, block("````sh", "todo-agent INPUT RESULT")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = block("```toml", "[agents.todo]");
    assert!(config.contains("/home/you/todo-agent"), "{config}");
    fs::write(ws.config_file(), config.replace("/home/you/todo-agent", &program)).unwrap();
    let (status, said) = drive(&ws).await;
    assert_eq!(status, RunStatus::Parked, "there is nothing to find yet");
    assert!(said.contains("nothing here says TODO"), "its words are the reason: {said}");
    ws.write("src/later.rs", "// one\n// TODO: two\n");
    let (status, said) = drive(&ws).await;
    assert_eq!(status, RunStatus::Complete, "{said}");
    assert!(said.contains("src/later.rs:2"), "{said}");
}

#[tokio::test]
async fn the_endpoint_of_the_guide_is_an_agent() {
    let ws = TestWorkspace::new();
    let script = ws.beside("todo_endpoint.py");
    fs::write(&script, block("````python", "todo_endpoint.py PORT")).unwrap();
    let mut endpoint = ws.command("python3");
    endpoint.args([&script, "0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut endpoint = endpoint.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(endpoint.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let config = block("```toml", "endpoint = \"http://127.0.0.1:9000/\"");
    fs::write(ws.config_file(), config.replace("http://127.0.0.1:9000/", url.trim())).unwrap();
    // It lives in the test's folder, where the end of a server is asserted to leave nothing: it is this test's.
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(1, [phase("map", [task("map:a").needs_evidence()])]);
    let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    endpoint.kill().unwrap();
    endpoint.wait().unwrap();
    server.finish().await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
}
