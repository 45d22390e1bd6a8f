//! Ids and paths from outside: none leads out of the folder it is meant for, and what was planted inside `.cw` is neither
//! followed nor written through.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, phase, task, workflow};
use serde_json::{Value, json};

const INVALID: i64 = -32602;

fn two() -> Value {
    workflow(1, [phase("map", [task("map:a")]), phase("then", [task("then:b")])])
}

/// Every file below a folder, with what is in it. Links are not followed.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(contents(&path));
            found.insert(path, Vec::new());
        } else if kind.is_file() {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

#[tokio::test]
async fn ids_that_could_lead_elsewhere_are_refused_by_every_method_that_takes_one() {
    let ws = TestWorkspace::new();
    ws.write("outside/journal.jsonl", "{}\n");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let long = "x".repeat(300);
    let bad = [
        "",
        ".",
        "..",
        "../outside",
        "../../outside",
        "/etc",
        "a/b",
        "a\\b",
        "a/../b",
        "a\0b",
        "a b",
        "a\nb",
        "\u{e9}",
        &long,
        "latest",
        "con",
        "NUL.txt",
        "com1",
        "a.",
    ];
    let before = contents(&ws.path());
    for id in bad {
        let run = json!({ "runId": id });
        let feedback = json!({ "runId": id, "feedbackId": "f", "resolution": "rejected" });
        for (method, params) in [
            ("drive", run.clone()),
            ("drive", json!({ "runId": id, "workflow": { "inline": two() } })),
            ("resume", run.clone()),
            ("preview", run.clone()),
            ("stop", run.clone()),
            ("showRun", run.clone()),
            ("listFeedback", run.clone()),
            ("verifyRun", run.clone()),
            ("resolveFeedback", feedback),
        ] {
            let error = server.err(method, server.here(params)).await;
            assert_eq!(error.code, INVALID, "{method} {id:?}: {error:?}");
            assert!(error.message.contains("run id"), "{method} {id:?}: {error:?}");
        }
    }
    assert_eq!(contents(&ws.path()), before, "a refused id makes nothing");

    let result = server.drive(&two(), json!({ "runId": "real" })).await;
    assert_eq!(result.status, RunStatus::Complete);
    for id in ["", "..", "a/b", "a\0b", &long] {
        let wish = json!({ "runId": "real", "feedbackId": id, "resolution": "rejected" });
        assert_eq!(server.err("resolveFeedback", server.here(wish)).await.code, INVALID, "feedback {id:?}");
        let wish = json!({ "runId": "real", "feedbackId": "f", "nodeId": id, "resolution": "resolved" });
        let error = server.err("resolveFeedback", server.here(wish)).await;
        assert!([INVALID, ErrorKind::FeedbackUnknown.code()].contains(&error.code), "node {id:?}: {error:?}");
        let error = server.err("resume", server.here(json!({ "runId": "real", "agent": id }))).await;
        assert_eq!(error.code, INVALID, "agent {id:?}");
    }
    for id in ["../outside", "..", "/etc/passwd", "a/../../b", &long, "a\0b", ""] {
        let error = server.err("preview", server.here(json!({ "workflow": { "id": id } }))).await;
        assert!([INVALID, ErrorKind::WorkflowInvalid.code()].contains(&error.code), "workflow {id:?}: {error:?}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a_workspace_that_is_none_is_refused_by_every_method() {
    let ws = TestWorkspace::new();
    ws.write("a-file", "");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (file, absent) = (format!("{}/a-file", ws.text()), format!("{}/absent", ws.text()));
    let long = format!("/{}", "x".repeat(300));
    for place in ["", ".", "relative", "../x", &file, &absent, "/\0", &long, "file:///tmp"] {
        let run = json!({ "runId": "r", "workspace": place });
        let flow = json!({ "workflow": { "inline": two() }, "workspace": place });
        for (method, params) in [
            ("drive", flow.clone()),
            ("preview", flow),
            ("resume", run.clone()),
            ("preview", run.clone()),
            ("stop", run.clone()),
            ("showRun", run.clone()),
            ("listFeedback", run.clone()),
            ("verifyRun", run),
            ("listRuns", json!({ "workspace": place })),
            ("pruneRuns", json!({ "workspace": place, "keep": 0 })),
        ] {
            let error = server.err(method, params).await;
            error.assert_kind(ErrorKind::WorkspaceInvalid);
        }
    }
    server.finish().await;
}

/// Puts a link to the folder outside in the place of what is there, which goes outside.
fn plant(place: &Path, outside: &Path) {
    let theirs = outside.join("theirs");
    if fs::symlink_metadata(place).is_ok() {
        fs::rename(place, &theirs).unwrap();
    } else if place.extension().is_some() || place.ends_with("stop-request") {
        fs::write(&theirs, "theirs").unwrap();
    } else {
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("a-file"), "theirs").unwrap();
    }
    symlink(&theirs, place).unwrap();
}

/// What is there becomes something of another kind.
fn replace_by_other_kind(place: &Path, outside: &Path) {
    let folder = fs::symlink_metadata(place).is_ok_and(|meta| meta.is_dir());
    if fs::symlink_metadata(place).is_ok() {
        fs::rename(place, outside.join("theirs")).unwrap();
    }
    if folder { fs::write(place, "a file").unwrap() } else { fs::create_dir(place).unwrap() }
}

/// What becomes of a run with something planted in it.
#[derive(Clone, Copy)]
enum Fate {
    /// All methods answer, and a resume completes it.
    Unharmed,
    /// Who reads and who drives is refused with this kind.
    Refused(ErrorKind),
    /// Who reads is answered; a drive is refused with one of these kinds.
    DriveRefused(&'static [ErrorKind]),
}

async fn look(server: &Server, what: &str, fate: Fate) {
    let params = server.here(json!({ "runId": "run" }));
    for method in ["showRun", "preview", "listFeedback", "verifyRun"] {
        match (fate, server.call(method, params.clone()).await) {
            (Fate::Refused(kind), Err(error)) => drop(error.assert_kind(kind)),
            (Fate::Unharmed | Fate::DriveRefused(_), Ok(_)) => {}
            (_, other) => server.fail(&format!("{what}, {method}: {other:#?}")),
        }
    }
    match (fate, server.call("resume", params).await) {
        (Fate::Refused(kind), Err(error)) => drop(error.assert_kind(kind)),
        (Fate::DriveRefused(kinds), Err(error)) => {
            let kind = error.details().kind;
            assert!(kinds.contains(&kind), "{what}: {error:?}");
            error.assert_kind(kind);
        }
        (Fate::Unharmed, Ok(result)) => {
            let result: DriveResult = serde_json::from_value(result).unwrap();
            assert_eq!(result.status, RunStatus::Complete, "{what}: {result:#?}");
        }
        (_, other) => server.fail(&format!("{what}, resume: {other:#?}")),
    }
}

#[tokio::test]
async fn what_is_planted_inside_the_state_folder_is_neither_followed_nor_written_through() {
    use ErrorKind::{RunCorrupt, StorageFailed, WorkspaceInvalid};
    let disk: &[ErrorKind] = &[RunCorrupt, StorageFailed];
    let run = ".cw/runs/run";
    let table = [
        (".cw".to_owned(), Fate::Refused(WorkspaceInvalid), Fate::Refused(WorkspaceInvalid)),
        (".cw/runs".to_owned(), Fate::Refused(WorkspaceInvalid), Fate::Refused(WorkspaceInvalid)),
        (run.to_owned(), Fate::Refused(RunCorrupt), Fate::Refused(RunCorrupt)),
        (format!("{run}/journal.jsonl"), Fate::Refused(RunCorrupt), Fate::Refused(RunCorrupt)),
        (format!("{run}/state.json"), Fate::Unharmed, Fate::DriveRefused(disk)),
        (format!("{run}/drive.lock"), Fate::DriveRefused(disk), Fate::DriveRefused(disk)),
        (format!("{run}/workers"), Fate::DriveRefused(disk), Fate::DriveRefused(disk)),
        (format!("{run}/results"), Fate::DriveRefused(disk), Fate::DriveRefused(disk)),
        (format!("{run}/report.md"), Fate::Unharmed, Fate::DriveRefused(disk)),
        (format!("{run}/report.html"), Fate::Unharmed, Fate::DriveRefused(disk)),
        (format!("{run}/ended.log"), Fate::Unharmed, Fate::Unharmed),
        (format!("{run}/stop-request"), Fate::Unharmed, Fate::Unharmed),
    ];
    for (place, as_link, as_other) in table {
        for (what, make, fate) in [
            ("a link", plant as fn(&Path, &Path), as_link),
            ("of another kind", replace_by_other_kind as fn(&Path, &Path), as_other),
        ] {
            let ws = TestWorkspace::new();
            let server = Server::start(&ws, Framing::Ndjson).await;
            server.drive(&two(), json!({ "runId": "run", "once": true })).await;
            server.finish().await;
            let outside = ws.root().join("outside");
            fs::create_dir(&outside).unwrap();
            make(&ws.path().join(&place), &outside);
            let before = contents(&outside);
            // A fresh one, that knows nothing from before.
            let server = Server::start(&ws, Framing::Ndjson).await;
            let what = format!("{place} is {what}");
            look(&server, &what, fate).await;
            if let Fate::Refused(ErrorKind::WorkspaceInvalid) = fate {
                for (method, wish) in [
                    ("listRuns", json!({})),
                    ("pruneRuns", json!({ "keep": 0 })),
                    ("drive", json!({ "workflow": { "inline": two() } })),
                ] {
                    let details = server.err(method, server.here(wish)).await.assert_kind(ErrorKind::WorkspaceInvalid);
                    assert!(details.file.is_some_and(|file| file.ends_with(&place)), "{what}, {method}");
                }
            }
            server.finish().await;
            assert_eq!(contents(&outside), before, "{what}: something outside was changed");
            drop(ws);
        }
    }
}

#[tokio::test]
async fn a_folder_with_content_and_no_journal_is_refused_and_not_taken_for_a_new_run() {
    let ws = TestWorkspace::new();
    ws.write(".cw/runs/odd/notes.txt", "mine");
    let server = Server::start(&ws, Framing::Ndjson).await;
    for (method, wish) in [
        ("showRun", json!({ "runId": "odd" })),
        ("resume", json!({ "runId": "odd" })),
        ("verifyRun", json!({ "runId": "odd" })),
        ("drive", json!({ "runId": "odd", "workflow": { "inline": two() } })),
    ] {
        let details = server.err(method, server.here(wish)).await.assert_kind(ErrorKind::RunCorrupt);
        assert!(details.file.is_some_and(|file| file.ends_with("odd")), "{method}");
    }
    assert_eq!(fs::read_to_string(ws.run_folder("odd").join("notes.txt")).unwrap(), "mine");
    server.finish().await;
}
