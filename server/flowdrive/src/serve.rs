//! `flowdrive serve`: JSON-RPC over standard input and output. Here the parts are put together, and here is decided when
//! and how the server ends.
//!
//! Invariants: standard output carries frames only; there is one writer; a client that does not read never holds up a
//! run; when the server has ended, so have its agents.
//!
//! Must not: know what a method does.

mod answer;
mod backend;
mod connection;
mod diagnostics;
mod documents;
mod drives;
mod fault;
mod folders;
mod framing;
mod initialize;
mod lifecycle;
mod message;
mod offers;
mod outbox;
mod progress;
mod publisher;
mod restore;
mod service;
mod settings;
mod stdio;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flowdrive_engine::{END_OF_INPUT, Engine, EngineOptions};
use flowdrive_protocol::config::Config;
use flowdrive_protocol::run::StopMode;
use futures::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use backend::Backend;
use connection::{Connection, End};
pub(crate) use framing::Framing;
use lifecycle::StopSignal;
use outbox::{Limits, Outbox};
#[cfg(test)]
pub(crate) use service::METHODS;
use service::Service;
use settings::Standing;

/// How long agents have to be gone when the server ends at once: SIGTERM, one second, SIGKILL, and the state on disk.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(1250);
/// From the reason to end until the process is gone, at most.
const WHOLE_END: Duration = Duration::from_millis(1400);
/// A graceful stop waits for agents for as long as they take; their own limits bound it.
const GRACEFUL: Duration = Duration::from_secs(7 * 24 * 3600);
/// What answers get to be finished in when the input has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What `serve` is told on its command line.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The framing; recognised from the first byte when absent.
    pub(crate) framing: Option<Framing>,
    /// The configuration file; the user's own when absent.
    pub(crate) config: Option<PathBuf>,
    /// Whether requests in flight, drives too, are finished when the input ends.
    pub(crate) finish_on_eof: bool,
    /// The process whose end is the server's.
    pub(crate) client_process: Option<u32>,
}

/// Serves until the client or a signal ends it. Returns the exit code.
///
/// # Errors
/// When a thread, a signal handler or a descriptor cannot be had.
pub(crate) fn serve(options: &Options) -> io::Result<u8> {
    let (input, output) = stdio::claim()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let (engine, configuration) = engine(options.config.as_deref())?;
        let (chunks, input_ended) = stdio::reading(input)?;
        let outside = Outside { signals: lifecycle::signals()?, complain: Box::new(io::stderr()), input_ended };
        let backend: Arc<dyn Backend> = Arc::new(engine);
        run(backend, configuration, options, chunks, output, outside, Limits::default()).await
    });
    // Threads that wait on the client do not hold up the end.
    runtime.shutdown_background();
    code
}

/// The engine with the user's configuration; or, when that is no good, one without, and the fault: it is told to the client,
/// where people see it, rather than to nobody by a server that does not start.
fn engine(named: Option<&Path>) -> io::Result<(Engine, Standing)> {
    // Names and values that are not Unicode mean nothing to an agent's policy.
    let all =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment: BTreeMap<String, String> = all.collect();
    let with = |config, environment| {
        Engine::new(EngineOptions { config, environment: Some(environment), ..EngineOptions::default() })
    };
    let standing = Standing::of(named, &environment);
    match settings::load(named, &environment).and_then(|config| with(config, environment.clone())) {
        Ok(engine) => Ok((engine, standing)),
        Err(error) => {
            // The fault may be in the environment: what configures an agent there is left out, the rest is looked at.
            let mut rest = environment;
            rest.retain(|name, _| !name.starts_with("CW_"));
            let bare = with(Config::default(), rest).map_err(io::Error::other)?;
            Ok((bare, Standing { fault: Some(error), ..standing }))
        }
    }
}

/// What reaches the server from outside its connection.
struct Outside {
    signals: mpsc::Receiver<StopSignal>,
    /// Where people read.
    complain: Box<dyn Write + Send>,
    /// Whether the input has ended, though not all of it may have been taken.
    input_ended: watch::Receiver<bool>,
}

/// Why the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Eof,
    Exit,
    /// Standard output is closed.
    ClientGone,
    ParentGone(u32),
    Signal(StopSignal),
}

impl Ending {
    /// As it is written down with the runs that it stops.
    const fn by(self) -> &'static str {
        match self {
            Self::Eof => END_OF_INPUT,
            Self::Exit => "exit",
            Self::ClientGone => "end of output",
            Self::ParentGone(_) => "end of the client's process",
            Self::Signal(signal) => signal.name(),
        }
    }
}

async fn run(
    backend: Arc<dyn Backend>,
    configuration: Standing,
    options: &Options,
    chunks: mpsc::Receiver<Vec<u8>>,
    output: impl Write + Send + 'static,
    outside: Outside,
    limits: Limits,
) -> io::Result<u8> {
    let (outbox, catch_ups) = Outbox::new(limits);
    let parent = watch::Sender::new(options.client_process);
    let named = parent.subscribe();
    let (lsp, socket) =
        Service::build(|client| Service::new(backend.clone(), configuration, outbox.clone(), client, parent));
    let service = lsp.inner().clone();
    let (requests, answers) = socket.split();
    stdio::writing(outbox.clone(), output)?;
    tokio::spawn(service.drives().clone().serve_catch_up(catch_ups));
    tokio::spawn(service.publisher().clone().publish());
    tokio::spawn(pass_on_requests(requests, outbox.clone()));
    let handlers = TaskTracker::new();
    let connection = Connection::new(lsp, Box::pin(answers), outbox.clone(), options.framing, handlers.clone());
    let reading = tokio::spawn(connection.read(chunks));
    let server = Server { backend, service, outbox, handlers, finish_on_eof: options.finish_on_eof };
    Ok(server.see_out(reading, named, outside).await)
}

