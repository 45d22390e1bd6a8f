//! The published schemas, made from the protocol types: what `schema/` holds.
//!
//! Must not: describe anything by hand that a type says.

mod compat;
mod tables;
#[cfg(test)]
mod tests;
mod typescript;

use std::path::Path;

use flowdrive_protocol::PROTOCOL_VERSION;
use flowdrive_protocol::config::Config;
use flowdrive_protocol::error::{ErrorData, ErrorKind};
use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::method::*;
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult};
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunView};
use flowdrive_protocol::workflow::Workflow;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use thiserror::Error;

/// The file with the TypeScript types.
const TYPESCRIPT: &str = "flowdrive.ts";

/// The command that brings the files up to date.
const REPAIR: &str = "cargo run -- schema --out schema --docs docs/protocol.md";

/// Why a schema could not be written, or does not pass.
#[derive(Debug, Error)]
pub(crate) enum SchemaError {
    /// The file system's fault.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What it said.
        source: std::io::Error,
    },
    /// A file is not what the types say.
    #[error("not up to date: {}. Bring them up to date with: {REPAIR}", .0.join(", "))]
    Stale(Vec<String>),
    /// A document has no place for a table.
    #[error("{path}: {source}")]
    Document {
        /// The file.
        path: String,
        /// What is missing.
        source: tables::NoPlace,
    },
    /// An earlier schema is none.
    #[error("{path}: not a protocol schema: {reason}")]
    NotASchema {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A client made for an earlier schema does not fit this server.
    #[error("a client made for {path} does not fit:\n  {}", .breaks.join("\n  "))]
    Breaks {
        /// The file with the earlier schema.
        path: String,
        /// Every way in which it does not.
        breaks: Vec<String>,
    },
}

/// What the one notification of our own is for.
const PROGRESS_SUMMARY: &str = "One event of a run. A notification from the server to the client.";

struct Method {
    name: &'static str,
    summary: &'static str,
    params: &'static str,
    result: &'static str,
}

/// A generator that has seen every type of the protocol, and the methods.
fn protocol(settings: SchemaSettings) -> (SchemaGenerator, Vec<Method>) {
    let mut generator = SchemaGenerator::new(settings);
    let mut methods = Vec::new();
    macro_rules! method {
        ($name:ident, $params:ident, $result:ident, $summary:literal) => {
            generator.subschema_for::<$params>();
            generator.subschema_for::<$result>();
            methods.push(Method {
                name: $name,
                summary: $summary,
                params: stringify!($params),
                result: stringify!($result),
            });
        };
    }
    method!(DRIVE, DriveParams, DriveResult, "Runs a workflow, or carries a run on, to its end.");
    method!(PREVIEW, PreviewParams, DrivePreview, "Says what `drive` would do. Starts nothing, writes nothing.");
    method!(RESUME, ResumeParams, DriveResult, "Carries a run on.");
    method!(RESOLVE_FEEDBACK, ResolveFeedbackParams, FeedbackRecord, "Closes a feedback record.");
    method!(STOP, StopParams, StopResult, "Ends a drive early.");
    method!(LIST_RUNS, ListRunsParams, ListRunsResult, "The runs of a workspace, newest first.");
    method!(SHOW_RUN, ShowRunParams, RunView, "One run, and the events a client missed.");
    method!(LIST_FEEDBACK, ListFeedbackParams, ListFeedbackResult, "A run's feedback records.");
    method!(LIST_WORKFLOWS, ListWorkflowsParams, ListWorkflowsResult, "The workflows that can be driven.");
    method!(
        VERIFY_RUN,
        VerifyRunParams,
        VerifyRunResult,
        "Checks a run's record against itself and the files on disk."
    );
    method!(
        PRUNE_RUNS,
        PruneRunsParams,
        PruneRunsResult,
        "Removes runs, and kept results, that nobody needs any more."
    );
    method!(DOCTOR, DoctorParams, DoctorResult, "Looks at the installation: agents, configuration, workspace.");
    method!(
        LIST_AGENTS,
        ListAgentsParams,
        ListAgentsResult,
        "The agents that tasks can be given to, and whether each can be used. Starts nothing, asks nobody."
    );
    method!(
        SERVER_INFO,
        ServerInfoParams,
        ServerInfo,
        "Name, version and protocol version; for clients that skip `initialize`."
    );
    generator.subschema_for::<ProgressEvent>();
    generator.subschema_for::<ErrorData>();
    (generator, methods)
}

