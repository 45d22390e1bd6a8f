use super::*;

fn at(path: &str, lines: impl Into<Option<(u32, u32)>>) -> Locator {
    Locator::File { path: path.into(), lines: lines.into() }
}

#[test]
fn files_are_known_by_their_shape() {
    for (text, path, lines) in [
        ("src/a.rs", "src/a.rs", None),
        ("a.rs:10", "a.rs", Some((10, 10))),
        ("a.rs:10-12", "a.rs", Some((10, 12))),
        ("a.rs:10–12", "a.rs", Some((10, 12))),
        ("a.rs:L10-L12", "a.rs", Some((10, 12))),
        ("a.rs:10:5", "a.rs", Some((10, 10))),
        ("a.rs:10:5-9", "a.rs", Some((10, 10))),
        ("a.rs:10:5-12:3", "a.rs", Some((10, 12))),
        ("a.rs#L10", "a.rs", Some((10, 10))),
        ("a.rs#L10-L12", "a.rs", Some((10, 12))),
        ("a.rs#L10-12", "a.rs", Some((10, 12))),
        ("a.rs#L10C5-L12C9", "a.rs", Some((10, 12))),
        ("a.rs#10", "a.rs", Some((10, 10))),
        ("a.rs#10-12", "a.rs", Some((10, 12))),
        ("a.rs#line-10", "a.rs", Some((10, 10))),
        ("docs/a.md#2-usage", "docs/a.md", None),
        ("docs/a.md#step-2", "docs/a.md", None),
        ("a.rs(10)", "a.rs", Some((10, 10))),
        ("a.rs(10,5)", "a.rs", Some((10, 10))),
        (r"src\sub\a.rs:3", "src/sub/a.rs", Some((3, 3))),
        ("./src//a.rs", "src/a.rs", None),
        ("src/x/../a.rs:1", "src/a.rs", Some((1, 1))),
        ("/work/a.rs:1", "/work/a.rs", Some((1, 1))),
        (r"C:\work\a.rs:1", "C:/work/a.rs", Some((1, 1))),
        ("file:///work/my%20file.rs#L4", "/work/my file.rs", Some((4, 4))),
        ("file:///C:/work/a.rs", "C:/work/a.rs", None),
        ("file:src/a.rs:2", "src/a.rs", Some((2, 2))),
        ("src/Makefile:7", "src/Makefile", Some((7, 7))),
        ("src/a.rs:main", "src/a.rs", None),
        ("src/a.rs:L1cache", "src/a.rs", None),
        ("src/a.rs:line_2", "src/a.rs", None),
        ("src/a.rs:~Drop", "src/a.rs", None),
        ("src/a.rs::tests::works", "src/a.rs", None),
        ("docs/a.md#usage", "docs/a.md", None),
        ("app/[id]/(group)/page.tsx:3", "app/[id]/(group)/page.tsx", Some((3, 3))),
        ("src/", "src", None),
        ("n/a", "n/a", None),
    ] {
        assert_eq!(classify(text), at(path, lines), "{text}");
    }
}

#[test]
fn wrappings_are_taken_off() {
    for text in [
        " `src/a.rs:10` ",
        "\"src/a.rs:10\",",
        "(src/a.rs:10).",
        "<src/a.rs:10>",
        "**`src/a.rs:10`**",
        "[the start](src/a.rs#L10)",
        "src/a.rs:10;",
    ] {
        assert_eq!(classify(text), at("src/a.rs", (10, 10)), "{text}");
    }
}

#[test]
fn urls_and_tokens_are_grounded_and_free_text_is_not() {
    for text in ["https://example.com/a.rs:10", "HTTP://example.com", "vscode+x://y", "s3://bucket/key"] {
        assert_eq!(classify(text), Locator::Url, "{text}");
    }
    for text in ["issue:42", "commit:abc/def", "crates.io:serde", "Makefile:10", "pkg:npm/left-pad", "semver:1.2.3"] {
        assert_eq!(classify(text), Locator::Token, "{text}");
    }
    for text in [
        "",
        " ",
        "confirmed",
        "I looked at it",
        "either/or is a choice",
        "http://",
        "std::fs::read",
        "a:",
        ":b",
        "...",
        "note: nothing",
        "a\u{0}/b.rs",
    ] {
        assert_eq!(classify(text), Locator::Ungrounded(Flaw::FreeText), "{text:?}");
    }
}

#[test]
fn prose_counts_for_the_first_locator_in_it() {
    assert_eq!(classify("the guard in src/a.rs:10 and b.rs:2"), at("src/a.rs", (10, 10)));
    assert_eq!(classify("src/a.rs, lines 10 to 12"), at("src/a.rs", (10, 12)));
    assert_eq!(classify("see https://example.com/x."), Locator::Url);
}

#[test]
fn impossible_spans_are_no_evidence() {
    for (text, flaw) in [
        ("a.rs:0", Flaw::LineZero),
        ("a.rs:0-4", Flaw::LineZero),
        ("a.rs:12-10", Flaw::Backwards),
        ("a.rs#L12-L10", Flaw::Backwards),
        ("src/a.rs:99999999999", Flaw::LineTooLarge),
        ("src/a.rs:1-99999999999999999999999", Flaw::LineTooLarge),
        ("src/a.rs:9999-", Flaw::UnreadableLines),
        ("src/a.rs:L9999-", Flaw::UnreadableLines),
        ("src/a.rs:9999..10001", Flaw::UnreadableLines),
        ("src/a.rs:-9999", Flaw::UnreadableLines),
        ("src/a.rs:9999+", Flaw::UnreadableLines),
        ("src/a.rs:~9999", Flaw::UnreadableLines),
        ("src/a.rs:9999-x", Flaw::UnreadableLines),
        ("src/a.rs:line9999", Flaw::UnreadableLines),
        ("src/a.rs#9999-", Flaw::UnreadableLines),
        ("src/a.rs#L9999..", Flaw::UnreadableLines),
        ("src/a.rs#12-10", Flaw::Backwards),
        ("src/a.rs#0", Flaw::LineZero),
        ("javascript:alert(1)", Flaw::Script),
        ("JavaScript:alert(1)//a.rs:1", Flaw::Script),
        ("javascript://x.org/%0aalert(1)", Flaw::Script),
        ("data:text/html,x", Flaw::Script),
        ("vbscript:msgbox", Flaw::Script),
        ("view-source:https://x.org", Flaw::Script),
        ("../a.rs:1", Flaw::Outside),
        ("src/../../a.rs", Flaw::Outside),
        (r"..\..\etc\passwd", Flaw::Outside),
    ] {
        assert_eq!(classify(text), Locator::Ungrounded(flaw), "{text}");
    }
}

#[test]
fn ids_of_verifying_tasks_require_evidence() {
    for (id, flag, wanted) in [
        ("map:a", false, false),
        ("map:a", true, true),
        ("verify:a", false, true),
        ("VERDICT/a", false, true),
        ("Synthesis:a@r2", false, true),
        ("verdict", false, false),
        ("verdicts:a", false, false),
        ("map:verify:a", false, false),
    ] {
        assert_eq!(requires_evidence(id, flag), wanted, "{id}");
    }
}
