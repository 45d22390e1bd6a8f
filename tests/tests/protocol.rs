//! The conversation itself: both framings, the lifecycle, faults of the client, and many requests at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::ServerInfo;
use flowdrive_protocol::run::{DrivePreview, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

fn one_task() -> Value {
    workflow(1, [phase("map", [task("map:a")])])
}

#[tokio::test]
async fn initialize_tells_name_version_and_protocol_version() {
    let ws = TestWorkspace::new();
    let server = Server::builder(&ws, Framing::Lsp).without_handshake().start().await;
    let answer = server.initialize(std::process::id(), json!({})).await;
    assert_eq!(answer["serverInfo"]["name"], "flowdrive");
    assert!(answer["serverInfo"]["version"].is_string(), "{answer:#}");
    let version = answer["capabilities"]["experimental"]["flowdrive"]["protocolVersion"].clone();
    assert_eq!(version, flowdrive_protocol::PROTOCOL_VERSION, "{answer:#}");
    let commands = answer["capabilities"]["executeCommandProvider"]["commands"].to_string();
    assert!(commands.contains("drive"), "clients without an extension can drive too: {commands}");
    server.finish().await;
}

#[tokio::test]
async fn newline_json_needs_no_handshake_and_server_info_lists_the_methods() {
    use flowdrive_protocol::method as m;
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let info: ServerInfo = server.ok(m::SERVER_INFO, json!({ "protocolVersion": 1 })).await;
    assert_eq!((info.name.as_str(), info.protocol_version), ("flowdrive", flowdrive_protocol::PROTOCOL_VERSION));
    for method in [
        m::DRIVE,
        m::PREVIEW,
        m::RESUME,
        m::RESOLVE_FEEDBACK,
        m::STOP,
        m::LIST_RUNS,
        m::SHOW_RUN,
        m::LIST_FEEDBACK,
        m::LIST_WORKFLOWS,
        m::VERIFY_RUN,
        m::DOCTOR,
        m::SERVER_INFO,
    ] {
        assert!(info.methods.iter().any(|known| known == method), "{method} is not in {:?}", info.methods);
    }
    server.finish().await;
}

#[tokio::test]
async fn a_protocol_version_nobody_speaks_is_refused_by_name() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let error = server.err("serverInfo", json!({ "protocolVersion": 99 })).await;
    error.assert_kind(ErrorKind::ProtocolMismatch);
    assert!(error.message.contains("99") && error.message.contains('1'), "both versions are named: {error:?}");
    server.finish().await;

    let mut server = Server::builder(&ws, Framing::Lsp).without_handshake().start().await;
    let params = json!({ "processId": null, "capabilities": {}, "initializationOptions": { "protocolVersion": 99 } });
    server.err("initialize", params).await.assert_kind(ErrorKind::ProtocolMismatch);
    server.close_stdin().await;
    server.wait_exit().await;
}

#[tokio::test]
async fn the_lifecycle_is_kept() {
    let ws = TestWorkspace::new();
    let mut server = Server::builder(&ws, Framing::Lsp).without_handshake().start().await;
    assert_eq!(server.err("listRuns", server.here(json!({}))).await.code, -32002, "nothing before initialize");
    server.initialize(std::process::id(), json!({})).await;
    assert_eq!(server.call("shutdown", Value::Null).await, Ok(Value::Null));
    assert_eq!(server.err("listRuns", server.here(json!({}))).await.code, -32600, "nothing after shutdown");
    server.notify("exit", Value::Null).await;
    assert!(server.wait_exit().await.success(), "exit after shutdown is a clean end");

    let mut server = Server::start(&ws, Framing::Lsp).await;
    server.notify("exit", Value::Null).await;
    assert_eq!(server.wait_exit().await.code(), Some(1), "exit without shutdown is not");
}

