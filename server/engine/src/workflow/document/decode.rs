//! A tree as serde reads it, without a second tree being made of it first.
//!
//! Must not: differ from what [`serde_json::Value`] would give; a test decodes both.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, IntoDeserializer, Visitor};
use serde_json::{Error, Value};

use super::{Data, Node};

impl<'de> IntoDeserializer<'de, Error> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.data {
            Data::Null => visitor.visit_unit(),
            Data::Bool(truth) => visitor.visit_bool(*truth),
            Data::Number(number) => number.deserialize_any(visitor),
            Data::Text(text) => visitor.visit_borrowed_str(text),
            Data::List(nodes) => {
                let mut nodes = SeqDeserializer::new(nodes.iter());
                let value = visitor.visit_seq(&mut nodes)?;
                nodes.end().map(|()| value)
            }
            Data::Table(entries) => {
                let fields = entries.iter().map(|entry| (entry.key.as_str(), &entry.node));
                let mut fields = MapDeserializer::new(fields);
                let value = visitor.visit_map(&mut fields)?;
                fields.end().map(|()| value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.data {
            Data::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// A choice is a word or two, or a table of one field: small enough to be copied.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        Value::from(self).deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Choice {
        Plain,
        With(u8),
        Fields { a: Option<bool> },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wrapped(String);

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        name: Wrapped,
        #[serde(default)]
        maybe: Option<i64>,
        any: Value,
    }

    /// Both ways, with the same outcome: value or words.
    fn same<T: DeserializeOwned + PartialEq + std::fmt::Debug>(value: &Value) {
        let node = Node::from(value.clone());
        let ours = T::deserialize(&node).map_err(|fault| fault.to_string());
        let theirs = T::deserialize(value.clone()).map_err(|fault| fault.to_string());
        assert_eq!(ours, theirs, "{value}");
    }

    #[test]
    fn a_tree_decodes_as_a_value_does() {
        let values = [
            json!(null),
            json!(true),
            json!(-3),
            json!(300),
            json!(u64::MAX),
            json!(1.5),
            json!("Plain"),
            json!("other"),
            json!(["a", 1]),
            json!([]),
            json!({}),
            json!({ "With": 3 }),
            json!({ "With": "x" }),
            json!({ "Fields": { "a": null } }),
            json!({ "Fields": {}, "Plain": 1 }),
            json!({ "name": "n", "any": [1, { "b": null }] }),
            json!({ "name": "n", "maybe": 4, "any": 1.25 }),
            json!({ "name": "n", "maybe": "4", "any": 1 }),
            json!({ "name": "n", "any": 1, "more": 2 }),
            json!({ "name": 1, "any": 1 }),
        ];
        for value in &values {
            same::<Value>(value);
            same::<Choice>(value);
            same::<Strict>(value);
            same::<Option<u8>>(value);
            same::<Vec<Value>>(value);
            same::<(String, i8)>(value);
            same::<BTreeMap<String, Value>>(value);
            same::<String>(value);
            same::<f64>(value);
        }
    }
}
