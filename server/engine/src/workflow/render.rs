//! Fills inputs into prompts. One pass: what an input's value says is never taken for a placeholder.

use std::collections::BTreeMap;

use flowdrive_protocol::ids::InputName;
use serde_json::Value;

/// Replaces every `{{name}}` that names an input. Others stay as they are.
#[must_use]
pub fn render(prompt: &str, inputs: &BTreeMap<InputName, Value>) -> String {
    fill(prompt, |name| lookup(inputs, name).map(text_of))
}

/// The same, but a name that is no input becomes nothing: what a sub-workflow's inputs are made with.
pub(super) fn render_or_empty(template: &str, inputs: &BTreeMap<InputName, Value>) -> String {
    fill(template, |name| Some(lookup(inputs, name).map(text_of).unwrap_or_default()))
}

/// The names in `{{...}}`, in order, with repeats.
pub(super) fn placeholders(prompt: &str) -> Vec<&str> {
    pieces(prompt)
        .filter_map(|piece| match piece {
            Piece::Placeholder { name, .. } => Some(name),
            Piece::Text(_) => None,
        })
        .collect()
}

/// A value as it reads in a prompt: texts as they are, lists joined by `; `, null as nothing, the rest as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text_of).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

pub(super) fn lookup<'a>(inputs: &'a BTreeMap<InputName, Value>, name: &str) -> Option<&'a Value> {
    InputName::new(name).ok().and_then(|name| inputs.get(&name))
}

fn fill(prompt: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(prompt.len());
    for piece in pieces(prompt) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Placeholder { name, whole } => match value(name) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(whole),
            },
        }
    }
    filled
}

enum Piece<'a> {
    Text(&'a str),
    Placeholder { name: &'a str, whole: &'a str },
}

fn pieces(prompt: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = prompt;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, length)) = placeholder(rest) {
            let (whole, after) = rest.split_at(length);
            rest = after;
            return Some(Piece::Placeholder { name, whole });
        }
        // The next place where a placeholder could start; `{{{a}}` holds one that starts a brace later.
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = rest[first..].find("{{").map_or(rest.len(), |found| found + first);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(text))
    })
}

/// The placeholder that a text starts with: its name, and its length with the braces.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))?;
    (end > 0 && inner[end..].starts_with("}}")).then(|| (&inner[..end], end + 4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn inputs(pairs: &[(&str, Value)]) -> BTreeMap<InputName, Value> {
        pairs.iter().map(|(name, value)| (InputName::new(*name).unwrap(), value.clone())).collect()
    }

    #[test]
    fn values_read_as_people_write_them_and_unknown_names_stay() {
        let given = inputs(&[
            ("q", json!("why?")),
            ("n", json!(3.5)),
            ("on", json!(true)),
            ("list", json!(["a", "b", 1])),
            ("data", json!({ "a": [1] })),
            ("a-b", json!("dash")),
            ("none", json!(null)),
        ]);
        for (prompt, rendered) in [
            ("{{q}}", "why?"),
            ("a {{q}} b {{q}}", "a why? b why?"),
            ("{{n}}/{{on}}", "3.5/true"),
            ("{{list}}", "a; b; 1"),
            ("{{data}}", "{\"a\":[1]}"),
            ("{{a-b}}", "dash"),
            ("[{{none}}]", "[]"),
            ("{{unknown}} {{ q }} {{q} {{}} {{q", "{{unknown}} {{ q }} {{q} {{}} {{q"),
            ("{{{q}}}", "{why?}"),
            ("\u{e9}{{{{q}}", "\u{e9}{{why?"),
            ("", ""),
        ] {
            assert_eq!(render(prompt, &given), rendered, "{prompt:?}");
        }
        assert_eq!(render_or_empty("[{{unknown}}{{q}}]", &given), "[why?]");
        assert_eq!(placeholders("{{q}} {{x}} {{q}} {{ no }}"), ["q", "x", "q"]);
    }

    #[test]
    fn what_a_value_says_is_never_a_placeholder() {
        let given = inputs(&[("a", json!("{{b}}")), ("b", json!("secret"))]);
        assert_eq!(render("{{a}} {{{{b}}}}", &given), "{{b}} {{secret}}");
    }

    proptest! {
        #[test]
        fn a_prompt_without_inputs_comes_out_as_it_went_in(prompt in "[{}a-c\u{e9}\u{1f600} ]{0,40}") {
            prop_assert_eq!(render(&prompt, &BTreeMap::new()), prompt);
        }
    }
}
