//! Findings and open feedback as an editor shows them: diagnostics at their place in the code, as the file is now. Pure.
//!
//! Must not: read files, or know which run is the newest.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use flowdrive_engine::accept::Lines;
use flowdrive_engine::accept::standing::{Standing, standing};
use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackSeverity, FeedbackStatus};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::outcome::{Classification, Evidence, Finding, Severity};
use flowdrive_protocol::run::{TaskStatus, TaskView};
use serde_json::Value;
use tower_lsp::lsp_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Position,
    Range, Url,
};

use super::offers::About;

/// Who the diagnostics are from, as editors show it.
const SOURCE: &str = "flowdrive";

/// By file.
pub(crate) type ByFile = BTreeMap<Url, Vec<Mark>>;

/// Files as they are now: `None` where one is gone. One that is not in it is not looked at.
pub(crate) type Now = HashMap<Url, Option<Lines>>;

/// Something to show at a place in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    /// As it was when the result was accepted.
    diagnostic: Diagnostic,
    /// The lines it cites, where it stands on lines.
    cited: Option<Evidence>,
    /// Further places, and what is cited there.
    further: Vec<(Location, Evidence)>,
}

impl Mark {
    /// The files whose change can change it, for one that stands in `file`.
    pub(crate) fn cites<'a>(&'a self, file: &'a Url) -> impl Iterator<Item = &'a Url> {
        let own = self.cited.iter().map(move |_| file);
        own.chain(self.further.iter().map(|(location, _)| &location.uri))
    }

    /// As it is to be shown in `file` now: it follows lines that moved, and says so when they are no longer there. It
    /// begins and ends with what stands on its lines, where the file can be read.
    pub(crate) fn shown(&self, file: &Url, now: &Now, columns: Columns) -> Diagnostic {
        let mut shown = self.diagnostic.clone();
        let look = |evidence: &Evidence, file: &Url| {
            now.get(file).map_or(Standing::AsCited, |lines| standing(evidence, lines.as_ref()))
        };
        if let Some(evidence) = &self.cited {
            match look(evidence, file) {
                Standing::AsCited => {}
                Standing::Moved(first) => shown.range = moved(shown.range, first),
                Standing::Stale => mark_stale(&mut shown, evidence),
            }
            shown.range = narrowed(shown.range, now.get(file), columns);
        }
        let further: Vec<DiagnosticRelatedInformation> = self
            .further
            .iter()
            .map(|(location, evidence)| {
                let mut location = location.clone();
                let mut message = "also here".to_owned();
                match look(evidence, &location.uri) {
                    Standing::AsCited => {}
                    Standing::Moved(first) => location.range = moved(location.range, first),
                    Standing::Stale => message.push_str(", but these lines have changed since"),
                }
                location.range = narrowed(location.range, now.get(&location.uri), columns);
                DiagnosticRelatedInformation { location, message }
            })
            .collect();
        shown.related_information = (!further.is_empty()).then_some(further);
        shown
    }
}

/// How a client counts columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// In bytes.
    Utf8,
    /// In units of UTF-16.
    Utf16,
}

impl Columns {
    fn of(self, text: &str) -> u32 {
        let columns = match self {
            Self::Utf8 => text.len(),
            Self::Utf16 => text.encode_utf16().count(),
        };
        u32::try_from(columns).unwrap_or(u32::MAX)
    }
}

/// Whole lines without the blanks before the first and after the last: what an editor underlines. As they are where the
/// file was not read, is shorter, or has nothing there.
fn narrowed(range: Range, lines: Option<&Option<Lines>>, columns: Columns) -> Range {
    let last = range.end.line.saturating_sub(1);
    let line = |number: u32| lines?.as_ref()?.get(usize::try_from(number).ok()?);
    let (Some(begins), Some(ends)) = (line(range.start.line), line(last)) else { return range };
    let indent = &begins[..begins.len() - begins.trim_start().len()];
    // A blank first line has no beginning of its own.
    let start = if indent.len() == begins.len() { 0 } else { columns.of(indent) };
    let narrow = Range::new(Position::new(range.start.line, start), Position::new(last, columns.of(ends.trim_end())));
    if narrow.start < narrow.end { narrow } else { range }
}

fn moved(range: Range, first: u32) -> Range {
    let more = range.end.line.saturating_sub(range.start.line);
    let first = first.saturating_sub(1);
    Range::new(Position::new(first, 0), Position::new(first.saturating_add(more), 0))
}

/// The least of severities, since nobody knows whether it still holds; and the reason. No tag: both there are would strike
/// out or fade the code itself.
fn mark_stale(diagnostic: &mut Diagnostic, evidence: &Evidence) {
    diagnostic.severity = Some(DiagnosticSeverity::HINT);
    diagnostic.message.push_str("\nStale: the cited lines have changed since");
    if let Some(text) = evidence.text.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        diagnostic.message.push_str(&format!(" (then: `{text}`)"));
    }
    diagnostic.message.push('.');
    if let Some(data) = diagnostic.data.as_mut() {
        data["stale"] = Value::Bool(true);
    }
}

/// A run, for placing what is said of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) id: &'a RunId,
    /// Absolute, or relative to the workspace.
    pub(crate) report: &'a str,
    /// Whether the client shows further places of a diagnostic.
    pub(crate) related: bool,
}

