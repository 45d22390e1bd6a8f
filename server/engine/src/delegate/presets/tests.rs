use super::*;

fn call(sandbox: Sandbox) -> Call<'static> {
    static ARGV: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| vec!["prog".into(), "--own".into()]);
    Call { argv: &ARGV, model: Some("m"), session: Some("s-1"), sandbox }
}

fn run(preset: Preset, lines: &[&str]) -> (Vec<Told>, Parsed) {
    let mut parser = Parser::new(preset).unwrap();
    let told = lines.iter().map(|line| parser.line(line)).collect();
    (told, parser.finish())
}

fn activity(told: &[Told]) -> Vec<&str> {
    told.iter().filter_map(|told| told.activity.as_deref()).collect()
}

#[test]
fn command_lines_are_the_documented_ones() {
    let line = |preset, sandbox| argv(preset, call(sandbox)).unwrap().join(" ");
    assert_eq!(
        line(Preset::Claude, Sandbox::Readonly),
        "prog -p --output-format stream-json --verbose --model m --resume s-1 --allowedTools Read,Grep,Glob --own"
    );
    assert_eq!(
        line(Preset::Codex, Sandbox::Readonly),
        "prog exec --json --skip-git-repo-check --sandbox read-only --model m --own resume s-1 -"
    );
    assert_eq!(
        line(Preset::Gemini, Sandbox::Readonly),
        "prog --output-format stream-json --model m --resume s-1 --own"
    );
    assert_eq!(line(Preset::Opencode, Sandbox::Readonly), "prog run --format json --model m --session s-1 --own");
    assert_eq!(argv(Preset::Survey, call(Sandbox::Readonly)), None);
}

#[test]
fn only_a_task_that_may_write_gets_leave_to_write() {
    for preset in [Preset::Claude, Preset::Codex, Preset::Gemini] {
        let line = |sandbox| argv(preset, call(sandbox)).unwrap().join(" ");
        let writes = |line: String| ["Write", "workspace-write", "auto_edit"].iter().any(|word| line.contains(word));
        for sandbox in [Sandbox::Default, Sandbox::Readonly, Sandbox::LockedDown] {
            assert!(!writes(line(sandbox)), "{preset:?} {sandbox:?}");
        }
        assert!(writes(line(Sandbox::WorkspaceWrite)), "{preset:?}");
    }
}

#[test]
fn a_claude_stream_is_read() {
    let (told, parsed) = run(
        Preset::Claude,
        &[
            r#"{"type":"system","subtype":"init","session_id":"c-1","model":"claude-x","tools":["Read"]}"#,
            r#"{"type":"assistant","session_id":"c-1","message":{"model":"claude-y","content":[{"type":"text","text":"Looking.\nMore."}]}}"#,
            r#"{"type":"assistant","session_id":"c-1","message":{"content":[{"type":"tool_use","name":"Read","input":{"file_path":"src/a.rs"}}]}}"#,
            r#"{"type":"assistant","parent_tool_use_id":"t","message":{"model":"small","content":[{"type":"text","text":"inner"}]}}"#,
            "warning: something in plain text",
            r#"{"type":"future","what":1}"#,
            r##"{"type":"result","subtype":"success","is_error":false,"result":"# Done","session_id":"c-1","usage":{"input_tokens":4,"cache_creation_input_tokens":5,"cache_read_input_tokens":6,"output_tokens":7}}"##,
        ],
    );
    assert_eq!(told.iter().filter_map(|t| t.session.as_deref()).collect::<Vec<_>>(), ["c-1"]);
    assert_eq!(activity(&told), ["Looking.", "Read src/a.rs", "inner", "warning: something in plain text"]);
    assert_eq!(parsed.result.as_deref(), Some("# Done"));
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.report.model.as_deref(), Some("claude-y"));
    let usage = parsed.report.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens),
        (Some(4), Some(7), Some(6), Some(5))
    );
}

#[test]
fn a_claude_error_is_an_error_and_no_result() {
    let (_, parsed) = run(
        Preset::Claude,
        &[
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"half an answer"}]}}"#,
            r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 529 overloaded","usage":{}}"#,
        ],
    );
    assert_eq!(parsed.error.as_deref(), Some("API Error: 529 overloaded"));
    assert_eq!(parsed.result, None);
    let (_, parsed) = run(Preset::Claude, &[r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#]);
    assert_eq!(parsed.error.as_deref(), Some("error_max_turns"));
}

#[test]
fn a_codex_stream_is_read() {
    let (told, parsed) = run(
        Preset::Codex,
        &[
            r#"{"type":"thread.started","thread_id":"t-1"}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.completed","item":{"id":"0","type":"reasoning","text":"**Searching**"}}"#,
            r#"{"type":"item.started","item":{"id":"1","type":"command_execution","command":"bash -lc ls","status":"in_progress"}}"#,
            r#"{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"bash -lc ls","exit_code":0}}"#,
            r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
            r#"{"type":"item.completed","item":{"id":"2","type":"agent_message","text":"first"}}"#,
            r#"{"type":"item.completed","item":{"id":"3","type":"agent_message","text":"last"}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":3,"output_tokens":2}}"#,
            r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
        ],
    );
    assert_eq!(told[0].session.as_deref(), Some("t-1"));
    assert_eq!(activity(&told), ["Searching", "bash -lc ls", "Reconnecting... 1/5", "first", "last"]);
    assert_eq!((parsed.result.as_deref(), parsed.error), (Some("last"), None));
    let usage = parsed.report.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (Some(11), Some(3), Some(3)));
}

