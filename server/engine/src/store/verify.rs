//! Checking a whole journal, line by line, and going on after a problem: what `verifyRun` shows.

use std::io::{BufRead, BufReader};

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::run::VerifyProblem;
use flowdrive_protocol::time::Timestamp;
use serde_json::Value;

use super::line::{self, Unreadable};
use super::paths::RunPaths;
use super::read::Recorded;
use super::{StoreError, atomic, canonical, read};

/// Problems listed at most; a journal of another format would have one for every line.
pub const MAX_PROBLEMS: usize = 1000;

/// The code of a line that only a newer Flowdrive can read.
pub const WRONG_VERSION: &str = "wrong-version";

/// What a check of a whole journal found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// Whole lines looked at.
    pub events: u64,
    /// The hash the last readable line carries; with none, the one that stands for the run's id.
    pub head: String,
    /// What does not add up, in the order of the lines; at most [`MAX_PROBLEMS`].
    pub problems: Vec<VerifyProblem>,
}

/// Checks every line of a run's journal: form, hash, chain, numbers. Takes no lock and changes nothing. On a run that
/// is being driven, a line still being written shows as `torn-tail`.
///
/// # Errors
/// When the journal cannot be read at all. What it holds is reported in the [`Verification`].
pub fn verify<E: Recorded>(paths: &RunPaths, run_id: &RunId) -> Result<Verification, StoreError> {
    let path = &paths.journal;
    let file = atomic::open_options().read(true).open(path).map_err(read::open_fault(paths, run_id))?;
    read::require_regular(&file, path)?;
    let mut source = BufReader::with_capacity(256 * 1024, file);
    let mut walk = Walk {
        path: path.display().to_string(),
        newest: E::VERSION,
        line: 0,
        seq: Some(0),
        head: Some(line::genesis(run_id.as_str())),
        last: line::genesis(run_id.as_str()),
        problems: Vec::new(),
    };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = source.read_until(b'\n', &mut bytes).map_err(StoreError::io("read", path))?;
        match bytes.strip_suffix(b"\n") {
            Some(whole) => walk.step(whole),
            None => {
                if read > 0 {
                    walk.line += 1;
                    walk.report("torn-tail", format!("the last {read} bytes are no whole line: a write was cut short"));
                    walk.line -= 1;
                }
                return Ok(Verification { events: walk.line, head: walk.last, problems: walk.problems });
            }
        }
    }
}

struct Walk {
    path: String,
    /// The newest version known.
    newest: u32,
    /// Lines seen.
    line: u64,
    /// The number and hash of the line before; none when it was unreadable, so that one problem is reported once.
    seq: Option<u64>,
    head: Option<String>,
    last: String,
    problems: Vec<VerifyProblem>,
}

impl Walk {
    fn step(&mut self, bytes: &[u8]) {
        self.line += 1;
        let parts = match line::split(bytes, self.newest) {
            Ok(parts) => parts,
            Err(Unreadable::Malformed) => {
                return self.unreadable("unparseable-line", "this line is not a journal entry");
            }
            Err(Unreadable::Version(version)) => {
                let newer = self.newer(version);
                return self.unreadable(WRONG_VERSION, &newer);
            }
        };
        let actual = parts.actual_hash();
        if actual != parts.hash {
            self.report("hash-mismatch", format!("the line hashes to {actual} and says {}", parts.hash));
        } else if parts.version > self.newest {
            self.report(WRONG_VERSION, self.newer(parts.version.into()));
        } else if let Some(problem) = form_problem(bytes, parts.at) {
            self.report("not-canonical", problem);
        }
        if let Some(before) = self.seq.filter(|before| before + 1 != parts.seq) {
            self.report("seq-gap", format!("event {} follows event {before}", parts.seq));
        }
        if let Some(before) = self.head.take().filter(|before| before != parts.prev) {
            self.report("chain-broken", format!("it follows on {}, but the line before it is {before}", parts.prev));
        }
        self.seq = Some(parts.seq);
        self.head = Some(parts.hash.to_owned());
        self.last = parts.hash.to_owned();
    }

    fn newer(&self, version: u64) -> String {
        format!("this line has format version {version}; this Flowdrive knows versions up to {}", self.newest)
    }

    fn unreadable(&mut self, code: &str, message: &str) {
        self.report(code, message);
        self.seq = None;
        self.head = None;
    }

    fn report(&mut self, code: &str, message: impl std::fmt::Display) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(VerifyProblem {
                code: code.to_owned(),
                message: format!("line {}: {message}", self.line),
                path: self.path.clone(),
                line: Some(self.line),
            });
        }
    }
}

/// A line whose hash holds can still be one that no Flowdrive wrote.
fn form_problem(bytes: &[u8], at: &str) -> Option<String> {
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(fault) => return Some(format!("it is not JSON: {fault}")),
    };
    match canonical::to_string(&value) {
        Ok(text) if text.as_bytes() == bytes => {}
        _ => return Some("it is not in canonical form".into()),
    }
    match at.parse::<Timestamp>() {
        Ok(time) if time.to_string() == at => None,
        _ => Some(format!("{at:?} is not a time in the form used here")),
    }
}
