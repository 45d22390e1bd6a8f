use std::io::Write;

use flowdrive_protocol::ids::WorkerId;
use serde_json::{Value, json};

use super::Bench;
use crate::store::{EndedLog, read_ended};

fn worker(number: u32) -> WorkerId {
    WorkerId::new(format!("worker-a-{number:04}")).unwrap()
}

#[test]
fn what_was_noted_is_read_and_what_is_not_whole_is_no_note() {
    let bench = Bench::new();
    assert!(read_ended::<Value>(&bench.paths).is_empty());
    let log = EndedLog::of(&bench.paths);
    assert!(!bench.paths.ended.exists(), "nothing is made before the first note");
    for number in 1..4 {
        log.note(&worker(number), &json!({ "text": format!("a\nb {number}") })).unwrap();
    }
    // A later drive goes on behind what a crash left.
    EndedLog::of(&bench.paths).note(&worker(1), &json!({ "text": "newer" })).unwrap();
    let whole = std::fs::read(&bench.paths.ended).unwrap();
    let found = read_ended::<Value>(&bench.paths);
    assert_eq!(found.len(), 3);
    assert_eq!((&found[&worker(1)]["text"], &found[&worker(3)]["text"]), (&json!("newer"), &json!("a\nb 3")));

    for cut in 0..whole.len() {
        std::fs::write(&bench.paths.ended, &whole[..cut]).unwrap();
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let found = read_ended::<Value>(&bench.paths);
        // A line that lacks only its line feed is whole: its digest says so.
        let wholes = lines + usize::from(whole[cut] == b'\n');
        assert_eq!(found.len(), wholes.min(3), "cut at {cut}");
    }
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 1;
        std::fs::write(&bench.paths.ended, &changed).unwrap();
        let found = read_ended::<Value>(&bench.paths);
        let told = |worker: &WorkerId, note: &Value| {
            *note == json!({ "text": "newer" }) || note["text"] == format!("a\nb {}", &worker.as_str()[12..])
        };
        assert!(found.iter().all(|(worker, note)| told(worker, note)), "a changed note was believed: {found:?}");
    }
    std::fs::write(&bench.paths.ended, [0; 5000]).unwrap();
    assert!(read_ended::<Value>(&bench.paths).is_empty());
}

#[test]
fn notes_go_when_the_journal_has_them_all_and_never_before() {
    let bench = Bench::new();
    let log = EndedLog::of(&bench.paths);
    let long = json!({ "text": "x".repeat(200_000) });
    for number in 1..4 {
        log.note(&worker(number), &long).unwrap();
    }
    log.recorded(2);
    assert_eq!(read_ended::<Value>(&bench.paths).len(), 3, "one is not recorded yet");
    log.recorded(1);
    assert!(read_ended::<Value>(&bench.paths).is_empty());
    log.note(&worker(4), &json!("small")).unwrap();
    log.recorded(1);
    assert_eq!(read_ended::<Value>(&bench.paths).len(), 1, "a few bytes are not worth a call to the disk");
    log.clear();
    assert!(!bench.paths.ended.exists());
    log.note(&worker(5), &json!(5)).unwrap();
    assert_eq!(read_ended::<Value>(&bench.paths)[&worker(5)], json!(5));
}

#[cfg(unix)]
#[test]
fn a_link_or_a_folder_in_its_place_is_never_written_through() {
    let bench = Bench::new();
    let outside = bench.dir.path().join("outside");
    std::fs::File::create(&outside).unwrap().write_all(b"theirs").unwrap();
    std::os::unix::fs::symlink(&outside, &bench.paths.ended).unwrap();
    assert!(EndedLog::of(&bench.paths).note(&worker(1), &json!(1)).is_err());
    assert!(read_ended::<Value>(&bench.paths).is_empty());
    assert_eq!(std::fs::read(&outside).unwrap(), b"theirs");
    std::fs::remove_file(&bench.paths.ended).unwrap();
    std::fs::create_dir(&bench.paths.ended).unwrap();
    assert!(EndedLog::of(&bench.paths).note(&worker(1), &json!(1)).is_err());
    assert!(read_ended::<Value>(&bench.paths).is_empty());
}
