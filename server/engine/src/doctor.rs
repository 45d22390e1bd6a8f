//! Looks at the installation: which agents can be run, and whether the workspace can hold runs.
//!
//! Must not write anything, start an agent or ask the network.

use std::path::{Path, PathBuf};

use flowdrive_protocol::method::DoctorResult;
use flowdrive_protocol::run::{CheckStatus, DoctorCheck};

use crate::config::Agents;
use crate::delegate::Delegator;
use crate::model::agent::{Agent, Target};
use crate::store::Workspace;

/// Makes all checks.
pub(crate) fn examine(agents: &Agents, delegator: &Delegator, workspace: Option<&str>) -> DoctorResult {
    let mut checks = Vec::new();
    let default = agents.default_agent();
    for agent in agents.iter() {
        checks.push(agent_check(agent, agent.name == default.name, delegator));
    }
    if let Some(path) = workspace {
        checks.extend(workspace_checks(path));
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

fn agent_check(agent: &Agent, default: bool, delegator: &Delegator) -> DoctorCheck {
    let name = format!("agent {}{}", agent.name, if default { " (default)" } else { "" });
    let shown = delegator.describe(agent, agent.model.as_deref());
    match &agent.target {
        Target::Endpoint { .. } => check(
            name,
            CheckStatus::Ok,
            format!("posts to {shown}"),
            Some("not asked: a check starts nothing".to_owned()),
        ),
        Target::Command { argv, preset, .. } => {
            let program = argv.first().map(String::as_str).unwrap_or_default();
            match on_path(program) {
                Some(found) => check(name, CheckStatus::Ok, format!("{}; runs {shown}", found.display()), None),
                // A preset nobody asked for is worth a line, not a fault.
                None if preset.is_some() && !default => check(
                    name,
                    CheckStatus::Warn,
                    format!("{program} is not on PATH"),
                    Some(format!("install {program} to use this agent")),
                ),
                None => check(
                    name,
                    CheckStatus::Fail,
                    format!("{program} is not on PATH, or not a program"),
                    Some("correct the agent's command in the configuration, or install the program".to_owned()),
                ),
            }
        }
    }
}

/// Where a program is, the way the system looks for it.
fn on_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        return executable(&path).then_some(path);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| executable(candidate))
}

#[cfg(unix)]
fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn executable(path: &Path) -> bool {
    path.is_file()
}

fn workspace_checks(path: &str) -> Vec<DoctorCheck> {
    let name = "workspace";
    let workspace = match Workspace::open(Path::new(path)) {
        Ok(workspace) => workspace,
        Err(fault) => {
            let hint = Some("give the absolute path of an existing folder".to_owned());
            return vec![check(name, CheckStatus::Fail, fault.to_string(), hint)];
        }
    };
    let state = workspace.root().join(".cw");
    let place = if state.exists() { &state } else { workspace.root() };
    let mut checks = vec![match nix::unistd::access(place, nix::unistd::AccessFlags::W_OK) {
        Ok(()) => check(name, CheckStatus::Ok, format!("{} can hold runs", workspace.root().display()), None),
        Err(fault) => check(
            name,
            CheckStatus::Fail,
            format!("{} cannot be written: {fault}", place.display()),
            Some("runs are kept in .cw of the workspace; make it writable".to_owned()),
        ),
    }];
    checks.push(match workspace.list_runs() {
        Ok(runs) => check("runs", CheckStatus::Ok, format!("{} in this workspace", runs.len()), None),
        Err(fault) => check("runs", CheckStatus::Fail, fault.to_string(), None),
    });
    checks
}
