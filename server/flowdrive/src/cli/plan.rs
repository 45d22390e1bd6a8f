//! `preview`, `workflows` and `doctor`: what could be done, and whether it would work.

use std::fmt::Write as _;

use flowdrive_protocol::method::{DoctorParams, DoctorResult, ListWorkflowsParams, ListWorkflowsResult, PreviewParams};
use flowdrive_protocol::run::{CacheVerdict, DrivePreview, NextAction, PlannedTask};

use super::args::{PlaceArgs, PreviewArgs};
use super::drive;
use super::error::CliError;
use super::format::{self, Paint, Tone};
use super::output;
use super::runs;
use super::session::Session;
use super::table::Table;

pub(crate) async fn preview(args: PreviewArgs) -> Result<u8, CliError> {
    let preview = async |session: &Session| {
        let mut params = PreviewParams {
            workspace: session.place(),
            agent: args.agent.clone(),
            concurrency: args.concurrency,
            incremental: args.incremental,
            token_budget: args.token_budget,
            ..PreviewParams::default()
        };
        if let Some(run) = &args.run {
            params.run_id = Some(runs::find(session, run).await?);
        } else if let Some(workflow) = &args.workflow {
            let (workflow, inputs) = drive::selection(session, workflow, &args.inputs).await?;
            (params.workflow, params.inputs) = (Some(workflow), inputs);
        }
        let preview = whole(session, params).await?;
        if args.place.json {
            output::json(&preview)?;
        } else {
            output::out(&preview_text(&preview, Paint(output::out_colours())))?;
        }
        Ok(0)
    };
    if args.run.is_some() {
        Session::with_runs(&args.place, preview).await
    } else {
        Session::with(&args.place, preview).await
    }
}

/// A preview with all its tasks.
async fn whole(session: &Session, mut params: PreviewParams) -> Result<DrivePreview, CliError> {
    let mut preview = session.client.preview(&params).await?;
    let mut known: usize = preview.plan.iter().map(|phase| phase.tasks.len()).sum();
    while known < preview.planned_workers as usize {
        params.task_offset = u32::try_from(known).unwrap_or(u32::MAX);
        let page = session.client.preview(&params).await?;
        let before = known;
        for (phase, more) in preview.plan.iter_mut().zip(page.plan) {
            known += more.tasks.len();
            phase.tasks.extend(more.tasks);
        }
        if known == before {
            break;
        }
    }
    Ok(preview)
}

fn preview_text(preview: &DrivePreview, paint: Paint) -> String {
    let mut text = String::new();
    let name = preview.run_id.as_ref().map_or_else(|| preview.workflow_id.to_string(), ToString::to_string);
    let _ = writeln!(
        text,
        "{}: {}, {} to do, {} accepted, {} parked",
        paint.tone(&name, Tone::Bold),
        format::count(preview.planned_workers, "task"),
        preview.pending_workers,
        preview.completed_workers,
        preview.parked_workers,
    );
    let task = preview.next_task_id.as_ref().map_or_else(String::new, |task| format!(" {task}"));
    let next = match preview.next_action {
        NextAction::Dispatch => format!("would start{task}"),
        NextAction::Fulfill => format!("would carry on{task}"),
        NextAction::Commit => "would commit the run".to_owned(),
        NextAction::Blocked => paint.tone("blocked", Tone::Bad).into_owned(),
        NextAction::Complete => "nothing is left to do".to_owned(),
    };
    let _ = writeln!(text, "next: {next}");
    for blocker in &preview.blockers {
        let _ = writeln!(text, "{}: {}", paint.tone("blocker", Tone::Bad), format::clean(blocker));
    }
    for warning in &preview.warnings {
        let _ = writeln!(text, "{}: {}", paint.tone("warning", Tone::Warn), format::clean(warning));
    }
    for phase in &preview.plan {
        let Some(looping) = &phase.looping else { continue };
        let decided = if looping.decided { ", decided" } else { "" };
        let _ = writeln!(
            text,
            "loop: phase {}, round {} of at most {}{decided}; it ends before that when {}",
            phase.id,
            looping.round,
            looping.max_rounds,
            format::clean(&looping.until),
        );
    }
    let mut table = Table::new(&["phase", "task", "status", "agent", "cache", "invocation"]);
    for phase in &preview.plan {
        for task in &phase.tasks {
            let cache = match task.cache.state {
                CacheVerdict::Off => "-".to_owned(),
                CacheVerdict::Miss if task.cache.depends_on.is_some() => "depends".to_owned(),
                verdict => format::wire(&verdict),
            };
            table.row([
                (phase.id.to_string(), Tone::Plain),
                (task.id.to_string(), Tone::Plain),
                (format::wire(&task.status), format::task_tone(task.status)),
                (task.agent.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string), Tone::Plain),
                (cache, Tone::Plain),
                (invocation(task), Tone::Dim),
            ]);
        }
    }
    text.push('\n');
    text.push_str(&table.render(paint));
    for (reason, tasks) in misses(preview) {
        let _ = writeln!(text, "{} {}: {}", paint.tone("anew", Tone::Dim), told(&tasks), format::clean(reason));
    }
    for (blocker, tasks) in blockers(preview) {
        let _ = writeln!(text, "{} {}: {}", paint.tone("blocker", Tone::Bad), told(&tasks), format::clean(blocker));
    }
    text
}

