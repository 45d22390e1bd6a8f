//! Fields of an agent's JSON under the many names agents give them.
//!
//! Must not: judge what it reads.

use serde_json::{Map, Value};

use super::evidence::{Locator, classify, unwrap};
use super::json::trim;

/// A JSON object.
pub(super) type Fields = Map<String, Value>;

/// Longest piece of prose kept where a locator should be, in bytes.
const MAX_LOCATOR_BYTES: usize = 1000;

/// The first field among `names` that holds text which is not blank, trimmed. Numbers count as text.
pub(super) fn text(fields: &Fields, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match fields.get(*name)? {
        Value::String(text) => Some(trim(text)).filter(|text| !text.is_empty()).map(str::to_owned),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

/// The first field among `names` that holds text which is not blank, trimmed.
pub(super) fn string<'a>(fields: &'a Fields, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| Some(trim(fields.get(*name)?.as_str()?)).filter(|text| !text.is_empty()))
}

/// The first field among `names` that holds an array with something in it.
pub(super) fn array<'a>(fields: &'a Fields, names: &[&str]) -> Option<&'a [Value]> {
    names.iter().find_map(|name| fields.get(*name)?.as_array().map(Vec::as_slice).filter(|items| !items.is_empty()))
}

/// The locators an element of an evidence list stands for: a string as it is, an object by its path and lines, or by
/// the locator or URL in it. Anything else stands for none.
pub(super) fn locators(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let text = cut(trim(text), MAX_LOCATOR_BYTES);
            if !text.is_empty() {
                into.push(text.to_owned());
            }
        }
        Value::Object(fields) => match placed(fields) {
            Some(locator) => into.push(locator),
            None => {
                for inner in fields.values().filter(|value| value.is_object() || value.is_array()) {
                    nested(inner, into);
                }
            }
        },
        _ => {}
    }
}

fn nested(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(_) => locators(value, into),
        Value::Array(items) => items.iter().filter(|item| item.is_object()).for_each(|item| locators(item, into)),
        _ => {}
    }
}

/// The locator made of an object's path and lines.
pub(super) fn placed(fields: &Fields) -> Option<String> {
    const PLACES: &[&str] = &[
        "locator",
        "path",
        "file",
        "filePath",
        "file_path",
        "filename",
        "fileName",
        "location",
        "url",
        "uri",
        "href",
        "ref",
        "reference",
        "source",
    ];
    let place = cut(string(fields, PLACES)?, MAX_LOCATOR_BYTES);
    match (classify(place), span(fields)) {
        (Locator::File { lines: None, .. }, Some(span)) => Some(format!("{}:{span}", unwrap(place))),
        // A file without folder and extension, such as `Makefile`.
        (Locator::Ungrounded(_), Some(span)) if !place.contains(char::is_whitespace) => {
            Some(format!("{}:{span}", unwrap(place)))
        }
        _ => Some(place.to_owned()),
    }
}

/// The lines an object speaks of, as `10` or `10-12`. Whether they make sense is not checked here.
fn span(fields: &Fields) -> Option<String> {
    const FIRST: &[&str] =
        &["line", "startLine", "start_line", "lineStart", "line_start", "lineNumber", "line_number", "start"];
    const LAST: &[&str] = &["endLine", "end_line", "lineEnd", "line_end", "end"];
    const BOTH: &[&str] = &["lines", "range", "lineRange", "line_range", "span"];
    if let Some(first) = FIRST.iter().find_map(|name| digits(fields.get(*name)?)) {
        let last = LAST.iter().find_map(|name| digits(fields.get(*name)?));
        return Some(match last {
            Some(last) if last != first && !first.contains('-') => format!("{first}-{last}"),
            _ => first,
        });
    }
    BOTH.iter().find_map(|name| match fields.get(*name)? {
        Value::Array(ends) => match ends.as_slice() {
            [only] => digits(only),
            [first, .., last] => Some(format!("{}-{}", digits(first)?, digits(last)?)),
            [] => None,
        },
        Value::Object(ends) => Some(format!("{}-{}", digits(ends.get("start")?)?, digits(ends.get("end")?)?)),
        value => digits(value),
    })
}

/// A line number, or a range of them written as text.
fn digits(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => number.as_u64().map(|line| line.to_string()),
        Value::String(text) => {
            let text = trim(text).trim_start_matches(['L', 'l']).replace("-L", "-").replace('–', "-");
            let fits = text.len() <= 24
                && text.split('-').count() <= 2
                && text.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
            fits.then_some(text)
        }
        _ => None,
    }
}

/// The text's beginning, at most `max` bytes, ending between two characters.
pub(super) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        locators(value, &mut found);
        found
    }

    #[test]
    fn objects_become_locators() {
        for (value, wanted) in [
            (json!(" src/a.rs:10 "), vec!["src/a.rs:10"]),
            (json!({ "path": "src/a.rs", "line": 10 }), vec!["src/a.rs:10"]),
            (json!({ "path": "src/a.rs", "line": "10-12" }), vec!["src/a.rs:10-12"]),
            (json!({ "file": "`src/a.rs`", "startLine": 10, "endLine": 12 }), vec!["src/a.rs:10-12"]),
            (json!({ "file": "src/a.rs", "start_line": 10, "end_line": 10 }), vec!["src/a.rs:10"]),
            (json!({ "file_path": "src/a.rs", "lines": [10, 12] }), vec!["src/a.rs:10-12"]),
            (json!({ "path": "src/a.rs", "lines": "L10-L12" }), vec!["src/a.rs:10-12"]),
            (json!({ "path": "src/a.rs", "range": { "start": 3, "end": 4 } }), vec!["src/a.rs:3-4"]),
            (json!({ "path": "src/a.rs:7", "line": 10 }), vec!["src/a.rs:7"]),
            (json!({ "path": "Makefile", "line": 3 }), vec!["Makefile:3"]),
            (json!({ "path": "src/a.rs", "line": 0 }), vec!["src/a.rs:0"]),
            (json!({ "path": "src/a.rs", "line": -1 }), vec!["src/a.rs"]),
            (json!({ "locator": "src/a.rs:3", "summary": "x.rs:1" }), vec!["src/a.rs:3"]),
            (json!({ "url": "https://example.com", "line": 3 }), vec!["https://example.com"]),
            (json!({ "location": { "path": "a.rs", "line": 3 } }), vec!["a.rs:3"]),
            (json!({ "locations": [{ "path": "a.rs" }, { "path": "b.rs" }, "c.rs"] }), vec!["a.rs", "b.rs"]),
            (json!({ "line": 3 }), vec![]),
            (json!(3), vec![]),
            (json!(null), vec![]),
            (json!(["a.rs"]), vec![]),
            (json!("  "), vec![]),
        ] {
            assert_eq!(of(&value), wanted, "{value}");
        }
    }

    #[test]
    fn long_prose_is_cut_between_characters() {
        let long = of(&json!("é".repeat(2000)));
        assert_eq!(long[0].len(), MAX_LOCATOR_BYTES);
    }

    #[test]
    fn the_first_name_that_holds_something_counts() {
        let value = json!({ "a": " ", "b": 3, "c": "text", "d": [], "e": [1] });
        let fields = value.as_object().unwrap();
        assert_eq!(text(fields, &["a", "b", "c"]).as_deref(), Some("3"));
        assert_eq!(string(fields, &["a", "b", "c"]), Some("text"));
        assert_eq!(array(fields, &["a", "d", "e"]).map(<[_]>::len), Some(1));
    }
}
