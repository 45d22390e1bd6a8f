//! Names and places below a run's folder. Pure: nothing here touches the disk.

use std::path::{Path, PathBuf};

use flowdrive_protocol::ids::{RunId, TaskId, WorkerId};

use super::canonical::sha256_hex;
use super::place::Identity;
use crate::model::agent::WorkerFolder;

/// Longest name [`safe_name`] returns, in bytes. Leaves room for an extension below the 255 of most file systems.
pub const MAX_NAME_BYTES: usize = 200;

/// Longest name [`task_name`] returns, in bytes.
const TASK_NAME_BYTES: usize = 120;

/// Bytes of the digest suffix: `-` and 8 hex digits.
const SUFFIX: usize = 9;

/// The places of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPaths {
    /// The run's id.
    pub run_id: RunId,
    /// The folder.
    pub dir: PathBuf,
    /// The journal, which is the truth.
    pub journal: PathBuf,
    /// The snapshot.
    pub state: PathBuf,
    /// The report.
    pub report: PathBuf,
    /// The lock of the drive.
    pub lock: PathBuf,
    /// Where another process leaves a request to stop.
    pub stop_request: PathBuf,
    /// Where the ends of agents are noted until the journal has them.
    pub ended: PathBuf,
    /// One folder for each attempt.
    pub workers_dir: PathBuf,
    /// The accepted results.
    pub results_dir: PathBuf,
    /// Which folder `dir` was when its writer opened it; none for those who only read.
    pub(super) folder: Option<Identity>,
}

impl RunPaths {
    pub(super) fn below(runs: &Path, run_id: &RunId) -> Self {
        let dir = runs.join(run_id.as_str());
        Self {
            run_id: run_id.clone(),
            journal: dir.join("journal.jsonl"),
            state: dir.join("state.json"),
            report: dir.join("report.md"),
            lock: dir.join("drive.lock"),
            stop_request: dir.join("stop-request"),
            ended: dir.join("ended.log"),
            workers_dir: dir.join("workers"),
            results_dir: dir.join("results"),
            folder: None,
            dir,
        }
    }

    /// The folder of an attempt.
    #[must_use]
    pub fn worker(&self, worker: &WorkerId) -> WorkerFolder {
        WorkerFolder::at(self.workers_dir.join(safe_name(worker.as_str())))
    }

    /// Where a task's accepted result is kept.
    #[must_use]
    pub fn result(&self, task: &TaskId) -> PathBuf {
        self.results_dir.join(format!("{}.md", safe_name(task.as_str())))
    }
}

/// A file name for an id, one to one, on file systems that tell upper from lower case and on those that do not.
///
/// A plain id (lower-case letters, digits, `_`, `.` and `-`) is its own name. In any other, each character outside
/// `[A-Za-z0-9_.-]` becomes `_`, and `-` and the first 8 hex digits of the id's SHA-256 are appended. "Other" includes: an
/// upper-case letter (two ids may differ in nothing else), a dot at either end, a name Windows reserves, an id that ends
/// the way such a suffix does, the empty one, and one too long, which is cut.
#[must_use]
pub fn safe_name(id: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let plain = !id.is_empty()
        && id.len() <= MAX_NAME_BYTES
        && id.chars().all(|c| keep(c) && !c.is_ascii_uppercase())
        && !id.starts_with('.')
        && !id.ends_with('.')
        && !is_reserved(id)
        && !ends_like_a_suffix(id);
    if plain {
        return id.to_owned();
    }
    let base: String = id
        .chars()
        .enumerate()
        .map(|(index, c)| if keep(c) && !(index == 0 && c == '.') { c } else { '_' })
        .take(MAX_NAME_BYTES - SUFFIX)
        .collect();
    let digest = sha256_hex(id);
    format!("{base}-{}", &digest["sha256:".len()..][..SUFFIX - 1])
}

/// A name of at most `max` bytes: itself, or its start and a digest of the whole. For ids made of other ids, which may
/// each be as long as an id can be. `name` holds ASCII alone, as ids and safe names do.
#[must_use]
pub(crate) fn within(name: String, max: usize) -> String {
    if name.len() <= max {
        return name;
    }
    let digest = sha256_hex(&name);
    let base: String = name.chars().take(max.saturating_sub(SUFFIX)).collect();
    format!("{base}-{}", &digest["sha256:".len()..][..SUFFIX - 1])
}

/// A task's name as a part of the ids of its attempts and of their feedback. Leaves room for the rest of these.
#[must_use]
pub(crate) fn task_name(task: &TaskId) -> String {
    within(safe_name(task.as_str()), TASK_NAME_BYTES)
}

fn ends_like_a_suffix(id: &str) -> bool {
    let Some(at) = id.len().checked_sub(SUFFIX) else { return false };
    let bytes = &id.as_bytes()[at..];
    bytes[0] == b'-' && bytes[1..].iter().all(u8::is_ascii_hexdigit)
}

/// Windows opens a device in place of these, whatever extension follows.
fn is_reserved(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or(id);
    matches!(stem, "con" | "prn" | "aux" | "nul")
        || stem
            .strip_prefix("com")
            .or_else(|| stem.strip_prefix("lpt"))
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_digit()))
}
