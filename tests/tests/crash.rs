//! Crashes: whatever moment the server dies at, a resume loses nothing, pays for nothing twice, and leaves no process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::io::Write;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::VerifyRunResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, census, config, phase, task, wait, workflow};
use serde_json::{Value, json};

#[tokio::test]
async fn killed_in_mid_window_and_resumed_no_accepted_task_runs_again() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate"), "--fork", "1", "--ignore-term"]);
    ws.configure(&config::config([("quick", config::fixture(&ws, &[])), ("gated", gated)]));
    let tasks =
        [task("map:a"), task("map:b"), task("map:c").agent("gated"), task("map:d").agent("gated"), task("map:e")];
    let document = workflow(4, [phase("map", tasks), phase("then", [task("then:f")])]);
    let mut server = Server::start(&ws, Framing::Lsp).await;
    let (_, run) = server.start_drive(&document, json!({})).await;
    server.wait_events("the quick ones to be accepted", 3, |e| matches!(e, Event::TaskAccepted { .. })).await;
    wait::until("the gated ones to run", || (ws.agent_runs().len() == 5).then_some(())).await;
    let before = server.lifecycle(&run);
    server.kill().await;

    let server = Server::start(&ws, Framing::Ndjson).await;
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    assert!(!view.summary.driving, "the lock went with the process");
    assert_eq!((view.summary.status, view.summary.completed_workers), (RunStatus::InProgress, 3));
    ws.open_gate("gate");
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 6), "{result:#?}");
    let runs = ws.agent_runs();
    for accepted in ["map:a", "map:b", "map:e"] {
        assert_eq!(runs[accepted], 1, "{accepted} was accepted before the crash: {runs:?}");
    }
    for interrupted in ["map:c", "map:d"] {
        assert_eq!(runs[interrupted], 2, "{interrupted} was under way at the crash: {runs:?}");
    }
    // An interruption costs no attempt and is not the task's fault.
    assert!(
        !server
            .lifecycle(&run)
            .iter()
            .any(|e| matches!(e.event, Event::TaskRetrying { .. } | Event::TaskParked { .. }))
    );
    // What the first server told is still part of the run's story, under the same numbers.
    let all: RunView = server.ok("showRun", server.here(json!({ "runId": run, "sinceSeq": 0 }))).await;
    assert_eq!(all.events[..before.len()], before[..]);
    assert!(all.events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    let verified: VerifyRunResult = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
    assert!(verified.ok, "{verified:#?}");
    // Nothing of the killed server is left either, though its agents ignore SIGTERM and had children.
    census::assert_none(ws.root(), &[server.pid()], "after the resume of a killed drive");
    server.finish().await;
}

#[tokio::test]
async fn agents_of_a_killed_server_end_by_themselves() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let tasks = (0..4).map(|n| task(&format!("map:{n}")));
    server.start_drive(&workflow(4, [phase("map", tasks)]), json!({})).await;
    wait::until("all agents to run", || (ws.agent_runs().len() == 4).then_some(())).await;
    server.kill().await;
    census::wait_until_none(ws.root(), &[]).await;
}

