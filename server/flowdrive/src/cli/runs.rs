//! `runs`, `show`, `report`, `verify` and `stop`; and how a run is found by what was typed.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::{ListRunsParams, ShowRunParams, StopParams, VerifyRunParams, VerifyRunResult};
use flowdrive_protocol::run::{RunSummary, RunView, StopMode, TaskView};
use flowdrive_protocol::time::Timestamp;

use super::args::{PlaceArgs, ReportArgs, RunArgs, RunsArgs, StopArgs};
use super::error::CliError;
use super::format::{self, Paint, Tone};
use super::output;
use super::session::Session;
use super::table::Table;

/// Runs and tasks fetched at once.
const PAGE: NonZeroU32 = NonZeroU32::new(1000).unwrap();

/// Runs of a list of which it is said what to do next.
const NEXT_SHOWN: usize = 3;

/// Why a text names nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Nothing,
    Many(Vec<String>),
}

/// The one id that the text is, or is the start of.
pub(crate) fn pick<'a>(text: &str, ids: &'a [String]) -> Result<&'a String, Miss> {
    if let Some(exact) = ids.iter().find(|id| *id == text) {
        return Ok(exact);
    }
    let matching: Vec<&String> = ids.iter().filter(|id| !text.is_empty() && id.starts_with(text)).collect();
    match matching.as_slice() {
        [] => Err(Miss::Nothing),
        [one] => Ok(one),
        many => Err(Miss::Many(many.iter().map(ToString::to_string).collect())),
    }
}

/// What is said of a text that is the start of several ids.
pub(crate) fn ambiguous(text: &str, kind: &str, candidates: &[String]) -> CliError {
    let mut hint = format!("type more of it: {}", candidates.iter().take(5).cloned().collect::<Vec<_>>().join(", "));
    if candidates.len() > 5 {
        let _ = write!(hint, " and {} more", candidates.len() - 5);
    }
    CliError::fault(format!("`{text}` is the start of {} {kind}", candidates.len()), hint)
}

/// The run that `latest`, an id, or the start of an id names. Runs that cannot be read can be named too: `verify` is
/// for them.
pub(crate) async fn find(session: &Session, text: &str) -> Result<RunId, CliError> {
    let (mut ids, mut unreadable, mut offset) = (Vec::new(), Vec::new(), 0);
    loop {
        let params = ListRunsParams { workspace: session.place(), limit: Some(PAGE), offset };
        let page = session.client.list_runs(&params).await?;
        let got = u32::try_from(page.runs.len()).unwrap_or(u32::MAX);
        ids.extend(page.runs.into_iter().map(|run| run.run_id.to_string()));
        unreadable.extend(page.unreadable.into_iter().map(|run| run.name));
        offset = offset.saturating_add(got);
        if text == "latest" || got == 0 || offset >= page.total {
            break;
        }
    }
    let found = match ids.first() {
        Some(newest) if text == "latest" => newest.clone(),
        None if text == "latest" => {
            return Err(CliError::fault(
                format!("there is no run in {}", session.workspace),
                "start one with `flowdrive drive WORKFLOW`",
            ));
        }
        _ => {
            ids.append(&mut unreadable);
            match pick(text, &ids) {
                Ok(id) => id.clone(),
                // Not in the list: the server says so in its own words.
                Err(Miss::Nothing) => text.to_owned(),
                Err(Miss::Many(candidates)) => return Err(ambiguous(text, "runs", &candidates)),
            }
        }
    };
    RunId::new(found).map_err(|error| CliError::usage(error.to_string(), "`flowdrive runs` lists the runs"))
}

/// A run with all its tasks.
pub(crate) async fn whole(session: &Session, run_id: &RunId) -> Result<RunView, CliError> {
    let mut params = ShowRunParams {
        workspace: session.place(),
        run_id: run_id.clone(),
        since_seq: None,
        task_ids: Vec::new(),
        task_offset: 0,
        task_limit: Some(PAGE.get()),
        write_report: false,
    };
    let mut view = session.client.show_run(&params).await?;
    while (view.tasks.len() as u64) < u64::from(view.total_tasks) {
        params.task_offset = u32::try_from(view.tasks.len()).unwrap_or(u32::MAX);
        let mut page = session.client.show_run(&params).await?;
        if page.tasks.is_empty() {
            break;
        }
        view.tasks.append(&mut page.tasks);
    }
    Ok(view)
}

