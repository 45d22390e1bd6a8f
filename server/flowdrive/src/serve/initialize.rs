//! `initialize`: what is read from a client's introduction, and how the server introduces itself. Pure.
//!
//! Must not: change anything.

use flowdrive_engine::config::from_value;
use flowdrive_protocol::config::Config;
use flowdrive_protocol::{MIN_PROTOCOL_VERSION, PROTOCOL_VERSION};
use serde_json::{Map, Value, json};
use tower_lsp::jsonrpc::Result;
use tower_lsp::lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, ExecuteCommandOptions, InitializeParams,
    InitializeResult, OneOf, PositionEncodingKind, ServerCapabilities, ServerInfo, Url, WorkDoneProgressOptions,
    WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
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
    if let Some(Value::Bool(progress)) = said.pointer("/window/workDoneProgress") {
        used.insert("window".into(), json!({ "workDoneProgress": progress }));
    }
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

/// What the server needs to know of the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The folder that requests without a workspace are about.
    pub(crate) workspace: Option<String>,
    /// Whether the server may open progress displays.
    pub(crate) creates_progress: bool,
    /// Whether the client shows diagnostics; and if so, whether also their further places.
    pub(crate) shows_diagnostics: Option<bool>,
    /// How positions in a line are counted.
    pub(crate) position_encoding: PositionEncodingKind,
}

/// Reads them.
pub(crate) fn facts(params: &InitializeParams) -> Facts {
    let folder = params.workspace_folders.iter().flatten().find_map(|folder| path(&folder.uri));
    #[allow(deprecated, reason = "older clients name their folder in no other way")]
    let root = || params.root_uri.as_ref().and_then(path).or_else(|| params.root_path.clone());
    let capabilities = &params.capabilities;
    let window = capabilities.window.as_ref();
    let encodings = capabilities.general.as_ref().and_then(|general| general.position_encodings.as_ref());
    let documents = capabilities.text_document.as_ref();
    let diagnostics = documents.and_then(|documents| documents.publish_diagnostics.as_ref());
    let utf8 = encodings.is_some_and(|known| known.contains(&PositionEncodingKind::UTF8));
    Facts {
        workspace: folder.or_else(root),
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
                "workspace": {"workspaceEdit": {"failureHandling": "never-heard-of"}},
            },
        });
        assert!(serde_json::from_value::<InitializeParams>(params.clone()).is_err(), "or the test shows nothing");
        let facts = facts(&read(params));
        assert!(facts.creates_progress);
        assert_eq!(facts.position_encoding, PositionEncodingKind::UTF16);
    }

    #[test]
    fn the_workspace_is_the_first_folder_else_the_root() {
        for (params, workspace) in [
            (
                json!({"rootUri": "file:///r", "workspaceFolders": [{"uri": "file:///a%20b", "name": "a"}]}),
                Some("/a b"),
            ),
            (json!({"rootUri": "file:///r", "workspaceFolders": []}), Some("/r")),
            (json!({"rootPath": "/p"}), Some("/p")),
            (json!({"rootUri": "untitled:x"}), None),
            (json!({}), None),
        ] {
            assert_eq!(facts(&read(params.clone())).workspace.as_deref(), workspace, "{params}");
        }
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
