//! How the server ends, and with which exit code.

use super::*;

async fn driving(framing: Framing, run: &str, options: Options) -> Client {
    let mut client = Client::start_with(framing, options, Limits::default(), None);
    if framing == Framing::Lsp {
        client.introduce(json!({}), Value::Null).await;
    }
    client.request(json!(1), "drive", json!({"runId": run})).await;
    client.told("flowdrive/progress").await;
    client
}

#[tokio::test]
async fn exit_without_shutdown_is_a_fault() {
    let client = Client::introduced(json!({})).await;
    client.notify("exit", Value::Null).await;
    assert_eq!(client.code().await, 1);
}

#[tokio::test]
async fn the_end_of_the_input_ends_the_drives_at_once_and_answers_them() {
    for (framing, code) in [(Framing::Lsp, 1), (Framing::Ndjson, 0)] {
        let mut client = driving(framing, "stubborn", Options::default()).await;
        client.end_input();
        assert_eq!(client.answer(json!(1)).await["result"]["stopped"], "now");
        assert_eq!(client.engine.stops.lock().unwrap()[0], (StopMode::Now, "end of input".to_owned()));
        assert_eq!(client.code().await, code);
    }
}

#[tokio::test]
async fn requests_in_flight_are_answered_when_the_input_has_ended() {
    let mut client = Client::start(Framing::Ndjson);
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"listRuns\"}").await;
    client.end_input();
    assert_eq!(client.answer(json!(1)).await["result"]["total"], 0, "the line needs no end either");
    assert_eq!(client.next().await, None);
    assert_eq!(client.code().await, 0);
}

#[tokio::test]
async fn a_drive_can_be_let_finish_when_the_input_has_ended() {
    let options = || Options { finish_on_eof: true, ..Options::default() };
    let mut client = driving(Framing::Ndjson, "stubborn", options()).await;
    client.end_input();
    client.engine.tell(0, fake::accepted("stubborn", 2));
    assert_eq!(client.told("flowdrive/progress").await["params"]["type"], "taskAccepted");
    client.engine.drive(0).finish();
    assert_eq!(client.answer(json!(1)).await["result"]["stopped"], "graceful");
    assert_eq!(client.code().await, 0);

    let mut client = driving(Framing::Ndjson, "stubborn", options()).await;
    client.end_input();
    client.gate.break_off();
    client.engine.tell(0, fake::accepted("stubborn", 2));
    assert_eq!(client.code().await, 0, "but not for a reader that is gone");
}

#[tokio::test]
async fn the_end_of_the_output_ends_the_server() {
    let client = driving(Framing::Ndjson, "stubborn", Options::default()).await;
    client.gate.break_off();
    client.engine.tell(0, fake::accepted("stubborn", 2));
    let engine = client.engine.clone();
    assert_eq!(client.code().await, 0);
    assert_eq!(engine.stops.lock().unwrap()[0], (StopMode::Now, "end of output".to_owned()));
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_keep_the_server() {
    let mut client = driving(Framing::Lsp, "r", Options::default()).await;
    client.gate.set(true);
    client.end_input();
    client.engine.tell(0, fake::accepted("r", 2));
    let gate = client.gate.clone();
    assert_eq!(client.code().await, 1);
    gate.break_off();
}

#[tokio::test]
async fn the_end_of_the_clients_process_ends_the_server() {
    let mut process = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let mut client = Client::start(Framing::Lsp);
    let params = json!({"processId": process.id(), "capabilities": {}});
    client.ask(json!(0), "initialize", params).await;
    client.request(json!(1), "drive", json!({"runId": "stubborn"})).await;
    client.told("flowdrive/progress").await;
    process.kill().await.unwrap();
    assert_eq!(client.answer(json!(1)).await["result"]["stopped"], "now");
    assert!(client.complaints.text().contains("is not alive"), "{}", client.complaints.text());
    assert_eq!(client.code().await, 1);
}

#[tokio::test]
async fn the_first_signal_waits_for_what_is_in_flight_and_says_how_to_resume() {
    let mut client = driving(Framing::Lsp, "stubborn", Options::default()).await;
    client.signals.send(StopSignal::Terminate).await.unwrap();
    while client.engine.stops.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.engine.stops.lock().unwrap()[0], (StopMode::Graceful, "SIGTERM".to_owned()));
    assert!(
        client.complaints.text().contains("flowdrive resume stubborn --workspace \"/ws\""),
        "{}",
        client.complaints.text()
    );
    assert_eq!(client.ask(json!(2), "doctor", json!({})).await["result"]["ok"], true, "still answers");
    client.engine.drive(0).finish();
    assert_eq!(client.answer(json!(1)).await["result"]["stopped"], "graceful");
    assert_eq!(client.code().await, 143);
}

#[tokio::test]
async fn the_second_signal_ends_the_drives_at_once() {
    let mut client = driving(Framing::Ndjson, "stubborn", Options::default()).await;
    client.signals.send(StopSignal::Interrupt).await.unwrap();
    client.signals.send(StopSignal::Interrupt).await.unwrap();
    assert_eq!(client.answer(json!(1)).await["result"]["stopped"], "now");
    assert_eq!(client.code().await, 130);
}
