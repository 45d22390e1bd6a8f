//! Whether a client made for one protocol schema can speak to a server of another one. Pure.
//!
//! What a client sends may be accepted more widely, what it gets may be said more narrowly; anything else breaks it.
//! Events and kinds of errors may be added: clients pass over those they do not know.
//!
//! Must not: know a type by its name.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Every way in which `new` breaks a client made for `old`: where, and how.
pub(super) fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut walk = Walk { old, new, seen: BTreeSet::new(), found: Vec::new() };
    for (name, method) in entries(&old["methods"]) {
        let Some(now) = new["methods"].get(name) else {
            walk.report(name, "the method is gone");
            continue;
        };
        walk.compare(&method["params"], &now["params"], Way::In, &format!("{name} params"));
        walk.compare(&method["result"], &now["result"], Way::Out, &format!("{name} result"));
    }
    for (name, notification) in entries(&old["notifications"]) {
        match new["notifications"].get(name) {
            Some(now) => walk.compare(&notification["params"], &now["params"], Way::OutOpen, name),
            None => walk.report(name, "the notification is gone"),
        }
    }
    for error in old["errors"].as_array().into_iter().flatten() {
        if !new["errors"].as_array().is_some_and(|errors| errors.contains(error)) {
            walk.report(&format!("error {}", error["kind"]), "it is gone, or has another code");
        }
    }
    let data = |root: &Value| root["$defs"]["ErrorData"].clone();
    walk.compare(&data(old), &data(new), Way::OutOpen, "error data");
    walk.found
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Which way a value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// From the client.
    In,
    /// To the client.
    Out,
    /// To the client, which passes over alternatives it does not know.
    OutOpen,
}

struct Walk<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Pairs of types that have been compared, or are being.
    seen: BTreeSet<(String, String, Way)>,
    found: Vec<String>,
}

impl<'a> Walk<'a> {
    fn report(&mut self, place: &str, what: impl AsRef<str>) {
        self.found.push(format!("{place}: {}", what.as_ref()));
    }

    fn compare(&mut self, old: &Value, new: &Value, way: Way, place: &str) {
        if let (Some(one), Some(other)) = (old["$ref"].as_str(), new["$ref"].as_str())
            && !self.seen.insert((one.to_owned(), other.to_owned(), way))
        {
            return;
        }
        let (old_root, new_root) = (self.old, self.new);
        let (old, new) = (resolved(old_root, old), resolved(new_root, new));
        if is_any(old) || is_any(new) {
            if is_any(old) != is_any(new) && (way == Way::In) == is_any(old) {
                self.report(
                    place,
                    if way == Way::In { "not anything goes any more" } else { "it may be anything now" },
                );
            }
            return;
        }
        let (before, now) = (alternatives(old_root, old), alternatives(new_root, new));
        for (key, schema) in &before {
            match now.iter().find(|(other, _)| other == key) {
                Some((_, other)) => self.leaf(schema, other, way, place),
                None if way == Way::In => self.report(place, format!("{key} is not accepted any more")),
                None => {}
            }
        }
        // Kinds of errors may come also where a result tells them.
        let kinds = error_kinds(old_root);
        let open = !before.is_empty() && before.iter().all(|(key, _)| kinds.contains(key));
        for (key, _) in &now {
            if way == Way::Out && !open && !before.iter().any(|(other, _)| other == key) {
                self.report(place, format!("it may be {key} now"));
            }
        }
        // Alternatives with fields in common have them beside the alternatives.
        if old["oneOf"].is_array() && old["properties"].is_object() {
            self.object(old, new, way, place);
        }
    }

    /// Two alternatives of the same kind.
    fn leaf(&mut self, old: &Value, new: &Value, way: Way, place: &str) {
        if old["properties"].is_object() || new["properties"].is_object() {
            self.object(old, new, way, place);
        }
        if let (Some(old), Some(new)) = (map_values(old), map_values(new)) {
            self.compare(old, new, way, &format!("{place}.*"));
        }
        if old["items"].is_object() || new["items"].is_object() {
            self.compare(&old["items"], &new["items"], way, &format!("{place}[]"));
        }
        if way != Way::In {
            return;
        }
        let (least, now) = (old["minimum"].as_f64(), new["minimum"].as_f64());
        if now.is_some_and(|now| least.is_none_or(|least| now > least)) {
            self.report(place, format!("must be at least {} now", new["minimum"]));
        }
        for bound in ["maximum", "maxLength", "maxItems"] {
            let (most, now) = (old[bound].as_f64(), new[bound].as_f64());
            if now.is_some_and(|now| most.is_none_or(|most| now < most)) {
                self.report(place, format!("`{bound}` is {} now", new[bound]));
            }
        }
        if new["pattern"].is_string() && old["pattern"] != new["pattern"] {
            self.report(place, format!("must match {} now", new["pattern"]));
        }
    }

