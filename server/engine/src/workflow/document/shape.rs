//! Checks a tree against the JSON Schema of the type it is to become, so that one pass names every structural fault.
//! Knows the part of JSON Schema that schemars writes for the protocol's types. What it lets through is still decoded by
//! the type itself.

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::{Data, Document, Entry, Fault, FieldPath, Format, Node, cut, did_you_mean, listed};

/// Every structural fault.
pub(super) fn check(document: &Document, schema: &Value, aliases: &[(&str, &str)]) -> Vec<Fault> {
    let mut checker = Checker { document, schema, aliases, patterns: HashMap::new(), faults: Vec::new() };
    checker.node(&document.root, schema, &FieldPath::root(), None);
    checker.faults
}

struct Checker<'a> {
    document: &'a Document,
    schema: &'a Value,
    aliases: &'a [(&'a str, &'a str)],
    /// Patterns are few and used often.
    patterns: HashMap<&'a str, Option<Regex>>,
    faults: Vec<Fault>,
}

impl<'a> Checker<'a> {
    fn fault(&mut self, path: &FieldPath, message: impl Into<String>) {
        self.faults.push(self.document.fault(path, message));
    }

    /// `noun` is what the value is called, where its type has a name.
    fn node(&mut self, node: &Node, schema: &'a Value, path: &FieldPath, noun: Option<&'a str>) {
        let Some(rules) = schema.as_object() else { return };
        if let Some(name) = rules.get("$ref").and_then(Value::as_str).and_then(|link| link.strip_prefix("#/$defs/")) {
            let target = self.schema.get("$defs").and_then(|definitions| definitions.get(name));
            return target.map_or((), |target| self.node(node, target, path, Some(name)));
        }
        if let Some(options) = rules.get("anyOf").and_then(Value::as_array) {
            // An optional field: the type itself, or null.
            if !matches!(node.data, Data::Null)
                && let Some(option) = options.iter().find(|option| type_names(option) != ["null"])
            {
                self.node(node, option, path, noun);
            }
            return;
        }
        if let Some(options) = rules.get("oneOf").and_then(Value::as_array) {
            return self.one_of(node, options, path);
        }
        let types = type_names(schema);
        match (&node.data, types.is_empty()) {
            (_, true) => {}
            (Data::Null, _) if types.contains(&"null") => {}
            (Data::Bool(_), _) if types.contains(&"boolean") => {}
            (Data::Number(_), _) if types.contains(&"number") => {}
            (Data::Number(number), _) if types.contains(&"integer") => self.integer(number, rules, path),
            (Data::Text(text), _) if types.contains(&"string") => self.text(text, rules, path, noun),
            (Data::List(nodes), _) if types.contains(&"array") => {
                if let Some(items) = rules.get("items") {
                    for (index, node) in nodes.iter().enumerate() {
                        self.node(node, items, &path.at(index), None);
                    }
                }
            }
            (Data::Table(entries), _) if types.contains(&"object") => self.table(entries, rules, path),
            (data, _) => {
                let wanted = types.iter().find(|name| **name != "null").copied().unwrap_or("null");
                let message = format!("expected {}, found {}", self.called(wanted), self.found(data));
                self.fault(path, message);
            }
        }
    }

