//! The client against a peer in this process: what a well-behaved server never does, and what jsonrpsee would not survive.

use super::*;
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

/// The server's side of the pipe.
struct Peer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    out: WriteHalf<DuplexStream>,
}

impl Peer {
    async fn read(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the client closed its half");
        serde_json::from_str(&line).unwrap()
    }

    async fn write(&mut self, text: &str) {
        self.out.write_all(text.as_bytes()).await.unwrap();
    }

    async fn send(&mut self, value: &Value) {
        self.write(&format!("{value}\n")).await;
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }
}

fn info(oldest: u32, newest: u32) -> Value {
    json!({"name": "flowdrive", "version": "9", "protocolVersion": newest, "minProtocolVersion": oldest, "methods": []})
}

async fn handshake(answer: Value) -> (Result<Client, ClientError>, Peer) {
    let (near, far) = tokio::io::duplex(256);
    let (read, out) = tokio::io::split(far);
    let mut peer = Peer { lines: BufReader::new(read).lines(), out };
    let (near_read, near_write) = tokio::io::split(near);
    let serving = async {
        let request = peer.read().await;
        assert_eq!(request["method"], "serverInfo");
        assert_eq!(request["params"], json!({"protocolVersion": PROTOCOL_VERSION}));
        peer.answer(&request, answer).await;
        peer
    };
    tokio::join!(Client::connect(near_read, near_write), serving)
}

async fn pair() -> (Client, Peer) {
    let (client, peer) = handshake(info(1, 1)).await;
    (client.unwrap(), peer)
}

fn started(run: &str, seq: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "flowdrive/progress", "params": {
        "runId": run, "seq": seq, "at": "2026-01-02T03:04:05.678Z",
        "type": "stopRequested", "mode": "graceful", "by": "test"}})
}

fn drive_result(run: &str) -> Value {
    json!({"schemaVersion": 1, "runId": run, "workflowId": "w", "status": "complete", "steps": [], "plannedWorkers": 1,
        "completedWorkers": 1, "parkedWorkers": 0, "reportPath": "r", "statePath": "s", "agentConfigured": true})
}

#[tokio::test]
async fn a_version_the_client_does_not_speak_is_refused() {
    let (client, _peer) = handshake(info(PROTOCOL_VERSION + 1, PROTOCOL_VERSION + 2)).await;
    assert!(matches!(client, Err(ClientError::ProtocolMismatch { ours: PROTOCOL_VERSION, .. })));
}

#[tokio::test]
async fn empty_parameters_are_an_empty_object() {
    let (client, mut peer) = pair().await;
    let params = DoctorParams::default();
    let (answer, request) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        peer.answer(&request, json!({"version": "1", "ok": true, "checks": []})).await;
        request
    });
    assert_eq!(request["params"], json!({}), "{request}");
    assert!(answer.unwrap().ok);
}

#[tokio::test]
async fn requests_of_the_server_are_answered_while_a_call_waits() {
    let (client, mut peer) = pair().await;
    let params = DoctorParams::default();
    let (answer, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        peer.send(&json!({"jsonrpc": "2.0", "id": "t", "method": "window/workDoneProgress/create", "params": {}}))
            .await;
        assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "id": "t", "result": null}));
        peer.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "workspace/configuration"})).await;
        let refusal = peer.read().await;
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(0), &json!(-32601)));
        peer.answer(&request, json!({"version": "1", "ok": true, "checks": []})).await;
    });
    answer.unwrap();
}

#[tokio::test]
async fn odd_lines_do_not_end_the_connection() {
    let (client, mut peer) = pair().await;
    let params = DoctorParams::default();
    let (answer, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        for odd in [
            "\n",
            "\r\n",
            "Compiling flowdrive v0.1.0\n",
            "{\"jsonrpc\":\n",
            "[]\n",
            "\u{feff}{}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"telemetry/event\",\"params\":[1]}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"flowdrive/progress\",\"params\":{\"type\":\"unheardOf\"}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"m\"}}\n",
        ] {
            peer.write(odd).await;
        }
        peer.answer(&request, json!({"version": "1", "ok": true, "checks": []})).await;
        // The same answer twice: the second has nobody waiting for it.
        peer.answer(&request, json!({"version": "1", "ok": true, "checks": []})).await;
    });
    answer.unwrap();
    let (again, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        peer.send(&json!({"jsonrpc": "2.0", "id": request["id"]})).await;
    });
    let error = again.unwrap_err();
    assert!(matches!(error, ClientError::Server { code: -32603, .. }), "{error:?}");
    let (third, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        peer.answer(&request, json!({"version": 7})).await;
    });
    assert!(matches!(third.unwrap_err(), ClientError::BadAnswer { method: "doctor", .. }));
}

