//! Programs Flowdrive knows how to call: the command line each one's own documentation gives for unattended use, and
//! how to read the stream of events it prints.
//!
//! A preset's agent has the program in `argv[0]`; anything after it is the user's and put after ours. The prompt goes to
//! standard input, where its length is no matter. Each is asked for its final message as the result, so none needs leave
//! to write files. What a task's sandbox allows is asked for in the program's own terms, and never more.
//!
//! Must not: start anything, or fail on an event it does not know: these streams grow.

mod claude;
mod codex;
mod gemini;
mod opencode;
mod sign_in;

pub(crate) use sign_in::SignIn;

use flowdrive_protocol::config::Preset;
use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::workflow::Sandbox;
use serde_json::Value;

use super::lines::{Lines, OnLonger};
use super::stdout::EVENT_CAP;
use crate::accept::usage::count;
use crate::model::outcome::AgentReport;

/// What is added to a preset's prompt: the form a result must have. Wrappers add the like themselves.
const CONTRACT: &str = r#"
## How to answer

Do not write any files: your final message is the result, whatever was said above about a result file. Write it in
Markdown and end it with exactly one fenced block in this form:

```cw:result
{
  "summary": "one or two sentences",
  "findings": [
    { "id": "unique-id", "summary": "the claim", "classification": "real", "severity": "P1", "evidence": ["src/file.rs:10-12"] }
  ],
  "evidence": ["src/file.rs:10-12"]
}
```

`classification` is one of real, conditional, non-issue, unknown; `severity` one of P0, P1, P2, P3, none. Findings with
P0 to P2 need evidence of their own. Evidence names places that exist, as `path:line` or `path:line-line` relative to the
workspace. `evidence` must not be empty.
"#;

/// What the command line of a preset depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The program, then the user's own arguments.
    pub(super) argv: &'a [String],
    /// The model asked for.
    pub(super) model: Option<&'a str>,
    /// The session to carry on.
    pub(super) session: Option<&'a str>,
    /// What the task may do.
    pub(super) sandbox: Sandbox,
}

/// The command line of a preset; none for a preset whose `argv` is complete as it is.
#[must_use]
pub(super) fn argv(preset: Preset, call: Call<'_>) -> Option<Vec<String>> {
    let ours = match preset {
        Preset::Claude => claude::arguments(call),
        Preset::Codex => codex::arguments(call),
        Preset::Gemini => gemini::arguments(call),
        Preset::Opencode => opencode::arguments(call),
        Preset::Survey => return None,
    };
    let last = if preset == Preset::Codex { codex::last_arguments(call) } else { Vec::new() };
    let (program, own) = call.argv.split_first()?;
    Some([program.clone()].into_iter().chain(ours).chain(own.iter().cloned()).chain(last).collect())
}

/// What a preset gets on standard input.
#[must_use]
pub(super) fn prompt(input: &str) -> String {
    format!("{}\n{CONTRACT}", input.trim_end())
}

/// Reads a preset's stream of events.
#[derive(Debug)]
pub(super) struct Parser {
    preset: Preset,
    state: State,
}

/// What one event told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// What the agent is doing.
    pub(super) activity: Option<String>,
    /// Its session, when it was not known before.
    pub(super) session: Option<String>,
}

/// What the stream came to.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// What the agent said about itself.
    pub(super) report: AgentReport,
    /// Its final message.
    pub(super) result: Option<String>,
    /// The error it ended with.
    pub(super) error: Option<String>,
}

/// What is known so far.
#[derive(Debug, Default)]
struct State {
    session: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    raw_usage: Option<Value>,
    /// The message being put together.
    text: String,
    result: Option<String>,
    error: Option<String>,
}

impl Parser {
    /// For a preset that prints events; none for one that prints plainly.
    #[must_use]
    pub(super) fn new(preset: Preset) -> Option<Self> {
        (preset != Preset::Survey).then(|| Self { preset, state: State::default() })
    }

    /// One line. Lines that are no JSON are activity: these programs warn in plain text too.
    pub(super) fn line(&mut self, line: &str) -> Told {
        let line = line.trim();
        if line.is_empty() {
            return Told::default();
        }
        let Ok(Value::Object(event)) = serde_json::from_str::<Value>(line) else {
            return Told { activity: Some(line.to_owned()), session: None };
        };
        let event = Value::Object(event);
        let known = self.state.session.is_some();
        let activity = match self.preset {
            Preset::Claude => claude::event(&event, &mut self.state),
            Preset::Codex => codex::event(&event, &mut self.state),
            Preset::Gemini => gemini::event(&event, &mut self.state),
            Preset::Opencode => opencode::event(&event, &mut self.state),
            Preset::Survey => None,
        };
        let session = if known { None } else { self.state.session.clone() };
        Told { activity: activity.filter(|text| !text.trim().is_empty()), session }
    }

    /// What it all came to.
    #[must_use]
    pub(super) fn finish(self) -> Parsed {
        let state = self.state;
        let report = AgentReport {
            model: state.model,
            usage: state.usage.filter(|usage| !usage.is_empty()).map(Box::new),
            raw_usage: state.raw_usage.map(Box::new),
            usage_signature: None,
            session: state.session,
        };
        let message = state.result.unwrap_or(state.text);
        Parsed { report, result: Some(message).filter(|text| !text.trim().is_empty()), error: state.error }
    }
}

/// What a preset's stream of events comes to, however it is cut: its report, its final message, the error it ended with.
/// For the fuzz targets, which see what is public.
#[doc(hidden)]
pub fn read_stream<'s>(
    preset: Preset,
    chunks: impl Iterator<Item = &'s [u8]>,
) -> Option<(AgentReport, Option<String>, Option<String>)> {
    let mut parser = Parser::new(preset)?;
    let mut lines = Lines::new(EVENT_CAP, OnLonger::Fail);
    for chunk in chunks {
        lines.push(chunk, |line| drop(parser.line(line))).ok()?;
    }
    lines.finish(|line| drop(parser.line(line)));
    let parsed = parser.finish();
    Some((parsed.report, parsed.result, parsed.error))
}

/// The text at a JSON pointer.
fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// The count at a JSON pointer, in any form in which a count is known.
fn count_at(value: &Value, pointer: &str) -> Option<u64> {
    count(value.pointer(pointer)?)
}

/// A tool and what it is used on: `Read src/main.rs`.
fn tool_line(tool: &str, input: Option<&Value>) -> String {
    const TELLING: [&str; 9] =
        ["file_path", "filePath", "path", "pattern", "command", "query", "url", "description", "prompt"];
    let what = input.and_then(|input| TELLING.iter().find_map(|key| input.get(key)?.as_str()));
    what.map_or_else(|| tool.to_owned(), |what| format!("{tool} {}", first_line(what)))
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
