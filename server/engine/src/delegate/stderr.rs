//! What an agent prints on standard error: redacted, logged, read for activity, and its end kept for errors.
//!
//! Must not: make a delegation fail, however much there is.

use std::path::PathBuf;
use std::sync::Arc;

use super::activity::{self, Newest};
use super::lines::{Lines, OnLonger};
use super::log_file::LogFile;
use super::redact::{Redactor, StreamRedactor};

/// Characters of the end that are kept.
const TAIL: usize = 2_000;

/// Bytes of which the end is cut: enough for the tail in any encoding, with room for redaction to take from.
const KEPT: usize = 16 * 1024;

/// Longest part of a line that is looked at for activity, in bytes.
const ACTIVITY_CAP: usize = 16 * 1024;

/// The error output of one agent.
#[derive(Debug)]
pub(super) struct Stderr {
    log: LogFile,
    redactor: Arc<Redactor>,
    stream: StreamRedactor,
    lines: Lines,
    kept: Vec<u8>,
}

impl Stderr {
    /// `cap`: bytes after which the log ends.
    #[must_use]
    pub(super) fn new(log: PathBuf, redactor: &Arc<Redactor>, cap: u64) -> Self {
        Self {
            log: LogFile::new(log, cap),
            stream: redactor.stream(),
            redactor: Arc::clone(redactor),
            lines: Lines::new(ACTIVITY_CAP, OnLonger::Cut),
            kept: Vec::new(),
        }
    }

    /// The next bytes; gives the newest line of activity.
    pub(super) async fn push(&mut self, chunk: &[u8]) -> Option<String> {
        let clean = self.stream.push(chunk);
        self.log.write(&clean).await;
        let mut newest = Newest::default();
        // Lines that are too long are cut, which is no fault.
        let _ = self.lines.push(&clean, |line| newest.offer(line));
        keep(&mut self.kept, &clean);
        newest.take(&self.redactor)
    }

    /// The end: the last of it, redacted, at most 2,000 characters.
    pub(super) async fn finish(mut self) -> String {
        let rest = self.stream.finish();
        self.log.write(&rest).await;
        self.log.flush().await;
        keep(&mut self.kept, &rest);
        let text = String::from_utf8_lossy(&self.kept);
        let text = self.redactor.redact_text(text.trim_end());
        let from = text.char_indices().rev().nth(TAIL - 1).map_or(0, |(at, _)| at);
        text[from..].to_owned()
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
    if kept.len() > KEPT * 2 {
        kept.drain(..kept.len() - KEPT);
    }
}

/// The last line that says something, for a reason.
#[must_use]
pub(super) fn last_line(tail: &str) -> Option<String> {
    let line = tail.lines().rev().map(activity::strip_controls).find(|line| !line.trim().is_empty())?;
    let line = line.trim();
    Some(if line.chars().count() > 300 { line.chars().take(299).chain(['…']).collect() } else { line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_tail_is_the_end_redacted_and_whole_characters() {
        let dir = tempfile::tempdir().unwrap();
        let redactor = Arc::new(Redactor::new(&[("X_TOKEN".to_owned(), "canary-made-up".to_owned())].into()));
        let mut stderr = Stderr::new(dir.path().join("stderr.log"), &redactor, 1 << 20);
        for _ in 0..3_000 {
            stderr.push("日本語 line\n".as_bytes()).await;
        }
        assert_eq!(stderr.push(b"\x1b[31mfatal: canary-").await, None);
        assert_eq!(stderr.push(b"made-up\x1b[0m\n\n").await.as_deref(), Some("fatal: <redacted>"));
        let tail = stderr.finish().await;
        assert_eq!(tail.chars().count(), TAIL);
        assert!(!tail.contains("canary"));
        assert_eq!(last_line(&tail).as_deref(), Some("fatal: <redacted>"));
        assert!(!std::fs::read_to_string(dir.path().join("stderr.log")).unwrap().contains("canary"));
    }

    #[test]
    fn no_line_is_no_line() {
        assert_eq!(last_line(" \n \n"), None);
        assert_eq!(last_line("a\nb\n\n").as_deref(), Some("b"));
    }
}
