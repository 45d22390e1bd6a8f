//! Between an agent's end and the journal: a server that dies there has its agent's work taken over, and takes over nothing
//! that is not whole.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::VerifyRunResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView};
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, config, phase, task, workflow};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const RUN: &str = "adopted";

/// How a server died, and what it left.
struct Death {
    /// The point, by its name.
    name: String,
    /// Whether the journal has the outcome.
    recorded: bool,
    /// Whether the journal has the acceptance.
    accepted: bool,
}

struct Scene {
    ws: TestWorkspace,
    document: Value,
}

impl Scene {
    fn new(arguments: &[&str]) -> Self {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("only", config::fixture(&ws, arguments))]));
        Self { ws, document: workflow(1, [phase("map", [task("map:a")])]) }
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.ws.run_folder(RUN).join("journal.jsonl")).unwrap_or_default()
    }

    fn result(&self) -> PathBuf {
        let workers = fs::read_dir(self.ws.run_folder(RUN).join("workers")).into_iter().flatten().flatten();
        let first = workers.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with("-0001"));
        first.unwrap_or_default().join("result.md")
    }

    fn notes(&self) -> PathBuf {
        self.ws.run_folder(RUN).join("ended.log")
    }

    /// The place where an agent's end is noted. The run has been left as a death there leaves it.
    async fn where_a_note_is_written(&self) -> u32 {
        let mut at = 0;
        for point in (1..200).cycle().take(600) {
            if self.die_at(&point.to_string()).await.is_some_and(|death| death.name == "ended.write") {
                at = point;
                break;
            }
        }
        assert!(at > 2, "a note is written in every drive with an agent");
        at
    }

    /// Drives a new run until the server dies at that point; none when it does not get there.
    async fn die_at(&self, plan: &str) -> Option<Death> {
        let _ = fs::remove_dir_all(self.ws.path().join(".cw"));
        let _ = fs::remove_file(self.ws.ledger());
        let builder = Server::builder(&self.ws, Framing::Ndjson).program(binary::fault_injected());
        let mut server = builder.env("FLOWDRIVE_CRASH_AT", plan).start().await;
        let wish = server.here(json!({ "runId": RUN, "workflow": { "inline": self.document } }));
        if server.call_or_death("drive", wish).await.is_some() {
            server.finish().await;
            return None;
        }
        server.wait_exit().await;
        let log = server.log();
        let line = log.lines().find(|line| line.contains("fault injection: ")).unwrap_or_default();
        let name = line.rsplit_once('(').map_or("", |(_, name)| name.trim_end_matches(')')).to_owned();
        let journal = self.journal();
        let has = |kind: &str| journal.contains(&format!("\"type\":\"{kind}\""));
        Some(Death { name, recorded: has("outcomeRecorded"), accepted: has("taskAccepted") })
    }

    /// Dies with a whole note and no outcome in the journal. Which point that is can differ by a few from drive to drive:
    /// what an agent tells of itself is written down when it comes.
    async fn die_noted(&self, about: u32) -> Death {
        for attempt in 0..30 {
            let Some(death) = self.die_at(&(about + attempt % 5).to_string()).await else { continue };
            if !death.recorded && fs::read_to_string(self.notes()).is_ok_and(|notes| notes.ends_with('\n')) {
                return death;
            }
        }
        panic!("no point about {about} lies between note and journal");
    }

    /// Resumes with a sound server. Gives how often the agent ran in all.
    async fn resume(&self, when: &str) -> usize {
        let server = Server::start(&self.ws, Framing::Ndjson).await;
        let params = server.here(json!({ "runId": RUN }));
        let result: DriveResult = server.ok("resume", params.clone()).await;
        assert_eq!(result.status, RunStatus::Complete, "{when}: {result:#?}");
        let verified: VerifyRunResult = server.ok("verifyRun", params.clone()).await;
        assert!(verified.ok, "{when}: {verified:#?}");
        let view: RunView = server.ok("showRun", params).await;
        assert_eq!(view.summary.completed_workers, 1, "{when}");
        assert!(!self.notes().exists(), "{when}: the notes went when the journal had them");
        server.finish().await;
        self.ws.agent_runs()["map:a"]
    }
}

#[tokio::test]
async fn an_agent_that_had_ended_when_its_server_died_before_the_journal_had_it_does_not_run_again() {
    let scene = Scene::new(&[]);
    let (mut adopted, mut lost, mut scans) = (0, 0, 0);
    // The numbers of the points can shift from drive to drive, and one be passed over.
    let mut points = 1..;
    while scans < 3 {
        let point = points.next().unwrap_or(u32::MAX);
        let Some(death) = scene.die_at(&point.to_string()).await else {
            scans += 1;
            points = 1..;
            if adopted > 0 && lost > 0 {
                break;
            }
            continue;
        };
        let started = scene.ws.agent_runs().contains_key("map:a");
        let noted = fs::read_to_string(scene.notes()).is_ok_and(|notes| notes.ends_with('\n'));
        if !started || death.recorded {
            continue;
        }
        let when = format!("killed at point {point} ({})", death.name);
        let whole = fs::read_to_string(scene.result()).is_ok_and(|text| text.contains("cw:result"));
        let runs = scene.resume(&when).await;
        if noted {
            assert!(whole, "{when}: a note is made of a result that is there");
            assert_eq!(runs, 1, "{when}: the agent had ended and ran again");
            let journal = scene.journal();
            assert!(!journal.contains("taskInterrupted"), "{when}: nothing was interrupted");
            assert_eq!(journal.matches("\"type\":\"outcomeRecorded\"").count(), 1, "{when}");
            adopted += 1;
        } else {
            // Nobody knows how the agent ended, however good its result looks.
            assert!(runs <= 2, "{when}");
            lost += 1;
        }
    }
    assert!(adopted >= 1, "no point lies between the note and the journal");
    assert!(lost >= 1, "no point lies between the agent's start and the note");
    println!("{adopted} points between note and journal, {lost} between start and note");
}

