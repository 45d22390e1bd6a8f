//! `initialize`: what is read from a client's introduction, and how the server introduces itself. Pure.
//!
//! Must not: change anything.

use flowdrive_engine::config::from_value;
use flowdrive_protocol::config::Config;
use flowdrive_protocol::{MIN_PROTOCOL_VERSION, PROTOCOL_VERSION};
use serde_json::{Map, Value, json};
use tower_lsp::jsonrpc::Result;
use tower_lsp::lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CodeLensOptions, ExecuteCommandOptions,
    InitializeParams, InitializeResult, OneOf, PositionEncodingKind, SaveOptions, ServerCapabilities, ServerInfo,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions, Url,
    WorkDoneProgressOptions, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};

use super::{fault, service};

/// The params with only those parts of `capabilities` that are used here: a client that is newer than our types may
/// say things there that do not fit them, and that must not keep it out.
pub(crate) fn tolerant(params: Option<Value>) -> Value {
    let mut object = match params {
        Some(Value::Object(object)) => object,
        Some(other) => return other,
        None => Map::new(),
    };
    let said = object.remove("capabilities").unwrap_or_default();
    let mut used = Map::new();
    let said_so = |pointer: &str| said.pointer(pointer) == Some(&Value::Bool(true));
    let shows = said_so("/window/showDocument/support");
    let window =
        json!({ "workDoneProgress": said_so("/window/workDoneProgress"), "showDocument": { "support": shows } });
    used.insert("window".into(), window);
    let registers = said_so("/workspace/didChangeConfiguration/dynamicRegistration");
    let workspace = json!({
        "configuration": said_so("/workspace/configuration"),
        "didChangeConfiguration": { "dynamicRegistration": registers },
        "codeLens": { "refreshSupport": said_so("/workspace/codeLens/refreshSupport") },
    });
    used.insert("workspace".into(), workspace);
    if let Some(Value::Object(diagnostics)) = said.pointer("/textDocument/publishDiagnostics") {
        let related = diagnostics.get("relatedInformation").and_then(Value::as_bool).unwrap_or(false);
        used.insert("textDocument".into(), json!({ "publishDiagnostics": { "relatedInformation": related } }));
    }
    if let Some(Value::Array(encodings)) = said.pointer("/general/positionEncodings") {
        let known: Vec<&Value> = encodings.iter().filter(|encoding| encoding.is_string()).collect();
        used.insert("general".into(), json!({ "positionEncodings": known }));
    }
    object.insert("capabilities".into(), Value::Object(used));
    if !matches!(object.get("trace"), Some(Value::String(level)) if matches!(level.as_str(), "off" | "messages" | "verbose"))
    {
        object.remove("trace");
    }
    Value::Object(object)
}

/// The configuration in `initializationOptions`.
///
/// # Errors
/// `config-invalid`, naming the field.
pub(crate) fn options(options: &Value) -> Result<Config> {
    from_value(options).map_err(|error| fault::from_engine(&error.into()))
}

/// The configuration in an answer to `workspace/configuration`, and whether agents in it were passed over. Editors lay the
/// settings of a folder over the user's own before they answer, and a folder must not say which programs are run: agents
/// come from `initializationOptions`, from the user's file, or from a client that pushes them.
///
/// # Errors
/// `config-invalid`, naming the field.
pub(crate) fn pulled(answer: &Value) -> Result<(Config, bool)> {
    let taken = |name: &&str| !answer[*name].is_null() && answer[*name] != "";
    let known = ["defaultAgent", "maxConcurrentAgents", "notifications"].into_iter().filter(taken);
    let kept: Map<String, Value> = known.map(|name| (name.to_owned(), answer[name].clone())).collect();
    let agents = answer["agents"].as_object().is_some_and(|agents| !agents.is_empty());
    Ok((options(&Value::Object(kept))?, agents))
}

/// A pulled configuration over one that the client chose to send.
pub(crate) fn laid_over(sent: &Config, pulled: Config) -> Config {
    Config {
        default_agent: pulled.default_agent.or_else(|| sent.default_agent.clone()),
        max_concurrent_agents: pulled.max_concurrent_agents.or(sent.max_concurrent_agents),
        notifications: pulled.notifications.or_else(|| sent.notifications.clone()),
        ..sent.clone()
    }
}

/// What the server needs to know of the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The open folders.
    pub(crate) folders: Vec<String>,
    /// Whether the server may open progress displays.
    pub(crate) creates_progress: bool,
    /// Whether the client shows diagnostics; and if so, whether also their further places.
    pub(crate) shows_diagnostics: Option<bool>,
    /// Whether it shows documents when asked to.
    pub(crate) shows_documents: bool,
    /// Whether it answers what its configuration is.
    pub(crate) answers_configuration: bool,
    /// Whether it can be asked to tell of changes of its configuration.
    pub(crate) registers_configuration: bool,
    /// Whether it asks for code lenses again when told to.
    pub(crate) refreshes_lenses: bool,
    /// How positions in a line are counted.
    pub(crate) position_encoding: PositionEncodingKind,
}

