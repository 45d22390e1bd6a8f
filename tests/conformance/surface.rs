//! Statements 121 to 125 and 137 to 142: what clients and agents see of sandboxes, logs, limits and flags.

use std::fs;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView};
use flowdrive_tests::endpoint::EndpointServer;
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, config, phase, sequential, task, tree, workflow};
use serde_json::{Value, json};

use crate::support::{alone, drive, inputs, journal, names, of_type, outcomes, reasons, resume, shell, tasks};

#[tokio::test]
async fn g123_dispatches_of_a_window_are_written_together_before_any_agent_starts() {
    let ws = TestWorkspace::new();
    let meet = format!("4:{}", ws.beside("meeting"));
    ws.configure(&config::config([("sociable", config::fixture(&ws, &["--meet", &meet]))]));
    let result = drive(&ws, &workflow(4, [phase("map", tasks(4))]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    let kinds: Vec<String> =
        journal(&ws, &result.run_id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    let first = kinds.iter().position(|kind| kind == "taskDispatched").unwrap();
    assert_eq!(kinds[first..first + 4], ["taskDispatched"; 4].map(str::to_owned), "{kinds:?}");
    assert!(kinds.iter().position(|kind| kind == "processStarted").unwrap() >= first + 4, "{kinds:?}");
}

#[tokio::test]
async fn g124_trace_file_of_the_earlier_tools_benchmark_reaches_no_agent() {
    let ws = TestWorkspace::new();
    let mut agent = config::fixture(&ws, &["--write-env", &ws.beside("env")]);
    agent.env = Some(flowdrive_protocol::config::EnvPolicy {
        inherit: true,
        pass: vec!["CW_BENCH_TRACE_FILE".to_owned()],
        deny: Vec::new(),
    });
    ws.configure(&config::config([("nosy", agent)]));
    let server = Server::builder(&ws, Framing::Ndjson).env("CW_BENCH_TRACE_FILE", "made-up-for-tests").start().await;
    let result = server.drive(&alone(task("map:0")), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    server.finish().await;
    let got = fs::read_to_string(ws.beside("env")).unwrap();
    assert!(got.contains("PATH=") && !got.contains("CW_BENCH_TRACE_FILE"), "{got}");
    assert!(!outcomes(&ws, &result.run_id, "map:0")[0].to_string().contains("CW_BENCH_TRACE_FILE"));
}

#[tokio::test]
async fn g125_word_that_means_no_never_means_yes_and_junk_is_refused() {
    let ws = TestWorkspace::new();
    let command = config::fixture(&ws, &[]).command.unwrap().join(" ");
    // A result nobody signed passes only where signatures are not required.
    for word in ["false", "0", "no", "off", "", "true"] {
        let server = Server::builder(&ws, Framing::Ndjson)
            .env("CW_AGENT_COMMAND", &command)
            .env("CW_REQUIRE_ATTESTED_TELEMETRY", word)
            .start()
            .await;
        let result = server.drive(&alone(task("map:0")), json!({ "agent": "env", "maxAttempts": 1 })).await;
        let expected = if word == "true" { RunStatus::Parked } else { RunStatus::Complete };
        assert_eq!(result.status, expected, "{word:?}: {}", reasons(&result));
        server.finish().await;
    }
    let server = Server::start(&ws, Framing::Ndjson).await;
    for junk in [json!("maybe"), json!(2), json!([]), json!({})] {
        let params = json!({ "workflow": { "inline": alone(task("map:0")) }, "once": junk });
        let error = server.err("drive", server.here(params)).await;
        assert_eq!(error.code, -32602, "{junk}: {error:?}");
        assert!(error.message.contains("once"), "{junk}: {error:?}");
    }
    server.finish().await;
}

#[tokio::test]
async fn h137_task_that_is_locked_down_is_told_so_and_every_agent_hears_of_it() {
    let endpoint = EndpointServer::good(CITE, std::time::Duration::ZERO).await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("good", config::fixture(&ws, &[])), ("remote", config::endpoint(endpoint.url()))]));
    let locked = |id: &str| task(id).set("sandbox", "locked-down");
    let all = [locked("map:0"), locked("map:1").agent("remote"), task("map:2")];
    let result = drive(&ws, &workflow(3, [phase("map", all)]), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    let input = inputs(&ws, &result.run_id, "map:0").remove(0);
    let words = "Read nothing but this file. Run no commands. Do not use the network.";
    assert!(input.contains("sandbox: locked-down") && input.contains(words), "{input}");
    assert!(!inputs(&ws, &result.run_id, "map:2")[0].contains("Run no commands"));
    assert_eq!(endpoint.exchanges()[0].request.json()["sandboxProfileId"], "locked-down");
    // One that is no profile is a fault of the workflow, with its place.
    let server = Server::start(&ws, Framing::Ndjson).await;
    let odd = json!({ "workflow": { "inline": alone(task("map:0").set("sandbox", "made-up")) } });
    let error = server.err("drive", server.here(odd)).await;
    error.assert_kind(ErrorKind::WorkflowInvalid);
    server.finish().await;
}

#[tokio::test]
async fn h138_sandboxes_are_listed_from_the_default_to_the_strictest() {
    let text = fs::read_to_string(binary::repository().join("schema/workflow.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let listed: Vec<&str> = schema["$defs"]["Sandbox"]["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|profile| profile["const"].as_str())
        .collect();
    assert_eq!(listed, ["default", "readonly", "workspace-write", "locked-down"]);
}

#[tokio::test]
async fn h139_secret_in_the_error_output_is_replaced_as_a_whole() {
    let ws = TestWorkspace::new();
    let secret = "sk-made-up-for-tests-0123456789abcdef";
    ws.configure(&config::config([("loud", shell("echo \"key is $OPENAI_API_KEY\" >&2; exit 3"))]));
    let server = Server::builder(&ws, Framing::Ndjson).env("OPENAI_API_KEY", secret).start().await;
    let result = server.drive(&alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    let folder = ws.run_folder(&result.run_id).join("workers");
    let log = fs::read_to_string(folder.join(&names(&folder)[0]).join("logs/stderr.log")).unwrap();
    assert_eq!(log, "key is <redacted>\n");
    assert!(reasons(&result).contains("key is <redacted>"), "{}", reasons(&result));
    server.finish().await;
}

#[tokio::test]
async fn h141_looking_at_a_run_changes_nothing_and_resuming_goes_on_with_it_from_anywhere() {
    let ws = TestWorkspace::new();
    let all = tasks(2).into_iter().map(|task| task.agent("good"));
    let document = workflow(1, [sequential("map", all)]);
    let run = drive(&ws, &document, json!({ "once": true })).await.run_id.to_string();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let before = ws.snapshot();
    let view: RunView = server.ok("showRun", server.here(json!({ "runId": run }))).await;
    let _: Value = server.ok("preview", server.here(json!({ "runId": run }))).await;
    assert_eq!((view.summary.status, view.summary.completed_workers), (RunStatus::InProgress, 1));
    tree::assert_same(&before, &ws.snapshot(), "after looking at a run");
    server.finish().await;
    // With an agent that is not there any more: blocked, nothing done, nothing committed.
    let known = fs::read_to_string(ws.config_file()).unwrap();
    ws.configure(&config::config([("another", config::fixture(&ws, &[]))]));
    let result = resume(&ws, &run, json!({})).await;
    assert_eq!((result.status, result.completed_workers, &result.commit_id), (RunStatus::Blocked, 1, &None));
    fs::write(ws.config_file(), known).unwrap();
    // From another folder.
    let mut command = ws.flowdrive(&["resume", &run, "--json", "--workspace", &ws.text(), "--config"]);
    let output = command.arg(ws.config_file()).current_dir(ws.root()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let result: DriveResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result.run_id.as_str(), result.status), (run.as_str(), RunStatus::Complete));
    assert_eq!(ws.agent_runs(), [("map:0".to_owned(), 1), ("map:1".to_owned(), 1)].into());
}

#[tokio::test]
async fn h142_jobs_that_wait_for_each_other_are_all_settled_in_one_window() {
    let endpoint = EndpointServer::barrier(6, CITE).await;
    let ws = TestWorkspace::new();
    let remote = crate::support::limited(config::endpoint(endpoint.url()), 30_000);
    ws.configure(&config::config([("remote", remote)]));
    let result = drive(&ws, &workflow(6, [phase("map", tasks(6))]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 6), "{}", reasons(&result));
    let spans: Vec<_> = endpoint.exchanges().iter().map(|exchange| exchange.span).collect();
    assert!(spans.iter().all(|span| spans.iter().all(|other| span.start <= other.end)), "{spans:?}");
    assert_eq!(of_type(&journal(&ws, &result.run_id), "taskRetrying").len(), 0);
}
