use std::path::Path;

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

#[cfg(unix)]
#[test]
fn what_others_put_in_a_files_place_is_neither_read_nor_written_through() {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use crate::store::{create_anew, read_regular};

    let folder = tempfile::tempdir().unwrap();
    let root = dunce::canonicalize(folder.path()).unwrap();
    let (precious, logs) = (root.join("precious"), root.join("logs"));
    std::fs::write(&precious, "precious").unwrap();
    let pipe = |path: &Path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let log = logs.join("stdout.log");

    // A link, another name for the same bytes, a pipe: the log is made in its place.
    std::fs::create_dir(&logs).unwrap();
    let link = |path: &Path| symlink(&precious, path).unwrap();
    let name = |path: &Path| std::fs::hard_link(&precious, path).unwrap();
    for plant in [&link as &dyn Fn(&Path), &name, &pipe] {
        plant(&log);
        create_anew(&log).unwrap().write_all(b"printed").unwrap();
        assert_eq!(std::fs::read(&log).unwrap(), b"printed");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        std::fs::remove_file(&log).unwrap();
    }
    // A folder that leads elsewhere: nothing is made there.
    let elsewhere = root.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::remove_dir(&logs).unwrap();
    symlink(&elsewhere, &logs).unwrap();
    create_anew(&log).unwrap_err();
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);

    assert_eq!(read_regular(&precious, 8).unwrap(), b"precious");
    assert_eq!(read_regular(&precious, 7).unwrap_err().kind(), std::io::ErrorKind::FileTooLarge);
    let planted = root.join("planted");
    for plant in [&link as &dyn Fn(&Path), &pipe, &|path: &Path| symlink("/dev/zero", path).unwrap()] {
        plant(&planted);
        read_regular(&planted, 1 << 30).unwrap_err();
        std::fs::remove_file(&planted).unwrap();
    }
}
