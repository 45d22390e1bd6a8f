use flowdrive_protocol::ids::{TaskId, WorkerId};
use flowdrive_protocol::time::Timestamp;
use serde_json::json;

use super::Bench;
use crate::model::agent::WorkerFolder;
use crate::model::journal::AcceptedResult;
use crate::store::StoreError;
use crate::store::canonical::sha256_hex;
use crate::store::worker::{Fate, MAX_RESULT_BYTES, ResultCheck, create_worker, publish_result, read_result};

fn worker(text: &str) -> WorkerId {
    WorkerId::new(text).unwrap()
}

fn make(bench: &Bench, id: &str) -> WorkerFolder {
    create_worker(&bench.paths, &worker(id), "do it\n", &json!({"taskId": "a"})).unwrap()
}

#[test]
fn a_folder_has_input_manifest_and_room_for_what_comes() {
    let bench = Bench::new();
    let folder = make(&bench, "map.1");
    assert_eq!(folder, bench.paths.worker(&worker("map.1")));
    assert_eq!(std::fs::read_to_string(&folder.input).unwrap(), "do it\n");
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(&folder.manifest).unwrap()).unwrap()["taskId"],
        "a"
    );
    assert!(folder.artifacts.is_dir() && folder.logs.is_dir());
    assert_eq!(read_result(&folder).unwrap(), None);
}

#[test]
fn making_a_folder_again_leaves_nothing_stale_and_no_other_attempt_touched() {
    let bench = Bench::new();
    let other = make(&bench, "map.1");
    std::fs::write(&other.result, "kept").unwrap();
    let folder = make(&bench, "map.2");
    for path in [&folder.result, &folder.logs.join("stdout.log"), &folder.artifacts.join("a"), &folder.dir.join("x")] {
        std::fs::write(path, "stale").unwrap();
    }
    let again = make(&bench, "map.2");
    assert_eq!(again, folder);
    assert_eq!(read_result(&folder).unwrap(), None);
    let mut names: Vec<_> = std::fs::read_dir(&folder.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["artifacts", "input.md", "logs", "manifest.json"]);
    assert_eq!(
        std::fs::read_dir(&folder.logs).unwrap().count() + std::fs::read_dir(&folder.artifacts).unwrap().count(),
        0
    );
    assert_eq!(read_result(&other).unwrap().as_deref(), Some("kept"));
}

#[cfg(unix)]
#[test]
fn links_an_agent_left_lead_nowhere() {
    use std::os::unix::fs::symlink;
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();

    // Inside a folder, and in place of one that is yet to be made.
    let folder = make(&bench, "map.1");
    symlink(outside.path(), folder.artifacts.join("out")).unwrap();
    make(&bench, "map.1");
    symlink(outside.path(), bench.paths.worker(&worker("map.2")).dir).unwrap();
    let second = make(&bench, "map.2");
    assert!(!second.dir.is_symlink());
    symlink(&precious, &second.result).unwrap();
    let fault = read_result(&second).unwrap_err();
    assert!(
        matches!(&fault, StoreError::ResultRefused { reason, escapes: true, .. } if reason.contains("link")),
        "{fault}"
    );
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);

    std::fs::remove_dir_all(&bench.paths.workers_dir).unwrap();
    symlink(outside.path(), &bench.paths.workers_dir).unwrap();
    let fault = create_worker(&bench.paths, &worker("map.1"), "", &json!({})).unwrap_err();
    assert!(matches!(fault, StoreError::Corrupt { .. }), "{fault}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_result_that_is_no_text_file_is_refused_with_a_reason_for_the_agent() {
    let bench = Bench::new();
    let folder = make(&bench, "map.1");
    let refused = |what: &str| match read_result(&folder).unwrap_err() {
        StoreError::ResultRefused { reason, .. } => assert!(reason.contains(what), "{reason}"),
        other => panic!("{other}"),
    };
    std::fs::write(&folder.result, b"ok \xff").unwrap();
    refused("byte 3");
    let long = std::fs::File::create(&folder.result).unwrap();
    long.set_len(MAX_RESULT_BYTES + 1).unwrap();
    refused("longer than");
    long.set_len(MAX_RESULT_BYTES).unwrap();
    assert_eq!(read_result(&folder).unwrap().unwrap().len() as u64, MAX_RESULT_BYTES);
    std::fs::remove_file(&folder.result).unwrap();
    std::fs::create_dir(&folder.result).unwrap();
    refused("regular file");
    std::fs::remove_dir(&folder.result).unwrap();
    nix::unistd::mkfifo(&folder.result, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused("regular file");
}

#[test]
fn published_results_of_different_tasks_never_share_a_file() {
    let bench = Bench::new();
    let tasks = ["a:b", "a/b", "a_b", "A_b"].map(|id| TaskId::new(id).unwrap());
    for task in &tasks {
        let path = publish_result(&bench.paths, task, task.as_str(), false).unwrap();
        assert_eq!(path, bench.paths.result(task));
    }
    for task in &tasks {
        assert_eq!(std::fs::read_to_string(bench.paths.result(task)).unwrap(), task.as_str());
    }
    publish_result(&bench.paths, &tasks[0], "newer", true).unwrap();
    assert_eq!(std::fs::read_to_string(bench.paths.result(&tasks[0])).unwrap(), "newer");
    assert_eq!(std::fs::read_dir(&bench.paths.results_dir).unwrap().count(), 4);
}

#[test]
fn a_result_is_lost_when_its_file_is_gone_cut_or_of_before_the_start_with_other_bytes() {
    let bench = Bench::new();
    let task = TaskId::new("map:a").unwrap();
    let path = bench.paths.result(&task);
    let relative = path.strip_prefix(&bench.paths.dir).unwrap();
    let accepted: AcceptedResult = serde_json::from_value(serde_json::json!({
        "summary": "", "verified": false, "path": relative, "digest": sha256_hex("text"), "bytes": 4,
    }))
    .unwrap();
    let after = Timestamp::from_millis(Timestamp::now().as_millis() + 60_000);
    let fate = || ResultCheck::new(&bench.paths).fate(&accepted, Some(after));
    assert_eq!(fate(), Fate::Lost, "no file");
    publish_result(&bench.paths, &task, "text", false).unwrap();
    assert_eq!(fate(), Fate::Untouched);
    let long_ago = Some(Timestamp::from_millis(after.as_millis() - 3_600_000));
    assert_eq!(ResultCheck::new(&bench.paths).fate(&accepted, long_ago), Fate::Touched, "written to since");
    assert_eq!(ResultCheck::new(&bench.paths).fate(&accepted, None), Fate::Touched, "nobody knows");
    let age = |path: &std::path::Path| {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    age(&path);
    assert_eq!(fate(), Fate::Untouched, "old, and whole");
    std::fs::write(&path, [0; 4]).unwrap();
    age(&path);
    assert_eq!(fate(), Fate::Lost, "old, of the right length, and empty");
    std::fs::write(&path, "").unwrap();
    assert_eq!(fate(), Fate::Lost, "cut");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(bench.dir.path(), &path).unwrap();
    assert_eq!(fate(), Fate::Lost, "not a file");
}
