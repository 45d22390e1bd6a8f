//! What both forms of the report tell, taken from the state in one place.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};

use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::outcome::{Classification, Evidence, EvidenceKind, Finding, Severity, Usage};
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;

use crate::decide::feedback;
use crate::model::journal::AttestationStatus;
use crate::model::outcome::{Ending, Outcome};
use crate::model::state::{Attempt, RunState, TaskState, Verdict};

/// Places shown of a claim.
pub(super) const MAX_PLACES: usize = 8;

/// From `.cw/runs/<run>/` up to the workspace.
const TO_WORKSPACE: &str = "../../..";

/// A finding with the tasks that made it.
pub(super) struct Found<'a> {
    pub(super) finding: &'a Finding,
    first: &'a TaskState,
    /// The others, in task order. Mostly there are none.
    others: Vec<&'a TaskState>,
}

/// What makes two findings one: the same claim on the same evidence.
struct Claim<'a>(&'a Finding);

impl<'a> Claim<'a> {
    fn parts(&self) -> (Severity, Classification, &'a str, impl Iterator<Item = &'a str> + use<'a>) {
        let finding = self.0;
        let claim = if finding.summary.is_empty() { &finding.id } else { &finding.summary };
        let places = finding.evidence.iter().map(|evidence| evidence.locator.as_str());
        (finding.severity, finding.classification, claim, places)
    }
}

impl PartialEq for Claim<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.parts(), other.parts());
        (one.0, one.1, one.2) == (two.0, two.1, two.2) && one.3.eq(two.3)
    }
}

impl Eq for Claim<'_> {}

impl Hash for Claim<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (severity, classification, claim, places) = self.parts();
        (severity, classification, claim).hash(state);
        places.for_each(|place| place.hash(state));
    }
}

/// All findings, the worst first, and in task order within a severity. The same claim on the same evidence is one,
/// however many tasks made it.
pub(super) fn findings(state: &RunState) -> Vec<Found<'_>> {
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut known: HashMap<Claim<'_>, usize> = HashMap::new();
    for task in ordered(state) {
        for finding in task.accepted.iter().flat_map(|result| &result.findings) {
            match known.entry(Claim(finding)) {
                Entry::Occupied(known) => found[*known.get()].others.push(task),
                Entry::Vacant(new) => {
                    new.insert(found.len());
                    found.push(Found { finding, first: task, others: Vec::new() });
                }
            }
        }
    }
    // Stable: task order is kept within a severity.
    found.sort_by_key(|found| found.finding.severity);
    found
}

/// The ids of the tasks that made a finding, the first few, and how many more there are.
pub(super) fn makers(found: &Found<'_>) -> (Vec<String>, usize) {
    let others = found.others.iter().take(3).map(|task| task.id.to_string());
    let shown: Vec<String> = std::iter::once(found.first.id.to_string()).chain(others).collect();
    let rest = found.others.len() + 1 - shown.len();
    (shown, rest)
}

/// What is said of result files that are no longer what was accepted, and the tasks it is said of, the first few.
pub(super) fn altered(tasks: &[TaskId]) -> (String, Vec<String>) {
    let files = if tasks.len() == 1 { "1 result file is" } else { &*format!("{} result files are", tasks.len()) };
    let sentence = format!(
        "{files} no longer what was accepted. What is said here is what was accepted; the files are not. Verify the run:"
    );
    let mut named: Vec<String> = tasks.iter().take(MAX_PLACES).map(ToString::to_string).collect();
    if tasks.len() > named.len() {
        named.push(format!("{} more", tasks.len() - named.len()));
    }
    (sentence, named)
}

/// Tasks in the order of their phases.
pub(super) fn ordered(state: &RunState) -> impl Iterator<Item = &TaskState> {
    state.phases.iter().flat_map(|phase| &phase.tasks).map(|place| &state.tasks[*place])
}

/// Why a task is parked, and what to do about it, in words.
pub(super) fn why_parked(task: &TaskState) -> String {
    match (&task.refusal, task.attempts.last()) {
        (Some(refused), Some(attempt)) => feedback::in_words(&task.id, &attempt.worker, &refused.reason),
        (refused, _) => refused.as_ref().map(|refused| refused.reason.clone()).unwrap_or_default(),
    }
}

/// Feedback that waits for a person.
pub(super) fn waiting(state: &RunState) -> Vec<FeedbackRecord> {
    let mut records = crate::view::feedback(state, None);
    records.retain(|record| matches!(record.status, FeedbackStatus::Open | FeedbackStatus::Tasked));
    records
}

/// The tokens that agents reported, and the budget where there is one. None if there is nothing to tell.
pub(super) fn tokens(state: &RunState) -> Option<String> {
    let budget = match &state.settings {
        Some(settings) => crate::decide::budget::allowed(state, settings),
        None => state.workflow.limits.token_budget,
    };
    match (state.tokens_spent(), budget) {
        (0, 0) => None,
        (spent, 0) => Some(format!("{} as agents reported them", number(spent))),
        (spent, budget) => {
            Some(format!("{} of a budget of {}, as agents reported them", number(spent), number(budget)))
        }
    }
}

/// The tasks that were accepted without the signature their agent must give.
pub(super) fn overridden(state: &RunState) -> Vec<&str> {
    let allowed = |task: &&TaskState| {
        let attestation = task.accepted.as_ref().and_then(|result| result.attestation.as_ref());
        attestation.is_some_and(|attestation| attestation.overridden)
    };
    ordered(state).filter(allowed).map(|task| task.id.as_str()).collect()
}

