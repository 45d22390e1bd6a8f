//! Every way a command can fail, what is said about it, and with which exit code.

use std::fmt::Write as _;
use std::io;

use flowdrive_client::ClientError;
use thiserror::Error;

use super::output;

/// JSON-RPC's own code for parameters that do not fit.
const INVALID_PARAMS: i64 = -32602;

/// Lines of a dead server's stderr that are shown.
const TAIL_LINES: usize = 8;

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// What was typed cannot be meant.
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// What was asked for is not there, or cannot be had.
    #[error("{message}")]
    Fault { message: String, hint: String },
    /// The server, or the way to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server went away during a drive.
    #[error("{error}")]
    Lost { error: ClientError, resume: String },
    /// The operating system.
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
    /// Whoever reads our output has gone, as `head` does. Nothing is wrong.
    #[error("the reader of the output went away")]
    ReaderGone,
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn fault(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Fault { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Client(ClientError::Server { code: INVALID_PARAMS, .. }) => 2,
            Self::ReaderGone => 0,
            Self::Fault { .. } | Self::Client(_) | Self::Lost { .. } | Self::Io { .. } => super::FAULT,
        }
    }

    /// What people are told: what happened, where, and what to do.
    fn text(&self) -> String {
        let mut text = format!("error: {self}\n");
        if let Self::Client(error) | Self::Lost { error, .. } = self {
            if let Some(place) = place(error).filter(|_| !says_where(error)) {
                let _ = writeln!(text, "  --> {place}");
            }
            if let ClientError::ServerDied { stderr_tail, .. } = error {
                let lines: Vec<&str> = stderr_tail.lines().collect();
                for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
                    let _ = writeln!(text, "  server: {}", super::format::clean(line));
                }
            }
        }
        let hint = match self {
            Self::Usage { hint, .. } | Self::Fault { hint, .. } => Some(hint.clone()),
            Self::Client(error) => error.hint().or_else(|| missing_input(&error.to_string())),
            Self::Lost { resume, .. } => Some(format!("what was accepted is kept; carry on with: {resume}")),
            Self::Io { .. } | Self::ReaderGone => None,
        };
        if let Some(hint) = hint.filter(|hint| !hint.is_empty()) {
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }
}

/// How an input that the server misses is given here.
fn missing_input(message: &str) -> Option<String> {
    let names = message.split("Missing required input: ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))).unwrap_or(rest.len());
        (end > 0).then(|| format!("--input {}=...", &rest[..end]))
    });
    let flags: Vec<String> = names.collect();
    (!flags.is_empty()).then(|| format!("add {}", flags.join(" ")))
}

/// Whether the message names the place already.
fn says_where(error: &ClientError) -> bool {
    let (Some(data), message) = (error.data(), error.to_string()) else { return false };
    let file = data.file.as_ref().is_none_or(|file| message.contains(file.as_str()));
    let line = data.line.is_none_or(|line| message.contains(&format!(":{line}:")));
    file && line && data.field.as_ref().is_none_or(|field| message.contains(field.as_str()))
}

/// `file:line, field x`, as far as known.
fn place(error: &ClientError) -> Option<String> {
    let data = error.data()?;
    let mut place = String::new();
    if let Some(file) = &data.file {
        place.push_str(file);
        if let Some(line) = data.line {
            let _ = write!(place, ":{line}");
        }
    }
    if let Some(field) = &data.field {
        let comma = if place.is_empty() { "" } else { ", " };
        let _ = write!(place, "{comma}field `{field}`");
    }
    (!place.is_empty()).then_some(place)
}

/// Tells of a failure on stderr, and gives the exit code for it.
pub(crate) fn report(error: &CliError) -> u8 {
    if !matches!(error, CliError::ReaderGone) {
        output::err(&error.text());
    }
    error.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowdrive_protocol::error::{ErrorData, ErrorKind};

    fn server(code: i64, data: Option<ErrorData>) -> CliError {
        CliError::Client(ClientError::Server { code, message: "it went wrong".into(), data: data.map(Box::new) })
    }

    #[test]
    fn an_error_says_what_happened_where_and_what_to_do() {
        let mut data = ErrorData::new(ErrorKind::WorkflowInvalid, "give the task an id");
        data.file = Some("w.toml".into());
        data.line = Some(7);
        data.field = Some("phases[0].tasks[1].id".into());
        let error = server(-32020, Some(data.clone()));
        let expected =
            "error: it went wrong\n  --> w.toml:7, field `phases[0].tasks[1].id`\nhint: give the task an id\n";
        assert_eq!(error.text(), expected);
        assert_eq!(error.exit_code(), 1);
        data.file = None;
        assert!(server(-32020, Some(data)).text().contains("\n  --> field `phases[0].tasks[1].id`\n"));
        assert_eq!(server(-32603, None).text(), "error: it went wrong\n");
    }

    #[test]
    fn a_place_that_the_message_names_is_not_said_again() {
        let mut data = ErrorData::new(ErrorKind::ConfigInvalid, "");
        (data.file, data.line, data.field) = (Some("c.toml".into()), Some(5), Some("agents.x".into()));
        let said = |message: &str, data: &ErrorData| {
            let error =
                ClientError::Server { code: -32021, message: message.into(), data: Some(Box::new(data.clone())) };
            CliError::Client(error).text()
        };
        assert_eq!(said("c.toml:5: agents.x: unknown", &data), "error: c.toml:5: agents.x: unknown\n");
        assert!(said("agents.x: unknown", &data).contains("--> c.toml:5, field `agents.x`"));
        assert!(said("c.toml:6: agents.x: unknown", &data).contains("--> c.toml:5"));
    }

    #[test]
    fn parameters_that_do_not_fit_are_bad_usage() {
        assert_eq!(server(INVALID_PARAMS, None).exit_code(), 2);
        assert_eq!(CliError::usage("a", "b").exit_code(), 2);
        assert_eq!(CliError::fault("a", "b").exit_code(), 1);
        assert_eq!(CliError::ReaderGone.exit_code(), 0);
    }

    #[test]
    fn the_last_words_of_a_dead_server_are_shown_without_escapes() {
        let stderr_tail = (1..=20).map(|n| format!("line {n}\u{1b}[31m")).collect::<Vec<_>>().join("\n");
        let error = ClientError::ServerDied { status: None, stderr_tail };
        let text = CliError::Lost { error, resume: "flowdrive resume r".into() }.text();
        assert!(text.ends_with("\nhint: what was accepted is kept; carry on with: flowdrive resume r\n"), "{text}");
        assert!(text.contains("  server: line 20\n") && text.contains("  server: line 13\n"), "{text}");
        assert!(!text.contains("line 12") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_missing_input_is_named_as_it_is_typed() {
        let error = |message: &str| {
            let (code, message) = (INVALID_PARAMS, message.to_owned());
            CliError::Client(ClientError::Server { code, message, data: None }).text()
        };
        let text =
            error("Missing required input: question\nMissing required input: repo-path (it was given, but empty)");
        assert!(text.ends_with("hint: add --input question=... --input repo-path=...\n"), "{text}");
        assert!(!error("Unknown input: x").contains("hint"));
    }
}
