//! Findings and open feedback as an editor shows them: diagnostics at their place in the code, and what can be done about
//! them there. Pure.
//!
//! Must not: read files, or know which run is the newest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackSeverity, FeedbackStatus};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::outcome::{Classification, Evidence, Finding, Severity};
use flowdrive_protocol::run::TaskView;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower_lsp::lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, Command, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, Location, NumberOrString, Position, Range, Url,
};

use super::service::{OPEN_REPORT, RESOLVE_COMMAND};

/// Who the diagnostics are from, as editors show it.
const SOURCE: &str = "flowdrive";

/// By file.
pub(crate) type ByFile = BTreeMap<Url, Vec<Diagnostic>>;

/// What a diagnostic is about; travels in its `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    workspace: String,
    run_id: RunId,
    report_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feedback_id: Option<String>,
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

    fn about(&self, task: Option<String>, feedback: Option<String>) -> Option<Value> {
        let about = About {
            workspace: self.workspace.to_owned(),
            run_id: self.id.clone(),
            report_path: Path::new(self.workspace).join(self.report).display().to_string(),
            task_id: task,
            feedback_id: feedback,
        };
        serde_json::to_value(about).ok()
    }
}

/// Adds the findings of accepted tasks. One without a place in a file has nowhere to be shown.
pub(crate) fn add_findings(run: Run<'_>, tasks: &[TaskView], to: &mut ByFile) {
    for task in tasks {
        for finding in task.findings.iter().filter(|finding| finding.classification != Classification::NonIssue) {
            let mut places = finding.evidence.iter().filter_map(|evidence| place(run, evidence));
            let Some(first) = places.next() else { continue };
            let others: Vec<DiagnosticRelatedInformation> = places
                .filter(|_| run.related)
                .map(|location| DiagnosticRelatedInformation { location, message: "also here".to_owned() })
                .collect();
            let diagnostic = Diagnostic {
                range: first.range,
                severity: Some(finding_severity(finding.severity)),
                code: Some(NumberOrString::String(finding.id.clone())),
                source: Some(SOURCE.to_owned()),
                message: claim(finding, task),
                related_information: (!others.is_empty()).then_some(others),
                data: run.about(Some(task.id.to_string()), None),
                ..Diagnostic::default()
            };
            to.entry(first.uri).or_default().push(diagnostic);
        }
    }
}

/// Adds open feedback: at the file at fault, else at the top of the report.
pub(crate) fn add_feedback(run: Run<'_>, records: &[FeedbackRecord], to: &mut ByFile) {
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
            source: Some(SOURCE.to_owned()),
            message: match &task {
                Some(task) => format!("{task} waits for you: {}", record.message),
                None => format!("the run waits for you: {}", record.message),
            },
            data: run.about(task, Some(record.id.to_string())),
            ..Diagnostic::default()
        };
        to.entry(uri).or_default().push(diagnostic);
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

const fn finding_severity(severity: Severity) -> DiagnosticSeverity {
    match severity {
        Severity::P0 => DiagnosticSeverity::ERROR,
        Severity::P1 => DiagnosticSeverity::WARNING,
        Severity::P2 => DiagnosticSeverity::INFORMATION,
        Severity::P3 | Severity::None => DiagnosticSeverity::HINT,
    }
}

fn place(run: Run<'_>, evidence: &Evidence) -> Option<Location> {
    let uri = run.address(evidence.path.as_deref()?)?;
    let first = evidence.line.unwrap_or(1);
    Some(Location { uri, range: lines(first, evidence.end_line.unwrap_or(first)) })
}

/// Whole lines, counted from 1; no column is used, so that no encoding of columns matters.
fn lines(first: u32, last: u32) -> Range {
    let first = first.max(1);
    Range { start: Position::new(first - 1, 0), end: Position::new(last.max(first), 0) }
}

