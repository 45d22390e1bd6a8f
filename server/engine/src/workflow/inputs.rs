//! Checks the values a run is planned with against what its workflow asks for.

use std::collections::BTreeMap;
use std::path::Path;

use flowdrive_protocol::ids::InputName;
use flowdrive_protocol::workflow::{InputSpec, InputType, SubWorkflow, Workflow};
use serde_json::Value;

use super::document::{did_you_mean, listed};
use super::error::InputError;
use super::place;
use super::render::{lookup, placeholders, render_or_empty};

/// The inputs a run has: what was given, checked and in its canonical form, and defaults for the rest. An optional input
/// without a default that was not given is absent.
///
/// Numbers and truths may be given as texts, as a command line gives them. A single value for an input that takes a list
/// becomes a list of one. A path comes out relative to the workspace, with `/` between its parts.
///
/// # Errors
/// [`InputError`] with every fault: missing and unknown inputs, wrong types, paths that do not exist or leave the workspace.
pub fn plan_inputs(
    workflow: &Workflow,
    given: &BTreeMap<InputName, Value>,
    workspace: &Path,
) -> Result<BTreeMap<InputName, Value>, InputError> {
    let mut planned = BTreeMap::new();
    let mut faults = Vec::new();
    for (name, spec) in &workflow.inputs {
        let value = match (given.get(name), &spec.default) {
            (Some(value), _) if !value.is_null() => value,
            (_, Some(default)) => default,
            (Some(null), None) if spec.kind == InputType::Json => null,
            _ if spec.required => {
                faults.push(format!("Missing required input: {name}"));
                continue;
            }
            _ => continue,
        };
        if holds_nul(value) {
            faults.push(format!("Input {name}: {NUL}"));
            continue;
        }
        match coerce(spec, value, &|path| place::existing_inside(workspace, path)) {
            Ok(value) if spec.required && is_blank(spec, &value) => {
                faults.push(format!("Missing required input: {name} (it was given, but empty)"));
            }
            Ok(value) => drop(planned.insert(name.clone(), value)),
            Err(reason) => faults.push(format!("Input {name}: {reason}")),
        }
    }
    let known = || workflow.inputs.keys().map(InputName::as_str);
    for name in given.keys().filter(|name| !workflow.inputs.contains_key(*name)) {
        let near = did_you_mean(name.as_str(), known());
        faults.push(format!("Unknown input: {name}{near} Workflow {} takes: {}", workflow.id, listed(known())));
    }
    if faults.is_empty() { Ok(planned) } else { Err(InputError { faults }) }
}

/// The values to plan a sub-workflow with: its templates filled in from the parent's inputs, and the parent's `question`
/// where the child asks for one and is given none. A template that is one placeholder passes the value on as it is, also a
/// list; one that comes out empty for an input that takes no texts counts as not given.
///
/// What comes out still has to go through [`plan_inputs`].
#[must_use]
pub fn child_inputs(
    sub: &SubWorkflow,
    parent: &BTreeMap<InputName, Value>,
    child: &Workflow,
) -> BTreeMap<InputName, Value> {
    let mut given = BTreeMap::new();
    for (name, template) in &sub.inputs {
        let value = match whole_placeholder(template) {
            Some(source) => lookup(parent, source).cloned().unwrap_or_else(|| Value::String(String::new())),
            None => Value::String(render_or_empty(template, parent)),
        };
        let takes_texts = child.inputs.get(name).is_none_or(|spec| spec.kind == InputType::String && !spec.repeated);
        if takes_texts || value != Value::String(String::new()) {
            given.insert(name.clone(), value);
        }
    }
    if let Ok(question) = InputName::new("question")
        && child.inputs.contains_key(&question)
        && let Some(value) = parent.get(&question)
    {
        given.entry(question).or_insert_with(|| value.clone());
    }
    given
}

fn whole_placeholder(template: &str) -> Option<&str> {
    let [name] = placeholders(template)[..] else { return None };
    (template.len() == name.len() + 4).then_some(name)
}

/// What is said of a text that holds a NUL character.
pub(crate) const NUL: &str =
    "holds a NUL character (U+0000), which no program can be given on its command line; take it out";

/// Whether a NUL character is anywhere in a value. Prompts are made of it, and they may go to an agent by its command line:
/// found there, it would fail each attempt alike.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a default has the type its input asks for. Looks at no files.
pub(super) fn check_default(spec: &InputSpec, value: &Value) -> Result<(), String> {
    if holds_nul(value) {
        return Err(NUL.to_owned());
    }
    coerce(spec, value, &|path| place::lexically_inside(path).map(|()| path.to_owned())).map(drop)
}

fn is_blank(spec: &InputSpec, value: &Value) -> bool {
    match value {
        Value::String(text) => spec.kind == InputType::String && text.trim().is_empty(),
        Value::Array(values) => spec.repeated && values.is_empty(),
        _ => false,
    }
}

fn coerce(spec: &InputSpec, value: &Value, path: &dyn Fn(&str) -> Result<String, String>) -> Result<Value, String> {
    if !spec.repeated {
        return coerce_one(spec.kind, value, path);
    }
    match value {
        Value::Array(values) => values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                coerce_one(spec.kind, value, path).map_err(|reason| format!("value {}: {reason}", index + 1))
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array),
        single => Ok(Value::Array(vec![coerce_one(spec.kind, single, path)?])),
    }
}

fn coerce_one(kind: InputType, value: &Value, path: &dyn Fn(&str) -> Result<String, String>) -> Result<Value, String> {
    let wrong = |wanted: &str| Err(format!("expected {wanted}, found {}", found(value)));
    match (kind, value) {
        (InputType::Json, any) => Ok(any.clone()),
        (InputType::String, Value::String(_)) => Ok(value.clone()),
        (InputType::String, _) => wrong("a text"),
        (InputType::Path, Value::String(text)) => path(text).map(Value::String),
        (InputType::Path, _) => wrong("the path of a file or folder"),
        (InputType::Number, Value::Number(_)) => Ok(value.clone()),
        (InputType::Number, Value::String(text)) => match serde_json::from_str(text.trim()) {
            Ok(number @ Value::Number(_)) => Ok(number),
            _ => wrong("a number"),
        },
        (InputType::Number, _) => wrong("a number"),
        (InputType::Boolean, Value::Bool(_)) => Ok(value.clone()),
        (InputType::Boolean, Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Value::Bool(true)),
            "false" | "no" | "off" | "0" | "" => Ok(Value::Bool(false)),
            _ => wrong("true or false (or yes, on, 1, no, off, 0)"),
        },
        (InputType::Boolean, _) => wrong("true or false"),
    }
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
