//! `report.md`.

use std::fmt;
use std::io::{self, Write};

use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::outcome::{Evidence, EvidenceKind, Severity};
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;

use super::facts::{self, Ran};
use super::page::Page;
use crate::model::journal::AcceptedResult;
use crate::model::state::{RunState, TaskState};

/// Writes the report out. `altered` are the tasks whose result files are no longer what was accepted.
///
/// # Errors
/// What `out` refuses.
pub fn render(state: &RunState, altered: &[TaskId], out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::on(out);
    head(&mut page, state);
    warning(&mut page, altered);
    findings(&mut page, state);
    answers(&mut page, state);
    parked(&mut page, state);
    timeline(&mut page, state);
    page.finish()
}

impl Page<'_> {
    fn line(&mut self, args: fmt::Arguments<'_>) {
        self.put(args);
        self.put(format_args!("\n"));
    }
}

fn head(page: &mut Page<'_>, state: &RunState) {
    page.line(format_args!("# {}\n", inline(&state.workflow.title)));
    if !state.workflow.summary.is_empty() {
        page.line(format_args!("{}\n", inline(&state.workflow.summary)));
    }
    for (name, value) in facts::inputs(state) {
        page.line(format_args!("- **{name}**: {}", inline(&value)));
    }
    page.line(format_args!("- **run**: `{}` of `{}`", state.run_id, state.workflow.id));
    let reason = state.ended.as_ref().and_then(|ended| ended.reason.as_deref()).map(|r| format!(": {}", inline(r)));
    page.line(format_args!("- **status**: {}{}", state.status().as_str(), reason.unwrap_or_default()));
    let parked = if state.parked() > 0 { format!(", {} parked", state.parked()) } else { String::new() };
    page.line(format_args!("- **tasks**: {} of {} accepted{parked}", state.completed(), state.planned()));
    if let Some(tokens) = facts::tokens(state) {
        page.line(format_args!("- **tokens**: {tokens}"));
    }
    let overridden = facts::overridden(state);
    if !overridden.is_empty() {
        page.line(format_args!(
            "- **unsigned**: `{}` accepted without the signature that the agent must give, as the drive was told",
            overridden.join("`, `")
        ));
    }
    let forwarded: Vec<&str> = facts::forwarded(state).into_iter().collect();
    if !forwarded.is_empty() {
        page.line(format_args!("- **passed on to agents**: {} (names of variables)", cell(&forwarded.join(", "))));
    }
    if let Some(commit) = state.terminal_commit() {
        let standing = match &commit.verifier {
            Some(node) => format!("on the verified verdict `{node}`"),
            None => "as an unverified checkpoint: no verdict with evidence stands behind it".to_owned(),
        };
        let git =
            commit.git_head.as_ref().map(|head| format!(", workspace at git `{}`", &head[..12])).unwrap_or_default();
        page.line(format_args!("- **committed**: `{}` {standing}{git}", commit.id));
    }
    if let Some(unattested) = facts::unattested(state) {
        page.line(format_args!("- **unattested**: {unattested}"));
    }
    page.line(format_args!(""));
}

fn warning(page: &mut Page<'_>, altered: &[TaskId]) {
    if altered.is_empty() {
        return;
    }
    let (sentence, named) = facts::altered(altered);
    let named: Vec<String> = named.iter().map(|id| format!("`{id}`")).collect();
    page.line(format_args!("> **{sentence}** {}\n", named.join(", ")));
}

fn findings(page: &mut Page<'_>, state: &RunState) {
    let found = facts::findings(state);
    page.line(format_args!("## Findings\n"));
    if found.is_empty() {
        page.line(format_args!("None were reported.\n"));
        return;
    }
    let counts: Vec<String> = facts::severities(&found)
        .into_iter()
        .map(|(of, count)| match of {
            Severity::None => format!("{count} not rated"),
            of => format!("{count} {of:?}"),
        })
        .collect();
    page.line(format_args!("{} in all: {}.\n", found.len(), counts.join(", ")));
    page.line(format_args!("| | Claim | Held to be | Where | From |"));
    page.line(format_args!("| --- | --- | --- | --- | --- |"));
    for found in found {
        let finding = found.finding;
        let (mut makers, rest) = facts::makers(&found);
        makers.iter_mut().for_each(|id| *id = format!("`{id}`"));
        if rest > 0 {
            makers.push(format!("{rest} more"));
        }
        let claim = if finding.summary.is_empty() { &finding.id } else { &finding.summary };
        page.line(format_args!(
            "| {} | {} | {} | {} | {} |",
            severity(finding.severity),
            cell(claim),
            facts::classification(finding.classification),
            places(&finding.evidence),
            makers.join(", ")
        ));
    }
    page.line(format_args!(""));
}