#[tokio::test]
async fn one_bad_message_is_answered_and_the_next_one_served() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let server = Server::start(&ws, framing).await;
        for (body, code) in [
            (r#"{"jsonrpc":"2.0","id":501,"method":"#, -32700),
            (r#"{"jsonrpc":"2.0","id":502,"method":"drive","params":{"concurrency":NaN}}"#, -32700),
            (r#"{"jsonrpc":"2.0","id":503,"method":17}"#, -32600),
            (r#""hello""#, -32600),
        ] {
            let known = server.messages().len();
            server.send_raw(&framing.frame(body)).await;
            let answer = server
                .wait_for(&format!("an error for {body}"), |messages| {
                    messages[known..].iter().find(|message| message.get("error").is_some()).cloned()
                })
                .await;
            assert_eq!(answer["error"]["code"], code, "{framing:?} {body}: {answer}");
        }
        let unknown = server.err("no/such/method", json!({})).await;
        assert_eq!(unknown.code, -32601);
        let _: Value = server.ok("listRuns", server.here(json!({}))).await;
        server.finish().await;
    }
}

#[tokio::test]
async fn a_large_request_is_served_and_one_over_the_limit_refused_without_the_server_ending() {
    const MIB: usize = 1024 * 1024;
    // As docs/protocol.md says.
    const LIMIT: usize = 100 * MIB;
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let server = Server::start(&ws, framing).await;
        let mut document = one_task();
        document["summary"] = "x".repeat(15 * MIB).into();
        let params = server.here(json!({ "workflow": { "inline": document } }));
        let preview: DrivePreview = server.ok("preview", params).await;
        assert_eq!(preview.planned_workers, 1, "{framing:?}");

        let known = server.messages().len();
        if framing == Framing::Lsp {
            server.send_raw(format!("Content-Length: {}\r\n\r\n", LIMIT + 1).as_bytes()).await;
        }
        // A request, as far as anybody reads it.
        let start = br#"{"jsonrpc":"2.0","id":7001,"method":"listRuns","params":{"filler":""#;
        server.send_raw(start).await;
        let piece = vec![b'x'; MIB];
        let mut left = LIMIT + 1 - start.len() - 3;
        while left > 0 {
            let size = left.min(MIB);
            server.send_raw(&piece[..size]).await;
            left -= size;
        }
        server.send_raw(b"\"}}").await;
        if framing == Framing::Ndjson {
            server.send_raw(b"\n").await;
        }
        let answer = server
            .wait_for("the refusal of a message over the limit", |messages| {
                messages[known..].iter().find(|message| message.get("error").is_some()).cloned()
            })
            .await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)), "{framing:?}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(&LIMIT.to_string()), "{framing:?}: {answer}");
        let _: Value = server.ok("listRuns", server.here(json!({}))).await;
        server.finish().await;
    }
}

#[tokio::test]
async fn frames_may_arrive_byte_by_byte_with_lower_case_headers_and_in_one_piece() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Lsp).await;
    let body =
        json!({ "jsonrpc": "2.0", "id": 901, "method": "listRuns", "params": server.here(json!({})) }).to_string();
    let frame = format!(
        "content-length: {}\r\ncontent-type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n{body}",
        body.len()
    );
    for byte in frame.as_bytes() {
        server.send_raw(&[*byte]).await;
    }
    let _: Value = server.result(901).await;
    let mut both = Framing::Lsp.frame(&body.replace("901", "902"));
    both.extend(Framing::Lsp.frame(&body.replace("901", "903")));
    server.send_raw(&both).await;
    let _: Value = server.result(902).await;
    let _: Value = server.result(903).await;
    server.finish().await;
}

#[tokio::test]
async fn a_message_of_megabytes_is_read_whole() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let server = Server::start(&ws, framing).await;
        let question = "é".repeat(1024 * 1024);
        let params = server.here(json!({ "workflow": { "inline": one_task() }, "inputs": { "question": question } }));
        let preview: DrivePreview = server.ok("preview", params).await;
        assert_eq!(preview.planned_workers, 1);
        server.finish().await;
    }
}

#[tokio::test]
async fn a_body_beyond_every_bound_is_refused_and_the_server_goes_on() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Lsp).await;
    let size = 100 * 1024 * 1024;
    let head = format!("Content-Length: {size}\r\n\r\n");
    server.send_raw(head.as_bytes()).await;
    let chunk = vec![b' '; 1024 * 1024];
    for _ in 0..100 {
        server.send_raw(&chunk).await;
    }
    let error = server
        .wait_for("an error for the body", |messages| messages.iter().find(|m| m.get("error").is_some()).cloned())
        .await;
    assert!(matches!(error["error"]["code"].as_i64(), Some(-32700 | -32600)), "{error}");
    let _: Value = server.ok("listRuns", server.here(json!({}))).await;
    server.finish().await;
}

