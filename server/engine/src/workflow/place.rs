//! Paths that a workflow or its inputs name: kept inside the workspace, in words and on the disk.

use std::path::{Component, Path, PathBuf};

/// Whether a relative path stays inside the folder it is relative to, judged by its text alone.
pub(super) fn lexically_inside(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if path.chars().any(char::is_control) {
        return Err("the path holds a control character".to_owned());
    }
    let mut depth = 0_usize;
    for component in Path::new(path).components() {
        match component {
            Component::Prefix(_) | Component::RootDir => {
                return Err("the path must be relative to the workspace".to_owned());
            }
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth == 0 => return Err("the path leaves the workspace".to_owned()),
            Component::ParentDir => depth -= 1,
        }
    }
    Ok(())
}

/// The path of something that exists inside the workspace, symbolic links followed; comes out relative, with `/` between
/// its parts, `.` for the workspace itself.
pub(super) fn existing_inside(workspace: &Path, path: &str) -> Result<String, String> {
    let (root, real) = resolve_inside(workspace, path)?;
    let relative = real.strip_prefix(root).map_err(|_| format!("{path:?} leaves the workspace"))?;
    let parts: Option<Vec<&str>> = relative.components().map(|part| part.as_os_str().to_str()).collect();
    match parts {
        Some(parts) if parts.is_empty() => Ok(".".to_owned()),
        Some(parts) => Ok(parts.join("/")),
        None => Err(format!("{path:?} is not UTF-8 text")),
    }
}

/// The real workspace, and the real place of a path inside it.
pub(super) fn resolve_inside(workspace: &Path, path: &str) -> Result<(PathBuf, PathBuf), String> {
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    let root = dunce::canonicalize(workspace).map_err(|error| format!("the workspace cannot be read: {error}"))?;
    let real = dunce::canonicalize(root.join(path)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{path:?} does not exist in the workspace"),
        _ => format!("{path:?} cannot be read: {error}"),
    })?;
    if real.starts_with(&root) { Ok((root, real)) } else { Err(format!("{path:?} leaves the workspace")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_workspace_are_refused_by_their_text() {
        for path in ["", "..", "a/../..", "/etc/passwd", "a/../../b", "a\0b", "a\nb"] {
            assert!(lexically_inside(path).is_err(), "{path:?}");
        }
        for path in ["a", ".", "a/b.txt", "a/../b", "./a", "..a", "a..b"] {
            assert!(lexically_inside(path).is_ok(), "{path:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_that_leave_the_workspace_are_refused_on_the_disk() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "made up").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir(inside.path().join("docs")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), inside.path().join("link")).unwrap();
        assert!(existing_inside(inside.path(), "link").unwrap_err().contains("leaves the workspace"));
        assert!(existing_inside(inside.path(), "absent").unwrap_err().contains("does not exist"));
        assert!(existing_inside(inside.path(), "../x").is_err());
        assert_eq!(existing_inside(inside.path(), "./docs/../docs").unwrap(), "docs");
        assert_eq!(existing_inside(inside.path(), ".").unwrap(), ".");
        let absolute = inside.path().join("docs");
        assert_eq!(existing_inside(inside.path(), absolute.to_str().unwrap()).unwrap(), "docs");
    }
}
