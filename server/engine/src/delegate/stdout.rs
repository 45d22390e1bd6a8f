//! What an agent prints on standard output: hashed and counted as it comes, redacted, logged, and read for activity and for
//! what the agent says of itself. Memory stays bounded however much it prints.
//!
//! Must not: know processes.

use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::activity::Newest;
use super::lines::{Lines, OnLonger, TooLong};
use super::log_file::LogFile;
use super::presets::{Parsed, Parser};
use super::redact::{Redactor, StreamRedactor};
use super::report;
use crate::model::outcome::AgentReport;

/// Output kept in memory to be read as a report; beyond it the report is read back from the log.
const KEPT: usize = 1024 * 1024;

/// Longest line of a preset's stream of events, in bytes.
pub(super) const EVENT_CAP: usize = 8 * 1024 * 1024;

/// Longest part of a line that is looked at for activity, in bytes.
const ACTIVITY_CAP: usize = 16 * 1024;

/// Only one large report is held in memory at a time, over all delegations.
static LARGE_REPORTS: Semaphore = Semaphore::const_new(1);

/// Why output makes a delegation fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// More than the cap.
    TooLarge,
    /// A line of events longer than [`EVENT_CAP`].
    LineTooLong,
}

/// How the output is read.
#[derive(Debug)]
enum Reader {
    Plain(Plain),
    Events(Parser),
}

/// The output of one agent.
#[derive(Debug)]
pub(super) struct Stdout {
    digest: Sha256,
    total: u64,
    cap: u64,
    log: LogFile,
    redactor: Arc<Redactor>,
    stream: StreamRedactor,
    lines: Lines,
    reader: Reader,
    fault: Option<Fault>,
}

/// What a chunk held.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The newest line of activity.
    pub(super) activity: Option<String>,
    /// The agent's session, told once.
    pub(super) session: Option<String>,
    /// Set when the delegation has failed by this.
    pub(super) fault: Option<Fault>,
}

/// What it all came to.
#[derive(Debug)]
pub(super) struct Printed {
    /// `sha256:` and 64 hex digits over every byte printed; none when there was none.
    pub(super) digest: Option<String>,
    /// How many bytes it was.
    pub(super) total: u64,
    /// What the agent said about itself.
    pub(super) report: AgentReport,
    /// The final message of a preset.
    pub(super) result: Option<String>,
    /// The error a preset's stream of events ended with.
    pub(super) error: Option<String>,
}

impl Stdout {
    /// `parser`: for a preset's stream of events. `cap`: bytes after which the delegation has failed.
    #[must_use]
    pub(super) fn new(log: PathBuf, redactor: &Arc<Redactor>, parser: Option<Parser>, cap: u64) -> Self {
        let lines = match parser {
            Some(_) => Lines::new(EVENT_CAP, OnLonger::Fail),
            None => Lines::new(ACTIVITY_CAP, OnLonger::Cut),
        };
        Self {
            digest: Sha256::new(),
            total: 0,
            cap,
            log: LogFile::new(log, cap),
            stream: redactor.stream(),
            redactor: Arc::clone(redactor),
            lines,
            reader: parser.map_or_else(|| Reader::Plain(Plain::default()), Reader::Events),
            fault: None,
        }
    }

    /// The next bytes. After a fault they are only counted.
    pub(super) async fn push(&mut self, chunk: &[u8]) -> News {
        self.digest.update(chunk);
        self.total += chunk.len() as u64;
        if self.fault.is_some() {
            return News::default();
        }
        if self.total > self.cap {
            self.fault = Some(Fault::TooLarge);
            return News { fault: self.fault, ..News::default() };
        }
        let clean = self.stream.push(chunk);
        self.log.write(&clean).await;
        let news = read(&mut self.reader, &mut self.lines, &self.redactor, &clean);
        self.fault = news.fault;
        news
    }

    /// The end of the output.
    pub(super) async fn finish(mut self) -> Printed {
        if self.fault.is_none() {
            let rest = self.stream.finish();
            self.log.write(&rest).await;
            let news = read(&mut self.reader, &mut self.lines, &self.redactor, &rest);
            self.fault = news.fault;
        }
        self.log.flush().await;
        let parsed = match self.reader {
            Reader::Events(mut parser) => {
                if self.fault.is_none() {
                    self.lines.finish(|line| {
                        let _ = parser.line(line);
                    });
                }
                parser.finish()
            }
            Reader::Plain(plain) => {
                let report =
                    if self.fault.is_none() { plain.report(&mut self.log).await } else { AgentReport::default() };
                Parsed { report, result: None, error: None }
            }
        };
        let digest = (self.total > 0).then(|| hex_digest(self.digest));
        Printed { digest, total: self.total, report: parsed.report, result: parsed.result, error: parsed.error }
    }
}

fn read(reader: &mut Reader, lines: &mut Lines, redactor: &Redactor, bytes: &[u8]) -> News {
    let mut newest = Newest::default();
    let mut session = None;
    let read = match reader {
        Reader::Plain(plain) => {
            plain.push(bytes);
            lines.push(bytes, |line| newest.offer(line))
        }
        Reader::Events(parser) => lines.push(bytes, |line| {
            let told = parser.line(line);
            if let Some(activity) = told.activity {
                newest.set(activity);
            }
            session = told.session.or(session.take());
        }),
    };
    News { activity: newest.take(redactor), session, fault: read.err().map(|TooLong| Fault::LineTooLong) }
}