#[tokio::test]
async fn junk_widths_and_unknown_words_are_invalid_params() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let server = Server::start(&ws, framing).await;
        let before = ws.snapshot();
        for concurrency in [json!(0), json!(-1), json!(1.5), json!("8"), json!(true), json!(1e30), json!([2])] {
            for method in ["drive", "preview"] {
                let params = json!({ "workflow": { "inline": one_task() }, "concurrency": concurrency });
                let error = server.err(method, server.here(params)).await;
                assert_eq!(error.code, -32602, "{method} with concurrency {concurrency}: {error:?}");
            }
        }
        for (method, params) in [
            ("stop", json!({ "runId": "a-run", "mode": "sideways" })),
            ("resolveFeedback", json!({ "runId": "a-run", "feedbackId": "f", "resolution": "perhaps" })),
            ("drive", json!({ "workflow": { "inline": one_task() }, "once": "false" })),
            ("drive", json!({ "workflow": { "elsewhere": "x" } })),
            ("drive", json!({})),
            ("drive", json!({ "workflow": { "inline": one_task() }, "maxAttempts": 0 })),
            ("showRun", json!({ "runId": "../../etc" })),
            ("showRun", json!({ "runId": ".." })),
            ("showRun", json!({})),
            ("resume", json!({ "runId": "a/b" })),
        ] {
            let error = server.err(method, server.here(params.clone())).await;
            assert_eq!(error.code, -32602, "{method} {params}: {error:?}");
            assert!(!error.message.is_empty());
        }
        flowdrive_tests::tree::assert_same(&before, &ws.snapshot(), "after requests that were all refused");
        server.finish().await;
    }
}

#[tokio::test]
async fn a_drive_in_flight_holds_up_nothing_else() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
        let server = Server::start(&ws, framing).await;
        // More drives than any small pool of handlers has places.
        let mut drives = Vec::new();
        for _ in 0..6 {
            drives.push(server.start_drive(&one_task(), json!({})).await);
        }
        let run = &drives[0].1;
        let _: Value = server.ok("preview", server.here(json!({ "runId": run }))).await;
        let _: Value = server.ok("showRun", server.here(json!({ "runId": run }))).await;
        let runs: Value = server.ok("listRuns", server.here(json!({}))).await;
        assert_eq!(runs["total"], 6);
        assert!(runs["runs"].as_array().unwrap().iter().all(|run| run["driving"] == true), "{runs:#}");
        let _: Value = server.ok("doctor", server.here(json!({}))).await;
        let answered = server.messages().iter().filter(|message| message["result"]["steps"].is_array()).count();
        assert_eq!(answered, 0, "no drive can have ended: its agent waits at a closed gate");
        ws.open_gate("gate");
        for (request, _) in drives {
            let result: flowdrive_protocol::run::DriveResult = server.result(request).await;
            assert_eq!(result.status, RunStatus::Complete);
        }
        server.finish().await;
    }
}

#[tokio::test]
async fn stdout_carries_frames_only_whatever_is_logged() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("loud", config::fixture(&ws, &["--print", "loud words of an agent"]))]));
    let server =
        Server::builder(&ws, Framing::Lsp).env("RUST_LOG", "trace").env("FLOWDRIVE_LOG", "trace").start().await;
    let result = server.drive(&one_task(), json!({ "workDoneToken": "t" })).await;
    assert_eq!(result.status, RunStatus::Complete);
    // The reader of this harness fails on anything that is not a frame; so does this, on what a frame may hold.
    for message in server.finish().await {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_for_a_whole_drive_of_200_tasks_misses_no_lifecycle_event() {
    let ws = TestWorkspace::new();
    let line =
        "a line of activity that is some hundred bytes long, as agents print them while they read and think about it";
    ws.configure(&config::config([("chatty", config::fixture(&ws, &["--cite", "src/lib.rs:2", "--print", line]))]));
    let server = Server::start(&ws, Framing::Lsp).await.with_patience(std::time::Duration::from_secs(240));
    let tasks = (0..200).map(|n| task(&format!("map:{n}")));
    let (request, run) = server.start_drive(&workflow(16, [phase("map", tasks)]), json!({})).await;
    server.read(false);
    // The record on disk says when the drive is over: it is not held up by who does not read.
    let journal = ws.run_folder(&run).join("journal.jsonl");
    flowdrive_tests::wait::until("the run to end, unread", || {
        std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"driveFinished\"")).then_some(())
    })
    .await;
    server.read(true);
    let result: flowdrive_protocol::run::DriveResult = server.result(request).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 200));
    let numbers: Vec<u64> = server.lifecycle(&run).iter().map(|event| event.seq).collect();
    assert!(numbers.len() > 400, "{}", numbers.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gap, no repetition");
    server.finish().await;
}

