//! What a plain agent prints about itself on standard output: one JSON object, alone or as the last line.
//!
//! Must not: guess. What is not reported stays absent, and a model is never taken from the configuration.

use serde_json::{Map, Value};

use super::json::{parse, trim};
use super::usage::count;

/// What a plain agent printed about itself.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PlainReport {
    /// The model it says it used.
    pub model: Option<String>,
    /// Its `usage` object as it wrote it, which is what its signature covers.
    pub usage: Option<Value>,
    /// Its signature over that.
    pub usage_signature: Option<String>,
    /// Its own session id.
    pub session: Option<String>,
    /// What may stand for `result.md` when the agent wrote none.
    pub result_body: Option<String>,
}

/// Reads what an agent printed.
///
/// The whole output is taken for one JSON object or, failing that, its last line that looks like one. The result body
/// is the object's `result`, else its `resultMarkdown`. Output that is not JSON is a result body itself, unless it ends
/// in a report with usage: then it is one only if it holds a `cw:result` block, since logs come with such reports too.
#[must_use]
pub fn parse_plain(stdout: &str) -> PlainReport {
    let text = trim(stdout);
    if text.is_empty() {
        return PlainReport::default();
    }
    match parse(text) {
        Ok(Value::Object(fields)) => read(&fields),
        Ok(_) => PlainReport::default(),
        Err(_) => {
            let mut report = match last_object(text) {
                Some(fields) => read(&fields),
                None => PlainReport::default(),
            };
            if report.result_body.is_none() && (report.usage.is_none() || text.contains("```cw:result")) {
                report.result_body = Some(text.to_owned());
            }
            report
        }
    }
}

/// The last line that looks like an object, if it is one. Earlier lines are not tried: they are log lines.
fn last_object(text: &str) -> Option<Map<String, Value>> {
    let line = text.lines().rev().map(trim).find(|line| line.starts_with('{') && line.ends_with('}'))?;
    match parse(line) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    }
}

fn read(fields: &Map<String, Value>) -> PlainReport {
    let usage = fields.get("usage").filter(|usage| usage.is_object());
    PlainReport {
        model: string(fields, "model")
            .or_else(|| string(usage?.as_object()?, "model"))
            .or_else(|| string(fields, "modelId"))
            .or_else(|| busiest_model(fields.get("modelUsage")?.as_object()?)),
        usage: usage.cloned(),
        usage_signature: string(fields, "usageSignature").or_else(|| string(fields, "usage_signature")),
        session: string(fields, "sessionId").or_else(|| string(fields, "session_id")),
        // Kept to the letter: a signature may cover it.
        result_body: ["result", "resultMarkdown"]
            .iter()
            .find_map(|name| fields.get(*name)?.as_str().filter(|body| !trim(body).is_empty()))
            .map(str::to_owned),
    }
}

/// The model that read the most tokens. Of equals, the first in byte order.
fn busiest_model(models: &Map<String, Value>) -> Option<String> {
    let mut names: Vec<(&str, u64)> = models
        .iter()
        .map(|(name, usage)| {
            let read = ["inputTokens", "input_tokens"].iter().find_map(|key| count(usage.get(*key)?));
            (trim(name), read.unwrap_or(0))
        })
        .filter(|(name, _)| !name.is_empty())
        .collect();
    names.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    names.first().map(|(name, _)| (*name).to_owned())
}

