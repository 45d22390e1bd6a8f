//! `report.md`.

use std::fmt::{self, Write as _};

use flowdrive_protocol::feedback::FeedbackStatus;
use flowdrive_protocol::outcome::{Classification, Evidence, EvidenceKind, Finding, Severity};
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;

use crate::model::journal::AcceptedResult;
use crate::model::outcome::Ending;
use crate::model::state::{Attempt, RunState, TaskState, Verdict};

/// From `.cw/runs/<run>/report.md` up to the workspace.
const TO_WORKSPACE: &str = "../../..";

/// Renders the report.
#[must_use]
pub fn render(state: &RunState) -> String {
    let mut page = Page(String::new());
    head(&mut page, state);
    findings(&mut page, state);
    answers(&mut page, state);
    parked(&mut page, state);
    timeline(&mut page, state);
    page.0
}

/// A text that grows by lines.
struct Page(String);

impl Page {
    fn line(&mut self, args: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(args);
        self.0.push('\n');
    }
}

fn head(page: &mut Page, state: &RunState) {
    page.line(format_args!("# {}\n", inline(&state.workflow.title)));
    if !state.workflow.summary.is_empty() {
        page.line(format_args!("{}\n", inline(&state.workflow.summary)));
    }
    for (name, value) in &state.inputs {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        page.line(format_args!("- **{name}**: {}", inline(&text)));
    }
    page.line(format_args!("- **run**: `{}` of `{}`", state.run_id, state.workflow.id));
    let reason = state.ended.as_ref().and_then(|ended| ended.reason.as_deref()).map(|r| format!(": {}", inline(r)));
    page.line(format_args!("- **status**: {}{}", state.status().as_str(), reason.unwrap_or_default()));
    let parked = if state.parked() > 0 { format!(", {} parked", state.parked()) } else { String::new() };
    page.line(format_args!("- **tasks**: {} of {} accepted{parked}", state.completed(), state.planned()));
    if state.tokens_spent() > 0 {
        page.line(format_args!("- **tokens**: {} as agents reported them", state.tokens_spent()));
    }
    if let Some(commit) = state.terminal_commit() {
        let standing = match &commit.verifier {
            Some(node) => format!("on the verified verdict `{node}`"),
            None => "as an unverified checkpoint: no verdict with evidence stands behind it".to_owned(),
        };
        let git = commit.git_head.as_ref().map(|head| format!(", workspace at git `{}`", &head[..12])).unwrap_or_default();
        page.line(format_args!("- **committed**: `{}` {standing}{git}", commit.id));
    }
    page.line(format_args!(""));
}

/// A finding with the task that made it.
type Found<'a> = (&'a Finding, &'a TaskState);

fn findings(page: &mut Page, state: &RunState) {
    let mut found: Vec<Found<'_>> = ordered(state)
        .filter_map(|task| task.accepted.as_ref().map(|result| (result, task)))
        .flat_map(|(result, task)| result.findings.iter().map(move |finding| (finding, task)))
        .collect();
    // Stable: task order is kept within a severity.
    found.sort_by_key(|(finding, _)| finding.severity);
    page.line(format_args!("## Findings\n"));
    if found.is_empty() {
        page.line(format_args!("None were reported.\n"));
        return;
    }
    page.line(format_args!("| | Claim | Held to be | Where | From |"));
    page.line(format_args!("| --- | --- | --- | --- | --- |"));
    for (finding, task) in found {
        let claim = if finding.summary.is_empty() { &finding.id } else { &finding.summary };
        page.line(format_args!(
            "| {} | {} | {} | {} | `{}` |",
            severity(finding.severity),
            cell(claim),
            classification(finding.classification),
            places(&finding.evidence),
            task.id
        ));
    }
    page.line(format_args!(""));
}

fn answers(page: &mut Page, state: &RunState) {
    page.line(format_args!("## Results\n"));
    for phase in &state.phases {
        page.line(format_args!("### {}\n", inline(&phase.title)));
        for task in phase.tasks.iter().map(|place| &state.tasks[*place]) {
            match &task.accepted {
                Some(result) => answer(page, task, result),
                None => page.line(format_args!("- `{}`: {}", task.id, standing(task.status))),
            }
        }
        page.line(format_args!(""));
    }
}

fn answer(page: &mut Page, task: &TaskState, result: &AcceptedResult) {
    let weak = if result.empty_capture { " _(neither findings nor evidence)_" } else { "" };
    page.line(format_args!("- [`{}`]({}): {}{weak}", task.id, result.path, inline(&result.summary)));
    if !result.evidence.is_empty() {
        page.line(format_args!("  - stands on {}", places(&result.evidence)));
    }
}

fn parked(page: &mut Page, state: &RunState) {
    let open: Vec<_> = crate::view::feedback(state, None)
        .into_iter()
        .filter(|record| matches!(record.status, FeedbackStatus::Open | FeedbackStatus::Tasked))
        .collect();
    if state.parked() == 0 && open.is_empty() {
        return;
    }
    page.line(format_args!("## Parked\n"));
    for task in ordered(state).filter(|task| task.status == TaskStatus::Failed) {
        let why = task.refusal.as_ref().map_or("", |refused| refused.reason.as_str());
        page.line(format_args!("- `{}`: {}", task.id, inline(why)));
    }
    if !open.is_empty() {
        page.line(format_args!("\nWaiting for a person:\n"));
        for record in &open {
            page.line(format_args!("- `{}` ({}): {}", record.id, record.classification.as_str(), inline(&record.message)));
        }
        let first = &open[0].id;
        page.line(format_args!(
            "\nTry a task again with guidance, then carry on:\n\n    flowdrive feedback resolve {} {first} --resolution retry --guidance \"...\"\n    flowdrive resume {}",
            state.run_id, state.run_id
        ));
    }
    page.line(format_args!(""));
}

