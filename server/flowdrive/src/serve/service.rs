//! The methods: from a request's params to the engine and back. Language Server Protocol methods and our own end in the
//! same functions, so that a client can use either.
//!
//! Must not: know how messages are framed, or hold state of a run.

mod language;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowdrive_engine::EngineError;
use flowdrive_protocol::config::Config;
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::*;
use flowdrive_protocol::prune::PruneRunsParams;
use flowdrive_protocol::{MIN_PROTOCOL_VERSION, PROTOCOL_VERSION};
use futures::FutureExt;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tower_lsp::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp::lsp_types::{MessageType, NumberOrString, WorkDoneProgressCancelParams};
use tower_lsp::{Client, ClientSocket, LspService};

use super::answer::Answer;
use super::backend::Backend;
use super::drives::{Drives, Wishes, defect};
use super::folders::Folders;
use super::outbox::{Outbox, notification};
use super::publisher::Publisher;
use super::settings::Standing;
use super::{fault, message};

/// Prefix of our methods among the commands of `workspace/executeCommand`.
pub(crate) const COMMAND_PREFIX: &str = "flowdrive.";
/// Closes a feedback record.
pub(crate) const RESOLVE_COMMAND: &str = "flowdrive.resolveFeedback";
/// Drives a workflow.
pub(crate) const DRIVE_COMMAND: &str = "flowdrive.drive";
/// Has the client show a run's report.
pub(crate) const OPEN_REPORT: &str = "flowdrive.openReport";
/// Has the client show, in a sentence, what a drive would do.
pub(crate) const SHOW_PREVIEW: &str = "flowdrive.showPreview";

/// What cannot be done without the user's own agents. Everything else is answered also when the configuration is broken.
const NEEDS_AGENTS: [&str; 5] = [DRIVE, RESUME, PREVIEW, RESOLVE_FEEDBACK, LIST_AGENTS];

/// The service. Clones share its state.
#[derive(Clone)]
pub(crate) struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    outbox: Outbox,
    client: Client,
    drives: Drives,
    publisher: Publisher,
    configuration: Standing,
    session: Mutex<Session>,
    parent: watch::Sender<Option<u32>>,
}

#[derive(Default)]
struct Session {
    folders: Folders,
    wishes: Wishes,
    /// The configuration that the client chose to send.
    sent: Config,
    shows_documents: bool,
    answers_configuration: bool,
    registers_configuration: bool,
    refreshes_lenses: bool,
    shut_down: bool,
    /// The introduction under way is the server's own.
    implied: bool,
}

/// Every method of ours, in the order of the documentation.
pub(crate) const METHODS: &[&str] = &[
    DRIVE,
    PREVIEW,
    RESUME,
    RESOLVE_FEEDBACK,
    STOP,
    LIST_RUNS,
    SHOW_RUN,
    LIST_FEEDBACK,
    LIST_WORKFLOWS,
    VERIFY_RUN,
    PRUNE_RUNS,
    DOCTOR,
    LIST_AGENTS,
    SERVER_INFO,
];

