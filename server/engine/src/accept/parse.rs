//! Reads a result: the `cw:result` block, or plain text when there is none.
//!
//! Must not: judge what it reads, panic, or take more than linear time, whatever an agent wrote.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::Value;

use super::evidence::{Locator, classify};
use super::fields::{Fields, array, cut, locators, string};
use super::finding::{self, ParsedFinding};
use super::refusal::{RESULT_PARSE_ERROR, Refusal};
use super::{fence, harvest, json};

/// A result as its text states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedResult {
    /// The result in a sentence or a few. May be empty.
    pub summary: String,
    /// Its findings, in its order.
    pub findings: Vec<ParsedFinding>,
    /// What it stands on as a whole.
    pub evidence: Cited,
    /// Files it says it made, trimmed, each once, in its order.
    pub artifacts: Vec<String>,
    /// Whether it has neither findings nor evidence.
    pub empty_capture: bool,
}

/// Locators, and how they came to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cited {
    /// The locators, as the agent wrote them. Declared ones may be prose; harvested ones are all grounded.
    pub locators: Vec<String>,
    /// How they came to be there.
    pub origin: Origin,
}

/// How locators came to be in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The agent listed them as evidence, in this order.
    Declared,
    /// They were found in the text, and are sorted by bytes.
    Harvested,
}

/// Most locators harvested from one result.
pub const HARVESTED_EVIDENCE: usize = 256;

/// Longest summary kept, in bytes. The result file keeps all of it.
pub(super) const SUMMARY_BYTES: usize = 8000;

const OPENING: &str = "```cw:result";
const CLOSING: &str = "```";

const SUMMARY: &[&str] = &["summary", "short_answer", "shortAnswer", "verdict", "answer", "conclusion"];
const FINDINGS: &[&str] = &[
    "findings",
    "candidate_risks",
    "candidateRisks",
    "risks",
    "ranked_risks",
    "rankedRisks",
    "top_risks",
    "topRisks",
    "issues",
    "problems",
    "concerns",
];
const ARTIFACTS: &[&str] = &["artifacts", "artifact_paths", "artifactPaths"];

/// Reads the text of a `result.md`.
///
/// The first block that opens with three back quotes and `cw:result` counts; later ones are ignored, and so are those
/// inside a fence of more back quotes or of tildes, which show what a block looks like. A text without
/// one is a result too: its first line is the summary, and the locators in it are its evidence.
///
/// # Errors
/// A refusal with the code `result-parse-error` when the block is not one JSON object. So it is when the block is cut
/// off: what is missing is not made up.
pub fn parse(text: &str) -> Result<ParsedResult, Refusal> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(block) = block(text).map_err(|fault| unreadable(&fault))? else {
        let evidence = harvested(&[text], None, &[]);
        return Ok(ParsedResult {
            summary: first_line(text).to_owned(),
            findings: Vec::new(),
            empty_capture: evidence.locators.is_empty(),
            evidence,
            artifacts: Vec::new(),
        });
    };
    match block.value {
        Value::Object(fields) => Ok(envelope(&fields, block.before, block.after)),
        other => Err(unreadable(&format!("expected an object, found {}", kind(&other)))),
    }
}

fn unreadable(fault: &str) -> Refusal {
    Refusal::new(
        RESULT_PARSE_ERROR,
        format!(
            "Invalid cw:result JSON: {fault}. Write one JSON object between a line ```cw:result and a line ```, such \
             as {{\"summary\": \"...\", \"findings\": [], \"evidence\": [\"src/main.rs:10-12\"]}}."
        ),
    )
}