/// Names of the variables that were passed on to agents, of all attempts.
pub(super) fn forwarded(state: &RunState) -> BTreeSet<&str> {
    let outcomes = state.tasks.iter().flat_map(|task| &task.attempts).filter_map(|attempt| attempt.outcome.as_deref());
    outcomes.flat_map(|outcome| &outcome.forwarded_env).map(String::as_str).collect()
}

/// One attempt, as the timeline shows it. Small: a run may have had tens of thousands.
pub(super) struct Ran<'a> {
    pub(super) task: &'a TaskState,
    /// Which attempt, from 1.
    pub(super) number: usize,
    pub(super) attempt: &'a Attempt,
}

impl<'a> Ran<'a> {
    fn outcome(&self) -> Option<&'a Outcome> {
        self.attempt.outcome.as_deref()
    }

    pub(super) fn from(&self) -> Timestamp {
        self.outcome().map_or(self.attempt.started_at, |outcome| outcome.started_at)
    }

    pub(super) fn to(&self) -> Timestamp {
        self.outcome().map_or(self.attempt.started_at, |outcome| outcome.ended_at)
    }

    pub(super) fn tokens(&self) -> Option<u64> {
        self.outcome().and_then(|outcome| outcome.report.usage.as_deref()).map(Usage::spent)
    }

    pub(super) fn model(&self) -> &'a str {
        self.outcome().and_then(|outcome| outcome.report.model.as_deref()).unwrap_or("unreported")
    }

    /// How it ended, in words.
    pub(super) fn ended(&self) -> Cow<'static, str> {
        match (self.attempt.verdict, self.outcome().map(|outcome| &outcome.ending)) {
            (Verdict::Accepted, _) => "accepted".into(),
            (Verdict::Interrupted, _) => "interrupted".into(),
            (Verdict::Refused, Some(Ending::Failed { code, .. })) => format!("failed: {code}").into(),
            (Verdict::Refused, _) => "result refused".into(),
            (Verdict::Open, _) => "running".into(),
        }
    }
}

/// All attempts, in task order.
pub(super) fn ran(state: &RunState) -> impl Iterator<Item = Ran<'_>> {
    ordered(state)
        .flat_map(|task| task.attempts.iter().enumerate().map(move |(n, attempt)| Ran { task, number: n + 1, attempt }))
}

/// What is said before the places of a result. Where evidence is not required, one may cite what is not there.
pub(super) fn standing_on(evidence: &[Evidence]) -> &'static str {
    if evidence.iter().all(|evidence| evidence.kind == EvidenceKind::Ungrounded) { "cites only" } else { "stands on" }
}

/// The link from the report to a cited file of the workspace.
pub(super) fn link(evidence: &Evidence) -> Option<String> {
    let path = evidence.path.as_ref()?;
    let anchor = match (evidence.line, evidence.end_line) {
        (Some(first), Some(last)) if last > first => format!("#L{first}-L{last}"),
        (Some(first), _) => format!("#L{first}"),
        _ => String::new(),
    };
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' | b'+' | b'@' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(format!("{TO_WORKSPACE}/{escaped}{anchor}"))
}

/// The run's inputs, the question first.
pub(super) fn inputs(state: &RunState) -> Vec<(&str, String)> {
    let mut inputs: Vec<_> = state.inputs.iter().map(|(name, given)| (name.as_str(), value(given))).collect();
    inputs.sort_by_key(|(name, _)| *name != "question");
    inputs
}

/// An input's value in words.
fn value(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(self::value).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

/// How many findings there are of each severity that occurs, the worst first.
pub(super) fn severities(found: &[Found<'_>]) -> Vec<(Severity, usize)> {
    let mut counts: Vec<(Severity, usize)> = Vec::new();
    for found in found {
        match counts.last_mut() {
            Some((severity, count)) if *severity == found.finding.severity => *count += 1,
            _ => counts.push((found.finding.severity, 1)),
        }
    }
    counts
}

/// A count with its thousands apart.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds in words.
pub(super) fn duration(millis: i64) -> String {
    let millis = millis.max(0);
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
        _ => format!("{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// What is to be said of usage that no key of the user's stands behind; none where every report of it is signed.
pub(super) fn unattested(state: &RunState) -> Option<String> {
    let reports = state.tasks.iter().filter_map(|task| task.accepted.as_ref()?.attestation.as_ref());
    let status: Vec<_> = reports.map(|found| found.status).filter(|s| *s != AttestationStatus::Absent).collect();
    match status.iter().filter(|status| **status == AttestationStatus::Unattested).count() {
        0 => None,
        all if all == status.len() => Some("all usage: no report of it is signed by a key you configured".to_owned()),
        some => Some(format!("{some} of {} reports of usage are not signed by a key you configured", status.len())),
    }
}

/// How a task stands, in words.
pub(super) const fn standing(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "not begun",
        TaskStatus::Running => "running",
        TaskStatus::Completed => "accepted",
        TaskStatus::Failed => "parked",
    }
}

/// What a finding is held to be, in words.
pub(super) const fn classification(classification: Classification) -> &'static str {
    match classification {
        Classification::Real => "real",
        Classification::Conditional => "conditional",
        Classification::NonIssue => "no issue",
        Classification::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_with_their_thousands_apart() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(number(count), text);
        }
    }
}
