//! What a program finds when it begins, whoever started it and however large the server is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::super::census::Census;
use super::*;
use crate::delegate::env::MARKER;

/// What a program printed, and its exit code.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

/// A program to be started: what [`Launch`] borrows.
struct Program {
    path: PathBuf,
    name: String,
    args: Vec<String>,
    vars: BTreeMap<String, String>,
    dir: PathBuf,
    stdin: Option<File>,
}

impl Program {
    fn new(path: impl Into<PathBuf>, args: &[&str]) -> Self {
        let path = path.into();
        Self {
            name: path.to_string_lossy().into_owned(),
            path,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            vars: BTreeMap::new(),
            dir: PathBuf::from("/"),
            stdin: None,
        }
    }

    fn shell(script: &str) -> Self {
        Self::new("/bin/sh", &["-c", script])
    }

    fn launch(&self) -> Launch<'_> {
        Launch {
            path: &self.path,
            name: &self.name,
            args: &self.args,
            vars: &self.vars,
            marker: "spawn-test",
            dir: &self.dir,
            stdin: self.stdin.as_ref(),
        }
    }

    /// With the spawner: its children end with it.
    async fn started(&self) -> (Spawner, Started) {
        let spawner = Spawner::new().unwrap();
        let started = spawner.spawn(&self.launch()).await.unwrap();
        (spawner, started)
    }

    async fn refused(&self) -> io::Error {
        Spawner::new().unwrap().spawn(&self.launch()).await.expect_err("it cannot be started")
    }

    async fn said(&self) -> Said {
        let spawner = Spawner::new().unwrap();
        hear(spawner.spawn(&self.launch()).await.unwrap())
    }
}

/// Reads to the end, then reaps.
fn hear(mut started: Started) -> Said {
    let (mut out, mut err) = (String::new(), String::new());
    started.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    started.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    Said { out, err, code: started.child.wait().unwrap().code() }
}

fn file(dir: &TempDir, name: &str, mode: u32, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[tokio::test]
async fn a_program_gets_its_arguments_environment_and_folder_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let here = fs::canonicalize(dir.path()).unwrap();
    let mut program = Program::new("/bin/sh", &["-c", r#"printf '%s|' "$0" "$@"; pwd -P"#, "zero", "", "a b", "日本"]);
    program.dir = here.clone();
    let said = program.said().await;
    assert_eq!(said, Said { out: format!("zero||a b|日本|{}\n", here.display()), err: String::new(), code: Some(0) });

    let mut program = Program::new("/bin/cat", &["/proc/self/environ"]);
    program.vars = [("B", "2 = two"), ("A", ""), (MARKER, "another's")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(program.said().await.out, "A=\0B=2 = two\0FLOWDRIVE_DELEGATION=spawn-test\0");
}

#[tokio::test]
async fn a_program_is_called_as_it_was_named() {
    let mut program = Program::new("/bin/cat", &["/proc/self/cmdline"]);
    program.name = "kitten".to_owned();
    assert_eq!(program.said().await.out, "kitten\0/proc/self/cmdline\0");
}

#[tokio::test]
async fn standard_input_is_the_file_or_nothing() {
    let mut program = Program::new("/bin/cat", &[]);
    assert_eq!(program.said().await.out, "");
    let mut input = tempfile::tempfile().unwrap();
    input.write_all("what it reads".as_bytes()).unwrap();
    std::io::Seek::rewind(&mut input).unwrap();
    program.stdin = Some(input);
    assert_eq!(program.said().await.out, "what it reads");
}

#[tokio::test]
async fn both_outputs_are_apart() {
    let said = Program::shell("echo out; echo err >&2; exit 7").said().await;
    assert_eq!(said, Said { out: "out\n".to_owned(), err: "err\n".to_owned(), code: Some(7) });
}

#[tokio::test]
async fn a_program_leads_a_group_of_its_own_in_our_session() {
    let (_spawner, started) = Program::new("/bin/cat", &["/proc/self/stat"]).started().await;
    let (pid, ticks) = (started.tree.group(), started.start_ticks);
    assert_eq!(u32::try_from(pid).ok(), Some(started.child.id()));
    assert_eq!(started.identity("m".to_owned()).start_ticks, ticks);
    let stat = hear(started).out;
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(fields[1], std::process::id().to_string(), "its parent");
    assert_eq!(fields[2], pid.to_string(), "its group");
    let ours = fs::read_to_string("/proc/self/stat").unwrap();
    assert_eq!(fields[3], ours.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap(), "its session");
    assert_eq!(fields[19], ticks.to_string(), "its start");
}

/// The masks of signals in `/proc/self/status`.
fn signals(status: &str) -> BTreeMap<&str, u64> {
    let masks = status.lines().filter_map(|line| line.split_once(":\t"));
    masks.filter_map(|(name, mask)| Some((name, u64::from_str_radix(mask, 16).ok()?))).collect()
}

#[tokio::test]
async fn no_signal_is_blocked_handled_or_newly_ignored() {
    use nix::sys::signal::{SigSet, Signal};
    // The thread that starts it is made with this thread's mask.
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGUSR1);
    blocked.thread_block().unwrap();
    let _handled = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).unwrap();
    let ours = fs::read_to_string("/proc/thread-self/status").unwrap();
    let (ours, pipe) = (signals(&ours), 1_u64 << (Signal::SIGPIPE as u32 - 1));
    assert!(ours["SigBlk"] != 0 && ours["SigCgt"] != 0, "or this test says nothing");
    let status = Program::new("/bin/cat", &["/proc/self/status"]).said().await.out;
    let its = signals(&status);
    assert_eq!(its["SigBlk"], 0, "blocked");
    assert_eq!(its["SigCgt"], 0, "handled");
    // Rust's own runtime ignores broken pipes, which no program expects.
    assert_eq!(its["SigIgn"], ours["SigIgn"] & !pipe, "ignored");
    // And ours are what they were.
    let after = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert_eq!(signals(&after)["SigBlk"], ours["SigBlk"]);
    assert_eq!(signals(&after)["SigCgt"], ours["SigCgt"]);
}

#[tokio::test]
async fn a_broken_pipe_ends_a_program() {
    let (_spawner, mut started) = Program::shell("while :; do echo again; done").started().await;
    drop(started.child.stdout.take());
    let status = started.child.wait().unwrap();
    assert!(status.signal() == Some(13) || status.code() == Some(141), "{status:?}");
}

#[tokio::test]
async fn no_open_file_but_its_own_three_reaches_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let ours: Vec<File> = (0..20).map(|n| File::create(dir.path().join(n.to_string())).unwrap()).collect();
    // As what this process was itself started with may be: open for all that it starts.
    let _inheritable: Vec<_> = ours.iter().take(3).map(|file| nix::unistd::dup(file).unwrap()).collect();
    let open = Program::shell("for fd in /proc/$$/fd/*; do readlink $fd; done").said().await.out;
    let open: Vec<&str> = open.lines().collect();
    assert_eq!(open[0], "/dev/null");
    assert!(open.len() == 3 && open[1..].iter().all(|name| name.starts_with("pipe:")), "{open:?}");
}