fn protocol_schema() -> Value {
    let (mut generator, methods) = protocol(SchemaSettings::draft2020_12());
    let table: Map<String, Value> = methods
        .iter()
        .map(|method| {
            let params = json!({"$ref": format!("#/$defs/{}", method.params)});
            let result = json!({"$ref": format!("#/$defs/{}", method.result)});
            (method.name.to_owned(), json!({"params": params, "result": result}))
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Flowdrive protocol",
        "description": "Params, results, events and errors, by the name of their type. `methods` and `notifications` say which belongs to what.",
        "protocolVersion": PROTOCOL_VERSION,
        "methods": table,
        "notifications": { PROGRESS: {"params": {"$ref": "#/$defs/ProgressEvent"}} },
        "errors": errors(),
        "$defs": generator.take_definitions(true),
    })
}

fn errors() -> Vec<Value> {
    ErrorKind::ALL.iter().map(|kind| json!({"code": kind.code(), "kind": kind.as_str()})).collect()
}

fn open_rpc() -> Value {
    // OpenRPC keeps shared shapes under `components`, as OpenAPI does.
    let (mut generator, methods) =
        protocol(SchemaSettings::draft07().with(|settings| settings.definitions_path = "/components/schemas".into()));
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let components: Map<String, Value> = ErrorKind::ALL
        .iter()
        .map(|kind| {
            (
                kind.as_str().to_owned(),
                json!({"code": kind.code(), "message": kind.as_str(), "data": reference("ErrorData")}),
            )
        })
        .collect();
    let references: Vec<Value> =
        ErrorKind::ALL.iter().map(|kind| json!({"$ref": format!("#/components/errors/{kind}")})).collect();
    let definitions = generator.take_definitions(true);
    let mut listed: Vec<Value> = methods
        .iter()
        .map(|method| {
            json!({
                "name": method.name,
                "summary": method.summary,
                "paramStructure": "by-name",
                "params": fields(&definitions, method.params),
                "result": {"name": method.result, "schema": reference(method.result)},
                "errors": references,
            })
        })
        .collect();
    // A method without a result is a notification; this one goes from the server to the client.
    listed.push(json!({
        "name": PROGRESS,
        "summary": PROGRESS_SUMMARY,
        "paramStructure": "by-name",
        "params": [{"name": "event", "required": true, "schema": reference("ProgressEvent")}],
        "x-direction": "server-to-client",
    }));
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "Flowdrive",
            "version": PROTOCOL_VERSION.to_string(),
            "description": "JSON-RPC 2.0 over standard input and output, in Language Server Protocol frames or one value a line.",
        },
        "methods": listed,
        "components": {"schemas": definitions, "errors": components},
    })
}

/// The fields of a params type, as OpenRPC lists them.
fn fields(definitions: &Map<String, Value>, name: &str) -> Vec<Value> {
    let schema = &definitions[name];
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flatten()
        .map(|(field, schema)| json!({"name": field, "required": required.contains(&field.as_str()), "schema": schema}))
        .collect()
}

/// The protocol, and the two documents that users write, as TypeScript.
fn type_script() -> String {
    let (mut generator, methods) = protocol(SchemaSettings::draft2020_12());
    generator.subschema_for::<Workflow>();
    generator.subschema_for::<Config>();
    let definitions = generator.take_definitions(true);
    typescript::module(&typescript::Module {
        protocol_version: PROTOCOL_VERSION,
        methods: methods.iter().map(|of| (of.name, of.summary, of.params, of.result)).collect(),
        notifications: vec![(PROGRESS, PROGRESS_SUMMARY, "ProgressEvent")],
        errors: ErrorKind::ALL.iter().map(|kind| (kind.as_str(), kind.code())).collect(),
        definitions: &definitions,
    })
}

/// A document with its tables brought up to date.
fn documented(text: &str) -> Result<String, tables::NoPlace> {
    let (mut generator, methods) = protocol(SchemaSettings::draft2020_12());
    let definitions = generator.take_definitions(true);
    let facts = tables::Facts {
        methods: methods.iter().map(|of| (of.name, of.summary, of.params, of.result)).collect(),
        event: "ProgressEvent",
        kinds: ("ErrorKind", ErrorKind::ALL.iter().map(|kind| (kind.as_str(), kind.code())).collect()),
        definitions: &definitions,
    };
    tables::filled(text, &facts)
}

fn document<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

/// A schema, as it is named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Name {
    /// Params, results, events and errors.
    Protocol,
    /// Workflow documents.
    Workflow,
    /// The user's configuration.
    Config,
    /// Every method, as an OpenRPC document.
    Openrpc,
}

