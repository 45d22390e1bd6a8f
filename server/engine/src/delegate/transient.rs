//! Faults that may pass by themselves, as providers and gateways tell of them: status codes, `Retry-After`, and hints in
//! text and JSON.
//!
//! Must not: decide whether or when to try again.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use regex::Regex;
use serde_json::Value;

use crate::model::outcome::Transient;

/// Statuses that say "later".
#[must_use]
pub(super) const fn is_transient_status(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504 | 529)
}

/// A `Retry-After` header: seconds, or a date.
#[must_use]
pub(super) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(header).ok()?;
    // A date that has passed means now.
    Some(at.duration_since(now).unwrap_or_default())
}

/// A hint anywhere in a JSON body: `retryDelay: "34s"` as Google has it, `retry_after: 20`, `retryAfterMs: 1500`.
#[must_use]
pub(super) fn json_hint(value: &Value) -> Option<Duration> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let plain: String =
                name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
            match plain.as_str() {
                "retrydelay" | "retryafter" | "retryafterseconds" => seconds(value),
                "retryafterms" | "retrydelayms" => value.as_u64().map(Duration::from_millis),
                _ => json_hint(value),
            }
        }),
        Value::Array(items) => items.iter().find_map(json_hint),
        _ => None,
    }
}

fn seconds(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().trim_end_matches('s').parse().ok()?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether the error an agent reports is its provider being overloaded or out of reach for now.
///
/// Only for errors a known program reports as such: in any program's output these words may be about something else.
#[must_use]
pub(super) fn of_message(message: &str) -> Option<Transient> {
    #[expect(clippy::expect_used, reason = "constant patterns, compiled by the tests")]
    static SAYS_SO: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)\b(?:429|502|503|504|529)\b.{0,80}\b(?:error|overloaded|unavailable|too many|gateway|limit|exhausted)",
            r"|\b(?:error|status|code)\b.{0,20}\b(?:429|502|503|504|529)\b",
            r"|rate.?limit|too many requests|RESOURCE_EXHAUSTED|overloaded|temporarily unavailable",
            r"|ECONNRESET|ECONNREFUSED|ETIMEDOUT|connection (?:was )?reset",
        ))
        .expect("a constant pattern")
    });
    #[expect(clippy::expect_used, reason = "constant patterns, compiled by the tests")]
    static WAIT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?i)(?:retry.?delay"?\s*[:=]\s*"?|retry.?after"?\s*[:=]?\s*"?|(?:try|retry)(?: again)? (?:in|after) (?:about )?)(\d+(?:\.\d+)?)\s*(ms|s|m)?"#,
        )
        .expect("a constant pattern")
    });
    if !SAYS_SO.is_match(message) {
        return None;
    }
    let wait = WAIT.captures(message).and_then(|found| {
        let number: f64 = found[1].parse().ok()?;
        let unit = match found.get(2).map(|unit| unit.as_str()) {
            Some("ms") => 0.001,
            Some("m") => 60.0,
            _ => 1.0,
        };
        Duration::try_from_secs_f64(number * unit).ok()
    });
    Some(Transient { retry_after_ms: wait.map(millis), refused: false })
}

/// Whole milliseconds.
#[must_use]
pub(super) fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let table = [
            ("3", Some(3)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (header, expected) in table {
            assert_eq!(retry_after(header, now), expected.map(Duration::from_secs), "{header:?}");
        }
    }

    #[test]
    fn hints_are_found_in_bodies() {
        let table = [
            (json!({"error": {"details": [{"x": 1}, {"@type": "RetryInfo", "retryDelay": "34.5s"}]}}), Some(34_500)),
            (json!({"retry_after": 20}), Some(20_000)),
            (json!({"retryAfterMs": 1500}), Some(1_500)),
            (json!({"retry_after": -1}), None),
            (json!({"retry_after": null}), None),
            (json!("x"), None),
        ];
        for (body, expected) in table {
            assert_eq!(json_hint(&body), expected.map(Duration::from_millis), "{body}");
        }
    }

    #[test]
    fn provider_faults_are_told_from_others() {
        let wait = |message: &str| of_message(message).map(|transient| transient.retry_after_ms);
        assert_eq!(wait("API Error: 529 overloaded_error"), Some(None));
        assert_eq!(wait("You exceeded your rate limit. Please try again in 20s."), Some(Some(20_000)));
        assert_eq!(wait("status 429: RESOURCE_EXHAUSTED, \"retryDelay\": \"7s\""), Some(Some(7_000)));
        assert_eq!(wait("exceeded rate-limit, retry after 1500 ms"), Some(Some(1_500)));
        assert_eq!(wait("read ECONNRESET"), Some(None));
        assert_eq!(wait("error_max_turns"), None);
        assert_eq!(wait("line 503 of main.rs is wrong"), None);
        assert_eq!(wait("invalid api key"), None);
    }
}
