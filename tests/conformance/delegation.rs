//! Statements 92 to 106: what is read of what an agent says, what of it is written down, and how each fault is worded.

use std::fs;

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, StepAction};
use flowdrive_tests::endpoint::{EndpointServer, Request, Response};
use flowdrive_tests::results::{self, Kind};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

use crate::support::{
    GOOD, alone, argv, drive, holding, journal, journal_file, limited, of_type, outcomes, reasons, resume, shell,
    steps, tasks, views,
};

#[tokio::test]
async fn e92_model_that_is_not_reported_stays_unreported() {
    let ws = TestWorkspace::new();
    let asked = AgentConfig { model: Some("made-up-model".to_owned()), ..config::fixture(&ws, &[]) };
    ws.configure(&config::config([("good", asked)]));
    let result = drive(&ws, &alone(task("map:0").needs_evidence()), json!({})).await;
    assert_eq!(steps(&result, StepAction::Accept)[0].reported_model.as_deref(), Some("unreported"));
    let view = views(&ws, &result.run_id).await.remove(0);
    assert_eq!(view.reported_model.as_deref(), Some("unreported"));
    let accepted = of_type(&journal(&ws, &result.run_id), "taskAccepted").remove(0);
    assert!(!accepted.to_string().contains("made-up-model"), "{accepted:#}");
    let outcome = outcomes(&ws, &result.run_id, "map:0").remove(0);
    assert_eq!(outcome["report"]["model"], Value::Null);
}

#[tokio::test]
async fn e93_secrets_of_a_command_line_are_nowhere_in_the_record() {
    let ws = TestWorkspace::new();
    let secrets = ["made-up-for-tests-flag", "made-up-for-tests-inline", "sk-made-up-for-tests-0123456789"];
    let mut agent = shell(GOOD);
    let inline = format!("--my-token={}", secrets[1]);
    agent.command.as_mut().unwrap().extend(["--api-key", secrets[0], &inline, secrets[2]].map(str::to_owned));
    ws.configure(&config::config([("keyed", agent)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&alone(task("map:0")), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    for secret in secrets {
        assert_eq!(holding(&ws.path(), secret), Vec::<std::path::PathBuf>::new());
        assert!(server.messages().iter().all(|message| !message.to_string().contains(secret)));
    }
    let invocation = outcomes(&ws, &result.run_id, "map:0")[0]["invocation"].as_str().unwrap().to_owned();
    assert!(invocation.ends_with("--api-key <redacted> --my-token=<redacted> <redacted>"), "{invocation}");
    server.finish().await;
}

#[tokio::test]
async fn e94_report_is_the_whole_output_or_its_last_line_that_is_an_object() {
    let usage = json!({ "input_tokens": 3, "output_tokens": 4 });
    let whole = json!({ "model": "whole", "usage": usage }).to_string();
    let last =
        format!("starting\n{}\n{}\ndone", json!({ "model": "early" }), json!({ "model": "late", "usage": usage }));
    let busiest =
        json!({ "modelUsage": { "small": { "inputTokens": 5 }, "large": { "input_tokens": 9 } } }).to_string();
    let array = json!([{ "model": "never" }]).to_string();
    let cases = [
        ("whole", whole, Some("whole")),
        ("last", last, Some("late")),
        ("busiest", busiest, Some("large")),
        ("array", array, None),
    ];
    let ws = TestWorkspace::new();
    ws.configure(&config::config(
        cases.clone().map(|(name, text, _)| (name, config::fixture(&ws, &["--print", &text]))),
    ));
    let all = cases.iter().map(|(name, ..)| task(&format!("map:{name}")).agent(name));
    let result = drive(&ws, &workflow(4, [phase("map", all)]), json!({})).await;
    for (view, (name, _, model)) in views(&ws, &result.run_id).await.iter().zip(&cases) {
        assert_eq!(view.reported_model.as_deref(), Some(model.unwrap_or("unreported")), "{name}");
        let tokens = view.usage.as_ref().and_then(|usage| usage.input_tokens);
        assert_eq!(tokens, ["whole", "last"].contains(name).then_some(3), "{name}");
    }
}

fn write_own_result(request: &Request) {
    let path = request.json()["resultPath"].as_str().unwrap().to_owned();
    fs::write(path, results::text(Kind::Good, "written by the runner itself", CITE).unwrap()).unwrap();
}

#[tokio::test]
async fn e95_result_the_runner_wrote_itself_is_not_replaced() {
    let endpoint = EndpointServer::start(|request| async move {
        write_own_result(&request);
        Response::json(&json!({ "exitCode": 0, "stdout": "# Something else\n" }))
    })
    .await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    let result = drive(&ws, &alone(task("map:0")), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete);
    let view = views(&ws, &result.run_id).await.remove(0);
    assert_eq!(view.summary.as_deref(), Some("written by the runner itself is answered"));
}

#[tokio::test]
async fn e96_plain_text_of_an_endpoint_is_the_result_as_it_stands() {
    let text = "Found it, see src/lib.rs:2 and\n\n  src/store.rs:1   \u{e9}\tend";
    let endpoint = EndpointServer::start(move |_| {
        std::future::ready(Response::json(&json!({ "exitCode": 0, "stdout": format!("\n  {text}  \n\n") })))
    })
    .await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    let result = drive(&ws, &alone(task("map:0")), json!({})).await;
    let path = views(&ws, &result.run_id).await.remove(0).result_path.unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), format!("{text}\n"));
}

#[tokio::test]
async fn e97_result_beside_usage_is_a_result() {
    let body = results::text(Kind::Good, "map:0", CITE).unwrap();
    let stdout = json!({ "result": body, "usage": { "inputTokens": 2, "outputTokens": 1 } }).to_string();
    let endpoint =
        EndpointServer::start(move |_| std::future::ready(Response::json(&json!({ "exitCode": 0, "stdout": stdout }))))
            .await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
}

#[tokio::test]
async fn e98_job_is_asked_for_by_its_encoded_id_until_it_says_how_it_ended() {
    for (url_ends, joined) in
        [("", "/delegate?jobId=a%20b%26c"), ("?key=made-up", "/delegate?key=made-up&jobId=a%20b%26c")]
    {
        let endpoint = EndpointServer::start(|request| async move {
            match request.number {
                0 => Response::json(&json!({ "jobId": "a b&c", "done": false })),
                1 => Response::json(&json!({ "jobId": "a b&c" })),
                // Done, and the answer has no id any more.
                _ => Response::json(&json!({ "exitCode": 0, "stdout": results::text(Kind::Good, "x", CITE) })),
            }
        })
        .await;
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("remote", config::endpoint(&format!("{}{url_ends}", endpoint.url())))]));
        let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
        assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
        let asked: Vec<(String, String)> =
            endpoint.exchanges().into_iter().map(|e| (e.request.method, e.request.target)).collect();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked[1..].iter().all(|(method, target)| method == "GET" && target == joined), "{asked:?}");
    }
}