#[tokio::test]
async fn a_script_without_a_first_line_is_run_by_the_shell() {
    let dir = tempfile::tempdir().unwrap();
    let script = file(&dir, "bare", 0o755, b"echo \"$0|$1\"; exit 3\n");
    let said = Program::new(&script, &["an argument"]).said().await;
    let out = format!("{}|an argument\n", script.display());
    assert_eq!(said, Said { out, err: String::new(), code: Some(3) });
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let kind = |error: &io::Error| (error.kind(), error.raw_os_error());
    let missing = Program::new("/no/such/program", &[]).refused().await;
    assert_eq!(kind(&missing), (io::ErrorKind::NotFound, Some(2)));
    let no_interpreter = file(&dir, "odd", 0o755, b"#!/no/such/interpreter\n");
    assert_eq!(Program::new(no_interpreter, &[]).refused().await.kind(), io::ErrorKind::NotFound);
    let plain = file(&dir, "plain", 0o644, b"#!/bin/sh\n");
    assert_eq!(Program::new(plain, &[]).refused().await.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(Program::new(dir.path(), &[]).refused().await.kind(), io::ErrorKind::PermissionDenied);
    let long = "x".repeat(3 << 20);
    assert_eq!(Program::new("/bin/true", &[&long]).refused().await.raw_os_error(), Some(7), "E2BIG");
    assert_eq!(Program::new("/bin/true", &["a\0b"]).refused().await.kind(), io::ErrorKind::InvalidInput);
    let mut nowhere = Program::new("/bin/true", &[]);
    nowhere.dir = dir.path().join("none");
    assert_eq!(nowhere.refused().await.kind(), io::ErrorKind::NotFound);
    let copy = dir.path().join("copy");
    fs::copy("/bin/true", &copy).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(&copy).unwrap();
    assert_eq!(Program::new(&copy, &[]).refused().await.kind(), io::ErrorKind::ExecutableFileBusy);
    drop(writer);
    assert!(children().is_empty(), "what never was a program is reaped: {:?}", children());
}

/// Children of the threads of this process, zombies too. Each test is a process of its own under nextest; elsewhere
/// those of other tests are among them, and only ours count.
fn children() -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ours = |pid: &i32| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let (name, rest) = stat.rsplit_once(") ").unwrap();
        // A child that never was a program has the name of the thread that made it.
        name.ends_with("(flowdrive-spawn") && rest.split(' ').nth(1) == Some(&*std::process::id().to_string())
    };
    all.filter(ours).collect()
}

