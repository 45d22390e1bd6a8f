use std::cell::RefCell;
use std::collections::BTreeMap;

use flowdrive_protocol::outcome::{Classification, EvidenceKind};
use serde_json::{Value, json};

use super::super::files::FileLookup;
use super::super::parse::{Cited, Origin, parse};
use super::super::refusal::RESULT_PARSE_ERROR;
use super::*;

/// Files in memory that count how often each is read.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, FileLookup>,
    reads: RefCell<Vec<String>>,
}

impl Tree {
    fn new() -> Self {
        let worker = ".cw/runs/r/workers/w";
        let text = |lines: u32| FileLookup::Text((1..=lines).map(|n| format!("line {n}\r\n")).collect());
        let files = [
            ("src", FileLookup::Folder),
            (".", FileLookup::Folder),
            ("src/a.rs", text(120)),
            ("src/b.rs", text(3)),
            ("src/empty.rs", text(0)),
            ("docs/my notes.md", text(5)),
            ("Makefile", text(9)),
            ("logo.png", FileLookup::Binary),
            ("link.rs", FileLookup::Outside),
            ("link", FileLookup::Outside),
            ("locked.rs", FileLookup::Unreadable("permission denied".into())),
            (".cw/runs/r/workers/w/input.md", text(9)),
            (".cw/runs/r/workers/w/artifacts/test.log", text(9)),
            (".cw/runs/r/workers/v/result.md", text(9)),
            (".cw/workflows/w.toml", text(9)),
            // Links, and a folder's other name where case does not count.
            ("docs/latest/workers/v/result.md", text(9)),
            ("docs/own.md", text(9)),
            (".CW/runs/r/workers/v/result.md", text(9)),
        ];
        let files = files.into_iter().map(|(path, lookup)| (path.to_owned(), lookup)).collect::<BTreeMap<_, _>>();
        assert!(files.contains_key(&format!("{worker}/input.md")));
        Self { files, reads: RefCell::default() }
    }
}

impl Files for Tree {
    fn read(&self, path: &str) -> FileLookup {
        self.reads.borrow_mut().push(path.to_owned());
        self.files.get(path).cloned().unwrap_or(FileLookup::Missing)
    }

    fn presence(&self, path: &str) -> Presence {
        self.files.get(path).map_or(Presence::Missing, FileLookup::presence)
    }

    fn real(&self, path: &str) -> Option<String> {
        match path {
            "docs/own.md" => Some(".cw/runs/r/workers/w/input.md".to_owned()),
            _ => path.strip_prefix("docs/latest/").map(|rest| format!(".cw/runs/r/{rest}")),
        }
    }
}

