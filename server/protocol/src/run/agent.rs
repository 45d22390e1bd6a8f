//! Agents as clients see them, for choosing one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Preset;
use crate::ids::AgentName;

/// An agent that tasks can be given to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSummary {
    /// Its name.
    pub name: AgentName,
    /// How it is reached.
    pub kind: AgentKind,
    /// The preset it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Whether tasks that name no agent go to it.
    pub default: bool,
    /// Whether nothing speaks against using it: its program is there, what it needs is set.
    pub usable: bool,
    /// What speaks against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command line or URL, secrets replaced. Placeholders are left as they are.
    pub invocation: String,
    /// The model it is asked to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// How an agent is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    /// A program.
    Command,
    /// An HTTP endpoint.
    Endpoint,
}
