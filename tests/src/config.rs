//! The user's configuration, as a test wants it: a `config.toml` outside the workspace, passed with `--config`.

use std::num::NonZeroU32;

use flowdrive_protocol::config::{AgentConfig, Config};
use flowdrive_protocol::ids::AgentName;

use crate::binary;
use crate::workspace::TestWorkspace;

/// A name, checked.
///
/// # Panics
/// When it is not an agent's name.
#[must_use]
pub fn agent_name(name: &str) -> AgentName {
    AgentName::new(name).expect("tests name agents well")
}

/// The fixture agent with these arguments. It writes into the workspace's ledger whatever it is asked to do.
#[must_use]
pub fn fixture(ws: &TestWorkspace, arguments: &[&str]) -> AgentConfig {
    let path = |path: std::path::PathBuf| path.to_str().expect("temporary paths are UTF-8").to_owned();
    let mut command = vec![path(binary::fixture_agent().to_owned())];
    for (flag, value) in [
        ("--input", "{{input}}".to_owned()),
        ("--result", "{{result}}".to_owned()),
        ("--worker", "{{workerDir}}".to_owned()),
        ("--ledger", path(ws.ledger())),
    ] {
        command.extend([flag.to_owned(), value]);
    }
    command.extend(arguments.iter().map(ToString::to_string));
    AgentConfig { command: Some(command), ..AgentConfig::default() }
}

/// An endpoint agent at this URL.
#[must_use]
pub fn endpoint(url: &str) -> AgentConfig {
    AgentConfig { endpoint: Some(url.to_owned()), ..AgentConfig::default() }
}

/// The same agent with a limit on how many of it run at once.
#[must_use]
pub fn at_most(agent: AgentConfig, count: u32) -> AgentConfig {
    AgentConfig { max_concurrent: NonZeroU32::new(count), ..agent }
}

/// A configuration of these agents; the first is the default.
#[must_use]
pub fn config(agents: impl IntoIterator<Item = (&'static str, AgentConfig)>) -> Config {
    let agents: Vec<(AgentName, AgentConfig)> =
        agents.into_iter().map(|(name, agent)| (agent_name(name), agent)).collect();
    Config {
        default_agent: agents.first().map(|(name, _)| name.clone()),
        agents: agents.into_iter().collect(),
        ..Config::default()
    }
}