pub(crate) async fn list(args: RunsArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let params = ListRunsParams { workspace: session.place(), limit: Some(args.limit), offset: 0 };
        let result = session.client.list_runs(&params).await?;
        if args.place.json {
            output::json(&result)?;
            return Ok(0);
        }
        let paint = Paint(output::out_colours());
        let mut text = String::new();
        if result.runs.is_empty() {
            let _ = writeln!(text, "No runs in {}. Start one with `flowdrive drive WORKFLOW`.", session.workspace);
        } else {
            text.push_str(&runs_table(&result.runs, Timestamp::now()).render(paint));
            // Of the newest that are not done: what is typed most often after this list.
            for run in result.runs.iter().filter(|run| run.next.is_some()).take(NEXT_SHOWN) {
                let reason =
                    run.reason.as_deref().map_or_else(String::new, |why| format!("  ({})", format::clip(why, 100)));
                let next = run.next.as_deref().unwrap_or_default();
                let _ = writeln!(text, "next: {}{reason}", paint.tone(next, Tone::Bold));
            }
        }
        let hidden = u64::from(result.total).saturating_sub(result.runs.len() as u64 + result.unreadable.len() as u64);
        if hidden > 0 && !result.runs.is_empty() {
            let _ = writeln!(text, "{} more; see them with --limit {}", hidden, result.total);
        }
        for run in &result.unreadable {
            let _ =
                writeln!(text, "{} {}: {}", paint.tone("unreadable", Tone::Bad), run.name, format::clean(&run.message));
        }
        output::out(&text)?;
        Ok(0)
    })
    .await
}

fn runs_table(runs: &[RunSummary], now: Timestamp) -> Table {
    let mut table = Table::new(&["run", "status", "tasks", "parked", "feedback", "changed", "title"]);
    for run in runs {
        let number = |number: u32| if number == 0 { "-".to_owned() } else { number.to_string() };
        let (status, tone) = if run.driving {
            ("driving".to_owned(), Tone::Bold)
        } else {
            (run.status.as_str().to_owned(), format::run_tone(run.status))
        };
        table.row([
            (run.run_id.to_string(), Tone::Plain),
            (status, tone),
            (format!("{}/{}", run.completed_workers, run.planned_workers), Tone::Plain),
            (number(run.parked_workers), Tone::Plain),
            (number(run.open_feedback), Tone::Plain),
            (format::ago(run.updated_at, now), Tone::Plain),
            (format::clip(&run.title, 60), Tone::Plain),
        ]);
    }
    table
}

pub(crate) async fn show(args: RunArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let run_id = find(session, &args.run).await?;
        let view = whole(session, &run_id).await?;
        if args.place.json {
            output::json(&view)?;
        } else {
            let report = session.shown(&view.report_path);
            output::out(&view_text(&view, &report, Timestamp::now(), Paint(output::out_colours())))?;
        }
        Ok(0)
    })
    .await
}

fn view_text(view: &RunView, report: &str, now: Timestamp, paint: Paint) -> String {
    let run = &view.summary;
    let mut text = String::new();
    let status = if run.driving { "being driven" } else { run.status.as_str() };
    let _ = writeln!(text, "{}  {}", paint.tone(run.run_id.as_str(), Tone::Bold), format::clean(&run.title));
    let _ = writeln!(
        text,
        "{}, {} of {} accepted, {} parked, {} open; changed {}",
        paint.tone(status, format::run_tone(run.status)),
        run.completed_workers,
        format::count(run.planned_workers, "task"),
        run.parked_workers,
        format::count(run.open_feedback, "feedback record"),
        format::ago(run.updated_at, now),
    );
    for (name, value) in &view.inputs {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(text, "{name}: {}", format::clip(&shown, 100));
    }
    if let Some(reason) = &run.reason {
        let _ = writeln!(text, "reason: {}", format::clean(reason));
    }
    if let Some(next) = &run.next {
        let _ = writeln!(text, "next: {}", paint.tone(next, Tone::Bold));
    }
    let _ = writeln!(text, "report: {report}\n");
    let mut table = Table::new(&["task", "status", "tries", "agent", "took", "findings", "result"]);
    for task in &view.tasks {
        let result = task.failure.as_ref().filter(|_| task.summary.is_none()).or(task.summary.as_ref());
        table.row([
            (task.id.to_string(), Tone::Plain),
            (format::wire(&task.status), format::task_tone(task.status)),
            (task.attempts.to_string(), Tone::Plain),
            (task.agent.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string), Tone::Plain),
            (took(task), Tone::Plain),
            (if task.findings.is_empty() { "-".to_owned() } else { task.findings.len().to_string() }, Tone::Plain),
            (result.map_or_else(String::new, |line| format::clip(line, 80)), Tone::Plain),
        ]);
    }
    text.push_str(&table.render(paint));
    let findings =
        format::severities(view.tasks.iter().flat_map(|task| &task.findings).map(|finding| finding.severity));
    if !findings.is_empty() {
        let _ = writeln!(text, "\nfindings: {findings}");
    }
    text
}