/// Texts and whole numbers are given back as they came; all else that stands in the place of an id is refused.
#[tokio::test]
async fn ids_are_given_back_as_they_came_or_refused() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let server = Server::start(&ws, framing).await;
        for (id, good) in [
            ("7000", true),
            ("7000.0", true),
            ("-7.5e3", true),
            ("7e3", true),
            ("-0", true),
            ("9007199254740993", true),
            ("18446744073709551615", true),
            ("-9223372036854775808", true),
            (r#""7000""#, true),
            (r#""""#, true),
            ("1.5", false),
            ("-0.25", false),
            ("1e-3", false),
            ("1e300", false),
            ("9007199254740993.0", false),
            ("99999999999999999999", false),
            ("null", false),
            ("true", false),
            ("[1]", false),
            (r#"{"a":1}"#, false),
        ] {
            let known = server.messages().len();
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"serverInfo","params":{{}}}}"#);
            server.send_raw(&framing.frame(&body)).await;
            let answer = server.wait_for("an answer", |messages| messages.get(known).cloned()).await;
            let sent: Value = serde_json::from_str(id).unwrap();
            if good {
                assert_eq!(
                    (&answer["id"], &answer["result"]["name"]),
                    (&sent, &json!("flowdrive")),
                    "{framing:?} {id}"
                );
            } else {
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (&Value::Null, &json!(-32600)),
                    "{framing:?} {id}"
                );
            }
        }
        server.finish().await;
    }
}

/// A script that pipes its requests in and closes its end: a drive that comes too late is refused for what it is, and one
/// that does not is stopped. With `--finish-on-eof` it is driven to its end.
#[tokio::test]
async fn a_drive_whose_client_closed_its_end_is_answered_truthfully() {
    // Where the end of the input meets the drive differs from time to time: before it began, while it is made ready, after.
    for finish in [false, true, false, false, false, false, false, false] {
        let ws = TestWorkspace::new();
        let builder = Server::builder(&ws, Framing::Ndjson).without_handshake();
        let mut server = if finish { builder.arg("--finish-on-eof") } else { builder }.start().await;
        let document = workflow(1, [phase("map", [task("map:a")])]);
        let request = server.send("drive", server.here(json!({ "workflow": { "inline": document } }))).await;
        server.close_stdin().await;
        match server.answer(request).await {
            Ok(result) if finish => assert_eq!(result["status"], "complete"),
            // The stop may also find it done.
            Ok(result) => assert!(result["stopped"] == "now" || result["status"] == "complete", "{result:#}"),
            Err(error) => {
                assert!(!finish, "{error:?}");
                error.assert_kind(ErrorKind::ShuttingDown);
                assert!(error.message.contains("end of input"), "{error:?}");
            }
        }
        assert!(server.wait_exit().await.success());
    }
}

#[tokio::test]
async fn unknown_params_are_passed_over_and_logged() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let _: Value = server.ok("listRuns", server.here(json!({ "limt": 3 }))).await;
    let log = flowdrive_tests::wait::until("the log to say so", || {
        let log = server.log();
        log.contains("limt").then_some(log)
    })
    .await;
    assert!(log.contains("WARN") && log.contains("listRuns"), "{log}");
    server.finish().await;
}

#[tokio::test]
async fn events_can_be_opted_out_of_by_name() {
    let ws = TestWorkspace::new();
    let server = Server::builder(&ws, Framing::Lsp)
        .options(json!({ "notifications": { "optOut": ["taskDispatched", "agentActivity"] } }))
        .start()
        .await;
    server.drive(&one_task(), json!({})).await;
    let events = server.events();
    assert!(events.iter().any(|event| matches!(event.event, Event::TaskAccepted { .. })));
    assert!(
        !events.iter().any(|event| matches!(event.event, Event::TaskDispatched { .. } | Event::AgentActivity { .. }))
    );
    server.finish().await;
}

#[tokio::test]
async fn agents_can_come_from_initialization_options() {
    let ws = TestWorkspace::new();
    let agent = config::fixture(&ws, &["--cite", "src/store.rs:2"]);
    let server = Server::builder(&ws, Framing::Lsp)
        .options(json!({ "agents": { "from-editor": agent }, "defaultAgent": "from-editor" }))
        .start()
        .await;
    let preview: DrivePreview =
        server.ok("preview", server.here(json!({ "workflow": { "inline": one_task() } }))).await;
    assert_eq!(preview.plan[0].tasks[0].agent.as_ref().map(AsRef::as_ref), Some("from-editor"));
    server.finish().await;
}
