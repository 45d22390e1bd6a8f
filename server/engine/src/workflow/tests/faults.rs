//! Each rule, with the place that the fault is reported at.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn faults(result: Result<LoadedWorkflow, WorkflowError>) -> Vec<(String, Option<u64>, String)> {
    match result {
        Err(WorkflowError::Invalid(faults)) => {
            faults.iter().map(|fault| (fault.field.clone(), fault.line, fault.message.clone())).collect()
        }
        other => panic!("expected faults, got {other:?}"),
    }
}

/// The head of a TOML workflow: lines 1 to 3.
const HEAD: &str = "schemaVersion = 1\nid = \"w\"\ntitle = \"W\"\n";
/// A phase with one good task: six lines.
const BODY: &str = "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nprompt = \"x\"\n\n";

#[test]
fn every_fault_in_toml_names_its_field_and_line() {
    // What follows the head, the field, the line, and words of the message.
    let table: &[(&str, &str, u64, &[&str])] = &[
        (
            "[[phases]]\nid = \"p\"\ntsks = []\n",
            "phases[0].tsks",
            6,
            &["unknown field `tsks`", "`tasks`", "loop, mode"],
        ),
        (
            "[[phases]]\nid = \"p\"\nmode = \"paralel\"\n",
            "phases[0].mode",
            6,
            &["\"paralel\"", "did you mean `parallel`", "sequential"],
        ),
        ("[[phases]]\ntitle = \"p\"\n", "phases[0].id", 4, &["missing field `id`"]),
        ("[[phases]]\nid = 7\n", "phases[0].id", 5, &["expected a text, found a number"]),
        ("[[phases]]\nid = \"a b\"\n", "phases[0].id", 5, &["\"a b\" is not a valid phase id"]),
        ("phases = 3\n", "phases", 4, &["expected a list, found a number"]),
        ("[inputs.q]\ntype = \"text\"\n", "inputs.q.type", 5, &["unknown value \"text\"", "string, path, number"]),
        ("[inputs.\"a b\"]\ntype = \"string\"\n", "inputs.\"a b\"", 4, &["not a valid name"]),
        (
            "[inputs.q]\ntype = \"number\"\ndefault = \"many\"\n",
            "inputs.q.default",
            6,
            &["expected a number, found a text"],
        ),
        ("[inputs.q]\ntype = \"path\"\ndefault = \"../x\"\n", "inputs.q.default", 6, &["leaves the workspace"]),
        (
            "[inputs.q]\ntype = \"string\"\nrepeated = true\ndefault = [\"a\", 1]\n",
            "inputs.q.default",
            7,
            &["value 2: expected a text"],
        ),
        ("[limits]\nmaxConcurrentAgents = 0\n", "limits.maxConcurrentAgents", 5, &["at least 1", "not 0"]),
        (
            "[limits]\nmaxAgents = 2\nmaxConcurrentAgents = 3\n",
            "limits.maxConcurrentAgents",
            6,
            &["is 3, more than maxAgents, which is 2"],
        ),
        ("[limits]\nmaxAgents = 4294967296\n", "limits.maxAgents", 5, &["at most 4294967295"]),
        ("[limits]\nmaxAgents = 1.5\n", "limits.maxAgents", 5, &["whole number"]),
        ("[limits]\ntokenBudget = nan\n", "limits.tokenBudget", 5, &["finite"]),
        ("summary = 1979-05-27\n", "summary", 4, &["is a date"]),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\n",
            "phases[0].tasks[0].prompt",
            6,
            &["must not be empty"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nprompt = \" \"\n",
            "phases[0].tasks[0].prompt",
            8,
            &["must not be empty"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t@r2\"\nprompt = \"x\"\n",
            "phases[0].tasks[0].id",
            7,
            &["@r2"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nprompt = \"x\"\ntimeoutMs = 0\n",
            "phases[0].tasks[0].timeoutMs",
            9,
            &["at least 1"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nprompt = \"x\"\nartifacts = [\"a\", \"/etc/x\"]\n",
            "phases[0].tasks[0].artifacts[1]",
            9,
            &["relative to the workspace"],
        ),
        (
            "[inputs.question]\ntype = \"string\"\n[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nprompt = \"x\"\nresultCache = { keyInput = \"questoin\" }\n",
            "phases[0].tasks[0].resultCache.keyInput",
            11,
            &["did you mean `question`"],
        ),
        (
            "[[phases]]\nid = \"p\"\nloop = { maxRounds = 2, until = { findingsBelo = \"P2\" } }\n",
            "phases[0].loop.until.findingsBelo",
            6,
            &["did you mean `findingsBelow`", "noNewFindings"],
        ),
        (
            "[[phases]]\nid = \"p\"\nloop = { maxRounds = 2, until = \"P2\" }\n",
            "phases[0].loop.until",
            6,
            &["with one of noNewFindings"],
        ),
        (
            "[[phases]]\nid = \"p\"\nloop = { maxRounds = 2, until = { noNewFindings = false } }\n",
            "phases[0].loop.until.noNewFindings",
            6,
            &["must be true"],
        ),
        (
            "[[phases]]\nid = \"p\"\nloop = { maxRounds = 2, until = { budgetTarget = 0 } }\n",
            "phases[0].loop.until.budgetTarget",
            6,
            &["at least 1"],
        ),
        (
            "[[phases]]\nid = \"p\"\nloop = { maxRounds = 0, until = { budgetTarget = 1 } }\n",
            "phases[0].loop.maxRounds",
            6,
            &["at least 1"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nsubWorkflow = { id = \"quick-survy\", inputs = { question = \"x\" } }\n",
            "phases[0].tasks[0].subWorkflow.id",
            8,
            &["No workflow `quick-survy`", "did you mean `quick-survey`"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nsubWorkflow = { id = \"quick-survey\", inputs = { question = \"x\", q = \"\" } }\n",
            "phases[0].tasks[0].subWorkflow.inputs.q",
            8,
            &["no input of workflow quick-survey"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nsubWorkflow = { id = \"quick-survey\" }\n",
            "phases[0].tasks[0].subWorkflow.id",
            8,
            &["needs the input `question`"],
        ),
        (
            "[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nsubWorkflow = { id = \"../x.toml\" }\n",
            "phases[0].tasks[0].subWorkflow.id",
            8,
            &["names no workflow"],
        ),
    ];
    for (rest, field, line, words) in table {
        let found = faults(load_text("toml", &format!("{HEAD}{rest}")));
        assert_eq!(found.len(), 1, "{rest}: {found:?}");
        assert_eq!((found[0].0.as_str(), found[0].1), (*field, Some(*line)), "{rest}: {found:?}");
        for word in *words {
            assert!(found[0].2.contains(word), "{word:?} is not in {:?}", found[0].2);
        }
    }
}

#[test]
fn a_text_that_is_no_toml_or_json_is_refused_with_its_line() {
    for (extension, text, line) in [
        ("toml", "schemaVersion = 1\nid = \n", 2),
        ("toml", "a = 1\na = 2\n", 2),
        ("toml", "a = 1\n\n[b\n", 3),
        ("toml", "x = \"\u{0}\"", 1),
        ("json", "{\n  \"id\": \"w\",\n}", 3),
        ("json", "{\n\"id\": \"w\"", 2),
        ("json", "", 1),
        ("json", "{}\n{}", 2),
    ] {
        let found = faults(load_text(extension, text));
        assert_eq!(found[0].1, Some(line), "{text:?}: {found:?}");
        assert!(found[0].2.contains("is not valid"), "{found:?}");
    }
    assert!(faults(load_text("json", "[1]"))[0].2.contains("expected an object, found a list"));
    assert_eq!(faults(load_text("toml", "\n\n"))[0].0, "schemaVersion");
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_line() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("w.toml"), b"id = 1\n\xff\n").unwrap();
    let found = faults(load(WorkflowRef::Path("w.toml".into()), workspace.path()));
    assert_eq!((found[0].1, found[0].2.as_str()), (Some(2), "is not UTF-8 text"));
}

#[test]
fn json_has_the_same_faults_with_lines_and_refuses_a_field_given_twice() {
    let text = r#"{
  "schemaVersion": 1, "id": "w", "title": "W",
  "phases": [
    { "id": "p",
      "tasks": [
        { "id": "t", "prompt": "caf\u00e9 \"{{q}}\"" },
        { "id": "t", "prompt": "",
          "agent": null, "extra": [1, {"a": -1.5e3}], "id": "u" }
      ] }
  ]
}"#;
    let found = faults(load_text("json", text));
    let places: Vec<_> = found.iter().map(|(field, line, _)| (field.as_str(), *line)).collect();
    assert_eq!(places, [("phases[0].tasks[1].id", Some(7)), ("phases[0].tasks[1].extra", Some(8))]);
    let found = faults(load_text("json", &text.replace(r#", "extra": [1, {"a": -1.5e3}], "id": "u""#, "")));
    let places: Vec<_> = found.iter().map(|(field, line, _)| (field.as_str(), *line)).collect();
    assert_eq!(places, [("phases[0].tasks[1].id", Some(7)), ("phases[0].tasks[1].prompt", Some(7))]);
    assert!(found[0].2.starts_with("Duplicate task id: t"), "{found:?}");
}

#[test]
fn all_faults_are_told_at_once_and_the_first_is_the_place() {
    let text = format!(
        "{HEAD}[limits]\nmaxAgents = 1\nmaxConcurrentAgents = 1\n{BODY}{}",
        BODY.replace("prompt", "artifacts = [\"..\"]\nprompt")
    );
    let error = load_text("toml", &text).unwrap_err();
    let message = error.to_string();
    assert_eq!(
        message.lines().collect::<Vec<_>>(),
        [
            "w.toml:5: limits.maxAgents: is 1, but the workflow has 2 tasks, loops counted in full",
            "w.toml:14: phases[1].id: Duplicate phase id: p",
            "w.toml:16: phases[1].tasks[0].id: Duplicate task id: t (also in phase p)",
            "w.toml:17: phases[1].tasks[0].artifacts[0]: the path leaves the workspace",
        ]
    );
    let crate::EngineError::Fault { data, .. } = crate::EngineError::from(error) else { panic!("a fault") };
    assert_eq!(data.kind, flowdrive_protocol::error::ErrorKind::WorkflowInvalid);
    assert_eq!(
        (data.file.as_deref(), data.line, data.field.as_deref()),
        (Some("w.toml"), Some(5), Some("limits.maxAgents"))
    );
    assert!(data.hint.contains("4 fields"), "{}", data.hint);
}

#[test]
fn an_inline_workflow_has_the_same_faults_without_file_and_line() {
    let found = faults(load_inline(json!({ "schemaVersion": 1, "id": "W", "title": "", "phasess": [] })));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(_, line, _)| line.is_none()));
    assert_eq!(found[0].0, "id");
    assert!(found[1].2.contains("did you mean `phases`"));
    assert_eq!(faults(load_inline(json!({ "schemaVersion": 1, "id": "w", "title": " " })))[0].0, "title");
    assert_eq!(faults(load_inline(json!(null)))[0].2, "expected an object, found null");
}

#[test]
fn another_schema_version_is_named_and_hides_every_other_fault() {
    for (version, word) in [("2", "newer"), ("0", "reads only 1"), ("-1", "reads only 1"), ("1.5", "reads only 1")] {
        let found = faults(load_text("toml", &format!("id = \"w\"\nschemaVersion = {version}\nnewField = true\n")));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.as_str(), found[0].1), ("schemaVersion", Some(2)));
        assert!(found[0].2.contains(word), "{found:?}");
    }
}

#[test]
fn loops_count_in_full_against_the_limit_on_tasks() {
    let looped = |limit: u32| {
        format!(
            "{HEAD}[limits]\nmaxAgents = {limit}\nmaxConcurrentAgents = 1\n[[phases]]\nid = \"p\"\nloop = {{ maxRounds = 5, until = {{ noNewFindings = true }} }}\n[[phases.tasks]]\nid = \"t\"\nprompt = \"x\"\n"
        )
    };
    assert!(load_text("toml", &looped(5)).is_ok());
    assert!(faults(load_text("toml", &looped(4)))[0].2.contains("has 5 tasks"));
    let huge = looped(5).replace("maxRounds = 5", "maxRounds = 4294967295");
    assert!(faults(load_text("toml", &huge))[0].2.contains("4294967295 tasks"));
}

#[test]
fn an_id_that_a_loop_would_make_too_long_is_refused() {
    let id = "t".repeat(178);
    let text = format!(
        "{HEAD}[[phases]]\nid = \"p\"\nloop = {{ maxRounds = 3, until = {{ noNewFindings = true }} }}\n[[phases.tasks]]\nid = \"{id}\"\nprompt = \"x\"\n"
    );
    assert!(faults(load_text("toml", &text))[0].2.contains("at most 177 bytes"));
    assert!(load_text("toml", &text.replace(&id, &id[1..])).is_ok());
}

#[test]
fn likely_slips_are_warnings_with_their_place() {
    let text = format!(
        "{HEAD}[inputs.question]\ntype = \"string\"\n[[phases]]\nid = \"p\"\nloop = {{ maxRounds = 2, until = {{ predicate = \"no-new-finding\" }} }}\n[[phases.tasks]]\nid = \"t\"\nprompt = \"{{{{questoin}}}} {{{{question}}}}\"\n"
    );
    let loaded = load_text("toml", &text).unwrap();
    let warnings: Vec<_> = loaded.warnings.iter().map(|w| (w.field.as_str(), w.line.unwrap())).collect();
    assert_eq!(
        warnings,
        [("phases[0].loop.until.predicate", 8), ("phases[0].tasks[0].prompt", 11), ("phases[0].tasks[0].prompt", 11)]
    );
    assert!(loaded.warnings[0].message.contains("did you mean `no-new-findings`"));
    assert!(loaded.warnings.iter().any(|w| w.message.contains("`{{questoin}}`")));
    assert!(load_text("toml", HEAD).unwrap().warnings[0].message.contains("nothing to do"));
}

/// Pieces that workflows are made of, so that arbitrary sequences get far into the reader.
fn toml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("[[phases]]\n".to_owned()),
        Just("[[phases.tasks]]\n".to_owned()),
        Just("[inputs.q]\n".to_owned()),
        Just("schemaVersion = 1\n".to_owned()),
        Just("id = \"w\"\n".to_owned()),
        Just("title = \"W\"\n".to_owned()),
        Just("prompt = \"{{q}}\"\n".to_owned()),
        Just("loop = { maxRounds = 2, until = { noNewFindings = true } }\n".to_owned()),
        Just("subWorkflow.id = \"quick-survey\"\n".to_owned()),
        Just("type = \"path\"\n".to_owned()),
        "[a-z.]{1,4} = [0-9a-z\"\\[\\]{}.-]{1,6}\n",
        "\\PC{0,12}",
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_makes_the_reader_panic_and_every_fault_has_a_line(text in toml_like()) {
        if let Err(WorkflowError::Invalid(faults)) = load_text("toml", &text) {
            for fault in faults.iter() {
                let line = fault.line.expect("a text has lines");
                prop_assert!(line >= 1 && line <= text.matches('\n').count() as u64 + 1, "{} in {:?}", line, text);
            }
        }
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        for format in [document::Format::Toml, document::Format::Json] {
            if let Err(faults) = Document::read(Some("f".into()), format, &bytes) {
                prop_assert!(faults.first().line.is_some());
            }
        }
    }

    #[test]
    fn json_reads_as_serde_json_reads_it(text in "[\\[\\]{}:,\" a-c0-9.eE+\\\\u\\n-]{0,30}") {
        let theirs = serde_json::from_str::<Value>(&text);
        let ours = Document::read(None, document::Format::Json, text.as_bytes());
        prop_assert_eq!(theirs.is_ok(), ours.is_ok(), "{:?}", text);
    }

    #[test]
    fn any_json_value_survives_the_reader(keys in proptest::collection::vec("\\PC{0,8}", 0..5), number in any::<i64>(), text in "\\PC{0,20}") {
        let mut fields = serde_json::Map::new();
        for key in keys {
            fields.insert(key, json!([number, text, null, true, { "x": { "y": [] } }]));
        }
        let value = Value::Object(fields);
        for shown in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let read = Document::read(None, document::Format::Json, shown.as_bytes()).unwrap();
            prop_assert_eq!(read.to_value(), value.clone());
        }
    }
}

#[test]
fn a_nul_in_what_reaches_a_command_line_is_a_fault() {
    let document = |task: serde_json::Value, default: &str| {
        json!({ "schemaVersion": 1, "id": "w", "title": "W", "inputs": { "q": { "type": "string", "default": default } },
            "phases": [{ "id": "p", "tasks": [task] }] })
    };
    for (task, default, field) in [
        (json!({ "id": "t", "prompt": "a\u{0}b" }), "", "phases[0].tasks[0].prompt"),
        (json!({ "id": "t", "prompt": "x", "model": "m\u{0}" }), "", "phases[0].tasks[0].model"),
        (json!({ "id": "t", "prompt": "x" }), "\u{0}", "inputs.q.default"),
        (
            json!({ "id": "t", "prompt": "x", "subWorkflow": { "id": "quick-survey", "inputs": { "question": "\u{0}" } } }),
            "",
            "phases[0].tasks[0].subWorkflow.inputs.question",
        ),
    ] {
        let found = faults(load_inline(document(task, default)));
        assert!(
            found.iter().any(|(at, _, message)| at == field && message.contains("NUL character")),
            "{field}: {found:?}"
        );
    }
}
