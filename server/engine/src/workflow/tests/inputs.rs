//! Values that a run is planned with.

use flowdrive_protocol::ids::InputName;
use flowdrive_protocol::workflow::BindResult;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn workflow() -> Workflow {
    let value = json!({
        "schemaVersion": 1, "id": "w", "title": "W",
        "inputs": {
            "question": { "type": "string", "required": true },
            "count": { "type": "number", "default": 3 },
            "deep": { "type": "boolean", "default": false },
            "where": { "type": "path", "repeated": true },
            "data": { "type": "json" },
            "tags": { "type": "string", "repeated": true, "default": ["a"] }
        }
    });
    load_inline(value).unwrap().workflow
}

fn given(value: Value) -> BTreeMap<InputName, Value> {
    serde_json::from_value(value).unwrap()
}

fn workspace() -> tempfile::TempDir {
    let workspace = tempfile::tempdir().unwrap();
    write(workspace.path(), "src/main.rs", "fn main() {}");
    workspace
}

#[test]
fn defaults_are_filled_in_and_values_come_out_in_one_form() {
    let workspace = workspace();
    let plan = |value| plan_inputs(&workflow(), &given(value), workspace.path()).map(|planned| json!(planned)).unwrap();
    assert_eq!(plan(json!({ "question": "q" })), json!({ "question": "q", "count": 3, "deep": false, "tags": ["a"] }));
    assert_eq!(
        plan(
            json!({ "question": "{{count}}", "count": "4.5", "deep": "true", "where": "./src/../src", "data": null, "tags": "b" })
        ),
        json!({ "question": "{{count}}", "count": 4.5, "deep": true, "where": ["src"], "data": null, "tags": ["b"] })
    );
    assert_eq!(plan(json!({ "question": "q", "count": null }))["count"], 3);
    let absolute = workspace.path().join("src/main.rs");
    assert_eq!(plan(json!({ "question": "q", "where": [absolute, "."] }))["where"], json!(["src/main.rs", "."]));
}

#[test]
fn every_fault_names_its_input() {
    let workspace = workspace();
    let refused = |value| plan_inputs(&workflow(), &given(value), workspace.path()).unwrap_err().faults;
    assert_eq!(refused(json!({})), ["Missing required input: question"]);
    assert_eq!(refused(json!({ "question": null })), ["Missing required input: question"]);
    assert_eq!(refused(json!({ "question": "  " })), ["Missing required input: question (it was given, but empty)"]);
    assert_eq!(
        refused(
            json!({ "question": 1, "count": "many", "deep": "maybe", "where": ["src", "gone"], "tags": [1], "qestion": "" })
        ),
        [
            "Input count: expected a number, found a text",
            "Input deep: expected true or false (or yes, on, 1, no, off, 0), found a text",
            "Input question: expected a text, found a number",
            "Input tags: value 1: expected a text, found a number",
            "Input where: value 2: \"gone\" does not exist in the workspace",
            "Unknown input: qestion; did you mean `question`? Workflow w takes: count, data, deep, question, tags, where",
        ]
    );
    assert!(refused(json!({ "question": "q", "where": "../" }))[0].contains("leaves the workspace"));
    let error = crate::EngineError::from(plan_inputs(&workflow(), &given(json!({})), workspace.path()).unwrap_err());
    assert!(matches!(error, crate::EngineError::InvalidParams(text) if text == "Missing required input: question"));
}

#[test]
fn a_sub_workflow_gets_templates_whole_values_and_the_parents_question() {
    let sub = SubWorkflow {
        id: "w".into(),
        inputs: serde_json::from_value(json!({
            "count": "{{n}}", "tags": "{{list}}", "where": "{{absent}}", "deep": "{{absent}}"
        }))
        .unwrap(),
        bind_result: BindResult::Report,
    };
    let parent = given(json!({ "question": "why?", "n": 7, "list": ["x", "y"] }));
    let child = child_inputs(&sub, &parent, &workflow());
    assert_eq!(json!(child), json!({ "question": "why?", "count": 7, "tags": ["x", "y"] }));
    assert!(plan_inputs(&workflow(), &child, workspace().path()).is_ok());

    let sub = SubWorkflow {
        inputs: serde_json::from_value(json!({ "question": "About {{n}}{{absent}}: {{question}}" })).unwrap(),
        ..sub
    };
    assert_eq!(json!(child_inputs(&sub, &parent, &workflow())), json!({ "question": "About 7: why?" }));
}

proptest! {
    #[test]
    fn planning_what_was_planned_changes_nothing(question in "[a-z]{1,9}", count in any::<i32>(), tags in proptest::collection::vec("[a-z{}]{0,5}", 1..4)) {
        let workspace = workspace();
        let once = plan_inputs(&workflow(), &given(json!({ "question": question, "count": count, "tags": tags, "where": "src" })), workspace.path()).unwrap();
        let twice = plan_inputs(&workflow(), &once, workspace.path()).unwrap();
        prop_assert_eq!(once, twice);
    }
}

#[test]
fn a_nul_is_refused_at_the_door_wherever_it_is() {
    let workspace = workspace();
    let refused = |value| plan_inputs(&workflow(), &given(value), workspace.path()).unwrap_err().faults;
    for (value, input) in [
        (json!({ "question": "a\u{0}b" }), "question"),
        (json!({ "question": "q", "where": ["src", "src\u{0}"] }), "where"),
        (json!({ "question": "q", "tags": "\u{0}" }), "tags"),
        (json!({ "question": "q", "data": { "a": [1, "x\u{0}"] } }), "data"),
        (json!({ "question": "q", "data": { "a\u{0}": 1 } }), "data"),
    ] {
        let faults = refused(value.clone());
        assert!(
            faults.len() == 1 && faults[0].starts_with(&format!("Input {input}: holds a NUL character")),
            "{value}: {faults:?}"
        );
    }
    // Other control characters can be passed on.
    assert!(plan_inputs(&workflow(), &given(json!({ "question": "a\u{1}\u{1b}b\n" })), workspace.path()).is_ok());
}
