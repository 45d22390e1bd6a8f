//! Drives: their events, their progress, cancelling, and clients that do not read.

use super::fake::{accepted, activity, event};
use super::*;

fn ended(run: &str, seq: u64) -> flowdrive_protocol::event::ProgressEvent {
    event(
        run,
        seq,
        &json!({"type": "runFinished", "status": "complete", "completedWorkers": 4, "parkedWorkers": 0, "reportPath": ""}),
    )
}

#[tokio::test]
async fn everything_told_before_an_answer_leaves_before_it() {
    let mut client = Client::introduced(json!({})).await;
    for round in 0..300 {
        let id = json!(format!("d{round}"));
        client.request(id.clone(), "drive", json!({"runId": "r", "workDoneToken": round})).await;
        client.told("flowdrive/progress").await;
        client.engine.tell(round, accepted("r", 2));
        client.engine.tell(round, ended("r", 3));
        client.engine.drive(round).finish();
        client.answer(id).await;
        let order: Vec<String> = client
            .aside
            .drain(..)
            .filter(|message| message["params"]["value"]["kind"] != "report")
            .map(|message| {
                let params = &message["params"];
                params["type"].as_str().or_else(|| params["value"]["kind"].as_str()).unwrap().to_owned()
            })
            .collect();
        assert_eq!(order, ["begin", "taskAccepted", "runFinished", "end"], "round {round}");
    }
}

#[tokio::test]
async fn progress_is_shown_with_the_clients_token() {
    let mut client = Client::introduced(json!({})).await;
    client.request(json!(1), "drive", json!({"runId": "r", "workDoneToken": "t"})).await;
    let begin = client.told("$/progress").await;
    let value = json!({"kind": "begin", "title": "Flowdrive: Title", "cancellable": true, "percentage": 0});
    assert_eq!(begin["params"], json!({"token": "t", "value": value}));
    client.engine.tell(0, accepted("r", 2));
    let report = client.told("$/progress").await;
    assert_eq!(report["params"]["value"]["kind"], "report");
    client.engine.drive(0).finish();
    loop {
        let told = client.told("$/progress").await;
        if told["params"]["value"]["kind"] == "end" {
            break;
        }
    }
    client.answer(json!(1)).await;
}

