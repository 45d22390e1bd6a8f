//! Values as people read them. Pure.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use flowdrive_protocol::outcome::Severity;
use flowdrive_protocol::run::{CheckStatus, RunStatus, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use serde::Serialize;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

/// How a piece of text is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Bold,
    Good,
    Warn,
    Bad,
}

impl Paint {
    pub(crate) fn tone(self, text: &str, tone: Tone) -> Cow<'_, str> {
        let code = match tone {
            Tone::Plain => return Cow::Borrowed(text),
            Tone::Dim => 2,
            Tone::Bold => 1,
            Tone::Good => 32,
            Tone::Warn => 33,
            Tone::Bad => 31,
        };
        if self.0 { Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m")) } else { Cow::Borrowed(text) }
    }
}

pub(crate) const fn run_tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Complete => Tone::Good,
        RunStatus::Parked => Tone::Warn,
        RunStatus::Blocked => Tone::Bad,
        RunStatus::InProgress => Tone::Plain,
    }
}

pub(crate) const fn task_tone(status: TaskStatus) -> Tone {
    match status {
        TaskStatus::Completed => Tone::Good,
        TaskStatus::Failed => Tone::Bad,
        TaskStatus::Running => Tone::Bold,
        TaskStatus::Pending => Tone::Dim,
    }
}

pub(crate) const fn check_tone(status: CheckStatus) -> Tone {
    match status {
        CheckStatus::Ok => Tone::Good,
        CheckStatus::Warn => Tone::Warn,
        CheckStatus::Fail => Tone::Bad,
    }
}

/// A value of a wire enum as it is written on the wire.
pub(crate) fn wire(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(value) => value.to_string(),
        Err(_) => String::new(),
    }
}

/// `0.4 s`, `12.3 s`, `3 min 05 s`, `2 h 07 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let tenths = (duration.as_millis() + 50) / 100;
    let seconds = tenths / 10;
    if seconds < 60 {
        format!("{seconds}.{} s", tenths % 10)
    } else if seconds < 3600 {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60)
    }
}

/// How long ago something was, roughly.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_millis() - then.as_millis()).max(0) / 1000;
    match seconds {
        0..=9 => "just now".to_owned(),
        10..=59 => format!("{seconds} s ago"),
        60..=3599 => format!("{} min ago", seconds / 60),
        3600..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// `1 task`, `4 tasks`.
pub(crate) fn count(number: impl Into<u64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// `P0 1, P2 3, not rated 1`, worst first; nothing for nothing.
pub(crate) fn severities(findings: impl IntoIterator<Item = Severity>) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for severity in findings {
        *counts.entry(severity).or_insert(0_u32) += 1;
    }
    let parts = counts.iter().map(|(severity, count)| match severity {
        Severity::None => format!("not rated {count}"),
        rated => format!("{} {count}", wire(rated)),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Text from an agent or a file, safe for a terminal: on one line, without escape sequences and control characters.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            // An escape sequence: `ESC [` up to a letter, `ESC ]` up to BEL or `ESC`, or `ESC` and one character.
            '\u{1b}' => match characters.next() {
                Some('[') => while characters.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                Some(']') => while characters.next_if(|c| *c != '\u{7}' && *c != '\u{1b}').is_some() {},
                _ => {}
            },
            '\n' | '\t' => cleaned.push(' '),
            // Among them those that turn the direction of writing, which can make a line read as another.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            control if control.is_control() => {}
            other => cleaned.push(other),
        }
    }
    cleaned.trim().to_owned()
}

/// The text, cleaned and cut to a number of characters.
pub(crate) fn clip(text: &str, characters: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= characters {
        return text;
    }
    let mut cut: String = text.chars().take(characters.saturating_sub(1)).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('\u{2026}');
    cut
}

/// The path relative to the current folder when it is inside it.
pub(crate) fn shown_path(path: &str, current: &Path) -> String {
    match Path::new(path).strip_prefix(current) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside.display().to_string(),
        _ => path.to_owned(),
    }
}

/// A word as a shell takes it.
pub(crate) fn shell(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well_at_every_size() {
        for (millis, text) in [
            (0, "0.0 s"),
            (440, "0.4 s"),
            (12_349, "12.3 s"),
            (59_949, "59.9 s"),
            (59_950, "1 min 00 s"),
            (185_000, "3 min 05 s"),
            (3_599_999, "1 h 00 min"),
            (7_620_000, "2 h 07 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text, "{millis}");
        }
    }

    #[test]
    fn times_past_are_rough_and_never_in_the_future() {
        let now = Timestamp::from_millis(1_000_000_000);
        for (seconds, text) in [
            (-5, "just now"),
            (9, "just now"),
            (10, "10 s ago"),
            (119, "1 min ago"),
            (7200, "2 h ago"),
            (172_800, "2 days ago"),
        ] {
            assert_eq!(ago(Timestamp::from_millis(1_000_000_000 - seconds * 1000), now), text);
        }
    }

    #[test]
    fn counts_and_severities() {
        assert_eq!((count(1_u32, "task"), count(0_u32, "task")), ("1 task".to_owned(), "0 tasks".to_owned()));
        assert_eq!(severities([Severity::None, Severity::P2, Severity::P0, Severity::P2]), "P0 1, P2 2, not rated 1");
        assert_eq!(severities([]), "");
    }

    #[test]
    fn what_agents_write_cannot_steer_the_terminal() {
        for (text, cleaned) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m and\tmore\nlines\r", "red and more lines"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]0;title\u{1b}\\x", "x"),
            ("\u{1b}cx\u{8}\u{0}", "x"),
            ("a\u{202e}b", "ab"),
            ("\u{9b}31mx", "31mx"),
            ("cut\u{1b}[3", "cut"),
        ] {
            assert_eq!(clean(text), cleaned, "{text:?}");
        }
        assert_eq!(clip("a\u{e9}iou and more", 6), "a\u{e9}iou\u{2026}");
        assert_eq!(clip("exact", 5), "exact");
    }

    #[test]
    fn words_are_quoted_when_a_shell_needs_it() {
        assert_eq!(shell("quick-survey-2026_1"), "quick-survey-2026_1");
        assert_eq!(shell("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!(shell(""), "''");
        assert_eq!(shown_path("/a/b/c", Path::new("/a")), "b/c");
        assert_eq!(shown_path("/a/b/c", Path::new("/x")), "/a/b/c");
    }
}
