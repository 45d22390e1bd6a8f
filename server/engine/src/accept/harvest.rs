//! Locators found in text that was not written as a list of locators.
//!
//! Must not: keep what is not grounded, or take more than linear time.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::evidence::{Locator, classify_word, unwrap};

/// Back-quoted text, URLs, and file names with an extension, with lines behind them in code (`:10-12`, `#L10`) or in
/// words (`, lines 10 to 12`, `at line 10`), or before them (`line 10 of`).
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    const FILE: &str = r"(?:(?-u:\b)[A-Za-z]:[\\/])?[\w@./\\+~-]+\.[A-Za-z][A-Za-z0-9]{0,7}";
    let numbers = |name: &str| format!(r"(?P<{name}1>\d+)(?:\s?(?:-|–|to)\s?(?P<{name}2>\d+))?");
    let behind = |name: &str| {
        let numbers = numbers(name);
        format!(r"(?:[,:]?\s{{1,3}}\(?(?:(?:at|on|near)\s{{1,3}})?(?:(?i:lines?)\s{{1,3}}|L){numbers})")
    };
    let pattern = [
        &format!(r"(?i:lines?)\s{{1,3}}{}\s{{1,3}}(?:of|in)\s{{1,3}}`?(?P<later>{FILE})`?", numbers("before")),
        &format!(r"|`(?P<quoted>[^`\n]+)`{}?", behind("quoted")),
        r#"|(?P<url>https?://[^\s<>"'`\])}]+)"#,
        &format!(
            r"|(?P<file>{FILE})(?:(?P<span>:\d+(?::\d+)?(?:[-–]\d+(?::\d+)?)?|#L?\d+(?:-L?\d+)?)|{})?",
            behind("file")
        ),
    ];
    Regex::new(&pattern.concat()).expect("a constant pattern")
});

/// Calls `take` with each locator in the text, in order, until it breaks. A text that is one locator is taken whole.
pub(super) fn each(text: &str, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    let whole = unwrap(text);
    if !whole.contains(char::is_whitespace) && grounded(whole) {
        return take(whole);
    }
    for found in TOKEN.captures_iter(text) {
        let group = |name: &str| found.name(name).map(|group| group.as_str());
        // The lines that are named in words, as a span behind the file.
        let spanned = |file: &str, name: &str| {
            let first = group(&format!("{name}1"))?;
            let last = group(&format!("{name}2")).map_or(String::new(), |last| format!("-{last}"));
            Some(format!("{file}:{first}{last}"))
        };
        if let Some(quoted) = group("quoted") {
            let quoted = unwrap(quoted);
            let named = spanned(quoted, "quoted").filter(|_| matches!(classify_word(quoted), Locator::File { .. }));
            // Back quotes cannot nest, so this goes one level deep.
            if quoted.contains(char::is_whitespace) {
                each(quoted, take)?;
            } else if let Some(token) = named {
                // Lines that cannot be are not left off: the file by itself is not what was cited.
                if grounded(&token) {
                    take(&token)?;
                }
            } else if grounded(quoted) {
                take(quoted)?;
            }
        } else if let Some(token) = group("later")
            .and_then(|file| spanned(file, "before"))
            .or_else(|| group("file").and_then(|file| spanned(file, "file")))
        {
            if grounded(&token) {
                take(&token)?;
            }
        } else {
            let token = found.get(0).map_or("", |token| unwrap(token.as_str()));
            if grounded(token) {
                take(token)?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// Calls `take` with each locator in the strings of a JSON value. Fields whose names are in `skip` are left out.
pub(super) fn each_in(value: &Value, skip: &[&str], take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    match value {
        Value::String(text) => each(text, take),
        Value::Array(items) => items.iter().try_for_each(|item| each_in(item, skip, take)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !skip.contains(&name.as_str()))
            .try_for_each(|(_, value)| each_in(value, skip, take)),
        _ => ControlFlow::Continue(()),
    }
}

/// The first locator in the text.
pub(super) fn first(text: &str) -> Option<String> {
    let mut found = None;
    let _ = each(text, &mut |token| {
        found = Some(token.to_owned());
        ControlFlow::Break(())
    });
    found
}

fn grounded(word: &str) -> bool {
    !matches!(classify_word(word), Locator::Ungrounded(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let _ = each(text, &mut |token| {
            found.push(token.to_owned());
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn locators_are_found_in_prose() {
        for (text, wanted) in [
            ("src/a.rs:10", vec!["src/a.rs:10"]),
            ("issue:42", vec!["issue:42"]),
            ("In src/a.rs:10-12, and (b.py).", vec!["src/a.rs:10-12", "b.py"]),
            ("see `Cargo.toml`, `main` and `run it`", vec!["Cargo.toml"]),
            ("`cargo run src/main.rs:3` fails", vec!["src/main.rs:3"]),
            ("at src/a.rs#L10-L12.", vec!["src/a.rs#L10-L12"]),
            ("at src/a.rs:10:5: error", vec!["src/a.rs:10:5"]),
            ("src/a.rs (line 10), src/b.rs lines 3 to 4", vec!["src/a.rs:10", "src/b.rs:3-4"]),
            ("src/a.rs at line 10, `src/b.rs` on lines 3-4", vec!["src/a.rs:10", "src/b.rs:3-4"]),
            ("line 10 of src/a.rs and Lines 3 to 4 in `src/b.rs`", vec!["src/a.rs:10", "src/b.rs:3-4"]),
            ("src/a.rs L10 and src/b.rs#12", vec!["src/a.rs:10", "src/b.rs#12"]),
            ("see `src/a.rs`, line 0", vec![]),
            ("`main`, line 3", vec![]),
            (r"in src\win\a.rs:4 there", vec![r"src\win\a.rs:4"]),
            (r"in C:\work\a.rs:4 there", vec![r"C:\work\a.rs:4"]),
            ("in src/größe.rs:4 there", vec!["src/größe.rs:4"]),
            ("from https://example.com/a?b=c, and so on", vec!["https://example.com/a?b=c"]),
            ("[x](src/a.rs#L4) there", vec!["src/a.rs#L4"]),
            ("either/or, nothing here", vec![]),
            ("impossible a.rs:0 and b.rs:9-2 and ../c.rs here", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(all(text), wanted, "{text}");
        }
    }

    #[test]
    fn strings_of_a_value_are_searched_and_named_fields_are_not() {
        let value = json!({ "id": "a/b.rs", "deep": [{ "text": "at c.rs:1 here" }, 3], "z": "`d.rs`" });
        let mut found = Vec::new();
        let _ = each_in(&value, &["id"], &mut |token| {
            found.push(token.to_owned());
            ControlFlow::Continue(())
        });
        assert_eq!(found, ["c.rs:1", "d.rs"]);
    }

    #[test]
    fn searching_stops_when_told() {
        let mut seen = 0;
        let flow = each("a.rs b.rs c.rs", &mut |_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!((seen, flow), (1, ControlFlow::Break(())));
        assert_eq!(first("see b.rs, a.rs").as_deref(), Some("b.rs"));
    }
}
