//! Tests of the store as its callers use it. Those that need another process run this test binary again.

mod canonical;
mod ended;
#[cfg(all(feature = "fault-injection", unix))]
mod faults;
mod files;
#[cfg(unix)]
mod interference;
mod journal;
mod journal_damage;
mod lock;
mod names;
mod python;
mod snapshot;
mod upgrade;
mod worker;
mod workspace;

use std::path::Path;
use std::process::{Command, Stdio};

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::time::Timestamp;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Journal, Recorded, RunPaths, Workspace};

/// Stands in for the drive's events: the store does not know those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Event {
    Note { text: String, weight: f64, count: u64 },
    Many { items: Vec<Option<i64>> },
    Done,
}

impl Recorded for Event {
    const VERSION: u32 = 1;

    fn upgrade(from: u32, _: serde_json::Value) -> Result<serde_json::Value, String> {
        Err(format!("there was no version {from}"))
    }
}

pub(super) fn note(text: &str) -> Event {
    Event::Note { text: text.to_owned(), weight: 0.5, count: 7 }
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let float = prop_oneof![Just(0.0), Just(1e300), Just(-2.5e-9), -1e6..1e6];
    prop_oneof![
        (".{0,40}", float, any::<u64>()).prop_map(|(text, weight, count)| Event::Note { text, weight, count }),
        prop::collection::vec(any::<Option<i64>>(), 0..6).prop_map(|items| Event::Many { items }),
        Just(Event::Done),
    ]
}

pub(super) fn run_id(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

/// A run's folder in a workspace of its own.
pub(super) struct Bench {
    pub(super) dir: tempfile::TempDir,
    pub(super) workspace: Workspace,
    pub(super) id: RunId,
    pub(super) paths: RunPaths,
}

impl Bench {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let id = run_id("run-1");
        let paths = workspace.create_run(&id).unwrap();
        Self { dir, workspace, id, paths }
    }

    pub(super) fn journal(&self, events: &[Event]) -> Journal<Event> {
        let mut journal = Journal::create(&self.paths, &self.id).unwrap();
        for (index, event) in events.iter().enumerate() {
            let at = Timestamp::from_millis(1_767_323_045_678 + i64::try_from(index).unwrap());
            journal.append_at(event, at).unwrap();
        }
        journal.write().unwrap();
        journal
    }
}

/// This test binary again, running one ignored test with a folder to work in.
pub(super) fn again(test: &str, workspace: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("store::tests::{test}"), "--ignored", "--nocapture", "--test-threads=1"])
        .env("FLOWDRIVE_TEST_WORKSPACE", workspace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Where a process started by [`again`] works.
pub(super) fn given_run() -> Option<(RunId, RunPaths)> {
    let dir = std::env::var_os("FLOWDRIVE_TEST_WORKSPACE")?;
    let id = run_id("run-1");
    let paths = Workspace::open(Path::new(&dir)).unwrap().run(&id);
    Some((id, paths))
}
