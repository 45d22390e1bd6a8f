//! Statements 28 to 34: what of the server's environment reaches an agent, and what the record says about it. Every rule is
//! tried with one agent alone and with several in a window.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use flowdrive_protocol::config::{AgentConfig, EnvPolicy};
use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, workflow};
use serde_json::json;

use crate::support::{GOOD, holding, outcomes, shell, tasks};

/// The server's variables. Their values are made up for these tests, and look like nothing else.
const PARENT: [(&str, &str); 9] = [
    ("USER", "made-up-user"),
    ("RANDOM_SETTING", "made-up-value-of-random"),
    ("GH_TOKEN", "made-up-value-of-gh"),
    ("ANTHROPIC_API_KEY", "made-up-value-of-anthropic"),
    ("AWS_SECRET_ACCESS_KEY", "made-up-value-of-aws"),
    ("CW_AGENT_ATTEST_PRIVKEY", "made-up-value-of-attest"),
    ("CW_RELEASE_VERDICT_PRIVKEY", "made-up-value-of-release"),
    ("CW_WORKBENCH_TOKEN", "made-up-value-of-workbench"),
    ("CW_BENCH_TRACE_FILE", "made-up-value-of-trace"),
];

/// What an agent of this policy gets, and the names that were recorded of it: once for a task that ran alone, once for
/// one of three in a window. Which are the same, or this fails.
async fn environment(policy: EnvPolicy, sandbox: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let ws = TestWorkspace::new();
    // Into the attempt's folder, so that each writes its own.
    let agent = shell(&format!("env >\"$3/artifacts/env\" && {GOOD}"));
    ws.configure(&config::config([("agent", AgentConfig { env: Some(policy), ..agent })]));
    let mut builder = Server::builder(&ws, Framing::Ndjson);
    for (name, value) in PARENT {
        builder = builder.env(name, value);
    }
    let server = builder.start().await;
    let mut found = Vec::new();
    for width in [1, 3] {
        let all = tasks(3).into_iter().map(|task| task.set("sandbox", sandbox));
        let document = workflow(3, [phase("map", all)]);
        let result = server.drive(&document, json!({ "concurrency": width })).await;
        assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
        for (task, step) in ["map:0", "map:1", "map:2"].iter().zip(&result.steps) {
            let folder = ws.run_folder(&result.run_id).join("workers").join(step.worker_id.as_ref().unwrap().as_str());
            let text = fs::read_to_string(folder.join("artifacts/env")).unwrap();
            fs::remove_file(folder.join("artifacts/env")).unwrap();
            let own = ["PWD", "OLDPWD", "SHLVL", "_", "FLOWDRIVE_DELEGATION"];
            let vars: BTreeMap<String, String> = text
                .lines()
                .filter_map(|line| line.split_once('='))
                .filter(|(name, _)| !own.contains(name))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let recorded = &outcomes(&ws, &result.run_id, task)[0]["forwardedEnv"];
            let names: Vec<String> = serde_json::from_value(recorded.clone()).unwrap_or_default();
            found.push((vars, names));
        }
    }
    for (_, value) in PARENT.iter().filter(|(name, _)| *name != "USER") {
        assert_eq!(holding(&ws.path(), value), Vec::<std::path::PathBuf>::new(), "a value was written down");
    }
    for message in server.finish().await {
        assert!(!message.to_string().contains("made-up-value"), "{message}");
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "it depends on the window: {found:#?}");
    found.remove(0)
}

fn policy(inherit: bool, pass: &[&str], deny: &[&str]) -> EnvPolicy {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    EnvPolicy { inherit, pass: own(pass), deny: own(deny) }
}

#[tokio::test]
async fn a28_deny_wins_over_inherit() {
    let (vars, _) = environment(policy(true, &[], &["RANDOM_SETTING", "GH_TOKEN"]), "default").await;
    assert!(!vars.contains_key("RANDOM_SETTING") && !vars.contains_key("GH_TOKEN"), "{vars:?}");
    assert!(vars.contains_key("ANTHROPIC_API_KEY") && vars.contains_key("USER"), "the rest was inherited: {vars:?}");
}

