//! Those who only look: never held up, never shown half a state, and never told by a record of another version what it does
//! not say.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::method::{ListRunsResult, VerifyRunResult};
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, config, phase, task, workflow};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[tokio::test]
async fn readers_that_ask_all_the_time_while_a_drive_writes_see_whole_states_that_only_grow() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("quick", config::fixture(&ws, &["--cite", "src/lib.rs:2"]))]));
    let driver = Server::start(&ws, Framing::Lsp).await;
    let (reader, other) = (Server::start(&ws, Framing::Ndjson).await, Server::start(&ws, Framing::Ndjson).await);
    let total = 96;
    let tasks: Vec<_> = (0..total).map(|n| task(&format!("map:{n}"))).collect();
    let (request, run) = driver.start_drive(&workflow(6, [phase("map", tasks)]), json!({})).await;
    let run = json!({ "runId": run });

    let watch = async |server: &Server| {
        let (mut completed, mut last_seq, mut looks, mut changes) = (0, 0, 0, 0);
        loop {
            let mut wish = server.here(run.clone());
            wish["sinceSeq"] = json!(last_seq);
            let view: RunView = server.ok("showRun", wish).await;
            looks += 1;
            changes += u32::from(view.summary.completed_workers > completed);
            assert!(view.summary.completed_workers >= completed, "what was accepted is accepted");
            assert!(view.last_seq >= last_seq && view.total_tasks == total, "{}", view.last_seq);
            let done = view.tasks.iter().filter(|task| task.result_path.is_some()).count();
            assert_eq!(done, view.summary.completed_workers as usize, "the counts are those of the tasks");
            let numbers: Vec<u64> = view.events.iter().map(|event| event.seq).collect();
            let expected: Vec<u64> = (last_seq + 1..).take(numbers.len()).collect();
            assert_eq!(numbers, expected, "no event is missing, none comes twice");
            completed = view.summary.completed_workers;
            last_seq = numbers.last().copied().unwrap_or(last_seq);

            let preview: DrivePreview = server.ok("preview", server.here(run.clone())).await;
            assert_eq!(preview.planned_workers, total);
            assert!(preview.completed_workers >= completed && preview.parked_workers == 0);
            let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
            assert_eq!((listed.runs.len(), listed.unreadable.len()), (1, 0), "{listed:#?}");
            let verified: VerifyRunResult = server.ok("verifyRun", server.here(run.clone())).await;
            let real: Vec<_> = verified.problems.iter().filter(|problem| problem.code != "torn-tail").collect();
            assert!(real.is_empty(), "{real:#?}");
            if view.summary.status == RunStatus::Complete && !view.summary.driving {
                return (looks, changes);
            }
        }
    };
    let (seen, elsewhere, own) = tokio::join!(watch(&reader), watch(&other), watch(&driver));
    let result: DriveResult = driver.result(request).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, total));
    for (looks, changes) in [seen, elsewhere, own] {
        assert!(looks >= 3 && changes >= 2, "{looks} looks saw {changes} changes: the drive was over too soon");
    }
    println!("readers looked {} times", seen.0 + elsewhere.0 + own.0);
    for server in [reader, other, driver] {
        server.finish().await;
    }
}

/// A line of a journal of another version, as a newer Flowdrive would write it: whole, chained and hashed.
fn with_version(line: &str, version: u32) -> String {
    let line = line.replace(",\"v\":1}", &format!(",\"v\":{version}}}"));
    let start = line.rfind(",\"hash\":\"").unwrap();
    let end = start + ",\"hash\":\"".len() + 71 + 1;
    let body = format!("{}{}", &line[..start], &line[end..]);
    let hash: String = Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{},\"hash\":\"sha256:{hash}\"{}", &line[..start], &line[end..])
}

