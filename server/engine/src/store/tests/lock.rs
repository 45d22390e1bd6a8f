use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};

use flowdrive_protocol::run::StopMode;

use super::{Bench, again, given_run};
use crate::EngineError;
use crate::store::{RunLock, StoreError, is_locked, stop};

#[test]
fn the_second_to_ask_is_refused_in_the_same_process_too_and_told_who_has_it() {
    let bench = Bench::new();
    assert_eq!(is_locked(&bench.paths), None);
    assert!(!bench.paths.lock.exists(), "asking creates nothing");
    let lock = RunLock::acquire(&bench.paths).unwrap();
    let fault = RunLock::acquire(&bench.paths).unwrap_err();
    let StoreError::Locked { holder, .. } = &fault else { panic!("{fault}") };
    assert_eq!(holder.pid, Some(std::process::id()));
    assert_eq!(is_locked(&bench.paths).as_ref(), Some(holder));
    let told = EngineError::from(fault);
    let data = told.data().unwrap();
    assert_eq!(data.kind.as_str(), "run-locked");
    assert_eq!(data.pid, Some(std::process::id()));
    assert!(data.host.is_some() && data.since.is_some());

    drop(lock);
    assert_eq!(is_locked(&bench.paths), None);
    assert_eq!(std::fs::read(&bench.paths.lock).unwrap(), b"", "nobody is named any more");
    assert!(bench.paths.lock.exists(), "the file stays: a lock on a deleted file excludes nobody");
    drop(RunLock::acquire(&bench.paths).unwrap());
}

#[test]
fn a_request_to_stop_is_for_the_holder_there_is_and_for_no_later_one() {
    let bench = Bench::new();
    stop::request_stop(&bench.paths, StopMode::Now).unwrap();
    let lock = RunLock::acquire(&bench.paths).unwrap();
    assert_eq!(stop::take_stop(&bench.paths), None, "it was for an earlier one");
    stop::request_stop(&bench.paths, StopMode::Graceful).unwrap();
    RunLock::acquire(&bench.paths).unwrap_err();
    assert_eq!(stop::take_stop(&bench.paths), Some(StopMode::Graceful), "whoever is refused clears nothing");
    drop(lock);
}

#[test]
fn a_run_without_a_folder_is_not_found() {
    let bench = Bench::new();
    std::fs::remove_dir(&bench.paths.dir).unwrap();
    assert!(matches!(RunLock::acquire(&bench.paths), Err(StoreError::RunNotFound { .. })));
    assert_eq!(is_locked(&bench.paths), None);
}

#[test]
fn a_text_that_says_nothing_is_an_unknown_holder() {
    let bench = Bench::new();
    let lock = RunLock::acquire(&bench.paths).unwrap();
    std::fs::write(&bench.paths.lock, "{\"pid\":").unwrap();
    let fault = RunLock::acquire(&bench.paths).unwrap_err();
    assert!(matches!(&fault, StoreError::Locked { holder, .. } if holder.pid.is_none()), "{fault}");
    drop(lock);
}

#[test]
fn readers_that_ask_all_the_time_never_keep_a_drive_out() {
    let bench = Bench::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = is_locked(&bench.paths);
                }
            });
        }
        let outcome: Result<Vec<()>, StoreError> = (0..300).map(|_| RunLock::acquire(&bench.paths).map(drop)).collect();
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

/// A process that tries for the lock each time it is told to.
struct Contender {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Contender {
    fn start(bench: &Bench) -> Self {
        let mut child = again("lock::contend", bench.dir.path()).spawn().unwrap();
        let ask = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, ask, answers }
    }

    fn ask(&mut self, what: &str) {
        writeln!(self.ask, "{what}").unwrap();
    }

    /// The next line that is an answer and not the test harness's own.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the process ended early");
            if let Some((_, answer)) = line.trim_end().split_once("@@ ") {
                return answer.to_owned();
            }
        }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "run by other tests as a process of its own"]
fn contend() {
    let Some((_, paths)) = given_run() else { return };
    let mut held = None;
    for line in std::io::stdin().lines() {
        match line.unwrap().as_str() {
            "try" => match RunLock::acquire(&paths) {
                Ok(lock) => {
                    held = Some(lock);
                    println!("\n@@ won");
                }
                Err(StoreError::Locked { holder, .. }) => {
                    let named = holder.host.is_some() && holder.since.is_some();
                    println!("\n@@ lost to {} {named}", holder.pid.unwrap_or(0));
                }
                Err(other) => println!("\n@@ fault {other}"),
            },
            _ => {
                held = None;
                println!("\n@@ released");
            }
        }
        std::io::stdout().flush().unwrap();
    }
    drop(held);
}

#[test]
fn of_ten_processes_exactly_one_wins_each_round() {
    let bench = Bench::new();
    let mut contenders: Vec<_> = (0..10).map(|_| Contender::start(&bench)).collect();
    let rounds = 1000;
    for round in 0..rounds {
        for contender in &mut contenders {
            contender.ask("try");
        }
        let answers: Vec<String> = contenders.iter_mut().map(Contender::answer).collect();
        let winner = answers.iter().position(|answer| answer == "won");
        let winner = winner.unwrap_or_else(|| panic!("nobody won round {round}: {answers:?}"));
        let told = format!("lost to {} true", contenders[winner].child.id());
        let lost = answers.iter().filter(|answer| **answer == told).count();
        assert_eq!(lost, 9, "round {round}: all others are refused, and told by whom and since when: {answers:?}");
        for contender in &mut contenders {
            contender.ask("release");
        }
        for contender in &mut contenders {
            assert_eq!(contender.answer(), "released");
        }
    }
    println!("{rounds} rounds of ten processes, one winner each");
}

#[test]
fn a_killed_holder_holds_nothing() {
    let bench = Bench::new();
    let mut contender = Contender::start(&bench);
    contender.ask("try");
    assert_eq!(contender.answer(), "won");
    let holder = is_locked(&bench.paths).unwrap();
    assert_eq!(holder.pid, Some(contender.child.id()));
    assert!(matches!(RunLock::acquire(&bench.paths), Err(StoreError::Locked { .. })));
    // On Unix this is SIGKILL.
    contender.child.kill().unwrap();
    contender.child.wait().unwrap();
    assert_eq!(is_locked(&bench.paths), None);
    let lock = RunLock::acquire(&bench.paths).unwrap();
    assert_eq!(is_locked(&bench.paths).unwrap().pid, Some(std::process::id()));
    drop(lock);
}
