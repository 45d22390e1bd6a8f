//! The methods: from a request's params to the engine and back. Language Server Protocol methods and our own end in the
//! same functions, so that a client can use either.
//!
//! Must not: know how messages are framed, or hold state of a run.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowdrive_engine::EngineError;
use flowdrive_protocol::config::Config;
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::method::*;
use flowdrive_protocol::prune::PruneRunsParams;
use flowdrive_protocol::run::{CheckStatus, DoctorCheck, StopMode};
use flowdrive_protocol::{MIN_PROTOCOL_VERSION, PROTOCOL_VERSION};
use futures::FutureExt;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tower_lsp::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp::lsp_types::request::ShowDocument;
use tower_lsp::lsp_types::{
    CodeActionParams, CodeActionResponse, DidChangeConfigurationParams, DidChangeWorkspaceFoldersParams,
    ExecuteCommandParams, InitializeParams, InitializeResult, MessageType, NumberOrString, ShowDocumentParams, Url,
    WorkDoneProgressCancelParams,
};
use tower_lsp::{Client, ClientSocket, LanguageServer, LspService};

use super::backend::Backend;
use super::drives::{Drives, Wishes, defect};
use super::outbox::{Outbox, notification};
use super::publisher::Publisher;
use super::{AT_ONCE, fault, initialize, message};

/// Prefix of our methods among the commands of `workspace/executeCommand`.
pub(crate) const COMMAND_PREFIX: &str = "flowdrive.";
/// Closes a feedback record.
pub(crate) const RESOLVE_COMMAND: &str = "flowdrive.resolveFeedback";
/// Has the client show a run's report.
pub(crate) const OPEN_REPORT: &str = "flowdrive.openReport";

/// What cannot be done without the user's own agents. Everything else is answered also when the configuration is broken.
const NEEDS_AGENTS: [&str; 4] = [DRIVE, RESUME, PREVIEW, RESOLVE_FEEDBACK];

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
    /// Why the configuration file cannot be used.
    broken_config: Option<EngineError>,
    session: Mutex<Session>,
    parent: watch::Sender<Option<u32>>,
}

#[derive(Default)]
struct Session {
    workspace: Option<String>,
    wishes: Wishes,
    shut_down: bool,
    /// The introduction under way is the server's own.
    implied: bool,
}

macro_rules! methods {
    ($($handler:ident = $name:ident,)*) => {
        /// Every method of ours, in the order of the documentation.
        pub(crate) const METHODS: &[&str] = &[$($name),*];

        impl Service {
            $(async fn $handler(&self, params: Value) -> Result<Value> { self.answer($name, params).await })*

            /// The service behind tower-lsp's routing, and the way to the client.
            pub(crate) fn build(make: impl FnOnce(Client) -> Self) -> (LspService<Self>, ClientSocket) {
                LspService::build(make)
                    $(.custom_method($name, Self::$handler))*
                    .custom_method("window/workDoneProgress/cancel", Self::on_progress_cancel)
                    .finish()
            }
        }
    };
}

methods! {
    on_drive = DRIVE,
    on_preview = PREVIEW,
    on_resume = RESUME,
    on_resolve_feedback = RESOLVE_FEEDBACK,
    on_stop = STOP,
    on_list_runs = LIST_RUNS,
    on_show_run = SHOW_RUN,
    on_list_feedback = LIST_FEEDBACK,
    on_list_workflows = LIST_WORKFLOWS,
    on_verify_run = VERIFY_RUN,
    on_prune_runs = PRUNE_RUNS,
    on_doctor = DOCTOR,
    on_server_info = SERVER_INFO,
}

