//! What a result stood on when it was accepted: the lines it cites, and the files it cites without lines. A result is only
//! taken again where all of that still says the same.
//!
//! Must not: read a file but through the trait that the caller implements.

use std::collections::{BTreeSet, HashMap};

use flowdrive_protocol::outcome::{Evidence, EvidenceKind};
use serde::{Deserialize, Serialize};

use super::files::{Desk, Files, Presence};

/// A place in the workspace, and what was there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ground {
    /// The file, relative to the workspace.
    pub path: String,
    /// Its lines, from 1, first and last; the whole file without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u32, u32)>,
    /// SHA-256 of them.
    pub digest: String,
}

/// What a result with this evidence stands on. None where that cannot be told again later: a file is too large to be
/// compared, or gone already. A folder is no ground: what is in it is not compared.
#[must_use]
pub fn grounds<'e>(evidence: impl IntoIterator<Item = &'e Evidence>, files: &dyn Files) -> Option<Vec<Ground>> {
    let mut desk = Desk::new(files);
    let mut are_text: HashMap<String, bool> = HashMap::new();
    let mut found = BTreeSet::new();
    for evidence in evidence.into_iter().filter(|evidence| evidence.kind == EvidenceKind::File) {
        let path = evidence.path.clone()?;
        // Of bytes that are no text, other ones can look the same: then the whole file counts.
        let lines = evidence.line.map(|first| (first, evidence.end_line.unwrap_or(first))).filter(|_| {
            *are_text.entry(path.clone()).or_insert_with(|| desk.lines(&path).is_ok_and(|text| !text.has_gaps()))
        });
        let digest = match (lines, &evidence.digest) {
            (Some(_), Some(digest)) => digest.clone(),
            (None, _) if desk.presence(&path) == Presence::Folder => continue,
            _ => digest(&path, lines, files, &mut desk)?,
        };
        found.insert(Ground { path, lines, digest });
    }
    Some(found.into_iter().collect())
}

/// The first place that says something else now, as it would be cited.
#[must_use]
pub fn changed(grounds: &[Ground], files: &dyn Files) -> Option<String> {
    let mut desk = Desk::new(files);
    let now = |ground: &Ground, desk: &mut Desk<'_>| digest(&ground.path, ground.lines, files, desk);
    let other = grounds.iter().find(|ground| now(ground, &mut desk).as_ref() != Some(&ground.digest))?;
    Some(match other.lines {
        Some((first, last)) if last > first => format!("{}:{first}-{last}", other.path),
        Some((first, _)) => format!("{}:{first}", other.path),
        None => other.path.clone(),
    })
}

/// Of some lines of a file, or of all of it.
fn digest(path: &str, lines: Option<(u32, u32)>, files: &dyn Files, desk: &mut Desk<'_>) -> Option<String> {
    match lines {
        Some(span) => desk.lines(path).ok()?.cite(span).map(|(digest, _)| digest),
        None => files.digest(path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::{FileLookup, Lines};
    use super::*;

    struct Tree(HashMap<&'static str, FileLookup>);

    impl Files for Tree {
        fn read(&self, path: &str) -> FileLookup {
            self.0.get(path).cloned().unwrap_or(FileLookup::Missing)
        }

        fn digest(&self, path: &str) -> Option<String> {
            match self.read(path) {
                FileLookup::Text(text) => Some(text),
                FileLookup::Binary => Some("binary".to_owned()),
                _ => None,
            }
        }
    }

    fn tree(a: &str, b: &str) -> Tree {
        let text = |text: &str| FileLookup::Text(text.to_owned());
        Tree(HashMap::from([
            ("a", text(a)),
            ("b", text(b)),
            ("image", FileLookup::Binary),
            ("src", FileLookup::Folder),
        ]))
    }

    fn cited(path: &str, line: Option<u32>, end_line: Option<u32>, of: &Tree) -> Evidence {
        let span = line.map(|first| (first, end_line.unwrap_or(first)));
        let digest = match (of.read(path), span) {
            (FileLookup::Text(text), Some(span)) => Lines::of(text).cite(span).map(|(digest, _)| digest),
            _ => None,
        };
        let (locator, path, text) = (String::new(), Some(path.to_owned()), None);
        Evidence { locator, kind: EvidenceKind::File, path, line, end_line, digest, text }
    }

    #[test]
    fn a_result_stands_while_all_that_it_cites_says_the_same() {
        let before = tree("one\ntwo\nthree\n", "whole\n");
        let evidence = [
            cited("a", Some(2), None, &before),
            cited("a", Some(2), None, &before),
            cited("a", Some(1), Some(2), &before),
            cited("b", None, None, &before),
            cited("image", None, None, &before),
            cited("src", None, None, &before),
        ];
        let stands_on = grounds(&evidence, &before).unwrap();
        assert_eq!(stands_on.len(), 4, "each place once, and a folder not at all: {stands_on:?}");
        for (a, b, expected) in [
            ("one\ntwo\nthree\n", "whole\n", None),
            ("one\r\ntwo\r\nother\r\nmore\n", "whole\n", None),
            ("one\nother\nthree\n", "whole\n", Some("a:1-2")),
            ("new\none\ntwo\n", "whole\n", Some("a:1-2")),
            ("other\ntwo\n", "whole\n", Some("a:1-2")),
            ("one\n", "whole\n", Some("a:1-2")),
            ("one\ntwo\n", "whole\nand more\n", Some("b")),
        ] {
            assert_eq!(changed(&stands_on, &tree(a, b)).as_deref(), expected, "{a:?} {b:?}");
        }
        let single = grounds(&evidence[..1], &before).unwrap();
        assert_eq!(changed(&single, &tree("one\nx\n", "")).as_deref(), Some("a:2"));
        assert_eq!(changed(&single, &Tree(HashMap::new())).as_deref(), Some("a:2"), "the file is gone");
        assert_eq!(changed(&[], &Tree(HashMap::new())), None);
        let mut other = tree("one\ntwo\nthree\n", "whole\n");
        other.0.insert("image", FileLookup::Text("text".to_owned()));
        assert_eq!(changed(&stands_on, &other).as_deref(), Some("image"));
        assert_eq!(grounds(&[cited("gone", None, None, &before)], &before), None, "nothing could be compared later");
    }

    #[test]
    fn of_a_file_that_is_no_text_all_counts() {
        let before = tree("caf\u{fffd}\nx\n", "");
        let stands_on = grounds(&[cited("a", Some(2), None, &before)], &before).unwrap();
        assert_eq!((stands_on[0].lines, stands_on.len()), (None, 1), "{stands_on:?}");
        assert_eq!(changed(&stands_on, &tree("other\nx\n", "")).as_deref(), Some("a"));
    }
}
