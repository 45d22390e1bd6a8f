//! Known programs, played by scripts that print what the real ones do.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

mod delegate_support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use delegate_support::{Place, failure, preset, transient};
use flowdrive_engine::model::outcome::Ending;
use flowdrive_protocol::config::Preset;

/// A program that keeps its arguments and its input, and prints these lines.
fn program(place: &Place, lines: &[&str], then: &str) -> PathBuf {
    let events = place.dir.path().join("events");
    std::fs::write(&events, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let here = place.dir.path().display();
    let path =
        place.script("program", &format!("echo \"$@\" >{here}/args; cat >{here}/stdin; cat {here}/events; {then}"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn kept(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.dir.path().join(name)).unwrap()
}

const CLAUDE: [&str; 3] = [
    r#"{"type":"system","subtype":"init","session_id":"c-1","model":"claude-x"}"#,
    r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Read","input":{"file_path":"src/a.rs"}}]}}"#,
    r##"{"type":"result","subtype":"success","is_error":false,"result":"# Done\n\ntext","usage":{"input_tokens":4,"output_tokens":7}}"##,
];

#[tokio::test]
async fn a_stream_becomes_activity_usage_a_session_and_the_result() {
    let place = Place::new();
    let agent = preset(Preset::Claude, &program(&place, &CLAUDE, ""));
    let mut assignment = place.assignment();
    assignment.session = Some("c-0".to_owned());
    let outcome = place.run(&agent, &assignment).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(place.result().as_deref(), Some("# Done\n\ntext\n"));
    assert_eq!(place.sessions(), ["c-1"]);
    assert_eq!(place.activity(), ["Read src/a.rs"]);
    assert_eq!(outcome.report.session.as_deref(), Some("c-1"));
    assert_eq!(outcome.report.model.as_deref(), Some("claude-x"));
    assert_eq!(outcome.report.usage.unwrap().spent(), 11);
    assert!(kept(&place, "args").contains("--resume c-0"));
    let stdin = kept(&place, "stdin");
    assert!(stdin.starts_with("# Task\n\nThe input file.") && stdin.contains("```cw:result"), "{stdin}");
    assert!(outcome.invocation.contains("--output-format stream-json"));
}

#[tokio::test]
async fn a_result_the_program_wrote_itself_is_kept() {
    let place = Place::new();
    let result = place.folder().result;
    let agent = preset(Preset::Claude, &program(&place, &CLAUDE, &format!("echo own >{}", result.display())));
    place.run(&agent, &place.assignment()).await;
    assert_eq!(place.result().as_deref(), Some("own\n"));
}

#[tokio::test]
async fn a_failed_exit_writes_no_result() {
    let place = Place::new();
    let agent = preset(Preset::Claude, &program(&place, &CLAUDE, "exit 2"));
    let outcome = place.run(&agent, &place.assignment()).await;
    assert_eq!(failure(&outcome), ("agent-exit", "map:one: failed (exit 2)"));
    assert!(place.result().is_none());
    assert_eq!(outcome.report.usage.unwrap().spent(), 11, "it was paid for all the same");
}

#[tokio::test]
async fn an_error_the_stream_tells_is_the_reason_and_may_pass() {
    let place = Place::new();
    let lines = [r#"{"type":"turn.failed","error":{"message":"rate limit reached, try again in 20s"}}"#];
    for (exit, code) in [("exit 1", "agent-exit"), ("exit 0", "agent-error")] {
        let agent = preset(Preset::Codex, &program(&place, &lines, exit));
        let outcome = place.run(&agent, &place.assignment()).await;
        let (got, reason) = failure(&outcome);
        assert_eq!(got, code);
        assert!(reason.contains("rate limit reached"), "{reason}");
        assert_eq!(transient(&outcome), Some(Some(20_000)));
        assert!(place.delegator.limits().try_acquire(&agent).is_err(), "the agent cools down");
    }
}

#[tokio::test]
async fn large_events_are_read_and_too_large_ones_fail_only_their_task() {
    let place = Place::new();
    let text = "é".repeat(1_000_000);
    let line = format!(r#"{{"type":"item.completed","item":{{"id":"1","type":"agent_message","text":"{text}"}}}}"#);
    let agent = preset(Preset::Codex, &program(&place, &[&line], ""));
    assert_eq!(place.run(&agent, &place.assignment()).await.ending, Ending::Completed);
    assert_eq!(place.result().unwrap().trim_end(), text);
    let agent =
        preset(Preset::Codex, &program(&place, &[], "head -c 9000000 /dev/zero | tr '\\0' 'x'; exec sleep 1000"));
    assert_eq!(failure(&place.run(&agent, &place.assignment()).await).0, "output-line-too-long");
}

#[tokio::test]
async fn every_preset_is_called_as_documented_and_read() {
    let gemini = [
        r#"{"type":"init","session_id":"g-1","model":"gemini-x"}"#,
        r#"{"type":"message","role":"assistant","content":"answer","delta":true}"#,
        r#"{"type":"result","status":"success","stats":{"input_tokens":5,"output_tokens":4}}"#,
    ];
    let opencode = [
        r#"{"type":"step_start","sessionID":"o-1","part":{}}"#,
        r#"{"type":"text","sessionID":"o-1","part":{"text":"answer"}}"#,
        r#"{"type":"step_finish","sessionID":"o-1","part":{"tokens":{"input":5,"output":4}}}"#,
    ];
    let codex = [
        r#"{"type":"thread.started","thread_id":"t-1"}"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"answer"}}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":4}}"#,
    ];
    for (which, lines, session, args) in [
        (Preset::Gemini, gemini, "g-1", "--output-format stream-json --model m"),
        (Preset::Opencode, opencode, "o-1", "run --format json --model m"),
        (Preset::Codex, codex, "t-1", "exec --json --skip-git-repo-check --sandbox read-only --model m -"),
    ] {
        let place = Place::new();
        let agent = preset(which, &program(&place, &lines, ""));
        let mut assignment = place.assignment();
        assignment.model = Some("m".to_owned());
        let outcome = place.run(&agent, &assignment).await;
        assert_eq!(outcome.ending, Ending::Completed, "{which:?}");
        assert_eq!(place.result().as_deref(), Some("answer\n"), "{which:?}");
        assert_eq!(place.sessions(), [session]);
        assert_eq!(outcome.report.usage.unwrap().spent(), 9, "{which:?}");
        assert_eq!(kept(&place, "args").trim_end(), args);
    }
}
