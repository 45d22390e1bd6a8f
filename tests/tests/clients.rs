//! Clients that share no code with this repository: the JSON-RPC implementation that VS Code uses, the standard library
//! of Python, and jq.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Command, Output};

use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{TestWorkspace, binary, census, config, phase, task, workflow};
use serde_json::{Value, json};

const QUESTION: &str = "Where is a run stored?";

fn run(mut command: Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}\n{said}", output.status);
    output
}

fn example(name: &str) -> PathBuf {
    binary::repository().join("examples").join(name)
}

#[test]
fn vscode_jsonrpc_drives_a_run_through_content_length() {
    let folder = binary::repository().join("tests/clients/node");
    assert!(folder.join("node_modules/vscode-jsonrpc").is_dir(), "run `npm ci` in {}", folder.display());
    let ws = TestWorkspace::new();
    let mut command = ws.command("node");
    command.arg(folder.join("drive.mjs")).arg(binary::flowdrive()).arg(ws.path()).arg(QUESTION);
    command.arg("--config").arg(ws.config_file());
    let told: Value = serde_json::from_slice(&run(command).stdout).unwrap();
    let result: DriveResult = serde_json::from_value(told["result"].clone()).unwrap();
    assert_eq!(result.status, RunStatus::Complete);
    assert!(std::path::Path::new(&result.report_path).is_file());
    let events: Vec<ProgressEvent> = serde_json::from_value(told["events"].clone()).unwrap();
    let numbers: Vec<u64> = events.iter().filter(|e| e.event.is_lifecycle()).map(|e| e.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(told["progress"][0]["value"]["kind"], "begin");
    assert_eq!(told["refusal"], json!({ "code": -32010, "kind": "run-not-found" }));
    assert_eq!((&told["late"], &told["code"]), (&json!(0), &json!(0)), "every event came before the answer");
}

/// Runs one case of the TypeScript client's own test, and returns what it tells.
fn typescript(ws: &TestWorkspace, case: &str) -> Value {
    let repository = binary::repository();
    let client = repository.join("clients/typescript");
    assert!(client.join("dist/index.js").is_file(), "run `npm ci && npm run build` in {}", client.display());
    let mut command = ws.command("node");
    command.arg(repository.join("tests/clients/node/typescript.mjs"));
    command.arg(binary::flowdrive()).arg(ws.path()).arg(ws.config_file()).arg(case);
    serde_json::from_slice(&run(command).stdout).unwrap()
}

/// A workspace whose agent `held` does not end by itself.
fn with_held_agent() -> TestWorkspace {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("held", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    ws
}

fn assert_gapless(told: &Value) {
    let seqs: Vec<u64> = serde_json::from_value(told["seqs"].clone()).unwrap();
    assert!(seqs.len() > 3, "{told:#}");
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn the_typescript_client_drives_a_run_and_ends_its_server() {
    let ws = TestWorkspace::new();
    let told = typescript(&ws, "drive");
    let result: DriveResult = serde_json::from_value(told["result"].clone()).unwrap();
    assert_eq!(result.status, RunStatus::Complete);
    assert_gapless(&told);
    let progress = told["progress"].as_array().unwrap();
    assert_eq!((progress.first(), progress.last()), (Some(&json!("begin")), Some(&json!("end"))));
    let refusal = &told["refusal"];
    assert_eq!(
        (&refusal["kind"], &refusal["code"], &refusal["method"]),
        (&json!("run-not-found"), &json!(-32010), &json!("resume"))
    );
    assert!(refusal["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{refusal}");
    census::assert_none(ws.root(), &[], "after the client was closed");
}

#[tokio::test]
async fn the_typescript_client_attaches_again_to_a_server_that_was_killed() {
    let ws = with_held_agent();
    let told = typescript(&ws, "restart");
    assert_eq!((&told["status"], &told["restarted"]), (&json!("complete"), &json!(1)), "{told:#}");
    assert_gapless(&told);
    census::wait_until_none(ws.root(), &[]).await;
}

#[tokio::test]
async fn the_typescript_client_says_how_its_server_ended() {
    let ws = TestWorkspace::new();
    let told = typescript(&ws, "death");
    assert!(told["message"].as_str().unwrap().contains("SIGKILL"), "{told:#}");
    assert_eq!(told["request"], "ServerGoneError");
    let told = typescript(&ws, "refused");
    assert!(told["missing"].as_str().unwrap().contains("no-such-program"), "{told:#}");
    assert_eq!(told["invalid"], "config-invalid");
    census::wait_until_none(ws.root(), &[]).await;
}

#[tokio::test]
async fn the_typescript_client_cancels_a_drive() {
    let ws = with_held_agent();
    assert_eq!(typescript(&ws, "cancel")["code"], -32800);
    census::wait_until_none(ws.root(), &[]).await;
}

/// Runs the conformance check with this client, and returns its exit code and what it printed.
fn conformance(client: &[&str]) -> (Option<i32>, String) {
    let ws = TestWorkspace::new();
    let mut command = ws.command("python3");
    command.arg(binary::repository().join("clients/conformance/check.py")).arg("--").args(client);
    command.current_dir(binary::repository());
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_clients_of_this_repository_keep_the_protocol() {
    for client in [
        &["python3", "examples/drive.py", "/tmp", "?", "{server}"][..],
        &["sh", "examples/drive.sh", "/tmp", "?", "{server}"],
    ] {
        let (code, told) = conformance(client);
        assert_eq!(code, Some(0), "{client:?}\n{told}");
        assert!(told.contains(" 0 failed") && told.matches("  ok   ").count() > 20, "{told}");
    }
}

#[test]
fn the_typescript_client_keeps_the_protocol_as_do_others_on_node() {
    for client in [
        &["node", "tests/clients/node/conformance.mjs", "/tmp"][..],
        &["node", "tests/clients/node/drive.mjs", "{server}", "/tmp", "?"],
        &["node", "examples/drive.mjs", "/tmp", "?", "{server}"],
    ] {
        let (code, told) = conformance(client);
        assert_eq!(code, Some(0), "{client:?}\n{told}");
    }
}

#[test]
fn a_client_that_breaks_rules_is_told_which() {
    let client = r#"
import json, os, subprocess, sys
server = subprocess.Popen([os.environ["FLOWDRIVE_SERVER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(message):
    body = json.dumps(message).encode()
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
send({"jsonrpc": "2.0", "id": 1.5, "method": "listRuns", "params": {"limit": 0}})
send({"id": 2, "method": "drive"})
send({"jsonrpc": "2.0", "id": 3, "method": "fly"})
send({"jsonrpc": "2.0", "method": "drive", "params": {}})
send({"jsonrpc": "2.0", "id": 77, "result": None})
send({"jsonrpc": "2.0", "method": "exit"})
server.stdin.flush()
server.wait()
"#;
    let (code, told) = conformance(&["python3", "-c", client]);
    assert_eq!(code, Some(1), "{told}");
    for rule in [
        "ids are texts",
        "introduces itself",
        "params fit the schema",
        "JSON-RPC 2.0",
        "methods exist",
        "notifications are not answered",
        "something is driven",
        "to end, and not killed",
        "exit code",
    ] {
        assert!(told.lines().any(|line| line.contains("FAIL") && line.contains(rule)), "{rule}\n{told}");
    }
}

/// What a client may do that the check has to understand, or to find fault with: never with itself.
#[test]
fn unusual_clients_are_judged_and_none_breaks_the_check() {
    let client = |lines: &str| {
        format!(
            r#"
import os, subprocess, sys
server = subprocess.Popen([os.environ["FLOWDRIVE_SERVER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
told, _ = server.communicate({lines:?}.encode())
sys.exit(0 if b'"commitId"' in told else 1)
"#
        )
    };
    let info = r#"{"jsonrpc":"2.0","id":1.0,"method":"serverInfo","params":{"protocolVersion":1}}"#;
    let preview = r#"{"jsonrpc":"2.0","id":2,"method":"preview","params":{"workflow":{"id":"quick-survey"}}}"#;
    let drive = r#"{"jsonrpc":"2.0","id":3,"method":"drive","params":{"workflow":{"id":"quick-survey"}}}"#;
    let agents = r#"{"jsonrpc":"2.0","id":4,"method":"listAgents","params":[]}"#;
    for (lines, failed) in [
        (format!("\n {info}\n{preview}\n{drive}\n"), None),
        (format!("[{info},{preview},{drive}]\n"), None),
        (format!("{info}\n{drive}\n{agents}\n"), Some("listAgents: the params are no object")),
        (format!("{info}\n{drive}\n{}\n", r#"{"jsonrpc":"2.0","id":{},"method":"doctor"}"#), Some("ids are texts")),
        (format!("Content-Length: many\r\n\r\n{info}"), Some("`Content-Length` is not a number of bytes")),
        (String::new(), Some("`drive` was never called")),
    ] {
        let (code, told) = conformance(&["python3", "-c", &client(&lines)]);
        assert_eq!(code, Some(i32::from(failed.is_some())), "{lines}\n{told}");
        assert!(failed.is_none_or(|reason| told.contains(reason)), "{lines}\n{told}");
    }
    let (code, told) = conformance(&["no-such-client"]);
    assert_eq!((code, told.as_str()), (Some(2), ""), "there is nothing to check");
    let (code, told) = conformance(&["python3", "-c", "raise SystemExit('which server?')"]);
    assert!(code == Some(1) && told.contains("{server}") && told.contains("which server?"), "{told}");
}

#[test]
fn pytest_lsp_drives_looks_and_answers_as_three_editors() {
    let python = std::env::var_os("PYTHON_CLIENTS")
        .map_or_else(|| binary::repository().join(".cache/python-clients/bin/python"), PathBuf::from);
    assert!(python.is_file(), "run tests/run.sh once; it makes {}", python.display());
    let ws = TestWorkspace::new();
    let (good, idle) = (&["--cite", "src/lib.rs:2"], &["--kind", "no-evidence"]);
    ws.configure(&config::config([("good", config::fixture(&ws, good)), ("idle", config::fixture(&ws, idle))]));
    ws.write(".cw/workflows/one.json", &workflow(1, [phase("map", [task("map:a").needs_evidence()])]).to_string());
    let mut command = ws.command(python);
    command.args([
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error::pytest.PytestUnraisableExceptionWarning",
    ]);
    command.arg(binary::repository().join("tests/clients/python/test_lsp.py"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("FLOWDRIVE_BIN", binary::flowdrive());
    command.env("FLOWDRIVE_WORKSPACE", ws.path()).env("FLOWDRIVE_CONFIG", ws.config_file());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("6 passed"),
        "{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    census::assert_none(ws.root(), &[], "after the tests of pytest-lsp");
}

#[test]
fn node_drives_a_run_through_newline_json() {
    let ws = TestWorkspace::new();
    std::fs::write(ws.beside("none.toml"), "").unwrap();
    let mut command = ws.command("node");
    command.arg(example("drive.mjs")).arg(ws.path()).arg(QUESTION);
    command.arg(binary::flowdrive()).args(["serve", "--stdio", "--config"]).arg(ws.beside("none.toml"));
    let result: DriveResult = serde_json::from_slice(&run(command).stdout).unwrap();
    assert_eq!(result.status, RunStatus::Complete);
}

#[test]
fn python_drives_a_run_through_newline_json() {
    let ws = TestWorkspace::new();
    let mut command = ws.command("python3");
    command.arg(example("drive.py")).arg(ws.path()).arg(QUESTION);
    command.arg(binary::flowdrive()).args(["serve", "--stdio", "--config"]).arg(ws.beside("none.toml"));
    std::fs::write(ws.beside("none.toml"), "").unwrap();
    let output = run(command);
    let result: DriveResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result.status, RunStatus::Complete);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("1 runStarted") && told.contains("runFinished"), "{told}");
}

#[test]
fn sh_and_jq_drive_a_run_through_newline_json() {
    let ws = TestWorkspace::new();
    std::fs::write(ws.beside("none.toml"), "").unwrap();
    let mut command = ws.command("sh");
    command.arg(example("drive.sh")).arg(ws.path()).arg(QUESTION);
    command.arg(binary::flowdrive()).args(["serve", "--stdio", "--config"]).arg(ws.beside("none.toml"));
    let output = run(command);
    let result: DriveResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result.status, RunStatus::Complete);
}
