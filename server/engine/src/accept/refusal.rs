//! Why a result is refused, in words for the agent that will read them in its next attempt's input.
//!
//! Must not: say that something is wrong without saying what to change.

use thiserror::Error;

/// The result's block cannot be read.
pub const RESULT_PARSE_ERROR: &str = "result-parse-error";
/// The result is no file of the attempt's folder, but leads out of it.
pub const SANDBOX_WRITE_DENIED: &str = "sandbox-write-denied";
/// The agent must sign what it used, and did not.
pub const UNATTESTED_USAGE: &str = "telemetry-unattested-blocked";
/// The task requires evidence and has none.
pub const MISSING_REQUIRED_EVIDENCE: &str = "missing-required-evidence";
/// A cited place does not exist.
pub const EVIDENCE_UNRESOLVABLE: &str = "evidence-unresolvable";
/// A finding of P0 to P2 has no evidence of its own that holds.
pub const FINDING_WITHOUT_EVIDENCE: &str = "finding-without-evidence";
/// The result stands on Flowdrive's own files instead of on the workspace's.
pub const OFF_TARGET: &str = "worker-off-target";
/// A file that was named or promised does not exist.
pub const MISSING_ARTIFACT_PATH: &str = "missing-artifact-path";

/// Longest piece of an agent's own text that is quoted back, in characters.
const QUOTE_CHARS: usize = 120;

/// How many things of one kind are named; the rest is counted.
const NAMED: usize = 12;

/// Why a result is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refusal {
    /// Stable, in kebab case. Of several faults, the first one's.
    pub code: &'static str,
    /// Everything that is wrong and what to mend; one fault a line.
    pub message: String,
    /// Whether another attempt that reads the message could do better. So it is for every refusal of this layer.
    pub retryable: bool,
    /// The first file at fault, relative to the workspace, where there is one.
    pub path: Option<String>,
}

impl Refusal {
    /// A refusal that another attempt could mend.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: true, path: None }
    }
}

/// An agent's own text, in back quotes, on one line, and cut.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("`");
    for (index, c) in text.chars().enumerate() {
        if index == QUOTE_CHARS {
            quoted.push('…');
            break;
        }
        quoted.push(if c.is_control() || c == '`' { ' ' } else { c });
    }
    quoted.push('`');
    quoted
}

/// The first few items, and how many there are besides.
pub(super) fn list(items: &[String]) -> String {
    let mut text = items[..items.len().min(NAMED)].join("; ");
    if items.len() > NAMED {
        text.push_str(&format!("; and {} more", items.len() - NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_one_short_line() {
        assert_eq!(quote("a`b\nc"), "`a b c`");
        assert_eq!(quote(&"é".repeat(500)).chars().count(), QUOTE_CHARS + 3);
    }

    #[test]
    fn a_long_list_is_counted() {
        let items: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(list(&items), "0; 1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; and 8 more");
        assert_eq!(list(&items[..2]), "0; 1");
    }
}