#[tokio::test]
async fn killed_again_and_again_the_run_still_ends_and_accepts_each_task_once() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("slow", config::fixture(&ws, &["--sleep-ms", "30"]))]));
    let tasks = (0..24).map(|n| task(&format!("map:{n}")));
    let document = workflow(4, [phase("map", tasks)]);
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let (_, run) = server.start_drive(&document, json!({})).await;
    for round in 1..=5 {
        server.wait_events("three more results", 3, |e| matches!(e, Event::TaskAccepted { .. })).await;
        server.kill().await;
        server = Server::start(&ws, Framing::Ndjson).await;
        if round < 5 {
            server.send("resume", server.here(json!({ "runId": run }))).await;
        }
    }
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 24), "{result:#?}");
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run, "sinceSeq": 0 }))).await;
    let mut accepted: Vec<&str> = view
        .events
        .iter()
        .filter_map(|event| match &event.event {
            Event::TaskAccepted { task_id, .. } => Some(task_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(accepted.len(), 24);
    accepted.sort_unstable();
    accepted.dedup();
    assert_eq!(accepted.len(), 24, "a task was accepted twice");
    // At most the four of each window were interrupted, in five crashes.
    let runs: usize = ws.agent_runs().values().sum();
    assert!(runs <= 24 + 5 * 4, "{runs} agents ran");
    server.finish().await;
}

#[tokio::test]
async fn a_torn_last_line_of_the_journal_is_cut_off() {
    let ws = TestWorkspace::new();
    let document = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&document, json!({ "once": true })).await;
    server.finish().await;
    let journal = ws.run_folder(&first.run_id).join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let torn = &whole.lines().next_back().unwrap()[..20];
    OpenOptions::new().append(true).open(&journal).unwrap().write_all(torn.as_bytes()).unwrap();

    let server = Server::start(&ws, Framing::Ndjson).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let view: RunView = server.ok("showRun", params.clone()).await;
    assert_eq!(view.summary.completed_workers, 1);
    let result: DriveResult = server.ok("resume", params.clone()).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert_eq!(ws.agent_runs()["map:a"], 1);
    let verified: VerifyRunResult = server.ok("verifyRun", params).await;
    assert!(verified.ok, "{verified:#?}");
    server.finish().await;
}

#[tokio::test]
async fn the_snapshot_can_be_lost_and_is_made_again_from_the_journal() {
    let ws = TestWorkspace::new();
    let document = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&document, json!({ "once": true })).await;
    server.finish().await;
    fs::remove_file(ws.run_folder(&first.run_id).join("state.json")).unwrap();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": first.run_id }))).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 2));
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    assert!(ws.run_folder(&first.run_id).join("state.json").is_file());
    server.finish().await;
}

#[tokio::test]
async fn a_report_that_was_changed_cut_or_removed_is_made_anew_by_a_resume() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    let report = ws.run_folder(&first.run_id).join("report.md");
    let sound = fs::read_to_string(&report).unwrap();
    let params = server.here(json!({ "runId": first.run_id }));
    let cut = || fs::write(&report, "").unwrap();
    let change = || fs::write(&report, sound.replace("map:a", "map:z")).unwrap();
    let remove = || fs::remove_file(&report).unwrap();
    for harm in [&cut as &dyn Fn(), &change, &remove] {
        harm();
        let result: DriveResult = server.ok("resume", params.clone()).await;
        assert_eq!(result.status, RunStatus::Complete);
        assert_eq!(fs::read_to_string(&report).unwrap(), sound);
    }
    server.finish().await;
}