fn timeline(page: &mut Page, state: &RunState) {
    let mut attempts: Vec<(&TaskState, usize, &Attempt)> = ordered(state)
        .flat_map(|task| task.attempts.iter().enumerate().map(move |(number, attempt)| (task, number + 1, attempt)))
        .collect();
    if attempts.is_empty() {
        return;
    }
    attempts.sort_by_key(|(_, _, attempt)| started(attempt));
    let zero = started(attempts[0].2);
    page.line(format_args!("## Who ran when\n"));
    page.line(format_args!("Started {zero}.\n"));
    page.line(format_args!("| From | To | Task | Attempt | Agent | Model | Tokens | Ended |"));
    page.line(format_args!("| ---: | ---: | --- | ---: | --- | --- | ---: | --- |"));
    for (task, number, attempt) in attempts {
        let outcome = attempt.outcome.as_deref();
        let to = outcome.map_or_else(String::new, |outcome| since(zero, outcome.ended_at));
        let model = outcome.and_then(|outcome| outcome.report.model.as_deref()).unwrap_or("unreported");
        let tokens = outcome.and_then(|o| o.report.usage.as_ref()).map_or_else(String::new, |u| u.spent().to_string());
        page.line(format_args!(
            "| {} | {to} | `{}` | {number} | `{}` | {} | {tokens} | {} |",
            since(zero, started(attempt)),
            task.id,
            attempt.agent,
            cell(model),
            cell(&ended(attempt))
        ));
    }
}

fn started(attempt: &Attempt) -> Timestamp {
    attempt.outcome.as_ref().map_or(attempt.started_at, |outcome| outcome.started_at)
}

fn ended(attempt: &Attempt) -> String {
    match (attempt.verdict, attempt.outcome.as_deref().map(|outcome| &outcome.ending)) {
        (Verdict::Accepted, _) => "accepted".to_owned(),
        (Verdict::Interrupted, _) => "interrupted".to_owned(),
        (Verdict::Refused, Some(Ending::Failed { code, .. })) => format!("failed: {code}"),
        (Verdict::Refused, _) => "result refused".to_owned(),
        (Verdict::Open, _) => "running".to_owned(),
    }
}

fn since(zero: Timestamp, time: Timestamp) -> String {
    let millis = time.as_millis().saturating_sub(zero.as_millis()).max(0);
    format!("{}.{:03} s", millis / 1_000, millis % 1_000)
}

fn ordered(state: &RunState) -> impl Iterator<Item = &TaskState> {
    state.phases.iter().flat_map(|phase| &phase.tasks).map(|place| &state.tasks[*place])
}

const fn standing(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "not begun",
        TaskStatus::Running => "running",
        TaskStatus::Completed => "accepted",
        TaskStatus::Failed => "parked",
    }
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::P0 => "**P0**",
        Severity::P1 => "**P1**",
        Severity::P2 => "P2",
        Severity::P3 => "P3",
        Severity::None => "—",
    }
}

const fn classification(classification: Classification) -> &'static str {
    match classification {
        Classification::Real => "real",
        Classification::Conditional => "conditional",
        Classification::NonIssue => "no issue",
        Classification::Unknown => "unknown",
    }
}

/// Places as links; the first eight.
fn places(evidence: &[Evidence]) -> String {
    let mut links: Vec<String> = evidence.iter().take(8).map(place).collect();
    if evidence.len() > 8 {
        links.push(format!("and {} more", evidence.len() - 8));
    }
    links.join(", ")
}

fn place(evidence: &Evidence) -> String {
    let shown = cell(&evidence.locator).replace('`', "'");
    match (evidence.kind, &evidence.path) {
        (EvidenceKind::File, Some(path)) => {
            let anchor = match (evidence.line, evidence.end_line) {
                (Some(first), Some(last)) if last > first => format!("#L{first}-L{last}"),
                (Some(first), _) => format!("#L{first}"),
                _ => String::new(),
            };
            format!("[`{shown}`](<{TO_WORKSPACE}/{}{anchor}>)", path.replace(['<', '>', '|', '\n'], "_"))
        }
        (EvidenceKind::Url, _) => format!("<{}>", evidence.locator.replace(['<', '>', '|', ' ', '\n'], "_")),
        _ => format!("`{shown}`"),
    }
}

/// Text that an agent or a user wrote, made harmless to the page around it: one line, no markup of its own.
fn inline(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut safe = String::with_capacity(one_line.len());
    for c in one_line.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '[' | ']' | '!' => {
                safe.push('\\');
                safe.push(c);
            }
            c if c.is_control() => {}
            c => safe.push(c),
        }
    }
    safe
}

/// The same for a table's cell.
fn cell(text: &str) -> String {
    inline(text).replace('|', "\\|")
}
