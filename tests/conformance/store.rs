//! Statements 126 to 128 and 131: the lock under contention, files that are replaced whole, and what a changed record shows.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, workflow};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{alone, dead_process, drive, hold_lock, journal_file, names, outcomes, resume, tasks, verify};

#[tokio::test]
async fn h126_of_many_processes_that_want_one_run_each_gets_in_alone() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("slow", config::fixture(&ws, &["--sleep-ms", "100"]))]));
    let run = drive(&ws, &workflow(1, [sequential("map", tasks(3))]), json!({ "once": true })).await.run_id;
    fs::write(ws.run_folder(&run).join("drive.lock"), json!({ "pid": dead_process() }).to_string()).unwrap();
    let mut servers = Vec::new();
    for _ in 0..8 {
        servers.push(Server::start(&ws, Framing::Ndjson).await);
    }
    let mut requests = Vec::new();
    for server in &servers {
        requests.push(server.send("resume", server.here(json!({ "runId": run }))).await);
    }
    let mut completed = 0;
    for (server, request) in servers.iter().zip(requests) {
        match server.answer(request).await {
            Ok(_) => completed += 1,
            Err(error) => drop(error.assert_kind(ErrorKind::RunLocked)),
        }
    }
    assert!(completed >= 1);
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "two were inside at once: {:?}", ws.agent_runs());
    assert!(verify(&servers[0], &run).await.ok);
    for server in servers {
        server.finish().await;
    }
}

#[tokio::test]
async fn h127_age_of_a_lock_means_nothing() {
    let ws = TestWorkspace::new();
    let run = drive(&ws, &workflow(1, [sequential("map", tasks(2))]), json!({ "once": true })).await.run_id;
    let lock = ws.run_folder(&run).join("drive.lock");
    let long_ago = SystemTime::now() - Duration::from_secs(7 * 24 * 60 * 60);
    // Held for a week: still held.
    let held = hold_lock(&lock, "{}");
    File::options().write(true).open(&lock).unwrap().set_modified(long_ago).unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    server.err("resume", server.here(json!({ "runId": run }))).await.assert_kind(ErrorKind::RunLocked);
    drop(held);
    // Left a moment ago by a process that is gone: free at once.
    fs::write(&lock, json!({ "pid": dead_process() }).to_string()).unwrap();
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
}

#[tokio::test]
async fn h128_file_that_cannot_be_replaced_stays_and_nothing_half_written_is_left() {
    let ws = TestWorkspace::new();
    let run = drive(&ws, &workflow(1, [sequential("map", tasks(2))]), json!({ "once": true })).await.run_id;
    let folder = ws.run_folder(&run);
    let clean = names(&folder);
    let expected = ["drive.lock", "journal.jsonl", "report.html", "report.md", "results", "state.json", "workers"]
        .map(str::to_owned);
    assert_eq!(clean, expected);
    // A folder stands where the report goes, so that it cannot be put there.
    fs::remove_file(folder.join("report.md")).unwrap();
    fs::create_dir(folder.join("report.md")).unwrap();
    fs::write(folder.join("report.md/kept.txt"), "kept").unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let error = server.err("resume", server.here(json!({ "runId": run }))).await;
    error.assert_kind(ErrorKind::StorageFailed);
    assert!(error.message.contains("report.md"), "{error:?}");
    server.finish().await;
    // The notes of how agents ended are kept until a drive ends well.
    let left: Vec<String> = names(&folder).into_iter().filter(|name| name != "ended.log").collect();
    assert_eq!(left, clean, "nothing half-written is left");
    assert_eq!(fs::read_to_string(folder.join("report.md/kept.txt")).unwrap(), "kept");
    fs::remove_dir_all(folder.join("report.md")).unwrap();
    assert_eq!(resume(&ws, &run, json!({})).await.status, RunStatus::Complete);
    assert_eq!(ws.agent_runs(), [("map:0".to_owned(), 1), ("map:1".to_owned(), 1)].into());
    assert_eq!(names(&folder), clean);
}

/// A journal line with another value in it, hashed anew.
fn rehashed(line: &str, from: &str, to: &str) -> String {
    assert!(line.contains(from), "{line}");
    let changed = line.replacen(from, to, 1);
    let at = changed.rfind(",\"hash\":\"sha256:").unwrap();
    let member = ",\"hash\":\"sha256:\"".len() + 64;
    let bare = format!("{}{}", &changed[..at], &changed[at + member..]);
    let digest: String = Sha256::digest(bare.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{},\"hash\":\"sha256:{digest}\"{}", &bare[..at], &bare[at..])
}

#[tokio::test]
async fn h131_changed_line_shows_and_one_hashed_anew_breaks_the_chain_at_its_successor() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(2, [phase("map", tasks(2))]), json!({})).await;
    let file = journal_file(&ws, &result.run_id);
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let digest = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parsed: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The first stands on the run's name, each other on the one before.
    let genesis = format!("sha256:{}", digest(&format!("flowdrive-journal:{}", result.run_id)));
    assert_eq!(parsed[0]["prev"], genesis.as_str());
    assert!(parsed.windows(2).all(|pair| pair[1]["prev"] == pair[0]["hash"]));

    let at = parsed.iter().position(|line| line["event"]["type"] == "taskAccepted").unwrap();
    let with = |changed: &str| {
        let mut lines: Vec<&str> = lines.clone();
        lines[at] = changed;
        fs::write(&file, lines.join("\n") + "\n").unwrap();
    };
    let problems = async || {
        let found = verify(&server, &result.run_id).await;
        assert!(!found.ok);
        let first = &found.problems[0];
        (first.code.clone(), first.line)
    };
    with(&lines[at].replacen("\"verified\":true", "\"verified\":false", 1));
    assert_eq!(problems().await, ("hash-mismatch".to_owned(), Some(at as u64 + 1)));
    with(&rehashed(lines[at], "\"verified\":true", "\"verified\":false"));
    assert_eq!(problems().await, ("chain-broken".to_owned(), Some(at as u64 + 2)));
    fs::write(&file, &whole).unwrap();
    assert!(verify(&server, &result.run_id).await.ok);
    server.finish().await;
}

#[tokio::test]
async fn h131_every_attempt_of_an_agent_is_recorded_once() {
    let ws = TestWorkspace::new();
    let times = format!("2:{}", ws.beside("counter"));
    ws.configure(&config::config([("flaky", config::fixture(&ws, &["--fail-times", &times]))]));
    let result = drive(&ws, &alone(task("map:0")), json!({})).await;
    let recorded = outcomes(&ws, &result.run_id, "map:0");
    assert_eq!(recorded.iter().map(|outcome| outcome["exitCode"].clone()).collect::<Vec<_>>(), [1, 1, 0]);
}
