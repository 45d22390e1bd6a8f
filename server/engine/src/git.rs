//! The commit a git checkout is at, read from its files: no program is started for it.
//!
//! Must not write, and must not fail a drive: what cannot be read is simply not known.

use std::fs;
use std::path::{Path, PathBuf};

/// The hash that `HEAD` stands at, where `workspace` or a folder above it is a git checkout.
#[must_use]
pub(crate) fn head(workspace: &Path) -> Option<String> {
    let git = workspace.ancestors().map(|folder| folder.join(".git")).find(|path| path.exists())?;
    let git = if git.is_dir() { git } else { linked(&git)? };
    // A linked worktree keeps its own HEAD and shares the refs of its main checkout.
    let common = fs::read_to_string(git.join("commondir")).map_or_else(|_| git.clone(), |path| git.join(path.trim()));
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return hash(head.trim()) };
    if name.contains("..") || name.starts_with('/') {
        return None;
    }
    if let Ok(loose) = fs::read_to_string(common.join(name)) {
        return hash(loose.trim());
    }
    let packed = fs::read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| {
        let (value, named) = line.split_once(' ')?;
        if named == name { hash(value) } else { None }
    })
}

fn linked(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let path = PathBuf::from(text.trim().strip_prefix("gitdir: ")?);
    Some(if path.is_absolute() { path } else { file.parent()?.join(path) })
}

fn hash(text: &str) -> Option<String> {
    let fits = (40..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_packed_detached_and_absent_heads() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let git = folder.path().join(".git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(head(folder.path()), None);
        fs::write(git.join("packed-refs"), format!("# pack-refs\n{a} refs/heads/main\n")).unwrap();
        assert_eq!(head(folder.path()), Some(a.clone()));
        fs::write(git.join("refs/heads/main"), format!("{b}\n")).unwrap();
        assert_eq!(head(folder.path()), Some(b));
        fs::write(git.join("HEAD"), &a).unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        assert_eq!(head(&inner), Some(a));
    }
}
