use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fenced(value: &Value) -> String {
    format!("# Result\n\nIntro at x/intro.rs:1\n```cw:result\n{value}\n```\nOutro at x/outro.rs:1\n")
}

fn read(value: &Value) -> ParsedResult {
    parse(&fenced(value)).unwrap()
}

#[test]
fn a_full_block_is_read() {
    let result = read(&json!({
        "summary": " It holds. ",
        "findings": [{ "id": "f", "severity": "P1", "classification": "real", "evidence": ["src/a.rs:3"] }],
        "evidence": ["src/b.rs:2", "src/a.rs:1"],
        "artifacts": ["out.md", " out.md ", { "path": "more.md" }, 3],
        "artifactPaths": ["last.md"],
    }));
    assert_eq!(result.summary, "It holds.");
    assert_eq!(result.findings.len(), 1);
    assert_eq!(result.evidence.locators, ["src/b.rs:2", "src/a.rs:1"]);
    assert_eq!(result.evidence.origin, Origin::Declared);
    assert_eq!(result.artifacts, ["out.md", "more.md", "last.md"]);
    assert!(!result.empty_capture);
}

#[test]
fn the_summary_has_many_names_and_a_fallback() {
    for name in SUMMARY {
        assert_eq!(read(&json!({ *name: "s", "other": "o" })).summary, "s", "{name}");
    }
    assert_eq!(read(&json!({ "summary": "", "verdict": 3, "answer": "a", "conclusion": "c" })).summary, "a");
    assert_eq!(read(&json!({})).summary, "Intro at x/intro.rs:1");
    assert_eq!(parse("# T\n```cw:result\n{}\n```\nafter").unwrap().summary, "after");
    assert_eq!(parse("```cw:result\n{}\n```").unwrap().summary, "");
}

#[test]
fn findings_have_many_names() {
    for name in FINDINGS {
        assert_eq!(read(&json!({ *name: [{ "id": "x" }, "y"] })).findings.len(), 2, "{name}");
    }
    let result = read(&json!({ "findings": [], "issues": "none", "risks": [{ "id": "r" }], "concerns": [1, 2] }));
    assert_eq!(result.findings[0].id, "r");
    assert_eq!(result.findings.len(), 1);
    assert!(read(&json!({ "findings": { "id": "x" } })).findings.is_empty());
}

#[test]
fn declared_evidence_is_kept_as_it_is() {
    let result =
        read(&json!({ "evidence": ["b.rs:1", "free text", { "path": "a.rs", "line": 3 }, 7, null, ["c.rs"]] }));
    assert_eq!(result.evidence.locators, ["b.rs:1", "free text", "a.rs:3"]);
    let result = read(&json!({ "evidence": [7] }));
    assert_eq!(result.evidence, Cited { locators: vec![], origin: Origin::Declared });
    assert_eq!(read(&json!({ "evidence": "a.rs:3" })).evidence.locators, ["a.rs:3"]);
}

#[test]
fn without_declared_evidence_everything_is_searched_and_sorted() {
    let result = read(&json!({
        "id": "never/this.rs",
        "summary": "see z.rs:1",
        "evidence": [],
        "artifacts": ["made.md"],
        "findings": [{ "id": "nor/that.rs", "path": "src/a.rs", "line": 3 }, { "text": "B.rs" }],
    }));
    assert_eq!(result.evidence.origin, Origin::Harvested);
    assert_eq!(result.evidence.locators, ["B.rs", "src/a.rs", "src/a.rs:3", "x/intro.rs:1", "x/outro.rs:1", "z.rs:1"]);
}

#[test]
fn a_text_without_a_block_is_a_result() {
    let result = parse("\u{feff}\n# Title\r\n\r\n```sh\nFirst line.  \r\nsee src/a.rs:3\n").unwrap();
    assert_eq!(result.summary, "First line.");
    assert_eq!(result.evidence, Cited { locators: vec!["src/a.rs:3".into()], origin: Origin::Harvested });
    assert!(result.findings.is_empty() && !result.empty_capture);
    let empty = parse("").unwrap();
    assert!(empty.empty_capture && empty.summary.is_empty());
    assert!(parse("Nothing found.").unwrap().empty_capture);
}

#[test]
fn only_the_first_block_counts() {
    let text = format!("{}\n{}", fenced(&json!({ "summary": "one" })), fenced(&json!({ "summary": "two" })));
    assert_eq!(parse(&text).unwrap().summary, "one");
    assert!(parse("```cw:result\nnot json\n```\n```cw:result\n{}\n```").is_err());
}

