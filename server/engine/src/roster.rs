//! The agents that tasks can be given to, for those who choose one. Must not: start or ask anything; `doctor` does.

use flowdrive_protocol::method::ListAgentsResult;
use flowdrive_protocol::run::{AgentKind, AgentSummary};
use flowdrive_protocol::workflow::Sandbox;

use crate::config::Agents;
use crate::delegate::Delegator;
use crate::model::agent::Target;

/// All of them, by name.
pub(crate) fn roster(agents: &Agents, delegator: &Delegator) -> ListAgentsResult {
    let default = &agents.default_agent().name;
    let agents = agents.iter().map(|agent| {
        let (kind, preset) = match &agent.target {
            Target::Command { preset, .. } => (AgentKind::Command, *preset),
            Target::Endpoint { .. } => (AgentKind::Endpoint, None),
        };
        let reason = delegator.unusable(agent);
        AgentSummary {
            name: agent.name.clone(),
            kind,
            preset,
            default: agent.name == *default,
            usable: reason.is_none(),
            reason,
            invocation: delegator.redact(&delegator.describe(agent, agent.model.as_deref(), Sandbox::default())),
            model: agent.model.clone(),
        }
    });
    ListAgentsResult { agents: agents.collect() }
}
