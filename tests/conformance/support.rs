//! What the cases share: agents that are a line of shell, drives from start to end, and a run's journal as anybody reads it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::method::{ListFeedbackResult, VerifyRunResult};
use flowdrive_protocol::run::{DriveResult, Step, StepAction, TaskView};
use flowdrive_tests::workflow::Task;
use flowdrive_tests::{Framing, Server, TestWorkspace, sequential, task, wait, workflow};
use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

/// Shell that writes a result which cites a place of every test workspace.
pub(crate) const GOOD: &str =
    r#"printf '```cw:result\n{"summary":"done","findings":[],"evidence":["src/lib.rs:1"]}\n```\n' >"$1""#;

/// An agent that is a line of shell: `$1` is where its result goes, `$2` its input, `$3` its folder.
pub(crate) fn shell(script: &str) -> AgentConfig {
    let command = ["/bin/sh", "-c", script, "agent", "{{result}}", "{{input}}", "{{workerDir}}"];
    AgentConfig { command: Some(command.map(str::to_owned).into()), ..AgentConfig::default() }
}

/// An agent with this command line.
pub(crate) fn argv(command: &[&str]) -> AgentConfig {
    AgentConfig { command: Some(command.iter().map(|part| (*part).to_owned()).collect()), ..AgentConfig::default() }
}

/// The same agent with a time limit.
pub(crate) fn limited(agent: AgentConfig, ms: u64) -> AgentConfig {
    AgentConfig { timeout_ms: Some(ms), ..agent }
}

/// `map:0`, `map:1`, and so on.
pub(crate) fn tasks(count: usize) -> Vec<Task> {
    (0..count).map(|n| task(&format!("map:{n}"))).collect()
}

/// A workflow of one task.
pub(crate) fn alone(only: Task) -> Value {
    workflow(1, [sequential("map", [only])])
}

/// Drives a workflow to its end, with a server of its own.
pub(crate) async fn drive(ws: &TestWorkspace, document: &Value, fields: Value) -> DriveResult {
    let server = Server::start(ws, Framing::Ndjson).await;
    let result = server.drive(document, fields).await;
    server.finish().await;
    result
}

/// Carries a run on to its end, with a server of its own.
pub(crate) async fn resume(ws: &TestWorkspace, run: impl AsRef<str>, mut fields: Value) -> DriveResult {
    let server = Server::start(ws, Framing::Ndjson).await;
    fields["runId"] = json!(run.as_ref());
    let result = server.ok("resume", server.here(fields)).await;
    server.finish().await;
    result
}

/// The feedback records of a run.
pub(crate) async fn records(server: &Server, run: impl AsRef<str>) -> Vec<FeedbackRecord> {
    let listed: ListFeedbackResult = server.ok("listFeedback", server.here(json!({ "runId": run.as_ref() }))).await;
    listed.feedback
}

/// What `verifyRun` says.
pub(crate) async fn verify(server: &Server, run: impl AsRef<str>) -> VerifyRunResult {
    server.ok("verifyRun", server.here(json!({ "runId": run.as_ref() }))).await
}

/// A run's tasks as clients see them.
pub(crate) async fn views(ws: &TestWorkspace, run: impl AsRef<str>) -> Vec<TaskView> {
    let server = Server::start(ws, Framing::Ndjson).await;
    let view: flowdrive_protocol::run::RunView =
        server.ok("showRun", server.here(json!({ "runId": run.as_ref() }))).await;
    server.finish().await;
    view.tasks
}

/// Every reason of a drive's steps.
pub(crate) fn reasons(result: &DriveResult) -> String {
    result.steps.iter().filter_map(|step| step.reason.as_deref()).collect::<Vec<_>>().join("\n")
}

/// The steps of one kind.
pub(crate) fn steps(result: &DriveResult, action: StepAction) -> Vec<&Step> {
    result.steps.iter().filter(|step| step.action == action).collect()
}

/// A run's journal file.
pub(crate) fn journal_file(ws: &TestWorkspace, run: impl AsRef<str>) -> PathBuf {
    ws.run_folder(run).join("journal.jsonl")
}

/// The events of a run's journal, in the order they were written. A line that is being written is left out.
pub(crate) fn journal(ws: &TestWorkspace, run: impl AsRef<str>) -> Vec<Value> {
    let text = fs::read_to_string(journal_file(ws, run)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].take()).collect()
}

/// Those of one type.
pub(crate) fn of_type(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == kind).cloned().collect()
}

/// The recorded outcomes of a task, first attempt first.
pub(crate) fn outcomes(ws: &TestWorkspace, run: impl AsRef<str>, task: &str) -> Vec<Value> {
    let events = of_type(&journal(ws, run), "outcomeRecorded");
    events.into_iter().filter(|event| event["task"] == task).map(|mut event| event["outcome"].take()).collect()
}

/// Waits until a run's journal holds so many events of a type.
pub(crate) async fn written(ws: &TestWorkspace, run: &str, kind: &str, count: usize) {
    wait::until(kind, || (of_type(&journal(ws, run), kind).len() >= count).then_some(())).await;
}

/// The names in a folder, sorted; none when there is no such folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The folders of a run's attempts.
pub(crate) fn workers(ws: &TestWorkspace, run: impl AsRef<str>) -> Vec<String> {
    names(&ws.run_folder(run).join("workers"))
}

/// What the attempts of a task were given to read, first attempt first.
pub(crate) fn inputs(ws: &TestWorkspace, run: impl AsRef<str>, task: &str) -> Vec<String> {
    let dispatched = of_type(&journal(ws, run.as_ref()), "taskDispatched");
    let workers =
        dispatched.iter().filter(|event| event["task"] == task).map(|event| event["worker"].as_str().unwrap());
    let folder = ws.run_folder(run.as_ref()).join("workers");
    workers.map(|worker| fs::read_to_string(folder.join(worker).join("input.md")).unwrap()).collect()
}

/// Files below a folder that hold the text.
pub(crate) fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let below = flowdrive_tests::tree::snapshot(folder);
    let files = below.into_iter().filter(|(_, entry)| matches!(entry, flowdrive_tests::tree::Entry::File(..)));
    files
        .map(|(path, _)| folder.join(path))
        .filter(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        })
        .collect()
}

/// Holds a run's lock the way another program on this machine would, with this text in the file.
pub(crate) fn hold_lock(path: &Path, text: &str) -> Flock<File> {
    let file = File::options().write(true).create(true).truncate(true).open(path).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, fault)| fault).unwrap();
    fs::write(path, text).unwrap();
    held
}

/// The id of a process that is gone.
pub(crate) fn dead_process() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}
