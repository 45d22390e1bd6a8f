//! The `flowdrive` binary: the server, and the commands around it.
//!
//! Must not: do what a command does; only find out which one is meant.

mod cli;
mod logging;
mod schema;
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use cli::{AgentCommand, Cli, Command, FramingChoice, SchemaArgs, ServeArgs};
use flowdrive_engine::survey;
use logging::Log;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let log = match Log::start() {
        Ok(log) => log,
        Err(error) => return fail(&error.to_string()),
    };
    let code = match cli.command {
        Command::Serve(command) => serve::serve(&command.into()).map_err(|error| error.to_string()),
        Command::Schema(command) => schema_command(&command).map(|()| 0).map_err(|error| error.to_string()),
        Command::Agent(AgentCommand::Survey(args)) => {
            let args = survey::SurveyArgs { workspace: args.workspace, input: args.input, result: args.result };
            survey::run(&args).map(|_| 0).map_err(|error| error.to_string())
        }
        _ => {
            let code = cli::run(cli);
            log.flush(Duration::from_millis(50));
            return code;
        }
    };
    log.flush(Duration::from_millis(50));
    match code {
        // Threads may still wait on a client that does not read; they are not waited for.
        Ok(code) => std::process::exit(code.into()),
        Err(text) => fail(&text),
    }
}

fn schema_command(command: &SchemaArgs) -> Result<(), schema::SchemaError> {
    if let Some(earlier) = &command.against {
        return schema::check_against(earlier);
    }
    match command.name {
        _ if command.ts => schema::print_typescript(&mut io::stdout()),
        Some(name) => schema::print(name, &mut io::stdout()),
        None if command.check => {
            schema::check(&command.out)?;
            command.docs.as_deref().map_or(Ok(()), schema::check_docs)
        }
        None => {
            schema::write(&command.out)?;
            command.docs.as_deref().map_or(Ok(()), schema::write_docs)
        }
    }
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "flowdrive: {text}");
    ExitCode::FAILURE
}

impl From<ServeArgs> for serve::Options {
    fn from(command: ServeArgs) -> Self {
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
