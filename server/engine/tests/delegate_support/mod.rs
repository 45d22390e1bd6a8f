//! A place to run agents in: a workspace, an attempt's folder, scripts, and a look at what is left alive afterwards.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowdrive_engine::delegate::{Delegator, DelegatorOptions};
use flowdrive_engine::model::agent::{Agent, Assignment, Target, WorkerFolder};
use flowdrive_engine::model::outcome::{Ending, Notice, Outcome, ProcessIdentity};
use flowdrive_protocol::config::{EnvPolicy, Preset, StdinMode};
use flowdrive_protocol::ids::{AgentName, RunId, TaskId, WorkerId};
use flowdrive_protocol::workflow::Sandbox;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Far more than anything here takes: only a hang gets there.
pub(crate) const SAFETY: Duration = Duration::from_secs(60);

/// Where agents run.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) delegator: Delegator,
    pub(crate) notices: Arc<Mutex<Vec<Notice>>>,
}

/// The environment of the server as the tests have it.
pub(crate) fn parent_env() -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), "/nowhere".to_owned())])
}

/// Options with short graces.
pub(crate) fn options() -> DelegatorOptions {
    DelegatorOptions {
        parent_env: parent_env(),
        term_grace: Duration::from_millis(300),
        stop_grace: Duration::from_millis(300),
        leak_timeout: Duration::from_millis(100),
        result_quiet: Duration::from_millis(100),
        linger_grace: Duration::from_millis(200),
        ..DelegatorOptions::default()
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: DelegatorOptions) -> Self {
        let dir = tempfile::Builder::new().prefix("fd-delegate-").tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("ws")).unwrap();
        let place = Self { dir, delegator: Delegator::new(options).unwrap(), notices: Arc::default() };
        let folder = place.folder();
        std::fs::create_dir_all(&folder.dir).unwrap();
        std::fs::write(&folder.input, "# Task\n\nThe input file.\n").unwrap();
        place
    }

    pub(crate) fn folder(&self) -> WorkerFolder {
        WorkerFolder::at(self.dir.path().join("worker"))
    }

    pub(crate) fn assignment(&self) -> Assignment {
        Assignment {
            run_id: RunId::new("run-1").unwrap(),
            task_id: TaskId::new("map:one").unwrap(),
            worker_id: WorkerId::new("worker-1").unwrap(),
            attempt: 1,
            workspace: self.dir.path().join("ws"),
            folder: self.folder(),
            prompt: "Find the 日本語 entry points.".to_owned(),
            model: None,
            timeout: SAFETY,
            sandbox: Sandbox::Readonly,
            marker: self.delegator.next_marker(),
            session: None,
        }
    }

    /// Writes a shell script and gives its path.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        path
    }

    /// An agent that is this script.
    pub(crate) fn shell(&self, text: &str) -> Agent {
        let script = self.script("agent.sh", text);
        command(&["/bin/sh", &script.to_string_lossy(), "{{input}}", "{{result}}"])
    }

    /// Delegates, and fails the test when something of it is still alive afterwards.
    pub(crate) async fn run(&self, agent: &Agent, assignment: &Assignment) -> Outcome {
        self.run_until(agent, assignment, &CancellationToken::new()).await
    }

    pub(crate) async fn run_until(&self, agent: &Agent, assignment: &Assignment, stop: &CancellationToken) -> Outcome {
        let notices = Arc::clone(&self.notices);
        let notice = move |told: Notice| notices.lock().unwrap().push(told);
        let outcome = tokio::time::timeout(SAFETY, self.delegator.delegate(agent, assignment, &notice, stop))
            .await
            .expect("the delegation hangs");
        self.assert_nothing_left();
        outcome
    }

    pub(crate) fn processes(&self) -> Vec<ProcessIdentity> {
        let notices = self.notices.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        notices
            .iter()
            .filter_map(|told| match told {
                Notice::ProcessStarted(identity) => Some(identity.clone()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn activity(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        notices
            .iter()
            .filter_map(|told| match told {
                Notice::Activity(line) => Some(line.clone()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn sessions(&self) -> Vec<String> {
        let notices = self.notices.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        notices
            .iter()
            .filter_map(|told| match told {
                Notice::Session(session) => Some(session.clone()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn log(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder().logs.join(name)).ok()
    }

    pub(crate) fn result(&self) -> Option<String> {
        std::fs::read_to_string(self.folder().result).ok()
    }

    /// Nothing that bears a marker of ours, or runs something from this place, is alive.
    pub(crate) fn assert_nothing_left(&self) {
        let left = self.left();
        assert!(left.is_empty(), "still alive: {left:?}");
    }

    fn left(&self) -> Vec<(i32, String)> {
        let markers: Vec<String> = self.processes().into_iter().map(|identity| identity.marker).collect();
        let here = self.dir.path().to_string_lossy().into_owned();
        alive()
            .into_iter()
            .filter(|(_, environ, command)| {
                command.contains(&here)
                    || markers.iter().any(|marker| environ.contains(&format!("FLOWDRIVE_DELEGATION={marker}\0")))
            })
            .map(|(pid, _, command)| (pid, command))
            .collect()
    }

    /// Waits until the file exists.
    pub(crate) async fn wait_for(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        tokio::time::timeout(SAFETY, async {
            loop {
                match std::fs::read_to_string(&path) {
                    Ok(text) if text.ends_with('\n') => return text,
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        })
        .await
        .expect("the file does not come")
    }

    /// Every file below the attempt's folder.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(&self.folder().dir, &mut files);
        files
    }
}

/// A test that fails leaves nothing running either.
impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for _ in 0..5 {
            for (pid, _) in self.left() {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
    }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

/// Live processes: number, environment, command line.
pub(crate) fn alive() -> Vec<(i32, String, String)> {
    let read = |pid: i32, name: &str| {
        String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default()).into_owned()
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let stat = read(*pid, "stat");
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
        })
        .map(|pid| (pid, read(pid, "environ"), read(pid, "cmdline").replace('\0', " ")))
        .collect()
}

/// An agent that is a program.
pub(crate) fn command(argv: &[&str]) -> Agent {
    agent(Target::Command {
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        stdin: StdinMode::Closed,
        preset: None,
    })
}

/// An agent that is a known program.
pub(crate) fn preset(preset: Preset, program: &Path) -> Agent {
    agent(Target::Command {
        argv: vec![program.to_string_lossy().into_owned()],
        stdin: StdinMode::Closed,
        preset: Some(preset),
    })
}

/// An agent that is an endpoint.
pub(crate) fn endpoint(url: &str) -> Agent {
    agent(Target::Endpoint { url: url.to_owned(), headers: BTreeMap::new(), ca: None })
}

pub(crate) fn agent(target: Target) -> Agent {
    Agent {
        name: AgentName::new("tested").unwrap(),
        target,
        model: None,
        timeout: SAFETY,
        idle_timeout: None,
        max_concurrent: None,
        env: EnvPolicy::default(),
        attest_public_key: None,
        require_attested_usage: false,
    }
}

/// The code and the reason of a failure.
pub(crate) fn failure(outcome: &Outcome) -> (&str, &str) {
    match &outcome.ending {
        Ending::Failed { code, reason, .. } => (code, reason),
        other => panic!("not failed but {other:?}"),
    }
}

/// Whether it counts as passing, and the wait that was asked for.
pub(crate) fn transient(outcome: &Outcome) -> Option<Option<u64>> {
    match &outcome.ending {
        Ending::Failed { transient, .. } => transient.map(|transient| transient.retry_after_ms),
        other => panic!("not failed but {other:?}"),
    }
}
