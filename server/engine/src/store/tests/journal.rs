use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use proptest::prelude::*;

use super::{Bench, Event, any_event, note, run_id};
use crate::EngineError;
use crate::store::{Journal, JournalPosition, Recorded, StoreError, TornTail, read_entries, verify};

#[test]
fn what_is_appended_reads_back_and_later_parts_can_be_read_alone() {
    let bench = Bench::new();
    let events = [note("one"), Event::Done, note("three")];
    let mut journal = bench.journal(&events[..2]);
    let middle = journal.position();
    let third = journal.append(&events[2]).unwrap();
    assert_eq!(third.seq, 3);
    assert!(read_entries::<Event>(&bench.paths, &bench.id, None).unwrap().entries.len() == 2, "appending only buffers");
    journal.write().unwrap();

    let all = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap();
    assert_eq!(all.entries.iter().map(|entry| entry.event.clone()).collect::<Vec<_>>(), events);
    assert_eq!(all.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(all.entries[2].at, third.at);
    assert_eq!(all.position, journal.position());
    assert_eq!(all.torn, None);

    let rest = read_entries::<Event>(&bench.paths, &bench.id, Some(middle.clone())).unwrap();
    assert_eq!(rest.entries, all.entries[2..]);
    let none = read_entries::<Event>(&bench.paths, &bench.id, Some(all.position)).unwrap();
    assert!(none.entries.is_empty());
    drop(journal);

    let (mut reopened, loaded) = Journal::<Event>::open(&bench.paths, &bench.id, Some(middle)).unwrap();
    assert_eq!(loaded.entries, rest.entries);
    assert_eq!(reopened.append(&note("four")).unwrap().seq, 4);
    reopened.sync_blocking().unwrap();
    let found = verify::<Event>(&bench.paths, &bench.id).unwrap();
    assert_eq!((found.events, found.problems), (4, vec![]));
    assert_eq!(found.head, reopened.position().head);
}

#[test]
fn a_journal_that_somebody_else_wrote_to_or_cut_is_not_written_on() {
    for longer in [true, false] {
        let bench = Bench::new();
        let mut journal = bench.journal(&[note("one"), note("two")]);
        let before = std::fs::read(&bench.paths.journal).unwrap();
        let touched = if longer { [&before[..], b"junk\n"].concat() } else { before[..before.len() / 2].to_vec() };
        std::fs::write(&bench.paths.journal, &touched).unwrap();
        journal.append(&Event::Done).unwrap();
        let fault = journal.write().unwrap_err();
        assert!(matches!(fault, StoreError::Corrupt { .. }), "{fault}");
        assert_eq!(EngineError::from(fault).data().unwrap().kind.as_str(), "run-corrupt");
        assert!(matches!(journal.append(&Event::Done), Err(StoreError::Poisoned { .. })));
        assert_eq!(std::fs::read(&bench.paths.journal).unwrap(), touched, "left for people to look at");
    }
}

#[test]
fn a_position_that_is_no_end_of_a_line_of_this_journal_is_refused() {
    let bench = Bench::new();
    let journal = bench.journal(&[note("one"), note("two")]);
    let end = journal.position();
    let other_hash = JournalPosition::start(&bench.id).head;
    let wrong = [
        JournalPosition { offset: end.offset - 1, ..end.clone() },
        JournalPosition { offset: end.offset + 1, ..end.clone() },
        JournalPosition { seq: 1, ..end.clone() },
        JournalPosition { head: other_hash, ..end.clone() },
        JournalPosition { offset: 0, ..end.clone() },
        JournalPosition { offset: u64::MAX, ..end },
    ];
    for position in wrong {
        let fault = read_entries::<Event>(&bench.paths, &bench.id, Some(position.clone())).unwrap_err();
        assert!(matches!(fault, StoreError::PositionUnknown { .. }), "{position:?}: {fault}");
        assert_eq!(EngineError::from(fault).data().unwrap().kind.as_str(), "run-corrupt");
    }
}

#[test]
fn another_runs_journal_is_refused_at_its_first_line() {
    let bench = Bench::new();
    bench.journal(&[note("one")]);
    let fault = read_entries::<Event>(&bench.paths, &run_id("run-2"), None).unwrap_err();
    assert!(matches!(fault, StoreError::Corrupt { line: Some(1), .. }), "{fault}");
    assert_eq!(verify::<Event>(&bench.paths, &run_id("run-2")).unwrap().problems[0].code, "chain-broken");
}

#[test]
fn creating_twice_is_refused_but_a_torn_birth_is_cleared_away() {
    let bench = Bench::new();
    std::fs::write(&bench.paths.journal, b"{\"at\":\"2026").unwrap();
    bench.journal(&[note("one")]);
    assert_eq!(read_entries::<Event>(&bench.paths, &bench.id, None).unwrap().entries.len(), 1);
    assert!(matches!(Journal::<Event>::create(&bench.paths, &bench.id), Err(StoreError::RunExists { .. })));
    assert_eq!(read_entries::<Event>(&bench.paths, &bench.id, None).unwrap().entries.len(), 1);
}

#[test]
fn opening_sweeps_up_what_crashes_left_of_replaced_files() {
    let bench = Bench::new();
    drop(bench.journal(&[note("one")]));
    std::fs::create_dir(&bench.paths.results_dir).unwrap();
    let left = [bench.paths.dir.join(".tmp-abc"), bench.paths.results_dir.join(".tmp-def")];
    for path in &left {
        std::fs::write(path, "half").unwrap();
    }
    Journal::<Event>::open(&bench.paths, &bench.id, None).unwrap();
    assert!(left.iter().all(|path| !path.exists()));
}

#[test]
fn a_missing_journal_is_a_missing_run_for_readers_and_writers() {
    let bench = Bench::new();
    for fault in [
        read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err(),
        Journal::<Event>::open(&bench.paths, &bench.id, None).unwrap_err(),
        verify::<Event>(&bench.paths, &bench.id).unwrap_err(),
    ] {
        assert!(matches!(fault, StoreError::RunNotFound { .. }), "{fault}");
    }
}

#[test]
fn an_intact_event_this_version_does_not_know_is_not_called_damage() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Newer {
        #[serde(rename = "type")]
        kind: String,
    }
    impl Recorded for Newer {
        const VERSION: u32 = Event::VERSION;

        fn upgrade(_: u32, event: serde_json::Value) -> Result<serde_json::Value, String> {
            Ok(event)
        }
    }
    let bench = Bench::new();
    let mut journal = Journal::<Newer>::create(&bench.paths, &bench.id).unwrap();
    journal.append(&Newer { kind: "done".into() }).unwrap();
    journal.append(&Newer { kind: "fromTheFuture".into() }).unwrap();
    journal.write().unwrap();
    let fault = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err();
    assert!(matches!(fault, StoreError::Unsupported { line: Some(2), .. }), "{fault}");
    assert_eq!(verify::<Event>(&bench.paths, &bench.id).unwrap().problems, []);
}

