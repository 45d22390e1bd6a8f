//! Wherever a journal ends, between two events or inside one, what is whole in it is a state that a drive can go on from,
//! to an end. And a byte that is another is found by whoever would go on, with its line.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod simulation;

use std::collections::BTreeMap;
use std::fs;

use flowdrive_engine::decide::next::{Availability, End, Next};
use flowdrive_engine::model::journal::{DriveSettings, JournalEvent, RunPlanned};
use flowdrive_engine::model::state::{RunState, Verdict};
use flowdrive_engine::record::{Record, read_state};
use flowdrive_engine::store::{RunPaths, StoreError, Workspace, verify};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::run::RunStatus;
use proptest::prelude::*;
use serde_json::json;

use simulation::{Fate, GOOD, Sim};

/// A run with two phases, the first of which loops; its journal on the disk, and what was written.
struct Written {
    _folder: tempfile::TempDir,
    id: RunId,
    paths: RunPaths,
    bytes: Vec<u8>,
    events: Vec<JournalEvent>,
}

fn workflow() -> serde_json::Value {
    json!({ "schemaVersion": 1, "id": "w", "title": "t", "phases": [
        { "id": "hunt", "mode": "parallel", "loop": { "maxRounds": 3, "until": { "findingsBelow": "P2" } },
          "tasks": [{ "id": "hunt:a", "prompt": "p" }, { "id": "hunt:b", "prompt": "p" }] },
        { "id": "verdict", "tasks": [{ "id": "verdict:a", "prompt": "p" }] }] })
}

fn written(fates: &BTreeMap<(String, usize), u8>, picks: &[usize]) -> Written {
    let mut sim = Sim::new(workflow(), Some(2), false);
    let (settings, mut turn) = (sim.settings.clone(), 0);
    let started = |settings: &DriveSettings, resumed| JournalEvent::DriveStarted {
        pid: 1,
        host: "h".into(),
        settings: settings.clone(),
        resumed,
    };
    sim.apply(&started(&settings, false));
    let fate = |id: &str, number: usize| match fates.get(&(id.to_owned(), number)) {
        Some(0) => Fate::Bad,
        Some(1) => Fate::Passing,
        Some(2) => Fate::Good { findings: 1 },
        _ => GOOD,
    };
    let end = sim.run(
        |_| {
            turn += 1;
            picks[turn % picks.len()]
        },
        fate,
    );
    let status = if end == End::Complete { RunStatus::Complete } else { RunStatus::Parked };
    sim.apply(&JournalEvent::DriveFinished { status, reason: None });

    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let id = sim.state.run_id.clone();
    let paths = workspace.create_run(&id).unwrap();
    let JournalEvent::RunPlanned(plan) = sim.events[0].clone() else { panic!("the plan comes first") };
    let mut record = Record::create(paths.clone(), RunPlanned { ..*plan }).unwrap();
    for event in &sim.events[1..] {
        record.record(event).unwrap();
    }
    record.sync().unwrap();
    drop(record);
    let bytes = fs::read(&paths.journal).unwrap();
    Written { _folder: folder, id, paths, bytes, events: sim.events }
}

/// What the first so many events fold to, by nothing but the fold.
fn folded(events: &[JournalEvent], like: &RunState) -> RunState {
    let JournalEvent::RunPlanned(plan) = events[0].clone() else { panic!("the plan comes first") };
    let mut state = RunState::planned_at(*plan, like.created_at).unwrap();
    for event in &events[1..] {
        state.apply(event, like.updated_at).unwrap();
    }
    state
}

/// The state without times, and without the number of events told, which the bare fold does not count.
fn timeless(state: &RunState) -> serde_json::Value {
    let mut sim = Sim::new(workflow(), None, false);
    sim.state = state.clone();
    sim.state.event_seq = 0;
    sim.timeless()
}

fn fates() -> impl Strategy<Value = BTreeMap<(String, usize), u8>> {
    let task = prop::sample::select(vec!["hunt:a", "hunt:b", "hunt:a@r2", "hunt:b@r2", "verdict:a"]);
    prop::collection::btree_map((task.prop_map(str::to_owned), 1..5usize), 0..4u8, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_prefix_of_a_journal_loads_to_a_valid_state_that_a_drive_ends_from(
        fates in fates(), picks in prop::collection::vec(any::<usize>(), 1..16), cut in any::<prop::sample::Index>(),
    ) {
        let run = written(&fates, &picks);
        let first_line = run.bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let end = first_line + cut.index(run.bytes.len() + 1 - first_line);
        fs::write(&run.paths.journal, &run.bytes[..end]).unwrap();
        let whole = run.bytes[..end].iter().filter(|byte| **byte == b'\n').count();
        let boundary = run.bytes[..end].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;

        let read = read_state(&run.paths, &run.id).unwrap();
        prop_assert_eq!(fs::read(&run.paths.journal).unwrap().len(), end, "a reader changes nothing");
        let record = Record::open(run.paths.clone(), &run.id).unwrap();
        prop_assert_eq!(&*record.state(), &read);
        prop_assert_eq!(fs::read(&run.paths.journal).unwrap().len(), boundary, "a torn line is cut off");
        prop_assert_eq!(timeless(&read), timeless(&folded(&run.events[..whole], &read)));

        // Whoever drives on interrupts what was under way, and comes to an end.
        let mut sim = Sim::new(workflow(), Some(2), false);
        sim.state = read;
        let open: Vec<_> = sim.state.tasks.iter().filter_map(|task| {
            let attempt = task.attempts.last().filter(|attempt| attempt.verdict == Verdict::Open)?;
            Some((task.id.clone(), attempt.worker.clone()))
        }).collect();
        for (task, worker) in open {
            sim.apply(&JournalEvent::TaskInterrupted { task, worker, reason: "the server that ran it ended".into() });
        }
        let next = sim.next(Availability::Free);
        prop_assert!(!matches!(next, Next::Wait { until: None }), "nothing runs, so nothing can be waited for");
        let end = sim.run(|_| 0, |_, _| GOOD);
        prop_assert!(matches!(end, End::Complete | End::Parked), "{:?}", end);
    }

    #[test]
    fn any_changed_byte_keeps_a_drive_from_going_on_and_is_named_by_its_line(
        fates in fates(), place in any::<prop::sample::Index>(), change in 1_u8..=255,
    ) {
        let run = written(&fates, &[0]);
        let place = place.index(run.bytes.len() - 1);
        let line = 1 + run.bytes[..place].iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut changed = run.bytes.clone();
        changed[place] ^= change;
        fs::write(&run.paths.journal, &changed).unwrap();
        let fault = Record::open(run.paths.clone(), &run.id).map(|_| ()).unwrap_err();
        let StoreError::Corrupt { line: found, .. } = &fault else { panic!("called something else: {fault}") };
        prop_assert_eq!(*found, Some(line), "{}", fault);
        let verified = verify::<JournalEvent>(&run.paths, &run.id).unwrap();
        prop_assert_eq!(verified.problems[0].line, Some(line));
        prop_assert_eq!(fs::read(&run.paths.journal).unwrap(), changed, "nothing is mended unasked");
    }
}
