//! What others do to a run's files while they are written to.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::{TaskId, WorkerId};
use serde_json::json;

use super::{Bench, Event, note};
use crate::store::worker::{create_worker, publish_result};
use crate::store::{EndedLog, Journal, StoreError, read_entries};

type Offence = (&'static str, fn(&Path));

/// Each is done to a journal of three lines between two writes.
const OFFENCES: &[Offence] = &[
    ("deleted", |journal| fs::remove_file(journal).unwrap()),
    ("moved away", |journal| fs::rename(journal, journal.with_extension("away")).unwrap()),
    ("replaced by a copy of itself", |journal| {
        let copy = journal.with_extension("copy");
        fs::copy(journal, &copy).unwrap();
        fs::rename(&copy, journal).unwrap();
    }),
    ("replaced by a link to itself", |journal| {
        let away = journal.with_extension("away");
        fs::rename(journal, &away).unwrap();
        symlink(&away, journal).unwrap();
    }),
    ("replaced by a folder", |journal| {
        fs::remove_file(journal).unwrap();
        fs::create_dir(journal).unwrap();
    }),
    ("emptied", |journal| drop(File::create(journal).unwrap())),
    ("cut by a byte", |journal| {
        let file = fs::OpenOptions::new().write(true).open(journal).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    }),
    ("written to", |journal| {
        let mut bytes = fs::read(journal).unwrap();
        bytes.extend_from_slice(b"x");
        fs::write(journal, bytes).unwrap();
    }),
    ("cut and grown to its length again, by zeros", |journal| {
        let file = fs::OpenOptions::new().write(true).open(journal).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length / 2).unwrap();
        file.set_len(length).unwrap();
    }),
    ("cut and grown to its length again, by other lines", |journal| {
        let text = fs::read_to_string(journal).unwrap();
        fs::write(journal, text.replace("three", "THREE")).unwrap();
    }),
    ("moved away with its folder, and a link put in its place", |journal| {
        let folder = journal.parent().unwrap();
        let away = folder.with_extension("away");
        fs::rename(folder, &away).unwrap();
        symlink(&away, folder).unwrap();
    }),
    ("moved away with all runs, and a link put in their place", |journal| {
        let runs = journal.parent().unwrap().parent().unwrap();
        let away = runs.with_extension("away");
        fs::rename(runs, &away).unwrap();
        symlink(&away, runs).unwrap();
    }),
    ("moved away with its folder, and a copy of that put in its place", |journal| {
        let folder = journal.parent().unwrap();
        let away = folder.with_extension("away");
        fs::rename(folder, &away).unwrap();
        fs::create_dir(folder).unwrap();
        fs::hard_link(away.join("journal.jsonl"), journal).unwrap();
    }),
    ("removed with its folder", |journal| fs::remove_dir_all(journal.parent().unwrap()).unwrap()),
];

#[test]
fn whatever_is_done_to_an_open_journal_is_noticed_before_the_next_write() {
    for (offence, commit) in OFFENCES {
        for reopened in [false, true] {
            let bench = Bench::new();
            let paths = bench.paths.clone().opened().unwrap();
            let mut journal: Journal<Event> = Journal::create(&paths, &bench.id).unwrap();
            for text in ["one", "two", "three"] {
                journal.append(&note(text)).unwrap();
            }
            journal.sync_blocking().unwrap();
            if reopened {
                drop(journal);
                journal = Journal::open(&paths, &bench.id, None).unwrap().0;
            }
            commit(&paths.journal);
            let left = fs::read(&paths.journal).ok();
            journal.append(&note("four")).unwrap();
            let fault = journal.write().unwrap_err();
            assert!(matches!(fault, StoreError::Corrupt { .. }), "{offence}: {fault}");
            assert_eq!(fault.kind(), ErrorKind::RunCorrupt, "{offence}");
            assert_eq!(fs::read(&paths.journal).ok(), left, "{offence}: what was put there is left as it is");
            assert!(matches!(journal.write(), Err(StoreError::Poisoned { .. })), "{offence}: it stays refused");
            assert!(matches!(journal.append(&note("five")), Err(StoreError::Poisoned { .. })), "{offence}");
        }
    }
}

