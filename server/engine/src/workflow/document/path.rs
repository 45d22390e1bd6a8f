//! Where in a document a field is, as people write it: `phases[1].tasks[0].id`.

use std::fmt;

/// One step down into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A field of a table.
    Key(String),
    /// An element of a list, from 0.
    Index(usize),
}

/// A field's place in a document. The root has no segments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// The document as a whole.
    pub(crate) fn root() -> Self {
        Self::default()
    }

    /// A field of the table at this path.
    pub(crate) fn key(&self, key: impl Into<String>) -> Self {
        self.with(Segment::Key(key.into()))
    }

    /// An element of the list at this path.
    pub(crate) fn at(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// The steps from the root.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }
}

impl From<&serde_path_to_error::Path> for FieldPath {
    fn from(path: &serde_path_to_error::Path) -> Self {
        use serde_path_to_error::Segment as Theirs;
        let segments = path.iter().filter_map(|segment| match segment {
            Theirs::Seq { index } => Some(Segment::Index(*index)),
            Theirs::Map { key } => Some(Segment::Key(key.clone())),
            Theirs::Enum { variant } => Some(Segment::Key(variant.clone())),
            Theirs::Unknown => None,
        });
        Self(segments.collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if position > 0 {
                        f.write_str(".")?;
                    }
                    let bare = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
                    if bare { f.write_str(key)? } else { write!(f, "{:?}", cut(key))? }
                }
            }
        }
        Ok(())
    }
}

/// A text cut to what fits in a message.
pub(crate) fn cut(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_people_write_them() {
        let path = FieldPath::root().key("phases").at(1).key("tasks").at(0).key("id");
        assert_eq!(path.to_string(), "phases[1].tasks[0].id");
        assert_eq!(FieldPath::root().key("inputs").key("a b").to_string(), "inputs.\"a b\"");
        assert_eq!(FieldPath::root().to_string(), "");
        assert!(FieldPath::root().key("x".repeat(500)).key("\n".repeat(500)).to_string().len() < 900);
    }
}
