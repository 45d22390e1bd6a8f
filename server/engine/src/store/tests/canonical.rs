use proptest::prelude::*;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::store::canonical::{sha256_hex, to_string};

#[test]
fn one_value_has_one_form() {
    let cases = [
        (
            json!({"b": 1, "a": {"d": [1, 2, {"z": 0, "y": 0}], "c": null}}),
            r#"{"a":{"c":null,"d":[1,2,{"y":0,"z":0}]},"b":1}"#,
        ),
        (json!({"Z": 1, "a": 2, "_": 3, "10": 4, "9": 5, "": 6}), r#"{"":6,"10":4,"9":5,"Z":1,"_":3,"a":2}"#),
        (
            json!([1.0, 1.5, 1e21, -0.0, 1e-7, u64::MAX, i64::MIN]),
            "[1.0,1.5,1e+21,-0.0,1e-7,18446744073709551615,-9223372036854775808]",
        ),
        (
            json!("tab\t quote\" slash/ back\\ \u{7f} \u{1} é \u{1F600}"),
            "\"tab\\t quote\\\" slash/ back\\\\ \u{7f} \\u0001 é \u{1F600}\"",
        ),
        (json!([]), "[]"),
        (json!({}), "{}"),
    ];
    for (value, form) in cases {
        assert_eq!(to_string(&value).unwrap(), form);
    }
    // Byte order, not the order of UTF-16 units, which has these two the other way round.
    assert_eq!(to_string(&json!({"\u{1F600}": 1, "\u{FF5E}": 2})).unwrap(), "{\"\u{FF5E}\":2,\"\u{1F600}\":1}");
}

#[test]
fn what_has_no_json_form_is_an_error() {
    let map: std::collections::BTreeMap<Vec<u8>, u8> = [(vec![1], 1)].into();
    assert!(to_string(&map).is_err());
}

#[test]
fn digests_are_the_ones_everybody_computes() {
    assert_eq!(sha256_hex(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(sha256_hex("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A map as its pairs stand, in whatever order, with whatever keys twice.
#[derive(Debug, Clone)]
struct Pairs(Vec<(String, Nested)>);

#[derive(Debug, Clone)]
enum Nested {
    Leaf(Value),
    Map(Pairs),
    List(Vec<Pairs>),
}

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl Serialize for Nested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(value) => value.serialize(serializer),
            Self::Map(pairs) => pairs.serialize(serializer),
            Self::List(items) => items.serialize(serializer),
        }
    }
}

fn any_pairs() -> impl Strategy<Value = Pairs> {
    // Few keys, so that some come twice; some that are escaped, whose escaped form sorts elsewhere.
    let key = || prop_oneof!["[abc\"\\\\~]{0,2}", ".{0,3}", Just("\u{1}".to_owned()), Just("!".to_owned())];
    let leaf = any_json().prop_map(Nested::Leaf);
    let nested = leaf.prop_recursive(3, 20, 4, move |inner| {
        let pairs = || prop::collection::vec((key(), inner.clone()), 0..5).prop_map(Pairs);
        prop_oneof![pairs().prop_map(Nested::Map), prop::collection::vec(pairs(), 0..4).prop_map(Nested::List)]
    });
    let key = prop_oneof!["[abc\"\\\\~]{0,2}", ".{0,3}"];
    prop::collection::vec((key, nested), 0..8).prop_map(Pairs)
}

/// The same by way of a tree, sorted there.
fn by_tree(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                by_tree(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let sorted: std::collections::BTreeMap<&[u8], (&String, &Value)> =
                members.iter().map(|(key, member)| (key.as_bytes(), (key, member))).collect();
            out.push('{');
            for (index, (key, member)) in sorted.into_values().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&serde_json::to_string(key).unwrap());
                out.push(':');
                by_tree(member, out);
            }
            out.push('}');
        }
        scalar => out.push_str(&serde_json::to_string(scalar).unwrap()),
    }
}

proptest! {
    #[test]
    fn the_form_reads_back_and_is_stable(value in any_json()) {
        let form = to_string(&value).unwrap();
        let back: Value = serde_json::from_str(&form).unwrap();
        prop_assert_eq!(to_string(&back).unwrap(), form);
    }

    #[test]
    fn the_form_is_that_of_the_tree_with_its_members_sorted(value in any_pairs()) {
        let mut expected = String::new();
        by_tree(&serde_json::to_value(&value).unwrap(), &mut expected);
        prop_assert_eq!(to_string(&value).unwrap(), expected);
    }
}