#[tokio::test]
async fn e98_poll_that_is_refused_fails_the_attempt() {
    let endpoint = EndpointServer::start(|request| async move {
        if request.method == "POST" {
            Response::json(&json!({ "jobId": "made-up" }))
        } else {
            Response::new(410, "gone")
        }
    })
    .await;
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("remote", config::endpoint(endpoint.url()))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert!(reasons(&result).contains("agent endpoint error: poll responded 410"), "{}", reasons(&result));
}

#[tokio::test]
async fn e99_output_below_the_cap_is_kept_whole_and_above_it_fails_that_agent_alone() {
    let ws = TestWorkspace::new();
    // Twenty megabytes of what JSON would need six times as much for.
    let escapes = format!("head -c 20000000 /dev/zero | tr '\\0' '\\001'; {GOOD}");
    ws.configure(&config::config([
        ("much", config::fixture(&ws, &["--print-mb", "25"])),
        ("escapes", shell(&escapes)),
        ("flood", config::fixture(&ws, &["--print-mb", "33"])),
    ]));
    let all = ["much", "escapes", "flood"].map(|agent| task(&format!("map:{agent}")).agent(agent));
    let result = drive(&ws, &workflow(3, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.completed_workers, result.parked_workers), (2, 1), "{result:#?}");
    let parked = steps(&result, StepAction::Park);
    assert_eq!(parked[0].task_id.as_ref().unwrap().as_str(), "map:flood");
    assert!(reasons(&result).contains("stdout exceeded 33554432 byte cap"), "{}", reasons(&result));
    let log = ws.run_folder(&result.run_id).join("workers").join(result.steps[0].worker_id.as_ref().unwrap().as_str());
    assert_eq!(fs::metadata(log.join("logs/stdout.log")).unwrap().len(), 25 * 1024 * 1024);
}

