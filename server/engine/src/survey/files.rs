//! The files of a workspace that are worth searching, and their text.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use ignore::WalkBuilder;

/// Larger files are data, not text that somebody wrote.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Listing {
    /// Relative to the workspace, `/` between parts, in byte order.
    pub(super) paths: Vec<String>,
    /// Folders and files that the system would not list.
    pub(super) unreadable: usize,
}

/// Lists the files. Left out: what `.gitignore` and `.ignore` of the workspace name (with or without a git repository),
/// hidden files, `.git` and `.cw`, links, lock files and minified code, and names that cannot be cited. What lies outside
/// the workspace has no say, so that the same folder gives the same list on every machine.
pub(super) fn list(workspace: &Path) -> io::Result<Listing> {
    fs::read_dir(workspace)?;
    let walk = WalkBuilder::new(workspace)
        .hidden(true)
        .git_ignore(true)
        .require_git(false)
        .ignore(true)
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .follow_links(false)
        .build();
    let mut listing = Listing::default();
    for entry in walk {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                listing.paths.extend(citable(workspace, entry.path()));
            }
            Ok(_) => {}
            Err(_) => listing.unreadable += 1,
        }
    }
    listing.paths.sort_unstable();
    Ok(listing)
}

fn citable(workspace: &Path, path: &Path) -> Option<String> {
    let relative = path.strip_prefix(workspace).ok()?;
    let parts: Vec<&str> = relative.components().map(|part| part.as_os_str().to_str()).collect::<Option<_>>()?;
    let name = *parts.last()?;
    let citable = !parts.iter().any(|part| part.chars().any(|c| c.is_control() || c == '`' || c == ':' || c == '\\'));
    (citable && !is_generated(name)).then(|| parts.join("/"))
}

fn is_generated(name: &str) -> bool {
    const ENDINGS: [&str; 8] = [".lock", ".min.js", ".min.css", ".map", ".svg", "-lock.json", "-lock.yaml", ".snap"];
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// What a file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Text. Bytes that are no UTF-8 are replaced.
    Text(String),
    /// Not worth searching: too large, or no text.
    Skipped,
    /// The system would not let it be read.
    Unreadable,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Content {
    match read_text(path) {
        Ok(Some(text)) => Content::Text(text),
        Ok(None) => Content::Skipped,
        Err(_) => Content::Unreadable,
    }
}

fn read_text(path: &Path) -> io::Result<Option<String>> {
    // The file may have become something else since it was listed.
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES || bytes.contains(&0) {
        return Ok(None);
    }
    Ok(Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())))
}
