//! The only place that writes to standard output and standard error. A reader that went away is no fault.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::error::CliError;

/// Writes to standard output.
pub(crate) fn out(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Writes bytes to standard output as they are.
pub(crate) fn out_bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

fn written(outcome: io::Result<()>) -> Result<(), CliError> {
    outcome.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::ReaderGone,
        _ => CliError::io("write to standard output", error),
    })
}

/// Writes a result, and nothing else, to standard output.
pub(crate) fn json(result: &impl Serialize) -> Result<(), CliError> {
    let mut text = serde_json::to_string_pretty(result)
        .map_err(|error| CliError::fault(format!("cannot write the result as JSON: {error}"), ""))?;
    text.push('\n');
    out(&text)
}

/// Writes to standard error. When even that is gone, nobody is left to tell.
pub(crate) fn err(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// Whether standard output takes colours.
pub(crate) fn out_colours() -> bool {
    io::stdout().is_terminal() && colours_wanted()
}

/// Whether standard error takes colours.
pub(crate) fn err_colours() -> bool {
    io::stderr().is_terminal() && colours_wanted()
}

/// `NO_COLOR`, set to anything but nothing, forbids them; so does a terminal that says it is dumb.
fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
