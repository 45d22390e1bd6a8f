//! `drive` and `resume`: follows a drive to its end, and stops it when the user wants it stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use flowdrive_client::RunningDrive;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::ids::{AgentName, InputName};
use flowdrive_protocol::method::{DriveParams, ListWorkflowsParams, ResumeParams, StopParams, WorkflowRef};
use flowdrive_protocol::run::{DriveResult, StopMode};

use super::args::{DriveArgs, ResumeArgs};
use super::error::CliError;
use super::format::Paint;
use super::inputs::{self, Specs};
use super::output;
use super::progress::Progress;
use super::runs;
use super::session::Session;
use super::summary::{self, Summary};

/// How long a drive that was told to end at once may take to say so.
const FORCED_GRACE: Duration = Duration::from_secs(3);

pub(crate) async fn drive(args: DriveArgs) -> Result<u8, CliError> {
    Session::with(&args.place, async |session| {
        let (workflow, inputs) = selection(session, &args.workflow, &args.inputs).await?;
        let agent = args.driving.agent.clone();
        let running = session.client.drive(DriveParams {
            workspace: session.place(),
            workflow: Some(workflow),
            inputs,
            run_id: args.run_id,
            agent: args.driving.agent,
            concurrency: args.driving.concurrency,
            once: args.driving.once,
            incremental: args.driving.incremental,
            max_attempts: args.driving.max_attempts,
            token_budget: args.driving.token_budget,
            allow_unattested: args.driving.allow_unattested,
            work_done_token: None,
        });
        conclude(session, running, args.place.json, agent.as_ref()).await
    })
    .await
}

pub(crate) async fn resume(args: ResumeArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let run_id = runs::find(session, &args.run).await?;
        let agent = args.driving.agent.clone();
        let running = session.client.resume(ResumeParams {
            workspace: session.place(),
            run_id,
            agent: args.driving.agent,
            concurrency: args.driving.concurrency,
            once: args.driving.once,
            incremental: args.driving.incremental,
            max_attempts: args.driving.max_attempts,
            token_budget: args.driving.token_budget,
            allow_unattested: args.driving.allow_unattested,
            work_done_token: None,
        });
        conclude(session, running, args.place.json, agent.as_ref()).await
    })
    .await
}

/// The workflow that was typed, and its inputs with the types it wants.
pub(crate) async fn selection(
    session: &Session,
    typed: &str,
    given: &[(InputName, String)],
) -> Result<(WorkflowRef, BTreeMap<InputName, serde_json::Value>), CliError> {
    let workflow = inputs::workflow(typed, &session.current);
    let specs: Option<Specs> = match &workflow {
        _ if given.is_empty() => None,
        WorkflowRef::Path(path) => inputs::specs_of_file(&Path::new(&session.workspace).join(path)),
        WorkflowRef::Inline(_) => None,
        WorkflowRef::Id(id) => {
            let params = ListWorkflowsParams { workspace: session.place() };
            let listed = session.client.list_workflows(&params).await?.workflows;
            listed.into_iter().find(|workflow| workflow.id.as_str() == id).map(|workflow| workflow.inputs)
        }
    };
    let values = inputs::collect(given, specs.as_ref(), &session.current)?;
    Ok((workflow, values))
}

/// How a drive ended for us.
struct End {
    /// Absent when the drive was given up before it answered.
    result: Option<DriveResult>,
    /// The exit code of the signal that ended it at once.
    forced: Option<u8>,
}

/// Follows a drive to its end, tells of it, and gives the exit code.
///
/// `agent` is the one that was asked for.
pub(crate) async fn conclude(
    session: &Session,
    running: RunningDrive,
    json: bool,
    agent: Option<&AgentName>,
) -> Result<u8, CliError> {
    let started = Instant::now();
    let run_id = running.run_id.clone();
    let end = match follow(session, running).await {
        Err(CliError::Client(error)) if error.is_connection_loss() => {
            return Err(match &run_id {
                Some(id) => CliError::Lost { error, resume: summary::resume_command(id, &session.flags, agent) },
                None => error.into(),
            });
        }
        other => other?,
    };
    let Some(result) = end.result else {
        let command = run_id.map(|id| summary::resume_command(&id, &session.flags, agent));
        let next = command.map_or_else(String::new, |command| format!("next: {command}\n"));
        output::err(&format!("stopped at once\n{next}"));
        return Ok(end.forced.unwrap_or(super::FAULT));
    };
    let told = if json {
        output::json(&result)
    } else {
        // The summary is worth having without what this adds to it.
        let run = match runs::whole(session, &result.run_id).await {
            Ok(run) => Some(run),
            Err(error) => {
                tracing::warn!(%error, "the run cannot be shown");
                None
            }
        };
        let summary = Summary {
            result: &result,
            run: run.as_ref(),
            elapsed: started.elapsed(),
            report: &session.shown(&result.report_path),
            flags: &session.flags,
            agent,
        };
        output::out(&summary.render(Paint(output::out_colours())))
    };
    match told {
        // How the run stands is told by the exit code, also where nobody reads the rest: `drive | head -1`.
        Ok(()) | Err(CliError::ReaderGone) => {}
        Err(error) => return Err(error),
    }
    Ok(end.forced.unwrap_or_else(|| summary::exit_code(result.status)))
}