impl Service {
    /// The service behind tower-lsp's routing of the Language Server Protocol's methods, and the way to the client.
    pub(crate) fn build(make: impl FnOnce(Client) -> Self) -> (LspService<Self>, ClientSocket) {
        LspService::build(make).custom_method("window/workDoneProgress/cancel", Self::on_progress_cancel).finish()
    }

    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        configuration: Standing,
        outbox: Outbox,
        client: Client,
        parent: watch::Sender<Option<u32>>,
    ) -> Self {
        let publisher = Publisher::new(backend.clone(), outbox.clone());
        let drives = Drives::new(backend.clone(), outbox.clone(), client.clone(), publisher.clone());
        let session = Mutex::new(Session::default());
        Self { shared: Arc::new(Shared { backend, outbox, client, drives, publisher, configuration, session, parent }) }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.shared.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The drives under way.
    pub(crate) fn drives(&self) -> &Drives {
        &self.shared.drives
    }

    /// What keeps the client's diagnostics in step.
    pub(crate) fn publisher(&self) -> &Publisher {
        &self.shared.publisher
    }

    /// Says whether the `initialize` that follows is the server's own: that one has no options, and must not fail.
    pub(crate) fn set_implied(&self, implied: bool) {
        self.session().implied = implied;
    }

    /// Whether the client said `shutdown`.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.session().shut_down
    }

    /// Answers one of [`METHODS`].
    ///
    /// # Errors
    /// As the engine says; "invalid params"; "method not found"; "internal error" when the handler panics.
    pub(crate) async fn answer(&self, method: &str, params: Value) -> Result<Answer> {
        let work = AssertUnwindSafe(Box::pin(self.route(method, params))).catch_unwind();
        work.await.unwrap_or_else(|_| Err(defect(method)))
    }

    async fn route(&self, method: &str, params: Value) -> Result<Answer> {
        /// Reads the params, fills in the workspace, asks the engine.
        macro_rules! ask {
            ($params:ty, $call:ident) => {{
                let run = run_of(&params);
                let mut params: $params = fault::params(method, params)?;
                params.workspace = self.workspace(method, params.workspace, run.as_ref())?;
                encoded(method, self.shared.backend.$call(params).await)
            }};
        }
        if let Some(error) = self.shared.configuration.fault.as_ref().filter(|_| NEEDS_AGENTS.contains(&method)) {
            return Err(fault::from_engine(error));
        }
        match method {
            DRIVE => self.drive(fault::params(method, params)?).await,
            RESUME => self.drive(fault::params::<ResumeParams>(method, params)?.into()).await,
            PREVIEW => ask!(PreviewParams, preview),
            RESOLVE_FEEDBACK => self.resolve_feedback(fault::params(method, params)?).await,
            STOP => ask!(StopParams, stop),
            LIST_RUNS => ask!(ListRunsParams, list_runs),
            SHOW_RUN => ask!(ShowRunParams, show_run),
            LIST_FEEDBACK => ask!(ListFeedbackParams, list_feedback),
            LIST_WORKFLOWS => ask!(ListWorkflowsParams, list_workflows),
            VERIFY_RUN => ask!(VerifyRunParams, verify_run),
            PRUNE_RUNS => ask!(PruneRunsParams, prune_runs),
            DOCTOR => {
                let mut params: DoctorParams = fault::params(method, params)?;
                // The installation can be looked at without any folder.
                params.workspace = self.workspace(method, params.workspace, None).unwrap_or_default();
                let answer = self.shared.backend.doctor(params).await;
                encoded(method, answer.map(|result| self.with_configuration(result)))
            }
            LIST_AGENTS => encoded(method, self.shared.backend.list_agents(fault::params(method, params)?).await),
            SERVER_INFO => {
                let params: ServerInfoParams = fault::params(method, params)?;
                check_protocol(params.protocol_version)?;
                encoded(method, Ok(server_info(self.shared.configuration.fault.as_ref())))
            }
            other => Err(unknown_method(other)),
        }
    }

    /// What doctor found, and how the configuration stands that it looked at.
    fn with_configuration(&self, mut result: DoctorResult) -> DoctorResult {
        result.ok &= self.shared.configuration.fault.is_none();
        result.checks.insert(0, self.shared.configuration.check());
        result
    }

    async fn resolve_feedback(&self, mut params: ResolveFeedbackParams) -> Result<Answer> {
        params.workspace = self.workspace(RESOLVE_FEEDBACK, params.workspace, Some(&params.run_id))?;
        let shown = params.workspace.clone().map(|workspace| (workspace, params.run_id.clone()));
        let wishes = self.session().wishes.clone();
        let sink = self.shared.drives.listener(params.workspace.clone(), &wishes);
        let record = encoded(RESOLVE_FEEDBACK, self.shared.backend.resolve_feedback(params, sink).await)?;
        if let Some(run) = shown {
            self.shared.publisher.mark(run);
        }
        Ok(record)
    }

    /// The user pressed "cancel" in a progress display. tower-lsp has no handler for it.
    async fn on_progress_cancel(&self, params: WorkDoneProgressCancelParams) {
        self.shared.drives.cancel_progress(&match params.token {
            NumberOrString::Number(number) => ProgressToken::Number(number),
            NumberOrString::String(text) => ProgressToken::Text(text),
        });
    }

    async fn drive(&self, mut params: DriveParams) -> Result<Answer> {
        // With a workflow, the run is a new one, and in no folder yet.
        let run = params.run_id.clone().filter(|_| params.workflow.is_none());
        params.workspace = self.workspace(DRIVE, params.workspace, run.as_ref())?;
        let wishes = self.session().wishes.clone();
        self.shared.drives.drive(params, &wishes).await
    }

    /// The folder that a request is about.
    fn workspace(&self, method: &str, asked: Option<String>, run: Option<&RunId>) -> Result<Option<String>> {
        let folders = self.session().folders.clone();
        let holds =
            |folder: &str| run.is_some_and(|run| Path::new(folder).join(".cw/runs").join(run.as_str()).is_dir());
        folders.choose(asked, holds).map_err(|error| Error {
            data: Some(serde_json::json!({ "field": "workspace" })),
            ..message::fault(ErrorCode::InvalidParams, format!("`{method}` params: {error}"))
        })
    }

    /// Has the engine lay a client's configuration over the file's.
    fn configure(&self, over: Config) -> Result<()> {
        if let Some(error) = &self.shared.configuration.fault {
            return Err(fault::from_engine(error));
        }
        let notifications = over.notifications.clone();
        self.shared.backend.reconfigure(over).map_err(|error| fault::from_engine(&error))?;
        if let Some(wish) = notifications {
            let mut session = self.session();
            session.wishes.opt_out = wish.opt_out.iter().copied().collect::<HashSet<_>>();
            session.wishes.show_report = wish.show_report && session.shows_documents;
        }
        Ok(())
    }

    /// Shows the user that something the client told us is of no use.
    fn complain(&self, text: &str) {
        tracing::warn!("{text}");
        self.message(MessageType::ERROR, text);
    }

    fn message(&self, kind: MessageType, text: &str) {
        let params = serde_json::json!({"type": kind, "message": text});
        if let Some(bytes) = notification("window/showMessage", &params) {
            self.shared.outbox.notice(bytes);
        }
    }
}

