//! The results that test agents deliver, shared by the fixture program and the loopback endpoint.

use serde_json::json;

/// What kind of result an agent delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A finding with evidence that exists.
    Good,
    /// A `cw:result` block without findings or evidence.
    NoEvidence,
    /// Free text only, where evidence should be.
    Ungrounded,
    /// A block that is not JSON.
    BadJson,
    /// A block that is JSON, but not an object.
    NotAnObject,
    /// Evidence in a file that does not exist.
    MissingFile,
    /// Evidence in a line that does not exist.
    MissingLine,
    /// A P1 finding without evidence of its own.
    BareFinding,
    /// No result at all.
    Nothing,
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "good" => Self::Good,
            "no-evidence" => Self::NoEvidence,
            "ungrounded" => Self::Ungrounded,
            "bad-json" => Self::BadJson,
            "not-an-object" => Self::NotAnObject,
            "missing-file" => Self::MissingFile,
            "missing-line" => Self::MissingLine,
            "bare-finding" => Self::BareFinding,
            "nothing" => Self::Nothing,
            other => return Err(format!("unknown kind of result {other:?}")),
        })
    }
}

/// The text of `result.md`, or none where the agent writes none. `label` tells results apart; `cite` is a locator that
/// exists in the workspace.
#[must_use]
pub fn text(kind: Kind, label: &str, cite: &str) -> Option<String> {
    let finding = |evidence: serde_json::Value, severity: &str| {
        json!({
            "summary": format!("{label} is answered"),
            "findings": [{
                "id": format!("finding-{label}"),
                "summary": format!("{label} is done here"),
                "classification": "real",
                "severity": severity,
                "evidence": evidence,
            }],
            "evidence": [cite],
        })
        .to_string()
    };
    let body = match kind {
        Kind::Good => finding(json!([cite]), "P2"),
        Kind::NoEvidence => json!({ "summary": "nothing to show", "findings": [], "evidence": [] }).to_string(),
        Kind::Ungrounded => {
            json!({ "summary": "trust me", "findings": [], "evidence": ["trust me on this one"] }).to_string()
        }
        Kind::BadJson => r#"{ "summary": "broken", "evidence": ["src/lib.rs:1" "#.to_owned(),
        Kind::NotAnObject => "null".to_owned(),
        Kind::MissingFile => {
            json!({ "summary": "invented", "findings": [], "evidence": ["src/never-written.rs:1"] }).to_string()
        }
        Kind::MissingLine => {
            json!({ "summary": "invented", "findings": [], "evidence": ["src/lib.rs:999999"] }).to_string()
        }
        Kind::BareFinding => finding(json!([]), "P1"),
        Kind::Nothing => return None,
    };
    Some(format!("# Result of {label}\n\n```cw:result\n{body}\n```\n"))
}

/// The label of the task a prompt belongs to: tests put `task-marker=<id>` into every prompt.
#[must_use]
pub fn marker(prompt: &str) -> Option<&str> {
    let (_, rest) = prompt.split_once("task-marker=")?;
    rest.split(|c: char| c.is_whitespace() || c == '"' || c == '\\').next().filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_marker_in_text_and_in_json() {
        assert_eq!(marker("Do it. task-marker=map:a\nThen stop."), Some("map:a"));
        assert_eq!(marker(r#"{"prompt":"x task-marker=map:b\nthen"}"#), Some("map:b"));
        assert_eq!(marker("no marker"), None);
    }
}
