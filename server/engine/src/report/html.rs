//! `report.html`: one file, nothing loaded from anywhere, readable in light and dark, with a timeline of who ran when.

use std::fmt::{self, Write as _};
use std::io;

use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::outcome::{Evidence, EvidenceKind, Severity};
use flowdrive_protocol::run::{RunStatus, TaskStatus};

use super::facts::{self, Found, Ran};
use super::page::Page;
use crate::model::state::{RunState, Verdict};

/// Rows of the timeline at most; a browser is no place for ten thousand.
const MAX_ROWS: usize = 600;

/// Findings that are shown at once, at least.
const MAX_UNFOLDED: usize = 40;

const STYLE: &str = include_str!("report.css");

/// Writes the page out. `altered` are the tasks whose result files are no longer what was accepted.
///
/// # Errors
/// What `out` refuses.
pub fn render(state: &RunState, altered: &[TaskId], out: &mut dyn io::Write) -> io::Result<()> {
    let mut page = Page::on(out);
    let title = Text(&state.workflow.title);
    page.put(format_args!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>"
    ));
    head(&mut page, state);
    warning(&mut page, altered);
    findings(&mut page, state);
    parked(&mut page, state);
    timeline(&mut page, state);
    results(&mut page, state);
    page.put(format_args!("</main></body></html>\n"));
    page.finish()
}

/// Text that an agent or a user wrote, made harmless.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_special(*c)) {
            f.write_str(&rest[..at])?;
            f.write_str(match c {
                '<' => "&lt;",
                '>' => "&gt;",
                '&' => "&amp;",
                '"' => "&quot;",
                '\'' => "&#39;",
                _ => "",
            })?;
            rest = &rest[at + c.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// What does not stand for itself on a page: what means something there, and what cannot be seen.
fn is_special(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '"' | '\'') || c.is_control() && c != '\n'
}

fn head(page: &mut Page<'_>, state: &RunState) {
    let status = state.status();
    page.put(format_args!("<header><h1>{}</h1>", Text(&state.workflow.title)));
    if !state.workflow.summary.is_empty() {
        page.put(format_args!("<p class=\"lead\">{}</p>", Text(&state.workflow.summary)));
    }
    page.put(format_args!("<p><span class=\"badge {}\">{}</span>", badge(status), status.as_str()));
    if let Some(reason) = state.ended.as_ref().and_then(|ended| ended.reason.as_deref()) {
        page.put(format_args!(" {}", Text(reason)));
    }
    page.put(format_args!("</p><dl>"));
    for (name, value) in facts::inputs(state) {
        page.put(format_args!("<dt>{}</dt><dd>{}</dd>", Text(name), Text(&value)));
    }
    page.put(format_args!(
        "<dt>run</dt><dd><code>{}</code></dd><dt>tasks</dt><dd>{} of {} accepted, {} parked</dd>",
        state.run_id,
        state.completed(),
        state.planned(),
        state.parked()
    ));
    if let Some(tokens) = facts::tokens(state) {
        page.put(format_args!("<dt>tokens</dt><dd>{tokens}</dd>"));
    }
    let overridden = facts::overridden(state);
    if !overridden.is_empty() {
        page.put(format_args!(
            "<dt>unsigned</dt><dd>{} accepted without the signature that the agent must give, as the drive was told</dd>",
            overridden.join(", ")
        ));
    }
    let forwarded: Vec<&str> = facts::forwarded(state).into_iter().collect();
    if !forwarded.is_empty() {
        page.put(format_args!("<dt>variables</dt><dd>{} passed on to agents</dd>", Text(&forwarded.join(", "))));
    }
    if let Some(commit) = state.terminal_commit() {
        let standing = if commit.verifier.is_some() { "on a verified verdict" } else { "unverified checkpoint" };
        page.put(format_args!("<dt>committed</dt><dd><code>{}</code>, {standing}</dd>", commit.id));
    }
    if let Some(unattested) = facts::unattested(state) {
        page.put(format_args!("<dt>unattested</dt><dd>{unattested}</dd>"));
    }
    page.put(format_args!("</dl></header>"));
}

