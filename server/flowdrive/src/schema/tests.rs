//! The committed schemas, types and tables, and what was released.

use super::*;

#[test]
fn the_committed_schemas_are_up_to_date() {
    let committed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema"));
    check(committed).unwrap_or_else(|error| panic!("{error}"));
}

/// The one copy, which the VS Code extension is compiled with too.
#[test]
fn the_typescript_clients_types_are_up_to_date() {
    let copy = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/typescript/src/protocol.ts"));
    assert!(
        std::fs::read_to_string(copy).unwrap() == type_script(),
        "run `npm run types` in clients/typescript after `{REPAIR}`"
    );
}

#[test]
fn the_tables_in_the_guide_are_up_to_date() {
    let guide = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md"));
    check_docs(guide).unwrap_or_else(|error| panic!("{error}"));
}

/// A breaking change needs a new protocol version, and with it a new file in `schema/released/`.
#[test]
fn clients_of_the_released_protocol_still_fit() {
    let released = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/released"));
    let released = released.join(format!("protocol-{PROTOCOL_VERSION}.schema.json"));
    check_against(&released).unwrap_or_else(|error| panic!("{error}\nStep PROTOCOL_VERSION, or take it back."));
}

#[test]
fn a_change_that_breaks_clients_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.json");
    let mut old = protocol_schema();
    old["methods"]["fly"] = old["methods"]["drive"].clone();
    std::fs::write(&path, old.to_string()).unwrap();
    let error = check_against(&path).unwrap_err().to_string();
    assert!(error.contains("fly: the method is gone"), "{error}");
    std::fs::write(&path, "[]").unwrap();
    assert!(matches!(check_against(&path), Err(SchemaError::NotASchema { .. })));
}

#[test]
fn every_method_of_the_server_is_described() {
    let (_, methods) = protocol(SchemaSettings::draft2020_12());
    let described: Vec<&str> = methods.iter().map(|method| method.name).collect();
    assert_eq!(described, crate::serve::METHODS);
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(root: &Value, value: &Value, found: &mut usize) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(reference)) = object.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(root.pointer(pointer).is_some(), "{reference}");
                    *found += 1;
                }
                object.values().for_each(|value| walk(root, value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(root, value, found)),
            _ => {}
        }
    }
    for name in Name::ALL {
        let (name, text) = (name.file(), name.text());
        let root: Value = serde_json::from_str(&text).unwrap();
        let mut found = 0;
        walk(&root, &root, &mut found);
        assert!(found > 0, "{name} has no references at all");
    }
}

#[test]
fn a_stale_file_is_named_with_the_repair() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path()).unwrap();
    check(folder.path()).unwrap();
    std::fs::write(folder.path().join("openrpc.json"), "{}").unwrap();
    let error = check(folder.path()).unwrap_err().to_string();
    assert!(error.contains("openrpc.json") && error.contains(REPAIR) && !error.contains("workflow"), "{error}");
}
