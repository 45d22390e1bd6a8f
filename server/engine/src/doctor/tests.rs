//! Scripted stand-ins on a `PATH` of the test's own. No real agent is looked for or started.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use flowdrive_protocol::config::Config;
use tempfile::TempDir;

use super::*;
use crate::delegate::DelegatorOptions;

/// A folder of programs, which is all that is on `PATH` but for the shell's own tools, and a home.
struct Installed {
    dir: TempDir,
    env: BTreeMap<String, String>,
    runs: ListRunsResult,
}

impl Installed {
    fn new(programs: &[(&str, &str)]) -> Self {
        let dir = tempfile::Builder::new().prefix("fd-doctor-").tempdir().unwrap();
        for folder in ["bin", "home", "ws"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for (name, text) in programs {
            let path = dir.path().join("bin").join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let text = |below: &str| dir.path().join(below).to_str().unwrap().to_owned();
        let env = BTreeMap::from([
            ("PATH".to_owned(), format!("{}:/usr/bin:/bin", text("bin"))),
            ("HOME".to_owned(), text("home")),
        ]);
        Self { dir, env, runs: ListRunsResult { runs: Vec::new(), unreadable: Vec::new(), total: 0 } }
    }

    fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    async fn examine(&self, config: serde_json::Value) -> DoctorResult {
        let config: Config = serde_json::from_value(config).unwrap();
        let agents = Agents::resolve(&config, Path::new("/bin/true")).unwrap();
        let options = DelegatorOptions { parent_env: self.env.clone(), ..DelegatorOptions::default() };
        let delegator = Delegator::new(options).unwrap();
        let before = self.files();
        let workspace = Some(self.dir.path().join("ws").to_str().unwrap().to_owned());
        let result = examine(&agents, &delegator, workspace, Some(Ok(self.runs.clone()))).await;
        assert_eq!(self.files(), before, "a check writes nothing");
        assert_eq!(self.alive(), Vec::<String>::new(), "nothing that was asked is left");
        result
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        let mut files: Vec<_> = ["bin", "home", "ws"]
            .iter()
            .flat_map(|folder| std::fs::read_dir(self.dir.path().join(folder)).unwrap())
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
    }

    /// Live processes that were started with this test's `PATH`.
    fn alive(&self) -> Vec<String> {
        let mine = self.dir.path().to_str().unwrap();
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|entry| {
                let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                String::from_utf8_lossy(&environ).contains(mine)
            })
            .map(|entry| {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&command).replace('\0', " ")
            })
            .collect()
    }
}

fn of<'r>(result: &'r DoctorResult, name: &str) -> &'r DoctorCheck {
    let starts = format!("agent {name}");
    result.checks.iter().find(|check| check.name == starts || check.name.starts_with(&format!("{starts} "))).unwrap()
}

#[tokio::test]
async fn a_preset_shows_its_version_what_it_signs_in_with_and_what_is_run() {
    let mut here = Installed::new(&[
        ("claude", "[ \"$*\" = --version ] && echo '2.9.1 (Made-up Code)'"),
        ("codex", "echo 'codex-cli 0.99.0'"),
    ]);
    here.set("ANTHROPIC_API_KEY", "sk-made-up-for-tests-1");
    here.set("GH_TOKEN", "made-up-for-tests-2");
    let result = here.examine(serde_json::json!({ "defaultAgent": "claude" })).await;
    let claude = of(&result, "claude");
    assert_eq!((claude.status, &claude.hint), (CheckStatus::Ok, &None), "{claude:?}");
    for part in
        ["/bin/claude; ", "version 2.9.1 (Made-up Code); ", "signs in with ANTHROPIC_API_KEY; ", "runs claude -p "]
    {
        assert!(claude.message.contains(part), "{part:?} in {}", claude.message);
    }
    let codex = of(&result, "codex");
    assert_eq!(codex.status, CheckStatus::Warn, "{codex:?}");
    assert!(codex.message.contains("version codex-cli 0.99.0; nothing found to sign in with"), "{codex:?}");
    assert!(codex.hint.as_ref().unwrap().contains(".codex/auth.json"), "{codex:?}");
    assert!(of(&result, "gemini").message.contains("gemini is not on PATH"));
    assert!(result.ok);
    assert!(!format!("{result:?}").contains("made-up-for-tests"), "no value is shown");
}

#[tokio::test]
async fn a_sign_in_file_is_seen_and_not_read() {
    let here = Installed::new(&[("codex", "echo 1")]);
    let folder = here.dir.path().join("home/.codex");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("auth.json");
    std::fs::write(&file, "made-up-content").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    let result = here.examine(serde_json::json!({})).await;
    let codex = of(&result, "codex");
    assert_eq!(codex.status, CheckStatus::Ok, "{codex:?}");
    assert!(codex.message.contains("home/.codex/auth.json"), "{codex:?}");
}