#[tokio::test]
async fn the_server_opens_a_display_when_it_may_and_never_waits_for_it() {
    let mut client = Client::introduced(json!({"window": {"workDoneProgress": true}})).await;
    let answer = client.ask(json!(1), "drive", json!({"runId": "quick"})).await;
    assert_eq!(answer["result"]["runId"], "quick", "though the client has not answered");
    let create = client.told("window/workDoneProgress/create").await;
    let token = create["params"]["token"].clone();
    client.send(&json!({"jsonrpc": "2.0", "id": create["id"], "result": null})).await;
    for kind in ["begin", "end"] {
        let told = client.told("$/progress").await;
        assert_eq!((&told["params"]["token"], &told["params"]["value"]["kind"]), (&token, &json!(kind)));
    }
    // An answer to nothing, or a second one, does no harm.
    client.send(&json!({"jsonrpc": "2.0", "id": create["id"], "result": null})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": 999, "error": {"code": 1, "message": "no"}})).await;
    client.request(json!(2), "drive", json!({"runId": "r"})).await;
    let create = client.told("window/workDoneProgress/create").await;
    client.send(&json!({"jsonrpc": "2.0", "id": create["id"], "error": {"code": -32603, "message": "no"}})).await;
    client.engine.drive(1).finish();
    client.answer(json!(2)).await;
    assert!(client.aside.iter().all(|message| message["method"] != "$/progress"), "refused, so not used");
}

#[tokio::test]
async fn cancelling_answers_at_once_and_stops_gracefully() {
    let ways = [("$/cancelRequest", json!({"id": 1})), ("window/workDoneProgress/cancel", json!({"token": "t"}))];
    for (name, way) in ways {
        for method in ["drive", "workspace/executeCommand"] {
            let mut client = Client::introduced(json!({})).await;
            let params = json!({"runId": "stubborn", "workDoneToken": "t"});
            let params =
                if method == "drive" { params } else { json!({"command": "flowdrive.drive", "arguments": [params]}) };
            client.request(json!(1), method, params).await;
            client.told("flowdrive/progress").await;
            client.notify(name, way.clone()).await;
            assert_eq!(client.answer(json!(1)).await["error"]["code"], -32800, "{name}");
            // The drive goes on settling, and says so, after its request was answered.
            client.engine.tell(0, ended("stubborn", 2));
            let told = client.told("flowdrive/progress").await;
            assert_eq!(told["params"]["type"], "runFinished");
            client.engine.drive(0).finish();
            loop {
                if client.told("$/progress").await["params"]["value"]["kind"] == "end" {
                    break;
                }
            }
            assert_eq!(*client.engine.stops.lock().unwrap(), [(StopMode::Graceful, "client".to_owned())]);
            assert_eq!(client.ask(json!(1), "doctor", json!({})).await["result"]["ok"], true);
        }
    }
}

#[tokio::test]
async fn events_that_were_opted_out_of_are_not_sent() {
    let mut client = Client::start(Framing::Lsp);
    client.introduce(json!({}), json!({"notifications": {"optOut": ["agentActivity", "runStarted"]}})).await;
    client.request(json!(1), "resume", json!({"runId": "r"})).await;
    client.ask(json!(2), "doctor", json!({})).await;
    client.engine.wait_for_drive().await;
    client.engine.tell(0, activity("r", 1, "t", "working"));
    client.engine.tell(0, accepted("r", 2));
    client.engine.drive(0).finish();
    client.answer(json!(1)).await;
    let types: Vec<&Value> = client.aside.iter().map(|message| &message["params"]["type"]).collect();
    assert_eq!(types, ["taskAccepted"]);
}

impl Fake {
    async fn wait_for_drive(&self) {
        while self.drives.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_nothing_up_and_misses_no_lifecycle_event() {
    let limits = Limits { slack: 8, event_bytes: 20_000, ..Limits::default() };
    let mut client = Client::start_with(Framing::Ndjson, Options::default(), limits, None);
    client.request(json!(1), "drive", json!({"runId": "r", "workDoneToken": "t"})).await;
    client.told("flowdrive/progress").await;
    client.gate.set(true);
    // All of this returns although nobody reads: the engine is not held up.
    for seq in 2..=5000 {
        client.engine.tell(0, accepted("r", seq));
        client.engine.tell(0, activity("r", seq, "busy", &format!("line {seq}")));
    }
    client.engine.tell(0, ended("r", 5001));
    client.engine.drive(0).finish();
    client.request(json!(2), "doctor", json!({})).await;
    client.gate.set(false);
    client.answer(json!(1)).await;
    let events: Vec<&Value> = client
        .aside
        .iter()
        .filter(|message| message["method"] == "flowdrive/progress")
        .map(|message| &message["params"])
        .collect();
    let (lines, lifecycle): (Vec<&Value>, Vec<&Value>) =
        events.into_iter().partition(|event| event["type"] == "agentActivity");
    let seqs: Vec<u64> = lifecycle.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (2..=5001).collect::<Vec<u64>>(), "each once, in order, all before the answer");
    assert!(lines.len() < 100, "{} lines", lines.len());
    let told: u64 = lines.iter().map(|line| 1 + line["coalesced"].as_u64().unwrap_or(0)).sum();
    assert_eq!(told, 4999);
    assert_eq!(lines.last().unwrap()["text"], "line 5000");
    let reports = client.aside.iter().filter(|message| message["params"]["value"]["kind"] == "report").count();
    assert!(reports <= 10, "{reports} reports");
}
