//! Agents and limits, as the user configures them: in `flowdrive/config.toml`, in `initializationOptions`, or in the
//! environment. Never read from a workspace.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::ids::AgentName;

/// The user's configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The agent for tasks that name none. `builtin:survey` when nothing is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<AgentName>,
    /// Agents in flight at once over all runs of this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_agents: Option<NonZeroU32>,
    /// The agents, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<AgentName, AgentConfig>,
    /// Events this client does not want. Only read from `initializationOptions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notifications: Option<NotificationOptions>,
    /// The protocol version the client was made for. Only read from `initializationOptions` and `serverInfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<u32>,
}

/// What a client wants to be told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NotificationOptions {
    /// Event types that are not sent to this client.
    pub opt_out: Vec<EventKind>,
    /// Have the report shown when a drive has ended, where the client can show documents.
    pub show_report: bool,
}

/// One agent: exactly one of `preset`, `command` and `endpoint`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentConfig {
    /// A known program, called the way its own documentation says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Program and arguments. `{{manifest}} {{input}} {{result}} {{workerDir}} {{model}} {{prompt}}` are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// URL that delegations are posted to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Passed on as `{{model}}`, or in the endpoint's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Wall-clock limit for one delegation in milliseconds. Default 600,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Longest silence allowed in milliseconds. 0: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Delegations to this agent in flight at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<NonZeroU32>,
    /// What a command agent gets on its standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<StdinMode>,
    /// Which environment variables the agent gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvPolicy>,
    /// Request headers of an endpoint agent: header name to the name of the environment variable that holds the value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A file of PEM certificates that an endpoint's own may be signed by, besides those the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// Ed25519 public key (PEM, or a path to one) that the agent's reported usage must verify under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attest_public_key: Option<String>,
    /// Refuse results whose usage carries no valid signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_attested_usage: Option<bool>,
}

/// Programs Flowdrive knows how to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Claude Code.
    Claude,
    /// OpenAI Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// The embedded survey agent.
    Survey,
}

/// What a command agent gets on its standard input. Never the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StdinMode {
    /// Immediate end of file.
    #[default]
    Closed,
    /// The prompt, then end of file.
    Prompt,
}

/// Which environment variables an agent gets. Names only; `deny` wins over everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvPolicy {
    /// Start from the server's whole environment.
    pub inherit: bool,
    /// Names passed on when they are set.
    #[serde(alias = "expose")]
    pub pass: Vec<String>,
    /// Names never passed on.
    pub deny: Vec<String>,
}