    fn object(&mut self, old: &Value, new: &Value, way: Way, place: &str) {
        let (needed, needed_now) = (required(old), required(new));
        for (name, schema) in entries(&old["properties"]) {
            let here = format!("{place}.{name}");
            match new["properties"].get(name) {
                Some(now) => self.compare(schema, now, way, &here),
                None => self.report(&here, "the field is gone"),
            }
            if way != Way::In && needed.contains(name.as_str()) && !needed_now.contains(name.as_str()) {
                self.report(&here, "it may be absent now");
            }
        }
        if way == Way::In {
            for name in needed_now.difference(&needed) {
                self.report(&format!("{place}.{name}"), "it must be given now");
            }
        }
    }
}

/// The kinds of errors, written as alternatives are.
fn error_kinds(root: &Value) -> BTreeSet<String> {
    root["errors"].as_array().into_iter().flatten().map(|error| error["kind"].to_string()).collect()
}

fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    // A schema that refers to itself alone says nothing; nobody writes one.
    for _ in 0..16 {
        let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#')));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Whether every value fits.
fn is_any(schema: &Value) -> bool {
    let says_something = |object: &Map<String, Value>| {
        object.keys().any(|key| !matches!(key.as_str(), "description" | "default" | "title"))
    };
    *schema == Value::Bool(true) || schema.as_object().is_some_and(|object| !says_something(object))
}

/// What a value may be: each with a name to find its like in another version.
fn alternatives<'a>(root: &'a Value, schema: &'a Value) -> Vec<(String, &'a Value)> {
    for word in ["oneOf", "anyOf"] {
        if let Some(list) = schema[word].as_array() {
            return list.iter().flat_map(|one| alternatives(root, resolved(root, one))).collect();
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| (value.to_string(), schema)).collect();
    }
    if let Some(types) = schema["type"].as_array() {
        return types.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), schema)).collect();
    }
    let name = if let Some(value) = schema.get("const") {
        value.to_string()
    } else if let Some(tag) = schema["properties"]["type"].get("const") {
        format!("an object of type {tag}")
    } else if schema["additionalProperties"] == Value::Bool(false) && schema["properties"].is_object() {
        // Told apart by the one field that each has.
        format!("an object with {}", required(schema).into_iter().collect::<Vec<_>>().join(", "))
    } else {
        schema["type"].as_str().unwrap_or("object").to_owned()
    };
    vec![(name, schema)]
}

fn map_values(schema: &Value) -> Option<&Value> {
    let pattern = schema["patternProperties"].as_object().and_then(|patterns| patterns.values().next());
    pattern.or_else(|| schema.get("additionalProperties").filter(|values| values.is_object()))
}

