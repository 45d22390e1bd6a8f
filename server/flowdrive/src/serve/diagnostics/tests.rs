use serde_json::json;
use tower_lsp::lsp_types::{CodeActionOrCommand, Command};

use super::super::offers::actions;
use super::*;

const RUN: &str = "r";

fn with_run<T>(work: impl FnOnce(Run<'_>) -> T) -> T {
    let id = RunId::new(RUN).unwrap();
    work(Run { workspace: "/ws", id: &id, report: ".cw/runs/r/report.md", related: true })
}

fn task(findings: &Value) -> TaskView {
    serde_json::from_value(
        json!({"id": "map:a", "phase": "map", "status": "completed", "attempts": 1, "findings": findings}),
    )
    .unwrap()
}

fn file(path: &str, line: u32, end: Option<u32>) -> Value {
    json!({"locator": path, "kind": "file", "path": path, "line": line, "endLine": end})
}

fn record(status: &str, path: Option<&str>) -> FeedbackRecord {
    serde_json::from_value(json!({"schemaVersion": 1, "id": "f1", "runId": RUN, "createdAt": "2026-01-02T03:04:05Z",
        "updatedAt": "2026-01-02T03:04:05Z", "status": status, "severity": "high",
        "classification": "missing-evidence",
        "source": "verifier",
        "code": "missing-required-evidence", "message": "no evidence", "taskId": "map:a", "path": path, "retryable": true}))
    .unwrap()
}

fn shown_in(by_file: &ByFile, path: &str, now: &Now) -> Vec<Diagnostic> {
    let file = address(path);
    by_file[&file].iter().map(|mark| mark.shown(&file, now, Columns::Utf16)).collect()
}

fn address(path: &str) -> Url {
    Url::from_file_path(path).unwrap()
}

#[test]
fn a_finding_is_shown_at_its_first_place_and_names_the_others() {
    let task = task(&json!([
        {"id": "f-1", "summary": "no limit", "classification": "real", "severity": "P1",
         "evidence": [{"locator": "spec:x", "kind": "token"}, file("src/a b.rs", 10, Some(12)), file("src/c.rs", 3, None)]},
        {"id": "f-2", "summary": "fine", "classification": "non-issue", "severity": "none", "evidence": [file("src/c.rs", 1, None)]},
        {"id": "f-3", "summary": "nowhere", "classification": "real", "severity": "P0", "evidence": []},
    ]));
    let mut by_file = ByFile::new();
    with_run(|run| add_findings(run, &[task], &mut by_file));
    assert_eq!(by_file.keys().collect::<Vec<_>>(), [&address("/ws/src/a b.rs")]);
    let shown = shown_in(&by_file, "/ws/src/a b.rs", &Now::new()).remove(0);
    assert_eq!(shown.message, "P1: no limit (map:a)");
    assert_eq!(shown.severity, Some(DiagnosticSeverity::WARNING));
    assert_eq!(shown.range, Range::new(Position::new(9, 0), Position::new(12, 0)));
    let related = &shown.related_information.as_ref().unwrap()[0].location;
    assert_eq!((&related.uri, related.range.start.line), (&address("/ws/src/c.rs"), 2));
    let report = shown.code_description.as_ref().unwrap().href.to_file_path().unwrap();
    assert_eq!(report, Path::new("/ws/.cw/runs/r/report.md"));
}

#[test]
fn a_finding_of_any_rating_is_shown_where_editors_list_it() {
    let shown = |rating: &str| {
        let finding = json!([{"id": "f", "summary": "s", "classification": "real", "severity": rating,
            "evidence": [file("a.rs", 1, None)]}]);
        let mut by_file = ByFile::new();
        with_run(|run| add_findings(run, &[task(&finding)], &mut by_file));
        let shown = shown_in(&by_file, "/ws/a.rs", &Now::new()).remove(0);
        (shown.severity.unwrap(), shown.message)
    };
    for (rating, severity, message) in [
        ("P0", DiagnosticSeverity::ERROR, "P0: s (map:a)"),
        ("P1", DiagnosticSeverity::WARNING, "P1: s (map:a)"),
        ("P2", DiagnosticSeverity::INFORMATION, "P2: s (map:a)"),
        ("P3", DiagnosticSeverity::INFORMATION, "P3: s (map:a)"),
        ("none", DiagnosticSeverity::INFORMATION, "s (map:a)"),
    ] {
        assert_eq!(shown(rating), (severity, message.to_owned()), "{rating}");
    }
}

#[test]
fn a_finding_follows_its_lines_and_says_when_they_are_gone() {
    let cited = |path: &str, text: &str, line: u32| {
        let (digest, first) = Lines::of(text.to_owned()).cite((line, line)).unwrap();
        json!({"locator": path, "kind": "file", "path": path, "line": line, "digest": digest, "text": first})
    };
    let task = task(&json!([{"id": "f", "summary": "no limit", "classification": "real", "severity": "P0",
        "evidence": [cited("a.rs", "x\ny = \u{1f980};\n", 2), cited("b.rs", "z\n", 1)]}]));
    let mut by_file = ByFile::new();
    with_run(|run| add_findings(run, &[task], &mut by_file));
    let file = address("/ws/a.rs");
    let cites: Vec<&Url> = by_file[&file][0].cites(&file).collect();
    assert_eq!(cites, [&file, &address("/ws/b.rs")]);
    for (a, b, line, severity, stale, further) in [
        (Some("x\ny = \u{1f980};\n"), Some("z\n"), 1, DiagnosticSeverity::ERROR, false, "also here"),
        (Some("\n\nx\ny = \u{1f980};\n"), Some("z\n"), 3, DiagnosticSeverity::ERROR, false, "also here"),
        (
            Some("x\ny = 2;\n"),
            Some("w\n"),
            1,
            DiagnosticSeverity::HINT,
            true,
            "also here, but these lines have changed since",
        ),
        (None, None, 1, DiagnosticSeverity::HINT, true, "also here, but these lines have changed since"),
    ] {
        let lines = |text: Option<&str>| text.map(|text| Lines::of(text.to_owned()));
        let now = Now::from([(file.clone(), lines(a)), (address("/ws/b.rs"), lines(b))]);
        let shown = shown_in(&by_file, "/ws/a.rs", &now).remove(0);
        assert_eq!((shown.range.start.line, shown.severity), (line, Some(severity)), "{a:?}");
        assert_eq!(shown.message.contains("Stale") && shown.message.contains("\u{1f980}"), stale, "{a:?}");
        assert_eq!(About::of(&shown).unwrap().stale, stale);
        assert_eq!(shown.related_information.unwrap()[0].message, further);
        assert_eq!(shown.tags, None, "a tag would strike out or fade the code");
    }
}

#[test]
fn a_place_begins_and_ends_with_what_stands_there() {
    let range = |a: (u32, u32), b: (u32, u32)| Range::new(Position::new(a.0, a.1), Position::new(b.0, b.1));
    for (text, first, last, columns, expected) in [
        ("a\n\t  b = 1;  \r\n", 2, 2, Columns::Utf16, range((1, 3), (1, 9))),
        ("  a\n  b\nc \n", 1, 3, Columns::Utf16, range((0, 2), (2, 1))),
        (" \u{1f980}x", 1, 1, Columns::Utf16, range((0, 1), (0, 4))),
        (" \u{1f980}x", 1, 1, Columns::Utf8, range((0, 1), (0, 6))),
        ("\u{3000}x", 1, 1, Columns::Utf8, range((0, 3), (0, 4))),
        ("\u{feff}x\n", 1, 1, Columns::Utf8, range((0, 0), (0, 1))),
        ("\n  \n b\n", 1, 3, Columns::Utf16, range((0, 0), (2, 2))),
        ("a\n   \n", 2, 2, Columns::Utf16, range((1, 0), (2, 0))),
        ("a\n", 4, 5, Columns::Utf16, range((3, 0), (5, 0))),
    ] {
        let read = Some(Lines::of(text.to_owned()));
        assert_eq!(narrowed(lines(first, last), Some(&read), columns), expected, "{text:?}");
    }
    assert_eq!(narrowed(lines(3, 3), Some(&None), Columns::Utf8), lines(3, 3), "the file is gone");
    assert_eq!(narrowed(lines(3, 3), None, Columns::Utf8), lines(3, 3), "it was not looked at");
}

#[test]
fn feedback_is_shown_while_it_is_open_and_can_be_answered_there() {
    let mut by_file = ByFile::new();
    let records = [record("open", Some("src/a.rs")), record("open", None), record("resolved", None)];
    with_run(|run| add_feedback(run, &records, &["map:b".to_owned()], &mut by_file));
    assert_eq!(by_file.values().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    let shown = shown_in(&by_file, "/ws/.cw/runs/r/report.md", &Now::new());
    let offered = actions(&shown, Range::default());
    let commands: Vec<&Command> = offered
        .iter()
        .filter_map(|offer| match offer {
            CodeActionOrCommand::CodeAction(action) => action.command.as_ref(),
            CodeActionOrCommand::Command(_) => None,
        })
        .collect();
    let names: Vec<&str> = commands.iter().map(|command| command.command.as_str()).collect();
    let resolve = "flowdrive.resolveFeedback";
    assert_eq!(names, [resolve, resolve, resolve, "flowdrive.openReport"]);
    let settled = &commands[1].arguments.as_ref().unwrap()[0];
    assert_eq!((&settled["resolution"], &settled["nodeId"]), (&json!("resolved"), &json!("r:verifier:map:b")));
    let argument = &commands[0].arguments.as_ref().unwrap()[0];
    assert_eq!(argument, &json!({"workspace": "/ws", "runId": "r", "feedbackId": "f1", "resolution": "retry"}));
    assert!(serde_json::from_value::<flowdrive_protocol::method::ResolveFeedbackParams>(argument.clone()).is_ok());
    let elsewhere = Range::new(Position::new(50, 0), Position::new(50, 3));
    assert!(actions(&shown, elsewhere).is_empty());
    let titles: Vec<String> =
        super::super::offers::lenses(&shown).into_iter().map(|lens| lens.command.unwrap().title).collect();
    assert_eq!(titles.len(), 4, "{titles:?}");
    assert_eq!(titles[0], "Flowdrive: 1 waits for you");
}