    fn table(&mut self, entries: &[Entry], rules: &'a Map<String, Value>, path: &FieldPath) {
        let fields = rules.get("properties").and_then(Value::as_object);
        let pattern = rules.get("patternProperties").and_then(Value::as_object).and_then(|map| map.iter().next());
        let open = rules.get("additionalProperties").is_none_or(|more| more != &Value::Bool(false));
        for entry in entries {
            let key = self.aliases.iter().find(|(alias, _)| *alias == entry.key).map_or(entry.key.as_str(), |a| a.1);
            let inner = path.key(&entry.key);
            if let Some(schema) = fields.and_then(|fields| fields.get(key)) {
                self.node(&entry.node, schema, &inner, None);
            } else if let Some((pattern, schema)) = pattern {
                // The name stands for something the user made up, so its grammar is what matters.
                if self.fits(pattern, key) {
                    self.node(&entry.node, schema, &inner, None);
                } else {
                    self.fault(&inner, format!("{:?} is not a valid name: it must match {pattern}", cut(key)));
                }
            } else if !open {
                let known = || fields.into_iter().flat_map(Map::keys).map(String::as_str);
                let message = format!(
                    "unknown field `{}`{} Known fields: {}",
                    cut(key),
                    did_you_mean(key, known()),
                    listed(known())
                );
                self.fault(&inner, message);
            }
        }
        for name in rules.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !entries.iter().any(|entry| entry.key == name) {
                self.fault(&path.key(name), format!("missing field `{name}`"));
            }
        }
    }

    /// An enumeration: either a text out of a list, or a table with one key out of a list.
    fn one_of(&mut self, node: &Node, options: &'a [Value], path: &FieldPath) {
        let texts: Vec<&str> = options.iter().filter_map(|option| option.get("const")?.as_str()).collect();
        if texts.len() == options.len() {
            match &node.data {
                Data::Text(text) if texts.contains(&text.as_str()) => {}
                Data::Text(text) => {
                    let near = did_you_mean(text, texts.iter().copied());
                    self.fault(path, format!("unknown value {:?}{near} Known values: {}", cut(text), listed(texts)));
                }
                data => {
                    let message = format!("expected one of {}, found {}", listed(texts), self.found(data));
                    self.fault(path, message);
                }
            }
            return;
        }
        let tagged: Vec<(&str, &Value)> = options
            .iter()
            .filter_map(|option| option.get("properties")?.as_object()?.iter().next())
            .map(|(key, schema)| (key.as_str(), schema))
            .collect();
        let known = || listed(tagged.iter().map(|(key, _)| *key));
        let Data::Table(entries) = &node.data else {
            let message =
                format!("expected {} with one of {}, found {}", self.called("object"), known(), self.found(&node.data));
            return self.fault(path, message);
        };
        let [entry] = entries.as_slice() else {
            return self.fault(path, format!("must hold exactly one of {}; it holds {}", known(), entries.len()));
        };
        match tagged.iter().find(|(key, _)| *key == entry.key) {
            Some((_, schema)) => self.node(&entry.node, schema, &path.key(&entry.key), None),
            None => {
                let near = did_you_mean(&entry.key, tagged.iter().map(|(key, _)| *key));
                let message = format!("unknown field `{}`{near} Known fields: {}", cut(&entry.key), known());
                self.fault(&path.key(&entry.key), message);
            }
        }
    }

    fn integer(&mut self, number: &serde_json::Number, rules: &Map<String, Value>, path: &FieldPath) {
        let least = rules.get("minimum").and_then(Value::as_u64).unwrap_or(0);
        let most = match rules.get("format").and_then(Value::as_str) {
            Some("uint8") => u64::from(u8::MAX),
            Some("uint16") => u64::from(u16::MAX),
            Some("uint32") => u64::from(u32::MAX),
            _ => u64::MAX,
        };
        let fits = number.as_u64().is_some_and(|number| (least..=most).contains(&number));
        if !fits {
            let bound = if most == u64::MAX { String::new() } else { format!(" and at most {most}") };
            self.fault(path, format!("must be a whole number of at least {least}{bound}, not {number}"));
        }
    }

    fn text(&mut self, text: &str, rules: &'a Map<String, Value>, path: &FieldPath, noun: Option<&str>) {
        let noun = noun.map_or_else(|| "text".to_owned(), words);
        if let Some(pattern) = rules.get("pattern").and_then(Value::as_str)
            && !self.fits(pattern, text)
        {
            return self.fault(path, format!("{:?} is not a valid {noun}: it must match {pattern}", cut(text)));
        }
        if let Some(most) = rules.get("maxLength").and_then(Value::as_u64)
            && text.len() as u64 > most
        {
            self.fault(path, format!("{:?} is too long for a {noun}: at most {most} bytes", cut(text)));
        }
    }

    fn fits(&mut self, pattern: &'a str, text: &str) -> bool {
        let compiled = self.patterns.entry(pattern).or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    fn called(&self, schema_type: &str) -> &'static str {
        match (schema_type, self.document.format) {
            ("string", _) => "a text",
            ("integer", _) => "a whole number",
            ("number", _) => "a number",
            ("boolean", _) => "true or false",
            ("array", _) => "a list",
            ("object", Format::Toml) => "a table",
            ("object", Format::Json) => "an object",
            _ => "null",
        }
    }

    fn found(&self, data: &Data) -> &'static str {
        self.called(match data {
            Data::Null => "null",
            Data::Bool(_) => "boolean",
            Data::Number(_) => "number",
            Data::Text(_) => "string",
            Data::List(_) => "array",
            Data::Table(_) => "object",
        })
    }
}

fn type_names(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// `TaskId` as it is said: `task id`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}
