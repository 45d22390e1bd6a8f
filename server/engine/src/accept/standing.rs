//! Whether what a result cited is still there: files change after a result was accepted.
//!
//! Must not: read a file. The caller brings its lines.

use flowdrive_protocol::outcome::Evidence;

use super::files::{Lines, TEXT_CHARS};

/// How cited lines stand in a file as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Where they were cited; or nothing was recorded that could tell.
    AsCited,
    /// The same lines, and no others like them, begin elsewhere: at this line, from 1.
    Moved(u32),
    /// They are gone, or there more than once in other places.
    Stale,
}

/// Compares cited lines with a file as it is now; `None` when the file is gone.
#[must_use]
pub fn standing(evidence: &Evidence, now: Option<&Lines>) -> Standing {
    let (Some(first), Some(digest)) = (evidence.line, &evidence.digest) else { return Standing::AsCited };
    let Some(lines) = now else { return Standing::Stale };
    let more = evidence.end_line.unwrap_or(first).saturating_sub(first);
    let is_at = |first: u32| {
        let last = first.checked_add(more);
        last.and_then(|last| lines.cite((first, last))).is_some_and(|(found, _)| found == *digest)
    };
    if is_at(first) {
        return Standing::AsCited;
    }
    // A blank line is the same as any other one.
    let Some(text) = evidence.text.as_deref().filter(|text| !text.trim().is_empty()) else { return Standing::Stale };
    let starts_so = |index: &usize| {
        let line = lines.get(*index).unwrap_or_default();
        line.starts_with(text) && (line.len() == text.len() || text.chars().count() == TEXT_CHARS)
    };
    let elsewhere = (0..lines.count()).filter(starts_so).filter_map(|index| u32::try_from(index + 1).ok());
    // More than one is as good as none, so that two are enough to know.
    let found: Vec<u32> = elsewhere.filter(|first| is_at(*first)).take(2).collect();
    match found[..] {
        [first] => Standing::Moved(first),
        _ => Standing::Stale,
    }
}

#[cfg(test)]
mod tests {
    use flowdrive_protocol::outcome::EvidenceKind;

    use super::*;

    const BEFORE: &str = "a\nb\u{1f980} = 1;\nc\nd\n";

    fn cited(text: &str, first: u32, last: u32) -> Evidence {
        let (digest, text) = Lines::of(text.to_owned()).cite((first, last)).unwrap();
        Evidence {
            locator: String::new(),
            kind: EvidenceKind::File,
            path: Some("x".to_owned()),
            line: Some(first),
            end_line: (last > first).then_some(last),
            digest: Some(digest),
            text: Some(text),
        }
    }

    #[test]
    fn lines_stay_move_or_go() {
        for (now, lines, expected) in [
            (BEFORE, (2, 3), Standing::AsCited),
            ("a\r\nb\u{1f980} = 1;\r\nc\r\n", (2, 3), Standing::AsCited),
            ("a\nb\u{1f980} = 1;\nc\nother\n", (2, 3), Standing::AsCited),
            ("new\nnew\na\nb\u{1f980} = 1;\nc\nd\n", (2, 3), Standing::Moved(4)),
            ("b\u{1f980} = 1;\nc\n", (2, 3), Standing::Moved(1)),
            ("a\nb\u{1f980} = 2;\nc\nd\n", (2, 3), Standing::Stale),
            ("a\nb\u{1f980} = 1;\nx\nd\n", (2, 3), Standing::Stale),
            ("x\nb\u{1f980} = 1;\nx\nb\u{1f980} = 1;\nc\nb\u{1f980} = 1;\nc\n", (2, 3), Standing::Stale),
            ("", (2, 3), Standing::Stale),
        ] {
            let evidence = cited(BEFORE, lines.0, lines.1);
            assert_eq!(standing(&evidence, Some(&Lines::of(now.to_owned()))), expected, "{now:?}");
        }
        assert_eq!(standing(&cited(BEFORE, 1, 1), None), Standing::Stale, "the file is gone");
    }

    #[test]
    fn what_records_nothing_is_left_as_it_is() {
        let mut evidence = cited(BEFORE, 1, 1);
        evidence.digest = None;
        assert_eq!(standing(&evidence, None), Standing::AsCited);
    }

    #[test]
    fn a_blank_line_is_not_looked_for_elsewhere() {
        let evidence = cited("\nx\n", 1, 1);
        assert_eq!(standing(&evidence, Some(&Lines::of("x\n\n".to_owned()))), Standing::Stale);
    }

    #[test]
    fn a_long_line_is_found_by_its_start() {
        let long = "x".repeat(500);
        let evidence = cited(&long, 1, 1);
        assert_eq!(standing(&evidence, Some(&Lines::of(format!("a\n{long}\n")))), Standing::Moved(2));
        assert_eq!(standing(&evidence, Some(&Lines::of(format!("a\n{long}y\n")))), Standing::Stale);
    }
}
