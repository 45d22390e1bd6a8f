//! The client itself: one method for each of the protocol's, and the server's beginning and end.

use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::*;
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult};
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunView, StopMode};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::{PROTOCOL_VERSION, method};
use futures::FutureExt;
use jsonrpsee::core::client::async_client::ClientBuilder;
use jsonrpsee::core::client::{ClientT, Error as RpcError};
use jsonrpsee::core::traits::ToRpcParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::command::{EXIT_GRACE, Process, ServerCommand};
use crate::drive::{self, DriveFuture, RunningDrive};
use crate::error::ClientError;
use crate::events::{EventStream, Hub};
use crate::transport;

/// How long a call waits for its answer unless told otherwise. A drive waits without limit.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the server has to answer its first call.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// jsonrpsee has no "no limit"; this is longer than any process lives.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long is waited for the exit status of a server whose output ended.
const STATUS_GRACE: Duration = Duration::from_secs(1);

/// A client. Cheap to clone; when the last clone is dropped, the server is ended.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    wire: Arc<Wire>,
    info: ServerInfo,
    /// Turning true, or going away with the last client, it closes the server's input and starts its grace.
    closing: watch::Sender<bool>,
    command: Option<ServerCommand>,
}

/// What calls need. Held by calls under way too, so it must not keep the server alive.
struct Wire {
    rpc: jsonrpsee::core::client::Client,
    hub: Hub,
    closing: watch::Receiver<bool>,
    process: Option<Process>,
}

/// A new connection after the old one was lost.
#[derive(Debug)]
pub struct Reattached {
    /// The client of the new server.
    pub client: Client,
    /// The lifecycle events of the run that the old client had not seen, oldest first.
    pub missed: Vec<ProgressEvent>,
    /// The run as it stands. It is driven by nobody until it is resumed.
    pub run: RunView,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.inner.info).field("pid", &self.server_pid()).finish()
    }
}

impl Client {
    /// Starts the server and agrees on the protocol version with it.
    ///
    /// # Errors
    /// When the program cannot be started, does not answer, or speaks another protocol version.
    pub async fn spawn(command: ServerCommand) -> Result<Self, ClientError> {
        let (closing, closed) = watch::channel(false);
        let started = command.start(closed.clone())?;
        Self::open(started.stdout, started.stdin, closing, closed, Some(started.process), Some(command)).await
    }