#[tokio::test]
async fn a29_deny_wins_over_provider_prefixes_alone_and_in_a_window() {
    let (vars, names) =
        environment(policy(false, &["AWS_SECRET_ACCESS_KEY"], &["AWS_SECRET_ACCESS_KEY"]), "default").await;
    assert!(!vars.contains_key("AWS_SECRET_ACCESS_KEY"), "{vars:?}");
    assert_eq!(vars["ANTHROPIC_API_KEY"], "made-up-value-of-anthropic");
    assert!(!names.contains(&"AWS_SECRET_ACCESS_KEY".to_owned()), "{names:?}");
}

#[tokio::test]
async fn a30_deny_of_user_keeps_user_out() {
    let (vars, _) = environment(policy(false, &[], &["USER"]), "default").await;
    assert!(!vars.contains_key("USER"), "{vars:?}");
    let (vars, _) = environment(policy(false, &[], &[]), "default").await;
    assert_eq!(vars["USER"], "made-up-user");
}

#[tokio::test]
async fn a31_never_forwarded_names_reach_nobody_whatever_is_said() {
    let never = ["CW_RELEASE_VERDICT_PRIVKEY", "CW_WORKBENCH_TOKEN", "CW_BENCH_TRACE_FILE"];
    for policy in [policy(true, &[], &[]), policy(false, &never, &[]), policy(true, &never, &[])] {
        let (vars, names) = environment(policy, "default").await;
        for name in never {
            assert!(!vars.contains_key(name) && !names.contains(&name.to_owned()), "{name} in {vars:?} {names:?}");
        }
    }
}

#[tokio::test]
async fn a32_signing_key_reaches_the_agent_unless_it_is_denied() {
    let (vars, names) = environment(policy(false, &[], &[]), "default").await;
    assert_eq!(vars["CW_AGENT_ATTEST_PRIVKEY"], "made-up-value-of-attest");
    assert!(names.contains(&"CW_AGENT_ATTEST_PRIVKEY".to_owned()));
    let (vars, _) = environment(policy(false, &[], &["CW_AGENT_ATTEST_PRIVKEY"]), "default").await;
    assert!(!vars.contains_key("CW_AGENT_ATTEST_PRIVKEY"));
}

#[tokio::test]
async fn a33_readonly_agent_gets_path_home_user_and_the_providers_variables_alone() {
    let (vars, names) = environment(policy(false, &[], &[]), "readonly").await;
    let got: BTreeSet<&str> = vars.keys().map(String::as_str).collect();
    let providers = ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "CW_AGENT_ATTEST_PRIVKEY"];
    // The machine that runs this may have variables of providers of its own.
    let expected = ["HOME", "PATH", "USER"].into_iter().chain(providers);
    assert!(expected.clone().all(|name| got.contains(name)), "{got:?}");
    let basics = ["HOME", "PATH", "USER"];
    let more: Vec<&&str> =
        got.iter().filter(|name| !basics.contains(name) && !names.iter().any(|n| n == **name)).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[tokio::test]
async fn a34_names_of_forwarded_variables_are_recorded_and_no_value() {
    // That no value is written down or sent is looked for in every case above.
    let (vars, names) = environment(policy(false, &["GH_TOKEN"], &[]), "default").await;
    assert_eq!(vars["GH_TOKEN"], "made-up-value-of-gh");
    for name in ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "CW_AGENT_ATTEST_PRIVKEY"] {
        assert!(names.contains(&name.to_owned()), "{name} is not in {names:?}");
    }
    assert!(names.iter().all(|name| !name.contains("made-up")), "{names:?}");
    assert!(!names.contains(&"USER".to_owned()) && !names.contains(&"PATH".to_owned()), "{names:?}");
}

#[tokio::test]
async fn a34_agent_that_prints_its_environment_leaves_no_value_in_the_record() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("loud", shell(&format!("env; env >&2; {GOOD}; env >>\"$1\"")))]));
    let server = Server::builder(&ws, Framing::Ndjson).env("OPENAI_API_KEY", "made-up-value-of-openai").start().await;
    let result = server.drive(&workflow(2, [phase("map", tasks(2))]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    assert_eq!(holding(&ws.path(), "made-up-value-of-openai"), Vec::<std::path::PathBuf>::new());
    assert!(!holding(&ws.path(), "OPENAI_API_KEY").is_empty(), "the name is no secret");
    server.finish().await;
}