#[test]
fn what_leaves_the_journal_as_it_was_is_no_damage() {
    let bench = Bench::new();
    let paths = bench.paths.clone().opened().unwrap();
    let mut journal: Journal<Event> = Journal::create(&paths, &bench.id).unwrap();
    let innocent: &[fn(&Path)] = &[
        |_| {},
        |journal| File::open(journal).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap(),
        |journal| fs::hard_link(journal, journal.with_extension("backup")).unwrap(),
        |journal| {
            fs::copy(journal, journal.with_extension("copied")).unwrap();
        },
        |journal| fs::write(journal.with_file_name("notes.txt"), "mine").unwrap(),
        |journal| fs::write(journal, fs::read(journal).unwrap()).unwrap(),
    ];
    for (number, act) in innocent.iter().enumerate() {
        act(&paths.journal);
        journal.append(&note(&"long ".repeat(number * 200))).unwrap();
        journal.write().unwrap_or_else(|fault| panic!("{number}: {fault}"));
    }
    assert_eq!(read_entries::<Event>(&paths, &bench.id, None).unwrap().entries.len(), innocent.len());
}

/// Moves the run's folder away and puts something else where it was. Gives where it went, and where writes must not go.
fn swap(bench: &Bench, with: &str) -> std::path::PathBuf {
    let away = bench.dir.path().join("away");
    fs::rename(&bench.paths.dir, &away).unwrap();
    let other = bench.dir.path().join("other");
    fs::create_dir(&other).unwrap();
    match with {
        "a link" => symlink(&other, &bench.paths.dir).unwrap(),
        "another folder" => fs::create_dir(&bench.paths.dir).unwrap(),
        "a file" => fs::write(&bench.paths.dir, "").unwrap(),
        _ => {}
    }
    other
}

#[test]
fn nothing_of_a_run_is_written_where_its_folder_no_longer_is() {
    let task = TaskId::new("map:a").unwrap();
    let worker = WorkerId::new("worker-a-0001").unwrap();
    for with in ["a link", "another folder", "a file", "nothing"] {
        let bench = Bench::new();
        let paths = bench.paths.clone().opened().unwrap();
        let notes = EndedLog::of(&paths);
        let other = swap(&bench, with);
        let faults = [
            publish_result(&paths, &task, "text", false).map(drop),
            create_worker(&paths, &worker, "input", &json!({})).map(drop),
            notes.note(&worker, &json!({})),
        ];
        for (place, outcome) in faults.into_iter().enumerate() {
            let fault = outcome.expect_err(with);
            assert_eq!(fault.kind(), ErrorKind::RunCorrupt, "{with}, {place}: {fault}");
        }
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "{with}: written through");
        if with == "another folder" {
            assert_eq!(fs::read_dir(&bench.paths.dir).unwrap().count(), 0, "{with}: written to");
        }
    }
}

#[test]
fn a_link_in_place_of_a_folder_of_results_or_attempts_is_not_written_through() {
    let bench = Bench::new();
    let paths = bench.paths.clone().opened().unwrap();
    let other = bench.dir.path().join("other");
    fs::create_dir(&other).unwrap();
    symlink(&other, &paths.results_dir).unwrap();
    symlink(&other, &paths.workers_dir).unwrap();
    let fault = publish_result(&paths, &TaskId::new("map:a").unwrap(), "text", false).unwrap_err();
    assert_eq!(fault.kind(), ErrorKind::RunCorrupt, "{fault}");
    let worker = WorkerId::new("worker-a-0001").unwrap();
    let fault = create_worker(&paths, &worker, "input", &json!({})).unwrap_err();
    assert_eq!(fault.kind(), ErrorKind::RunCorrupt, "{fault}");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
}