#[test]
fn a_failed_codex_turn_is_an_error() {
    let (_, parsed) = run(Preset::Codex, &[r#"{"type":"turn.failed","error":{"message":"usage limit"}}"#]);
    assert_eq!(parsed.error.as_deref(), Some("usage limit"));
}

#[test]
fn a_gemini_stream_is_read() {
    let (told, parsed) = run(
        Preset::Gemini,
        &[
            r#"{"type":"init","timestamp":"x","session_id":"g-1","model":"gemini-x"}"#,
            r#"{"type":"message","role":"user","content":"question"}"#,
            r#"{"type":"message","role":"assistant","content":"Let me look","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"read_file","tool_id":"1","parameters":{"path":"a.rs"}}"#,
            r#"{"type":"tool_result","tool_id":"1","status":"success","output":"x"}"#,
            r#"{"type":"message","role":"assistant","content":"The ","delta":true}"#,
            r#"{"type":"message","role":"assistant","content":"answer","delta":true}"#,
            r#"{"type":"result","status":"success","stats":{"total_tokens":9,"input_tokens":5,"output_tokens":4,"cached":1}}"#,
        ],
    );
    assert_eq!(told[0].session.as_deref(), Some("g-1"));
    assert_eq!(activity(&told), ["Let me look", "read_file a.rs", "The", "answer"]);
    assert_eq!((parsed.result.as_deref(), parsed.report.model.as_deref()), (Some("The answer"), Some("gemini-x")));
    assert_eq!(parsed.report.usage.unwrap().total_tokens, Some(9));
}

#[test]
fn an_opencode_stream_is_read() {
    let (told, parsed) = run(
        Preset::Opencode,
        &[
            r#"{"type":"step_start","timestamp":1,"sessionID":"ses_1","part":{"type":"step-start"}}"#,
            r#"{"type":"text","sessionID":"ses_1","part":{"text":"thinking aloud"}}"#,
            r#"{"type":"tool_use","sessionID":"ses_1","part":{"tool":"read","state":{"status":"completed","input":{"filePath":"a.rs"}}}}"#,
            r#"{"type":"step_finish","sessionID":"ses_1","part":{"tokens":{"input":10,"output":2,"cache":{"read":1,"write":0}}}}"#,
            r#"{"type":"step_start","sessionID":"ses_1","part":{}}"#,
            r#"{"type":"text","sessionID":"ses_1","part":{"text":"final"}}"#,
            r#"{"type":"step_finish","sessionID":"ses_1","part":{"tokens":{"input":5,"output":1}}}"#,
        ],
    );
    assert_eq!(told[0].session.as_deref(), Some("ses_1"));
    assert_eq!(activity(&told), ["thinking aloud", "read a.rs", "final"]);
    assert_eq!((parsed.result.as_deref(), parsed.error), (Some("final"), None));
    let usage = parsed.report.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (Some(15), Some(3), Some(1)));
    let (_, parsed) = run(
        Preset::Opencode,
        &[r#"{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"limit"}}}"#],
    );
    assert_eq!(parsed.error.as_deref(), Some("limit"));
}

#[test]
fn odd_lines_harm_nothing() {
    for preset in [Preset::Claude, Preset::Codex, Preset::Gemini, Preset::Opencode] {
        let (_, parsed) = run(
            preset,
            &[
                "",
                "null",
                "[]",
                "{",
                "{\"type\":1}",
                "{\"type\":\"result\"}",
                "{\"type\":\"assistant\",\"message\":null}",
                "{\"type\":\"item.completed\",\"item\":7}",
                "{\"type\":\"text\",\"part\":[]}",
            ],
        );
        assert_eq!(parsed.result, None, "{preset:?}");
    }
}

#[test]
fn every_stream_reads_counts_in_every_form() {
    const MOST: u64 = 9_007_199_254_740_991;
    // The event that tells of usage, and where the count goes in it.
    let streams = [
        (
            Preset::Claude,
            r#"{"type":"result","subtype":"success","result":"x","usage":{"input_tokens":N,"output_tokens":1}}"#,
        ),
        (Preset::Codex, r#"{"type":"turn.completed","usage":{"input_tokens":N,"output_tokens":1}}"#),
        (Preset::Gemini, r#"{"type":"result","status":"success","stats":{"input_tokens":N,"output_tokens":1}}"#),
        (Preset::Opencode, r#"{"type":"step_finish","part":{"tokens":{"input":N,"output":1}}}"#),
    ];
    for (preset, event) in streams {
        for (written, wanted) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("6.2", Some(7)),
            ("\"7\"", Some(7)),
            ("9007199254740992", Some(MOST)),
            ("18446744073709551615", Some(MOST)),
            ("184467440737095516150", Some(MOST)),
            ("1e300", Some(MOST)),
            ("\"1e300\"", Some(MOST)),
            ("-1", None),
            ("null", None),
            ("\"many\"", None),
        ] {
            let (_, parsed) = run(preset, &[&event.replace('N', written)]);
            let usage = parsed.report.usage.unwrap();
            assert_eq!((usage.input_tokens, usage.output_tokens), (wanted, Some(1)), "{preset:?}: {written}");
        }
        // Many of the largest do not run over.
        let most = event.replace('N', "1e300");
        let (_, parsed) = run(preset, &[most.as_str(); 4]);
        assert!(parsed.report.usage.unwrap().spent() >= MOST, "{preset:?}");
    }
}
