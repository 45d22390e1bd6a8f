//! Claude Code, after its documentation pages "Run Claude Code programmatically" (headless mode) and "CLI reference":
//! `-p` reads the prompt from standard input, `--output-format stream-json` (which needs `--verbose`) prints one event a
//! line, `--resume` carries a session on, and tools not allowed are refused without asking.

use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::workflow::Sandbox;
use serde_json::Value;

use super::{Call, State, count_at, first_line, text_at, tool_line};

pub(super) fn arguments(call: Call<'_>) -> Vec<String> {
    let mut arguments: Vec<String> = ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).into();
    if let Some(model) = call.model {
        arguments.extend(["--model".to_owned(), model.to_owned()]);
    }
    if let Some(session) = call.session {
        arguments.extend(["--resume".to_owned(), session.to_owned()]);
    }
    let tools = match call.sandbox {
        Sandbox::LockedDown | Sandbox::Readonly => "Read,Grep,Glob",
        Sandbox::Default => "Read,Grep,Glob,Bash,WebFetch,WebSearch",
        Sandbox::WorkspaceWrite => "Read,Grep,Glob,Bash,WebFetch,WebSearch,Edit,Write",
    };
    arguments.extend(["--allowedTools".to_owned(), tools.to_owned()]);
    arguments
}

pub(super) fn event(event: &Value, state: &mut State) -> Option<String> {
    if let Some(session) = text_at(event, "/session_id") {
        state.session = Some(session.to_owned());
    }
    match text_at(event, "/type")? {
        "system" => {
            if let Some(model) = text_at(event, "/model") {
                state.model = Some(model.to_owned());
            }
            None
        }
        // Events of an agent inside the agent are its own affair, but worth showing.
        "assistant" => assistant(event, state),
        "result" => {
            finished(event, state);
            None
        }
        _ => None,
    }
}

fn assistant(event: &Value, state: &mut State) -> Option<String> {
    let own = event.get("parent_tool_use_id").is_none_or(Value::is_null);
    if own && let Some(model) = text_at(event, "/message/model").filter(|model| !model.starts_with('<')) {
        state.model = Some(model.to_owned());
    }
    let mut activity = None;
    for part in event.pointer("/message/content")?.as_array()? {
        match text_at(part, "/type") {
            Some("text") => {
                let text = text_at(part, "/text").unwrap_or_default();
                if own {
                    text.clone_into(&mut state.text);
                }
                activity = Some(first_line(text).to_owned());
            }
            Some("tool_use") => {
                activity = Some(tool_line(text_at(part, "/name").unwrap_or("tool"), part.get("input")));
            }
            _ => {}
        }
    }
    activity
}

fn finished(event: &Value, state: &mut State) {
    if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
        state.usage = Some(Usage {
            input_tokens: count_at(usage, "/input_tokens"),
            output_tokens: count_at(usage, "/output_tokens"),
            cache_read_tokens: count_at(usage, "/cache_read_input_tokens"),
            cache_write_tokens: count_at(usage, "/cache_creation_input_tokens"),
            total_tokens: None,
        });
        state.raw_usage = Some(usage.clone());
    }
    let result = text_at(event, "/result");
    let failed = event.get("is_error").and_then(Value::as_bool).unwrap_or(false)
        || text_at(event, "/subtype").is_some_and(|subtype| subtype != "success");
    if failed {
        let said = result.or_else(|| text_at(event, "/errors/0")).or_else(|| text_at(event, "/subtype"));
        state.error = Some(said.unwrap_or("it reported an error without saying which").to_owned());
        state.text.clear();
    } else {
        state.error = None;
        state.result = result.map(str::to_owned);
    }
}
