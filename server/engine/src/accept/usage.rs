//! What an agent says it used, in any spelling, brought into ours.
//!
//! Must not: fill in what was not reported. Absent is not zero.

use flowdrive_protocol::outcome::Usage;
use serde_json::{Map, Value};

/// The largest count kept: what every JSON reader can hold exactly. Larger ones count as this, which is more than any
/// budget: an absurd count must not be a way past one.
const MAX_COUNT: f64 = 9_007_199_254_740_991.0;

/// Reads the token counts of a `usage` object.
///
/// Known are the spellings of the providers' interfaces and of this program, in camel and snake case. Numbers may be
/// written as strings. Fractions are rounded up and absurd counts are cut, so that a budget is never undercounted;
/// negative and unreadable ones are left out, and then the next spelling is tried.
#[must_use]
pub fn normalise(value: &Value) -> Usage {
    let Some(fields) = value.as_object() else {
        return Usage::default();
    };
    Usage {
        input_tokens: first(fields, &["inputTokens", "input_tokens", "promptTokens", "prompt_tokens"]),
        output_tokens: first(fields, &["outputTokens", "output_tokens", "completionTokens", "completion_tokens"]),
        cache_read_tokens: first(
            fields,
            &[
                "cacheReadTokens",
                "cache_read_tokens",
                "cacheReadInputTokens",
                "cache_read_input_tokens",
                "cachedInputTokens",
                "cached_input_tokens",
            ],
        ),
        cache_write_tokens: first(
            fields,
            &["cacheWriteTokens", "cache_write_tokens", "cacheCreationInputTokens", "cache_creation_input_tokens"],
        ),
        total_tokens: first(fields, &["totalTokens", "total_tokens"]),
    }
}

fn first(fields: &Map<String, Value>, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| count(fields.get(*name)?))
}

/// A count of tokens, from a number or from a number written as a string.
pub(crate) fn count(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        // Rust reads `inf` and `nan` as numbers; here they are words like any other.
        Value::String(text) if text.contains(|c: char| c.is_ascii_digit()) => text.trim().parse::<f64>().ok()?,
        _ => return None,
    };
    // Counts up to `MAX_COUNT` are exact as `f64`, and positive and whole after `ceil`: the cast loses nothing.
    (number >= 0.0).then(|| number.ceil().min(MAX_COUNT) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_spelling_is_known() {
        for (field, names) in [
            ("inputTokens", vec!["inputTokens", "input_tokens", "promptTokens", "prompt_tokens"]),
            ("outputTokens", vec!["outputTokens", "output_tokens", "completionTokens", "completion_tokens"]),
            (
                "cacheReadTokens",
                vec![
                    "cacheReadTokens",
                    "cache_read_tokens",
                    "cacheReadInputTokens",
                    "cache_read_input_tokens",
                    "cachedInputTokens",
                    "cached_input_tokens",
                ],
            ),
            (
                "cacheWriteTokens",
                vec![
                    "cacheWriteTokens",
                    "cache_write_tokens",
                    "cacheCreationInputTokens",
                    "cache_creation_input_tokens",
                ],
            ),
            ("totalTokens", vec!["totalTokens", "total_tokens"]),
        ] {
            for name in names {
                let usage = serde_json::to_value(normalise(&json!({ name: 7 }))).unwrap();
                assert_eq!(usage, json!({ field: 7 }), "{name}");
            }
        }
    }

    #[test]
    fn counts_are_read_from_numbers_and_numeric_strings_only() {
        for (value, wanted) in [
            (json!(0), Some(0)),
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!(12.2), Some(13)),
            (json!("12"), Some(12)),
            (json!(" 1e3 "), Some(1000)),
            (json!(9_007_199_254_740_991_u64), Some(9_007_199_254_740_991)),
            (json!(9_007_199_254_740_992_u64), Some(9_007_199_254_740_991)),
            (json!(u64::MAX), Some(9_007_199_254_740_991)),
            (json!(1e300), Some(9_007_199_254_740_991)),
            (json!("99999999999999999999999999"), Some(9_007_199_254_740_991)),
            (json!("1e999"), Some(9_007_199_254_740_991)),
            (json!(0.1), Some(1)),
            (json!(-0.0), Some(0)),
            (json!(-1e300), None),
            (json!(i64::MIN), None),
            (json!("-1e999"), None),
            (json!(-1), None),
            (json!("-1"), None),
            (json!(""), None),
            (json!("many"), None),
            (json!("NaN"), None),
            (json!("inf"), None),
            (json!("infinity"), None),
            (json!(true), None),
            (json!(null), None),
            (json!([12]), None),
            (json!({ "count": 12 }), None),
        ] {
            assert_eq!(normalise(&json!({ "input_tokens": value })).input_tokens, wanted, "{value}");
        }
    }

    #[test]
    fn an_unreadable_spelling_does_not_hide_a_readable_one() {
        assert_eq!(normalise(&json!({ "inputTokens": null, "prompt_tokens": 3 })).input_tokens, Some(3));
    }

    #[test]
    fn what_is_no_object_reports_nothing() {
        for value in [json!(null), json!([{ "inputTokens": 1 }]), json!("inputTokens"), json!(3), json!({})] {
            assert!(normalise(&value).is_empty(), "{value}");
        }
    }
}
