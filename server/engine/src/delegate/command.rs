//! Delegating to a program: what it is called with, and what its end means.
//!
//! Must not: retry, or look into a result.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flowdrive_protocol::config::{Preset, StdinMode};

use super::DelegatorOptions;
use super::delegator::{Shared, Stops};
use super::draft::Draft;
use super::env::{self, AgentEnv};
use super::launch::Launch;
use super::placeholders::{self, Values};
use super::presets::{self, Parser};
use super::stderr::{Stderr, last_line};
use super::stdout::{EVENT_CAP, Fault, Stdout};
use super::supervise::{Cause, End, Job, Timing, supervise};
use super::teller::Teller;
use super::{os, program, result_file, transient};
use crate::model::agent::{Agent, Assignment};
use crate::model::outcome::{HandleKind, Outcome, Transient};

/// Longest argument that is recorded whole, in characters.
const LONGEST_ARGUMENT: usize = 200;

/// How often a program that is being written to is tried again: whoever wrote it may just have forked.
const BUSY_TRIES: u32 = 10;

/// What a command agent is, apart from the rest of the agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// Program and arguments.
    pub(super) argv: &'a [String],
    /// What it gets on standard input.
    pub(super) stdin: StdinMode,
    /// How it is called and read.
    pub(super) preset: Option<Preset>,
}

/// The command line as it may be shown, with what only an attempt knows left as it is written.
#[must_use]
pub(super) fn describe(
    shared: &Shared,
    target: Target<'_>,
    model: Option<&str>,
    sandbox: flowdrive_protocol::workflow::Sandbox,
) -> String {
    let values = Values::of_preview(model);
    let call = presets::Call { argv: &placeholders::fill_argv(target.argv, &values), model, session: None, sandbox };
    let argv = target.preset.and_then(|preset| presets::argv(preset, call)).unwrap_or_else(|| call.argv.to_vec());
    shown(shared, &argv)
}

fn shown(shared: &Shared, argv: &[String]) -> String {
    let cut = |arg: String| match arg.char_indices().nth(LONGEST_ARGUMENT) {
        Some((at, _)) => format!("{}… ({} bytes)", &arg[..at], arg.len()),
        None => arg,
    };
    shared.redactor.redact_args(argv).into_iter().map(cut).collect::<Vec<_>>().join(" ")
}

/// Runs one delegation from start to end.
pub(super) async fn run(
    shared: &Shared,
    agent: &Agent,
    target: Target<'_>,
    assignment: &Assignment,
    teller: &Teller,
    stops: &Stops,
) -> Outcome {
    let model = assignment.model.as_deref().or(agent.model.as_deref());
    let values = Values::of_assignment(assignment, model);
    let full = |values: &Values| {
        let own = placeholders::fill_argv(target.argv, values);
        let session = assignment.session.as_deref();
        let call = presets::Call { argv: &own, model, session, sandbox: assignment.sandbox };
        target.preset.and_then(|preset| presets::argv(preset, call)).unwrap_or(own)
    };
    let argv = full(&values);
    let invocation = shown(shared, &full(&values.without_prompt()));
    let agent_env = env::build(&agent.env, &shared.options.parent_env);
    let draft = Draft::new(HandleKind::Process, invocation, agent_env.forwarded.clone(), &shared.redactor);
    if stops.stop.is_cancelled() {
        return draft.interrupted();
    }
    let marker = assignment.marker.clone();
    let started = match start(shared, target, assignment, &argv, &agent_env, &marker).await {
        Ok(started) => started,
        Err((reason, transient)) => {
            let reason = format!("agent process failed to spawn: {reason}");
            return draft.failed("agent-spawn", &reason, transient);
        }
    };
    let identity = started.identity(marker);
    teller.process(identity.clone());
    let logs = &assignment.folder.logs;
    let parser = target.preset.and_then(Parser::new);
    let cap = shared.options.output_cap;
    let job = Job {
        started,
        identity,
        stdout: Stdout::new(logs.join("stdout.log"), &shared.redactor, parser, cap),
        stderr: Stderr::new(logs.join("stderr.log"), &shared.redactor, cap),
        result: assignment.folder.result.clone(),
    };
    let timing = timing(&shared.options, agent, assignment);
    match supervise(job, timing, stops, &shared.sweeper, teller).await {
        Ok(end) => settle(shared, agent, target, assignment, draft, end, &agent_env).await,
        Err(error) => draft.failed(
            "agent-spawn",
            &format!("agent process failed to spawn: its output cannot be read: {error}"),
            None,
        ),
    }
}

fn timing(options: &DelegatorOptions, agent: &Agent, assignment: &Assignment) -> Timing {
    Timing {
        timeout: assignment.timeout,
        idle: agent.idle_timeout.filter(|idle| !idle.is_zero()),
        term_grace: options.term_grace,
        stop_grace: options.stop_grace,
        leak: options.leak_timeout,
        result_quiet: options.result_quiet,
        linger_grace: options.linger_grace,
    }
}

async fn start(
    shared: &Shared,
    target: Target<'_>,
    assignment: &Assignment,
    argv: &[String],
    agent_env: &AgentEnv,
    marker: &str,
) -> Result<os::Started, (String, Option<Transient>)> {
    let name = argv.first().map(String::as_str).unwrap_or_default();
    let path = program::find(name, &agent_env.vars).map_err(|reason| (reason, None))?;
    let stdin = match stdin_text(target, assignment).await {
        Some(text) => Some(stdin_file(&assignment.folder.dir, text).await.map_err(|error| {
            (format!("its input cannot be written to {}: {error}", assignment.folder.dir.display()), None)
        })?),
        None => None,
    };
    let launch = Launch {
        path: &path,
        name,
        args: &argv[1..],
        vars: &agent_env.vars,
        marker,
        dir: &assignment.workspace,
        stdin: stdin.as_ref(),
    };
    let mut tries = 0;
    loop {
        match shared.spawner.spawn(&launch).await {
            Ok(started) => return Ok(started),
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => return Err(program::explain(&error, &path, &assignment.workspace)),
        }
    }
}

