//! Codex CLI, after its documentation page "Non-interactive mode" (`codex exec`): `--json` prints one event a line, `-`
//! takes the prompt from standard input, `exec resume <id>` carries a session on, `--sandbox` bounds what it may do, and it
//! never asks for approval.

use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::workflow::Sandbox;
use serde_json::Value;

use super::{Call, State, count_at, first_line, text_at};

pub(super) fn arguments(call: Call<'_>) -> Vec<String> {
    let sandbox = match call.sandbox {
        // Read-only runs commands too; it keeps them from writing.
        Sandbox::Default | Sandbox::Readonly | Sandbox::LockedDown => "read-only",
        Sandbox::WorkspaceWrite => "workspace-write",
    };
    let mut arguments: Vec<String> =
        ["exec", "--json", "--skip-git-repo-check", "--sandbox", sandbox].map(str::to_owned).into();
    if let Some(model) = call.model {
        arguments.extend(["--model".to_owned(), model.to_owned()]);
    }
    arguments
}

/// What has to come after the user's own options: the subcommand that resumes, and the prompt's place.
pub(super) fn last_arguments(call: Call<'_>) -> Vec<String> {
    let resume = call.session.map(|session| ["resume".to_owned(), session.to_owned()]);
    resume.into_iter().flatten().chain(["-".to_owned()]).collect()
}

pub(super) fn event(event: &Value, state: &mut State) -> Option<String> {
    match text_at(event, "/type")? {
        "thread.started" => {
            state.session = text_at(event, "/thread_id").map(str::to_owned);
            None
        }
        "item.started" => item(event.get("item")?),
        "item.completed" => {
            let item_value = event.get("item")?;
            if text_at(item_value, "/type") == Some("agent_message") {
                state.result = text_at(item_value, "/text").map(str::to_owned);
            }
            // What was told when it began is not told again.
            match text_at(item_value, "/type") {
                Some("command_execution" | "mcp_tool_call") => None,
                _ => item(item_value),
            }
        }
        "turn.completed" => {
            // A turn that ends well has got over the errors within it.
            state.error = None;
            add_usage(event.get("usage")?, state);
            None
        }
        "turn.failed" => {
            let message = text_at(event, "/error/message").unwrap_or("the turn failed without saying why");
            state.error = Some(message.to_owned());
            Some(first_line(message).to_owned())
        }
        "error" => {
            let message = text_at(event, "/message")?;
            state.error = Some(message.to_owned());
            Some(first_line(message).to_owned())
        }
        _ => None,
    }
}

fn item(item: &Value) -> Option<String> {
    let line = match text_at(item, "/type")? {
        "agent_message" | "reasoning" | "plan" => first_line(text_at(item, "/text")?).trim_matches('*').to_owned(),
        "command_execution" => first_line(text_at(item, "/command")?).to_owned(),
        "file_change" => format!("edited {}", text_at(item, "/changes/0/path")?),
        "mcp_tool_call" => format!("{} {}", text_at(item, "/server")?, text_at(item, "/tool")?),
        "web_search" => format!("searching the web for {}", text_at(item, "/query")?),
        "error" => first_line(text_at(item, "/message")?).to_owned(),
        _ => return None,
    };
    Some(line)
}

/// Adds up the turns of one call.
fn add_usage(usage: &Value, state: &mut State) {
    let sum = |before: Option<u64>, pointer: &str| match (before, count_at(usage, pointer)) {
        (Some(before), Some(now)) => Some(before.saturating_add(now)),
        (before, now) => before.or(now),
    };
    let before = state.usage.take().unwrap_or_default();
    state.usage = Some(Usage {
        input_tokens: sum(before.input_tokens, "/input_tokens"),
        output_tokens: sum(before.output_tokens, "/output_tokens"),
        cache_read_tokens: sum(before.cache_read_tokens, "/cached_input_tokens"),
        cache_write_tokens: None,
        total_tokens: None,
    });
    state.raw_usage = Some(usage.clone());
}
