use std::path::Path;
use std::process::{Command, Output};

use super::{Bench, Event, note};

/// The script that ships with the examples.
fn verify_run(bench: &Bench) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/verify_run.py");
    assert!(script.is_file(), "{}", script.display());
    match Command::new("python3").arg(script).arg(&bench.paths.dir).output() {
        Ok(output) => Some(output),
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: there is no python3 here");
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn a_stranger_can_verify_a_run_with_the_script_in_the_examples() {
    let bench = Bench::new();
    let trap = "\",\"hash\":\"sha256:\",\"prev\":\"\" \u{1F600} ä \u{2028} \u{85} \r\n";
    let events = [note(trap), Event::Many { items: vec![None, Some(i64::MIN)] }, note("three")];
    let journal = bench.journal(&events);
    let Some(good) = verify_run(&bench) else { return };
    let said = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(good.status.success(), "{said}{}", String::from_utf8_lossy(&good.stderr));
    assert!(said.contains("3 events") && said.contains(&journal.position().head), "{said}");

    let text = std::fs::read_to_string(&bench.paths.journal).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let cases = [
        (text.replace("three", "THREE"), ":3:"),
        ([lines[0], lines[2]].concat(), ":2:"),
        ([lines[1], lines[2]].concat(), ":1:"),
        (text.trim_end().to_owned(), ":3:"),
        ([lines[0], "{}\n", lines[2]].concat(), ":2:"),
    ];
    for (changed, place) in cases {
        std::fs::write(&bench.paths.journal, changed).unwrap();
        let bad = verify_run(&bench).unwrap();
        let said = String::from_utf8_lossy(&bad.stdout).into_owned();
        assert_eq!(bad.status.code(), Some(1), "{place} {said}{}", String::from_utf8_lossy(&bad.stderr));
        assert!(said.contains(place), "{place} not in {said}");
    }
}