#[tokio::test]
async fn a_megabyte_in_single_bytes_and_two_frames_in_one_write_are_read() {
    let (client, mut peer) = pair().await;
    let long = "x".repeat(1024 * 1024);
    let params = DoctorParams::default();
    let mut events = client.events();
    let (answer, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        let answer =
            json!({"jsonrpc": "2.0", "id": request["id"], "result": {"version": long, "ok": true, "checks": []}});
        peer.write(&format!("{}\n{}\n{answer}\n", started("a", 1), started("a", 2))).await;
    });
    assert_eq!(answer.unwrap().version.len(), long.len());
    assert_eq!((events.next().await.unwrap().seq, events.next().await.unwrap().seq), (1, 2));
    let (answer, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"version": "\u{1f980}", "ok": true, "checks": []}});
        for byte in format!("{answer}\r\n").into_bytes() {
            peer.out.write_all(&[byte]).await.unwrap();
            peer.out.flush().await.unwrap();
        }
    });
    assert_eq!(answer.unwrap().version, "\u{1f980}");
}

#[tokio::test]
async fn a_domain_error_arrives_whole() {
    let (client, mut peer) = pair().await;
    let params = VerifyRunParams { workspace: None, run_id: RunId::new("r").unwrap() };
    let (answer, ()) = tokio::join!(client.verify_run(&params), async {
        let request = peer.read().await;
        let data = json!({"kind": "run-locked", "hint": "wait", "pid": 12, "extra": true});
        let error = json!({"code": -32011, "message": "driven by 12", "data": data});
        peer.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    });
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::RunLocked));
    assert_eq!(error.data().and_then(|data| data.pid), Some(12));
    assert_eq!((error.to_string().as_str(), error.hint().as_deref()), ("driven by 12", Some("wait")));
}

#[tokio::test]
async fn a_call_that_is_not_answered_times_out_and_a_late_answer_does_no_harm() {
    let (client, mut peer) = pair().await;
    let hasty = client.clone().with_timeout(Duration::from_millis(1));
    let error = hasty.doctor(&DoctorParams::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { method: "doctor", .. }), "{error:?}");
    let late = peer.read().await;
    peer.answer(&late, json!({"version": "late", "ok": true, "checks": []})).await;
    let params = DoctorParams::default();
    let (answer, ()) = tokio::join!(client.doctor(&params), async {
        let request = peer.read().await;
        peer.answer(&request, json!({"version": "new", "ok": true, "checks": []})).await;
    });
    assert_eq!(answer.unwrap().version, "new");
}

#[tokio::test]
async fn two_drives_at_once_get_their_own_events_and_a_stop_follows_its_drive() {
    let (client, mut peer) = pair().await;
    let params = DriveParams { workflow: Some(WorkflowRef::Id("w".into())), ..DriveParams::default() };
    let (mut one, mut two) = (client.drive(params.clone()), client.drive(params));
    let ids = [one.run_id.clone().unwrap().to_string(), two.run_id.clone().unwrap().to_string()];
    assert_ne!(ids[0], ids[1]);
    let stopping = {
        let client = client.clone();
        let run_id = two.run_id.clone().unwrap();
        tokio::spawn(async move { client.cancel(None, run_id).await })
    };
    let mut requests = Vec::new();
    for expected in ["drive", "drive", "stop"] {
        let request = peer.read().await;
        assert_eq!(request["method"], expected);
        requests.push(request);
    }
    assert_eq!(requests[0]["params"]["runId"], *ids[0]);
    assert_eq!(requests[2]["params"]["runId"], *ids[1]);
    peer.answer(&requests[2], json!({"runId": ids[1], "driving": true, "mode": "graceful"})).await;
    assert!(stopping.await.unwrap().unwrap().driving);
    for (seq, run) in [(1, 1), (1, 0), (2, 0), (2, 1)] {
        peer.send(&started(&ids[run], seq)).await;
    }
    peer.answer(&requests[1], drive_result(&ids[1])).await;
    peer.send(&started(&ids[0], 3)).await;
    peer.answer(&requests[0], drive_result(&ids[0])).await;
    for (drive, run, last) in [(&mut one, &ids[0], 3), (&mut two, &ids[1], 2)] {
        let mut numbers = Vec::new();
        while let Some(event) = drive.events.next().await {
            assert_eq!(event.run_id.as_str(), run);
            assert!(matches!(event.event, Event::StopRequested { .. }));
            numbers.push(event.seq);
        }
        assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "all of them, then the end");
        assert_eq!(client.last_seq(drive.run_id.as_ref().unwrap()), Some(last));
    }
    assert_eq!(one.result.await.unwrap().run_id.as_str(), ids[0]);
    assert_eq!(two.result.await.unwrap().run_id.as_str(), ids[1]);
}

