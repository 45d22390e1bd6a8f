//! Gemini CLI, after its documentation pages "Headless mode reference" and "CLI reference": without a terminal it takes the
//! prompt from standard input, `--output-format stream-json` prints one event a line, `--resume` carries a session on, and
//! `--approval-mode auto_edit` lets it edit files. Tools that would ask for approval are refused without a terminal.

use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::workflow::Sandbox;
use serde_json::Value;

use super::{Call, State, count_at, first_line, text_at, tool_line};

pub(super) fn arguments(call: Call<'_>) -> Vec<String> {
    let mut arguments: Vec<String> = ["--output-format", "stream-json"].map(str::to_owned).into();
    if let Some(model) = call.model {
        arguments.extend(["--model".to_owned(), model.to_owned()]);
    }
    if let Some(session) = call.session {
        arguments.extend(["--resume".to_owned(), session.to_owned()]);
    }
    if call.sandbox == Sandbox::WorkspaceWrite {
        arguments.extend(["--approval-mode".to_owned(), "auto_edit".to_owned()]);
    }
    arguments
}

pub(super) fn event(event: &Value, state: &mut State) -> Option<String> {
    match text_at(event, "/type")? {
        "init" => {
            state.session = text_at(event, "/session_id").map(str::to_owned);
            state.model = text_at(event, "/model").map(str::to_owned);
            None
        }
        "message" if text_at(event, "/role") == Some("assistant") => {
            let text = text_at(event, "/content")?;
            // Pieces of one message carry `delta`; without it, it is a message of its own.
            if event.get("delta").and_then(Value::as_bool) != Some(true) {
                state.text.clear();
            }
            state.text.push_str(text);
            Some(first_line(text).to_owned())
        }
        "tool_use" => {
            // The answer is what is said after the last tool.
            state.text.clear();
            Some(tool_line(text_at(event, "/tool_name").unwrap_or("tool"), event.get("parameters")))
        }
        "error" => Some(first_line(text_at(event, "/message")?).to_owned()),
        "result" => {
            finished(event, state);
            None
        }
        _ => None,
    }
}

fn finished(event: &Value, state: &mut State) {
    if let Some(stats) = event.get("stats").filter(|stats| stats.is_object()) {
        state.usage = Some(Usage {
            input_tokens: count_at(stats, "/input_tokens"),
            output_tokens: count_at(stats, "/output_tokens"),
            cache_read_tokens: count_at(stats, "/cached"),
            cache_write_tokens: None,
            total_tokens: count_at(stats, "/total_tokens"),
        });
        state.raw_usage = Some(stats.clone());
    }
    if text_at(event, "/status") == Some("error") {
        let message = text_at(event, "/error/message").unwrap_or("it reported an error without saying which");
        state.error = Some(message.to_owned());
    }
}
