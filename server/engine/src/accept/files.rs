//! The workspace's files as the judge sees them: through the caller's eyes, each read at most once.
//!
//! Must not: touch the disk itself.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

/// Longest text of a cited line that is kept, in characters.
pub(super) const TEXT_CHARS: usize = 200;

/// Looks files up for the judge. The caller does the reading, follows links and keeps inside the workspace.
///
/// Paths are relative to the workspace, with `/` between parts and without `.` or `..`; the workspace is `.`. Within
/// one judgement the answers must not change.
pub trait Files {
    /// Reads a file. Called at most once per path and judgement, and only when lines of it are cited.
    fn read(&self, path: &str) -> FileLookup;

    /// Says what is at a path. Callers that can tell without reading should.
    fn presence(&self, path: &str) -> Presence {
        self.read(path).presence()
    }

    /// SHA-256 of a file's bytes, whatever they are. None for what is no file, or too large to be read for that.
    fn digest(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }

    /// Where a path that exists leads once every link on the way is followed, in the same form. By what it is named, a
    /// file cannot be told from another; by where it is, it can. None where that is the path itself.
    fn real(&self, path: &str) -> Option<String> {
        let _ = path;
        None
    }
}

/// What reading a path came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileLookup {
    /// A text file's content. Invalid UTF-8 may be replaced.
    Text(String),
    /// A file that has no lines to cite: not text, or larger than the caller reads.
    Binary,
    /// A folder.
    Folder,
    /// Nothing.
    Missing,
    /// Something outside the workspace, such as behind a symbolic link.
    Outside,
    /// A file that could not be read, and why.
    Unreadable(String),
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Nothing.
    Missing,
    /// Something outside the workspace.
    Outside,
}

impl FileLookup {
    /// What is there, whatever is in it.
    #[must_use]
    pub const fn presence(&self) -> Presence {
        match self {
            Self::Text(_) | Self::Binary | Self::Unreadable(_) => Presence::File,
            Self::Folder => Presence::Folder,
            Self::Missing => Presence::Missing,
            Self::Outside => Presence::Outside,
        }
    }
}

/// A caller's files with a memory.
pub(super) struct Desk<'a> {
    files: &'a dyn Files,
    present: HashMap<String, Presence>,
    real: HashMap<String, String>,
    read: HashMap<String, Result<Lines, String>>,
}

impl<'a> Desk<'a> {
    pub(super) fn new(files: &'a dyn Files) -> Self {
        Self { files, present: HashMap::new(), real: HashMap::new(), read: HashMap::new() }
    }

    pub(super) fn presence(&mut self, path: &str) -> Presence {
        if let Some(presence) = self.present.get(path) {
            return *presence;
        }
        let presence = self.files.presence(path);
        self.present.insert(path.to_owned(), presence);
        presence
    }

    /// Where a path that exists leads.
    pub(super) fn real(&mut self, path: &str) -> &str {
        let files = self.files;
        self.real.entry(path.to_owned()).or_insert_with(|| files.real(path).unwrap_or_else(|| path.to_owned()))
    }

    /// A file's lines, or why it has none, in words that follow its path.
    pub(super) fn lines(&mut self, path: &str) -> Result<&Lines, String> {
        if !self.read.contains_key(path) {
            let lines = match self.files.read(path) {
                FileLookup::Text(text) => Ok(Lines::of(text)),
                FileLookup::Binary => Err("not a text file, so it has no lines; cite it without".to_owned()),
                FileLookup::Folder => Err("a folder, which has no lines".to_owned()),
                FileLookup::Missing => Err("no such file".to_owned()),
                FileLookup::Outside => Err("outside the workspace".to_owned()),
                FileLookup::Unreadable(why) => Err(format!("could not be read: {why}")),
            };
            self.read.insert(path.to_owned(), lines);
        }
        match self.read.get(path) {
            Some(Ok(lines)) => Ok(lines),
            Some(Err(why)) => Err(why.clone()),
            None => Err("no such file".to_owned()),
        }
    }
}

/// A text and where its lines begin. Lines end with `\n` or `\r\n`, which is no part of them; a byte order mark is none
/// either, so that an editor's text has the same lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Lines {
    text: String,
    starts: Vec<usize>,
}

impl Lines {
    /// Finds a text's lines.
    #[must_use]
    pub fn of(text: String) -> Self {
        let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(first).chain(breaks).filter(|start| *start < text.len()).collect();
        Self { text, starts }
    }

    /// Whether some of the bytes they were read from were no text.
    #[must_use]
    pub fn has_gaps(&self) -> bool {
        self.text.contains(char::REPLACEMENT_CHARACTER)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// A line, counted from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&str> {
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        let line = &self.text[start..end];
        let line = line.strip_suffix('\n').unwrap_or(line);
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    /// The digest of some lines joined by `\n`, and the first of them, cut. Counted from 1; None if there are not so
    /// many.
    #[must_use]
    pub fn cite(&self, (first, last): (u32, u32)) -> Option<(String, String)> {
        let (first, last) = (usize::try_from(first).ok()?.checked_sub(1)?, usize::try_from(last).ok()?);
        if first >= last || last > self.count() {
            return None;
        }
        let mut hasher = Sha256::new();
        for (nth, line) in (first..last).filter_map(|index| self.get(index)).enumerate() {
            if nth > 0 {
                hasher.update("\n");
            }
            hasher.update(line);
        }
        let mut digest = String::from("sha256:");
        for byte in hasher.finalize() {
            digest.push_str(&format!("{byte:02x}"));
        }
        Some((digest, self.get(first)?.chars().take(TEXT_CHARS).collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_counted_as_an_editor_shows_them() {
        for (text, lines) in [
            ("", vec![]),
            ("\u{feff}", vec![]),
            ("\n", vec![""]),
            ("a", vec!["a"]),
            ("a\n", vec!["a"]),
            ("a\r\nb\n\nc", vec!["a", "b", "", "c"]),
            ("\u{feff}a\nb\r", vec!["a", "b"]),
        ] {
            let read = Lines::of(text.to_owned());
            assert_eq!((0..read.count()).filter_map(|n| read.get(n)).collect::<Vec<_>>(), lines, "{text:?}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_lines_joined() {
        let lines = Lines::of("one\r\ntwo\r\nthree\r\n".to_owned());
        // printf 'two\nthree' | sha256sum
        let digest = "sha256:43fc3d02ea6e854a19e994c75467d8163dde2464c83a12a5c56c59f47f75e253";
        assert_eq!(lines.cite((2, 3)), Some((digest.into(), "two".into())));
        assert_eq!(lines.cite((2, 3)), Lines::of("zero\ntwo\nthree".to_owned()).cite((2, 3)));
        assert_ne!(lines.cite((2, 3)), lines.cite((2, 2)));
        for span in [(0, 1), (3, 2), (4, 4), (1, 4), (1, u32::MAX)] {
            assert_eq!(lines.cite(span), None, "{span:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_by_characters() {
        let lines = Lines::of("é".repeat(500));
        assert_eq!(lines.cite((1, 1)).map(|(_, text)| text.chars().count()), Some(200));
    }

    proptest! {
        #[test]
        fn every_line_can_be_cited_and_no_other(text in "[a\r\n\u{feff}é]{0,30}") {
            let lines = Lines::of(text);
            let count = u32::try_from(lines.count()).unwrap();
            for line in 1..=count {
                prop_assert!(lines.cite((line, count)).is_some());
            }
            prop_assert!(lines.cite((1, count + 1)).is_none());
        }
    }
}