    /// Speaks to a server that is there already, over a pair of byte streams.
    ///
    /// # Errors
    /// When it does not answer, or speaks another protocol version.
    pub async fn connect<R, W>(reader: R, writer: W) -> Result<Self, ClientError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (closing, closed) = watch::channel(false);
        Self::open(reader, writer, closing, closed, None, None).await
    }

    async fn open<R, W>(
        reader: R,
        writer: W,
        closing: watch::Sender<bool>,
        closed: watch::Receiver<bool>,
        process: Option<Process>,
        command: Option<ServerCommand>,
    ) -> Result<Self, ClientError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let hub = Hub::default();
        let (sender, receiver) = transport::connect(reader, writer, hub.clone(), closed.clone());
        let rpc = ClientBuilder::new().request_timeout(NO_LIMIT).build_with_tokio(sender, receiver);
        let wire = Arc::new(Wire { rpc, hub, closing: closed, process });
        let params = ServerInfoParams { protocol_version: Some(PROTOCOL_VERSION) };
        let info: ServerInfo = wire.call(method::SERVER_INFO, &params, Some(HANDSHAKE_TIMEOUT)).await?;
        if !(info.min_protocol_version..=info.protocol_version).contains(&PROTOCOL_VERSION) {
            return Err(ClientError::ProtocolMismatch {
                ours: PROTOCOL_VERSION,
                oldest: info.min_protocol_version,
                newest: info.protocol_version,
            });
        }
        Ok(Self { inner: Arc::new(Inner { wire, info, closing, command }), timeout: CALL_TIMEOUT })
    }

    /// The same client with another limit for its calls. Drives wait without limit always.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the server said of itself.
    #[must_use]
    pub fn server(&self) -> &ServerInfo {
        &self.inner.info
    }

    /// The server's process id, where we started it.
    #[must_use]
    pub fn server_pid(&self) -> Option<u32> {
        self.inner.wire.process.as_ref().and_then(Process::pid)
    }

    /// All events of all runs, from now on.
    #[must_use]
    pub fn events(&self) -> EventStream {
        self.inner.wire.hub.subscribe(None)
    }

    /// The number of the newest event seen of a run, for `showRun` with `sinceSeq`.
    #[must_use]
    pub fn last_seq(&self, run: &RunId) -> Option<u64> {
        self.inner.wire.hub.last_seq(run)
    }

    /// Starts `drive`. The request is on its way when this returns. Must be called inside a tokio runtime.
    #[must_use]
    pub fn drive(&self, mut params: DriveParams) -> RunningDrive {
        if params.run_id.is_none() {
            params.run_id = drive::new_run_id(&params, Timestamp::now());
        }
        let (run_id, workspace) = (params.run_id.clone(), params.workspace.clone());
        self.start(method::DRIVE, params, run_id, workspace)
    }

    /// Starts `resume`. The request is on its way when this returns. Must be called inside a tokio runtime.
    #[must_use]
    pub fn resume(&self, params: ResumeParams) -> RunningDrive {
        let (run_id, workspace) = (params.run_id.clone(), params.workspace.clone());
        self.start(method::RESUME, params, Some(run_id), workspace)
    }

    fn start<P: Serialize + Send + Sync + 'static>(
        &self,
        method: &'static str,
        params: P,
        run_id: Option<RunId>,
        workspace: Option<String>,
    ) -> RunningDrive {
        let events = self.inner.wire.hub.subscribe(run_id.clone());
        let end_of_events = events.closer();
        let wire = Arc::clone(&self.inner.wire);
        let mut call = Box::pin(async move { wire.call::<P, DriveResult>(method, &params, None).await });
        // The first poll queues the request, so that a `stop` sent after this one arrives after it.
        let early = call.as_mut().now_or_never();
        let result = tokio::spawn(async move {
            let answer = match early {
                Some(answer) => answer,
                None => call.await,
            };
            // The server sends every event of a drive before its answer.
            end_of_events();
            answer
        });
        RunningDrive { run_id, events, result: DriveFuture(result), workspace, client: self.clone() }
    }

    /// `stop`, gracefully: what dropping a call does not do.
    ///
    /// # Errors
    /// As any call.
    pub async fn cancel(&self, workspace: Option<String>, run_id: RunId) -> Result<StopResult, ClientError> {
        self.stop(&StopParams { workspace, run_id, mode: StopMode::Graceful }).await
    }

    /// The lifecycle events of a run after `since_seq`, oldest first, and the run as it stands.
    ///
    /// # Errors
    /// As any call.
    pub async fn replay(
        &self,
        workspace: Option<&str>,
        run_id: &RunId,
        since_seq: u64,
    ) -> Result<(Vec<ProgressEvent>, RunView), ClientError> {
        let mut missed = Vec::new();
        let mut since = since_seq;
        loop {
            let params = ShowRunParams {
                workspace: workspace.map(str::to_owned),
                run_id: run_id.clone(),
                since_seq: Some(since),
                task_ids: Vec::new(),
                task_offset: 0,
                task_limit: None,
                write_report: false,
            };
            let mut view = self.show_run(&params).await?;
            let newest = view.events.last().map(|event| event.seq);
            missed.append(&mut view.events);
            match newest {
                Some(newest) if view.more_events && newest > since => since = newest,
                _ => return Ok((missed, view)),
            }
        }
    }

    /// After the server was lost: starts a new one the same way, and fetches what this client has not seen of the run.
    ///
    /// # Errors
    /// When this client did not start its server, or the new one fails.
    pub async fn reattach(&self, workspace: Option<&str>, run_id: &RunId) -> Result<Reattached, ClientError> {
        let Some(command) = self.inner.command.clone() else {
            return Err(ClientError::TransportLost {
                reason: "this client did not start its server, and cannot start another".to_owned(),
            });
        };
        let client = Self::spawn(command).await?.with_timeout(self.timeout);
        let (missed, run) = client.replay(workspace, run_id, self.last_seq(run_id).unwrap_or(0)).await?;
        Ok(Reattached { client, missed, run })
    }

    /// Ends the server: closes its input, waits up to 3 s for it to leave, then kills it. Returns its exit status once it
    /// was reaped; none for a server this client did not start. May be called again.
    ///
    /// # Errors
    /// When the process's end could not be observed.
    pub async fn shutdown(&self) -> Result<Option<ExitStatus>, ClientError> {
        self.inner.closing.send_replace(true);
        let Some(process) = &self.inner.wire.process else { return Ok(None) };
        // The kill comes at the end of the grace; reaping it takes a moment more.
        match tokio::time::timeout(EXIT_GRACE + STATUS_GRACE, process.ended()).await {
            Ok(Some(status)) => Ok(Some(status)),
            _ => Err(ClientError::TransportLost { reason: "the server's end could not be observed".to_owned() }),
        }
    }

    async fn call<P: Serialize + Sync, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
    ) -> Result<R, ClientError> {
        self.inner.wire.call(method, params, Some(self.timeout)).await
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($params:ty) -> $result:ty = $method:ident;)*) => {
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            /// When the server refuses, is lost, or does not answer in time.
            pub async fn $name(&self, params: &$params) -> Result<$result, ClientError> {
                self.call(method::$method, params).await
            })*
        }
    };
}