/// Requests to the client leave through the same door as everything else.
async fn pass_on_requests(
    mut requests: impl futures::Stream<Item = tower_lsp::jsonrpc::Request> + Unpin,
    outbox: Outbox,
) {
    while let Some(request) = requests.next().await {
        match serde_json::to_vec(&request) {
            Ok(bytes) => outbox.notice(bytes),
            Err(error) => tracing::error!(%error, "a request to the client could not be encoded"),
        }
    }
}

struct Server {
    backend: Arc<dyn Backend>,
    service: Service,
    outbox: Outbox,
    handlers: TaskTracker,
    finish_on_eof: bool,
}

impl Server {
    /// Waits for a reason to end, ends the drives, lets the last answers out. Returns the exit code.
    async fn see_out(
        self,
        reading: tokio::task::JoinHandle<End>,
        named: watch::Receiver<Option<u32>>,
        mut outside: Outside,
    ) -> u8 {
        let framing_needs_shutdown = || self.outbox.framing() == Some(Framing::Lsp);
        let mut reading = std::pin::pin!(async move {
            match reading.await {
                Ok(End::Eof) => Ending::Eof,
                Ok(End::Exit) => Ending::Exit,
                Err(error) => {
                    tracing::error!(%error, "reading from the client failed");
                    Ending::ClientGone
                }
            }
        });
        let mut gone = std::pin::pin!(async {
            tokio::select! {
                () = self.outbox.broken() => Ending::ClientGone,
                () = self.abandoned(outside.input_ended), if !self.finish_on_eof => Ending::Eof,
                pid = lifecycle::parent_ended(named) => Ending::ParentGone(pid),
            }
        });
        let mut ending = tokio::select! {
            ending = &mut reading => ending,
            ending = &mut gone => ending,
            signal = next(&mut outside.signals) => Ending::Signal(signal),
        };
        tracing::info!(by = ending.by(), "ending");
        let first = ending;
        match ending {
            Ending::Signal(signal @ (StopSignal::Interrupt | StopSignal::Terminate)) => {
                self.say_how_to_resume(signal, &mut outside.complain);
                let stopping = self.backend.shutdown(StopMode::Graceful, signal.name(), GRACEFUL);
                tokio::select! {
                    _ = stopping => {}
                    hurry = &mut reading => ending = hurry,
                    hurry = &mut gone => ending = hurry,
                    signal = next(&mut outside.signals) => ending = Ending::Signal(signal),
                }
            }
            Ending::Eof if self.finish_on_eof => {
                self.handlers.close();
                tokio::select! {
                    () = self.handlers.wait() => {}
                    hurry = &mut gone => ending = hurry,
                    signal = next(&mut outside.signals) => ending = Ending::Signal(signal),
                }
            }
            Ending::ParentGone(pid) => {
                let text = format!(
                    "flowdrive: process {pid}, which the client named as its own, is not alive; ending. \
                     A client in another container must not name one."
                );
                let _ = writeln!(outside.complain, "{text}");
            }
            _ => {}
        }
        let unhurried = ending == Ending::Eof && self.finish_on_eof;
        self.end_at_once(ending, unhurried).await;
        match (first, ending) {
            (_, Ending::Signal(signal)) | (Ending::Signal(signal), _) => signal.exit_code(),
            (Ending::Eof | Ending::ClientGone, _) if !framing_needs_shutdown() => 0,
            _ => u8::from(!self.service.is_shut_down()),
        }
    }

    /// Returns when the input has ended and nobody reads the answers either. They hold up what was asked last, and so
    /// the end of the input: without this a client that is gone, but not its end of the output, would leave the server
    /// and its agents running.
    async fn abandoned(&self, mut input_ended: watch::Receiver<bool>) {
        if input_ended.wait_for(|ended| *ended).await.is_err() {
            std::future::pending::<()>().await;
        }
        while timeout(LAST_ANSWERS, self.outbox.room()).await.is_ok() {
            tokio::time::sleep(LAST_ANSWERS).await;
        }
    }

    async fn end_at_once(&self, ending: Ending, unhurried: bool) {
        let deadline = Instant::now() + WHOLE_END;
        let engine = self.backend.shutdown(StopMode::Now, ending.by(), AT_ONCE);
        self.handlers.close();
        let answers = async {
            // Scripts close their end and wait for the answer.
            let _ = timeout(LAST_ANSWERS, self.handlers.wait()).await;
        };
        let _ = timeout_at(deadline, futures::future::join(engine, answers)).await;
        // Answers of drives that have just ended.
        let _ = timeout_at(deadline, self.handlers.wait()).await;
        self.outbox.close();
        if unhurried {
            self.outbox.ended().await;
        } else {
            let _ = timeout_at(deadline, self.outbox.ended()).await;
        }
    }

    fn say_how_to_resume(&self, signal: StopSignal, to: &mut dyn Write) {
        let runs = self.service.drives().runs();
        if runs.is_empty() {
            return;
        }
        let mut text = format!(
            "flowdrive: {}: nothing new starts; waiting for the agents in flight. Once more ends them at once.\n",
            signal.name()
        );
        for live in runs {
            let place = live.workspace.map(|folder| format!(" --workspace {folder:?}")).unwrap_or_default();
            text.push_str(&format!("flowdrive: carry on with: flowdrive resume {}{place}\n", live.run));
        }
        // Nobody may be reading.
        let _ = to.write_all(text.as_bytes());
    }
}

/// The next signal; never when there can be none.
async fn next(signals: &mut mpsc::Receiver<StopSignal>) -> StopSignal {
    match signals.recv().await {
        Some(signal) => signal,
        None => std::future::pending().await,
    }
}