fn required(schema: &Value) -> BTreeSet<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A protocol of one method with one field each way.
    fn protocol(params: &Value, result: &Value) -> Value {
        json!({
            "methods": {"m": {"params": {"$ref": "#/$defs/P"}, "result": {"$ref": "#/$defs/R"}}},
            "notifications": {"n": {"params": {"$ref": "#/$defs/N"}}},
            "errors": [{"code": -1, "kind": "k"}],
            "$defs": {
                "P": {"type": "object", "properties": {"p": params}},
                "R": {"type": "object", "properties": {"r": result}, "required": ["r"]},
                "N": {"properties": {"seq": {"type": "integer"}}, "required": ["seq"], "oneOf": [
                    {"type": "object", "properties": {"type": {"const": "a"}, "x": {"type": "string"}}, "required": ["type", "x"]}]},
                "ErrorData": {"type": "object", "properties": {"kind": {"oneOf": [{"const": "k"}]}}, "required": ["kind"]},
                "E": {"oneOf": [{"const": "one"}, {"const": "two"}]},
                "F": {"oneOf": [{"const": "one"}]},
            },
        })
    }

    fn text() -> Value {
        json!({"type": "string"})
    }

    #[test]
    fn what_goes_in_may_widen_and_what_comes_out_may_narrow() {
        let number = |least: u32| json!({"type": "integer", "minimum": least});
        let e = json!({"$ref": "#/$defs/E"});
        let f = json!({"$ref": "#/$defs/F"});
        let maybe = json!({"type": ["string", "null"]});
        let list = |of: &Value| json!({"type": "array", "items": of});
        let object = |required: &[&str]| json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": required});
        let smaller = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        for (old, new, breaks_in, breaks_out) in [
            (text(), text(), false, false),
            (text(), json!({"type": "integer"}), true, true),
            (text(), maybe.clone(), false, true),
            (maybe, text(), true, false),
            (text(), json!(true), false, true),
            (json!(true), text(), true, false),
            (number(0), number(1), true, false),
            (number(1), number(0), false, false),
            (json!({"type": "string"}), json!({"type": "string", "maxLength": 5}), true, false),
            (json!({"type": "string", "pattern": "^a"}), json!({"type": "string", "pattern": "^b"}), true, false),
            (e.clone(), f.clone(), true, false),
            (f.clone(), e.clone(), false, true),
            (list(&e), list(&f), true, false),
            (list(&f), list(&e), false, true),
            (
                json!({"type": "object", "additionalProperties": e}),
                json!({"type": "object", "additionalProperties": f}),
                true,
                false,
            ),
            (object(&[]), object(&["a"]), true, false),
            (object(&["a"]), object(&[]), false, true),
            (object(&[]), smaller.clone(), true, true),
            (smaller, object(&[]), false, false),
        ] {
            let inward = breaks(&protocol(&old, &text()), &protocol(&new, &text()));
            assert_eq!(!inward.is_empty(), breaks_in, "in: {old} to {new}: {inward:?}");
            let outward = breaks(&protocol(&text(), &old), &protocol(&text(), &new));
            assert_eq!(!outward.is_empty(), breaks_out, "out: {old} to {new}: {outward:?}");
            assert!(inward.iter().all(|one| one.starts_with("m params.p")), "{inward:?}");
            assert!(outward.iter().all(|one| one.starts_with("m result.r")), "{outward:?}");
        }
    }

    #[test]
    fn methods_events_and_errors_may_come_but_not_go() {
        let old = protocol(&text(), &text());
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            (breaks(&old, &new), breaks(&new, &old))
        };
        let another = json!({"type": "object", "properties": {"type": {"const": "b"}}, "required": ["type"]});
        for (what, change) in [
            (
                "a method",
                &(|new: &mut Value| new["methods"]["more"] = new["methods"]["m"].clone()) as &dyn Fn(&mut Value),
            ),
            ("a notification", &|new| new["notifications"]["more"] = new["notifications"]["n"].clone()),
            ("an error", &|new| new["errors"].as_array_mut().unwrap().push(json!({"code": -2, "kind": "l"}))),
        ] {
            let (added, removed) = changed(change);
            assert_eq!((added.len(), removed.len()), (0, 1), "{what}: {added:?} {removed:?}");
        }
        let (added, _) = changed(&|new| new["$defs"]["N"]["oneOf"].as_array_mut().unwrap().push(another.clone()));
        assert!(added.is_empty(), "an event: {added:?}");
        let (added, _) = changed(&|new| {
            new["$defs"]["ErrorData"]["properties"]["kind"]["oneOf"]
                .as_array_mut()
                .unwrap()
                .push(json!({"const": "l"}));
        });
        assert!(added.is_empty(), "a kind: {added:?}");
        let told = |kinds: Value| protocol(&text(), &json!({"enum": kinds}));
        assert!(breaks(&told(json!(["k"])), &told(json!(["k", "l"]))).is_empty(), "a kind that a result tells");
        assert!(!breaks(&told(json!(["k", "x"])), &told(json!(["k", "x", "l"]))).is_empty(), "what is no kind");
        for (what, change) in [
            (
                "a field of an event",
                &(|new: &mut Value| {
                    drop(new["$defs"]["N"]["oneOf"][0]["properties"].as_object_mut().unwrap().remove("x"));
                }) as &dyn Fn(&mut Value),
            ),
            ("a field of all events", &|new| new["$defs"]["N"]["required"] = json!([])),
            ("a code", &|new| new["errors"][0]["code"] = json!(-9)),
            ("a new required param", &|new| new["$defs"]["P"]["required"] = json!(["p"])),
        ] {
            assert!(!changed(change).0.is_empty(), "{what}");
        }
    }

    #[test]
    fn a_type_that_holds_itself_is_compared_once() {
        let mut old = protocol(&text(), &text());
        old["$defs"]["R"]["properties"]["r"] = json!({"$ref": "#/$defs/R"});
        assert!(breaks(&old, &old).is_empty());
    }
}