/// What goes to standard input. A preset gets what the task's input file says and how to answer.
async fn stdin_text(target: Target<'_>, assignment: &Assignment) -> Option<String> {
    match target.preset {
        Some(preset) if preset != Preset::Survey => {
            let input = tokio::fs::read(&assignment.folder.input).await;
            let input =
                input.map_or_else(|_| assignment.prompt.clone(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
            Some(presets::prompt(&input))
        }
        _ => (target.stdin == StdinMode::Prompt).then(|| assignment.prompt.clone()),
    }
}

/// A file without a name, read from its beginning. Unlike a pipe it has an end whether the agent reads it or not, and
/// nobody has to feed it.
async fn stdin_file(folder: &Path, text: String) -> io::Result<File> {
    let folder: PathBuf = folder.to_owned();
    let made = tokio::task::spawn_blocking(move || {
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        Ok(file)
    });
    made.await.map_err(io::Error::other)?
}

/// What the end of a process means.
async fn settle(
    shared: &Shared,
    agent: &Agent,
    target: Target<'_>,
    assignment: &Assignment,
    mut draft: Draft,
    end: End,
    agent_env: &AgentEnv,
) -> Outcome {
    let task = &assignment.task_id;
    let outcome = draft.edit();
    outcome.exit_code = end.status.and_then(|status| status.code());
    outcome.stdout_digest = end.printed.digest;
    outcome.stderr_tail.clone_from(&end.stderr_tail);
    outcome.report = end.printed.report;
    outcome.leaked = end.leaked;
    let said = last_line(&end.stderr_tail);
    let because = |reason: String| {
        let said = said.as_ref().map(|line| format!(": {line}")).unwrap_or_default();
        format!("{reason}{said}{}", withheld(agent_env))
    };
    let ended_by = if end.killed { os::KILLED } else { os::ENDED };
    if !end.left.is_empty() {
        let left: Vec<String> = end.left.iter().map(ToString::to_string).collect();
        let reason =
            format!("{task}: processes of the agent could not be ended: {}; end them by hand", left.join(", "));
        return draft.failed("agent-cleanup", &reason, None);
    }
    match end.cause {
        Cause::Stopped => draft.interrupted(),
        Cause::TimedOut => {
            let ms = assignment.timeout.as_millis();
            draft.failed(
                "agent-timeout",
                &because(format!("agent process timed out after {ms}ms and was {ended_by}")),
                None,
            )
        }
        Cause::Stalled => {
            let ms = agent.idle_timeout.unwrap_or_default().as_millis();
            let reason = format!("agent process stalled: it printed nothing for {ms}ms and was {ended_by}");
            draft.failed("agent-stalled", &because(reason), None)
        }
        Cause::Output(Fault::TooLarge) => {
            let cap = shared.options.output_cap;
            let reason = format!("stdout exceeded {cap} byte cap ({} bytes)", end.printed.total);
            draft.failed("output-too-large", &reason, None)
        }
        Cause::Output(Fault::LineTooLong) => {
            let reason = format!("a line of the agent's event stream exceeded {EVENT_CAP} byte cap");
            draft.failed("output-line-too-long", &reason, None)
        }
        Cause::Exited | Cause::Lingered => {
            let lingered = end.cause == Cause::Lingered;
            let code = end.status.and_then(|status| status.code());
            let error = end.printed.error.filter(|_| !lingered && target.preset.is_some());
            let transient = error.as_deref().and_then(transient::of_message);
            if let Some(wait) = transient.and_then(|transient| transient.retry_after_ms) {
                shared.pause(&agent.name, Duration::from_millis(wait));
            }
            match code {
                _ if lingered => deliver(assignment, draft, None).await,
                Some(0) if error.is_none() => deliver(assignment, draft, end.printed.result).await,
                Some(code) => {
                    let reason = match error {
                        Some(error) => format!("{task}: failed (exit {code}): {}{}", cut(&error), withheld(agent_env)),
                        None => because(format!("{task}: failed (exit {code})")),
                    };
                    draft.failed(if code == 0 { "agent-error" } else { "agent-exit" }, &reason, transient)
                }
                None => {
                    let signal = end.status.map_or_else(|| "unknown".to_owned(), os::signal_name);
                    let reason = format!("agent process returned no exit code (timed out or killed): signal {signal}");
                    draft.failed("agent-signalled", &because(reason), None)
                }
            }
        }
    }
}

/// A preset's final message becomes the result, unless it wrote one itself.
async fn deliver(assignment: &Assignment, draft: Draft, result: Option<String>) -> Outcome {
    let Some(result) = result else { return draft.completed() };
    let path = &assignment.folder.result;
    match result_file::write_if_absent(path, result).await {
        Ok(_) => draft.completed(),
        Err(error) => {
            let reason = format!("{}: its result cannot be written to {}: {error}", assignment.task_id, path.display());
            draft.failed("agent-result", &reason, None)
        }
    }
}

/// Names of what the agent did not get, in case that is why it failed.
fn withheld(agent_env: &AgentEnv) -> String {
    let names: Vec<&str> =
        agent_env.withheld.iter().map(String::as_str).filter(|name| !env::is_never_forwarded(name)).take(8).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(" (not in its environment: {}; env.pass names what an agent gets)", names.join(", "))
}

fn cut(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    line.chars().take(300).collect()
}
