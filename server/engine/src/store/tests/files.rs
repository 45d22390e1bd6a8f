use flowdrive_protocol::run::StopMode::{Graceful, Now};

use super::Bench;
use crate::store::stop::{clear_stop, request_stop, take_stop};

#[test]
fn a_stop_request_is_taken_once_and_never_weakened() {
    let bench = Bench::new();
    assert_eq!(take_stop(&bench.paths), None);
    for (asked, taken) in [
        (vec![Graceful], Graceful),
        (vec![Now], Now),
        (vec![Graceful, Now], Now),
        (vec![Now, Graceful], Now),
        (vec![Graceful, Graceful], Graceful),
    ] {
        for mode in &asked {
            request_stop(&bench.paths, *mode).unwrap();
        }
        assert_eq!(take_stop(&bench.paths), Some(taken), "{asked:?}");
        assert_eq!(take_stop(&bench.paths), None);
    }
    assert_eq!(std::fs::read_dir(&bench.paths.dir).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn a_request_from_before_can_be_cleared_and_one_made_by_hand_is_graceful() {
    let bench = Bench::new();
    clear_stop(&bench.paths).unwrap();
    request_stop(&bench.paths, Now).unwrap();
    clear_stop(&bench.paths).unwrap();
    assert_eq!(take_stop(&bench.paths), None);
    for text in ["", "stop!", "{\"mode\":\"later\"}"] {
        std::fs::write(&bench.paths.stop_request, text).unwrap();
        assert_eq!(take_stop(&bench.paths), Some(Graceful), "{text:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_planted_as_a_request_is_not_followed() {
    let bench = Bench::new();
    let outside = bench.dir.path().join("precious");
    std::fs::write(&outside, "{\"mode\":\"now\",\"pid\":1,\"at\":\"2026-01-02T03:04:05.678Z\"}").unwrap();
    std::os::unix::fs::symlink(&outside, &bench.paths.stop_request).unwrap();
    assert_eq!(take_stop(&bench.paths), None, "a link is nobody's request, and what it leads to is not read");
    assert!(outside.exists());
}