impl Run<'_> {
    fn address(&self, path: &str) -> Option<Url> {
        let joined: PathBuf = Path::new(self.workspace).join(path);
        Url::from_file_path(joined).ok()
    }

    fn report_path(&self) -> PathBuf {
        Path::new(self.workspace).join(self.report)
    }

    /// Where the reader finds more.
    fn description(&self) -> Option<CodeDescription> {
        Url::from_file_path(self.report_path()).ok().map(|href| CodeDescription { href })
    }

    fn about(&self, task: Option<String>, feedback: Option<String>, settled_by: Vec<String>) -> Option<Value> {
        let about = About {
            workspace: self.workspace.to_owned(),
            run_id: self.id.clone(),
            report_path: self.report_path().display().to_string(),
            task_id: task,
            feedback_id: feedback,
            settled_by,
            stale: false,
        };
        serde_json::to_value(about).ok()
    }
}

/// Adds the findings of accepted tasks. One without a place in a file has nowhere to be shown.
pub(crate) fn add_findings(run: Run<'_>, tasks: &[TaskView], to: &mut ByFile) {
    for task in tasks {
        for finding in task.findings.iter().filter(|finding| finding.classification != Classification::NonIssue) {
            let mut places = finding.evidence.iter().filter_map(|evidence| Some((place(run, evidence)?, evidence)));
            let Some((first, cited)) = places.next() else { continue };
            let further = places.filter(|_| run.related).map(|(location, cited)| (location, cited.clone()));
            let diagnostic = Diagnostic {
                range: first.range,
                severity: Some(finding_severity(finding.severity)),
                code: Some(NumberOrString::String(finding.id.clone())),
                code_description: run.description(),
                source: Some(SOURCE.to_owned()),
                message: claim(finding, task),
                data: run.about(Some(task.id.to_string()), None, Vec::new()),
                ..Diagnostic::default()
            };
            let mark = Mark { diagnostic, cited: Some(cited.clone()), further: further.collect() };
            to.entry(first.uri).or_default().push(mark);
        }
    }
}

/// The accepted tasks that bring evidence: their verdicts can settle a record of feedback.
pub(crate) fn settlers(tasks: &[TaskView]) -> Vec<String> {
    let brings_evidence = |task: &&TaskView| task.findings.iter().any(|finding| !finding.evidence.is_empty());
    let accepted = tasks.iter().filter(|task| task.status == TaskStatus::Completed);
    accepted.filter(brings_evidence).map(|task| task.id.to_string()).collect()
}

/// Adds open feedback: at the file at fault, else at the top of the report.
pub(crate) fn add_feedback(run: Run<'_>, records: &[FeedbackRecord], settlers: &[String], to: &mut ByFile) {
    let open = |record: &&FeedbackRecord| matches!(record.status, FeedbackStatus::Open | FeedbackStatus::Tasked);
    for record in records.iter().filter(open) {
        let Some(uri) = record.path.as_deref().and_then(|path| run.address(path)).or_else(|| run.address(run.report))
        else {
            continue;
        };
        let task = record.task_id.as_ref().map(ToString::to_string);
        let severity = match record.severity {
            FeedbackSeverity::High => DiagnosticSeverity::ERROR,
            FeedbackSeverity::Medium => DiagnosticSeverity::WARNING,
            FeedbackSeverity::Low => DiagnosticSeverity::INFORMATION,
        };
        let diagnostic = Diagnostic {
            range: lines(1, 1),
            severity: Some(severity),
            code: Some(NumberOrString::String(record.code.clone())),
            code_description: run.description(),
            source: Some(SOURCE.to_owned()),
            message: match &task {
                Some(task) => format!("{task} waits for you: {}", record.message),
                None => format!("the run waits for you: {}", record.message),
            },
            data: run.about(task, Some(record.id.to_string()), settlers.to_vec()),
            ..Diagnostic::default()
        };
        to.entry(uri).or_default().push(Mark { diagnostic, cited: None, further: Vec::new() });
    }
}

fn claim(finding: &Finding, task: &TaskView) -> String {
    let text = if finding.summary.is_empty() { finding.id.as_str() } else { finding.summary.as_str() };
    let rated = match finding.severity {
        Severity::P0 => "P0: ",
        Severity::P1 => "P1: ",
        Severity::P2 => "P2: ",
        Severity::P3 => "P3: ",
        Severity::None => "",
    };
    format!("{rated}{text} ({})", task.id)
}

/// Never a hint, which VS Code lists nowhere: a finding that nobody sees is lost. The rating stands in the message.
const fn finding_severity(severity: Severity) -> DiagnosticSeverity {
    match severity {
        Severity::P0 => DiagnosticSeverity::ERROR,
        Severity::P1 => DiagnosticSeverity::WARNING,
        Severity::P2 | Severity::P3 | Severity::None => DiagnosticSeverity::INFORMATION,
    }
}

fn place(run: Run<'_>, evidence: &Evidence) -> Option<Location> {
    let uri = run.address(evidence.path.as_deref()?)?;
    let first = evidence.line.unwrap_or(1);
    Some(Location { uri, range: lines(first, evidence.end_line.unwrap_or(first)) })
}

/// Whole lines, counted from 1. Columns are set when it is shown, since lines move.
fn lines(first: u32, last: u32) -> Range {
    let first = first.max(1);
    Range { start: Position::new(first - 1, 0), end: Position::new(last.max(first), 0) }
}

#[cfg(test)]
mod tests;