calls! {
    /// Says what `drive` would do. Starts nothing, writes nothing.
    preview(PreviewParams) -> DrivePreview = PREVIEW;
    /// Closes a feedback record.
    resolve_feedback(ResolveFeedbackParams) -> FeedbackRecord = RESOLVE_FEEDBACK;
    /// Ends a drive early.
    stop(StopParams) -> StopResult = STOP;
    /// The runs of a workspace, newest first.
    list_runs(ListRunsParams) -> ListRunsResult = LIST_RUNS;
    /// One run, and the events a client missed.
    show_run(ShowRunParams) -> RunView = SHOW_RUN;
    /// A run's feedback records.
    list_feedback(ListFeedbackParams) -> ListFeedbackResult = LIST_FEEDBACK;
    /// The workflows that can be driven.
    list_workflows(ListWorkflowsParams) -> ListWorkflowsResult = LIST_WORKFLOWS;
    /// Checks a run's record against itself and the files on disk.
    verify_run(VerifyRunParams) -> VerifyRunResult = VERIFY_RUN;
    /// Removes runs, and kept results, that nobody needs any more.
    prune_runs(PruneRunsParams) -> PruneRunsResult = PRUNE_RUNS;
    /// Looks at the installation: agents, configuration, workspace.
    doctor(DoctorParams) -> DoctorResult = DOCTOR;
    /// The agents that tasks can be given to, and whether each can be used.
    list_agents(ListAgentsParams) -> ListAgentsResult = LIST_AGENTS;
    /// Name, version and protocol version.
    server_info(ServerInfoParams) -> ServerInfo = SERVER_INFO;
}

/// Parameters as one object. Written even when empty: jsonrpsee leaves an empty map out, and servers refuse that.
struct ObjectParams(Box<RawValue>);

impl ToRpcParams for ObjectParams {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(Some(self.0))
    }
}

impl Wire {
    async fn call<P: Serialize + Sync, R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &P,
        limit: Option<Duration>,
    ) -> Result<R, ClientError> {
        let params = serde_json::value::to_raw_value(params)
            .map_err(|error| ClientError::BadParams { method, reason: error.to_string() })?;
        let request = self.rpc.request::<R, _>(method, ObjectParams(params));
        let answer = match limit {
            None => request.await,
            Some(limit) => match tokio::time::timeout(limit, request).await {
                Ok(answer) => answer,
                Err(_) => return Err(ClientError::Timeout { method, after: limit }),
            },
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(RpcError::Call(error)) => Err(ClientError::Server {
                code: i64::from(error.code()),
                message: error.message().to_owned(),
                data: error.data().and_then(|data| serde_json::from_str(data.get()).ok()),
            }),
            Err(RpcError::ParseError(error)) => Err(ClientError::BadAnswer { method, reason: error.to_string() }),
            Err(RpcError::RequestTimeout) => Err(ClientError::Timeout { method, after: NO_LIMIT }),
            Err(error) => Err(self.lost(&error).await),
        }
    }

    /// The connection ended: says whether we did it, the server died, or neither.
    async fn lost(&self, error: &RpcError) -> ClientError {
        let ours = *self.closing.borrow() || self.closing.has_changed().is_err();
        if ours {
            return ClientError::TransportLost { reason: "this client was shut down".to_owned() };
        }
        if let Some(process) = &self.process
            && let Ok(status) = tokio::time::timeout(STATUS_GRACE, process.ended()).await
        {
            return ClientError::ServerDied { status, stderr_tail: process.stderr_tail() };
        }
        ClientError::TransportLost { reason: error.to_string() }
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
