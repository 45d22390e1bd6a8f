//! What test agents wrote down about themselves: one line when an agent starts, one when it ends. Lines are appended
//! with `O_APPEND` in one write each, so agents never lose each other's lines and a kill loses at most the end line.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::wait::now_ms;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The task, as its prompt marks it.
    pub task: String,
    /// The folder of the attempt.
    pub worker: String,
    /// The agent's process.
    pub pid: u32,
    /// Whether it starts or ends.
    pub what: What,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The agent began.
    Start,
    /// The agent is about to end by itself.
    End,
}

/// A span of time in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// Appends a line.
///
/// # Errors
/// When the file cannot be written.
pub fn append(file: &Path, task: &str, worker: &str, what: What) -> io::Result<()> {
    let entry = Entry { task: task.to_owned(), worker: worker.to_owned(), pid: std::process::id(), what, at: now_ms() };
    let mut line = serde_json::to_string(&entry)?;
    line.push('\n');
    OpenOptions::new().append(true).create(true).open(file)?.write_all(line.as_bytes())
}

/// Every line, in order of writing. No file: no lines.
///
/// # Panics
/// When a line is not a ledger line.
#[must_use]
pub fn read(file: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("agents write whole ledger lines")).collect()
}

/// How often each task's agent was started.
#[must_use]
pub fn runs(file: &Path) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for entry in read(file).into_iter().filter(|entry| entry.what == What::Start) {
        *runs.entry(entry.task).or_insert(0) += 1;
    }
    runs
}

/// The spans of agents that ended by themselves.
#[must_use]
pub fn spans(file: &Path) -> Vec<Span> {
    let entries = read(file);
    entries
        .iter()
        .filter(|entry| entry.what == What::End)
        .filter_map(|end| {
            let start = entries.iter().find(|start| start.pid == end.pid && start.what == What::Start)?;
            Some(Span { start: start.at, end: end.at })
        })
        .collect()
}

/// The largest number of spans that share a moment. Spans that only touch do not overlap.
#[must_use]
pub fn peak(spans: &[Span]) -> usize {
    let mut edges: Vec<(u64, i32)> = spans.iter().flat_map(|span| [(span.start, 1), (span.end, -1)]).collect();
    edges.sort_unstable();
    let (mut open, mut peak) = (0_i32, 0_i32);
    for (_, step) in edges {
        open += step;
        peak = peak.max(open);
    }
    usize::try_from(peak).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_counts_what_is_open_at_once() {
        let span = |start, end| Span { start, end };
        assert_eq!(peak(&[]), 0);
        assert_eq!(peak(&[span(0, 10), span(10, 20)]), 1);
        assert_eq!(peak(&[span(0, 10), span(5, 20), span(9, 11), span(30, 40)]), 3);
    }
}