#[tokio::test]
async fn events_missed_are_fetched_page_by_page() {
    let (client, mut peer) = pair().await;
    let run_id = RunId::new("r").unwrap();
    let view = |events: Vec<Value>, more: bool| {
        json!({"schemaVersion": 1, "summary": {"runId": "r", "workflowId": "w", "title": "t", "status": "in-progress",
            "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z", "plannedWorkers": 1,
            "completedWorkers": 0, "parkedWorkers": 0, "openFeedback": 0, "driving": false}, "inputs": {}, "phases": [],
            "tasks": [], "totalTasks": 1, "lastSeq": 9, "events": events, "moreEvents": more, "reportPath": "r",
            "statePath": "s"})
    };
    let event = |seq: u64| started("r", seq)["params"].clone();
    let (replayed, ()) = tokio::join!(client.replay(Some("/w"), &run_id, 5), async {
        for (since, answer) in [(5, view(vec![event(6), event(7)], true)), (7, view(vec![event(8)], false))] {
            let request = peer.read().await;
            assert_eq!((&request["method"], &request["params"]["sinceSeq"]), (&json!("showRun"), &json!(since)));
            peer.answer(&request, answer).await;
        }
    });
    let (missed, run) = replayed.unwrap();
    assert_eq!(missed.iter().map(|event| event.seq).collect::<Vec<_>>(), [6, 7, 8]);
    assert_eq!(run.last_seq, 9);
    assert!(matches!(client.reattach(None, &run_id).await, Err(ClientError::TransportLost { .. })));
}

#[tokio::test]
async fn when_the_server_is_lost_waiting_calls_fail_and_events_end() {
    let (client, mut peer) = pair().await;
    let mut events = client.events();
    let running = client.resume(ResumeParams {
        workspace: None,
        run_id: RunId::new("r").unwrap(),
        agent: None,
        concurrency: None,
        once: false,
        incremental: false,
        max_attempts: None,
        token_budget: None,
        allow_unattested: false,
        work_done_token: None,
    });
    peer.read().await;
    peer.send(&started("r", 1)).await;
    peer.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"resu").await;
    drop(peer);
    assert_eq!(events.next().await.map(|event| event.seq), Some(1));
    assert_eq!(events.next().await, None);
    let error = running.result.await.unwrap_err();
    assert!(error.is_connection_loss(), "{error:?}");
    assert!(client.doctor(&DoctorParams::default()).await.unwrap_err().is_connection_loss());
}

#[tokio::test]
async fn closing_writes_what_is_queued_and_then_ends_the_servers_input() {
    let (client, mut peer) = pair().await;
    let running =
        client.drive(DriveParams { workflow: Some(WorkflowRef::Path("a.toml".into())), ..DriveParams::default() });
    assert_eq!(peer.read().await["method"], "drive");
    assert_eq!(client.shutdown().await.unwrap(), None, "nothing that we started");
    assert!(peer.lines.next_line().await.unwrap().is_none());
    drop(peer);
    let error = running.result.await.unwrap_err();
    assert!(matches!(&error, ClientError::TransportLost { reason } if reason.contains("shut down")), "{error:?}");
}

#[tokio::test]
async fn dropping_the_last_client_ends_the_servers_input_even_with_a_drive_under_way() {
    let (client, mut peer) = pair().await;
    let running = client.drive(DriveParams { workflow: Some(WorkflowRef::Id("w".into())), ..DriveParams::default() });
    assert_eq!(peer.read().await["method"], "drive");
    drop(running);
    drop(client);
    assert!(peer.lines.next_line().await.unwrap().is_none());
}