impl Name {
    const ALL: [Self; 4] = [Self::Protocol, Self::Workflow, Self::Config, Self::Openrpc];

    const fn file(self) -> &'static str {
        match self {
            Self::Protocol => "protocol.schema.json",
            Self::Workflow => "workflow.schema.json",
            Self::Config => "config.schema.json",
            Self::Openrpc => "openrpc.json",
        }
    }

    fn text(self) -> String {
        let value = match self {
            Self::Protocol => protocol_schema(),
            Self::Workflow => document::<Workflow>(),
            Self::Config => document::<Config>(),
            Self::Openrpc => open_rpc(),
        };
        format!("{value:#}\n")
    }
}

/// Every file: its name and its text.
fn files() -> Vec<(&'static str, String)> {
    let schemas = Name::ALL.into_iter().map(|name| (name.file(), name.text()));
    schemas.chain([(TYPESCRIPT, type_script())]).collect()
}

/// Prints the TypeScript types.
///
/// # Errors
/// The output's.
pub(crate) fn print_typescript(to: &mut impl std::io::Write) -> Result<(), SchemaError> {
    let fault = |source| SchemaError::Io { path: "standard output".to_owned(), source };
    to.write_all(type_script().as_bytes()).map_err(fault)
}

/// Prints one schema.
///
/// # Errors
/// The output's.
pub(crate) fn print(name: Name, to: &mut impl std::io::Write) -> Result<(), SchemaError> {
    let fault = |source| SchemaError::Io { path: "standard output".to_owned(), source };
    to.write_all(name.text().as_bytes()).map_err(fault)
}

fn fault(path: &Path) -> impl FnOnce(std::io::Error) -> SchemaError {
    let path = path.display().to_string();
    |source| SchemaError::Io { path, source }
}

/// A document's text, and what it should be.
fn tables_of(path: &Path) -> Result<(String, String), SchemaError> {
    let text = std::fs::read_to_string(path).map_err(fault(path))?;
    let wanted = documented(&text);
    let wanted = wanted.map_err(|source| SchemaError::Document { path: path.display().to_string(), source })?;
    Ok((text, wanted))
}

/// Brings the tables of a document up to date.
///
/// # Errors
/// The file system's; a document without a place for them.
pub(crate) fn write_docs(path: &Path) -> Result<(), SchemaError> {
    let (_, wanted) = tables_of(path)?;
    std::fs::write(path, wanted).map_err(fault(path))
}

/// Compares the tables of a document with what would be written.
///
/// # Errors
/// Names the document, and the command that repairs it.
pub(crate) fn check_docs(path: &Path) -> Result<(), SchemaError> {
    let (text, wanted) = tables_of(path)?;
    if text == wanted { Ok(()) } else { Err(SchemaError::Stale(vec![path.display().to_string()])) }
}

/// Says whether a client that was made for an earlier protocol schema fits this server.
///
/// # Errors
/// Names every way in which it does not; a file that holds no such schema.
pub(crate) fn check_against(path: &Path) -> Result<(), SchemaError> {
    let text = std::fs::read_to_string(path).map_err(fault(path))?;
    let name = path.display().to_string();
    let old: Value = match serde_json::from_str(&text) {
        Ok(Value::Object(old)) if old.contains_key("methods") && old.contains_key("$defs") => old.into(),
        Ok(_) => return Err(SchemaError::NotASchema { path: name, reason: "it has no `methods`".to_owned() }),
        Err(error) => return Err(SchemaError::NotASchema { path: name, reason: error.to_string() }),
    };
    let breaks = compat::breaks(&old, &protocol_schema());
    if breaks.is_empty() { Ok(()) } else { Err(SchemaError::Breaks { path: name, breaks }) }
}

/// Writes every file.
///
/// # Errors
/// The file system's.
pub(crate) fn write(folder: &Path) -> Result<(), SchemaError> {
    std::fs::create_dir_all(folder).map_err(fault(folder))?;
    for (name, text) in files() {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(fault(&path))?;
    }
    Ok(())
}

/// Compares every file with what would be written.
///
/// # Errors
/// Names the files that differ or are missing, and the command that repairs them.
pub(crate) fn check(folder: &Path) -> Result<(), SchemaError> {
    let differs =
        |(name, text): &(&str, String)| std::fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text);
    let stale: Vec<String> =
        files().iter().filter(|file| differs(file)).map(|(name, _)| folder.join(name).display().to_string()).collect();
    if stale.is_empty() { Ok(()) } else { Err(SchemaError::Stale(stale)) }
}
