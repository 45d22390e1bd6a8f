//! One finding of a result, from whatever shape an agent gave it.
//!
//! Must not: judge whether its evidence holds.

use std::collections::HashSet;
use std::ops::ControlFlow;

use flowdrive_protocol::outcome::{Classification, Severity};
use serde_json::Value;

use super::evidence::{Flaw, Locator, classify};
use super::fields::{Fields, cut, locators, placed, string, text};
use super::harvest;
use super::json::trim;
use super::parse::{Cited, Origin, SUMMARY_BYTES};

/// A finding as the result states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedFinding {
    /// As the agent named it, or `finding-<n>`, counted from 1.
    pub id: String,
    /// The claim.
    pub summary: String,
    /// What the agent holds it to be.
    pub classification: Classification,
    /// How bad it is.
    pub severity: Severity,
    /// What it stands on. At most 32 locators.
    pub evidence: Cited,
}

/// Most locators one finding has.
pub(crate) const FINDING_EVIDENCE: usize = 32;

/// Longest id kept, in bytes.
const ID_BYTES: usize = 200;

const ID: &[&str] = &["id", "key", "name", "title"];
const SUMMARY: &[&str] = &[
    "summary",
    "title",
    "claim",
    "finding",
    "issue",
    "risk",
    "problem",
    "description",
    "message",
    "text",
    "details",
    "name",
];
const CLASS: &[&str] = &["classification", "class", "kind", "status"];
const SEVERITY: &[&str] = &["severity", "priority", "level", "rank", "rating"];
const EVIDENCE: &[&str] = &[
    "evidence",
    "evidence_paths",
    "evidencePaths",
    "locators",
    "refs",
    "files",
    "file",
    "location",
    "locations",
    "path",
    "paths",
    "line",
    "lines",
    "where",
];

/// Fields that name or rate a finding. Nothing in them is evidence, though an id such as `auth/a.rs` looks like it.
pub(super) const LABELS: &[&str] = &[
    "id",
    "key",
    "name",
    "classification",
    "class",
    "kind",
    "status",
    "severity",
    "priority",
    "level",
    "rank",
    "rating",
];

/// Reads the finding at `index`, counted from 0.
pub(super) fn read(value: &Value, index: usize) -> ParsedFinding {
    let numbered = || format!("finding-{}", index + 1);
    let Some(fields) = value.as_object() else {
        return ParsedFinding {
            id: numbered(),
            summary: value.as_str().map(|text| cut(trim(text), SUMMARY_BYTES).to_owned()).unwrap_or_default(),
            classification: Classification::Unknown,
            severity: Severity::None,
            evidence: harvested(value),
        };
    };
    ParsedFinding {
        id: text(fields, ID).map_or_else(numbered, |id| cut(&id, ID_BYTES).to_owned()),
        summary: string(fields, SUMMARY).map(|text| cut(text, SUMMARY_BYTES).to_owned()).unwrap_or_default(),
        classification: string(fields, CLASS).map_or(Classification::Unknown, classification),
        severity: string(fields, SEVERITY).map_or(Severity::None, severity),
        evidence: evidence(value, fields),
    }
}

/// What the finding lists as its evidence or, when that names no place, the locators found in it.
fn evidence(value: &Value, fields: &Fields) -> Cited {
    let mut named = Vec::new();
    for name in EVIDENCE {
        match fields.get(*name) {
            // A path beside the lines it goes with.
            Some(Value::String(_)) if ["path", "file", "location"].contains(name) => named.extend(placed(fields)),
            // Bare numbers go with a path; by themselves they are no place.
            Some(value) if ["line", "lines"].contains(name) => {
                let mut found = Vec::new();
                match value {
                    Value::Array(items) => items.iter().for_each(|item| locators(item, &mut found)),
                    value => locators(value, &mut found),
                }
                named.extend(found.into_iter().filter(|locator| !is_free_text(locator)));
            }
            Some(Value::Array(items)) => items.iter().for_each(|item| locators(item, &mut named)),
            Some(value) => locators(value, &mut named),
            None => {}
        }
    }
    let mut seen = HashSet::new();
    named.retain(|locator| seen.insert(locator.clone()));
    named.truncate(FINDING_EVIDENCE);
    if named.iter().all(|locator| is_free_text(locator)) {
        let found = harvested(value);
        if !found.locators.is_empty() {
            return found;
        }
    }
    Cited { locators: named, origin: Origin::Declared }
}