fn warning(page: &mut Page<'_>, altered: &[TaskId]) {
    if altered.is_empty() {
        return;
    }
    let (sentence, named) = facts::altered(altered);
    page.put(format_args!("<p role=\"alert\"><span class=\"badge bad\">changed</span> {sentence}"));
    for id in &named {
        page.put(format_args!(" <code>{}</code>", Text(id)));
    }
    page.put(format_args!("</p>"));
}

fn findings(page: &mut Page<'_>, state: &RunState) {
    let found = facts::findings(state);
    let counts: Vec<String> = facts::severities(&found)
        .into_iter()
        .map(|(of, count)| {
            let name = severity(of);
            format!("<span class=\"sev {}\">{name} {count}</span>", name.to_ascii_lowercase())
        })
        .collect();
    page.put(format_args!(
        "<section><h2>Findings <small>{}</small></h2><p class=\"counts\">{}</p>",
        found.len(),
        counts.join("")
    ));
    if found.is_empty() {
        page.put(format_args!("<p>None were reported.</p></section>"));
        return;
    }
    // Of a great many, those that can wait are folded away, so that those that cannot are seen.
    let grave = found.partition_point(|found| found.finding.severity <= Severity::P2);
    let shown = grave.max(MAX_UNFOLDED).min(found.len());
    list(page, &found[..shown]);
    if shown < found.len() {
        let rest = found.len() - shown;
        page.put(format_args!("<details><summary>{rest} more, rated P3 or not rated</summary>"));
        list(page, &found[shown..]);
        page.put(format_args!("</details>"));
    }
    page.put(format_args!("</section>"));
}

fn list(page: &mut Page<'_>, found: &[Found<'_>]) {
    page.put(format_args!("<ul class=\"findings\">"));
    found.iter().for_each(|found| finding_item(page, found));
    page.put(format_args!("</ul>"));
}

fn finding_item(page: &mut Page<'_>, found: &Found<'_>) {
    let finding = found.finding;
    let (makers, rest) = facts::makers(found);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let claim = if finding.summary.is_empty() { &finding.id } else { &finding.summary };
    page.put(format_args!(
        "<li><span class=\"sev {}\">{}</span><div><p>{}</p><p class=\"meta\">{}{}<span class=\"from\">{} · {}{more}</span></p></div></li>",
        severity(finding.severity).to_ascii_lowercase(),
        severity(finding.severity),
        Text(claim),
        places(&finding.evidence),
        if finding.evidence.is_empty() { "" } else { " " },
        facts::classification(finding.classification),
        makers.join(", ")
    ));
}

fn parked(page: &mut Page<'_>, state: &RunState) {
    let open = facts::waiting(state);
    if state.parked() == 0 && open.is_empty() {
        return;
    }
    page.put(format_args!("<section><h2>Parked <small>{}</small></h2><ul class=\"parked\">", state.parked()));
    for task in facts::ordered(state).filter(|task| task.status == TaskStatus::Failed) {
        page.put(format_args!("<li><code>{}</code><pre>{}</pre></li>", task.id, Text(&facts::why_parked(task))));
    }
    page.put(format_args!("</ul>"));
    for record in &open {
        page.put(format_args!(
            "<p class=\"meta\">waits for a person: <code>{}</code> ({})</p>",
            record.id,
            record.classification.as_str()
        ));
    }
    page.put(format_args!("</section>"));
}

fn timeline(page: &mut Page<'_>, state: &RunState) {
    let (Some(zero), Some(end)) = (facts::ran(state).map(|r| r.from()).min(), facts::ran(state).map(|r| r.to()).max())
    else {
        return;
    };
    let span = (end.as_millis() - zero.as_millis()).max(1);
    page.put(format_args!(
        "<section><h2>Who ran when <small>{}</small></h2><p class=\"meta\">from {zero}</p><div class=\"timeline\">",
        facts::duration(span)
    ));
    let mut phase = None;
    for row in facts::ran(state).take(MAX_ROWS) {
        if phase != Some(&row.task.phase) {
            phase = Some(&row.task.phase);
            page.put(format_args!("<h3>{}</h3>", Text(row.task.phase.as_str())));
        }
        bar(page, &row, zero.as_millis(), span);
    }
    page.put(format_args!("</div>"));
    let rest = facts::ran(state).skip(MAX_ROWS).count();
    if rest > 0 {
        page.put(format_args!("<p class=\"meta\">and {rest} more attempts; all are in report.md</p>"));
    }
    page.put(format_args!("</section>"));
}