#[tokio::test]
async fn a_newer_run_is_refused_by_every_method_that_would_have_to_understand_it() {
    let ws = TestWorkspace::new();
    let document = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&document, json!({ "once": true })).await;
    server.finish().await;
    let folder = ws.run_folder(&first.run_id);
    let journal = folder.join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let last = lines.len();
    // The newest line is of a newer version; the plan says so; a line has another form altogether.
    let newest = format!("{}\n{}\n", lines[..last - 1].join("\n"), with_version(lines[last - 1], 2));
    let plan = {
        let line = lines[0].replacen("\"schemaVersion\":1,\"type\"", "\"schemaVersion\":7,\"type\"", 1);
        assert_ne!(line, lines[0], "the plan says its version");
        with_version(&line, 1) + "\n"
    };
    let other_form = format!("{whole}{{\"seq\":{},\"v\":3,\"shape\":\"another\"}}\n", last + 1);
    for (what, changed, line) in [("a line", newest, last), ("the plan", plan, 1), ("the form", other_form, last + 1)] {
        fs::write(&journal, &changed).unwrap();
        // Without the snapshot: that of an older version would answer for what it covers.
        let _ = fs::remove_file(folder.join("state.json"));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let params = server.here(json!({ "runId": first.run_id }));
        for method in ["drive", "resume", "preview", "showRun", "listFeedback", "verifyRun"] {
            let error = server.err(method, params.clone()).await;
            let details = error.assert_kind(ErrorKind::UnsupportedState);
            assert_eq!(details.line, Some(line as u64), "{what}, {method}: {error:?}");
            assert!(details.hint.contains("newer"), "{what}, {method}: {details:?}");
        }
        let listed: ListRunsResult = server.ok("listRuns", server.here(json!({}))).await;
        assert_eq!(listed.unreadable[0].kind, ErrorKind::UnsupportedState, "{what}");
        assert_eq!(fs::read_to_string(&journal).unwrap(), changed, "{what}: nothing is changed");
        server.finish().await;
    }

    // A snapshot is only a short cut: one of a newer version is passed over, and the journal is read.
    fs::write(&journal, &whole).unwrap();
    fs::write(folder.join("state.json"), r#"{"schemaVersion":9,"state":{"made":"up"}}"#).unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let view: RunView = server.ok("showRun", params.clone()).await;
    assert_eq!(view.summary.completed_workers, 1);
    let result: DriveResult = server.ok("resume", params).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    server.finish().await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            {
                fs::copy(from, to).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_run_of_every_version_there_was_is_read_verified_previewed_and_carried_on() {
    let fixtures = binary::repository().join("tests/fixtures/runs");
    let mut versions: Vec<_> = fs::read_dir(&fixtures).unwrap().flatten().map(|entry| entry.path()).collect();
    versions.sort();
    assert!(!versions.is_empty());
    for version in versions {
        let name = version.file_name().unwrap().to_string_lossy().into_owned();
        let ws = TestWorkspace::new();
        copy(&version.join("workspace"), &ws.path());
        copy(&version.join("run"), &ws.run_folder("kept-run"));
        let expected: Value = serde_json::from_slice(&fs::read(version.join("expected.json")).unwrap()).unwrap();
        for snapshot in [true, false] {
            let server = Server::start(&ws, Framing::Ndjson).await;
            let params = server.here(json!({ "runId": "kept-run" }));
            if !snapshot {
                let _ = fs::remove_file(ws.run_folder("kept-run").join("state.json"));
            }
            let view: RunView = server.ok("showRun", params.clone()).await;
            assert_eq!(json!(view.summary.completed_workers), expected["completedWorkers"], "{name}");
            assert_eq!(json!(view.summary.planned_workers), expected["plannedWorkers"], "{name}");
            assert_eq!(json!(view.summary.status), expected["status"], "{name}");
            let verified: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
            assert!(verified.ok, "{name}: {verified:#?}");
            assert_eq!(json!(verified.head), expected["head"], "{name}");
            let preview: DrivePreview = server.ok("preview", params.clone()).await;
            assert_eq!(json!(preview.next_task_id), expected["nextTaskId"], "{name}");
            server.finish().await;
        }
        let server = Server::start(&ws, Framing::Ndjson).await;
        let params = server.here(json!({ "runId": "kept-run" }));
        let result: DriveResult = server.ok("resume", params.clone()).await;
        assert_eq!(result.status, RunStatus::Complete, "{name}: {result:#?}");
        let verified: VerifyRunResult = server.ok("verifyRun", params).await;
        assert!(verified.ok, "{name}: {verified:#?}");
        assert_eq!(
            ws.agent_runs().values().sum::<usize>() as u64,
            expected["plannedWorkers"].as_u64().unwrap() - expected["completedWorkers"].as_u64().unwrap(),
            "{name}: what was accepted is not run again"
        );
        server.finish().await;
    }
}