#[tokio::test]
async fn a_child_nobody_takes_is_ended() {
    let spawner = Spawner::new().unwrap();
    let mut program = Program::shell("exec sleep 1000");
    program.vars.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let launch = Launch { marker: "spawn-test-unwanted", ..program.launch() };
    let ready = Ready::of(&launch).unwrap();
    let (answer, gone) = oneshot::channel();
    drop(gone);
    spawner.requests.send(Request { ready, answer }).unwrap();
    // Taken back after it was sent.
    let (answer, late) = oneshot::channel();
    spawner.requests.send(Request { ready: Ready::of(&launch).unwrap(), answer }).unwrap();
    // The next answer comes after the thread has dealt with those before.
    let mut next = spawner.spawn(&Program::new("/bin/true", &[]).launch()).await.unwrap();
    next.child.wait().unwrap();
    drop(late);
    let identity =
        ProcessIdentity { group: -1, start_ticks: 0, boot_id: String::new(), marker: "spawn-test-unwanted".to_owned() };
    assert!(Census::default().look(0, &Leaders::default()).members(&identity, false).is_empty());
}

#[tokio::test]
async fn a_reaped_number_is_not_hit() {
    let (_spawner, mut started) = Program::shell("exit 0").started().await;
    while started.child.try_wait().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(started.child.wait().unwrap().code(), Some(0), "known once and for all");
    // The number is free: whoever has it now is a stranger, and to kill nobody is no error.
    started.child.kill().unwrap();
}

/// Many at once, from a server with much memory that changes all along: each child sees its own arguments and environment,
/// and the memory is what it was.
#[test]
fn many_are_started_at_once_from_a_large_process_that_goes_on_meanwhile() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let spawner = Arc::new(Spawner::new().unwrap());
    let mut heap: Vec<Vec<u8>> = (0..200_u8).map(|n| vec![n; 1 << 20]).collect();
    let asked: Vec<_> = (0..200)
        .map(|n| {
            let spawner = Arc::clone(&spawner);
            runtime.spawn(async move {
                let mut program = Program::shell(r#"printf %s "$NUMBER $0""#);
                program.args.push(n.to_string());
                program.vars.insert("NUMBER".to_owned(), n.to_string());
                let started = spawner.spawn(&program.launch()).await.unwrap();
                tokio::task::spawn_blocking(move || hear(started)).await.unwrap()
            })
        })
        .collect();
    for _ in 0..20 {
        heap.iter_mut().for_each(|piece| piece.iter_mut().step_by(4096).for_each(|byte| *byte = byte.wrapping_add(1)));
    }
    for (n, said) in asked.into_iter().enumerate() {
        let said = runtime.block_on(said).unwrap();
        assert_eq!(said, Said { out: format!("{n} {n}"), err: String::new(), code: Some(0) });
    }
    for (n, piece) in (0..200_u8).zip(&heap) {
        assert_eq!(piece.iter().step_by(4096).find(|byte| **byte != n.wrapping_add(20)), None, "piece {n}");
        assert_eq!(piece[1], n);
    }
}

/// Not a test by itself: what `a_child_dies_with_the_thread_that_started_it` runs, to be killed.
#[tokio::test]
async fn as_a_server() {
    let Ok(told) = std::env::var("FLOWDRIVE_TEST_SPAWNER") else { return };
    let mut program = Program::shell("trap '' TERM INT HUP; while :; do sleep 1000; done");
    program.vars.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let spawner = Spawner::new().unwrap();
    let started = spawner.spawn(&program.launch()).await.unwrap();
    fs::write(told, format!("{}\n", started.child.id())).unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn a_child_dies_with_the_server_however_it_dies() {
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("child");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "delegate::unix::spawn::tests::as_a_server"])
        .env("FLOWDRIVE_TEST_SPAWNER", &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        assert!(
            (0..10_000).any(|_| done() || {
                thread::sleep(std::time::Duration::from_millis(5));
                false
            }),
            "{what}"
        );
    };
    wait("the child starts", &|| fs::read_to_string(&told).is_ok_and(|text| text.ends_with('\n')));
    let child: i32 = fs::read_to_string(&told).unwrap().trim().parse().unwrap();
    assert!(process::start_ticks(child).is_some());
    server.kill().unwrap();
    server.wait().unwrap();
    let alive = || {
        let stat = fs::read_to_string(Path::new("/proc").join(child.to_string()).join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    wait("the child is gone", &|| !alive());
}