fn bar(page: &mut Page<'_>, row: &Ran<'_>, zero: i64, span: i64) {
    // In tenths of a percent, so that no float's printing can differ.
    let part = |millis: i64| (millis.saturating_mul(1_000) / span).clamp(0, 1_000);
    let left = part(row.from().as_millis() - zero).min(996);
    let width = part(row.to().as_millis() - row.from().as_millis()).clamp(4, 1_000 - left);
    let lasted = facts::duration(row.to().as_millis() - row.from().as_millis());
    let class = match row.attempt.verdict {
        Verdict::Accepted => "ok",
        Verdict::Refused => "bad",
        Verdict::Interrupted => "cut",
        Verdict::Open => "run",
    };
    let tokens = row.tokens().map(|tokens| format!(" · {} tokens", facts::number(tokens))).unwrap_or_default();
    page.put(format_args!(
        "<div class=\"row\"><span class=\"who\" title=\"{task}\">{task}{again}</span><span class=\"lane\">\
         <span class=\"bar {class}\" style=\"left:{}.{}%;width:{}.{}%\"></span></span>\
         <span class=\"what\" title=\"{agent} · {lasted}{tokens} · {ended}\">{agent} · {lasted}{tokens} · {ended}</span></div>",
        left / 10,
        left % 10,
        width / 10,
        width % 10,
        task = row.task.id,
        again = if row.number > 1 { format!(" #{}", row.number) } else { String::new() },
        agent = row.attempt.agent,
        ended = Text(&row.ended())
    ));
}

fn results(page: &mut Page<'_>, state: &RunState) {
    page.put(format_args!("<section><h2>Results</h2>"));
    for phase in &state.phases {
        page.put(format_args!("<h3>{}</h3><ul class=\"results\">", Text(&phase.title)));
        for task in phase.tasks.iter().map(|place| &state.tasks[*place]) {
            match &task.accepted {
                Some(result) => {
                    page.put(format_args!(
                        "<li><a href=\"{}\"><code>{}</code></a> {}",
                        Text(&result.path),
                        task.id,
                        Text(&result.summary)
                    ));
                    if !result.evidence.is_empty() {
                        let (on, places) = (facts::standing_on(&result.evidence), places(&result.evidence));
                        page.put(format_args!("<p class=\"meta\">{on} {places}</p>"));
                    }
                    page.put(format_args!("</li>"));
                }
                None => page.put(format_args!("<li><code>{}</code> {}</li>", task.id, facts::standing(task.status))),
            }
        }
        page.put(format_args!("</ul>"));
    }
    page.put(format_args!("</section>"));
}

fn places(evidence: &[Evidence]) -> String {
    let mut html = String::new();
    for (number, place) in evidence.iter().take(facts::MAX_PLACES).enumerate() {
        if number > 0 {
            html.push_str(", ");
        }
        let shown = Text(&place.locator);
        // Writing to a String cannot fail.
        let _ = match (place.kind, facts::link(place)) {
            (EvidenceKind::File, Some(link)) => write!(html, "<a href=\"{}\"><code>{shown}</code></a>", Text(&link)),
            (EvidenceKind::Ungrounded, _) => write!(html, "<code>{shown}</code> (not found)"),
            // Only these two schemes: an agent must not be able to plant a link that runs something.
            (EvidenceKind::Url, _) if place.locator.starts_with("https://") || place.locator.starts_with("http://") => {
                write!(html, "<a rel=\"noreferrer\" href=\"{shown}\">{shown}</a>")
            }
            _ => write!(html, "<code>{shown}</code>"),
        };
    }
    if evidence.len() > facts::MAX_PLACES {
        let _ = write!(html, " and {} more", evidence.len() - facts::MAX_PLACES);
    }
    html
}

const fn badge(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Complete => "ok",
        RunStatus::Parked => "bad",
        RunStatus::Blocked => "cut",
        RunStatus::InProgress => "run",
    }
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::P0 => "P0",
        Severity::P1 => "P1",
        Severity::P2 => "P2",
        Severity::P3 => "P3",
        Severity::None => "note",
    }
}
