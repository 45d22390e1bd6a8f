//! The rules of an agent's configuration that its types cannot say. Messages never repeat a command, a URL or a header:
//! any of them may hold a secret.

use flowdrive_protocol::config::{AgentConfig, Preset};
use flowdrive_protocol::ids::AgentName;

use crate::model::agent::PLACEHOLDERS;
use crate::workflow::NUL;
use crate::workflow::document::{FieldPath, nearest};

/// Names that belong to Flowdrive.
pub(super) const RESERVED: &str = "builtin:";

/// Whether the agent is complete, or one layer that others may complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Layer,
    Whole,
}

/// What is wrong with an agent: the field, and why.
pub(super) fn agent(name: &AgentName, agent: &AgentConfig, extent: Extent) -> Vec<(FieldPath, String)> {
    let path = FieldPath::root().key("agents").key(name.as_str());
    let mut faults = Vec::new();
    let mut fault = |path: FieldPath, message: &str| faults.push((path, message.to_owned()));

    if name.as_str().starts_with(RESERVED) {
        fault(path.clone(), "names that start with `builtin:` belong to Flowdrive; choose another");
    }
    let targets = [
        ("preset", agent.preset.is_some()),
        ("command", agent.command.is_some()),
        ("endpoint", agent.endpoint.is_some()),
    ];
    let mut given = targets.iter().filter(|(_, given)| *given).map(|(field, _)| *field);
    match (given.next(), given.next()) {
        (Some(first), Some(second)) => {
            fault(
                path.key(second),
                &format!("`{first}` is given as well; an agent has only one of preset, command and endpoint"),
            );
        }
        (None, _) if extent == Extent::Whole && preset_named(name.as_str()).is_none() => {
            fault(path.clone(), "needs one of preset, command and endpoint");
        }
        _ => {}
    }
    if let Some(argv) = &agent.command {
        if argv.first().is_none_or(|program| program.trim().is_empty()) {
            fault(path.key("command"), "needs at least the program");
        } else if argv.iter().any(|argument| argument.contains('\0')) {
            fault(path.key("command"), "holds a NUL character, which no program can be given");
        } else if let Some((written, meant)) = argv.iter().find_map(|argument| slip(argument)) {
            fault(
                path.key("command"),
                &format!(
                    "{{{{{written}}}}} is no placeholder; did you mean {{{{{meant}}}}}? Known: {}",
                    PLACEHOLDERS.join(", ")
                ),
            );
        }
    }
    if let Some(url) = &agent.endpoint
        && let Err(reason) = check_url(url)
    {
        fault(path.key("endpoint"), &reason);
    }
    if agent.timeout_ms == Some(0) {
        fault(path.key("timeoutMs"), "must be at least 1; leave it out for the default");
    }
    if agent.model.as_deref().is_some_and(|model| model.contains('\0')) {
        fault(path.key("model"), NUL);
    }
    if agent.model.as_deref().is_some_and(|model| model.trim().is_empty()) {
        fault(path.key("model"), "must not be empty; leave it out for the agent's own");
    }
    let may_be_endpoint =
        agent.endpoint.is_some() || (extent == Extent::Layer && agent.command.is_none() && agent.preset.is_none());
    if !agent.headers.is_empty() && !may_be_endpoint {
        fault(path.key("headers"), "only an agent with an endpoint has headers");
    }
    if agent.ca_file.is_some() && !may_be_endpoint {
        fault(path.key("caFile"), "only an agent with an endpoint has certificates to be checked");
    }
    for (header, variable) in &agent.headers {
        let path = path.key("headers").key(header);
        if reqwest::header::HeaderName::from_bytes(header.as_bytes()).is_err() {
            fault(path, "is not the name of an HTTP header");
        } else if !is_variable(variable) {
            fault(path, "must be the name of an environment variable that holds the header's value, never the value");
        }
    }
    if let Some(policy) = &agent.env {
        for (field, names) in [("pass", &policy.pass), ("deny", &policy.deny)] {
            for (index, name) in names.iter().enumerate() {
                if name.is_empty() || name.contains(['=', '\0']) {
                    fault(path.key("env").key(field).at(index), "must be the name of an environment variable");
                }
            }
        }
    }
    faults
}

/// The preset of a name.
pub(super) fn preset_named(name: &str) -> Option<Preset> {
    match name {
        "claude" => Some(Preset::Claude),
        "codex" => Some(Preset::Codex),
        "gemini" => Some(Preset::Gemini),
        "opencode" => Some(Preset::Opencode),
        "survey" => Some(Preset::Survey),
        _ => None,
    }
}

/// A placeholder of an argument that is none, and the one that was likely meant. What resembles none is the program's own
/// affair. Only a short word is ever repeated.
fn slip(argument: &str) -> Option<(&str, &'static str)> {
    let inner = argument.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
    inner.filter(|name| !PLACEHOLDERS.contains(name)).find_map(|name| {
        let word = name.trim();
        let is_word =
            !word.is_empty() && word.len() <= 16 && word.chars().all(|c| c.is_ascii_alphabetic() || "_-".contains(c));
        let meant = nearest(word, PLACEHOLDERS).filter(|_| is_word)?;
        Some((name, meant))
    })
}

fn check_url(text: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must be an http:// or https:// URL".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "must not hold a user name or password; use `headers` with the name of an environment variable".to_owned()
        );
    }
    Ok(())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
