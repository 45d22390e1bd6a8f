//! The command line: a client of the same server. What it prints, and what it exits with.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Child, Output, Stdio};

use flowdrive_protocol::run::{DrivePreview, DriveResult, RunStatus};
use flowdrive_tests::{TestWorkspace, census, config, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const WORKFLOW: &str = r#"
schemaVersion = 1
id = "mine"
title = "Mine"
[[phases]]
id = "map"
mode = "parallel"
[[phases.tasks]]
id = "map:a"
prompt = "task-marker=map:a"
requiresEvidence = true
[[phases.tasks]]
id = "map:b"
prompt = "task-marker=map:b"
"#;

fn run(ws: &TestWorkspace, arguments: &[&str]) -> Output {
    let config = ws.config_file();
    let mut command = ws.flowdrive(arguments);
    command.arg("--workspace").arg(ws.path()).arg("--config").arg(config);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json<T: serde::de::DeserializeOwned>(output: &Output) -> T {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: stdout is {}", text(output)))
}

#[test]
fn the_main_job_of_the_read_me_runs() {
    let ws = TestWorkspace::copy_of_repository();
    std::fs::write(ws.config_file(), "").unwrap();
    let output = run(&ws, &["drive", "quick-survey", "--input", "question=How are runs stored?"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("report.md"), "it says where the report is: {}", text(&output));
    let output = run(&ws, &["runs", "--json"]);
    let runs: Value = json(&output);
    assert_eq!(runs["runs"][0]["status"], "complete", "{runs:#}");
    let id = runs["runs"][0]["runId"].as_str().unwrap();
    let report = ws.flowdrive(&["report", id, "--workspace", &ws.text()]).output().unwrap();
    assert!(report.status.success() && String::from_utf8_lossy(&report.stdout).contains("How are runs stored?"));
    let report = |arguments: &[&str]| {
        let output = ws.flowdrive(&["report", id, "--workspace", &ws.text()]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let page = report(&["--html"]);
    assert!(page.starts_with("<!doctype html>") && page.contains("How are runs stored?"), "{page}");
    for (arguments, name, content) in
        [(&["--path"][..], "report.md", report(&[])), (&["--html", "--path"], "report.html", page)]
    {
        let path = ws.path().join(report(arguments).trim_end());
        assert!(path.ends_with(name), "{}", path.display());
        assert_eq!(std::fs::read_to_string(path).unwrap(), content);
    }
    assert_eq!(run(&ws, &["verify", id]).status.code(), Some(0));
    assert_eq!(run(&ws, &["show", id]).status.code(), Some(0));
}

#[test]
fn json_prints_the_result_object_alone() {
    let ws = TestWorkspace::new();
    ws.write("mine.toml", WORKFLOW);
    let preview: DrivePreview = json(&run(&ws, &["preview", "mine.toml", "--json"]));
    assert_eq!(preview.planned_workers, 2);
    assert!(!ws.path().join(".cw").exists(), "preview wrote something");
    let output = run(&ws, &["drive", "mine.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let result: DriveResult = json(&output);
    assert_eq!(result.status, RunStatus::Complete);
    let again: DriveResult = json(&run(&ws, &["resume", result.run_id.as_str(), "--json"]));
    assert_eq!((again.run_id, again.status), (result.run_id, RunStatus::Complete));
}

#[test]
fn the_exit_code_tells_how_it_ended() {
    let ws = TestWorkspace::new();
    ws.write("mine.toml", WORKFLOW);
    let once = run(&ws, &["drive", "mine.toml", "--concurrency", "1", "--once", "--json"]);
    assert_eq!(once.status.code(), Some(5), "in progress: {}", text(&once));

    ws.configure(&config::config([("idle", config::fixture(&ws, &["--kind", "no-evidence"]))]));
    let parked = run(&ws, &["drive", "mine.toml", "--json"]);
    assert_eq!(parked.status.code(), Some(3), "parked: {}", text(&parked));
    let result: DriveResult = json(&parked);
    let listed: Value = json(&run(&ws, &["feedback", "list", result.run_id.as_str(), "--json"]));
    let record = listed["feedback"][0]["id"].as_str().unwrap();
    let resolved =
        run(&ws, &["feedback", "resolve", result.run_id.as_str(), record, "--resolution", "rejected", "--json"]);
    assert!(resolved.status.success(), "{}", text(&resolved));

    let missing = run(&ws, &["resume", "no-such-run"]);
    assert_eq!(missing.status.code(), Some(1), "a fault: {}", text(&missing));
    assert!(text(&missing).contains("no-such-run"));
    for usage in [
        &["drive"][..],
        &["fly"],
        &["drive", "mine.toml", "--concurrency", "0"],
        &["drive", "mine.toml", "--input", "novalue"],
    ] {
        let output = run(&ws, usage);
        assert_eq!(output.status.code(), Some(2), "{usage:?}: {}", text(&output));
    }
}

#[test]
fn a_reader_that_goes_away_does_not_hide_how_it_ended() {
    let ws = TestWorkspace::new();
    ws.write("mine.toml", WORKFLOW);
    ws.configure(&config::config([("idle", config::fixture(&ws, &["--kind", "no-evidence"]))]));
    for json in [&[][..], &["--json"]] {
        let mut command = ws.flowdrive(&["drive", "mine.toml"]);
        command.args(json).arg("--workspace").arg(ws.path()).arg("--config").arg(ws.config_file());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = command.stdout(writer).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(3), "{json:?}");
    }
}

#[test]
fn runs_are_found_from_the_folders_below_them() {
    let ws = TestWorkspace::new();
    ws.write("mine.toml", WORKFLOW);
    ws.write("src/deep/a.txt", "a");
    std::fs::write(ws.config_file(), "").unwrap();
    let below = |arguments: &[&str]| {
        let mut command = ws.flowdrive(arguments);
        command.current_dir(ws.path().join("src/deep")).output().unwrap()
    };
    let none = below(&["runs"]);
    assert!(none.status.success() && text(&none).contains("No runs in"), "{}", text(&none));
    assert_eq!(run(&ws, &["drive", "mine.toml"]).status.code(), Some(0));
    let listed: Value = json(&below(&["runs", "--json"]));
    let id = listed["runs"][0]["runId"].as_str().unwrap();
    for arguments in [
        &["show", "latest"][..],
        &["report", "latest"],
        &["verify", id],
        &["resume", id],
        &["preview", "--run", id],
        &["stop", id],
        &["feedback", "list", id],
        &["runs", "prune", "--keep", "1"],
    ] {
        let output = below(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    }
    // A new run is about the folder one is in.
    assert!(below(&["drive", "quick-survey", "--input", "question=a"]).status.success());
    assert!(ws.path().join("src/deep/.cw/runs").is_dir());
    // A folder that is named is looked at, and no other.
    let named = below(&["show", "latest", "--workspace", ".."]);
    assert!(!named.status.success() && text(&named).contains("there is no run in"), "{}", text(&named));
}

#[test]
fn a_workflow_file_with_a_fault_is_listed_with_it() {
    let ws = TestWorkspace::new();
    ws.write(".cw/workflows/bad.toml", "schemaVersion = 1\nid = \"bad\"\ntitel = \"x\"\n");
    std::fs::write(ws.config_file(), "").unwrap();
    let output = run(&ws, &["workflows"]);
    assert!(output.status.success(), "{}", text(&output));
    for part in ["quick-survey", "unusable .cw/workflows/bad.toml", "titel"] {
        assert!(text(&output).contains(part), "{part} is not in {}", text(&output));
    }
}

#[test]
fn pruning_without_a_rule_says_which_flags_make_one() {
    let ws = TestWorkspace::new();
    std::fs::write(ws.config_file(), "").unwrap();
    for arguments in [&["runs", "prune"][..], &["runs", "prune", "--status", "parked"], &["runs", "prune", "--dry-run"]]
    {
        let output = run(&ws, arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("--keep N") && text(&output).contains("--older-than AGE"), "{}", text(&output));
    }
}

#[test]
fn the_demo_drives_both_kinds_of_agent() {
    let ws = TestWorkspace::new();
    let output = ws.flowdrive(&["demo"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("report.md"), "{}", text(&output));
}

#[test]
fn doctor_and_schema_answer_with_nothing_set_up() {
    let ws = TestWorkspace::new();
    let doctor: Value = json(&run(&ws, &["doctor", "--json"]));
    assert!(doctor["checks"].as_array().is_some_and(|checks| !checks.is_empty()), "{doctor:#}");
    let committed = flowdrive_tests::binary::repository().join("schema");
    let schema = ws.flowdrive(&["schema", "--check", "--out"]).arg(committed).output().unwrap();
    assert!(schema.status.success(), "{}", text(&schema));
}

/// `drive` under way, with an agent that waits at a gate and does not heed SIGTERM.
async fn under_way(ws: &TestWorkspace) -> Child {
    ws.write("mine.toml", WORKFLOW);
    let stubborn = config::fixture(ws, &["--gate", &ws.beside("gate"), "--fork", "1", "--ignore-term"]);
    ws.configure(&config::config([("stubborn", stubborn)]));
    let config = ws.config_file();
    let mut command = ws.flowdrive(&["drive", "mine.toml", "--concurrency", "1", "--workspace"]);
    command.arg(ws.path()).arg("--config").arg(config);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait::until("the agent to run", || (ws.agent_runs().len() == 1).then_some(())).await;
    child
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

#[tokio::test]
async fn an_interrupt_settles_what_is_in_flight_and_says_how_to_go_on() {
    let ws = TestWorkspace::new();
    let child = under_way(&ws).await;
    signal(&child, Signal::SIGINT);
    // Nothing tells from outside that the signal has arrived; a gate opened too early would only let more tasks through.
    wait::until("the stop to be recorded", || {
        let runs = std::fs::read_dir(ws.path().join(".cw/runs")).ok()?;
        let mut journals = runs.filter_map(|run| std::fs::read_to_string(run.ok()?.path().join("journal.jsonl")).ok());
        journals.any(|journal| journal.contains("stopRequested")).then_some(())
    })
    .await;
    ws.open_gate("gate");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "a stopped run is blocked: {}", text(&output));
    assert!(text(&output).contains("flowdrive resume"), "{}", text(&output));
    assert_eq!(ws.agent_runs().len(), 1, "nothing new was started");
    census::assert_none(ws.root(), &[], "after an interrupt");
}

#[tokio::test]
async fn a_killed_command_line_leaves_nothing_running() {
    let ws = TestWorkspace::new();
    let mut child = under_way(&ws).await;
    child.kill().unwrap();
    child.wait().unwrap();
    census::wait_until_none(ws.root(), &[]).await;
}