/// The tasks of which the same is said.
fn told(tasks: &[&str]) -> String {
    match tasks {
        [] => String::new(),
        [task] => (*task).to_owned(),
        [first, others @ ..] => format!("{first} and {}", format::count(others.len() as u64, "other task")),
    }
}

/// Why results that were kept would not be taken, each reason once, with its tasks.
fn misses(preview: &DrivePreview) -> Vec<(&str, Vec<&str>)> {
    let missed = tasks_of(preview).filter(|task| task.cache.state == CacheVerdict::Miss);
    grouped(missed.filter_map(|task| Some((task.cache.reason.as_deref()?, task.id.as_str()))))
}

/// What is in the way of tasks, each said once.
fn blockers(preview: &DrivePreview) -> Vec<(&str, Vec<&str>)> {
    grouped(tasks_of(preview).flat_map(|task| task.blockers.iter().map(|blocker| (blocker.as_str(), task.id.as_str()))))
}

fn tasks_of(preview: &DrivePreview) -> impl Iterator<Item = &PlannedTask> {
    preview.plan.iter().flat_map(|phase| &phase.tasks)
}

/// The tasks of which the same is said, in the order in which it is said first.
fn grouped<'a>(said: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (text, task) in said {
        let place = *places.entry(text).or_insert_with(|| {
            all.push((text, Vec::new()));
            all.len() - 1
        });
        all[place].1.push(task);
    }
    all
}

fn invocation(task: &PlannedTask) -> String {
    let line = task.invocation.as_deref().map_or_else(String::new, |line| format::clip(line, 100));
    let Some(inner) = &task.sub_workflow else { return line };
    let agents: Vec<&str> = inner.agents.iter().map(AsRef::as_ref).collect();
    format!("{line}: {} for {}", format::count(inner.tasks, "task"), format::clip(&agents.join(", "), 60))
}

pub(crate) async fn workflows(args: PlaceArgs) -> Result<u8, CliError> {
    Session::with(&args, async |session| {
        let params = ListWorkflowsParams { workspace: session.place() };
        let result = session.client.list_workflows(&params).await?;
        if args.json {
            output::json(&result)?;
        } else {
            output::out(&workflows_text(&result, Paint(output::out_colours())))?;
        }
        Ok(0)
    })
    .await
}

fn workflows_text(result: &ListWorkflowsResult, paint: Paint) -> String {
    let mut table = Table::new(&["workflow", "tasks", "inputs", "source", "title"]);
    for workflow in &result.workflows {
        let inputs = workflow.inputs.iter().map(|(name, spec)| {
            let list = if spec.repeated { "..." } else { "" };
            if spec.required { format!("{name}{list}") } else { format!("[{name}{list}]") }
        });
        let inputs = inputs.collect::<Vec<_>>().join(" ");
        table.row([
            (workflow.id.to_string(), Tone::Bold),
            (workflow.tasks.to_string(), Tone::Plain),
            (if inputs.is_empty() { "-".to_owned() } else { inputs }, Tone::Plain),
            (workflow.source.clone(), Tone::Dim),
            (format::clip(&workflow.title, 80), Tone::Plain),
        ]);
    }
    let mut text = table.render(paint);
    for file in &result.unusable {
        let _ = writeln!(text, "\n{} {}", paint.tone("unusable", Tone::Bad), format::clean(&file.path));
        for line in file.message.lines().chain(file.hint.as_deref()) {
            let _ = writeln!(text, "  {}", format::clean(line));
        }
    }
    text
}

