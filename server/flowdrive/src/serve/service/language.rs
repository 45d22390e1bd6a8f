//! What editors ask for by the Language Server Protocol itself: the lifecycle, configuration, folders, code actions, code
//! lenses and commands.
//!
//! Must not: do what one of our methods does in another way than that method.

use std::path::{Path, PathBuf};

use flowdrive_protocol::method::{DRIVE, PREVIEW, RESUME};
use flowdrive_protocol::run::StopMode;
use serde_json::Value;
use tower_lsp::LanguageServer;
use tower_lsp::jsonrpc::{ErrorCode, Result};
use tower_lsp::lsp_types::{
    CodeActionParams, CodeActionResponse, CodeLens, CodeLensParams, ConfigurationItem, DidChangeConfigurationParams,
    DidChangeWorkspaceFoldersParams, DidSaveTextDocumentParams, ExecuteCommandParams, InitializeParams,
    InitializeResult, InitializedParams, MessageType, NumberOrString, PositionEncodingKind, Registration,
    WorkspaceFolder,
};

use super::super::diagnostics::Columns;
use super::super::folders::Folders;
use super::super::{AT_ONCE, documents, initialize, message, offers, restore};
use super::{COMMAND_PREFIX, METHODS, OPEN_REPORT, SHOW_PREVIEW, Service, check_protocol, commands};

/// Larger files are not looked at for a workflow.
const MAX_WORKFLOW_BYTES: u64 = 1024 * 1024;

impl Service {
    /// Has the client show a report. Nothing waits for it.
    fn open_report(&self, path: &str) -> Result<()> {
        let wrong =
            || message::fault(ErrorCode::InvalidParams, format!("`{OPEN_REPORT}`: not an absolute path: `{path}`"));
        if documents::show(&self.shared.client, Path::new(path)) { Ok(()) } else { Err(wrong()) }
    }

    /// Asks the client for its configuration. Its answer may come late or never; nothing waits for it.
    fn pull_configuration(&self) {
        let service = self.clone();
        tokio::spawn(async move {
            let asked = ConfigurationItem { scope_uri: None, section: Some("flowdrive".to_owned()) };
            let answer = match service.shared.client.configuration(vec![asked]).await {
                Ok(mut values) if !values.is_empty() => values.swap_remove(0),
                Ok(_) => return,
                Err(error) => return tracing::debug!(%error, "the client does not say what its configuration is"),
            };
            if answer.is_object() {
                service.take_pulled(&answer);
            }
        });
    }

    /// Shows what folders hold that were just opened. Nothing waits for it.
    fn restore(&self, folders: Vec<String>) {
        if self.shared.publisher.is_on() && !folders.is_empty() {
            let (backend, publisher) = (self.shared.backend.clone(), self.shared.publisher.clone());
            tokio::spawn(restore::newest(backend, publisher, folders));
        }
    }

    fn take_pulled(&self, answer: &Value) {
        let sent = self.session().sent.clone();
        let taken = initialize::pulled(answer).and_then(|(config, agents)| {
            if agents {
                tracing::warn!(
                    "agents that the editor answered were passed over: a folder's settings may be among them"
                );
            }
            self.configure(initialize::laid_over(&sent, config))
        });
        if let Err(error) = taken {
            self.complain(&format!("Flowdrive keeps its configuration: {}", error.message));
        }
    }

    /// Tells the client to ask for code lenses again whenever they have changed.
    async fn refresh_lenses(self) {
        loop {
            self.shared.publisher.lenses_changed().await;
            if let Err(error) = self.shared.client.code_lens_refresh().await {
                tracing::debug!(%error, "the client does not ask for code lenses again");
            }
        }
    }

    /// What a drive would do, as a message for the user and as the answer.
    async fn show_preview(&self, argument: Value) -> Result<Value> {
        let answer = self.answer(PREVIEW, argument).await?.to_value();
        let text = match answer["blockers"].as_array().filter(|blockers| !blockers.is_empty()) {
            Some(blockers) => {
                let blockers: Vec<&str> = blockers.iter().filter_map(Value::as_str).collect();
                format!("Flowdrive: {} cannot be driven: {}", text_of(&answer["workflowId"]), blockers.join("; "))
            }
            None => format!(
                "Flowdrive: {} has {} tasks, {} to do. First: {} {}",
                text_of(&answer["workflowId"]),
                answer["plannedWorkers"],
                answer["pendingWorkers"],
                text_of(&answer["nextAction"]),
                text_of(&answer["nextTaskId"]),
            ),
        };
        self.message(MessageType::INFO, text.trim_end());
        Ok(answer)
    }

