//! What an agent delivers: the result block, the plain report on its standard output, and every locator in them. Reading twice
//! gives the same, and judging asks for no file that lies outside the workspace.
#![no_main]

use flowdrive_engine::accept::report::parse_plain;
use flowdrive_engine::accept::{FileLookup, Files, Presence, Requirements, evidence, judge, parse};
use flowdrive_protocol::ids::TaskId;
use libfuzzer_sys::fuzz_target;

/// A workspace with one file in it.
struct Desk;

fn inside(path: &str) {
    let leaves = path.starts_with('/') || path.split('/').any(|part| part == "..");
    assert!(!leaves, "{path:?} was looked for");
}

impl Files for Desk {
    fn read(&self, path: &str) -> FileLookup {
        inside(path);
        if path == "src/lib.rs" { FileLookup::Text("fn a() {}\n\nfn b() {}\n".to_owned()) } else { FileLookup::Missing }
    }
    fn presence(&self, path: &str) -> Presence {
        inside(path);
        if path == "src/lib.rs" { Presence::File } else { Presence::Missing }
    }
}

fuzz_target!(|text: &str| {
    drop(parse_plain(text));
    text.lines().for_each(|line| drop(evidence::classify(line)));
    let Ok(result) = parse::parse(text) else { return };
    assert_eq!(format!("{result:?}"), format!("{:?}", parse::parse(text).expect("the same text means the same")));
    let task = TaskId::new("verify:all").expect("it is one");
    let (artifacts, roots) = ([String::from("notes.md")], [String::from("/work/space")]);
    let required = Requirements {
        task_id: &task,
        requires_evidence: true,
        reviews_repo: true,
        artifacts: &artifacts,
        roots: &roots,
        worker_dir: Some(".cw/runs/r/workers/w"),
    };
    if let Err(refusal) = judge(&required, &result, &Desk) {
        assert!(!refusal.message.is_empty(), "{refusal:?}");
    }
});