pub(crate) async fn doctor(args: PlaceArgs) -> Result<u8, CliError> {
    Session::with(&args, async |session| {
        let result = session.client.doctor(&DoctorParams { workspace: session.place() }).await?;
        if args.json {
            output::json(&result)?;
        } else {
            output::out(&doctor_text(&result, Paint(output::out_colours())))?;
        }
        Ok(if result.ok { 0 } else { super::FAULT })
    })
    .await
}

fn doctor_text(result: &DoctorResult, paint: Paint) -> String {
    let mut table = Table::new(&["check", "status", "found"]);
    for check in &result.checks {
        table.row([
            (check.name.clone(), Tone::Plain),
            (format::wire(&check.status), format::check_tone(check.status)),
            (format::clean(&check.message), Tone::Plain),
        ]);
        if let Some(hint) = &check.hint {
            let hint = format!("hint: {}", format::clean(hint));
            table.row([(String::new(), Tone::Plain), (String::new(), Tone::Plain), (hint, Tone::Dim)]);
        }
    }
    let mut text = table.render(paint);
    let verdict = if result.ok { paint.tone("ready", Tone::Good) } else { paint.tone("not ready", Tone::Bad) };
    let _ = writeln!(text, "\nflowdrive {}: {verdict}", result.version);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_preview_says_what_comes_next_and_what_is_in_the_way() {
        let preview: DrivePreview = serde_json::from_value(json!({
            "schemaVersion": 1, "workflowId": "w", "plannedWorkers": 2, "pendingWorkers": 2, "completedWorkers": 0,
            "parkedWorkers": 0, "nextAction": "dispatch", "nextTaskId": "map:a", "agentConfigured": false,
            "blockers": [], "plan": [{"id": "map", "title": "Map", "mode": "parallel", "width": 2, "status": "pending",
            "tasks": [
                {"id": "map:a", "status": "pending", "agent": "mine", "invocation": "run it", "cache": {"state": "hit"}},
                {"id": "b", "status": "pending", "cache": {"state": "off"}, "blockers": ["no agent"]},
                {"id": "c", "status": "pending", "cache": {"state": "miss", "reason": "prompt changed"},
                 "blockers": ["no agent", "no c"]}]}]}))
        .unwrap();
        let expected = "\
w: 2 tasks, 2 to do, 0 accepted, 0 parked
next: would start map:a

phase  task   status   agent  cache  invocation
map    map:a  pending  mine   hit    run it
map    b      pending  -      -
map    c      pending  -      miss
anew c: prompt changed
blocker b and 1 other task: no agent
blocker c: no c
";
        assert_eq!(preview_text(&preview, Paint(false)), expected);
    }

    #[test]
    fn workflows_show_what_they_ask_for() {
        let workflows: ListWorkflowsResult = serde_json::from_value(json!({"workflows": [{"id": "w", "title": "T",
            "summary": "", "source": "bundled", "tasks": 5, "inputs": {"q": {"type": "string", "required": true},
            "paths": {"type": "path", "repeated": true}}}], "unusable": [{"path": ".cw/workflows/x.toml",
            "message": "line 1: a\nline 2: b", "hint": "mend it"}]}))
        .unwrap();
        let expected = "\
workflow  tasks  inputs        source   title
w         5      [paths...] q  bundled  T

unusable .cw/workflows/x.toml
  line 1: a
  line 2: b
  mend it
";
        assert_eq!(workflows_text(&workflows, Paint(false)), expected);
    }

    #[test]
    fn a_check_is_followed_by_what_to_do_about_it() {
        let result: DoctorResult = serde_json::from_value(json!({"version": "1.2.3", "ok": false, "checks": [
            {"name": "workspace", "status": "ok", "message": "/w"},
            {"name": "agent mine", "status": "fail", "message": "not found", "hint": "install it"}]}))
        .unwrap();
        let expected = "\
check       status  found
workspace   ok      /w
agent mine  fail    not found
                    hint: install it

flowdrive 1.2.3: not ready
";
        assert_eq!(doctor_text(&result, Paint(false)), expected);
    }
}