#[tokio::test]
async fn verify_names_the_line_that_was_changed_and_nobody_drives_on_over_it() {
    let ws = TestWorkspace::new();
    let document = workflow(2, [phase("map", [task("map:a"), task("map:b")]), phase("then", [task("then:c")])]);
    let server = Server::start(&ws, Framing::Lsp).await;
    let first = server.drive(&document, json!({ "once": true })).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let sound: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
    assert!(sound.ok && sound.problems.is_empty(), "{sound:#?}");
    let journal = ws.run_folder(&first.run_id).join("journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    let lines = whole.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(sound.events, lines as u64);

    for line in [1, lines / 2, lines - 1] {
        // One bit of one character of a value in that line.
        let start = whole.split_inclusive(|byte| *byte == b'\n').take(line - 1).map(<[u8]>::len).sum::<usize>();
        let text = &whole[start..];
        let time = text.windows(6).position(|window| window == b"\"at\":\"").expect("each line has its time");
        let mut changed = whole.clone();
        changed[start + time + 6 + 3] ^= 1;
        fs::write(&journal, &changed).unwrap();

        let found: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
        assert!(!found.ok, "a change in line {line} went unseen");
        assert_eq!(found.problems[0].line, Some(line as u64), "{found:#?}");
        assert!(found.problems[0].path.ends_with("journal.jsonl"), "{found:#?}");
        let error = server.err("resume", params.clone()).await;
        let place = error.assert_kind(ErrorKind::RunCorrupt);
        assert_eq!(place.line, Some(line as u64), "{error:?}");
        assert_eq!(fs::read(&journal).unwrap(), changed, "a refused resume changes nothing");
    }
    // A list is drawn from snapshots, which hold what was sound when they were taken; without one the journal is read.
    let snapshot = ws.run_folder(&first.run_id).join("state.json");
    let kept = fs::read(&snapshot).unwrap();
    fs::remove_file(&snapshot).unwrap();
    let runs: Value = server.ok("listRuns", server.here(json!({}))).await;
    fs::write(&snapshot, kept).unwrap();
    assert_eq!(runs["unreadable"][0]["kind"], "run-corrupt", "{runs:#}");
    fs::write(&journal, &whole).unwrap();
    let result: DriveResult = server.ok("resume", params).await;
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
}

#[tokio::test]
async fn a_run_is_not_called_complete_when_an_agent_changed_an_earlier_line_of_its_journal() {
    // Each leaves the length, and the end, as they are.
    for (place, line) in [("30", 1), ("$(( $(head -n 2 \"$j\" | wc -c) + 30 ))", 3)] {
        let ws = TestWorkspace::new();
        let good = config::fixture(&ws, &[]);
        let script = format!(
            "j=\"$1/../../journal.jsonl\"; shift; printf '~' | dd of=\"$j\" bs=1 seek={place} conv=notrunc 2>/dev/null; exec \"$@\""
        );
        let mut meddling = config::fixture(&ws, &[]);
        let command = ["sh", "-c", &script, "sh", "{{workerDir}}"].map(str::to_owned).into_iter();
        meddling.command = Some(command.chain(good.command.clone().unwrap()).collect());
        ws.configure(&config::config([("good", good), ("meddling", meddling)]));
        let document = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b").agent("meddling")])]);
        let server = Server::start(&ws, Framing::Ndjson).await;
        let request = json!({ "workflow": { "inline": document }, "runId": "meddled" });
        let error = server.err("drive", server.here(request)).await;
        assert_eq!(error.assert_kind(ErrorKind::RunCorrupt).line, Some(line), "{error:?}");
        let told = server.lifecycle("meddled");
        assert!(
            matches!(&told.last().unwrap().event, Event::RunFinished { status: RunStatus::InProgress, .. }),
            "{told:#?}"
        );
        server.finish().await;
    }
}

#[tokio::test]
async fn verify_finds_a_result_that_was_changed_after_it_was_accepted() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    let params = server.here(json!({ "runId": result.run_id }));
    let view: RunView = server.ok("showRun", params.clone()).await;
    let file = view.tasks[0].result_path.clone().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("is answered", "is invented")).unwrap();
    let found: VerifyRunResult = server.ok("verifyRun", params).await;
    assert!(!found.ok, "{found:#?}");
    assert!(found.problems.iter().any(|problem| file.ends_with(&problem.path) || problem.path == file), "{found:#?}");
    server.finish().await;
}

