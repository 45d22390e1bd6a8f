//! Command agents, with real processes: what they get, what is read of them, and what their ends mean.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

mod delegate_support;

use std::time::Duration;

use delegate_support::{Place, SAFETY, command, failure, options, transient};
use flowdrive_engine::model::agent::Target;
use flowdrive_engine::model::outcome::{Ending, HandleKind};
use flowdrive_protocol::config::{EnvPolicy, StdinMode};

const CANARY: &str = "canary-made-up-for-tests-71f3";

#[tokio::test]
async fn a_plain_agent_is_run_in_the_workspace_with_its_placeholders() {
    let place = Place::new();
    let agent = place.shell(
        r#"pwd; cat "$1"; echo "done" >"$2"; printf '{"model":"m-1","usage":{"input_tokens":5},"session_id":"s"}\n'"#,
    );
    let outcome = place.run(&agent, &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!((outcome.handle, outcome.exit_code, outcome.leaked), (HandleKind::Process, Some(0), false));
    assert_eq!(outcome.report.model.as_deref(), Some("m-1"));
    assert_eq!(outcome.report.usage.as_ref().unwrap().input_tokens, Some(5));
    assert!(outcome.stdout_digest.as_ref().unwrap().starts_with("sha256:"));
    assert_eq!(place.result().as_deref(), Some("done\n"));
    let log = String::from_utf8(place.log("stdout.log").unwrap()).unwrap();
    let workspace = place.dir.path().join("ws").canonicalize().unwrap();
    assert!(log.starts_with(&format!("{}\n# Task", workspace.display())), "{log}");
    assert!(outcome.invocation.contains("worker/input.md"), "{}", outcome.invocation);
    assert!(place.log("stderr.log").is_none(), "an empty log is not made");
    let [process] = &place.processes()[..] else { panic!("one process is told") };
    assert!(process.group > 1 && process.start_ticks > 0 && !process.boot_id.is_empty());
}

#[tokio::test]
async fn an_argument_stays_one_argument_and_a_prompt_is_not_filled_in_again() {
    let place = Place::new();
    let script = place.script("args.sh", r#"for a; do printf '<%s>' "$a"; done"#);
    let agent = command(&["/bin/sh", &script.to_string_lossy(), "a b", "{{prompt}}", "{{nope}}", "[{{model}}]", ""]);
    let mut assignment = place.assignment();
    assignment.prompt = "x {{result}} \"y\" $(touch pwned)".to_owned();
    let outcome = place.run(&agent, &assignment).await;
    assert_eq!(outcome.ending, Ending::Completed);
    let log = String::from_utf8(place.log("stdout.log").unwrap()).unwrap();
    assert_eq!(log, "<a b><x {{result}} \"y\" $(touch pwned)><{{nope}}><[]><>");
    assert!(!place.dir.path().join("ws/pwned").exists());
}

#[tokio::test]
async fn standard_input_ends_at_once_or_after_the_prompt() {
    let place = Place::new();
    let mut agent = place.shell("cat; echo end");
    place.run(&agent, &place.assignment()).await;
    assert_eq!(place.log("stdout.log").unwrap(), b"end\n");
    if let Target::Command { stdin, .. } = &mut agent.target {
        *stdin = StdinMode::Prompt;
    }
    let mut assignment = place.assignment();
    assignment.prompt = "日本".repeat(200_000);
    place.run(&agent, &assignment).await;
    assert_eq!(place.log("stdout.log").unwrap(), format!("{}end\n", assignment.prompt).as_bytes());
    // One that never reads it does not hang either.
    let mut agent = place.shell("echo unread");
    if let Target::Command { stdin, .. } = &mut agent.target {
        *stdin = StdinMode::Prompt;
    }
    assert_eq!(place.run(&agent, &assignment).await.ending, Ending::Completed);
}

#[tokio::test]
async fn the_environment_is_the_policys_and_no_canary_is_written_down() {
    let mut options = options();
    for name in ["MY_TOKEN", "CW_WORKBENCH_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "RANDOM_4711"] {
        options.parent_env.insert(name.to_owned(), format!("{CANARY}-{name}"));
    }
    let place = Place::with(options);
    let mut agent = place.shell(
        "env; env >&2; echo \"out $OPENAI_API_KEY\"; printf 'canary-made-up'; sleep 0.05; printf '%s\\n' \"${OPENAI_API_KEY#canary-made-up}\"; exit 3",
    );
    agent.env = EnvPolicy { deny: vec!["AWS_SECRET_ACCESS_KEY".to_owned()], ..EnvPolicy::default() };
    if let Target::Command { argv, .. } = &mut agent.target {
        argv.push(format!("--x={CANARY}-OPENAI_API_KEY"));
        argv.push("--token".to_owned());
        argv.push("made-up-too".to_owned());
    }
    let outcome = place.run(&agent, &place.assignment()).await;
    assert_eq!(outcome.forwarded_env, ["OPENAI_API_KEY"]);
    let (code, reason) = failure(&outcome);
    assert_eq!(code, "agent-exit");
    assert!(reason.contains("AWS_SECRET_ACCESS_KEY") && reason.contains("MY_TOKEN"), "{reason}");
    assert!(!reason.contains("CW_WORKBENCH_TOKEN"), "it could never be passed: {reason}");
    let log = String::from_utf8(place.log("stdout.log").unwrap()).unwrap();
    assert!(log.contains("OPENAI_API_KEY=<redacted>") && log.contains("out <redacted>"), "{log}");
    for name in ["MY_TOKEN=", "CW_WORKBENCH_TOKEN=", "AWS_SECRET_ACCESS_KEY=", "RANDOM_4711="] {
        assert!(!log.contains(name), "{name} was passed");
    }
    for file in place.files() {
        assert!(!String::from_utf8_lossy(&std::fs::read(&file).unwrap()).contains("canary"), "{}", file.display());
    }
    let recorded = format!("{outcome:?} {:?}", place.notices.lock().unwrap());
    assert!(!recorded.contains("canary") && !recorded.contains("made-up-too"), "{recorded}");
    assert!(
        place
            .delegator
            .describe(&agent, None, flowdrive_protocol::workflow::Sandbox::Default)
            .contains("--token <redacted>")
    );
}

#[tokio::test]
async fn characters_cut_by_writes_are_whole_and_invalid_bytes_are_replaced() {
    let place = Place::new();
    let agent = place.shell(
        r"printf '\346'; sleep 0.05; printf '\227\245 half '; sleep 0.05; printf 'line\n'; printf 'bad \377 byte\n' >&2; printf 'no end \346' >&2; exit 1",
    );
    let outcome = place.run(&agent, &place.assignment()).await;
    assert_eq!(place.log("stdout.log").unwrap(), "日 half line\n".as_bytes());
    assert_eq!(outcome.stderr_tail, "bad \u{fffd} byte\nno end \u{fffd}");
    assert_eq!(failure(&outcome).1, "map:one: failed (exit 1): no end \u{fffd}");
}

#[tokio::test]
async fn activity_is_text_thinned_out_and_never_json() {
    let place = Place::new();
    let agent = place.shell(
        "echo first; i=0; while [ $i -lt 3000 ]; do echo \"line $i\"; i=$((i+1)); done; sleep 0.4; echo '{\"model\":\"m\"}'; echo last >&2; sleep 0.4",
    );
    place.run(&agent, &place.assignment()).await;
    let activity = place.activity();
    assert!(activity.len() >= 2 && activity.len() < 20, "{} lines told", activity.len());
    assert_eq!(activity.last().map(String::as_str), Some("last"));
    assert!(!activity.iter().any(|line| line.contains('{')));
}

#[tokio::test]
async fn exits_and_signals_are_told_apart() {
    let place = Place::new();
    let outcome = place.run(&place.shell("echo a >&2; echo why >&2; exit 41"), &place.assignment()).await;
    assert_eq!(outcome.exit_code, Some(41));
    assert_eq!(failure(&outcome), ("agent-exit", "map:one: failed (exit 41): why"));
    assert_eq!(transient(&outcome), None);
    let outcome = place.run(&place.shell("kill -SEGV $$"), &place.assignment()).await;
    assert_eq!(outcome.exit_code, None);
    let (code, reason) = failure(&outcome);
    assert_eq!(code, "agent-signalled");
    assert!(reason.contains("no exit code (timed out or killed)") && reason.contains("SIGSEGV"), "{reason}");
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let place = Place::new();
    let spawned = async |agent| {
        let outcome = place.run(&agent, &place.assignment()).await;
        let (code, reason) = failure(&outcome);
        assert_eq!(code, "agent-spawn");
        assert!(reason.starts_with("agent process failed to spawn: "), "{reason}");
        reason.to_owned()
    };
    let reason = spawned(command(&["no-such-agent-program"])).await;
    assert!(reason.contains("no-such-agent-program") && reason.contains("PATH searched: /"), "{reason}");
    let script = place.script("no-interpreter", "");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    make_executable(&script);
    assert!(spawned(command(&[&script.to_string_lossy()])).await.contains("interpreter"));
    let plain = place.script("plain", "");
    assert!(spawned(command(&[&plain.to_string_lossy()])).await.contains("permission"));
    let reason = spawned(command(&["/bin/echo", &"x".repeat(200_000)])).await;
    assert!(reason.contains("{{input}}") && reason.contains("stdin"), "{reason}");
    let mut assignment = place.assignment();
    assignment.workspace = place.dir.path().join("nowhere");
    let outcome = place.run(&command(&["/bin/true"]), &assignment).await;
    assert!(failure(&outcome).1.contains("is not a folder"), "{outcome:?}");
    assert!(place.processes().is_empty());
}

#[tokio::test]
async fn a_workspace_cannot_bring_its_own_program() {
    let mut options = options();
    let path = options.parent_env.get_mut("PATH").unwrap();
    *path = format!(".:bin:{path}");
    let place = Place::with(options);
    let planted = place.dir.path().join("ws/planted");
    std::fs::write(&planted, "#!/bin/sh\necho planted\n").unwrap();
    make_executable(&planted);
    for name in ["planted", "./planted", "../ws/planted"] {
        let outcome = place.run(&command(&[name]), &place.assignment()).await;
        assert_eq!(failure(&outcome).0, "agent-spawn", "{name}");
    }
}

#[tokio::test]
async fn much_output_is_read_to_the_cap_and_no_further() {
    let place = Place::new();
    let printed = "head -c 25000000 /dev/zero | tr '\\0' 'x'; printf '\\n{\"model\":\"at-the-end\"}\\n'";
    let outcome = place.run(&place.shell(printed), &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(outcome.report.model.as_deref(), Some("at-the-end"));
    assert_eq!(place.log("stdout.log").unwrap().len(), 25_000_000 + 24);
    let outcome = place.run(&place.shell("yes endless"), &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert_eq!(code, "output-too-large");
    assert!(reason.contains("33554432"), "{reason}");
    assert!(place.log("stdout.log").unwrap().len() <= 32 << 20);
}

#[tokio::test]
async fn a_chatty_error_output_fails_nothing() {
    let place = Place::new();
    let outcome = place
        .run(&place.shell("head -c 40000000 /dev/zero | tr '\\0' 'e' >&2; echo >&2; echo end >&2"), &place.assignment())
        .await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(outcome.stderr_tail.chars().count(), 2000);
    assert!(outcome.stderr_tail.ends_with("e\nend"));
}

#[tokio::test]
async fn an_agent_with_a_finished_result_that_does_not_exit_is_ended_and_counts() {
    let place = Place::new();
    let agent = place.shell("printf '# R\\n```cw:result\\n{}\\n```\\n' >\"$2\"; exec sleep 1000");
    let outcome = place.run(&agent, &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(outcome.exit_code, None);
    // A result that is not closed yet does not count.
    let mut assignment = place.assignment();
    assignment.timeout = Duration::from_millis(1500);
    let agent = place.shell("printf '```cw:result\\n{' >\"$2\"; exec sleep 1000");
    assert_eq!(failure(&place.run(&agent, &assignment).await).0, "agent-timeout");
}

#[tokio::test]
async fn one_agents_fault_is_no_others() {
    let place = Place::with(flowdrive_engine::delegate::DelegatorOptions { output_cap: 1 << 20, ..options() });
    let flood = command(&["/bin/sh", "-c", "yes endless"]);
    let fine = command(&["/bin/sh", "-c", "sleep 0.1; echo '{\"model\":\"fine\"}'"]);
    let assignments: Vec<_> = (0..8)
        .map(|n| {
            let mut assignment = place.assignment();
            assignment.folder =
                flowdrive_engine::model::agent::WorkerFolder::at(place.dir.path().join(format!("w{n}")));
            std::fs::create_dir_all(&assignment.folder.dir).unwrap();
            assignment
        })
        .collect();
    let stop = tokio_util::sync::CancellationToken::new();
    let quiet = |_| {};
    let outcomes = tokio::time::timeout(
        SAFETY,
        futures::future::join_all(assignments.iter().enumerate().map(|(n, assignment)| {
            place.delegator.delegate(if n % 4 == 0 { &flood } else { &fine }, assignment, &quiet, &stop)
        })),
    )
    .await
    .unwrap();
    for (n, outcome) in outcomes.iter().enumerate() {
        if n % 4 == 0 {
            assert_eq!(failure(outcome).0, "output-too-large");
        } else {
            assert_eq!(outcome.report.model.as_deref(), Some("fine"));
        }
    }
    assert_eq!(place.delegator.in_flight(), 0);
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