fn envelope(fields: &Fields, before: &str, after: &str) -> ParsedResult {
    let findings: Vec<ParsedFinding> = array(fields, FINDINGS)
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, value)| finding::read(value, index))
        .collect();
    let summary = string(fields, SUMMARY).unwrap_or_else(|| match first_line(before) {
        "" => first_line(after),
        line => line,
    });
    let declared = fields.get("evidence").and_then(|value| match value {
        Value::Array(items) if !items.is_empty() => Some(items.as_slice()),
        // A single locator without the list around it.
        Value::String(text) if !json::trim(text).is_empty() => Some(std::slice::from_ref(value)),
        _ => None,
    });
    let evidence = match declared {
        Some(items) => {
            let mut found = Vec::new();
            items.iter().for_each(|item| locators(item, &mut found));
            Cited { locators: found, origin: Origin::Declared }
        }
        None => harvested(&[before, after], Some(fields), &findings),
    };
    ParsedResult {
        summary: cut(summary, SUMMARY_BYTES).to_owned(),
        empty_capture: findings.is_empty() && evidence.locators.is_empty(),
        artifacts: artifacts(fields),
        findings,
        evidence,
    }
}

fn artifacts(fields: &Fields) -> Vec<String> {
    let mut seen = BTreeSet::new();
    ARTIFACTS
        .iter()
        .filter_map(|name| fields.get(*name)?.as_array())
        .flatten()
        .filter_map(|item| item.as_str().or_else(|| item.get("path")?.as_str()))
        .map(json::trim)
        .filter(|path| !path.is_empty() && seen.insert(*path))
        .map(str::to_owned)
        .collect()
}

/// Locators of the block's JSON, then of its findings, then of the text around it, until there are enough.
fn harvested(texts: &[&str], fields: Option<&Fields>, findings: &[ParsedFinding]) -> Cited {
    let mut found = BTreeSet::new();
    let mut take = |locator: &str| {
        found.insert(locator.to_owned());
        if found.len() < HARVESTED_EVIDENCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut all = || {
        for (name, value) in fields.into_iter().flatten() {
            // Artifacts are what was made, not what a claim stands on.
            if !finding::LABELS.contains(&name.as_str()) && !ARTIFACTS.contains(&name.as_str()) {
                harvest::each_in(value, finding::LABELS, &mut take)?;
            }
        }
        for locator in findings.iter().flat_map(|finding| &finding.evidence.locators) {
            if !matches!(classify(locator), Locator::Ungrounded(_)) && !locator.contains(char::is_whitespace) {
                take(locator)?;
            }
        }
        texts.iter().try_for_each(|text| harvest::each(text, &mut take))
    };
    let _ = all();
    Cited { locators: found.into_iter().collect(), origin: Origin::Harvested }
}

/// The `cw:result` block and the text around it.
struct Block<'a> {
    before: &'a str,
    value: Value,
    after: &'a str,
}

fn block(text: &str) -> Result<Option<Block<'_>>, String> {
    let Some(opening) = fence::opening(text, OPENING) else {
        return Ok(None);
    };
    let before = &text[..opening];
    let body = &text[opening + OPENING.len()..];
    let close = body.find(CLOSING);
    let fault = match close {
        Some(close) => match json::parse(json::trim(&body[..close])) {
            Ok(value) => return Ok(Some(Block { before, value, after: &body[close + CLOSING.len()..] })),
            Err(error) => error.to_string(),
        },
        None => "the block is not closed by ```".to_owned(),
    };
    // The JSON may hold back quotes itself, or be complete though the closing fence was forgotten.
    let start = body.len() - body.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len();
    let Some((value, end)) = json::parse_prefix(&body[start..]) else {
        return Err(fault);
    };
    let rest = body[start + end..].trim_start();
    match rest.strip_prefix(CLOSING) {
        Some(after) => Ok(Some(Block { before, value, after })),
        None if rest.is_empty() => Ok(Some(Block { before, value, after: "" })),
        None => Err(fault),
    }
}

/// The first line that is not blank, no heading and no fence, trimmed and cut.
fn first_line(text: &str) -> &str {
    let line = text
        .lines()
        .map(json::trim)
        .find(|line| !line.is_empty() && !line.starts_with(['#']) && !line.starts_with(CLOSING));
    cut(line.unwrap_or_default(), SUMMARY_BYTES)
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
pub(super) mod tests;