impl Service {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        broken_config: Option<EngineError>,
        outbox: Outbox,
        client: Client,
        parent: watch::Sender<Option<u32>>,
    ) -> Self {
        let publisher = Publisher::new(backend.clone(), outbox.clone());
        let drives = Drives::new(backend.clone(), outbox.clone(), client.clone(), publisher.clone());
        let session = Mutex::new(Session::default());
        Self { shared: Arc::new(Shared { backend, outbox, client, drives, publisher, broken_config, session, parent }) }
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
    pub(crate) async fn answer(&self, method: &str, params: Value) -> Result<Value> {
        // Caught here so that tower-lsp's table of pending requests is left in order.
        let work = AssertUnwindSafe(Box::pin(self.route(method, params))).catch_unwind();
        work.await.unwrap_or_else(|_| Err(defect(method)))
    }

    async fn route(&self, method: &str, params: Value) -> Result<Value> {
        /// Reads the params, fills in the workspace, asks the engine.
        macro_rules! ask {
            ($params:ty, $call:ident) => {{
                let mut params: $params = fault::params(method, params)?;
                params.workspace = self.workspace(params.workspace);
                encoded(method, self.shared.backend.$call(params).await)
            }};
        }
        if let Some(error) = self.shared.broken_config.as_ref().filter(|_| NEEDS_AGENTS.contains(&method)) {
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
                params.workspace = self.workspace(params.workspace);
                let answer = self.shared.backend.doctor(params).await;
                encoded(method, answer.map(|result| self.with_configuration(result)))
            }
            SERVER_INFO => {
                let params: ServerInfoParams = fault::params(method, params)?;
                check_protocol(params.protocol_version)?;
                encoded(method, Ok(server_info(self.shared.broken_config.as_ref())))
            }
            other => Err(unknown_method(other)),
        }
    }

    /// What doctor found, and that the configuration it should have looked at is of no use.
    fn with_configuration(&self, mut result: DoctorResult) -> DoctorResult {
        if let Some(error) = &self.shared.broken_config {
            let hint = "correct it; until then only the agents that need no configuration are looked at".to_owned();
            let (name, message) = ("configuration".to_owned(), error.to_string());
            result.checks.insert(0, DoctorCheck { name, status: CheckStatus::Fail, message, hint: Some(hint) });
            result.ok = false;
        }
        result
    }

    async fn resolve_feedback(&self, mut params: ResolveFeedbackParams) -> Result<Value> {
        params.workspace = self.workspace(params.workspace);
        let shown = params.workspace.clone().map(|workspace| (workspace, params.run_id.clone()));
        let wishes = self.session().wishes.clone();
        let sink = self.shared.drives.listener(params.workspace.clone(), &wishes);
        let record = encoded(RESOLVE_FEEDBACK, self.shared.backend.resolve_feedback(params, sink).await)?;
        if let Some(run) = shown {
            self.shared.publisher.mark(run);
        }
        Ok(record)
    }

    /// Has the client show a report. Nothing waits for it.
    fn open_report(&self, path: &str) -> Result<()> {
        let wrong =
            || message::fault(ErrorCode::InvalidParams, format!("`{OPEN_REPORT}`: not an absolute path: `{path}`"));
        let uri = Url::from_file_path(path).map_err(|()| wrong())?;
        let client = self.shared.client.clone();
        tokio::spawn(async move {
            let params = ShowDocumentParams { uri, external: None, take_focus: Some(true), selection: None };
            if let Err(error) = client.send_request::<ShowDocument>(params).await {
                tracing::warn!(%error, "the client cannot show a document");
            }
        });
        Ok(())
    }

    /// The user pressed "cancel" in a progress display. tower-lsp has no handler for it.
    async fn on_progress_cancel(&self, params: WorkDoneProgressCancelParams) {
        self.shared.drives.cancel_progress(&match params.token {
            NumberOrString::Number(number) => ProgressToken::Number(number),
            NumberOrString::String(text) => ProgressToken::Text(text),
        });
    }

    async fn drive(&self, mut params: DriveParams) -> Result<Value> {
        params.workspace = self.workspace(params.workspace);
        let wishes = self.session().wishes.clone();
        self.shared.drives.drive(params, &wishes).await
    }

    fn workspace(&self, asked: Option<String>) -> Option<String> {
        asked.or_else(|| self.session().workspace.clone())
    }

    /// Has the engine lay a client's configuration over the file's.
    fn configure(&self, over: Config) -> Result<()> {
        if let Some(error) = &self.shared.broken_config {
            return Err(fault::from_engine(error));
        }
        let opt_out: Option<HashSet<_>> =
            over.notifications.as_ref().map(|wish| wish.opt_out.iter().copied().collect());
        self.shared.backend.reconfigure(over).map_err(|error| fault::from_engine(&error))?;
        if let Some(opt_out) = opt_out {
            self.session().wishes.opt_out = opt_out;
        }
        Ok(())
    }

    /// Shows the user that something the client told us is of no use.
    fn complain(&self, text: &str) {
        tracing::warn!("{text}");
        let params = serde_json::json!({"type": MessageType::ERROR, "message": text});
        if let Some(bytes) = notification("window/showMessage", &params) {
            self.shared.outbox.notice(bytes);
        }
    }
}