#[tokio::test]
async fn a_note_cut_short_and_a_result_that_is_not_what_the_agent_left_are_not_taken_over() {
    let scene = Scene::new(&[]);
    // The place where the note is written, and the first after it.
    let at = scene.where_a_note_is_written().await;
    // The same place again; its number can differ by a few from drive to drive.
    let mut torn = String::new();
    for attempt in 0..30 {
        let plan = format!("{}:torn", at - 2 + (attempt + 2) % 5);
        torn = scene.die_at(&plan).await.map(|death| death.name).unwrap_or_default();
        if torn == "ended.write" {
            break;
        }
    }
    assert_eq!(torn, "ended.write");
    let half = fs::read(scene.notes()).unwrap();
    assert!(!half.is_empty() && !half.ends_with(b"\n"), "half of a note is there");
    assert_eq!(scene.resume("after half a note").await, 2, "half a note was believed");

    let text = |scene: &Scene| fs::read_to_string(scene.result()).unwrap();
    type Change = fn(&str) -> Option<String>;
    let changes: [(&str, Change); 4] = [
        ("cut in half", |text| Some(text[..text.len() / 2].to_owned())),
        ("empty, as a power cut leaves it", |_| Some(String::new())),
        ("gone", |_| None),
        ("another that is good in itself", |text| Some(text.replace("is answered", "is invented"))),
    ];
    for (what, change) in changes {
        scene.die_noted(at + 1).await;
        match change(&text(&scene)) {
            Some(changed) => fs::write(scene.result(), changed).unwrap(),
            None => fs::remove_file(scene.result()).unwrap(),
        }
        assert_eq!(scene.resume(what).await, 2, "a result that was {what} was taken over");
        assert!(scene.journal().contains("its result was lost before it was judged"), "{what}");
        assert!(!scene.journal().contains("taskRetrying"), "{what}: that is no fault of the agent's");
    }
}

/// A note with its JSON changed, and its digest made anew: what somebody who can write the file can make.
fn forged(note: &str, change: impl FnOnce(&mut Value)) -> String {
    let (_, json) = note.trim_end().split_once(' ').unwrap();
    let mut note: Value = serde_json::from_str(json).unwrap();
    change(&mut note);
    let json = note.to_string();
    let digest: String = Sha256::digest(&json).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest} {json}\n")
}

#[tokio::test]
async fn a_note_that_does_not_fit_the_record_of_its_attempt_is_not_believed() {
    let scene = Scene::new(&[]);
    let at = scene.where_a_note_is_written().await;
    type Change = fn(&mut Value);
    let changes: [(&str, usize, Change); 7] = [
        ("as it was", 1, |_| {}),
        ("of another attempt's marker", 2, |note| note["note"]["marker"] = "made-up".into()),
        ("without a marker", 2, |note| drop(note["note"].as_object_mut().unwrap().remove("marker"))),
        ("of another agent", 2, |note| note["note"]["agent"] = "another".into()),
        ("of another process", 2, |note| note["note"]["process"]["startTicks"] = 1.into()),
        ("in the form of an older Flowdrive", 2, |note| {
            let outcome = note["note"]["outcome"].take();
            *note = json!({ "worker": note["worker"], "outcome": outcome });
        }),
        ("without the result's digest", 2, |note| {
            drop(note["note"]["outcome"].as_object_mut().unwrap().remove("resultDigest"));
        }),
    ];
    for (what, runs, change) in changes {
        // Until the journal has the process too: it comes with the outcome or a turn before it.
        scene.die_noted(at + 1).await;
        if what == "of another process" && !scene.journal().contains("\"type\":\"processStarted\"") {
            continue;
        }
        let note = fs::read_to_string(scene.notes()).unwrap();
        fs::write(scene.notes(), forged(&note, change)).unwrap();
        assert_eq!(scene.resume(what).await, runs, "a note {what}");
        assert!(!scene.journal().contains("taskRetrying"), "{what}: that is no fault of the agent's");
    }
}