async fn follow(session: &Session, mut running: RunningDrive) -> Result<End, CliError> {
    let mut signals = Signals::new()?;
    let mut progress = Progress::new();
    let mut events_ended = false;
    let mut wanted: Option<StopMode> = None;
    let mut forced: Option<(u8, tokio::time::Instant)> = None;
    let outcome = loop {
        tokio::select! {
            biased;
            caught = signals.next() => match (wanted, forced) {
                (None, _) => {
                    progress.note(&format!(
                        "stopping when what is in flight has settled; {} once more to stop at once",
                        caught.again
                    ));
                    wanted = Some(StopMode::Graceful);
                    ask_to_stop(session, &running, StopMode::Graceful);
                }
                (Some(_), None) => {
                    progress.note("stopping at once");
                    wanted = Some(StopMode::Now);
                    forced = Some((caught.code, tokio::time::Instant::now() + FORCED_GRACE));
                    ask_to_stop(session, &running, StopMode::Now);
                }
                (Some(_), Some((code, _))) => break Ok(End { result: None, forced: Some(code) }),
            },
            event = running.events.next(), if !events_ended => match event {
                Some(event) => {
                    // A stop that came before the run was there found nothing to stop.
                    if let (Event::RunStarted { .. }, Some(mode)) = (&event.event, wanted) {
                        ask_to_stop(session, &running, mode);
                    }
                    progress.event(&event);
                }
                None => events_ended = true,
            },
            // Events come before the answer, and are shown before it.
            answer = &mut running.result, if events_ended => {
                break match answer {
                    Ok(result) => Ok(End { result: Some(result), forced: forced.map(|(code, _)| code) }),
                    Err(error) => match forced {
                        Some((code, _)) => Ok(End { result: None, forced: Some(code) }),
                        None => Err(error.into()),
                    },
                };
            }
            () = until(forced.map(|(_, deadline)| deadline)) => {
                break Ok(End { result: None, forced: forced.map(|(code, _)| code) });
            }
        }
    };
    drop(progress);
    outcome
}

/// Sends a stop without waiting for its answer: events and signals go on meanwhile.
fn ask_to_stop(session: &Session, running: &RunningDrive, mode: StopMode) {
    let Some(run_id) = running.run_id.clone() else { return };
    let client = session.client.clone();
    let params = StopParams { workspace: session.place(), run_id, mode };
    tokio::spawn(async move {
        if let Err(error) = client.stop(&params).await {
            // Sent again when the run starts, if it has not.
            tracing::debug!(%error, "the stop");
        }
    });
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The signals that ask for an end; on Windows the console's events.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
    #[cfg(windows)]
    terminate: tokio::signal::windows::CtrlBreak,
}

struct Caught {
    /// The exit code that tells of it.
    code: u8,
    /// What to do again.
    again: &'static str,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> Result<Self, CliError> {
        use tokio::signal::unix::{SignalKind, signal};

        let listen = |kind| signal(kind).map_err(|source| CliError::io("listen for signals", source));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    #[cfg(windows)]
    fn new() -> Result<Self, CliError> {
        use tokio::signal::windows::{ctrl_break, ctrl_c};

        let fault = |source| CliError::io("listen for signals", source);
        Ok(Self { interrupt: ctrl_c().map_err(fault)?, terminate: ctrl_break().map_err(fault)? })
    }

    async fn next(&mut self) -> Caught {
        let terminate = if cfg!(windows) { "press Ctrl-Break" } else { "send SIGTERM" };
        tokio::select! {
            _ = self.interrupt.recv() => Caught { code: 130, again: "press Ctrl-C" },
            _ = self.terminate.recv() => Caught { code: 143, again: terminate },
        }
    }
}