#[tokio::test]
async fn sync_does_nothing_when_nothing_is_new_and_survives_being_dropped() {
    let bench = Bench::new();
    let mut journal = bench.journal(&[note("one")]);
    assert!(!journal.is_synced());
    drop(journal.sync());
    assert!(!journal.is_synced(), "a future that never ran has synced nothing");
    journal.sync().await.unwrap();
    assert!(journal.is_synced());
    assert!(journal.start_sync().unwrap().is_none());

    journal.append(&note("two")).unwrap();
    let flush = journal.start_sync().unwrap().unwrap();
    journal.append(&note("three")).unwrap();
    journal.write().unwrap();
    journal.finish_sync(flush.run().await).unwrap();
    assert!(!journal.is_synced(), "the third came after the flush began");
    journal.sync().await.unwrap();
    assert!(journal.is_synced());
}

#[test]
fn a_failed_write_poisons_the_journal_and_names_the_file() {
    let bench = Bench::new();
    let mut journal = bench.journal(&[note("one")]);
    journal.break_for_test(std::fs::File::open(&bench.paths.journal).unwrap());
    journal.append(&note("two")).unwrap();
    let fault = journal.write().unwrap_err();
    assert!(matches!(fault, StoreError::Io { action: "write", .. }), "{fault}");
    let told = EngineError::from(fault);
    assert_eq!(told.data().unwrap().kind.as_str(), "storage-failed");
    assert_eq!(told.data().unwrap().file.as_deref(), bench.paths.journal.to_str());
    for fault in [journal.append(&note("three")).unwrap_err(), journal.write().unwrap_err()] {
        assert!(matches!(fault, StoreError::Poisoned { .. }), "{fault}");
    }
    assert_eq!(read_entries::<Event>(&bench.paths, &bench.id, None).unwrap().entries.len(), 1);
}

