//! A run's record: what is recorded is what is read, by its writer, by readers, with and without the snapshot.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use flowdrive_engine::model::journal::{DriveSettings, JournalEvent, RunPlanned, STATE_VERSION};
use flowdrive_engine::record::{Record, read_state, replay};
use flowdrive_engine::store::{RunLock, RunPaths, Workspace};
use flowdrive_protocol::event::EventKind;
use flowdrive_protocol::ids::{AgentName, RunId, TaskId, WorkerId};
use flowdrive_protocol::run::StopMode;
use serde_json::json;

fn plan(id: &RunId, tasks: usize) -> RunPlanned {
    let tasks: Vec<_> = (0..tasks).map(|n| json!({ "id": format!("t{n}"), "prompt": "p" })).collect();
    RunPlanned {
        schema_version: STATE_VERSION,
        run_id: id.clone(),
        workflow: serde_json::from_value(json!({ "schemaVersion": 1, "id": "w", "title": "W",
            "phases": [{ "id": "p", "mode": "parallel", "tasks": tasks }] }))
        .unwrap(),
        workflow_source: "inline".into(),
        inputs: BTreeMap::new(),
        workspace: "/w".into(),
    }
}

struct Fixture {
    _folder: tempfile::TempDir,
    id: RunId,
    paths: RunPaths,
    _lock: RunLock,
    record: Record,
}

fn fixture(tasks: usize) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    let id = RunId::new("run-1").unwrap();
    let paths = workspace.create_run(&id).unwrap();
    let lock = RunLock::acquire(&paths).unwrap();
    let record = Record::create(paths.clone(), plan(&id, tasks)).unwrap();
    Fixture { _folder: folder, id, paths, _lock: lock, record }
}

fn started() -> JournalEvent {
    JournalEvent::DriveStarted {
        pid: 1,
        host: "h".into(),
        settings: DriveSettings {
            agent: AgentName::new("a").unwrap(),
            agent_named: false,
            concurrency: None,
            once: false,
            incremental: false,
            max_attempts: NonZeroU32::new(3).unwrap(),
            token_budget: None,
            allow_unattested: false,
        },
        resumed: false,
    }
}

fn dispatched(n: usize) -> JournalEvent {
    JournalEvent::TaskDispatched {
        task: TaskId::new(format!("t{n}")).unwrap(),
        worker: WorkerId::new(format!("worker-t{n}-0001")).unwrap(),
        agent: AgentName::new("a").unwrap(),
        attempt: 1,
        prompt_digest: String::new(),
        marker: None,
        cache: None,
    }
}

#[test]
fn events_are_told_once_synced_and_read_back_with_the_same_numbers() {
    let mut f = fixture(3);
    f.record.record(&started()).unwrap();
    f.record.record(&dispatched(0)).unwrap();
    f.record.record(&JournalEvent::StopRequested { mode: StopMode::Graceful, by: "client".into() }).unwrap();
    let told = f.record.sync().unwrap();
    assert_eq!(told.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(f.record.sync().unwrap().is_empty());

    let (all, more) = replay(&f.paths, &f.id, 0, 100).unwrap();
    assert_eq!((all, more), (told.clone(), false));
    let (rest, more) = replay(&f.paths, &f.id, 1, 1).unwrap();
    assert_eq!((rest, more), (vec![told[1].clone()], true));
    assert_eq!(told[2].event.kind(), EventKind::StopRequested);
}

#[test]
fn the_state_is_the_same_from_the_journal_from_the_snapshot_and_in_between() {
    let mut f = fixture(3);
    f.record.record(&started()).unwrap();
    f.record.record(&dispatched(0)).unwrap();
    f.record.sync().unwrap();
    let early = read_state(&f.paths, &f.id).unwrap();
    assert_eq!(early, *f.record.state());

    f.record.save_snapshot().unwrap();
    assert_eq!(read_state(&f.paths, &f.id).unwrap(), early);
    f.record.record(&dispatched(2)).unwrap();
    f.record.sync().unwrap();
    let late = read_state(&f.paths, &f.id).unwrap();
    assert_eq!(late, *f.record.state());
    assert_ne!(late, early);

    // A snapshot is only a shortcut: lost, damaged or another journal's, the state is the same.
    let snapshot = std::fs::read(&f.paths.state).unwrap();
    for content in [None, Some(b"{ not json".to_vec()), Some(snapshot[..snapshot.len() / 2].to_vec())] {
        match content {
            Some(bytes) => std::fs::write(&f.paths.state, bytes).unwrap(),
            None => std::fs::remove_file(&f.paths.state).unwrap(),
        }
        assert_eq!(read_state(&f.paths, &f.id).unwrap(), late);
    }
    let text = String::from_utf8(snapshot).unwrap().replacen("\"offset\":", "\"offset\":9", 1);
    std::fs::write(&f.paths.state, text).unwrap();
    assert_eq!(read_state(&f.paths, &f.id).unwrap(), late);
}

#[test]
fn an_event_that_does_not_follow_is_refused_and_leaves_no_trace() {
    let mut f = fixture(2);
    f.record.record(&started()).unwrap();
    f.record.record(&dispatched(0)).unwrap();
    let before = f.record.state().clone();
    assert!(f.record.record(&dispatched(0)).is_err());
    assert_eq!(*f.record.state(), before);
    f.record.sync().unwrap();
    assert_eq!(read_state(&f.paths, &f.id).unwrap(), before);
}

#[test]
fn a_journal_that_names_another_run_is_refused() {
    let mut f = fixture(1);
    f.record.sync().unwrap();
    let other = RunId::new("run-2").unwrap();
    assert!(read_state(&f.paths, &other).is_err());
}

#[test]
fn a_journal_that_lost_whole_lines_its_snapshot_had_is_not_gone_on_with() {
    let mut f = fixture(2);
    f.record.record(&started()).unwrap();
    f.record.sync().unwrap();
    let early = std::fs::read(&f.paths.journal).unwrap();
    f.record.record(&dispatched(0)).unwrap();
    f.record.sync().unwrap();
    f.record.save_snapshot().unwrap();
    assert!(Record::open(f.paths.clone(), &f.id).is_ok());
    std::fs::write(&f.paths.journal, early).unwrap();
    assert!(Record::open(f.paths.clone(), &f.id).is_err());
    std::fs::remove_file(&f.paths.state).unwrap();
    assert!(Record::open(f.paths.clone(), &f.id).is_ok(), "without the snapshot nobody can tell");
}
