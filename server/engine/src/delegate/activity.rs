//! What an agent is doing, a line at a time, at most a few times a second: the newest line wins.
//!
//! Must not: touch lifecycle notices, which are never dropped.

use std::time::Duration;

use tokio::time::Instant;

use super::redact::Redactor;

/// Shortest time between two lines of activity of one delegation.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);

/// Longest line of activity, in characters.
pub(super) const LONGEST: usize = 500;

/// Thins out activity.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    last: Option<Instant>,
    waiting: Option<String>,
}

impl Throttle {
    /// A new line. Some when it may be told now.
    pub(super) fn offer(&mut self, line: String, now: Instant) -> Option<String> {
        self.waiting = Some(line);
        self.due(now)
    }

    /// The newest line, if there is one and it may be told now.
    pub(super) fn due(&mut self, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now < last + INTERVAL) {
            return None;
        }
        let line = self.waiting.take()?;
        self.last = Some(now);
        Some(line)
    }

    /// When [`Self::due`] is worth asking; none while nothing waits.
    #[must_use]
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.as_ref().and(self.last).map(|last| last + INTERVAL)
    }
}

/// The newest line of a chunk that may be shown: found cheaply among many, made fit to show once.
#[derive(Debug, Default)]
pub(super) struct Newest(String);

impl Newest {
    /// A line of plain output. Empty ones and JSON, which is for programs, are passed over.
    pub(super) fn offer(&mut self, line: &str) {
        let line = line.trim();
        let is_json = line.starts_with(['{', '[']) && line.ends_with(['}', ']']);
        if !line.is_empty() && !is_json {
            self.0.clear();
            self.0.push_str(line);
        }
    }

    /// Any text.
    pub(super) fn set(&mut self, text: String) {
        self.0 = text;
    }

    /// It, as activity.
    pub(super) fn take(self, redactor: &Redactor) -> Option<String> {
        clean(&self.0, redactor)
    }
}

/// Any text as activity.
#[must_use]
fn clean(text: &str, redactor: &Redactor) -> Option<String> {
    // Far more than can be shown is not worth redacting; a value cut at this edge lies beyond what is shown.
    let head: String = strip_controls(text.trim()).chars().take(LONGEST * 40).collect();
    let text = redactor.redact_text(head.trim());
    let mut line: String = text.chars().take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        line.pop();
        line.push('…');
    }
    (!line.is_empty()).then_some(line)
}

/// Text without terminal escapes; other control characters become spaces.
#[must_use]
pub(super) fn strip_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            match chars.next() {
                // A control sequence ends with a letter or one of a few signs.
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                // An operating system command ends with BEL or ESC \.
                Some(']') => while chars.next().is_some_and(|c| c != '\u{7}' && c != '\u{1b}') {},
                _ => {}
            }
        } else if c.is_control() {
            out.push(' ');
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_line_wins() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.next(), None);
        assert_eq!(throttle.offer("1".into(), start), Some("1".into()));
        assert_eq!(throttle.offer("2".into(), start), None);
        assert_eq!(throttle.offer("3".into(), start + INTERVAL / 2), None);
        assert_eq!(throttle.next(), Some(start + INTERVAL));
        assert_eq!(throttle.due(start + INTERVAL), Some("3".into()));
        assert_eq!(throttle.next(), None);
        assert_eq!(throttle.due(start + INTERVAL * 5), None);
    }

    #[test]
    fn lines_are_made_fit_to_show() {
        let redactor = Redactor::default();
        let line = |text: &str| {
            let mut newest = Newest::default();
            newest.offer(text);
            newest.take(&redactor)
        };
        assert_eq!(line("  reading src/main.rs\r"), Some("reading src/main.rs".into()));
        assert_eq!(line("\u{1b}[32mok\u{1b}[0m\tdone"), Some("ok done".into()));
        assert_eq!(line("\u{1b}]0;title\u{7}x"), Some("x".into()));
        assert_eq!(line("{\"a\":1}"), None);
        assert_eq!(line("   "), None);
        assert_eq!(line("key sk-made-up-for-tests-1"), Some("key <redacted>".into()));
        let long = line(&"é".repeat(2_000)).unwrap();
        assert_eq!(long.chars().count(), LONGEST);
        assert!(long.ends_with('…'));
    }
}