fn is_free_text(locator: &str) -> bool {
    classify(locator) == Locator::Ungrounded(Flaw::FreeText)
}

fn harvested(value: &Value) -> Cited {
    let mut found = std::collections::BTreeSet::new();
    let _ = harvest::each_in(value, LABELS, &mut |locator| {
        found.insert(locator.to_owned());
        if found.len() < FINDING_EVIDENCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    Cited { locators: found.into_iter().collect(), origin: Origin::Harvested }
}

/// What the agent's word for a class means. Words are looked at whole: `invalid` does not mean `valid`.
fn classification(text: &str) -> Classification {
    let text = text.to_lowercase();
    let has = |wanted: &[&str]| words(&text).any(|word| wanted.contains(&word));
    let negated = has(&["not", "no", "false", "never"]);
    if text.contains("non") && text.contains("issue")
        || negated && text.contains("issue")
        || has(&["false"]) && has(&["positive", "positives", "alarm"])
    {
        Classification::NonIssue
    } else if negated {
        Classification::Unknown
    } else if has(&["real", "confirmed", "true", "valid"]) {
        Classification::Real
    } else if has(&["conditional", "possible", "possibly", "maybe", "potential", "potentially"]) {
        Classification::Conditional
    } else {
        Classification::Unknown
    }
}

/// What the agent's word for a severity means: `P0` to `P3` anywhere, else the worst of the usual words.
fn severity(text: &str) -> Severity {
    let text = text.to_uppercase();
    let rated = words(&text).find_map(|word| match word {
        "P0" => Some(Severity::P0),
        "P1" => Some(Severity::P1),
        "P2" => Some(Severity::P2),
        "P3" => Some(Severity::P3),
        _ => None,
    });
    // `SEV` also begins the word for the field itself.
    let begins = |prefixes: &[&str]| {
        words(&text).any(|word| word != "SEVERITY" && prefixes.iter().any(|prefix| word.starts_with(prefix)))
    };
    rated.unwrap_or_else(|| {
        if begins(&["CRIT", "BLOCKER"]) {
            Severity::P0
        } else if begins(&["HIGH", "SEV"]) {
            Severity::P1
        } else if begins(&["MED"]) {
            Severity::P2
        } else if begins(&["LOW", "MINOR", "NIT"]) {
            Severity::P3
        } else {
            Severity::None
        }
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_are_read_from_the_agents_words() {
        use Classification as C;
        for (text, wanted) in [
            ("real", C::Real),
            ("Confirmed", C::Real),
            ("true", C::Real),
            ("valid bug", C::Real),
            ("true-positive", C::Real),
            ("conditional", C::Conditional),
            ("possible", C::Conditional),
            ("MAYBE", C::Conditional),
            ("potential_risk", C::Conditional),
            ("non-issue", C::NonIssue),
            ("Non Issue", C::NonIssue),
            ("nonissue", C::NonIssue),
            ("not an issue", C::NonIssue),
            ("false positive", C::NonIssue),
            ("invalid", C::Unknown),
            ("unconfirmed", C::Unknown),
            ("not confirmed", C::Unknown),
            ("open", C::Unknown),
        ] {
            assert_eq!(classification(text), wanted, "{text}");
        }
    }

    #[test]
    fn severities_are_read_from_the_agents_words() {
        use Severity as S;
        for (text, wanted) in [
            ("P0", S::P0),
            ("p2", S::P2),
            ("low (P1)", S::P1),
            ("P1/P2", S::P1),
            ("P4", S::None),
            ("XP1", S::None),
            ("critical", S::P0),
            ("Blocker", S::P0),
            ("HIGH", S::P1),
            ("very_high", S::P1),
            ("severe", S::P1),
            ("Severity: low", S::P3),
            ("medium", S::P2),
            ("med", S::P2),
            ("immediate", S::None),
            ("low", S::P3),
            ("minor", S::P3),
            ("nitpick", S::P3),
            ("below", S::None),
            ("info", S::None),
            ("", S::None),
        ] {
            assert_eq!(severity(text), wanted, "{text}");
        }
    }

    #[test]
    fn names_are_taken_in_order() {
        let finding = read(
            &json!({ "key": "k", "title": "t", "class": "real", "kind": "non-issue", "priority": "high", "rank": "low" }),
            4,
        );
        assert_eq!((finding.id.as_str(), finding.summary.as_str()), ("k", "t"));
        assert_eq!((finding.classification, finding.severity), (Classification::Real, Severity::P1));
        assert_eq!(read(&json!({ "id": " ", "name": 7 }), 4).id, "7");
        assert_eq!(read(&json!({}), 4).id, "finding-5");
    }

    #[test]
    fn evidence_is_read_under_every_name() {
        for name in
            ["evidence", "evidence_paths", "evidencePaths", "locators", "refs", "files", "locations", "paths", "lines"]
        {
            let finding = read(&json!({ name: ["b.rs:2", " a.rs:1 ", "b.rs:2"] }), 0);
            assert_eq!(finding.evidence.locators, ["b.rs:2", "a.rs:1"], "{name}");
            assert_eq!(finding.evidence.origin, Origin::Declared, "{name}");
        }
        for name in ["evidence", "file", "location", "path", "line", "lines", "where", "refs"] {
            assert_eq!(read(&json!({ name: "a.rs:1" }), 0).evidence.locators, ["a.rs:1"], "{name}");
        }
        for (value, wanted) in [
            (json!({ "path": "a.rs", "line": 10 }), vec!["a.rs:10"]),
            (json!({ "file": "a.rs", "lines": "10-12" }), vec!["a.rs:10-12"]),
            (json!({ "location": { "file": "a.rs", "line": 3 } }), vec!["a.rs:3"]),
            (json!({ "evidence": [{ "path": "a.rs", "line": 3 }, 4, null], "path": "b.rs" }), vec!["a.rs:3", "b.rs"]),
            (json!({ "evidence": ["see a.rs:1"] }), vec!["see a.rs:1"]),
            (json!({ "path": "a.rs", "lines": ["10", "12"] }), vec!["a.rs:10-12"]),
            (json!({ "lines": ["10", "a.rs:0"], "line": 4 }), vec!["a.rs:0"]),
        ] {
            assert_eq!(read(&value, 0).evidence.locators, wanted, "{value}");
        }
    }

    #[test]
    fn without_a_named_place_the_finding_is_searched() {
        let finding = read(&json!({ "id": "x/y.rs", "evidence": ["I looked"], "why": "see b.rs:2 and `a.rs`" }), 0);
        assert_eq!(
            finding.evidence,
            Cited { locators: vec!["a.rs".into(), "b.rs:2".into()], origin: Origin::Harvested }
        );
        let finding = read(&json!({ "evidence": ["I looked"] }), 0);
        assert_eq!(finding.evidence, Cited { locators: vec!["I looked".into()], origin: Origin::Declared });
    }

    #[test]
    fn a_finding_that_is_no_object_is_kept() {
        let finding = read(&json!("critical: leak in a.rs:3"), 1);
        assert_eq!((finding.id.as_str(), finding.summary.as_str()), ("finding-2", "critical: leak in a.rs:3"));
        assert_eq!((finding.classification, finding.severity), (Classification::Unknown, Severity::None));
        assert_eq!(finding.evidence.locators, ["a.rs:3"]);
        assert_eq!(read(&json!(null), 0).evidence.locators, Vec::<String>::new());
    }

    #[test]
    fn evidence_is_capped() {
        let many: Vec<String> = (0..100).map(|n| format!("f{n}.rs")).collect();
        assert_eq!(read(&json!({ "evidence": many }), 0).evidence.locators.len(), FINDING_EVIDENCE);
        assert_eq!(read(&json!(many.join(" ")), 0).evidence.locators.len(), FINDING_EVIDENCE);
    }
}
