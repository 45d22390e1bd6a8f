//! The token budget of a run: whether one more agent may start, and when to warn.
//!
//! Only what agents report counts. What those under way will spend is reserved: for each, what its agent spent on
//! average in this run before.

use crate::model::journal::{DriveSettings, JournalEvent};
use crate::model::state::{AgentUse, RunState};

/// The part of a budget, in percent, from which on a warning is due.
pub const WARN_AT: u64 = 80;

/// Tokens the run may spend; 0 if there is no limit.
#[must_use]
pub fn allowed(state: &RunState, settings: &DriveSettings) -> u64 {
    settings.token_budget.unwrap_or(state.workflow.limits.token_budget)
}

/// The tokens spent and those allowed, when no more agents may start. With nothing under way, that is when all are
/// spent.
#[must_use]
pub fn exhausted(state: &RunState, settings: &DriveSettings) -> Option<(u64, u64)> {
    let budget = allowed(state, settings);
    let spent = state.tokens_spent();
    (budget > 0 && spent.saturating_add(reserved(state)) >= budget).then_some((spent, budget))
}

/// What agents under way are expected to spend.
#[must_use]
pub fn reserved(state: &RunState) -> u64 {
    let of_agent = |used: &AgentUse| match used.reported {
        0 => 0,
        reported => used.tokens.div_ceil(u64::from(reported)).saturating_mul(u64::from(used.running)),
    };
    state.agents_used().fold(0_u64, |sum, (_, used)| sum.saturating_add(of_agent(used)))
}

/// The warning that is due, if most of the budget is spent and none was given for it yet.
#[must_use]
pub fn warning(state: &RunState, settings: &DriveSettings) -> Option<JournalEvent> {
    let (budget, spent) = (allowed(state, settings), state.tokens_spent());
    let most = u128::from(spent) * 100 >= u128::from(budget) * u128::from(WARN_AT);
    (budget > 0 && most && state.budget_warned != Some(budget)).then_some(JournalEvent::BudgetWarned { spent, budget })
}