fn encoded<T: Serialize>(method: &str, answer: std::result::Result<T, EngineError>) -> Result<Value> {
    let answer = answer.map_err(|error| fault::from_engine(&error))?;
    serde_json::to_value(answer).map_err(|_| defect(method))
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

#[tower_lsp::async_trait]
impl LanguageServer for Service {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let options = initialize::options(params.initialization_options.as_ref().unwrap_or(&Value::Null))?;
        check_protocol(options.protocol_version)?;
        let implied = self.session().implied;
        if !implied {
            self.configure(options)?;
        }
        let facts = initialize::facts(&params);
        {
            let mut session = self.session();
            session.workspace = facts.workspace;
            session.wishes.creates_progress = facts.creates_progress;
        }
        if let Some(related) = facts.shows_diagnostics {
            self.shared.publisher.enable(related);
        }
        if let Some(parent) = params.process_id {
            self.shared.parent.send_replace(Some(parent));
        }
        Ok(initialize::result(facts.position_encoding))
    }

    async fn shutdown(&self) -> Result<()> {
        self.session().shut_down = true;
        self.shared.backend.shutdown(StopMode::Now, "shutdown", AT_ONCE).await;
        Ok(())
    }

    async fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
        let mut settings = params.settings;
        // Clients send either the whole tree of their settings, or our part of it, or nothing (to be asked for it).
        if let Some(section) = settings.get_mut("flowdrive") {
            settings = section.take();
        }
        if settings.is_null() {
            return;
        }
        if let Err(error) = initialize::options(&settings).and_then(|options| self.configure(options)) {
            self.complain(&format!("Flowdrive keeps its configuration: {}", error.message));
        }
    }

    async fn did_change_workspace_folders(&self, params: DidChangeWorkspaceFoldersParams) {
        let mut session = self.session();
        let removed =
            |path: &String| params.event.removed.iter().any(|gone| initialize::path(&gone.uri).as_ref() == Some(path));
        if session.workspace.as_ref().is_none_or(removed) {
            session.workspace = params.event.added.first().and_then(|folder| initialize::path(&folder.uri));
        }
    }

    async fn code_action(&self, params: CodeActionParams) -> Result<Option<CodeActionResponse>> {
        Ok(Some(self.shared.publisher.actions(&params.text_document.uri, params.range)))
    }

    async fn execute_command(&self, params: ExecuteCommandParams) -> Result<Option<Value>> {
        if params.command == OPEN_REPORT {
            let path = params.arguments.first().and_then(|argument| argument["path"].as_str()).unwrap_or_default();
            return self.open_report(path).map(|()| None);
        }
        let Some(method) = params.command.strip_prefix(COMMAND_PREFIX).filter(|method| METHODS.contains(method)) else {
            return Err(message::fault(
                ErrorCode::InvalidParams,
                format!("unknown command `{}`; those there are: {}", params.command, commands().join(", ")),
            ));
        };
        let mut argument = params.arguments.into_iter().next().unwrap_or_else(|| Value::Object(Default::default()));
        let token = params.work_done_progress_params.work_done_token;
        if let (Some(object), Some(token), true) = (argument.as_object_mut(), token, matches!(method, DRIVE | RESUME)) {
            object.entry("workDoneToken").or_insert_with(|| match token {
                NumberOrString::Number(number) => number.into(),
                NumberOrString::String(text) => text.into(),
            });
        }
        self.answer(method, argument).await.map(Some)
    }
}

/// Our methods as commands, and those that only an editor needs.
pub(crate) fn commands() -> Vec<String> {
    METHODS.iter().map(|method| format!("{COMMAND_PREFIX}{method}")).chain([OPEN_REPORT.to_owned()]).collect()
}
