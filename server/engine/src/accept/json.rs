//! Reading JSON that a program wrote for a JavaScript reader: lone surrogate escapes, which `JSON.parse` takes and
//! `serde_json` refuses, are read as U+FFFD. Nothing else is made good.
//!
//! Must not: panic or take more than linear time on any input; `serde_json` bounds the nesting.

use std::borrow::Cow;

use serde_json::Value;

/// Parses one JSON text.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match mend_surrogates(text) {
        Cow::Owned(mended) => serde_json::from_str(&mended),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Parses the JSON value that `text` begins with, and says where it ends. None when there is none.
///
/// A text whose value needs mending is not looked at twice: offsets would no longer fit.
pub(super) fn parse_prefix(text: &str) -> Option<(Value, usize)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = stream.next()?.ok()?;
    Some((value, stream.byte_offset()))
}

/// Trims white space and byte order marks, as JavaScript's `trim` does.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Replaces every lone surrogate escape by `\ufffd`. Borrowed when there is none.
fn mend_surrogates(text: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        if byte != b'\\' {
            at += 1;
            continue;
        }
        match unit(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(&text[copied..at]);
                mended.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // Skips the escaped character too, so that `\\u` is not taken for an escape. An escaped character of
            // several bytes is no JSON; its later bytes are never a backslash.
            _ => at += 2,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    mended.push_str(&text[copied..]);
    Cow::Owned(mended)
}

/// The UTF-16 unit that the escape at `at` stands for, if there is one.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at.checked_add(6)?)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0_u16, |value, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_kept() {
        for (text, wanted) in [
            (r#""\ud83d\ude00""#, "😀"),
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00b""#, "\u{fffd}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\uD800\n""#, "\u{fffd}\n"),
        ] {
            assert_eq!(parse(text).unwrap(), json!(wanted), "{text}");
        }
    }

    #[test]
    fn a_prefix_is_found_with_its_end() {
        assert_eq!(parse_prefix("{\"a\":\"```\"}\n```").map(|(_, end)| end), Some(11));
        assert_eq!(parse_prefix("nothing"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in r#"[\\"ud8Dc0-9a-f{}:\[\]é ]{0,60}"#) {
            let _ = parse(&text);
            let _ = parse_prefix(&text);
        }

        #[test]
        fn what_serde_reads_is_read_the_same(text in ".*") {
            let quoted = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(parse(&quoted).unwrap(), json!(text));
        }
    }
}