fn encoded<T: Serialize>(method: &str, answer: std::result::Result<T, EngineError>) -> Result<Answer> {
    let answer = answer.map_err(|error| fault::from_engine(&error))?;
    Answer::of(method, &answer)
}

/// The run that params name, if they name one.
fn run_of(params: &Value) -> Option<RunId> {
    RunId::new(params["runId"].as_str()?).ok()
}

pub(crate) fn unknown_method(method: &str) -> Error {
    Error { message: format!("Method not found: `{method}`").into(), ..Error::method_not_found() }
}

fn server_info(broken_config: Option<&EngineError>) -> ServerInfo {
    ServerInfo {
        name: "flowdrive".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol_version: PROTOCOL_VERSION,
        min_protocol_version: MIN_PROTOCOL_VERSION,
        methods: METHODS.iter().map(|&method| method.to_owned()).collect(),
        configuration_fault: broken_config.map(ToString::to_string),
    }
}

/// Refuses a client that was made for a protocol this server does not speak.
fn check_protocol(client: Option<u32>) -> Result<()> {
    match client {
        Some(version) if !(MIN_PROTOCOL_VERSION..=PROTOCOL_VERSION).contains(&version) => {
            let message = format!(
                "the client speaks protocol version {version}, this server {MIN_PROTOCOL_VERSION} to {PROTOCOL_VERSION}"
            );
            let older = if version > PROTOCOL_VERSION { "Flowdrive's server" } else { "the client" };
            Err(fault::of_kind(ErrorKind::ProtocolMismatch, message, format!("Update {older}.")))
        }
        _ => Ok(()),
    }
}

/// Our methods as commands, and those that only an editor needs.
pub(crate) fn commands() -> Vec<String> {
    let methods = METHODS.iter().map(|method| format!("{COMMAND_PREFIX}{method}"));
    methods.chain([OPEN_REPORT.to_owned(), SHOW_PREVIEW.to_owned()]).collect()
}