fn answers(page: &mut Page<'_>, state: &RunState) {
    page.line(format_args!("## Results\n"));
    for phase in &state.phases {
        page.line(format_args!("### {}\n", inline(&phase.title)));
        for task in phase.tasks.iter().map(|place| &state.tasks[*place]) {
            match &task.accepted {
                Some(result) => answer(page, task, result),
                None => page.line(format_args!("- `{}`: {}", task.id, facts::standing(task.status))),
            }
        }
        page.line(format_args!(""));
    }
}

fn answer(page: &mut Page<'_>, task: &TaskState, result: &AcceptedResult) {
    let weak = if result.empty_capture { " _(neither findings nor evidence)_" } else { "" };
    page.line(format_args!("- [`{}`]({}): {}{weak}", task.id, result.path, inline(&result.summary)));
    if !result.evidence.is_empty() {
        page.line(format_args!("  - {} {}", facts::standing_on(&result.evidence), places(&result.evidence)));
    }
}

fn parked(page: &mut Page<'_>, state: &RunState) {
    let open = facts::waiting(state);
    if state.parked() == 0 && open.is_empty() {
        return;
    }
    page.line(format_args!("## Parked\n"));
    for task in facts::ordered(state).filter(|task| task.status == TaskStatus::Failed) {
        let why = facts::why_parked(task);
        page.line(format_args!("- `{}`: {}", task.id, inline(&why)));
    }
    if !open.is_empty() {
        page.line(format_args!("\nWaiting for a person:\n"));
        for record in &open {
            // What a parked task's record says was said above.
            let told = record.task_id.as_ref().is_some_and(|task| state.task_by_id(task).is_some());
            let message = if told { String::new() } else { format!(": {}", inline(&record.message)) };
            page.line(format_args!("- `{}` ({}){message}", record.id, record.classification.as_str()));
        }
        let first = &open[0].id;
        page.line(format_args!(
            "\nTry a task again with guidance, then carry on:\n\n    flowdrive feedback resolve {} {first} --resolution retry --guidance \"...\"\n    flowdrive resume {}",
            state.run_id, state.run_id
        ));
    }
    page.line(format_args!(""));
}

fn timeline(page: &mut Page<'_>, state: &RunState) {
    let mut ran: Vec<Ran<'_>> = facts::ran(state).collect();
    // Stable: attempts that began in the same millisecond stay in task order.
    ran.sort_by_key(Ran::from);
    let Some(zero) = ran.first().map(Ran::from) else { return };
    page.line(format_args!("## Who ran when\n"));
    page.line(format_args!("Started {zero}.\n"));
    page.line(format_args!("| From | To | Task | Attempt | Agent | Model | Tokens | Ended |"));
    page.line(format_args!("| ---: | ---: | --- | ---: | --- | --- | ---: | --- |"));
    for row in ran {
        page.line(format_args!(
            "| {} | {} | `{}` | {} | `{}` | {} | {} | {} |",
            since(zero, row.from()),
            since(zero, row.to()),
            row.task.id,
            row.number,
            row.attempt.agent,
            cell(row.model()),
            row.tokens().map(facts::number).unwrap_or_default(),
            cell(&row.ended())
        ));
    }
}

fn since(zero: Timestamp, time: Timestamp) -> String {
    let millis = time.as_millis().saturating_sub(zero.as_millis()).max(0);
    format!("{}.{:03} s", millis / 1_000, millis % 1_000)
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

/// Places as links; the first few.
fn places(evidence: &[Evidence]) -> String {
    let mut links: Vec<String> = evidence.iter().take(facts::MAX_PLACES).map(place).collect();
    if evidence.len() > facts::MAX_PLACES {
        links.push(format!("and {} more", evidence.len() - facts::MAX_PLACES));
    }
    links.join(", ")
}

fn place(evidence: &Evidence) -> String {
    let shown = cell(&evidence.locator).replace('`', "'");
    match (evidence.kind, facts::link(evidence)) {
        (EvidenceKind::File, Some(link)) => format!("[`{shown}`](<{link}>)"),
        (EvidenceKind::Ungrounded, _) => format!("`{shown}` _(not found)_"),
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