#[tokio::test]
async fn results_that_a_power_cut_took_are_named_by_verify_and_restored_by_a_resume() {
    let ws = TestWorkspace::new();
    let tasks = ["map:cut", "map:gone", "map:kept"].map(task);
    let document = workflow(3, [phase("map", tasks), phase("then", [task("then:last")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&document, json!({ "once": true })).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let view: RunView = server.ok("showRun", params.clone()).await;
    let files: Vec<String> = view.tasks.iter().filter_map(|task| task.result_path.clone()).collect();
    let texts: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert_eq!(files.len(), 3);
    // What a file system shows of files that were written but never flushed.
    fs::write(&files[0], "").unwrap();
    fs::remove_file(&files[1]).unwrap();

    let found: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
    let codes: Vec<(&str, &str)> = found.problems.iter().map(|p| (p.code.as_str(), p.path.as_str())).collect();
    assert_eq!(codes, [("result-changed", &*files[0]), ("result-missing", &*files[1])], "{found:#?}");
    let result: DriveResult = server.ok("resume", params.clone()).await;
    assert_eq!(result.status, RunStatus::Complete);
    for (file, text) in files.iter().zip(&texts) {
        assert_eq!(&fs::read(file).unwrap(), text, "{file}");
    }
    assert!(ws.agent_runs().values().all(|runs| *runs == 1), "{:?}", ws.agent_runs());
    let found: VerifyRunResult = server.ok("verifyRun", params).await;
    assert!(found.ok, "{found:#?}");
    server.finish().await;
}

/// Processes that agents of tasks had started.
fn lingering(ws: &TestWorkspace, task: &str) -> usize {
    let left = census::processes(ws.root(), &[]);
    left.iter().filter(|process| process.command.contains("--linger") && process.command.contains(task)).count()
}

#[tokio::test]
async fn the_first_drive_of_another_server_ends_what_a_killed_one_left_of_any_run() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate"), "--fork", "2", "--ignore-term"]);
    ws.configure(&config::config([("gated", gated)]));
    let mut server = Server::start(&ws, Framing::Lsp).await;
    let (_, run) = server.start_drive(&workflow(2, [phase("map", [task("map:a"), task("map:b")])]), json!({})).await;
    wait::until("the agents to have started others", || (lingering(&ws, "map_") >= 4).then_some(())).await;
    server.kill().await;

    let other = Server::start(&ws, Framing::Ndjson).await;
    let (request, _) = other.start_drive(&workflow(1, [phase("own", [task("own:c")])]), json!({})).await;
    wait::until("what was left to be gone", || (lingering(&ws, "map_") == 0).then_some(())).await;
    wait::until("the log to name it", || other.log().contains("a dead server left behind").then_some(())).await;
    wait::until("its own agent to have started others", || (lingering(&ws, "own_c") >= 2).then_some(())).await;
    ws.open_gate("gate");
    let result: DriveResult = other.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    let result: DriveResult = other.ok("resume", other.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    other.finish().await;
}

#[tokio::test]
async fn doctor_finds_and_ends_what_a_killed_server_left_and_leaves_driven_runs_alone() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate"), "--fork", "2", "--ignore-term"]);
    ws.configure(&config::config([("gated", gated)]));
    // Another run is being driven all the while: its agents are nobody's to end.
    let driver = Server::start(&ws, Framing::Ndjson).await;
    let (request, _) = driver.start_drive(&workflow(1, [phase("own", [task("own:c")])]), json!({})).await;
    wait::until("its agent to have started others", || (lingering(&ws, "own_c") >= 2).then_some(())).await;
    let document = workflow(2, [phase("map", [task("map:a"), task("map:b")])]);
    let mut server = Server::start(&ws, Framing::Lsp).await;
    let (_, run) = server.start_drive(&document, json!({})).await;
    wait::until("the agents to have started others", || (lingering(&ws, "map_") >= 4).then_some(())).await;
    server.kill().await;
    assert!(lingering(&ws, "map_") > 2, "a killed server leaves what its agents had started");

    let other = Server::start(&ws, Framing::Ndjson).await;
    let found: Value = other.ok("doctor", other.here(json!({}))).await;
    let check = found["checks"].as_array().unwrap().iter().find(|check| check["name"] == "left behind").unwrap();
    assert_eq!(check["status"], "warn", "{check:#}");
    for task in ["map:a", "map:b"] {
        assert!(check["message"].as_str().unwrap().contains(&format!("{task} of {run}")), "{check:#}");
    }
    // One that is being started has no command line of its own yet.
    wait::until("only the driven run's processes to be there", || {
        let left = census::processes(ws.root(), &[driver.pid(), other.pid()]);
        let own = left.iter().all(|process| process.command.contains("own_c"));
        (own && !left.is_empty()).then_some(())
    })
    .await;
    let again: Value = other.ok("doctor", other.here(json!({}))).await;
    let check = again["checks"].as_array().unwrap().iter().find(|check| check["name"] == "left behind").unwrap();
    assert_eq!(check["status"], "ok", "{check:#}");

    ws.open_gate("gate");
    let result: DriveResult = driver.result(request).await;
    assert_eq!(result.status, RunStatus::Complete);
    let result: DriveResult = driver.ok("resume", driver.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    other.finish().await;
    driver.finish().await;
}

#[tokio::test]
async fn removing_a_run_ends_what_a_killed_server_left_of_it() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate"), "--fork", "2", "--ignore-term"]);
    ws.configure(&config::config([("gated", gated)]));
    let mut server = Server::start(&ws, Framing::Lsp).await;
    let (_, run) = server.start_drive(&workflow(1, [phase("map", [task("map:a")])]), json!({})).await;
    wait::until("the agent to have started others", || (lingering(&ws, "map_") >= 2).then_some(())).await;
    server.kill().await;

    let other = Server::start(&ws, Framing::Ndjson).await;
    let wish = |dry: bool| json!({ "keep": 0, "statuses": ["blocked", "in-progress"], "dryRun": dry });
    let left = || census::processes(ws.root(), &[other.pid()]).len();
    let planned: Value = other.ok("pruneRuns", other.here(wish(true))).await;
    assert_eq!(planned["removed"][0]["runId"], run.as_str(), "{planned:#}");
    assert!(left() > 0, "a dry run ends nothing");
    let removed: Value = other.ok("pruneRuns", other.here(wish(false))).await;
    assert_eq!(removed["removed"][0]["runId"], run.as_str(), "{removed:#}");
    wait::until("nothing of it to run", || (left() == 0).then_some(())).await;
    other.finish().await;
}

#[tokio::test]
async fn a_report_says_that_a_result_file_is_no_longer_what_was_accepted() {
    let ws = TestWorkspace::new();
    let document = workflow(2, [phase("map", [task("map:a"), task("map:b")]), phase("then", [task("then:c")])]);
    let server = Server::start(&ws, Framing::Ndjson).await;
    let first = server.drive(&document, json!({ "once": true })).await;
    let params = server.here(json!({ "runId": first.run_id }));
    let report = || {
        let markdown = ws.run_folder(&first.run_id).join("report.md");
        let page = fs::read_to_string(markdown.with_extension("html")).unwrap();
        (fs::read_to_string(markdown).unwrap(), page)
    };
    let (markdown, page) = report();
    assert!(!markdown.contains("no longer what was accepted") && !page.contains("no longer what was accepted"));
    let view: RunView = server.ok("showRun", params.clone()).await;
    let file = view.tasks[1].result_path.clone().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    // As long as it was, so that nobody takes it for a file that a power cut took.
    fs::write(&file, text.replace("is answered", "is invented")).unwrap();
    // A person is slower than this test, and file systems tell times apart by some milliseconds only.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    let result: DriveResult = server.ok("resume", params.clone()).await;
    assert_eq!(result.status, RunStatus::Blocked, "what was accepted is not what would be committed");
    let (markdown, page) = report();
    for text in [&markdown, &page] {
        assert!(text.contains("1 result file is no longer what was accepted"), "{text}");
    }
    let line = markdown.lines().find(|line| line.contains("1 result file is no longer")).unwrap();
    assert!(line.contains("`map:b`") && !line.contains("`map:a`"), "{line}");
    fs::write(&file, text).unwrap();
    let result: DriveResult = server.ok("resume", params).await;
    assert_eq!(result.status, RunStatus::Complete);
    assert!(!report().0.contains("1 result file is no longer"), "what was put right is right again");
    server.finish().await;
}
