use proptest::prelude::*;

use super::{Bench, Event, any_event, note};
use crate::store::canonical;
use crate::store::{Journal, StoreError, read_entries, verify};

fn line_at_fault(fault: &StoreError) -> Option<u64> {
    match fault {
        StoreError::Corrupt { line, .. } | StoreError::Unsupported { line, .. } => *line,
        other => panic!("unexpected: {other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_is_refused_and_reported_with_its_line(
        events in prop::collection::vec(any_event(), 1..6),
        place in any::<prop::sample::Index>(),
        change in 1_u8..=255,
    ) {
        let bench = Bench::new();
        drop(bench.journal(&events));
        let mut bytes = std::fs::read(&bench.paths.journal).unwrap();
        // The last byte is the line feed that makes the last line whole: without it that is a torn tail.
        let place = place.index(bytes.len() - 1);
        let line = 1 + bytes[..place].iter().filter(|byte| **byte == b'\n').count() as u64;
        bytes[place] ^= change;
        std::fs::write(&bench.paths.journal, &bytes).unwrap();

        let fault = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err();
        prop_assert_eq!(line_at_fault(&fault), Some(line), "{}", fault);
        let fault = Journal::<Event>::open(&bench.paths, &bench.id, None).unwrap_err();
        prop_assert_eq!(line_at_fault(&fault), Some(line));
        prop_assert_eq!(&std::fs::read(&bench.paths.journal).unwrap(), &bytes, "a refused journal is left as it is");
        let found = verify::<Event>(&bench.paths, &bench.id).unwrap();
        prop_assert_eq!(found.problems[0].line, Some(line));
    }
}

fn lines(bench: &Bench) -> Vec<String> {
    std::fs::read_to_string(&bench.paths.journal).unwrap().lines().map(str::to_owned).collect()
}

fn codes(bench: &Bench, lines: &[String]) -> Vec<(String, u64)> {
    std::fs::write(&bench.paths.journal, lines.join("\n") + "\n").unwrap();
    let found = verify::<Event>(&bench.paths, &bench.id).unwrap();
    assert_eq!(found.events, lines.len() as u64);
    found.problems.into_iter().map(|problem| (problem.code, problem.line.unwrap())).collect()
}

/// A line as somebody would forge it: changed, and hashed anew.
fn rehashed(line: &str, change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
    change(&mut value);
    value.as_object_mut().unwrap().remove("hash");
    value["hash"] = canonical::sha256_hex(canonical::to_string(&value).unwrap()).into();
    canonical::to_string(&value).unwrap()
}

#[test]
fn verify_names_each_kind_of_problem_and_goes_on() {
    let bench = Bench::new();
    drop(bench.journal(&[note("one"), note("two"), note("three"), note("four")]));
    let good = lines(&bench);
    let found = |code: &str, line: u64| (code.to_owned(), line);
    assert_eq!(codes(&bench, &good), []);

    let mut changed = good.clone();
    changed[1] = changed[1].replace("two", "TWO");
    assert_eq!(codes(&bench, &changed), [found("hash-mismatch", 2)]);

    let mut forged = good.clone();
    forged[1] = rehashed(&forged[1], |line| line["event"]["text"] = "TWO".into());
    assert_eq!(codes(&bench, &forged), [found("chain-broken", 3)]);

    let mut dropped = good.clone();
    dropped.remove(1);
    assert_eq!(codes(&bench, &dropped), [found("seq-gap", 2), found("chain-broken", 2)]);

    let mut swapped = good.clone();
    swapped.swap(1, 2);
    assert_eq!(codes(&bench, &swapped).len(), 6);

    let mut garbage = good.clone();
    garbage[1] = "not an entry".into();
    garbage[2] = garbage[2].replace("three", "THREE");
    assert_eq!(codes(&bench, &garbage), [found("unparseable-line", 2), found("hash-mismatch", 3)]);

    let mut newer = good.clone();
    newer[3] = newer[3].replace("\"v\":1}", "\"v\":2}");
    assert_eq!(codes(&bench, &newer), [found("hash-mismatch", 4)], "changed, not of another version");
    newer[3] = rehashed(&good[3], |line| line["v"] = 2.into());
    assert_eq!(codes(&bench, &newer), [found("wrong-version", 4)]);
    newer[3] = r#"{"seq":4,"shape":"another","v":2}"#.into();
    assert_eq!(codes(&bench, &newer), [found("wrong-version", 4)]);

    let mut renumbered = good.clone();
    renumbered[3] = rehashed(&renumbered[3], |line| line["seq"] = 9.into());
    assert_eq!(codes(&bench, &renumbered), [found("seq-gap", 4)]);
    let fault = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err();
    assert_eq!(line_at_fault(&fault), Some(4), "{fault}");

    let mut odd = good;
    odd[3] = rehash_text(&odd[3].replace("\"count\":7,", "\"count\": 7,"));
    assert_eq!(codes(&bench, &odd), [found("not-canonical", 4)]);
}

/// Gives a line that is not canonical the hash its bytes have.
fn rehash_text(line: &str) -> String {
    let start = line.rfind("\"hash\":").unwrap();
    let end = start + line[start..].find(',').unwrap() + 1;
    let hash = canonical::sha256_hex([&line[..start], &line[end..]].concat());
    format!("{}\"hash\":\"{hash}\",{}", &line[..start], &line[end..])
}

#[test]
fn a_line_of_a_newer_version_is_unsupported_not_corrupt() {
    let bench = Bench::new();
    drop(bench.journal(&[note("one"), note("two")]));
    let mut newer = lines(&bench);
    let changed = newer[1].replace("\"v\":1}", "\"v\":2}");
    let forms = [rehashed(&newer[1], |line| line["v"] = 2.into()), r#"{"seq":2,"shape":"another","v":2}"#.into()];
    for form in forms {
        newer[1] = form;
        std::fs::write(&bench.paths.journal, newer.join("\n") + "\n").unwrap();
        let fault = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err();
        assert!(matches!(fault, StoreError::Unsupported { line: Some(2), .. }), "{fault}");
    }
    newer[1] = changed;
    std::fs::write(&bench.paths.journal, newer.join("\n") + "\n").unwrap();
    let fault = read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err();
    assert!(matches!(fault, StoreError::Corrupt { line: Some(2), .. }), "{fault}");
}

#[cfg(unix)]
#[test]
fn a_journal_that_is_a_link_or_a_pipe_is_refused_without_waiting() {
    let bench = Bench::new();
    drop(bench.journal(&[note("one")]));
    let real = bench.dir.path().join("elsewhere.jsonl");
    std::fs::rename(&bench.paths.journal, &real).unwrap();
    std::os::unix::fs::symlink(&real, &bench.paths.journal).unwrap();
    assert!(read_entries::<Event>(&bench.paths, &bench.id, None).is_err());
    assert!(bench.workspace.existing_run(&bench.id).is_err());
    std::fs::remove_file(&bench.paths.journal).unwrap();
    nix::unistd::mkfifo(&bench.paths.journal, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(read_entries::<Event>(&bench.paths, &bench.id, None).is_err());
    assert!(Journal::<Event>::open(&bench.paths, &bench.id, None).is_err());
}
