//! The tables of `docs/protocol.md`, made from the schema: what stands between `<!-- NAME: begin -->` and
//! `<!-- NAME: end -->` there. Pure.
//!
//! Must not: say anything that the types do not.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use thiserror::Error;

/// A document without the place for a table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no `<!-- {0}: begin -->` followed by `<!-- {0}: end -->`")]
pub(crate) struct NoPlace(&'static str);

/// What the tables are made of.
pub(super) struct Facts<'a> {
    /// Name, summary, and the names of the types of its params and its result.
    pub(super) methods: Vec<(&'a str, &'a str, &'a str, &'a str)>,
    /// The name of the type of an event.
    pub(super) event: &'a str,
    /// The name of the type of an error's kind, and every kind with its code.
    pub(super) kinds: (&'a str, Vec<(&'a str, i64)>),
    /// JSON Schemas by the name of their type.
    pub(super) definitions: &'a Map<String, Value>,
}

/// The document with its tables brought up to date.
///
/// # Errors
/// [`NoPlace`] when a pair of markers is missing.
pub(super) fn filled(document: &str, facts: &Facts<'_>) -> Result<String, NoPlace> {
    let text = put(document, "methods", &methods(facts))?;
    let text = put(&text, "events", &events(facts))?;
    put(&text, "errors", &errors(facts))
}

fn put(document: &str, name: &'static str, table: &str) -> Result<String, NoPlace> {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let (before, rest) = document.split_once(&begin).ok_or(NoPlace(name))?;
    let (_, after) = rest.split_once(&end).ok_or(NoPlace(name))?;
    Ok(format!("{before}{begin}\n\n{table}\n{end}{after}"))
}

fn methods(facts: &Facts<'_>) -> String {
    let mut table = String::from(
        "| method | what it does | parameters (those in bold must be given) | answer |\n| --- | --- | --- | --- |\n",
    );
    for (name, summary, params, result) in &facts.methods {
        let params = fields(&facts.definitions[*params], &[]);
        let _ = writeln!(table, "| `{name}` | {} | {params} | `{result}` |", cell(summary));
    }
    table
}

fn events(facts: &Facts<'_>) -> String {
    let mut table = String::from("| type | says | fields (those in bold are always there) |\n| --- | --- | --- |\n");
    for event in facts.definitions[facts.event]["oneOf"].as_array().into_iter().flatten() {
        let kind = event["properties"]["type"]["const"].as_str().unwrap_or_default();
        let _ = writeln!(table, "| `{kind}` | {} | {} |", description(event), fields(event, &["type"]));
    }
    table
}

fn errors(facts: &Facts<'_>) -> String {
    let mut table = String::from("| kind | code | says |\n| --- | --- | --- |\n");
    let (name, kinds) = &facts.kinds;
    let described = facts.definitions[*name]["oneOf"].as_array();
    for (kind, code) in kinds {
        let schema = described.into_iter().flatten().find(|one| one["const"] == *kind);
        let says = schema.map(description).unwrap_or_default();
        let _ = writeln!(table, "| `{kind}` | {code} | {says} |");
    }
    table
}

/// The names of an object's fields, those that must be there first.
fn fields(schema: &Value, without: &[&str]) -> String {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let all = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let optional = all.filter(|name| !required.contains(name)).map(|name| format!("`{name}`"));
    let bold = required.iter().filter(|name| !without.contains(name)).map(|name| format!("**`{name}`**"));
    bold.chain(optional).collect::<Vec<_>>().join(", ")
}

fn description(schema: &Value) -> String {
    cell(schema["description"].as_str().unwrap_or_default())
}

/// A text that fits into a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_what_was_there_and_nothing_else() {
        let document = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let put_in = put(document, "x", "| new |\n").unwrap();
        assert_eq!(put_in, "a\n<!-- x: begin -->\n\n| new |\n\n<!-- x: end -->\nb\n");
        assert_eq!(put(&put_in, "x", "| new |\n").unwrap(), put_in, "twice is once");
        for broken in ["", "<!-- x: begin -->", "<!-- x: end --><!-- x: begin -->"] {
            assert_eq!(put(broken, "x", "").unwrap_err(), NoPlace("x"));
        }
    }
}
