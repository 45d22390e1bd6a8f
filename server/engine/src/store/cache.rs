//! Results kept for later runs: `.cw/cache/worker-results/<workflow>/<task>-<32 hex digits>.{md,json}`.
//!
//! The `.json` holds the key and the result's digest; a result without it, or that does not match it, is not there.
//! Must not decide what may be reused: the key does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flowdrive_protocol::ids::{TaskId, WorkflowId};
use serde::{Deserialize, Serialize};

use super::canonical::sha256_hex;
use super::workspace::is_own_dir;
use super::{StoreError, atomic, safe_name};
use crate::accept::grounds::Ground;
use crate::decide::cache::CacheKey;

/// Longest result taken from the cache, in bytes.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    key: CacheKey,
    result_digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stands_on: Option<Vec<Ground>>,
}

/// A result that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its text.
    pub text: String,
    /// What it stood on when it was accepted; none where that cannot be compared.
    pub stands_on: Option<Vec<Ground>>,
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
    pub fn find(&self, key: &CacheKey) -> Option<Kept> {
        let entry: Entry = serde_json::from_slice(&read_plain(&self.file(key, "json"))?).ok()?;
        let text = String::from_utf8(read_plain(&self.file(key, "md"))?).ok()?;
        let whole = entry.key == *key && sha256_hex(&text) == entry.result_digest;
        if whole {
            // When it was last of use, for those who remove what is not. Of the text alone: the entry's time is its birth.
            let touched = fs::File::options().write(true).open(self.file(key, "md"));
            let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
        }
        whole.then_some(Kept { text, stands_on: entry.stands_on })
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
    pub fn keep(&self, key: &CacheKey, kept: Kept) -> Result<(), StoreError> {
        // Level by level, so that a link planted in the place of one is refused.
        let mut folder = self.workspace.clone();
        for level in &self.levels {
            folder.push(level);
            atomic::ensure_dir(&folder).map_err(StoreError::of_workspace)?;
        }
        let Kept { text, stands_on } = kept;
        let entry = Entry { key: key.clone(), result_digest: sha256_hex(&text), stands_on };
        let json = serde_json::to_vec(&entry).map_err(|source| StoreError::Encode { what: "a cache entry", source })?;
        // The result first: an entry never names one that is not there.
        atomic::replace(&self.file(key, "md"), text.as_bytes(), false)?;
        atomic::replace(&self.file(key, "json"), &json, false)
    }
}

/// Removes the results of all tasks of a workspace that were neither kept nor used since then. Gives how many there were,
/// and their bytes; with `dry_run` removes nothing.
///
/// # Errors
/// What the disk refuses, and symbolic links in place of folders.
pub fn prune(workspace: &Path, since: SystemTime, dry_run: bool) -> Result<(u32, u64), StoreError> {
    let mut folder = workspace.to_owned();
    for level in [".cw", "cache", "worker-results"] {
        folder.push(level);
        if !is_own_dir(&folder).map_err(StoreError::of_workspace)? {
            return Ok((0, 0));
        }
    }
    let (mut results, mut bytes) = (0, 0);
    for workflow in fs::read_dir(&folder).map_err(StoreError::io("list", &folder))?.flatten() {
        if !workflow.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let dir = workflow.path();
        for mut files in by_stem(&dir)?.into_values() {
            let newest = files.iter().filter_map(|file| file.used).max();
            if newest.is_some_and(|newest| newest >= since) {
                continue;
            }
            // The entry before its result, so that no entry names a result that is not there.
            files.sort_by_key(|file| !file.is_entry());
            results += u32::from(files.iter().any(KeptFile::is_entry));
            for file in files {
                bytes += file.bytes;
                let removed = if dry_run { Ok(()) } else { fs::remove_file(&file.path) };
                match removed {
                    Err(fault) if fault.kind() != std::io::ErrorKind::NotFound => {
                        return Err(StoreError::io("remove", &file.path)(fault));
                    }
                    _ => {}
                }
            }
        }
        if !dry_run {
            // Stays where something is left in it.
            let _ = fs::remove_dir(&dir);
        }
    }
    Ok((results, bytes))
}

struct KeptFile {
    path: PathBuf,
    bytes: u64,
    used: Option<SystemTime>,
}

impl KeptFile {
    fn is_entry(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending == "json")
    }
}

/// The plain files of a folder, those of one result together.
fn by_stem(dir: &Path) -> Result<BTreeMap<OsString, Vec<KeptFile>>, StoreError> {
    let mut stems: BTreeMap<OsString, Vec<KeptFile>> = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(StoreError::io("list", dir))? {
        let path = entry.map_err(StoreError::io("list", dir))?.path();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if !meta.is_file() {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_owned();
        let file = KeptFile { path, bytes: meta.len(), used: meta.modified().ok() };
        stems.entry(stem).or_default().push(file);
    }
    Ok(stems)
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
    use std::time::Duration;

    use super::*;

    fn key(prompt: &str) -> CacheKey {
        let parts = BTreeMap::from([("prompt".to_owned(), sha256_hex(prompt))]);
        CacheKey { digest: sha256_hex(prompt), parts }
    }

    fn kept(text: &str) -> Kept {
        let ground = Ground { path: "a".to_owned(), lines: Some((1, 2)), digest: sha256_hex("a") };
        Kept { text: text.to_owned(), stands_on: Some(vec![ground]) }
    }

    #[test]
    fn what_is_of_no_more_use_goes_and_what_was_used_since_stays() {
        let folder = tempfile::tempdir().unwrap();
        let workflow = WorkflowId::new("w").unwrap();
        let at = |secs| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        let of = |task: &str| TaskCache::of(folder.path(), &workflow, &TaskId::new(task).unwrap());
        let age = |path: PathBuf, secs| {
            fs::File::options().write(true).open(path).unwrap().set_modified(at(secs)).unwrap();
        };
        assert_eq!(prune(folder.path(), at(5), false).unwrap(), (0, 0), "there is no cache yet");
        for (task, secs) in [("old", 10), ("young", 30), ("used", 10)] {
            of(task).keep(&key(task), kept("text")).unwrap();
            age(of(task).file(&key(task), "md"), secs);
            age(of(task).file(&key(task), "json"), secs);
        }
        assert!(of("used").find(&key("used")).is_some(), "a use counts as young");
        let (results, bytes) = prune(folder.path(), at(20), true).unwrap();
        assert_eq!(results, 1);
        assert!(bytes > 4 && of("old").file(&key("old"), "md").is_file(), "a dry run removes nothing");
        assert_eq!(prune(folder.path(), at(20), false).unwrap(), (results, bytes));
        assert_eq!(of("old").find(&key("old")), None);
        for task in ["young", "used"] {
            assert!(of(task).find(&key(task)).is_some(), "{task}");
        }
        assert_eq!(prune(folder.path(), SystemTime::now() + Duration::from_secs(60), false).unwrap().0, 2);
        assert!(!folder.path().join(".cw/cache/worker-results/w").exists());
    }

    #[test]
    fn finds_what_was_kept_and_nothing_that_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (workflow, task) = (WorkflowId::new("w").unwrap(), TaskId::new("map:a").unwrap());
        let cache = TaskCache::of(folder.path(), &workflow, &task);
        assert_eq!(cache.find(&key("a")), None);
        assert_eq!(cache.newest(), None);
        cache.keep(&key("a"), kept("the result")).unwrap();
        assert_eq!(cache.find(&key("a")), Some(kept("the result")));
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