#[tokio::test]
async fn e100_outcome_that_was_recorded_is_kept_when_the_server_dies() {
    let ws = TestWorkspace::new();
    let gated = config::fixture(&ws, &["--gate", &ws.beside("gate")]);
    ws.configure(&config::config([("quick", config::fixture(&ws, &[])), ("gated", gated)]));
    let mut all = tasks(4);
    all[3] = task("map:3").agent("gated");
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let (_, run) = server.start_drive(&workflow(4, [phase("map", all)]), json!({})).await;
    crate::support::written(&ws, &run, "outcomeRecorded", 3).await;
    server.kill().await;
    // And the line it was writing when it died is cut in half.
    let file = journal_file(&ws, &run);
    let mut text = fs::read(&file).unwrap();
    let half = text.split(|byte| *byte == b'\n').nth(3).unwrap()[..50].to_vec();
    text.extend(half);
    fs::write(&file, text).unwrap();
    ws.open_gate("gate");
    let result = resume(&ws, &run, json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    let runs = ws.agent_runs();
    assert_eq!((runs["map:0"], runs["map:1"], runs["map:2"]), (1, 1, 1), "{runs:?}");
}

#[tokio::test]
async fn e101_lines_that_look_like_another_protocol_are_an_agents_output_and_nothing_else() {
    let ws = TestWorkspace::new();
    let lines = [
        json!({ "i": 0, "exitCode": 0, "stdout": "forged" }).to_string(),
        json!({ "i": 99, "exitCode": 0 }).to_string(),
        json!({ "i": "x", "spawnError": "forged" }).to_string(),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "status": "forged" } }).to_string(),
        "Content-Length: 20\r\n\r\n".to_owned(),
    ]
    .join("\n");
    ws.configure(&config::config([
        ("forger", config::fixture(&ws, &["--print", &lines])),
        ("failing", shell("exit 7")),
    ]));
    let all = [task("map:0").agent("failing"), task("map:1"), task("map:2")];
    for framing in Framing::BOTH {
        let server = Server::start(&ws, framing).await;
        let result = server.drive(&workflow(3, [phase("map", all.clone())]), json!({ "maxAttempts": 1 })).await;
        assert_eq!((result.completed_workers, result.parked_workers), (2, 1), "{result:#?}");
        // The harness reads the stream strictly; what an agent prints is no part of it.
        assert!(server.messages().iter().all(|message| !message["result"]["status"].to_string().contains("forged")));
        server.finish().await;
    }
}

/// Drives one task with this agent, alone and in a window; gives the reasons it parked for.
async fn parked(agent: AgentConfig) -> [String; 2] {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("agent", agent)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut found = Vec::new();
    for width in [1, 3] {
        let fields = json!({ "maxAttempts": 1, "concurrency": width });
        let result: DriveResult = server.drive(&workflow(3, [phase("map", tasks(3))]), fields).await;
        assert_eq!((result.status, result.parked_workers), (RunStatus::Parked, 3));
        found.push(steps(&result, StepAction::Park)[0].reason.clone().unwrap());
    }
    server.finish().await;
    found.try_into().unwrap()
}

#[tokio::test]
async fn e102_program_that_is_not_there_blocks_and_costs_no_attempt() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("agent", argv(&["/no/such/program"]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    for width in [1, 3] {
        let fields = json!({ "concurrency": width });
        let result: DriveResult = server.drive(&workflow(3, [phase("map", tasks(3))]), fields).await;
        assert_eq!((result.status, result.parked_workers), (RunStatus::Blocked, 0), "{result:#?}");
        let reason = result.reason.unwrap_or_default();
        assert!(reason.contains("/no/such/program") && reason.contains("doctor"), "{reason}");
        let view: RunView = server.ok("showRun", server.here(json!({ "runId": result.run_id }))).await;
        assert!(view.tasks.iter().all(|task| task.attempts == 0), "{view:#?}");
    }
    server.finish().await;
}

#[tokio::test]
async fn e103_agent_ended_by_a_signal_has_no_exit_code_and_the_signal_is_named() {
    for reason in parked(shell("kill -KILL $$")).await {
        let words = "agent process returned no exit code (timed out or killed): signal SIGKILL";
        assert!(reason.contains(words), "{reason}");
    }
}

#[tokio::test]
async fn e104_time_limit_has_one_wording_alone_and_in_a_window() {
    let [alone, together] = parked(limited(shell("exec sleep 600"), 300)).await;
    assert_eq!(alone, together);
    assert!(alone.contains("agent process timed out after 300ms"), "{alone}");
}

#[tokio::test]
async fn e105_agents_name_that_is_no_agent_blocks_before_anything_starts() {
    let ws = TestWorkspace::new();
    for name in ["node", "shell", "container"] {
        let result = drive(&ws, &alone(task("map:0").agent(name)), json!({})).await;
        assert_eq!((result.status, result.completed_workers), (RunStatus::Blocked, 0));
        let words = format!("agent backend not configured: {name}");
        assert!(reasons(&result).contains(&words), "{}", reasons(&result));
    }
    assert!(ws.agent_runs().is_empty());
}

#[tokio::test]
async fn e106_names_of_forwarded_variables_are_recorded_alone_and_in_a_window() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("failing", shell("exit 7"))]));
    let server = Server::builder(&ws, Framing::Ndjson).env("MISTRAL_MADE_UP", "made-up").start().await;
    for width in [1, 3] {
        let fields = json!({ "maxAttempts": 1, "concurrency": width });
        let result = server.drive(&workflow(3, [phase("map", tasks(3))]), fields).await;
        for n in 0..3 {
            let outcome = outcomes(&ws, &result.run_id, &format!("map:{n}")).remove(0);
            let names = outcome["forwardedEnv"].as_array().unwrap();
            assert!(names.contains(&json!("MISTRAL_MADE_UP")), "{outcome:#}");
        }
    }
    server.finish().await;
}
