//! Removing runs, and kept results, that nobody needs any more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::run::{RunStatus, UnreadableRun};
use crate::time::Timestamp;

/// Parameters of `pruneRuns`. At least one of `keep`, `olderThanMs` and `cacheOlderThanMs` says what may go; where both
/// `keep` and `olderThanMs` are given, a run goes only when both allow it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneRunsParams {
    /// Absolute path of the folder the runs are about. The first workspace folder when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// So many of the newest runs stay, of those whose status may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// Only runs that last changed so long ago go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<u64>,
    /// Only runs that stand like this go. Complete ones when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statuses: Option<Vec<RunStatus>>,
    /// Results kept for later runs go when they were neither kept nor used for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_older_than_ms: Option<u64>,
    /// Say what would go, and remove nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to `pruneRuns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneRunsResult {
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// The runs that went, or would go, oldest first.
    pub removed: Vec<PrunedRun>,
    /// Runs that were to go and could not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<UnreadableRun>,
    /// Runs that stay.
    pub kept: u32,
    /// Kept results that went, or would go.
    pub cached_results: u32,
    /// Folders left by an earlier removal that was cut short, which went too.
    pub leftovers: u32,
    /// Bytes of all that went, or would go.
    pub bytes: u64,
}

/// A run that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedRun {
    /// The run.
    pub run_id: RunId,
    /// Its workflow's name for people.
    pub title: String,
    /// How it stood.
    pub status: RunStatus,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Runs of its sub-workflows, which went with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
    /// Bytes of its files and theirs.
    pub bytes: u64,
}