/// A field that holds text which is not blank, trimmed.
fn string(fields: &Map<String, Value>, name: &str) -> Option<String> {
    let text = trim(fields.get(name)?.as_str()?);
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn body(stdout: &str) -> Option<String> {
        parse_plain(stdout).result_body
    }

    #[test]
    fn a_whole_object_is_read() {
        let report = parse_plain(
            &json!({ "model": " m-1 ", "usage": { "inputTokens": 3 }, "usageSignature": "c2ln", "session_id": "s-1",
                     "result": "# Done\n" })
            .to_string(),
        );
        assert_eq!(
            report,
            PlainReport {
                model: Some("m-1".into()),
                usage: Some(json!({ "inputTokens": 3 })),
                usage_signature: Some("c2ln".into()),
                session: Some("s-1".into()),
                result_body: Some("# Done\n".into()),
            }
        );
    }

    #[test]
    fn the_last_line_that_looks_like_an_object_is_read_after_log_noise() {
        let report = parse_plain("starting\n{\"model\":\"early\"}\r\n{\"model\":\"late\",\"usage\":{}}\ndone\n");
        assert_eq!((report.model.as_deref(), report.usage), (Some("late"), Some(json!({}))));
    }

    #[test]
    fn only_the_last_such_line_is_tried() {
        assert_eq!(parse_plain("{\"model\":\"early\"}\n{not json}").model, None);
    }

    #[test]
    fn the_model_is_looked_for_in_this_order() {
        for (value, wanted) in [
            (json!({ "model": "a", "usage": { "model": "b" }, "modelId": "c" }), Some("a")),
            (json!({ "model": 4, "usage": { "model": "b" }, "modelId": "c" }), Some("b")),
            (json!({ "model": " ", "modelId": "c", "modelUsage": { "d": {} } }), Some("c")),
            (json!({ "modelUsage": { "x": { "inputTokens": 5 }, "y": { "input_tokens": 9 } } }), Some("y")),
            (json!({ "modelUsage": { "x": { "inputTokens": "junk" }, "w": null } }), Some("w")),
            (json!({ "modelUsage": ["x"] }), None),
            (json!({}), None),
        ] {
            assert_eq!(parse_plain(&value.to_string()).model.as_deref(), wanted, "{value}");
        }
    }

    #[test]
    fn usage_counts_only_as_an_object() {
        for value in [json!([1]), json!("3"), json!(null)] {
            assert_eq!(parse_plain(&json!({ "usage": value }).to_string()).usage, None);
        }
        assert_eq!(parse_plain("{\"usage_signature\":\"s\"}").usage_signature.as_deref(), Some("s"));
    }

    #[test]
    fn a_result_body_comes_from_the_object_also_beside_usage() {
        assert_eq!(body(r#"{"result":"r","usage":{"inputTokens":1}}"#).as_deref(), Some("r"));
        assert_eq!(body(r#"{"result":" ","resultMarkdown":"m"}"#).as_deref(), Some("m"));
        assert_eq!(body(r#"{"result":{"a":1}}"#), None);
        assert_eq!(body("log\n{\"result\":\"r\",\"usage\":{}}").as_deref(), Some("r"));
    }

    #[test]
    fn plain_text_is_a_result_body_and_other_json_is_not() {
        assert_eq!(body("\u{feff} # Done\nsee src/a.rs:1 \n").as_deref(), Some("# Done\nsee src/a.rs:1"));
        for text in ["", "  \n", "[1]", "null", "3", "\"text\"", "{}"] {
            assert_eq!(body(text), None, "{text}");
        }
    }

    #[test]
    fn logs_before_a_usage_report_are_no_result() {
        assert_eq!(body("starting\n{\"usage\":{\"inputTokens\":1}}"), None);
        assert!(body("```cw:result\n{}\n```\n{\"usage\":{\"inputTokens\":1}}").is_some());
    }

    #[test]
    fn deep_nesting_is_plain_text() {
        let deep = "[".repeat(100_000);
        assert_eq!(body(&deep), Some(deep));
    }

    proptest! {
        #[test]
        fn any_output_is_read(text in r#"[\s{}"a-z:,\[\]\\u0-9]{0,200}"#) {
            let report = parse_plain(&text);
            prop_assert!(report.result_body.is_none_or(|body| !body.trim().is_empty()));
            prop_assert!(report.model.is_none_or(|model| !model.trim().is_empty()));
        }
    }
}
