//! Which folder a request is about: the one it names, else the one that is open. Pure.
//!
//! Must not: guess between several.

/// The client's open folders, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Folders(Vec<String>);

/// Several folders are open, and the request names none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several folders are open, so `workspace` must name one of them: {}", .0.join(", "))]
pub(crate) struct Ambiguous(Vec<String>);

impl Folders {
    pub(crate) fn new(folders: Vec<String>) -> Self {
        let mut all = Self::default();
        all.change(&[], folders);
        all
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[String] {
        &self.0
    }

    /// Takes over a change of them.
    pub(crate) fn change(&mut self, removed: &[String], added: Vec<String>) {
        self.0.retain(|folder| !removed.contains(folder));
        for folder in added {
            if !self.0.contains(&folder) {
                self.0.push(folder);
            }
        }
    }

    /// The folder of a request. `holds` says whether what it is about is in a folder.
    ///
    /// # Errors
    /// When there are several, and not just one of them holds it.
    pub(crate) fn choose(
        &self,
        asked: Option<String>,
        holds: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, Ambiguous> {
        if asked.is_some() {
            return Ok(asked);
        }
        match self.0.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only.clone())),
            several => {
                let holding: Vec<&String> = several.iter().filter(|folder| holds(folder)).collect();
                match holding[..] {
                    [one] => Ok(Some(one.clone())),
                    _ => Err(Ambiguous(self.0.clone())),
                }
            }
        }
    }

    /// The innermost folder that a file is in.
    pub(crate) fn around(&self, file: &std::path::Path) -> Option<&str> {
        let around = self.0.iter().filter(|folder| file.starts_with(folder));
        around.max_by_key(|folder| folder.len()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(names: &[&str]) -> Folders {
        Folders::new(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn the_folder_is_named_or_the_only_one_or_the_one_that_holds_it() {
        for (open, asked, holding, expected) in [
            (&["/a"][..], Some("/x"), "", Ok(Some("/x"))),
            (&[], None, "", Ok(None)),
            (&["/a"], None, "", Ok(Some("/a"))),
            (&["/a", "/b"], Some("/b"), "/a", Ok(Some("/b"))),
            (&["/a", "/b"], None, "/b", Ok(Some("/b"))),
            (&["/a", "/b"], None, "", Err("/a, /b")),
            (&["/a", "/b"], None, "/", Err("/a, /b")),
        ] {
            let holds = |folder: &str| !holding.is_empty() && folder.starts_with(holding);
            match (folders(open).choose(asked.map(str::to_owned), holds), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected),
                (Err(error), Err(named)) => assert!(error.to_string().contains(named), "{error}"),
                (found, expected) => panic!("{open:?} {asked:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn folders_come_and_go() {
        let mut open = folders(&["/a", "/a/b"]);
        assert_eq!(open.around(std::path::Path::new("/a/b/c.rs")), Some("/a/b"));
        assert_eq!(open.around(std::path::Path::new("/ab/c.rs")), None);
        open.change(&["/a".to_owned()], vec!["/a/b".to_owned(), "/c".to_owned()]);
        assert_eq!(open, folders(&["/a/b", "/c"]));
    }
}
