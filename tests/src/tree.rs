//! A folder as a whole: every entry with its kind, content digest and modification time, to tell whether anything in
//! it was touched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// What is known of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A folder, and when it last gained or lost an entry.
    Folder(SystemTime),
    /// A file, its content's digest, and when it was last written.
    File(Vec<u8>, SystemTime),
    /// A link, and where it leads.
    Link(PathBuf),
}

/// Everything below `root`, by path relative to it.
///
/// # Panics
/// When something cannot be read.
#[must_use]
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).expect("an entry just listed is there");
        let entry = if about.is_symlink() {
            Entry::Link(fs::read_link(&path).expect("a link can be read"))
        } else if about.is_dir() {
            let children = fs::read_dir(&path).expect("a folder can be listed");
            open.extend(children.map(|child| child.expect("a folder can be listed").path()));
            Entry::Folder(about.modified().expect("this platform has modification times"))
        } else {
            let content = fs::read(&path).expect("a file can be read");
            Entry::File(
                Sha256::digest(&content).to_vec(),
                about.modified().expect("this platform has modification times"),
            )
        };
        entries.insert(path.strip_prefix(root).expect("entries are below the root").to_owned(), entry);
    }
    entries
}

/// Asserts that two snapshots are equal, and says what differs.
///
/// # Panics
/// When they differ.
pub fn assert_same(before: &BTreeMap<PathBuf, Entry>, after: &BTreeMap<PathBuf, Entry>, when: &str) {
    let changed: Vec<String> = before
        .keys()
        .chain(after.keys().filter(|path| !before.contains_key(*path)))
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| match (before.contains_key(path), after.contains_key(path)) {
            (true, true) => format!("changed: {}", path.display()),
            (true, false) => format!("gone:    {}", path.display()),
            _ => format!("new:     {}", path.display()),
        })
        .collect();
    assert!(changed.is_empty(), "{when}, the folder was touched:\n{}", changed.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "new:     b")]
    fn a_new_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let before = snapshot(folder.path());
        fs::write(folder.path().join("b"), "1").unwrap();
        assert_same(&before, &snapshot(folder.path()), "after a write");
    }
}
