//! Reads JSON into a tree with offsets. serde_json judges the syntax; the scanner below only runs over text that passed.

use super::{Data, Entry, FieldPath, Node, Refusal, Tree};

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Tree, Refusal> {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Err(Refusal { offset: offset_of(text, error.line(), error.column()), message: reason(&error) });
    }
    let mut scanner = Scanner { text, at: 0, remarks: Vec::new() };
    match scanner.value(&FieldPath::root()) {
        Some(root) => Ok(Tree { root, remarks: scanner.remarks }),
        None => Err(Refusal { offset: scanner.at, message: "is not JSON that can be read".to_owned() }),
    }
}

/// serde_json's words without the position, which is told apart.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words);
    format!("is not valid JSON: {words}")
}

fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    // serde_json puts the end of a text that stops too early on the column after the last one.
    (start + column.saturating_sub(1)).min(text.len().saturating_sub(1)).max(start.min(text.len()))
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    remarks: Vec<(FieldPath, String)>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Steps over a byte if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, path: &FieldPath) -> Option<Node> {
        self.skip_space();
        let offset = Some(self.at);
        let data = match self.peek()? {
            b'{' => self.table(path)?,
            b'[' => self.list(path)?,
            b'"' => Data::Text(self.string()?),
            _ => {
                let start = self.at;
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
                    self.at += 1;
                }
                match self.text.get(start..self.at)? {
                    "null" => Data::Null,
                    "true" => Data::Bool(true),
                    "false" => Data::Bool(false),
                    number => Data::Number(serde_json::from_str(number).ok()?),
                }
            }
        };
        Some(Node { offset, data })
    }

    fn table(&mut self, path: &FieldPath) -> Option<Data> {
        self.at += 1;
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        if self.take(b'}') {
            return Some(Data::Table(entries));
        }
        loop {
            self.skip_space();
            let offset = Some(self.at);
            let key = self.string()?;
            if !self.take(b':') {
                return None;
            }
            let inner = path.key(&key);
            let node = self.value(&inner)?;
            if seen.insert(key.clone()) {
                entries.push(Entry { key, offset, node });
            } else {
                self.remarks.push((inner, "is there twice in one object; keep one".to_owned()));
            }
            if self.take(b'}') {
                return Some(Data::Table(entries));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn list(&mut self, path: &FieldPath) -> Option<Data> {
        self.at += 1;
        let mut nodes = Vec::new();
        if self.take(b']') {
            return Some(Data::List(nodes));
        }
        loop {
            nodes.push(self.value(&path.at(nodes.len()))?);
            if self.take(b']') {
                return Some(Data::List(nodes));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        serde_json::from_str(self.text.get(start..self.at)?).ok()
    }
}