#[tokio::test]
async fn one_that_hangs_and_one_that_forks_are_ended_with_all_they_started() {
    let here = Installed::new(&[
        ("claude", "trap '' TERM; echo so far; while :; do sleep 1000; done"),
        ("codex", "setsid sleep 1000 & sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo 'forks 1.0'"),
        ("gemini", "exec cat"),
        ("opencode", "yes"),
    ]);
    let since = Instant::now();
    let result = here.examine(serde_json::json!({})).await;
    // Four one after the other would take longer than this; and so would waiting for what holds a pipe open.
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    for hanging in ["claude", "opencode"] {
        let check = of(&result, hanging);
        assert_eq!(check.status, CheckStatus::Warn);
        assert!(check.message.contains("did not answer --version within 3 s and was ended"), "{check:?}");
    }
    assert!(of(&result, "codex").message.contains("version forks 1.0"), "{result:?}");
    assert!(of(&result, "gemini").message.contains("printed nothing on --version"), "its input is closed: {result:?}");
}

#[tokio::test]
async fn the_environment_is_filtered_and_what_is_printed_is_redacted_and_cut() {
    let mut here = Installed::new(&[
        ("leaky", "echo \"key $OPENAI_API_KEY token ${GH_TOKEN-withheld} board ${CW_WORKBENCH_TOKEN-withheld}\""),
        ("long", "head -c 1000000 /dev/zero | tr '\\0' 'x'"),
        ("broken", "echo no >&2; exit 3"),
    ]);
    here.set("OPENAI_API_KEY", "canary-made-up-1");
    here.set("GH_TOKEN", "canary-made-up-2");
    here.set("CW_WORKBENCH_TOKEN", "canary-made-up-3");
    let agent =
        |program: &str| serde_json::json!({ "command": [program, "--api-key", "canary-made-up-4", "{{input}}"] });
    let agents = serde_json::json!({
        "agents": { "leaky": agent("leaky"), "long": agent("long"), "broken": agent("broken"), "absent": agent("absent") },
    });
    let result = here.examine(agents).await;
    assert!(
        of(&result, "leaky").message.contains("version key <redacted> token withheld board withheld; "),
        "{result:?}"
    );
    assert!(!format!("{result:?}").contains("canary"), "{result:?}");
    let long = &of(&result, "long").message;
    assert!(long.contains("version xxx") && long.len() < 500, "{long}");
    let broken = of(&result, "broken");
    assert_eq!(broken.status, CheckStatus::Ok, "somebody's own program need not have a version");
    assert!(broken.message.contains("--version failed (exit 3): no"), "{broken:?}");
    assert_eq!(of(&result, "absent").status, CheckStatus::Fail);
    assert!(!result.ok);
}

#[tokio::test]
async fn a_script_named_by_its_path_and_an_endpoint_are_not_asked() {
    let here = Installed::new(&[("script", "echo asked >\"$HOME/asked\"")]);
    let script = here.dir.path().join("bin/script");
    let agents = serde_json::json!({ "agents": {
        "script": { "command": [script, "{{input}}"] },
        // Nothing listens there; a check would say so.
        "remote": { "endpoint": "http://127.0.0.1:9/d?key=made-up-key" },
    } });
    let result = here.examine(agents).await;
    assert_eq!(of(&result, "script").status, CheckStatus::Ok);
    assert!(!of(&result, "script").message.contains("version"));
    let remote = of(&result, "remote");
    assert_eq!((remote.status, remote.message.as_str()), (CheckStatus::Ok, "posts to http://127.0.0.1:9/d"));
}

#[tokio::test]
async fn a_variable_that_a_header_needs_is_looked_for_and_not_shown() {
    let mut here = Installed::new(&[]);
    here.set("MY_AUTHORIZATION", "canary-made-up-for-tests");
    here.set("CW_WORKBENCH_TOKEN", "canary-made-up-for-tests-2");
    let remote = |variable: &str| serde_json::json!({ "endpoint": "http://127.0.0.1:9/d", "headers": { "authorization": variable } });
    let agents = serde_json::json!({ "agents": {
        "set": remote("MY_AUTHORIZATION"), "unset": remote("NOT_SET_ANYWHERE"), "never": remote("CW_WORKBENCH_TOKEN"),
    } });
    let result = here.examine(agents).await;
    assert_eq!(of(&result, "set").status, CheckStatus::Ok);
    for (name, variable) in [("unset", "NOT_SET_ANYWHERE"), ("never", "CW_WORKBENCH_TOKEN")] {
        let check = of(&result, name);
        assert_eq!(check.status, CheckStatus::Fail, "{check:?}");
        assert!(check.message.contains(variable) && check.hint.is_some(), "{check:?}");
    }
    assert!(!result.ok && !format!("{result:?}").contains("canary"), "{result:?}");
}

#[tokio::test]
async fn runs_that_cannot_be_read_are_told() {
    let mut here = Installed::new(&[]);
    let runs = |result: &DoctorResult| result.checks.iter().find(|check| check.name == "runs").unwrap().clone();
    assert_eq!(runs(&here.examine(serde_json::json!({})).await).status, CheckStatus::Ok);
    here.runs.total = 3;
    here.runs.unreadable.push(flowdrive_protocol::run::UnreadableRun {
        name: "broken-1".to_owned(),
        kind: flowdrive_protocol::error::ErrorKind::RunCorrupt,
        message: "line 7 does not add up".to_owned(),
    });
    let check = runs(&here.examine(serde_json::json!({})).await);
    assert_eq!(check.status, CheckStatus::Warn);
    assert!(check.message.contains("1 of them cannot be read: broken-1 (line 7"), "{check:?}");
    assert!(check.hint.unwrap().contains("flowdrive verify broken-1"));
}