#[tokio::test]
async fn a_failed_agent_whose_server_died_has_failed_and_is_told_why_in_the_next_attempt() {
    let ws_file = |ws: &TestWorkspace| format!("1:{}", ws.beside("failed"));
    let ws = TestWorkspace::new();
    let arguments = ["--fail-times".to_owned(), ws_file(&ws)];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ws.configure(&config::config([("only", config::fixture(&ws, &arguments))]));
    let scene = Scene { ws, document: workflow(1, [phase("map", [task("map:a")])]) };
    for point in (1..200).cycle().take(600) {
        let _ = fs::remove_file(scene.ws.beside("failed"));
        let Some(death) = scene.die_at(&point.to_string()).await else { continue };
        let noted = fs::read_to_string(scene.notes()).is_ok_and(|notes| notes.ends_with('\n'));
        if !noted || death.recorded {
            continue;
        }
        assert_eq!(scene.resume("after a failed agent").await, 2);
        let journal = scene.journal();
        assert!(journal.contains("\"type\":\"taskRetrying\"") && journal.contains("agent-exit"), "{journal}");
        assert!(!journal.contains("taskInterrupted"), "it had ended by itself");
        return;
    }
    panic!("no point lies between note and journal");
}

#[tokio::test]
async fn a_long_result_is_on_the_disk_before_its_acceptance_is_recorded_and_a_short_one_is_in_the_journal() {
    let scene = Scene::new(&["--pad-kb", "80"]);
    // A point can be passed over where the numbers shift from drive to drive; hardly so each time.
    let mut missing = String::new();
    for _ in 0..5 {
        missing = long_result_missing(&scene).await;
        if missing.is_empty() {
            break;
        }
    }
    assert_eq!(missing, "", "written, flushed and named before the journal says so");
    assert!(!scene.journal().contains("So much more was said"), "the journal does not carry a long text");

    let short = Scene::new(&[]);
    let server = Server::start(&short.ws, Framing::Ndjson).await;
    server.drive(&short.document, json!({ "runId": RUN })).await;
    server.finish().await;
    assert!(short.journal().contains("\"text\":"), "a short one is carried");
}

/// What of the steps that make a long result durable was not seen before its acceptance was recorded.
async fn long_result_missing(scene: &Scene) -> String {
    let (mut names, mut recorded_after) = (Vec::new(), None);
    for point in 1.. {
        let Some(death) = scene.die_at(&point.to_string()).await else { break };
        if death.accepted && recorded_after.is_none() {
            recorded_after = Some(names.len());
        }
        names.push(death.name.clone());
        // Whatever was recorded is there and right.
        if scene.ws.agent_runs().contains_key("map:a") && point % 3 == 0 {
            scene.resume(&format!("killed at point {point} ({})", death.name)).await;
        }
    }
    let Some(recorded_after) = recorded_after else { return "an acceptance".to_owned() };
    let before: Vec<&str> = names[..recorded_after].iter().map(String::as_str).collect();
    let flushed = ["atomic.write", "atomic.fsync", "atomic.rename", "dir.fsync", "journal.write"];
    let mut wanted = flushed.iter().peekable();
    for name in &before {
        wanted.next_if(|next| **next == *name);
    }
    wanted.next().map(|next| format!("{next} in {before:?}")).unwrap_or_default()
}

#[tokio::test]
async fn a_drive_that_ends_by_a_fault_tells_its_end_and_the_next_goes_on_with_the_numbers() {
    let ws = TestWorkspace::new();
    let document = workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])]);
    let mut tried = 0;
    for point in (4..).step_by(3) {
        let _ = fs::remove_dir_all(ws.path().join(".cw"));
        let builder = Server::builder(&ws, Framing::Ndjson).program(binary::fault_injected());
        let server = builder.env("FLOWDRIVE_FAIL_AT", &format!("{point}:enospc")).start().await;
        let wish = server.here(json!({ "runId": RUN, "workflow": { "inline": document } }));
        let failed = server.call("drive", wish).await;
        let struck = server.log().contains("fault injection: ");
        if !struck {
            server.finish().await;
            break;
        }
        let told = server.lifecycle(RUN);
        if let Err(error) = failed
            && told.iter().any(|told| matches!(told.event, Event::RunStarted { .. }))
        {
            tried += 1;
            let details = error.assert_kind(ErrorKind::StorageFailed);
            assert!(details.hint.contains("space"), "point {point}: {details:?}");
            let last = told.last().unwrap();
            let Event::RunFinished { reason, .. } = &last.event else {
                server.fail(&format!("point {point}: the end was not told: {told:#?}"));
            };
            let reason = reason.clone().unwrap_or_default();
            assert!(reason.contains("ended by a fault") && reason.contains("injected"), "point {point}: {reason}");

            let result: DriveResult = server.ok("resume", server.here(json!({ "runId": RUN }))).await;
            assert_eq!(result.status, RunStatus::Complete, "point {point}");
            let all = server.lifecycle(RUN);
            let again = &all[told.len()..];
            assert!(matches!(again[0].event, Event::RunStarted { resumed: true, .. }), "point {point}: {again:#?}");
            assert_eq!(again[0].seq, last.seq + 1, "point {point}: no number is given twice or left out");
        }
        server.finish().await;
    }
    assert!(tried >= 3, "only {tried} drives that had begun met a full disk");
    println!("{tried} drives that had begun met a full disk");
}
