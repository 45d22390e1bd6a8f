//! Looks at the installation: which agents can be run, and whether the workspace can hold runs.
//!
//! Must not change a record, give an agent a task, read a credential or ask the network. What is found on `PATH` is asked
//! for its version, each at the same time and for a few seconds at most. Agents that a dead server left are ended.

use std::path::Path;

use flowdrive_protocol::config::Preset;
use flowdrive_protocol::ids::{RunId, TaskId};
use flowdrive_protocol::method::{DoctorResult, ListRunsResult};
use flowdrive_protocol::run::{CheckStatus, DoctorCheck};
use flowdrive_protocol::workflow::Sandbox;

use crate::EngineError;
use crate::config::Agents;
use crate::delegate::{Delegator, Found, SignIn};
use crate::model::agent::{Agent, Target};
use crate::orphans::{self, Among};
use crate::store::{StoreError, Workspace};

/// Makes all checks.
///
/// `runs`: the runs of the workspace, and those of them that cannot be read, or why nobody can tell; none without a
/// workspace.
pub(crate) async fn examine(
    agents: &Agents,
    delegator: &Delegator,
    workspace: Option<String>,
    runs: Option<Result<ListRunsResult, EngineError>>,
) -> DoctorResult {
    let default = agents.default_agent();
    let looks = agents.iter().map(|agent| async move {
        let found = delegator.look_for(agent).await;
        let shown = delegator.describe(agent, agent.model.as_deref(), Sandbox::default());
        let mut check = agent_check(agent, agent.name == default.name, &shown, found, delegator.unusable(agent));
        // Paths and reasons quote the configuration.
        check.message = delegator.redact(&check.message);
        check.hint = check.hint.map(|hint| delegator.redact(&hint));
        check
    });
    let mut checks = futures::future::join_all(looks).await;
    if let Some(path) = workspace {
        let named = path.clone();
        let looked = tokio::task::spawn_blocking(move || workspace_check(&path)).await;
        let (check, is_one) = looked.unwrap_or_else(|fault| {
            (check("workspace", CheckStatus::Fail, format!("looking at it failed: {fault}"), None), false)
        });
        checks.push(check);
        checks.extend(runs.filter(|_| is_one).map(runs_check));
        if let Ok(workspace) = Workspace::open(Path::new(&named)) {
            checks.push(left_behind(orphans::end_all(workspace, Among::All, delegator).await));
        }
    }
    DoctorResult {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ok: checks.iter().all(|check| check.status != CheckStatus::Fail),
        checks,
    }
}

fn check(
    name: impl Into<String>,
    status: CheckStatus,
    message: impl Into<String>,
    hint: Option<String>,
) -> DoctorCheck {
    DoctorCheck { name: name.into(), status, message: message.into(), hint }
}

/// `shown`: what would be run or posted to, redacted; `unusable`: what speaks against trying.
fn agent_check(
    agent: &Agent,
    default: bool,
    shown: &str,
    found: Option<Found>,
    unusable: Option<String>,
) -> DoctorCheck {
    let name = format!("agent {}{}", agent.name, if default { " (default)" } else { "" });
    let Target::Command { argv, preset, .. } = &agent.target else {
        if let Some(reason) = unusable {
            let hint = "set it in the environment that starts Flowdrive (an editor's, for one), or correct `headers`";
            return check(name, CheckStatus::Fail, format!("posts to {shown}; {reason}"), Some(hint.to_owned()));
        }
        let hint = Some("not asked: a check starts nothing".to_owned());
        return check(name, CheckStatus::Ok, format!("posts to {shown}"), hint);
    };
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let Some(Found { path, version, sign_in }) = found else {
        return check(name, CheckStatus::Fail, format!("{program} was not looked for"), None);
    };
    let path = match path {
        Ok(path) => path,
        // A preset nobody asked for is worth a line, not a fault.
        Err(_) if preset.is_some() && !default => {
            let hint = Some(how_to_install(*preset, program));
            return check(name, CheckStatus::Warn, format!("{program} is not on PATH"), hint);
        }
        Err(reason) => {
            let install = how_to_install(*preset, program);
            let hint = format!("{install}; or correct the agent's command in the configuration");
            return check(name, CheckStatus::Fail, reason, Some(hint));
        }
    };
    let mut status = CheckStatus::Ok;
    let mut parts = vec![path.display().to_string()];
    match version {
        Some(Ok(version)) => parts.push(format!("version {version}")),
        Some(Err(reason)) => {
            // Only of a program that is known to have a version is it a bad sign.
            if preset.is_some() {
                status = CheckStatus::Warn;
            }
            parts.push(format!("version unknown: {reason}"));
        }
        None => {}
    }
    let mut hint = None;
    if let Some(sign_in) = sign_in {
        parts.push(signs_in(&sign_in));
        if sign_in.is_missing() {
            status = CheckStatus::Warn;
            hint = Some(how_to_sign_in(program, &sign_in));
        }
    }
    parts.push(format!("runs {shown}"));
    check(name, status, parts.join("; "), hint)
}

