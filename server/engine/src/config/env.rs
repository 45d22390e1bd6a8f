//! The configuration in the environment, under the earlier tool's names. It makes one agent, `env`, the default one.

use std::collections::BTreeMap;

use flowdrive_protocol::config::{AgentConfig, Config};
use flowdrive_protocol::ids::AgentName;

use super::check::{self, preset_named};
use super::error::ConfigError;
use super::words;
use crate::workflow::document::{FieldPath, cut, listed};
use crate::workflow::{Fault, Faults};

/// Reads `CW_AGENT_COMMAND` (split into words like a shell would, with quotes; or `builtin:<preset>`), `CW_AGENT_ENDPOINT`
/// (the command wins where both are set), `CW_AGENT_MODEL`, `CW_AGENT_TIMEOUT_MS` (0: the default),
/// `CW_AGENT_ATTEST_PUBKEY` and `CW_REQUIRE_ATTESTED_TELEMETRY`. Empty values count as not set. Without a command or an
/// endpoint the others have nothing to apply to, and the configuration is empty.
///
/// # Errors
/// [`ConfigError`] naming every variable whose value cannot be used.
pub fn from_env(env: &BTreeMap<String, String>) -> Result<Config, ConfigError> {
    let mut faults = Vec::new();
    let mut fault = |name: &str, message: String| {
        faults.push(Fault::new(&FieldPath::root().key(name), None, message));
    };
    let get = |name: &str| env.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());

    let mut agent = AgentConfig::default();
    match (get("CW_AGENT_COMMAND"), get("CW_AGENT_ENDPOINT")) {
        (Some(line), _) => match words::split(line) {
            Ok(argv) => match argv.as_slice() {
                [single] if single.starts_with("builtin:") => {
                    agent.preset = preset_named(single.trim_start_matches("builtin:"));
                    if agent.preset.is_none() {
                        let known = listed(["claude", "codex", "gemini", "opencode", "survey"]);
                        fault("CW_AGENT_COMMAND", format!("unknown preset {:?}. Known presets: {known}", cut(single)));
                    }
                }
                _ => agent.command = Some(argv),
            },
            Err(reason) => fault("CW_AGENT_COMMAND", format!("cannot be split into words: {reason}")),
        },
        (None, Some(url)) => agent.endpoint = Some(url.to_owned()),
        (None, None) => {
            if get("CW_AGENT_MODEL").is_some() {
                tracing::warn!("CW_AGENT_MODEL has no effect without CW_AGENT_COMMAND or CW_AGENT_ENDPOINT");
            }
            return Ok(Config::default());
        }
    }
    agent.model = get("CW_AGENT_MODEL").map(str::to_owned);
    agent.attest_public_key = get("CW_AGENT_ATTEST_PUBKEY").map(str::to_owned);
    agent.timeout_ms = match get("CW_AGENT_TIMEOUT_MS").map(str::parse::<u64>) {
        None | Some(Ok(0)) => None,
        Some(Ok(limit)) => Some(limit),
        Some(Err(_)) => {
            fault("CW_AGENT_TIMEOUT_MS", "must be a whole number of milliseconds".to_owned());
            None
        }
    };
    agent.require_attested_usage = match get("CW_REQUIRE_ATTESTED_TELEMETRY").map(str::to_ascii_lowercase).as_deref() {
        None => None,
        Some("1" | "true" | "yes" | "on") => Some(true),
        Some("0" | "false" | "no" | "off") => Some(false),
        Some(_) => {
            fault("CW_REQUIRE_ATTESTED_TELEMETRY", "must be 1 or 0 (or true, yes, on, false, no, off)".to_owned());
            None
        }
    };
    let name = AgentName::new("env").expect("`env` fits the grammar of agent names");
    let variable_of = |path: &FieldPath| {
        let path = path.to_string();
        let of_field = [("endpoint", "CW_AGENT_ENDPOINT"), ("command", "CW_AGENT_COMMAND")];
        of_field.into_iter().find(|(field, _)| path.ends_with(field)).map_or("CW_AGENT_COMMAND", |(_, name)| name)
    };
    if faults.is_empty() {
        for (path, message) in check::agent(&name, &agent, check::Extent::Layer) {
            faults.push(Fault::new(&FieldPath::root().key(variable_of(&path)), None, message));
        }
    }
    match Faults::new(None, faults) {
        Some(faults) => Err(ConfigError::Invalid(faults)),
        None => Ok(Config {
            default_agent: Some(name.clone()),
            agents: BTreeMap::from([(name, agent)]),
            ..Config::default()
        }),
    }
}
