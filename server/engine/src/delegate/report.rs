//! What an agent says about itself on plain output, as the outcome holds it.
//!
//! Must not: parse; `accept` knows the shapes agents use.

use serde_json::Value;

use crate::accept::report::{PlainReport, parse_plain};
use crate::accept::usage::normalise;
use crate::model::outcome::AgentReport;

/// Reads plain output.
#[must_use]
pub(super) fn of_plain(stdout: &str) -> AgentReport {
    split(parse_plain(stdout)).0
}

/// Reads plain output whose text may be the result itself.
#[must_use]
pub(super) fn with_result(stdout: &str) -> (AgentReport, Option<String>) {
    split(parse_plain(stdout))
}

fn split(plain: PlainReport) -> (AgentReport, Option<String>) {
    let report = AgentReport {
        model: plain.model,
        usage: plain.usage.as_ref().map(normalise).filter(|usage| !usage.is_empty()).map(Box::new),
        raw_usage: plain.usage.filter(Value::is_object).map(Box::new),
        usage_signature: plain.usage_signature,
        session: plain.session,
    };
    (report, plain.result_body)
}