/// By the program's own documentation; each of them can be had in other ways too.
fn how_to_install(preset: Option<Preset>, program: &str) -> String {
    let package = match preset {
        Some(Preset::Claude) if program == "claude" => "@anthropic-ai/claude-code",
        Some(Preset::Codex) if program == "codex" => "@openai/codex",
        Some(Preset::Gemini) if program == "gemini" => "@google/gemini-cli",
        Some(Preset::Opencode) if program == "opencode" => "opencode-ai",
        // A path, or what was meant as one.
        _ if program.contains(['/', '\\', '~', '$', ' ']) => {
            return "`command` wants the absolute path of a program that may be executed (chmod +x), or a name on PATH, then each argument \
                    as an element of its own; `~` and `$HOME` are not expanded"
                .to_owned();
        }
        _ => return format!("install {program}, or put the folder it is in on the PATH of what starts Flowdrive"),
    };
    format!("install {program}: `npm install -g {package}`, or as its documentation says")
}

fn left_behind(ended: Result<Vec<(RunId, TaskId)>, StoreError>) -> DoctorCheck {
    let name = "left behind";
    match ended {
        Ok(ended) if ended.is_empty() => {
            check(name, CheckStatus::Ok, "no agent of a dead server runs in this workspace", None)
        }
        Ok(ended) => {
            let named: Vec<String> = ended.iter().take(8).map(|(run, task)| format!("{task} of {run}")).collect();
            let more = if ended.len() > named.len() { " and more" } else { "" };
            let message = format!("ended what a dead server had left running: {}{more}", named.join(", "));
            check(name, CheckStatus::Warn, message, Some("resume the run: its tasks wait again".to_owned()))
        }
        Err(fault) => check(name, CheckStatus::Fail, fault.to_string(), None),
    }
}

/// Names only: no value and no file is read.
fn signs_in(sign_in: &SignIn) -> String {
    let mut ways = sign_in.variables.clone();
    ways.extend(sign_in.file.iter().filter(|_| sign_in.file_exists).map(|file| file.display().to_string()));
    if ways.is_empty() {
        "nothing found to sign in with".to_owned()
    } else {
        format!("signs in with {}", ways.join(", "))
    }
}

fn how_to_sign_in(program: &str, sign_in: &SignIn) -> String {
    if !sign_in.withheld.is_empty() {
        return format!("{} is set, but env.deny of this agent keeps it back", sign_in.withheld.join(", "));
    }
    let looked = sign_in.file.as_ref().map(|file| format!(" and no {}", file.display())).unwrap_or_default();
    format!(
        "no credential variable of it is set{looked}; unless the system keeps its sign-in elsewhere, start {program} once and sign in"
    )
}

#[cfg(unix)]
fn writable(place: &Path) -> std::io::Result<()> {
    Ok(nix::unistd::access(place, nix::unistd::AccessFlags::W_OK)?)
}

/// Who may write is not asked here: only whether the folder can be read at all.
#[cfg(not(unix))]
fn writable(place: &Path) -> std::io::Result<()> {
    std::fs::read_dir(place).map(drop)
}

/// What the workspace is good for, and whether it is one.
fn workspace_check(path: &str) -> (DoctorCheck, bool) {
    let name = "workspace";
    let workspace = match Workspace::open(Path::new(path)) {
        Ok(workspace) => workspace,
        Err(fault) => {
            let hint = Some("give the absolute path of an existing folder".to_owned());
            return (check(name, CheckStatus::Fail, fault.to_string(), hint), false);
        }
    };
    let state = workspace.root().join(".cw");
    let place = if state.exists() { &state } else { workspace.root() };
    let check = match writable(place) {
        Ok(()) => check(name, CheckStatus::Ok, format!("{} can hold runs", workspace.root().display()), None),
        Err(fault) => check(
            name,
            CheckStatus::Fail,
            format!("{} cannot be written: {fault}", place.display()),
            Some("runs are kept in .cw of the workspace; make it writable".to_owned()),
        ),
    };
    (check, true)
}

/// Runs that cannot be read are no fault of the installation, and nothing to be silent about.
fn runs_check(runs: Result<ListRunsResult, EngineError>) -> DoctorCheck {
    let name = "runs";
    let runs = match runs {
        Ok(runs) => runs,
        Err(fault) => return check(name, CheckStatus::Fail, fault.to_string(), None),
    };
    let total = format!("{} in this workspace", runs.total);
    let Some(first) = runs.unreadable.first() else { return check(name, CheckStatus::Ok, total, None) };
    let many = runs.unreadable.len();
    let message = format!("{total}, {many} of them cannot be read: {} ({})", first.name, first.message);
    let hint = format!("`flowdrive verify {}` says what is wrong with it; the others are not affected", first.name);
    check(name, CheckStatus::Warn, message, Some(hint))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
