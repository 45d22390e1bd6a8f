//! What is wrong with a document: each fault with its field and line, all of them together in one message.

use std::fmt;

use super::FieldPath;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The field at fault, such as `phases[1].tasks[0].id`; empty for the document as a whole.
    pub field: String,
    /// The line at fault, from 1; absent where there is no text, as for an inline document.
    pub line: Option<u64>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(path: &FieldPath, line: Option<u64>, message: impl Into<String>) -> Self {
        Self { field: path.to_string(), line, message: message.into() }
    }
}

/// The faults of one document, in the order of its lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// The file, as the user named it; absent for an inline document.
    file: Option<String>,
    first: Fault,
    rest: Vec<Fault>,
}

impl Faults {
    /// None when there are none.
    pub(crate) fn new(file: Option<String>, mut faults: Vec<Fault>) -> Option<Self> {
        faults.sort_by_key(|fault| fault.line);
        faults.dedup();
        let mut faults = faults.into_iter();
        Some(Self { file, first: faults.next()?, rest: faults.collect() })
    }

    /// The one that comes first in the document.
    #[must_use]
    pub fn first(&self) -> &Fault {
        &self.first
    }

    /// Every one.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The file at fault.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }
}

impl fmt::Display for Faults {
    /// One fault a line: `file:line: field: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, fault) in self.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            match (&self.file, fault.line) {
                (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
                (Some(file), None) => write!(f, "{file}: ")?,
                (None, Some(line)) => write!(f, "line {line}: ")?,
                (None, None) => {}
            }
            if !fault.field.is_empty() {
                write!(f, "{}: ", fault.field)?;
            }
            f.write_str(&fault.message)?;
        }
        Ok(())
    }
}

/// How a sentence about an unknown name ends: `; did you mean ...?` when one of the known names is close, else a full stop.
pub(crate) fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or_else(|| ".".to_owned(), |near| format!("; did you mean `{near}`?"))
}

/// The known name closest to the given one, when it is close enough to be a slip of the pen.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names are short. A long text is no slip of the pen, and the comparison is quadratic.
    if given.len() > 64 {
        return None;
    }
    let given = given.to_lowercase();
    let tolerated = 1 + given.chars().count() / 4;
    known
        .into_iter()
        .filter(|name| name.len() <= 64)
        .map(|name| (distance(&given, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many letters have to be put in, taken out or replaced to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Names as they are listed in a message.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 30;
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count > MOST => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_recognised_and_other_words_are_not() {
        let known = ["prompt", "requiresEvidence", "id"];
        assert_eq!(nearest("promt", known), Some("prompt"));
        assert_eq!(nearest("requires_evidence", known), Some("requiresEvidence"));
        assert_eq!(nearest("banana", known), None);
        assert_eq!(nearest(&"x".repeat(10_000), known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_message_holds_every_fault_and_the_first_line_comes_first() {
        let fault = |line, message: &str| Fault { field: "a".into(), line: Some(line), message: message.into() };
        let faults = Faults::new(Some("w.toml".into()), vec![fault(9, "late"), fault(2, "early")]).unwrap();
        assert_eq!(faults.first().line, Some(2));
        assert_eq!(faults.to_string(), "w.toml:2: a: early\nw.toml:9: a: late");
        assert_eq!(Faults::new(None, Vec::new()), None);
    }
}
