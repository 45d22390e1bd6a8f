//! A TOML or JSON text as a tree that knows the line of every field, and its decoding into a type of the protocol with
//! every structural fault named. Shared by workflows and configuration.
//!
//! Must not: read files, or know what a workflow or an agent is.

mod decode;
mod fault;
mod json;
mod path;
mod shape;
mod toml;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

pub use fault::{Fault, Faults};
pub(crate) use fault::{did_you_mean, listed, nearest};
pub(crate) use path::{FieldPath, Segment, cut};

/// The two ways a document can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// TOML 1.
    Toml,
    /// JSON.
    Json,
}

/// A value, and where it starts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Byte offset in the text, where there is a text.
    offset: Option<usize>,
    data: Data,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A field of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    key: String,
    /// Where the key starts.
    offset: Option<usize>,
    node: Node,
}

/// A document that was read.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    file: Option<String>,
    format: Format,
    root: Node,
    /// Offsets of the line ends; none for a document without a text.
    line_ends: Option<Vec<usize>>,
    /// What the reader itself found, such as dates where TOML allows them and JSON does not.
    faults: Vec<Fault>,
}

impl Document {
    /// Reads a text. `file` is how messages name it.
    pub(crate) fn read(file: Option<String>, format: Format, bytes: &[u8]) -> Result<Self, Faults> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let line_ends = line_ends(bytes);
        let refuse = |file, offset: usize, message: String| {
            let fault = Fault::new(&FieldPath::root(), Some(line_at(&line_ends, offset)), message);
            Faults::new(file, vec![fault]).expect("one fault was given")
        };
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return Err(refuse(file, error.valid_up_to(), "is not UTF-8 text".to_owned())),
        };
        let read = match format {
            Format::Toml => toml::read(text),
            Format::Json => json::read(text),
        };
        let tree = match read {
            Ok(tree) => tree,
            Err(refusal) => return Err(refuse(file, refusal.offset, refusal.message)),
        };
        let mut document = Self { file, format, root: tree.root, line_ends: Some(line_ends), faults: Vec::new() };
        document.faults = tree.remarks.into_iter().map(|(path, message)| document.fault(&path, message)).collect();
        Ok(document)
    }

    /// A document that came as a value, with no text and so no lines.
    pub(crate) fn inline(value: Value) -> Self {
        Self { file: None, format: Format::Json, root: Node::from(value), line_ends: None, faults: Vec::new() }
    }

    /// How messages name it.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// A fault at a field, with the line of the field or of what should hold it.
    pub(crate) fn fault(&self, path: &FieldPath, message: impl Into<String>) -> Fault {
        Fault::new(path, self.line(path), message)
    }

    /// The line of a field, or of the innermost thing on the way to it that exists.
    pub(crate) fn line(&self, path: &FieldPath) -> Option<u64> {
        let line_ends = self.line_ends.as_deref()?;
        let mut node = &self.root;
        let mut offset = node.offset.unwrap_or(0);
        for segment in path.segments() {
            let (next, start) = match (&node.data, segment) {
                (Data::Table(entries), Segment::Key(key)) => match entries.iter().find(|entry| entry.key == *key) {
                    Some(entry) => (&entry.node, entry.offset.or(entry.node.offset)),
                    None => break,
                },
                (Data::List(nodes), Segment::Index(index)) => match nodes.get(*index) {
                    Some(node) => (node, node.offset),
                    None => break,
                },
                _ => break,
            };
            node = next;
            offset = start.unwrap_or(offset);
        }
        Some(line_at(line_ends, offset))
    }

    /// The number a field of the root holds, where it is one.
    pub(crate) fn root_number(&self, key: &str) -> Option<&Number> {
        let Data::Table(entries) = &self.root.data else { return None };
        entries.iter().find(|entry| entry.key == key).and_then(|entry| match &entry.node.data {
            Data::Number(number) => Some(number),
            _ => None,
        })
    }

    /// The document as a plain value.
    #[cfg(test)]
    pub(crate) fn to_value(&self) -> Value {
        Value::from(&self.root)
    }

    /// Decodes the document, or names every structural fault: wrong types, missing and unknown fields, unknown choices,
    /// ids that break their grammar. `aliases` are other spellings of field names that the type accepts.
    pub(crate) fn decode<T: DeserializeOwned + JsonSchema>(&self, aliases: &[(&str, &str)]) -> Result<T, Faults> {
        let mut faults = self.faults.clone();
        faults.extend(shape::check(self, schemars::schema_for!(T).as_value(), aliases));
        if let Some(faults) = Faults::new(self.file.clone(), faults) {
            return Err(faults);
        }
        // The type has the last word: it knows rules that its schema cannot say.
        serde_path_to_error::deserialize(&self.root).map_err(|error| {
            let fault = self.fault(&FieldPath::from(error.path()), error.inner().to_string());
            Faults::new(self.file.clone(), vec![fault]).expect("one fault was given")
        })
    }
}

/// What a reader made of a text.
struct Tree {
    root: Node,
    /// Faults of single fields.
    remarks: Vec<(FieldPath, String)>,
}

/// Why a text could not be read at all.
struct Refusal {
    offset: usize,
    message: String,
}

/// Takes the value apart as it goes, so that a large one is never there twice.
impl From<Value> for Node {
    fn from(value: Value) -> Self {
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(truth) => Data::Bool(truth),
            Value::Number(number) => Data::Number(number),
            Value::String(text) => Data::Text(text),
            Value::Array(values) => Data::List(values.into_iter().map(Self::from).collect()),
            Value::Object(fields) => Data::Table(
                fields.into_iter().map(|(key, value)| Entry { key, offset: None, node: Self::from(value) }).collect(),
            ),
        };
        Self { offset: None, data }
    }
}

impl From<&Node> for Value {
    fn from(node: &Node) -> Self {
        match &node.data {
            Data::Null => Self::Null,
            Data::Bool(truth) => Self::Bool(*truth),
            Data::Number(number) => Self::Number(number.clone()),
            Data::Text(text) => Self::String(text.clone()),
            Data::List(nodes) => Self::Array(nodes.iter().map(Self::from).collect()),
            Data::Table(entries) => Self::Object(
                entries.iter().map(|entry| (entry.key.clone(), Self::from(&entry.node))).collect::<Map<_, _>>(),
            ),
        }
    }
}

fn line_ends(bytes: &[u8]) -> Vec<usize> {
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(offset, _)| offset).collect()
}

/// The line that holds a byte, from 1.
fn line_at(line_ends: &[usize], offset: usize) -> u64 {
    line_ends.partition_point(|end| *end < offset) as u64 + 1
}
