//! Every secret below is made up.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const CANARY: &str = "canary-made-up-for-tests";

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn redactor(pairs: &[(&str, &str)]) -> Arc<Redactor> {
    Arc::new(Redactor::new(&env(pairs)))
}

fn args(redactor: &Redactor, args: &[&str]) -> Vec<String> {
    redactor.redact_args(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
}

#[test]
fn arguments_are_redacted_by_flag_inline_form_and_look() {
    let none = Redactor::default();
    let table: &[(&[&str], &[&str])] = &[
        (&["--api-key", "x", "y"], &["--api-key", REDACTED, "y"]),
        (&["--TOKEN", "x"], &["--TOKEN", REDACTED]),
        (&["--token"], &["--token"]),
        (&["--token", "--key", "z"], &["--token", REDACTED, "z"]),
        (&["--tokens", "x"], &["--tokens", "x"]),
        (&["--my-api-key=x=y"], &["--my-api-key=<redacted>"]),
        (&["-password=a\nb"], &["-password=<redacted>"]),
        (&["--model=gpt"], &["--model=gpt"]),
        (&["sk-made-up"], &[REDACTED]),
        (&["ghp_made"], &[REDACTED]),
        (&["github_pat_made"], &[REDACTED]),
        (&["xoxb-made-up"], &[REDACTED]),
        (&["Bearer made-up"], &[REDACTED]),
        (&["a-word-of-more-than-thirty-two-characters"], &[REDACTED]),
        (&["a word of more than thirty-two characters"], &["a word of more than thirty-two characters"]),
        (&["/a/path/of/more/than/thirty-two/characters"], &["/a/path/of/more/than/thirty-two/characters"]),
        (&["https://u:pw@host/x"], &["https://<redacted>@host/x"]),
    ];
    for (given, expected) in table {
        assert_eq!(args(&none, given), *expected, "{given:?}");
    }
}

#[test]
fn values_of_secrets_are_found_wherever_they_turn_up() {
    let redactor = redactor(&[
        ("GH_TOKEN", CANARY),
        ("ANTHROPIC_API_KEY", "another-made-up"),
        ("CW_SOMETHING", "made-up-third"),
        ("DATABASE_URL", "postgres://u:made-up-pw@db/x"),
    ]);
    assert_eq!(args(&redactor, &[&format!("--x=a{CANARY}b")]), ["--x=a<redacted>b"]);
    assert_eq!(redactor.redact_text("say another-made-up twice another-made-up"), "say <redacted> twice <redacted>");
    assert_eq!(redactor.redact_text("made-up-third made-up-pw"), "<redacted> <redacted>");
    assert_eq!(redactor.redact_text("nothing here"), "nothing here");
    assert!(!format!("{redactor:?}").contains("canary"));
}

#[test]
fn settings_and_common_words_are_left_alone() {
    let redactor = redactor(&[
        ("HOME", "/home/someone"),
        ("USER", "someone"),
        ("ANTHROPIC_MODEL", "sonnet-x"),
        ("AWS_REGION", "eu-central-1"),
        ("CW_AGENT_TIMEOUT_MS", "600000"),
        ("CW_HOME", "/home/someone/cw"),
        ("CW_FLAG", "enabled"),
        ("OPENAI_SHORT", "abc"),
        ("SOME_TOKEN", "someone"),
        ("RANDOM", "just-a-value"),
    ]);
    let text = "sonnet-x eu-central-1 600000 /home/someone/cw enabled abc someone just-a-value";
    assert_eq!(redactor.redact_text(text), text);
}

#[test]
fn a_value_with_line_ends_is_found_raw_and_as_json_spells_it() {
    let key = "-----BEGIN MADE UP-----\nAAAA\n\"BBBB\"\n-----END-----";
    let redactor = redactor(&[("CW_AGENT_ATTEST_PRIVKEY", key)]);
    assert_eq!(redactor.redact_text(&format!("a{key}b")), "a<redacted>b");
    let json = serde_json::to_string(key).unwrap();
    assert_eq!(redactor.redact_text(&json), "\"<redacted>\"");
}

#[test]
fn keys_are_found_inside_text_and_digests_are_not() {
    let none = Redactor::default();
    assert_eq!(none.redact_text("got sk-made-up-for-tests-1 back"), "got <redacted> back");
    assert_eq!(none.redact_text("Authorization: Bearer made.up.value"), "Authorization: <redacted>");
    let digest = format!("sha256:{}", "ab".repeat(32));
    assert_eq!(none.redact_text(&digest), digest);
}

#[test]
fn urls_lose_credentials_and_query() {
    assert_eq!(redact_url("http://u:p@h:1/a/b?token=x#f"), "http://h:1/a/b");
    assert_eq!(redact_url("http://h"), "http://h");
    assert_eq!(redact_url("http://h?x=http://u@v"), "http://h");
    assert_eq!(redact_url("http://h/a@b"), "http://h/a@b");
}

fn streamed(redactor: &Arc<Redactor>, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    let mut at = 0;
    for cut in cuts {
        let next = (at + cut).min(bytes.len());
        out.extend_from_slice(&stream.push(&bytes[at..next]));
        at = next;
    }
    out.extend_from_slice(&stream.push(&bytes[at..]));
    out.extend_from_slice(&stream.finish());
    out
}

#[test]
fn a_stream_passes_on_at_once_what_cannot_be_a_value() {
    let redactor = redactor(&[("X_TOKEN", "secret-one")]);
    let mut stream = redactor.stream();
    assert_eq!(&*stream.push(b"hello sec"), b"hello ");
    assert_eq!(&*stream.push(b"ond"), b"second");
    assert_eq!(&*stream.push(b" secret-on"), b" ");
    assert_eq!(&*stream.push(b"e!"), b"<redacted>!");
    assert_eq!(stream.finish(), b"");
}

proptest! {
    /// However a stream is cut, it is redacted as the whole text would be.
    #[test]
    fn cuts_change_nothing(
        parts in prop::collection::vec(prop_oneof![
            Just("abcabc"), Just("abcabcd"), Just("cabcab"), Just("xyzzyx"), Just("abc"), Just("ab"), Just("xyz"), Just("\n"),
        ], 0..12),
        cuts in prop::collection::vec(0usize..9, 0..20),
    ) {
        let redactor = redactor(&[("A_TOKEN", "abcabc"), ("B_TOKEN", "abcabcdabc"), ("C_TOKEN", "cabcab"), ("D_KEY", "xyzzyx")]);
        let text = parts.concat();
        let whole = redactor.redact_values(&text).into_owned();
        prop_assert_eq!(String::from_utf8(streamed(&redactor, text.as_bytes(), &cuts)).unwrap(), whole);
    }
}

#[test]
fn what_is_secret_by_itself_is_found_by_itself() {
    let env = [
        ("RUNNER_AUTHORIZATION_TOKEN", "Bearer made-up-runner-1"),
        (
            "SIGNING_KEY",
            "-----BEGIN MADE UP-----\nmade-up-first-line\nmade-up-other-line\nend\n-----END MADE UP-----\n",
        ),
        ("DB_PASSWORD", "two words"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let redactor = Redactor::new(&env.into());
    let table = [
        ("x made-up-runner-1", "x <redacted>"),
        ("  made-up-first-line\n  made-up-other-line", "  <redacted>\n  <redacted>"),
        ("the end of -----BEGIN MADE UP-----", "the end of -----BEGIN MADE UP-----"),
        ("two words, or words", "<redacted>, or words"),
    ];
    for (text, expected) in table {
        assert_eq!(redactor.redact_values(text), expected);
    }
}

#[test]
fn what_the_user_says_is_sent_as_a_header_is_secret_under_any_name() {
    let known = redactor(&[("MY_API_KEY", "made-up-key-1")]);
    let more = known.with(["Bearer made-up-plain-2", "made-up-key-1", "short"]);
    assert_eq!(more.redact_text("made-up-plain-2 made-up-key-1 short"), "<redacted> <redacted> short");
    assert!(Arc::ptr_eq(&known, &known.with(["made-up-key-1"])), "nothing to add");
}
