//! Whether an agent can be used at all, looked at before a task is spent on it: its program, the variables of its headers.
//!
//! Must not: start or ask anything. What only trying can tell is told by trying.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flowdrive_protocol::ids::AgentName;

use super::delegator::Delegator;
use super::{env, program};
use crate::model::agent::{Agent, Target};

/// What was found of each agent, looked at once for a drive.
#[derive(Debug)]
pub(crate) struct Usable {
    delegator: Delegator,
    known: RefCell<BTreeMap<AgentName, Option<String>>>,
}

impl Usable {
    /// Nothing looked at yet.
    pub(crate) fn new(delegator: Delegator) -> Self {
        Self { delegator, known: RefCell::default() }
    }

    /// Why the agent cannot be used, redacted; none when nothing speaks against it.
    pub(crate) fn fault(&self, agent: &Agent) -> Option<String> {
        let mut known = self.known.borrow_mut();
        known.entry(agent.name.clone()).or_insert_with(|| self.delegator.unusable(agent)).clone()
    }
}

/// Why an agent cannot be used, given the server's environment.
pub(super) fn fault(agent: &Agent, parent: &BTreeMap<String, String>) -> Option<String> {
    match &agent.target {
        Target::Command { argv, .. } => {
            let name = argv.first().map(String::as_str).unwrap_or_default();
            match program::find(name, &env::build(&agent.env, parent).vars) {
                Ok(path) if program::is_program(&path) => None,
                Ok(path) => Some(format!("{} is no program, or may not be executed", path.display())),
                Err(reason) => Some(reason),
            }
        }
        Target::Endpoint { headers, .. } => {
            let (header, variable) = headers
                .iter()
                .find(|(_, variable)| env::is_never_forwarded(variable) || !parent.contains_key(*variable))?;
            Some(format!("header {header} needs environment variable {variable}, which is not set or never sent"))
        }
    }
}