/// What can be done about the diagnostics that touch a range.
pub(crate) fn actions(diagnostics: &[Diagnostic], range: Range) -> Vec<CodeActionOrCommand> {
    let touches = |diagnostic: &&Diagnostic| diagnostic.range.start <= range.end && range.start <= diagnostic.range.end;
    let mut actions = Vec::new();
    for diagnostic in diagnostics.iter().filter(touches) {
        let about = diagnostic.data.clone().and_then(|data| serde_json::from_value::<About>(data).ok());
        let Some(about) = about else { continue };
        let mut offer = |title: String, command: &str, argument: Value| {
            actions.push(CodeActionOrCommand::CodeAction(CodeAction {
                title: title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![diagnostic.clone()]),
                command: Some(Command { title, command: command.to_owned(), arguments: Some(vec![argument]) }),
                ..CodeAction::default()
            }));
        };
        if let Some(feedback) = &about.feedback_id {
            let what = about.task_id.as_deref().unwrap_or("the run");
            for (title, resolution) in [
                (format!("Flowdrive: try {what} again"), "retry"),
                (format!("Flowdrive: reject, and leave {what} as it is"), "rejected"),
            ] {
                let argument = json!({"workspace": about.workspace, "runId": about.run_id, "feedbackId": feedback, "resolution": resolution});
                offer(title, RESOLVE_COMMAND, argument);
            }
        }
        offer("Flowdrive: open the report".to_owned(), OPEN_REPORT, json!({ "path": about.report_path }));
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "r";

    fn with_run<T>(work: impl FnOnce(Run<'_>) -> T) -> T {
        let id = RunId::new(RUN).unwrap();
        work(Run { workspace: "/ws", id: &id, report: ".cw/runs/r/report.md", related: true })
    }

    fn task(findings: &Value) -> TaskView {
        serde_json::from_value(
            json!({"id": "map:a", "phase": "map", "status": "completed", "attempts": 1, "findings": findings}),
        )
        .unwrap()
    }

    fn file(path: &str, line: u32, end: Option<u32>) -> Value {
        json!({"locator": path, "kind": "file", "path": path, "line": line, "endLine": end})
    }

    fn record(status: &str, path: Option<&str>) -> FeedbackRecord {
        serde_json::from_value(json!({"schemaVersion": 1, "id": "f1", "runId": RUN, "createdAt": "2026-01-02T03:04:05Z",
            "updatedAt": "2026-01-02T03:04:05Z", "status": status, "severity": "high",
            "classification": "missing-evidence",
            "source": "verifier",
            "code": "missing-required-evidence", "message": "no evidence", "taskId": "map:a", "path": path, "retryable": true}))
        .unwrap()
    }

    fn address(path: &str) -> Url {
        Url::from_file_path(path).unwrap()
    }

    #[test]
    fn a_finding_is_shown_at_its_first_place_and_names_the_others() {
        let task = task(&json!([
            {"id": "f-1", "summary": "no limit", "classification": "real", "severity": "P1",
             "evidence": [{"locator": "spec:x", "kind": "token"}, file("src/a b.rs", 10, Some(12)), file("src/c.rs", 3, None)]},
            {"id": "f-2", "summary": "fine", "classification": "non-issue", "severity": "none", "evidence": [file("src/c.rs", 1, None)]},
            {"id": "f-3", "summary": "nowhere", "classification": "real", "severity": "P0", "evidence": []},
        ]));
        let mut by_file = ByFile::new();
        with_run(|run| add_findings(run, &[task], &mut by_file));
        assert_eq!(by_file.keys().collect::<Vec<_>>(), [&address("/ws/src/a b.rs")]);
        let shown = &by_file[&address("/ws/src/a b.rs")][0];
        assert_eq!(shown.message, "P1: no limit (map:a)");
        assert_eq!(shown.severity, Some(DiagnosticSeverity::WARNING));
        assert_eq!(shown.range, Range::new(Position::new(9, 0), Position::new(12, 0)));
        let related = &shown.related_information.as_ref().unwrap()[0].location;
        assert_eq!((&related.uri, related.range.start.line), (&address("/ws/src/c.rs"), 2));
    }

    #[test]
    fn feedback_is_shown_while_it_is_open_and_can_be_answered_there() {
        let mut by_file = ByFile::new();
        let records = [record("open", Some("src/a.rs")), record("open", None), record("resolved", None)];
        with_run(|run| add_feedback(run, &records, &mut by_file));
        let report = address("/ws/.cw/runs/r/report.md");
        assert_eq!(by_file.values().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
        let offered = actions(&by_file[&report], Range::default());
        let commands: Vec<&Command> = offered
            .iter()
            .filter_map(|offer| match offer {
                CodeActionOrCommand::CodeAction(action) => action.command.as_ref(),
                CodeActionOrCommand::Command(_) => None,
            })
            .collect();
        let names: Vec<&str> = commands.iter().map(|command| command.command.as_str()).collect();
        assert_eq!(names, ["flowdrive.resolveFeedback", "flowdrive.resolveFeedback", "flowdrive.openReport"]);
        let argument = &commands[0].arguments.as_ref().unwrap()[0];
        assert_eq!(argument, &json!({"workspace": "/ws", "runId": "r", "feedbackId": "f1", "resolution": "retry"}));
        assert!(serde_json::from_value::<flowdrive_protocol::method::ResolveFeedbackParams>(argument.clone()).is_ok());
        let elsewhere = Range::new(Position::new(50, 0), Position::new(50, 3));
        assert!(actions(&by_file[&report], elsewhere).is_empty());
    }
}