fn task(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

fn judged_as(id: &str, flag: bool, artifacts: &[&str], text: &str) -> Result<Accepted, Refusal> {
    let artifacts: Vec<String> = artifacts.iter().map(|&path| path.to_owned()).collect();
    let roots = ["/work/repo".to_owned(), "/private/work/repo".to_owned()];
    let required = Requirements {
        task_id: &task(id),
        requires_evidence: flag,
        reviews_repo: false,
        artifacts: &artifacts,
        roots: &roots,
        worker_dir: Some(".cw/runs/r/workers/w"),
    };
    judge(&required, &parse(text)?, &Tree::new())
}

fn fenced(value: &Value) -> String {
    format!("```cw:result\n{value}\n```\n")
}

/// Judged for a task that requires evidence.
fn strict(value: &Value) -> Result<Accepted, Refusal> {
    judged_as("map:a", true, &[], &fenced(value))
}

/// Judged for a task that does not.
fn lax(value: &Value) -> Result<Accepted, Refusal> {
    judged_as("map:a", false, &[], &fenced(value))
}

#[test]
fn evidence_that_holds_is_recorded_with_its_lines() {
    let accepted =
        strict(&json!({ "summary": "s", "evidence": ["`src/a.rs:10-12`", "src/b.rs", "https://x.org", "issue:4"] }))
            .unwrap();
    let [lines, file, url, token] = accepted.evidence.as_slice() else { panic!("{:?}", accepted.evidence) };
    assert_eq!((lines.locator.as_str(), lines.kind), ("src/a.rs:10-12", EvidenceKind::File));
    assert_eq!((lines.path.as_deref(), lines.line, lines.end_line), (Some("src/a.rs"), Some(10), Some(12)));
    // printf 'line 10\nline 11\nline 12' | sha256sum
    assert_eq!(
        lines.digest.as_deref(),
        Some("sha256:d21ba93b6f0897c39911e901a7b389b2883b98b1306e34be76d7106d4863867d")
    );
    assert_eq!(lines.text.as_deref(), Some("line 10"));
    assert_eq!(
        (file.kind, file.path.as_deref(), file.line, file.digest.as_deref()),
        (EvidenceKind::File, Some("src/b.rs"), None, None)
    );
    assert_eq!((url.kind, token.kind), (EvidenceKind::Url, EvidenceKind::Token));
    assert!(!accepted.empty_capture);
}

#[test]
fn every_way_to_write_a_place_that_holds_is_understood() {
    for (locator, path, lines) in [
        ("/work/repo/src/a.rs:3", "src/a.rs", Some((3, 3))),
        ("/private/work/repo/src/a.rs:3", "src/a.rs", Some((3, 3))),
        ("file:///work/repo/src/a.rs#L3-L4", "src/a.rs", Some((3, 4))),
        (r"src\a.rs:3", "src/a.rs", Some((3, 3))),
        ("./src/x/../a.rs:120", "src/a.rs", Some((120, 120))),
        ("src/a.rs:1:7", "src/a.rs", Some((1, 1))),
        ("src/a.rs, line 3", "src/a.rs", Some((3, 3))),
        ("the guard at src/a.rs:3, as said", "src/a.rs", Some((3, 3))),
        ("Node.js starts in src/a.rs:3", "src/a.rs", Some((3, 3))),
        ("docs/my notes.md:2", "docs/my notes.md", Some((2, 2))),
        ("Makefile:9", "Makefile", Some((9, 9))),
        ("logo.png", "logo.png", None),
        ("src/empty.rs", "src/empty.rs", None),
        ("src/a.rs:main", "src/a.rs", None),
        ("artifacts/test.log:4", ".cw/runs/r/workers/w/artifacts/test.log", Some((4, 4))),
        ("test.log:4", ".cw/runs/r/workers/w/artifacts/test.log", Some((4, 4))),
        (".cw/runs/r/workers/v/result.md:1", ".cw/runs/r/workers/v/result.md", Some((1, 1))),
    ] {
        let accepted =
            strict(&json!({ "evidence": [locator] })).unwrap_or_else(|refusal| panic!("{locator}: {refusal}"));
        let [evidence] = accepted.evidence.as_slice() else { panic!("{locator}: {:?}", accepted.evidence) };
        assert_eq!((evidence.path.as_deref(), evidence.line.zip(evidence.end_line)), (Some(path), lines), "{locator}");
        assert_eq!(evidence.digest.is_some(), lines.is_some(), "{locator}");
    }
    let accepted = strict(&json!({ "evidence": ["src/a.rs:3,5-6"] })).unwrap();
    assert_eq!(accepted.evidence.iter().filter_map(|evidence| evidence.line).collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn places_that_do_not_exist_are_named_with_their_fault() {
    for (locator, why, path) in [
        ("src/nope.rs", "no such file", Some("src/nope.rs")),
        ("src/a.rs:900", "the file has 120 lines", Some("src/a.rs")),
        ("src/a.rs:119-121", "the file has 120 lines", Some("src/a.rs")),
        ("src/empty.rs:1", "the file is empty", Some("src/empty.rs")),
        ("src/a.rs:12-10", "backwards", None),
        ("src/a.rs:0", "line 0", None),
        ("src/a.rs:99999999999", "no file has such a line", None),
        ("../repo2/a.rs:1", "outside the workspace", None),
        ("/etc/passwd:1", "outside the workspace", None),
        ("/work/repository/a.rs", "outside the workspace", None),
        ("link.rs:1", "outside the workspace", Some("link.rs")),
        ("link:1", "outside the workspace", Some("link")),
        ("src/a.rs:900-", "its lines cannot be read", None),
        ("src:3", "a folder", Some("src")),
        ("src/a.rs#9999", "the file has 120 lines", Some("src/a.rs")),
        ("src/a.rs#line-9999", "the file has 120 lines", Some("src/a.rs")),
        ("line 9999 of src/a.rs", "the file has 120 lines", Some("src/a.rs")),
        ("src/a.rs at line 9999", "the file has 120 lines", Some("src/a.rs")),
        ("`src/a.rs`, line 9999", "the file has 120 lines", Some("src/a.rs")),
        ("javascript:alert(1)", "names no place", None),
        ("data:text/html,<b>x</b>", "names no place", None),
        ("src/:3", "a folder", Some("src")),
        ("logo.png:3", "not a text file", Some("logo.png")),
        ("locked.rs:3", "permission denied", Some("locked.rs")),
        (".cw/runs/r/workers/w/input.md:1", "this attempt's own file", Some(".cw/runs/r/workers/w/input.md")),
        ("docs/own.md:1", "this attempt's own file", Some("docs/own.md")),
        ("Makefile:10", "the file has 9 lines", Some("Makefile")),
        ("see src/a.rs:900 there", "the file has 120 lines", Some("src/a.rs")),
        ("see src/nope.rs there", "no such file", Some("src/nope.rs")),
        ("n/a", "no such file", Some("n/a")),
    ] {
        let outcome = strict(&json!({ "evidence": ["src/a.rs:1", locator] }));
        let refusal = outcome.expect_err(locator);
        assert_eq!((refusal.code, refusal.path.as_deref()), (EVIDENCE_UNRESOLVABLE, path), "{locator}: {refusal}");
        assert!(refusal.message.contains(why), "{locator}: {refusal}");
        assert!(refusal.retryable);
        // A task that does not require evidence keeps it as ungrounded.
        let accepted = lax(&json!({ "evidence": [locator] })).unwrap();
        assert_eq!(accepted.evidence.len(), 1, "{locator}");
        assert_eq!(
            (accepted.evidence[0].kind, &accepted.evidence[0].path),
            (EvidenceKind::Ungrounded, &None),
            "{locator}"
        );
    }
}

#[test]
fn prose_about_lines_alone_is_no_evidence() {
    for locator in ["line 9999", "lines 1-3", "L9999", "javascript:alert(1)", "src:1"] {
        assert!(strict(&json!({ "evidence": [locator] })).is_err(), "{locator}");
        assert!(lax(&json!({ "findings": [{ "severity": "P1", "evidence": [locator] }] })).is_err(), "{locator}");
    }
}

#[test]
fn several_bad_places_are_all_named_once() {
    let refusal = strict(&json!({
        "evidence": ["src/a.rs:900", "src/nope.rs", "src/a.rs:900"],
        "findings": [{ "id": "f", "severity": "P3", "evidence": ["src/nope.rs", "other/nope.rs:2"] }],
    }))
    .unwrap_err();
    assert_eq!(refusal.code, EVIDENCE_UNRESOLVABLE);
    for part in ["`src/a.rs:900`", "`src/nope.rs`", "`other/nope.rs:2`"] {
        assert_eq!(refusal.message.matches(part).count(), 1, "{part}: {refusal}");
    }
}

#[test]
fn evidence_that_is_required_must_be_there() {
    for (value, given) in [
        (json!({ "summary": "s" }), "Given: none"),
        (json!({ "evidence": ["I looked at it"] }), "`I looked at it`: free text"),
        (json!({ "evidence": ["either/or is a choice"] }), "free text"),
        (json!({ "evidence": [7] }), "Given: none"),
        (json!({ "evidence": ["src/"] }), "a folder"),
        (json!({ "summary": "Node.js, e.g. v1.2.x" }), "Given: none"),
    ] {
        let refusal = strict(&value).unwrap_err();
        assert_eq!(refusal.code, MISSING_REQUIRED_EVIDENCE, "{value}: {refusal}");
        let wording = "Task map:a requires grounded cw:result evidence (a path-like locator, URL, or namespace:value \
                       token — not free text)";
        assert!(refusal.message.starts_with(wording), "{refusal}");
        assert!(refusal.message.contains(given), "{value}: {refusal}");
    }
    assert!(lax(&json!({ "summary": "s" })).unwrap().empty_capture);
    assert!(judged_as("map:a", false, &[], "").unwrap().empty_capture);
}

#[test]
fn ids_of_verifying_tasks_require_evidence_whatever_their_flag() {
    for id in ["verify:a", "verdict:synthesis", "Synthesis/x"] {
        let refusal =
            judged_as(id, false, &[], &fenced(&json!({ "evidence": ["src/nope.rs:1", "src/a.rs:1"] }))).unwrap_err();
        assert_eq!(refusal.code, EVIDENCE_UNRESOLVABLE, "{id}");
        assert_eq!(judged_as(id, false, &[], "Done.").unwrap_err().code, MISSING_REQUIRED_EVIDENCE, "{id}");
    }
}

#[test]
fn evidence_in_plain_text_counts_and_noise_in_it_does_not_refuse() {
    let accepted = judged_as("map:a", true, &[], "# R\nNode.js, e.g. in `src/a.rs:3`, and `src/`.").unwrap();
    assert_eq!(accepted.summary, "Node.js, e.g. in `src/a.rs:3`, and `src/`.");
    assert_eq!(accepted.evidence.iter().map(|evidence| evidence.locator.as_str()).collect::<Vec<_>>(), ["src/a.rs:3"]);
    let refusal = judged_as("map:a", true, &[], "In src/a.rs:3 and src/a.rs:900.").unwrap_err();
    assert_eq!(refusal.code, EVIDENCE_UNRESOLVABLE);
    assert!(refusal.message.contains("`src/a.rs:900`") && !refusal.message.contains("`src/a.rs:3`"), "{refusal}");
}

#[test]
fn grave_findings_need_evidence_of_their_own() {
    for severity in ["P0", "P1", "P2", "high", "critical", "medium"] {
        for evidence in [json!([]), json!(["trust me"]), json!(["src/a.rs:900"]), json!(["src/"])] {
            let value = json!({
                "evidence": ["src/a.rs:1"],
                "findings": [{ "id": "fine", "severity": "P1", "path": "src/a.rs", "line": 2 },
                             { "id": "leak", "severity": severity, "evidence": evidence }],
            });
            let refusal = lax(&value).unwrap_err();
            assert_eq!(refusal.code, FINDING_WITHOUT_EVIDENCE, "{value}");
            assert!(refusal.message.contains("Finding `leak`") && !refusal.message.contains("`fine`"), "{refusal}");
        }
    }
    for severity in ["P3", "low", "none", ""] {
        let accepted = lax(&json!({ "findings": [{ "severity": severity, "evidence": ["trust me"] }] })).unwrap();
        assert_eq!(accepted.findings[0].evidence[0].kind, EvidenceKind::Ungrounded, "{severity}");
    }
    let accepted =
        lax(&json!({ "findings": [{ "severity": "P1", "evidence": ["src/a.rs:900", "src/a.rs:9"] }] })).unwrap();
    let kinds: Vec<_> = accepted.findings[0].evidence.iter().map(|evidence| evidence.kind).collect();
    assert_eq!(kinds, [EvidenceKind::Ungrounded, EvidenceKind::File]);
}

#[test]
fn a_result_may_stand_on_what_its_findings_stand_on() {
    let value = json!({
        "evidence": ["as the findings say"],
        "findings": [{ "id": "f", "severity": "P1", "classification": "confirmed", "evidence": ["src/a.rs:9"] },
                     { "id": "g", "evidence": ["src/a.rs:9"] }],
    });
    let locators =
        |accepted: &Accepted| accepted.evidence.iter().map(|evidence| evidence.locator.clone()).collect::<Vec<_>>();
    let accepted = strict(&value).unwrap();
    assert_eq!(locators(&accepted), ["as the findings say", "src/a.rs:9"]);
    assert_eq!(accepted.findings[0].classification, Classification::Real);
    assert_eq!(locators(&lax(&value).unwrap()), ["as the findings say"]);
}

#[test]
fn a_task_about_the_workspace_is_not_answered_by_flowdrives_own_files() {
    let judged = |reviews_repo: bool, evidence: &[&str]| {
        let id = task("map:a");
        let required = Requirements {
            task_id: &id,
            requires_evidence: true,
            reviews_repo,
            artifacts: &[],
            roots: &["/work/repo".to_owned()],
            worker_dir: Some(".cw/runs/r/workers/w"),
        };
        judge(&required, &parse(&fenced(&json!({ "evidence": evidence }))).unwrap(), &Tree::new())
    };
    let own = [".cw/runs/r/workers/v/result.md:1", ".cw/runs/r/workers/v/result.md:2"];
    let refusal = judged(true, &own).unwrap_err();
    assert_eq!(refusal.code, OFF_TARGET);
    assert!(refusal.message.contains("result.md:2"), "{refusal}");
    assert!(judged(true, &[&own[..], &["src/a.rs:1", "src/b.rs:1"]].concat()).is_err(), "half is too much");
    assert!(judged(true, &[&own[..], &["src/a.rs:1", "src/a.rs:2", "src/b.rs:1"]].concat()).is_ok());
    assert!(judged(true, &own[..1]).is_ok(), "one place is no pattern");
    assert!(judged(true, &[&own[..1], &["src/a.rs:1"]].concat()).is_ok());
    assert!(judged(false, &own).is_ok(), "a task about results may cite them");
    for (first, second) in [
        ("docs/latest/workers/v/result.md:1", "docs/latest/workers/v/result.md:2"),
        ("docs/latest/workers/v/result.md:1", ".cw/runs/r/workers/v/result.md:1"),
        (".CW/runs/r/workers/v/result.md:1", ".CW/runs/r/workers/v/result.md:2"),
        ("src/../.cw/runs/r/workers/v/result.md:1", ".cw//runs/./r/workers/v/result.md:2"),
        ("/work/repo/.cw/runs/r/workers/v/result.md:1", "/work/repo/src/../.cw/runs/r/workers/v/result.md:2"),
        ("file:///work/repo/.cw/runs/r/workers/v/result.md#L1", ".cw\\runs\\r\\workers\\v\\result.md:2"),
    ] {
        assert_eq!(judged(true, &[first, second]).map_err(|refusal| refusal.code), Err(OFF_TARGET), "{first} {second}");
        assert!(judged(false, &[first, second]).is_ok(), "{first} {second}");
    }
    let workflows = [".cw/workflows/w.toml:1", ".cw/workflows/w.toml:2"];
    assert!(judged(true, &workflows).is_ok(), "workflows are the user's");
}

#[test]
fn artifacts_must_exist() {
    for path in [
        "src/b.rs",
        "test.log",
        "artifacts/test.log",
        "/work/repo/logo.png",
        "src",
        "`src/b.rs`",
        "file:///work/repo/logo.png",
    ] {
        assert!(lax(&json!({ "artifacts": [path] })).is_ok(), "{path}");
    }
    for (path, why) in
        [("nope.md", "no such file"), ("../x.md", "outside"), ("/etc/passwd", "outside"), ("link.rs", "outside")]
    {
        for name in ["artifacts", "artifact_paths", "artifactPaths"] {
            let refusal = lax(&json!({ name: ["src/b.rs", path] })).unwrap_err();
            assert_eq!(refusal.code, MISSING_ARTIFACT_PATH, "{path}");
            assert!(refusal.message.contains(&format!("`{path}` (named by the result): {why}")), "{refusal}");
        }
    }
    assert!(judged_as("map:a", false, &["docs/my notes.md", "src/b.rs"], "Done.").is_ok());
    let refusal = judged_as("map:a", false, &["out/report.md"], "Done.").unwrap_err();
    assert_eq!((refusal.code, refusal.path.as_deref()), (MISSING_ARTIFACT_PATH, Some("out/report.md")));
    assert!(refusal.message.contains("`out/report.md` (promised by the task)"), "{refusal}");
}

#[test]
fn everything_wrong_is_said_at_once() {
    let refusal = strict(&json!({
        "artifacts": ["nope.md"],
        "evidence": ["src/nope.rs:1"],
        "findings": [{ "id": "leak", "severity": "P0", "evidence": ["trust me"] }],
    }))
    .unwrap_err();
    assert_eq!(refusal.code, EVIDENCE_UNRESOLVABLE);
    for part in ["`src/nope.rs:1`", "Finding `leak`", "`nope.md`"] {
        assert!(refusal.message.contains(part), "{part}: {refusal}");
    }
    assert_eq!(refusal.message.lines().count(), 3);
    assert_eq!(judged_as("a", false, &[], "```cw:result\nnull\n```").unwrap_err().code, RESULT_PARSE_ERROR);
}

#[test]
fn each_file_is_read_at_most_once_and_only_for_its_lines() {
    let locators: Vec<String> = (1..=100).map(|n| format!("src/a.rs:{n}")).chain(["src/b.rs".into()]).collect();
    let result =
        parse(&fenced(&json!({ "evidence": locators, "findings": [{ "path": "src/a.rs", "line": 3 }] }))).unwrap();
    let tree = Tree::new();
    let id = task("map:a");
    let required = Requirements {
        task_id: &id,
        requires_evidence: true,
        reviews_repo: false,
        artifacts: &[],
        roots: &[],
        worker_dir: None,
    };
    judge(&required, &result, &tree).unwrap();
    assert_eq!(*tree.reads.borrow(), ["src/a.rs"]);
}

#[path = "judge_properties.rs"]
mod properties;
