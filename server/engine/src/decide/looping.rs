//! Whether a loop runs once more.

use flowdrive_protocol::outcome::Severity;
use flowdrive_protocol::workflow::LoopUntil;

use crate::model::journal::JournalEvent;
use crate::model::state::{PhaseState, RunState};

/// The decision that is due, if the latest round of a loop is all accepted and none was made for it yet.
#[must_use]
pub fn due(state: &RunState) -> Option<JournalEvent> {
    state.phases.iter().find_map(|phase| {
        let looping = phase.looping.as_ref()?;
        if looping.decided || phase.tasks.is_empty() || !phase.is_complete() {
            return None;
        }
        let spec = state.loop_spec(phase)?;
        let (done, reason) = verdict(state, phase, &spec.until);
        let at_cap = looping.round >= spec.max_rounds.get();
        Some(JournalEvent::LoopDecided {
            phase: looping.origin.clone(),
            round: looping.round,
            done: done || at_cap,
            at_cap,
            reason,
        })
    })
}

/// What ends a loop before its last round.
#[must_use]
pub fn in_words(until: &LoopUntil) -> String {
    match until {
        LoopUntil::NoNewFindings(_) => "a round has no findings".to_owned(),
        LoopUntil::FindingsBelow(severity) => format!("a round has no finding of {severity:?} or worse"),
        LoopUntil::BudgetTarget(target) => format!("the run has spent {target} tokens"),
        LoopUntil::Predicate(name) => match name.as_str() {
            "no-new-findings" => "a round has no findings".to_owned(),
            "single-round" => "one round is done".to_owned(),
            other => format!("one round is done: the predicate {other:?} is not known"),
        },
    }
}

fn verdict(state: &RunState, round: &PhaseState, until: &LoopUntil) -> (bool, String) {
    let findings = || {
        let results = round.tasks.iter().filter_map(|place| state.tasks[*place].accepted.as_ref());
        results.flat_map(|result| &result.findings)
    };
    let none_left = |name: &str, none: bool| {
        let rest = if none { "the latest round produced no findings" } else { "the latest round still has findings" };
        (none, format!("{name}: {rest}"))
    };
    match until {
        LoopUntil::NoNewFindings(_) => none_left("no-new-findings", findings().next().is_none()),
        LoopUntil::FindingsBelow(severity) => {
            let worst = findings().map(|finding| finding.severity).filter(|s| *s != Severity::None).min();
            let done = worst.is_none_or(|worst| worst > *severity);
            (done, format!("findings-below {severity:?}: the latest round's worst is {worst:?}"))
        }
        LoopUntil::BudgetTarget(target) => {
            let spent = state.tokens_spent();
            (spent >= *target, format!("budget-target: {spent}/{target} recorded tokens"))
        }
        LoopUntil::Predicate(name) => match name.as_str() {
            "no-new-findings" => none_left("no-new-findings", findings().next().is_none()),
            "single-round" => (true, "single-round: one round is all".to_owned()),
            _ => (true, format!("loop predicate \"{name}\" not registered — stopping fail-closed")),
        },
    }
}