    /// What stands above a file that may hold a workflow. Blocks on the disk.
    fn workflow_lenses(&self, path: &Path) -> Vec<CodeLens> {
        let small = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_WORKFLOW_BYTES);
        if !offers::may_be_workflow(path) || !small(path) {
            return Vec::new();
        }
        let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
        let folders = self.session().folders.clone();
        let around = folders.around(path).map(PathBuf::from).or_else(|| path.parent().map(Path::to_owned));
        around.map_or_else(Vec::new, |folder| offers::workflow_lenses(path, &text, &folder.display().to_string()))
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tower_lsp::async_trait]
impl LanguageServer for Service {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let options = initialize::options(params.initialization_options.as_ref().unwrap_or(&Value::Null))?;
        check_protocol(options.protocol_version)?;
        let facts = initialize::facts(&params);
        self.session().shows_documents = facts.shows_documents;
        let implied = self.session().implied;
        if !implied {
            self.configure(options.clone())?;
        }
        {
            let mut session = self.session();
            session.sent = options;
            session.folders = Folders::new(facts.folders);
            session.wishes.creates_progress = facts.creates_progress;
            session.answers_configuration = facts.answers_configuration;
            session.registers_configuration = facts.registers_configuration;
            session.refreshes_lenses = facts.refreshes_lenses;
        }
        if let Some(related) = facts.shows_diagnostics {
            let utf8 = facts.position_encoding == PositionEncodingKind::UTF8;
            self.shared.publisher.enable(related, if utf8 { Columns::Utf8 } else { Columns::Utf16 });
        }
        if let Some(parent) = params.process_id {
            self.shared.parent.send_replace(Some(parent));
        }
        Ok(initialize::result(facts.position_encoding))
    }

    async fn initialized(&self, _: InitializedParams) {
        let (answers, registers, refreshes) = {
            let session = self.session();
            (session.answers_configuration, session.registers_configuration, session.refreshes_lenses)
        };
        if answers && registers {
            let client = self.shared.client.clone();
            tokio::spawn(async move {
                let method = "workspace/didChangeConfiguration".to_owned();
                let wish = Registration { id: method.clone(), method, register_options: None };
                if let Err(error) = client.register_capability(vec![wish]).await {
                    tracing::debug!(%error, "the client does not tell of changes of its configuration");
                }
            });
        }
        if answers {
            self.pull_configuration();
        }
        if refreshes {
            tokio::spawn(self.clone().refresh_lenses());
        }
        let folders = self.session().folders.all().to_vec();
        self.restore(folders);
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
            if self.session().answers_configuration {
                self.pull_configuration();
            }
            return;
        }
        let taken = initialize::options(&settings).and_then(|options| {
            self.configure(options.clone())?;
            self.session().sent = options;
            Ok(())
        });
        if let Err(error) = taken {
            self.complain(&format!("Flowdrive keeps its configuration: {}", error.message));
        }
    }

    async fn did_change_workspace_folders(&self, params: DidChangeWorkspaceFoldersParams) {
        let paths = |folders: &[WorkspaceFolder]| -> Vec<String> {
            folders.iter().filter_map(|folder| initialize::path(&folder.uri)).collect()
        };
        let (removed, added) = (paths(&params.event.removed), paths(&params.event.added));
        let (before, now) = {
            let mut session = self.session();
            let before = session.folders.all().to_vec();
            session.folders.change(&removed, added);
            (before, session.folders.all().to_vec())
        };
        for gone in before.iter().filter(|folder| !now.contains(folder)) {
            self.shared.publisher.leave(gone);
        }
        self.restore(now.into_iter().filter(|folder| !before.contains(folder)).collect());
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        self.shared.publisher.saved(&params.text_document.uri);
    }

    async fn code_lens(&self, params: CodeLensParams) -> Result<Option<Vec<CodeLens>>> {
        let file = params.text_document.uri;
        let mut lenses = self.shared.publisher.lenses(&file);
        if let Ok(path) = file.to_file_path() {
            let service = self.clone();
            let found = tokio::task::spawn_blocking(move || service.workflow_lenses(&path)).await;
            lenses.extend(found.unwrap_or_default());
        }
        Ok(Some(lenses))
    }

    async fn code_action(&self, params: CodeActionParams) -> Result<Option<CodeActionResponse>> {
        Ok(Some(self.shared.publisher.actions(&params.text_document.uri, params.range)))
    }

    async fn execute_command(&self, params: ExecuteCommandParams) -> Result<Option<Value>> {
        if params.command == OPEN_REPORT {
            let path = params.arguments.first().and_then(|argument| argument["path"].as_str()).unwrap_or_default();
            return self.open_report(path).map(|()| None);
        }
        if params.command == SHOW_PREVIEW {
            let argument = params.arguments.into_iter().next().unwrap_or_else(|| Value::Object(Default::default()));
            return self.show_preview(argument).await.map(Some);
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
        self.answer(method, argument).await.map(|answer| Some(answer.to_value()))
    }
}
