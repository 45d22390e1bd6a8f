//! What may be typed, as clap reads it.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flowdrive_protocol::feedback::{FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{AgentName, InputName, NodeId, RunId};

use super::prune::PruneArgs;

/// Drives multi-task AI-agent workflows.
///
/// Exit codes of `drive`, `resume` and `demo`: 0 complete, 3 parked, 4 blocked, 5 in progress, 1 fault, 2 bad usage.
#[derive(Debug, Parser)]
#[command(name = "flowdrive", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workflow to its end.
    Drive(DriveArgs),
    /// Say what `drive` or `resume` would do. Starts nothing, writes nothing.
    Preview(PreviewArgs),
    /// Carry a run on. What was accepted is not run again.
    Resume(ResumeArgs),
    /// What waits for a person's decision.
    Feedback(FeedbackArgs),
    /// List the runs of a workspace, newest first; or remove old ones.
    Runs(RunsArgs),
    /// Show a run: its phases, tasks and findings.
    Show(RunArgs),
    /// Print a run's report, as Markdown or as an HTML page.
    Report(ReportArgs),
    /// Check a run's record against itself and the files on disk.
    Verify(RunArgs),
    /// End a drive early.
    Stop(StopArgs),
    /// List the workflows that can be driven.
    Workflows(PlaceArgs),
    /// Look at the installation: agents, configuration, workspace.
    Doctor(PlaceArgs),
    /// Drive a small workflow with a command agent and an HTTP agent, both of our own. Needs nothing installed.
    Demo(DemoArgs),
    /// Write the JSON Schemas, the OpenRPC document and the TypeScript types.
    Schema(SchemaArgs),
    /// Speak JSON-RPC on standard input and output.
    Serve(ServeArgs),
    /// Be an agent.
    #[command(subcommand, hide = true)]
    Agent(AgentCommand),
}

