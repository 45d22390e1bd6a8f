//! OpenCode, after its documentation page "CLI" (`opencode run`): without arguments the message is taken from standard
//! input, `--format json` prints one event a line, `--session` carries a session on.
//! What it may do is set in its own configuration; there is no flag for it.

use flowdrive_protocol::outcome::Usage;
use serde_json::{Value, json};

use super::{Call, State, count_at, first_line, text_at, tool_line};

pub(super) fn arguments(call: Call<'_>) -> Vec<String> {
    let mut arguments: Vec<String> = ["run", "--format", "json"].map(str::to_owned).into();
    if let Some(model) = call.model {
        arguments.extend(["--model".to_owned(), model.to_owned()]);
    }
    if let Some(session) = call.session {
        arguments.extend(["--session".to_owned(), session.to_owned()]);
    }
    arguments
}

pub(super) fn event(event: &Value, state: &mut State) -> Option<String> {
    if let Some(session) = text_at(event, "/sessionID") {
        state.session = Some(session.to_owned());
    }
    match text_at(event, "/type")? {
        // Each step is one answer of the model; the last step's text is the final message.
        "step_start" => {
            state.text.clear();
            None
        }
        "text" => {
            let text = text_at(event, "/part/text")?;
            if !state.text.is_empty() {
                state.text.push_str("\n\n");
            }
            state.text.push_str(text);
            Some(first_line(text).to_owned())
        }
        "tool_use" => {
            Some(tool_line(text_at(event, "/part/tool").unwrap_or("tool"), event.pointer("/part/state/input")))
        }
        "step_finish" => {
            add_usage(event.pointer("/part/tokens")?, state);
            state.error = None;
            None
        }
        "error" => {
            let message = ["/error/data/message", "/error/message", "/error/name", "/error"]
                .iter()
                .find_map(|at| text_at(event, at))
                .unwrap_or("it reported an error without saying which");
            state.error = Some(message.to_owned());
            Some(first_line(message).to_owned())
        }
        _ => None,
    }
}

/// Adds up the steps. The sum is ours, in the program's spelling, since it prints none itself.
fn add_usage(tokens: &Value, state: &mut State) {
    let sum = |before: Option<u64>, pointer: &str| match (before, count_at(tokens, pointer)) {
        (Some(before), Some(now)) => Some(before.saturating_add(now)),
        (before, now) => before.or(now),
    };
    let before = state.usage.take().unwrap_or_default();
    let usage = Usage {
        input_tokens: sum(before.input_tokens, "/input"),
        output_tokens: sum(before.output_tokens, "/output"),
        cache_read_tokens: sum(before.cache_read_tokens, "/cache/read"),
        cache_write_tokens: sum(before.cache_write_tokens, "/cache/write"),
        total_tokens: None,
    };
    state.raw_usage = Some(json!({
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache": { "read": usage.cache_read_tokens, "write": usage.cache_write_tokens },
    }));
    state.usage = Some(usage);
}
