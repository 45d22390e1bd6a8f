use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::Bench;
use crate::store::{StoreError, snapshot};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct State {
    number: u64,
    filler: String,
}

fn state(number: u64) -> State {
    State { number, filler: format!("{number} ").repeat(3000) }
}

#[test]
fn what_is_saved_loads_and_what_cannot_be_read_is_none() {
    let bench = Bench::new();
    let path = &bench.paths.state;
    assert_eq!(snapshot::load::<State>(path), None);
    for durable in [true, false] {
        snapshot::save(path, &state(u64::from(durable)), durable).unwrap();
        assert_eq!(snapshot::load::<State>(path), Some(state(u64::from(durable))));
    }
    let whole = std::fs::read(path).unwrap();
    assert!(whole.starts_with(b"{\"schemaVersion\":1,\"state\":{"));
    for broken in [
        &b""[..],
        b"null",
        b"{}",
        &whole[..whole.len() / 2],
        b"\xff\xfe",
        b"{\"schemaVersion\":1,\"state\":{}}",
        b"{\"schemaVersion\":0,\"state\":{\"number\":1,\"filler\":\"\"}}",
    ] {
        std::fs::write(path, broken).unwrap();
        assert_eq!(snapshot::load::<State>(path), None, "{}", String::from_utf8_lossy(broken));
    }
    for at in (0..whole.len()).step_by(97) {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        std::fs::write(path, &flipped).unwrap();
        assert_eq!(snapshot::load::<State>(path), None, "byte {at}");
    }
    std::fs::write(path, &whole).unwrap();
    assert_eq!(snapshot::load::<State>(path), Some(state(0)));
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(path).unwrap();
    assert_eq!(snapshot::load::<State>(path), None);
}

#[test]
fn one_of_another_version_is_none_whether_it_parses_or_not() {
    let bench = Bench::new();
    let path = &bench.paths.state;
    for other in [
        r#"{"schemaVersion":2,"state":{"number":1,"filler":"","later":true}}"#,
        r#"{"shape":"unknown","schemaVersion":99}"#,
        r#"{"schemaVersion":0,"state":{"number":1,"filler":""}}"#,
    ] {
        std::fs::write(path, other).unwrap();
        assert_eq!(snapshot::load::<State>(path), None, "{other}");
    }
}

#[cfg(unix)]
#[test]
fn the_file_is_the_users_own_and_nothing_is_left_beside_it() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    snapshot::save(&bench.paths.state, &state(1), true).unwrap();
    assert_eq!(std::fs::metadata(&bench.paths.state).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(&bench.paths.dir).unwrap().count(), 1);
    let unwritable = bench.paths.dir.join("missing").join("state.json");
    assert!(matches!(snapshot::save(&unwritable, &state(1), true), Err(StoreError::Io { .. })));
}

#[test]
fn a_reader_sees_one_whole_state_or_another() {
    let bench = Bench::new();
    let path = &bench.paths.state;
    snapshot::save(path, &state(0), false).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..300 {
                snapshot::save(path, &state(number), false).unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut last = 0;
        loop {
            let ended = done.load(Ordering::SeqCst);
            let found = snapshot::load::<State>(path).unwrap();
            assert_eq!(found, state(found.number));
            assert!(found.number >= last);
            last = found.number;
            if ended {
                break;
            }
        }
        assert_eq!(last, 299);
    });
}
