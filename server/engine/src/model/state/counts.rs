//! Counts that are kept along the way, so that asking for them does not walk the tasks.

use std::collections::BTreeMap;

use flowdrive_protocol::ids::AgentName;
use flowdrive_protocol::outcome::Usage;

use crate::model::outcome::{HandleKind, Outcome};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) completed: u32,
    pub(super) parked: u32,
    pub(super) tokens: u64,
    pub(super) agents: BTreeMap<AgentName, AgentUse>,
}

/// What an agent used in a run, as far as it reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentUse {
    /// Its attempts under way.
    pub running: u32,
    /// Its attempts that ended and reported tokens.
    pub reported: u32,
    /// The tokens of those.
    pub tokens: u64,
}

impl Counts {
    /// Changes what is counted of an agent. One of which nothing is counted is not kept, so that counting along the way
    /// and counting anew give the same.
    pub(super) fn count_agent(&mut self, agent: &AgentName, change: impl FnOnce(&mut AgentUse)) {
        let mut used = self.agents.remove(agent).unwrap_or_default();
        change(&mut used);
        if used != AgentUse::default() {
            self.agents.insert(agent.clone(), used);
        }
    }

    /// Counts an attempt's outcome.
    pub(super) fn count_outcome(&mut self, agent: &AgentName, outcome: &Outcome) {
        let tokens = outcome.report.usage.as_deref().map_or(0, Usage::spent);
        self.tokens = self.tokens.saturating_add(tokens);
        // A sub-workflow's tokens are those of other agents.
        if tokens > 0 && matches!(outcome.handle, HandleKind::Process | HandleKind::Endpoint) {
            self.count_agent(agent, |used| {
                used.reported += 1;
                used.tokens = used.tokens.saturating_add(tokens);
            });
        }
    }
}
