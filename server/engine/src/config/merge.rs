//! Lays configurations over one another.

use flowdrive_protocol::config::{AgentConfig, Config, EnvPolicy};

/// The places a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// What the client said. Wins over everything.
    pub initialization_options: Config,
    /// What the environment says.
    pub environment: Config,
    /// What the user's file says.
    pub file: Config,
}

impl Layers {
    /// One configuration: each field from the strongest place that has it, agents of one name field by field. Whoever
    /// says how an agent is reached (preset, command or endpoint) replaces what weaker places say about that.
    #[must_use]
    pub fn merge(self) -> Config {
        over(self.initialization_options, over(self.environment, self.file))
    }
}

fn over(strong: Config, weak: Config) -> Config {
    let mut agents = weak.agents;
    for (name, agent) in strong.agents {
        let below = agents.remove(&name).unwrap_or_default();
        agents.insert(name, agent_over(agent, below));
    }
    Config {
        default_agent: strong.default_agent.or(weak.default_agent),
        max_concurrent_agents: strong.max_concurrent_agents.or(weak.max_concurrent_agents),
        agents,
        notifications: strong.notifications.or(weak.notifications),
        protocol_version: strong.protocol_version.or(weak.protocol_version),
    }
}

fn agent_over(strong: AgentConfig, mut weak: AgentConfig) -> AgentConfig {
    if strong.preset.is_some() || strong.command.is_some() || strong.endpoint.is_some() {
        weak.preset = None;
        weak.command = None;
        weak.endpoint = None;
        // Headers carry the credentials of the endpoint they were written for; no other may get them.
        weak.headers.clear();
        weak.ca_file = None;
    }
    AgentConfig {
        preset: strong.preset.or(weak.preset),
        command: strong.command.or(weak.command),
        endpoint: strong.endpoint.or(weak.endpoint),
        model: strong.model.or(weak.model),
        timeout_ms: strong.timeout_ms.or(weak.timeout_ms),
        idle_timeout_ms: strong.idle_timeout_ms.or(weak.idle_timeout_ms),
        max_concurrent: strong.max_concurrent.or(weak.max_concurrent),
        stdin: strong.stdin.or(weak.stdin),
        env: policy_over(strong.env, weak.env),
        headers: if strong.headers.is_empty() { weak.headers } else { strong.headers },
        ca_file: strong.ca_file.or(weak.ca_file),
        attest_public_key: strong.attest_public_key.or(weak.attest_public_key),
        require_attested_usage: strong.require_attested_usage.or(weak.require_attested_usage),
    }
}

/// The stronger policy, except that what any place denies stays denied.
fn policy_over(strong: Option<EnvPolicy>, weak: Option<EnvPolicy>) -> Option<EnvPolicy> {
    match (strong, weak) {
        (Some(mut strong), Some(weak)) => {
            let more: Vec<String> = weak.deny.into_iter().filter(|name| !strong.deny.contains(name)).collect();
            strong.deny.extend(more);
            Some(strong)
        }
        (strong, weak) => strong.or(weak),
    }
}
