//! The `flowdrive` binary: the server, and the commands around it.
//!
//! Must not: do what a command does; only find out which one is meant.

mod logging;
mod schema;
mod serve;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use flowdrive_engine::survey::{self, SurveyArgs};
use logging::Log;

/// Drives multi-task AI-agent workflows.
#[derive(Debug, Parser)]
#[command(name = "flowdrive", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Speak JSON-RPC on standard input and output.
    Serve(Serve),
    /// Write the JSON Schemas and the OpenRPC document.
    Schema(Schema),
    /// Act as one of the embedded agents.
    #[command(subcommand, hide = true)]
    Agent(AgentCommand),
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Search the workspace for the words of the question.
    Survey(Survey),
}

#[derive(Debug, Args)]
struct Survey {
    /// The file with the question.
    #[arg(long)]
    input: PathBuf,
    /// Where the result goes.
    #[arg(long)]
    result: PathBuf,
    /// The folder that is searched.
    #[arg(long, default_value = ".")]
    workspace: PathBuf,
}

#[derive(Debug, Args)]
struct Serve {
    /// Use standard input and output. There is no other way yet; editors name it anyway.
    #[arg(long)]
    stdio: bool,
    /// How messages are laid out.
    #[arg(long, value_enum, default_value_t = FramingChoice::Auto)]
    framing: FramingChoice,
    /// Read this configuration file instead of the user's own.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// When the input ends, finish every request that is in flight, drives too, before ending.
    #[arg(long)]
    finish_on_eof: bool,
    /// End when this process ends.
    #[arg(long = "clientProcessId", alias = "client-process-id", value_name = "PID", hide = true)]
    client_process: Option<u32>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FramingChoice {
    /// Recognise it from the first byte.
    Auto,
    /// `Content-Length` headers, as editors speak.
    Lsp,
    /// One JSON value a line.
    Ndjson,
}

#[derive(Debug, Args)]
struct Schema {
    /// Print this one instead of writing them all.
    #[arg(value_enum, conflicts_with_all = ["out", "check"])]
    name: Option<schema::Name>,
    /// The folder to write to, or to check.
    #[arg(long, value_name = "DIR", default_value = "schema")]
    out: PathBuf,
    /// Write nothing; fail when a file there is not up to date.
    #[arg(long)]
    check: bool,
}

impl Schema {
    fn run(&self) -> Result<(), schema::SchemaError> {
        match self.name {
            Some(name) => schema::print(name, &mut io::stdout()),
            None if self.check => schema::check(&self.out),
            None => schema::write(&self.out),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let log = match Log::start() {
        Ok(log) => log,
        Err(error) => return fail(&error.to_string()),
    };
    let code = match cli.command {
        Command::Serve(command) => serve::serve(&command.into()).map_err(|error| error.to_string()),
        Command::Schema(command) => command.run().map(|()| 0).map_err(|error| error.to_string()),
        Command::Agent(AgentCommand::Survey(Survey { input, result, workspace })) => {
            let args = SurveyArgs { workspace, input, result };
            survey::run(&args).map(|_| 0).map_err(|error| error.to_string())
        }
    };
    log.flush(Duration::from_millis(50));
    match code {
        // Threads may still wait on a client that does not read; they are not waited for.
        Ok(code) => std::process::exit(code.into()),
        Err(text) => fail(&text),
    }
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "flowdrive: {text}");
    ExitCode::FAILURE
}

impl From<Serve> for serve::Options {
    fn from(command: Serve) -> Self {
        Self {
            framing: match command.framing {
                FramingChoice::Auto => None,
                FramingChoice::Lsp => Some(serve::Framing::Lsp),
                FramingChoice::Ndjson => Some(serve::Framing::Ndjson),
            },
            config: command.config,
            finish_on_eof: command.finish_on_eof,
            client_process: command.client_process,
        }
    }
}