/// Where a command looks, and how it answers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PlaceArgs {
    /// The folder the run is about. When absent, the current one; for what asks about runs, the nearest above that has some.
    #[arg(long, short = 'w', value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Read this configuration file instead of the user's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DrivingArgs {
    /// The agent for tasks that name none.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// How many agents at once.
    #[arg(long, short = 'j', value_name = "N", value_parser = count)]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Fill one window, settle it, stop.
    #[arg(long)]
    pub(crate) once: bool,
    /// Reuse results of earlier incremental drives wherever what a task is given, and what its result cites, is the same.
    #[arg(long)]
    pub(crate) incremental: bool,
    /// Attempts before a task parks.
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) max_attempts: Option<NonZeroU32>,
    /// Tokens the run may spend in all, in place of the limit it has; 0 for none.
    #[arg(long, value_name = "N")]
    pub(crate) token_budget: Option<u64>,
    /// Accept results whose usage carries no valid signature, though the agent must sign it. Recorded, and in the report.
    #[arg(long)]
    pub(crate) allow_unattested: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DriveArgs {
    /// A workflow's id (see `flowdrive workflows`), or the path of a .toml or .json file.
    pub(crate) workflow: String,
    /// A value for an input. Several for one name make a list; `NAME=@FILE` reads a file, `NAME=@@...` is a literal @.
    #[arg(long = "input", short = 'i', value_name = "NAME=VALUE", value_parser = input)]
    pub(crate) inputs: Vec<(InputName, String)>,
    /// The id for the new run.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<RunId>,
    #[command(flatten)]
    pub(crate) driving: DrivingArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run's id, the start of it, or `latest`.
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) driving: DrivingArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    /// A workflow's id, or the path of a .toml or .json file.
    #[arg(required_unless_present = "run", conflicts_with = "run")]
    pub(crate) workflow: Option<String>,
    /// The run that would be carried on: its id, the start of it, or `latest`.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// A value for an input, as for `drive`.
    #[arg(long = "input", short = 'i', value_name = "NAME=VALUE", value_parser = input, conflicts_with = "run")]
    pub(crate) inputs: Vec<(InputName, String)>,
    /// The agent for tasks that name none.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<AgentName>,
    /// How many agents at once.
    #[arg(long, short = 'j', value_name = "N", value_parser = count)]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Whether results of earlier runs would be reused.
    #[arg(long)]
    pub(crate) incremental: bool,
    /// Tokens the run may spend in all, in place of the limit it has; 0 for none.
    #[arg(long, value_name = "N")]
    pub(crate) token_budget: Option<u64>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The run's id, the start of it, or `latest`.
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
    /// How many at most.
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroU32,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Remove old runs. A run that is being driven is never touched.
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The run's id, the start of it, or `latest`.
    pub(crate) run: String,
    /// Print where the report is instead of what it says.
    #[arg(long)]
    pub(crate) path: bool,
    /// The HTML page, with its timeline, instead of the Markdown.
    #[arg(long)]
    pub(crate) html: bool,
    /// The folder the run is about; the current one when absent.
    #[arg(long, short = 'w', value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The run's id, the start of it, or `latest`.
    pub(crate) run: String,
    /// End the agents at once instead of letting them finish.
    #[arg(long)]
    pub(crate) now: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FeedbackArgs {
    #[command(subcommand)]
    pub(crate) command: FeedbackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FeedbackCommand {
    /// List a run's feedback records.
    List(FeedbackListArgs),
    /// Close a feedback record.
    Resolve(ResolveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FeedbackListArgs {
    /// The run's id, the start of it, or `latest`.
    pub(crate) run: String,
    /// Only those that stand like this.
    #[arg(long, value_name = "STATUS", value_parser = wire::<FeedbackStatus>)]
    pub(crate) status: Option<FeedbackStatus>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The run's id, the start of it, or `latest`.
    pub(crate) run: String,
    /// The record's id, or the start of it. Several are closed in the same way: all, or none.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// `retry` opens the task again, `rejected` leaves it parked, `resolved` needs --node, `tasked` writes a correction
    /// task down.
    #[arg(long, value_name = "resolved|rejected|retry|tasked", value_parser = wire::<Resolution>)]
    pub(crate) resolution: Resolution,
    /// For `resolved`: the verified node that settles it.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
    /// A note for the record.
    #[arg(long, short = 'm', value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// For `retry` and `tasked`: what the task is told.
    #[arg(long, value_name = "TEXT")]
    pub(crate) guidance: Option<String>,
    /// A place that supports the resolution, such as src/main.rs:10. May be repeated.
    #[arg(long, value_name = "LOCATOR")]
    pub(crate) evidence: Vec<String>,
    /// A file that supports the resolution. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) artifact: Vec<String>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// What to look for.
    #[arg(long, value_name = "TEXT", default_value = "Where does this project start, and how is it tested?")]
    pub(crate) question: String,
    /// The folder to look at; the current one when absent. The run is kept in its `.cw`.
    #[arg(long, short = 'w', value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Print the result as JSON, and nothing else, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Print this one instead of writing them all.
    #[arg(value_enum, conflicts_with_all = ["out", "check"])]
    pub(crate) name: Option<crate::schema::Name>,
    /// Print the TypeScript types instead of writing the files.
    #[arg(long, conflicts_with_all = ["name", "out", "check"])]
    pub(crate) ts: bool,
    /// Bring the tables of this document up to date as well, or check them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "ts"])]
    pub(crate) docs: Option<PathBuf>,
    /// Write nothing; say whether a client that was made for this protocol schema fits this server.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "ts", "out", "check", "docs"])]
    pub(crate) against: Option<PathBuf>,
    /// The folder to write to, or to check.
    #[arg(long, value_name = "DIR", default_value = "schema")]
    pub(crate) out: PathBuf,
    /// Write nothing; fail when a file there is not up to date.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Use standard input and output. There is no other way yet; editors name it anyway.
    #[arg(long)]
    pub(crate) stdio: bool,
    /// How messages are laid out.
    #[arg(long, value_enum, default_value_t = FramingChoice::Auto)]
    pub(crate) framing: FramingChoice,
    /// Read this configuration file instead of the user's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// When the input ends, finish every request that is in flight, drives too, before ending.
    #[arg(long)]
    pub(crate) finish_on_eof: bool,
    /// End when this process ends.
    #[arg(long = "clientProcessId", alias = "client-process-id", value_name = "PID", hide = true)]
    pub(crate) client_process: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FramingChoice {
    /// Recognise it from the first byte.
    Auto,
    /// `Content-Length` headers, as editors speak.
    Lsp,
    /// One JSON value a line.
    Ndjson,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Search the workspace for the words of a question, and write a result that cites what was found.
    Survey(SurveyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SurveyArgs {
    /// The task, as Flowdrive wrote it for the agent.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Where the result goes.
    #[arg(long, value_name = "FILE")]
    pub(crate) result: PathBuf,
    /// The folder to search.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
}

fn input(text: &str) -> Result<(InputName, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let name = InputName::new(name).map_err(|error| error.to_string())?;
    Ok((name, value.to_owned()))
}

/// A number of things, one at least.
fn count(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 1 to {}", u32::MAX))
}

/// A value written as it is on the wire.
pub(super) fn wire<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
