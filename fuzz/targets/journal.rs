//! A run's journal as it lies on the disk. Where the first byte is even, the rest is the file, and what is read of it must be
//! what was once written: hashes hold it together. Where it is odd, the rest are events, one a line, which are folded: an
//! event that does not fit is refused and leaves the state as it was.
#![no_main]

use std::sync::OnceLock;

use flowdrive_engine::model::journal::JournalEvent;
use flowdrive_engine::model::state::RunState;
use flowdrive_engine::store::{RunPaths, StoreError, Workspace, read_entries, verify};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::time::Timestamp;
use libfuzzer_sys::fuzz_target;

/// The planning of a run, the first event of every journal.
const PLANNED: &str = include_str!("../planned.json");

fn run() -> RunId {
    RunId::new("kept-run").expect("it is one")
}

fn paths() -> &'static RunPaths {
    static PATHS: OnceLock<RunPaths> = OnceLock::new();
    PATHS.get_or_init(|| {
        let memory = std::path::PathBuf::from("/dev/shm");
        let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = place.join(format!("flowdrive-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        Workspace::open(&folder).and_then(|workspace| workspace.create_run(&run())).expect("a run can be made")
    })
}

fn read(bytes: &[u8]) {
    std::fs::write(&paths().journal, bytes).expect("a file can be written");
    match read_entries::<JournalEvent>(paths(), &run(), None) {
        Ok(loaded) => {
            let numbers: Vec<u64> = loaded.entries.iter().map(|entry| entry.seq).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        }
        Err(StoreError::Corrupt { .. } | StoreError::Unsupported { .. } | StoreError::RunNotFound { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    // The check says all that it finds, and finds an end.
    verify::<JournalEvent>(paths(), &run()).expect("a file that can be read can be checked");
}

fn fold(text: &str) {
    let Ok(JournalEvent::RunPlanned(plan)) = serde_json::from_str(PLANNED) else { panic!("planned.json is no plan") };
    let at = Timestamp::from_millis(0);
    let mut state = RunState::planned_at(*plan, at).expect("the plan is whole");
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<JournalEvent>(line) else { continue };
        let before = serde_json::to_string(&state).expect("a state is JSON");
        if state.apply(&event, at).is_err() {
            assert_eq!(serde_json::to_string(&state).expect("a state is JSON"), before, "after {line}");
        }
        let _ = (state.status(), state.open_feedback(), state.tokens_spent(), state.completed());
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    if first % 2 == 0 {
        read(rest);
    } else if let Ok(text) = std::str::from_utf8(rest) {
        fold(text);
    }
});
