//! With `--features fault-injection`: a process that dies or meets a full disk at each point of a short life.

use std::os::unix::process::ExitStatusExt;

use flowdrive_protocol::ids::{TaskId, WorkerId};

use super::{Bench, Event, again, given_run, note};
use crate::store::worker::{create_worker, publish_result};
use crate::store::{Journal, JournalPosition, StoreError, read_entries, snapshot, verify};

/// Begins or resumes the run: three rounds, each with a worker's folder, a synced batch, a result and a snapshot. Says
/// what it was told is durable.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn live() {
    let Some((id, paths)) = given_run() else { return };
    let run = || -> Result<(), StoreError> {
        let mut journal = match Journal::<Event>::create(&paths, &id) {
            Err(StoreError::RunExists { .. }) => Journal::<Event>::open(&paths, &id, None)?.0,
            other => other?,
        };
        let task = TaskId::new("map:a").unwrap();
        for round in 0..3 {
            create_worker(&paths, &WorkerId::new(format!("a.{round}")).unwrap(), "do it", &serde_json::json!({}))?;
            // Of unequal length, so that half a batch ends inside a line.
            for text in ["first", "the second, which is a good deal longer,"] {
                journal.append(&note(&format!("{text} of {round}")))?;
            }
            journal.sync_blocking()?;
            println!("\n@@ durable {}", journal.position().seq);
            publish_result(&paths, &task, &RESULT.repeat(round + 1), false)?;
            let saved = snapshot::save(&paths.state, &journal.position(), true);
            if let Err(fault) = saved {
                println!("\n@@ snapshot {fault}");
            }
        }
        Ok(())
    };
    match run() {
        Ok(()) => println!("\n@@ lived"),
        Err(fault) => println!("\n@@ fault {fault}"),
    }
}

const RESULT: &str = "a whole line of a result\n";

struct Life {
    killed: bool,
    said: Vec<String>,
}

impl Life {
    fn of(bench: &Bench, plan: (&str, &str)) -> Self {
        let output = again("faults::live", bench.dir.path()).env(plan.0, plan.1).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = text.lines().filter_map(|line| line.split_once("@@ ")).map(|(_, said)| said.to_owned()).collect();
        Self { killed: output.status.signal() == Some(9), said }
    }

    fn durable(&self) -> u64 {
        let told = self.said.iter().filter_map(|said| said.strip_prefix("durable "));
        told.map(|seq| seq.parse().unwrap()).max().unwrap_or(0)
    }
}

/// What must hold however the process ended; then the run goes on to its end.
fn check_and_go_on(bench: &Bench, durable: u64, plan: &str) {
    if !bench.paths.journal.exists() {
        assert_eq!(durable, 0, "{plan}");
        return;
    }
    if let Ok(result) = std::fs::read_to_string(bench.paths.result(&TaskId::new("map:a").unwrap())) {
        assert!(!result.is_empty() && result.replace(RESULT, "").is_empty(), "{plan}: a result is whole");
    }
    let position = snapshot::load::<JournalPosition>(&bench.paths.state);
    let all = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap();
    assert!(all.position.seq >= durable, "{plan}: what was called durable is there");
    let (mut journal, rest) = Journal::<Event>::open(&bench.paths, &bench.id, position.clone()).unwrap();
    assert_eq!(rest.position, all.position, "{plan}: the snapshot is a place in the journal");
    assert_eq!(rest.entries.len() as u64, all.position.seq - position.map_or(0, |position| position.seq), "{plan}");
    journal.append(&note("after")).unwrap();
    journal.sync_blocking().unwrap();
    let found = verify::<Event>(&bench.paths, &bench.id).unwrap();
    assert_eq!((found.events, found.problems), (all.position.seq + 1, vec![]), "{plan}");
    let left = std::fs::read_dir(&bench.paths.dir).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".tmp-")), "{plan}");
}

#[test]
fn a_crash_at_any_write_fsync_or_rename_loses_nothing_durable() {
    for how in ["", ":torn"] {
        let mut point = 0;
        loop {
            point += 1;
            let bench = Bench::new();
            let plan = format!("{point}{how}");
            let life = Life::of(&bench, ("FLOWDRIVE_CRASH_AT", &plan));
            check_and_go_on(&bench, life.durable(), &plan);
            if !life.killed {
                assert_eq!(life.said.last().map(String::as_str), Some("lived"), "{plan}");
                break;
            }
            assert!(point < 100, "no end");
        }
        assert!(point > 30, "only {point} points were passed");
    }
}

#[test]
fn a_second_crash_while_the_first_is_cleared_up_loses_nothing_either() {
    let mut killed_twice = 0;
    for first in 1..20 {
        for second in 1..4 {
            let bench = Bench::new();
            let before = Life::of(&bench, ("FLOWDRIVE_CRASH_AT", &format!("{first}:torn")));
            assert!(before.killed);
            let after = Life::of(&bench, ("FLOWDRIVE_CRASH_AT", &format!("{second}:torn")));
            killed_twice += u32::from(after.killed);
            check_and_go_on(&bench, before.durable().max(after.durable()), &format!("{first} then {second}"));
        }
    }
    assert_eq!(killed_twice, 19 * 3);
}

#[test]
fn a_full_disk_at_any_point_is_reported_and_leaves_whole_lines_only() {
    let mut faults = 0;
    for point in 1..100 {
        let bench = Bench::new();
        let plan = format!("{point}:enospc");
        let life = Life::of(&bench, ("FLOWDRIVE_FAIL_AT", &plan));
        assert!(!life.killed);
        let told = life.said.iter().any(|said| said.starts_with("fault ") || said.starts_with("snapshot "));
        if bench.paths.journal.exists() {
            assert_eq!(read_entries::<Event>(&bench.paths, &bench.id, None).unwrap().torn, None, "{plan}: cut back");
        }
        check_and_go_on(&bench, life.durable(), &plan);
        if !told {
            assert_eq!(life.said.last().map(String::as_str), Some("lived"), "{plan}");
            break;
        }
        faults += 1;
    }
    assert!((30..90).contains(&faults), "{faults}");
}
