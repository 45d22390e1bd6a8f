//! Reads TOML into a tree with offsets.

use serde_json::Number;
use toml_edit::{Array, InlineTable, Item, Table, Value};

use super::{Data, Entry, FieldPath, Node, Refusal, Tree};

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Tree, Refusal> {
    let document = toml_edit::Document::parse(text).map_err(|error| Refusal {
        offset: error.span().map_or(0, |span| span.start),
        message: format!("is not valid TOML: {}", error.message().trim().replace('\n', "; ")),
    })?;
    let mut reader = Reader { remarks: Vec::new() };
    let entries = reader.table(document.as_table(), &FieldPath::root());
    Ok(Tree { root: Node { offset: Some(0), data: Data::Table(entries) }, remarks: reader.remarks })
}

struct Reader {
    remarks: Vec<(FieldPath, String)>,
}

impl Reader {
    fn table(&mut self, table: &Table, path: &FieldPath) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, item) in table {
            let offset = table.key(key).and_then(|key| key.span()).map(|span| span.start);
            if let Some(node) = self.item(item, &path.key(key)) {
                entries.push(Entry { key: key.to_owned(), offset, node });
            }
        }
        entries
    }

    fn inline(&mut self, table: &InlineTable, path: &FieldPath) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let offset = table.key(key).and_then(|key| key.span()).map(|span| span.start);
            let node = self.value(value, &path.key(key));
            entries.push(Entry { key: key.to_owned(), offset, node });
        }
        entries
    }

    fn item(&mut self, item: &Item, path: &FieldPath) -> Option<Node> {
        let offset = item.span().map(|span| span.start);
        match item {
            Item::None => None,
            Item::Value(value) => Some(self.value(value, path)),
            Item::Table(table) => Some(Node { offset, data: Data::Table(self.table(table, path)) }),
            Item::ArrayOfTables(tables) => {
                let nodes = tables.iter().enumerate().map(|(index, table)| Node {
                    offset: table.span().map(|span| span.start),
                    data: Data::Table(self.table(table, &path.at(index))),
                });
                Some(Node { offset, data: Data::List(nodes.collect()) })
            }
        }
    }

    fn array(&mut self, array: &Array, path: &FieldPath) -> Vec<Node> {
        array.iter().enumerate().map(|(index, value)| self.value(value, &path.at(index))).collect()
    }

    fn value(&mut self, value: &Value, path: &FieldPath) -> Node {
        let data = match value {
            Value::String(text) => Data::Text(text.value().clone()),
            Value::Integer(number) => Data::Number((*number.value()).into()),
            Value::Boolean(truth) => Data::Bool(*truth.value()),
            Value::Float(number) => match Number::from_f64(*number.value()) {
                Some(number) => Data::Number(number),
                None => {
                    self.remarks.push((path.clone(), "must be a finite number".to_owned()));
                    Data::Number(0.into())
                }
            },
            Value::Datetime(date) => {
                self.remarks.push((path.clone(), "is a date, which is not used here; write it as a text".to_owned()));
                Data::Text(date.value().to_string())
            }
            Value::Array(array) => Data::List(self.array(array, path)),
            Value::InlineTable(table) => Data::Table(self.inline(table, path)),
        };
        Node { offset: value.span().map(|span| span.start), data }
    }
}