#[test]
fn what_is_no_object_is_refused_cleanly() {
    for (body, fault) in [
        ("null", "found null"),
        ("3", "found a number"),
        ("\"x\"", "found a string"),
        ("[{}]", "found an array"),
        ("true", "found a boolean"),
        ("", "EOF"),
        ("{\"a\": }", "line 1 column 7"),
        ("{} {}", "trailing"),
        ("{\"a\":1,}", "trailing comma"),
    ] {
        let refusal = parse(&format!("```cw:result\n{body}\n```")).unwrap_err();
        assert_eq!(refusal.code, RESULT_PARSE_ERROR, "{body}");
        assert!(refusal.message.starts_with("Invalid cw:result JSON: "), "{}", refusal.message);
        assert!(refusal.message.contains(fault), "{body}: {}", refusal.message);
        assert!(refusal.retryable);
    }
}

#[test]
fn a_block_cut_off_is_refused_and_a_forgotten_fence_is_not() {
    let refusal = parse("intro\n```cw:result\n{\"summary\": \"half").unwrap_err();
    assert!(refusal.message.contains("not closed"), "{}", refusal.message);
    assert_eq!(parse("```cw:result\n{\"summary\": \"whole\"}\n").unwrap().summary, "whole");
}

#[test]
fn back_quotes_inside_the_json_do_not_end_the_block() {
    let result =
        parse("```cw:result\r\n{\"summary\": \"use ```rust\", \"evidence\": [\"a.rs\"]}\r\n```\r\ntail").unwrap();
    assert_eq!(result.summary, "use ```rust");
    assert_eq!(result.evidence.locators, ["a.rs"]);
}

#[test]
fn odd_encodings_are_read() {
    let result = parse("\u{feff}```cw:result\u{feff}\n{\"summary\": \"x\\ud800y\"}\n```").unwrap();
    assert_eq!(result.summary, "x\u{fffd}y");
    assert_eq!(parse("text ```cw:result {\"summary\":\"inline\"}``` text").unwrap().summary, "inline");
}

#[test]
fn huge_and_deep_input_is_bounded() {
    let deep = format!("```cw:result\n{}{}\n```", "{\"a\":".repeat(200_000), "}".repeat(200_000));
    assert_eq!(parse(&deep).unwrap_err().code, RESULT_PARSE_ERROR);
    // Each of these would take very long if any part of reading were quadratic.
    for unit in [
        "a.rs:1 ",
        "`",
        "`a.rs` ",
        "a",
        "a.",
        "[x](",
        "http://",
        "```cw:result",
        "\\ud800",
        "a.rs   ",
        "**",
        "((",
        "a:",
    ] {
        let text = unit.repeat(100_000 / unit.len());
        let _ = parse(&text);
        let _ = parse(&format!("```cw:result\n{}\n```", json!({ "summary": text, "x": [text] })));
    }
    let many: String = (0..1000).map(|n| format!("f{n}.rs:1\n")).collect();
    assert_eq!(parse(&many).unwrap().evidence.locators.len(), HARVESTED_EVIDENCE);
    assert!(parse(&"x".repeat(100_000)).unwrap().summary.len() <= SUMMARY_BYTES);
}

/// JSON of every shape, with the names that mean something and strings that look like something.
pub(in crate::accept) fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        r"[a-z/]{1,6}\.rs(:[0-9]{1,3}(-[0-9]{1,3})?)?",
        "(P[0-4]|high|real|non-issue|[a-z]+:[a-z0-9]+)",
        r"[ \\`./:#a-zé\[\]()-]{0,20}",
        ".{0,20}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    let name = prop_oneof![
        proptest::sample::select(
            [SUMMARY, FINDINGS, ARTIFACTS, finding::LABELS, &["evidence", "path", "line", "lines", "where", "files"]]
                .concat()
        )
        .prop_map(str::to_owned),
        "[a-z]{1,3}",
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in r#"(```|cw:result|[\s{}"a-z:,\[\]\\u0-9./#é`]){0,80}"#) {
        if let Err(refusal) = parse(&text) {
            prop_assert_eq!(refusal.code, RESULT_PARSE_ERROR);
        }
    }

    #[test]
    fn any_object_is_read_and_what_is_harvested_is_grounded(value in any_json()) {
        match parse(&fenced(&value)) {
            Ok(result) => {
                prop_assert!(value.is_object());
                let findings = result.findings.iter().map(|finding| &finding.evidence);
                for cited in findings.chain([&result.evidence]).filter(|cited| cited.origin == Origin::Harvested) {
                    let mut sorted = cited.locators.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    prop_assert_eq!(&sorted, &cited.locators);
                    for locator in &cited.locators {
                        prop_assert!(!matches!(classify(locator), Locator::Ungrounded(_)), "{locator}");
                        prop_assert!(!locator.contains(char::is_whitespace), "{locator}");
                    }
                }
                prop_assert_eq!(result.empty_capture, result.findings.is_empty() && result.evidence.locators.is_empty());
            }
            Err(refusal) => {
                prop_assert!(!value.is_object(), "{}", refusal.message);
                prop_assert!(refusal.message.contains("expected an object"));
            }
        }
    }
}