fn took(task: &TaskView) -> String {
    match (task.started_at, task.ended_at) {
        (Some(start), Some(end)) => {
            let millis = u64::try_from(end.as_millis() - start.as_millis()).unwrap_or(0);
            format::duration(std::time::Duration::from_millis(millis))
        }
        _ => "-".to_owned(),
    }
}

pub(crate) async fn report(args: ReportArgs) -> Result<u8, CliError> {
    let place = PlaceArgs { workspace: args.workspace, ..PlaceArgs::default() };
    Session::with_runs(&place, async |session| {
        let run_id = find(session, &args.run).await?;
        // Written anew from the record: it may have been deleted, and a run that is still driven has none yet.
        let params = ShowRunParams {
            workspace: session.place(),
            run_id,
            since_seq: None,
            task_ids: Vec::new(),
            task_offset: 0,
            task_limit: Some(0),
            write_report: true,
        };
        let markdown = session.client.show_run(&params).await?.report_path;
        // Both are written together, side by side.
        let path = if args.html { Path::new(&markdown).with_extension("html") } else { markdown.into() };
        if args.path {
            output::out(&format!("{}\n", path.display()))?;
            return Ok(0);
        }
        // In the run's folder already when the server says so; relative paths are the workspace's.
        let report = std::fs::read(Path::new(&session.workspace).join(&path)).map_err(|error| {
            CliError::fault(
                format!("cannot read the report {}: {error}", path.display()),
                "it is written when a drive of the run ends: resume the run",
            )
        })?;
        output::out_bytes(&report)?;
        Ok(0)
    })
    .await
}

pub(crate) async fn verify(args: RunArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let run_id = find(session, &args.run).await?;
        let params = VerifyRunParams { workspace: session.place(), run_id };
        let result = session.client.verify_run(&params).await?;
        if args.place.json {
            output::json(&result)?;
        } else {
            output::out(&verdict(&result, Paint(output::out_colours())))?;
        }
        Ok(if result.ok { 0 } else { super::FAULT })
    })
    .await
}

fn verdict(result: &VerifyRunResult, paint: Paint) -> String {
    let mut text = String::new();
    let events = format::count(result.events, "event");
    if result.ok {
        let _ = writeln!(text, "{}: {} adds up, {events}", paint.tone("ok", Tone::Good), result.run_id);
        let _ = writeln!(text, "head: {}", result.head);
        return text;
    }
    let problems = format::count(result.problems.len() as u64, "problem");
    let _ = writeln!(text, "{}: {} in {}, {events} checked", paint.tone("broken", Tone::Bad), problems, result.run_id);
    for problem in &result.problems {
        let line = problem.line.map_or_else(String::new, |line| format!(":{line}"));
        let _ = writeln!(text, "{}{line}: {} [{}]", problem.path, format::clean(&problem.message), problem.code);
    }
    text
}

pub(crate) async fn stop(args: StopArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let run_id = find(session, &args.run).await?;
        let mode = if args.now { StopMode::Now } else { StopMode::Graceful };
        let result = session.client.stop(&StopParams { workspace: session.place(), run_id, mode }).await?;
        if args.place.json {
            output::json(&result)?;
        } else if !result.driving {
            output::out(&format!("Nobody drives {}.\n", result.run_id))?;
        } else if result.mode == StopMode::Now {
            output::out(&format!("{} is being stopped; its agents are ended.\n", result.run_id))?;
        } else {
            let end = "stops when what is in flight has settled; --now ends it at once";
            output::out(&format!("{} {end}.\n", result.run_id))?;
        }
        Ok(0)
    })
    .await
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