/// Reads them.
pub(crate) fn facts(params: &InitializeParams) -> Facts {
    let folders: Vec<String> =
        params.workspace_folders.iter().flatten().filter_map(|folder| path(&folder.uri)).collect();
    #[allow(deprecated, reason = "older clients name their folder in no other way")]
    let root = || params.root_uri.as_ref().and_then(path).or_else(|| params.root_path.clone());
    let capabilities = &params.capabilities;
    let window = capabilities.window.as_ref();
    let encodings = capabilities.general.as_ref().and_then(|general| general.position_encodings.as_ref());
    let documents = capabilities.text_document.as_ref();
    let diagnostics = documents.and_then(|documents| documents.publish_diagnostics.as_ref());
    let utf8 = encodings.is_some_and(|known| known.contains(&PositionEncodingKind::UTF8));
    let workspace = capabilities.workspace.as_ref();
    let changes = workspace.and_then(|workspace| workspace.did_change_configuration);
    Facts {
        folders: if folders.is_empty() { root().into_iter().collect() } else { folders },
        shows_documents: window.and_then(|window| window.show_document.as_ref()).is_some_and(|shown| shown.support),
        answers_configuration: workspace.and_then(|workspace| workspace.configuration).unwrap_or(false),
        registers_configuration: changes.and_then(|changes| changes.dynamic_registration).unwrap_or(false),
        refreshes_lenses: workspace
            .and_then(|workspace| workspace.code_lens.as_ref()?.refresh_support)
            .unwrap_or(false),
        creates_progress: window.and_then(|window| window.work_done_progress).unwrap_or(false),
        shows_diagnostics: diagnostics.map(|shown| shown.related_information.unwrap_or(false)),
        position_encoding: if utf8 { PositionEncodingKind::UTF8 } else { PositionEncodingKind::UTF16 },
    }
}

/// The path of a `file:` address.
pub(crate) fn path(uri: &Url) -> Option<String> {
    uri.to_file_path().ok().map(|path| path.display().to_string())
}

/// The server's introduction.
pub(crate) fn result(position_encoding: PositionEncodingKind) -> InitializeResult {
    let capabilities = ServerCapabilities {
        position_encoding: Some(position_encoding),
        // No text is synchronised; a save tells that a file has changed.
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(false),
            change: Some(TextDocumentSyncKind::NONE),
            save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions { include_text: Some(false) })),
            ..TextDocumentSyncOptions::default()
        })),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
            work_done_progress_options: WorkDoneProgressOptions { work_done_progress: None },
            resolve_provider: None,
        })),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: service::commands(),
            work_done_progress_options: WorkDoneProgressOptions { work_done_progress: Some(true) },
        }),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            file_operations: None,
        }),
        experimental: Some(json!({
            "flowdrive": { "protocolVersion": PROTOCOL_VERSION, "minProtocolVersion": MIN_PROTOCOL_VERSION }
        })),
        ..ServerCapabilities::default()
    };
    let info = ServerInfo { name: "flowdrive".into(), version: Some(env!("CARGO_PKG_VERSION").into()) };
    InitializeResult { capabilities, server_info: Some(info) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: Value) -> InitializeParams {
        serde_json::from_value(tolerant(Some(params))).unwrap()
    }

    #[test]
    fn a_client_from_the_future_is_let_in() {
        let params = json!({
            "processId": null, "trace": "loud", "rootUri": null,
            "capabilities": {
                "window": {"workDoneProgress": true, "later": 1},
                "general": {"positionEncodings": ["utf-16", "utf-64", 7]},
                "workspace": {"workspaceEdit": {"failureHandling": "never-heard-of"}, "configuration": true},
            },
        });
        assert!(serde_json::from_value::<InitializeParams>(params.clone()).is_err(), "or the test shows nothing");
        let facts = facts(&read(params));
        assert!(facts.creates_progress && facts.answers_configuration && !facts.shows_documents);
        assert_eq!(facts.position_encoding, PositionEncodingKind::UTF16);
    }

    #[test]
    fn the_folders_are_those_that_are_open_else_the_root() {
        let folder = |uri: &str| json!({"uri": uri, "name": "x"});
        for (params, folders) in [
            (
                json!({"rootUri": "file:///r", "workspaceFolders": [folder("file:///a%20b"), folder("file:///c")]}),
                &["/a b", "/c"][..],
            ),
            (json!({"rootUri": "file:///r", "workspaceFolders": []}), &["/r"]),
            (json!({"rootPath": "/p"}), &["/p"]),
            (json!({"rootUri": "untitled:x"}), &[]),
            (json!({}), &[]),
        ] {
            assert_eq!(facts(&read(params.clone())).folders, folders, "{params}");
        }
    }

    #[test]
    fn what_an_editor_answers_cannot_say_which_programs_are_run() {
        let answer = json!({"serverPath": "", "agents": {"evil": {"command": ["/bin/false"]}}, "defaultAgent": "mine",
            "notifications": {"showReport": true}});
        let (config, passed_over) = pulled(&answer).unwrap();
        assert!(passed_over && config.agents.is_empty(), "{config:?}");
        let sent = options(&json!({"agents": {"mine": {"preset": "claude"}}, "maxConcurrentAgents": 3})).unwrap();
        let laid = laid_over(&sent, config);
        assert_eq!((laid.agents.len(), laid.max_concurrent_agents), (1, sent.max_concurrent_agents));
        assert_eq!(laid.default_agent.unwrap().as_str(), "mine");
        assert!(laid.notifications.unwrap().show_report);
        assert_eq!(pulled(&Value::Null).unwrap(), (Config::default(), false));
        assert_eq!(pulled(&json!({"defaultAgent": "", "maxConcurrentAgents": 0})).unwrap_err().code.code(), -32021);
    }

    #[test]
    fn options_that_do_not_fit_name_their_field() {
        let error = options(&json!({"agents": {"mine": {"timeoutMs": "soon"}}})).unwrap_err();
        assert_eq!(error.code.code(), -32021);
        assert_eq!(error.data.unwrap()["field"], "agents.mine.timeoutMs");
        let error = options(&json!({"agents": {"mine": {"preset": "gpt"}}})).unwrap_err();
        assert!(error.message.contains("claude"), "{error}");
        assert_eq!(options(&Value::Null).unwrap(), Config::default());
    }
}