#[test]
fn a_reader_during_writes_never_sees_half_an_entry() {
    let bench = Bench::new();
    let mut journal = bench.journal(&[]);
    let done = AtomicBool::new(false);
    let (rounds, batch) = (400, 5);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                for index in 0..batch {
                    journal.append(&note(&"x".repeat((round * 37 + index * 911) % 9000))).unwrap();
                }
                journal.write().unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut position = None;
        let mut seen = 0;
        loop {
            let last = done.load(Ordering::SeqCst);
            let loaded = read_entries::<Event>(&bench.paths, &bench.id, position.take()).unwrap();
            for entry in &loaded.entries {
                seen += 1;
                assert_eq!(entry.seq, seen);
            }
            position = Some(loaded.position);
            if last {
                break;
            }
        }
        assert_eq!(seen, (rounds * batch) as u64);
    });
    assert_eq!(verify::<Event>(&bench.paths, &bench.id).unwrap().problems, []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_prefix_of_a_journal_loads_to_the_events_whole_in_it(
        events in prop::collection::vec(any_event(), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let bench = Bench::new();
        drop(bench.journal(&events));
        let whole = std::fs::read(&bench.paths.journal).unwrap();
        let end = cut.index(whole.len() + 1);
        std::fs::write(&bench.paths.journal, &whole[..end]).unwrap();
        let kept = whole[..end].iter().filter(|byte| **byte == b'\n').count();
        let boundary = whole[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let torn = (boundary < end)
            .then_some(TornTail { offset: boundary as u64, bytes: (end - boundary) as u64 });

        let reader = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap();
        prop_assert_eq!(reader.torn, torn);
        prop_assert_eq!(std::fs::read(&bench.paths.journal).unwrap().len(), end, "a reader changes nothing");
        let found = verify::<Event>(&bench.paths, &bench.id).unwrap();
        prop_assert_eq!(found.problems.iter().map(|problem| problem.code.as_str()).collect::<Vec<_>>(),
            if torn.is_some() { vec!["torn-tail"] } else { vec![] });

        let (mut journal, loaded) = Journal::<Event>::open(&bench.paths, &bench.id, None).unwrap();
        prop_assert_eq!(&loaded, &reader);
        prop_assert_eq!(loaded.entries.iter().map(|entry| &entry.event).collect::<Vec<_>>(),
            events[..kept].iter().collect::<Vec<_>>());
        prop_assert_eq!(std::fs::read(&bench.paths.journal).unwrap(), &whole[..boundary]);
        journal.append(&Event::Done).unwrap();
        journal.write().unwrap();
        prop_assert_eq!(verify::<Event>(&bench.paths, &bench.id).unwrap().problems, vec![]);
    }
}

/// `cargo test --release -p flowdrive-engine -- --ignored measure_a_long_journal --nocapture`
#[test]
#[ignore = "a measurement, not a check"]
fn measure_a_long_journal() {
    let bench = Bench::new();
    let mut journal = Journal::<Event>::create(&bench.paths, &bench.id).unwrap();
    let event = note(&"a line of some length ".repeat(12));
    let began = Instant::now();
    for round in 0..40_000 {
        journal.append(&event).unwrap();
        if round % 32 == 0 {
            journal.write().unwrap();
        }
    }
    journal.write().unwrap();
    println!("append and write 40,000 lines, {} bytes: {:?}", journal.position().offset, began.elapsed());
    for _ in 0..5 {
        let began = Instant::now();
        let loaded = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap();
        println!("load {} entries: {:?}", loaded.entries.len(), began.elapsed());
    }
    let began = Instant::now();
    let found = verify::<Event>(&bench.paths, &bench.id).unwrap();
    println!("verify {} lines: {:?}", found.events, began.elapsed());
}
