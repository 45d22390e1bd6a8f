//! Results kept for later runs: `.cw/cache/worker-results/<workflow>/<task>-<32 hex digits>.{md,json}`.
//!
//! The `.json` holds the key and the result's digest; a result without it, or that does not match it, is not there.
//! Must not decide what may be reused: the key does.

use std::fs;
use std::path::{Path, PathBuf};

use flowdrive_protocol::ids::{TaskId, WorkflowId};
use serde::{Deserialize, Serialize};

use super::canonical::sha256_hex;
use super::{StoreError, atomic, safe_name};
use crate::decide::cache::CacheKey;

/// Longest result taken from the cache, in bytes.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    key: CacheKey,
    result_digest: String,
}

/// Where the results of one task are kept.
#[derive(Debug, Clone)]
pub struct TaskCache {
    workspace: PathBuf,
    /// Folders below the workspace, outermost first.
    levels: [String; 4],
    stem: String,
}

impl TaskCache {
    /// Those of a task of a workflow, in a workspace.
    #[must_use]
    pub fn of(workspace: &Path, workflow: &WorkflowId, task: &TaskId) -> Self {
        let levels = [".cw".to_owned(), "cache".to_owned(), "worker-results".to_owned(), safe_name(workflow.as_str())];
        Self { workspace: workspace.to_owned(), levels, stem: safe_name(task.as_str()) }
    }

    fn folder(&self) -> PathBuf {
        self.levels.iter().fold(self.workspace.clone(), |folder, level| folder.join(level))
    }

    fn file(&self, key: &CacheKey, ending: &str) -> PathBuf {
        let digest: String = key.digest.trim_start_matches("sha256:").chars().take(32).collect();
        self.folder().join(format!("{}-{digest}.{ending}", self.stem))
    }

    /// The result kept under a key. None when there is none, or it is not what was kept.
    #[must_use]
    pub fn find(&self, key: &CacheKey) -> Option<String> {
        let entry: Entry = serde_json::from_slice(&read_plain(&self.file(key, "json"))?).ok()?;
        let text = String::from_utf8(read_plain(&self.file(key, "md"))?).ok()?;
        (entry.key == *key && sha256_hex(&text) == entry.result_digest).then_some(text)
    }

    /// The key of the newest result kept of this task.
    #[must_use]
    pub fn newest(&self) -> Option<CacheKey> {
        let prefix = format!("{}-", self.stem);
        let entries = fs::read_dir(self.folder()).ok()?.flatten();
        let ours = entries.filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let rest = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".json"));
            rest.is_some_and(|digest| digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
        });
        let newest = ours.max_by_key(|entry| entry.metadata().and_then(|found| found.modified()).ok())?;
        let entry: Entry = serde_json::from_slice(&read_plain(&newest.path())?).ok()?;
        Some(entry.key)
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// What the disk refuses. A run does not depend on its results being kept.
    pub fn keep(&self, key: &CacheKey, text: &str) -> Result<(), StoreError> {
        // Level by level, so that a link planted in the place of one is refused.
        let mut folder = self.workspace.clone();
        for level in &self.levels {
            folder.push(level);
            atomic::ensure_dir(&folder)?;
        }
        let entry = Entry { key: key.clone(), result_digest: sha256_hex(text) };
        let json = serde_json::to_vec(&entry).map_err(|source| StoreError::Encode { what: "a cache entry", source })?;
        // The result first: an entry never names one that is not there.
        atomic::replace(&self.file(key, "md"), text.as_bytes(), false)?;
        atomic::replace(&self.file(key, "json"), &json, false)
    }
}

fn read_plain(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return None;
    }
    fs::read(path).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn key(prompt: &str) -> CacheKey {
        let parts = BTreeMap::from([("prompt".to_owned(), sha256_hex(prompt))]);
        CacheKey { digest: sha256_hex(prompt), parts }
    }

    #[test]
    fn finds_what_was_kept_and_nothing_that_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (workflow, task) = (WorkflowId::new("w").unwrap(), TaskId::new("map:a").unwrap());
        let cache = TaskCache::of(folder.path(), &workflow, &task);
        assert_eq!(cache.find(&key("a")), None);
        assert_eq!(cache.newest(), None);
        cache.keep(&key("a"), "the result").unwrap();
        assert_eq!(cache.find(&key("a")).as_deref(), Some("the result"));
        assert_eq!(cache.find(&key("b")), None);
        assert_eq!(cache.newest(), Some(key("a")));
        assert_eq!(crate::decide::cache::difference(&key("b"), &key("a")), "prompt changed");
        fs::write(cache.file(&key("a"), "md"), "another result").unwrap();
        assert_eq!(cache.find(&key("a")), None);
        // A task whose name begins the same keeps its own.
        let other = TaskCache::of(folder.path(), &workflow, &TaskId::new("map").unwrap());
        assert_eq!(other.newest(), None);
    }
}