/// `sha256:` and 64 hex digits.
#[must_use]
pub(super) fn hex_digest(digest: Sha256) -> String {
    use std::fmt::Write as _;
    digest.finalize().iter().fold(String::from("sha256:"), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What is needed of plain output to read its report: all of it while it is small; else where in the log the whole
/// object, or the last line that looks like one, is.
#[derive(Debug, Default)]
struct Plain {
    kept: Vec<u8>,
    at: u64,
    whole: Ends,
    line: Ends,
    last_object: Option<(u64, u64)>,
}

/// The first and last bytes that are no white space, and where.
#[derive(Debug, Default, Clone, Copy)]
struct Ends {
    first: Option<(u8, u64)>,
    last: Option<(u8, u64)>,
}

impl Ends {
    fn see(&mut self, byte: u8, at: u64) {
        self.first.get_or_insert((byte, at));
        self.last = Some((byte, at));
    }

    /// The range of what looks like a JSON object.
    fn object(self) -> Option<(u64, u64)> {
        match (self.first, self.last) {
            (Some((b'{', from)), Some((b'}', to))) => Some((from, to + 1 - from)),
            _ => None,
        }
    }
}

fn is_ink(byte: &u8) -> bool {
    !byte.is_ascii_whitespace()
}

impl Plain {
    fn push(&mut self, bytes: &[u8]) {
        if self.at <= KEPT as u64 {
            self.kept.extend_from_slice(bytes);
            if self.kept.len() > KEPT {
                self.kept = Vec::new();
            }
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            for (at, byte) in [line.iter().position(is_ink), line.iter().rposition(is_ink)]
                .into_iter()
                .flatten()
                .map(|at| (self.at + at as u64, line[at]))
            {
                self.whole.see(byte, at);
                self.line.see(byte, at);
            }
            self.at += line.len() as u64;
            if line.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        self.last_object = self.line.object().or(self.last_object);
        self.line = Ends::default();
    }

    async fn report(mut self, log: &mut LogFile) -> AgentReport {
        if self.at <= KEPT as u64 {
            return report::of_plain(&String::from_utf8_lossy(&self.kept));
        }
        self.end_line();
        let Ok(_turn) = LARGE_REPORTS.acquire().await else { return AgentReport::default() };
        for range in [self.whole.object(), self.last_object].into_iter().flatten() {
            if let Some(part) = log.read(range.0, range.1).await {
                let report = report::of_plain(&String::from_utf8_lossy(&part));
                if report != AgentReport::default() {
                    return report;
                }
            }
        }
        AgentReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn printed(chunks: &[&[u8]], cap: u64) -> (Printed, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let redactor = Arc::new(Redactor::new(&[("X_TOKEN".to_owned(), "canary-made-up".to_owned())].into()));
        let mut stdout = Stdout::new(dir.path().join("stdout.log"), &redactor, None, cap);
        for chunk in chunks {
            stdout.push(chunk).await;
        }
        (stdout.finish().await, dir)
    }

    #[tokio::test]
    async fn the_digest_is_of_every_byte_and_the_log_has_no_secret() {
        let (out, dir) = printed(&[b"a canary-", b"made-up b\n"], 1000).await;
        let expected = hex_digest(Sha256::new_with_prefix(b"a canary-made-up b\n"));
        assert_eq!(out.digest, Some(expected));
        assert_eq!(std::fs::read_to_string(dir.path().join("stdout.log")).unwrap(), "a <redacted> b\n");
    }

    #[tokio::test]
    async fn nothing_printed_is_no_digest_and_no_log() {
        let (out, dir) = printed(&[], 1000).await;
        assert_eq!(out.digest, None);
        assert!(!dir.path().join("stdout.log").exists());
    }

    #[tokio::test]
    async fn more_than_the_cap_is_a_fault_and_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut stdout = Stdout::new(dir.path().join("stdout.log"), &Arc::new(Redactor::default()), None, 4);
        assert_eq!(stdout.push(b"1234").await.fault, None);
        assert_eq!(stdout.push(b"5").await.fault, Some(Fault::TooLarge));
        assert_eq!(stdout.push(b"6").await.fault, None, "told once");
        let out = stdout.finish().await;
        assert_eq!(out.total, 6);
        assert_eq!(std::fs::read(dir.path().join("stdout.log")).unwrap(), b"1234");
    }

    #[tokio::test]
    async fn a_large_whole_object_is_read_back_from_the_log() {
        let filler = "x".repeat(KEPT * 2);
        let text = format!("{{\n\"model\": \"m-9\", \"result\": \"{filler}\",\n\"usage\": {{\"input_tokens\": 3}}}}\n");
        let (out, _dir) = printed(&text.as_bytes().chunks(70_000).collect::<Vec<_>>(), 32 << 20).await;
        assert_eq!(out.report.model.as_deref(), Some("m-9"));
        assert_eq!(out.report.usage.unwrap().input_tokens, Some(3));
    }

    #[tokio::test]
    async fn a_last_object_after_much_noise_is_found() {
        let noise = "noise { and }\n".repeat(200_000);
        let text = format!("{{\"model\":\"first\"}}\n{noise}{{\"model\":\"last\"}}\n  \ntail");
        let (out, _dir) = printed(&text.as_bytes().chunks(65_536).collect::<Vec<_>>(), 32 << 20).await;
        assert_eq!(out.report.model.as_deref(), Some("last"));
    }
}
