//! The command line: a client of the server like any other. It starts `flowdrive serve` as a child, asks it, and shows
//! the answer to a person, or as JSON to a program.
//!
//! Must not: read or write a run itself, or decide anything about one.

mod args;
mod demo;
mod drive;
mod error;
mod feedback;
mod format;
mod inputs;
mod output;
mod plan;
mod progress;
mod prune;
mod runs;
mod session;
mod summary;
mod table;

use std::process::ExitCode;
use std::time::Duration;

pub(crate) use args::{AgentCommand, Cli, Command, FramingChoice, SchemaArgs, ServeArgs};

use args::{RunsArgs, RunsCommand};
use error::CliError;

/// The exit code of a fault.
const FAULT: u8 = 1;

/// How long is waited at the end for threads that still read or write.
const LINGER: Duration = Duration::from_millis(100);

/// Runs a command that is a client of the server. `serve`, `schema` and `agent` are not: their caller runs them.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(source) => return ExitCode::from(error::report(&CliError::io("start the runtime", source))),
    };
    let outcome = runtime.block_on(dispatch(cli.command));
    runtime.shutdown_timeout(LINGER);
    ExitCode::from(match outcome {
        Ok(code) => code,
        Err(error) => error::report(&error),
    })
}

async fn dispatch(command: Command) -> Result<u8, CliError> {
    match command {
        Command::Drive(args) => Box::pin(drive::drive(args)).await,
        Command::Resume(args) => Box::pin(drive::resume(args)).await,
        Command::Preview(args) => plan::preview(args).await,
        Command::Feedback(args) => feedback::feedback(args).await,
        Command::Runs(RunsArgs { command: Some(RunsCommand::Prune(args)), .. }) => prune::prune(args).await,
        Command::Runs(args) => runs::list(args).await,
        Command::Show(args) => runs::show(args).await,
        Command::Report(args) => runs::report(args).await,
        Command::Verify(args) => runs::verify(args).await,
        Command::Stop(args) => runs::stop(args).await,
        Command::Workflows(args) => plan::workflows(args).await,
        Command::Doctor(args) => plan::doctor(args).await,
        Command::Demo(args) => Box::pin(demo::demo(args)).await,
        Command::Serve(_) | Command::Schema(_) | Command::Agent(_) => Err(CliError::usage(
            "this command is not a client of the server",
            "this is a defect of the program: report it",
        )),
    }
}
