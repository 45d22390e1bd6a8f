//! Requests, answers, errors and their order.

use super::*;

#[tokio::test]
async fn the_handshake_tells_what_there_is() {
    let mut client = Client::start(Framing::Lsp);
    let early = client.ask(json!(0), "doctor", json!({})).await;
    assert_eq!(early["error"]["code"], -32002);
    let answer = client.introduce(json!({"general": {"positionEncodings": ["utf-16", "utf-8"]}}), Value::Null).await;
    let capabilities = &answer["result"]["capabilities"];
    assert_eq!(answer["result"]["serverInfo"]["name"], "flowdrive");
    assert_eq!(capabilities["experimental"]["flowdrive"]["protocolVersion"], 1);
    assert_eq!(capabilities["positionEncoding"], "utf-8");
    let commands = capabilities["executeCommandProvider"]["commands"].as_array().unwrap();
    assert_eq!(commands.len(), METHODS.len() + 2);
    assert!(commands.contains(&json!("flowdrive.resolveFeedback")));
    assert_eq!(client.ask(json!(1), "initialize", json!({"capabilities": {}})).await["error"]["code"], -32600);
    let done = client.ask(json!(2), "shutdown", json!({})).await;
    assert_eq!(done["result"], Value::Null);
    let late = client.ask(json!(3), "doctor", json!({})).await;
    assert_eq!(late["error"]["code"], -32600);
    let again = client.ask(json!(4), "initialize", json!({"capabilities": {}})).await;
    assert_eq!(again["error"]["code"], -32600);
    client.notify("exit", Value::Null).await;
    assert_eq!(client.code().await, 0, "with the input still open");
}

#[tokio::test]
async fn without_frames_nobody_has_to_introduce_himself_but_may() {
    let mut client = Client::start(Framing::Ndjson);
    let info = client.ask(json!(1), "serverInfo", Value::Null).await;
    assert_eq!(info["result"]["protocolVersion"], 1);
    let options = json!({"notifications": {"optOut": ["agentActivity"]}});
    let answer =
        client.ask(json!(2), "initialize", json!({"initializationOptions": options, "capabilities": {}})).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "flowdrive");
    assert_eq!(client.engine.configs.lock().unwrap().len(), 1);
    let again = client.ask(json!(3), "initialize", json!({"capabilities": {}})).await;
    assert_eq!(again["error"]["code"], -32600);
    // Here the service counts as introduced without a handshake, and would take one after its end.
    let mut client = Client::start(Framing::Ndjson);
    client.ask(json!(1), "serverInfo", Value::Null).await;
    client.ask(json!(2), "shutdown", Value::Null).await;
    let late = client.ask(json!(3), "initialize", json!({"capabilities": {}})).await;
    assert_eq!(late["error"]["code"], -32600);
}

#[tokio::test]
async fn ids_come_back_as_they_were() {
    let mut client = Client::start(Framing::Ndjson);
    for id in [json!("a"), json!(-1), json!(u64::MAX), json!("")] {
        assert_eq!(client.ask(id.clone(), "listRuns", json!({})).await["result"]["total"], 0, "{id}");
    }
}

#[tokio::test]
async fn what_is_wrong_costs_one_answer_and_the_server_goes_on() {
    let mut client = Client::introduced(json!({})).await;
    client.raw(b"Content-Length: 7\r\n\r\n{\"bad\":").await;
    assert_eq!(client.answer(Value::Null).await["error"]["code"], -32700);
    client.raw(b"Content-Length: lots\r\n\r\n").await;
    let answer = client.answer(Value::Null).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("`lots`"), "{answer}");
    client.raw(b"content-length: 15\r\nContent-Type: x\r\n\r\n[{\"jsonrpc\":1}]").await;
    client.send(&json!([{"jsonrpc": "2.0", "id": 1, "method": "doctor"}])).await;
    for _ in 0..2 {
        assert_eq!(client.answer(Value::Null).await["error"]["code"], -32600);
    }
    let unknown = client.ask(json!(5), "fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("`fly`"));
    assert_eq!(client.ask(json!(6), "$/fly", json!({})).await["error"]["code"], -32601);
    let unfit = client.ask(json!(7), "drive", json!({"concurrency": 0})).await;
    assert_eq!((&unfit["error"]["code"], &unfit["error"]["data"]["field"]), (&json!(-32602), &json!("concurrency")));
    let fault = client.ask(json!(8), "drive", json!({"runId": "locked"})).await;
    assert_eq!((&fault["error"]["code"], &fault["error"]["data"]["kind"]), (&json!(-32011), &json!("run-locked")));
    let panic = client.ask(json!(9), "doctor", json!({"workspace": "panic"})).await;
    assert_eq!(panic["error"]["code"], -32603);
    let panic = client.ask(json!(10), "drive", json!({"runId": "panics"})).await;
    assert_eq!((&panic["error"]["code"], &panic["error"]["data"]["kind"]), (&json!(-32603), &json!("internal")));
    assert_eq!(client.ask(json!(9), "doctor", json!({})).await["result"]["version"], "/ws", "the first folder");
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_unread() {
    let mut client = Client::introduced(json!({})).await;
    let size = MAX_MESSAGE_BYTES + 1;
    client.raw(format!("Content-Length: {size}\r\n\r\n").as_bytes()).await;
    assert_eq!(client.answer(Value::Null).await["error"]["code"], -32600, "before the body has come");
    let chunk = vec![b' '; 1024 * 1024];
    for _ in 0..size / chunk.len() {
        client.raw(&chunk).await;
    }
    client.raw(&chunk[..size % chunk.len()]).await;
    assert_eq!(client.ask(json!(1), "doctor", json!({})).await["result"]["ok"], true);
}

#[tokio::test]
async fn an_id_is_in_use_until_it_is_answered() {
    let mut client = Client::start(Framing::Ndjson);
    client.request(json!(1), "doctor", json!({"workspace": "slow"})).await;
    let twice = client.ask(json!(1), "doctor", json!({})).await;
    assert_eq!(twice["error"]["code"], -32600);
    client.engine.release.send_replace(true);
    assert_eq!(client.answer(json!(1)).await["result"]["version"], "slow");
    assert_eq!(client.ask(json!(1), "doctor", json!({})).await["result"]["ok"], true);
}

#[tokio::test]
async fn too_many_requests_are_refused_and_a_stop_still_gets_through() {
    let mut client = Client::start(Framing::Ndjson);
    for id in 0..connection::MAX_IN_FLIGHT {
        client.request(json!(id), "doctor", json!({"workspace": "slow"})).await;
    }
    let refused = client.ask(json!("one more"), "doctor", json!({})).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["kind"]), (&json!(-32040), &json!("overloaded")));
    assert_eq!(client.ask(json!("stop"), "stop", json!({"runId": "r"})).await["result"]["driving"], false);
    client.engine.release.send_replace(true);
    for id in 0..connection::MAX_IN_FLIGHT {
        assert_eq!(client.answer_in_any_order(id).await["result"]["ok"], true);
    }
}

impl Client {
    async fn answer_in_any_order(&mut self, id: usize) -> Value {
        if let Some(at) = self.aside.iter().position(|message| message["id"] == id) {
            return self.aside.remove(at).unwrap();
        }
        self.answer(json!(id)).await
    }
}

#[tokio::test]
async fn a_request_can_be_cancelled_while_the_table_is_full() {
    let mut client = Client::start(Framing::Ndjson);
    // More than 32 bits: tower-lsp alone could not find it.
    let id = json!(1_u64 << 40);
    client.request(id.clone(), "doctor", json!({"workspace": "slow"})).await;
    for other in 1..connection::MAX_IN_FLIGHT {
        client.request(json!(other), "doctor", json!({"workspace": "slow"})).await;
    }
    client.notify("$/cancelRequest", json!({"id": id})).await;
    assert_eq!(client.answer(id).await["error"]["code"], -32800);
    client.notify("$/cancelRequest", json!({"id": "never used"})).await;
    client.engine.release.send_replace(true);
    assert_eq!(client.answer(json!(1)).await["result"]["ok"], true);
}

#[tokio::test]
async fn a_batch_is_answered_as_one() {
    let mut client = Client::start(Framing::Ndjson);
    client
        .send(&json!([
            {"jsonrpc": "2.0", "id": 1, "method": "listRuns"},
            {"jsonrpc": "2.0", "method": "$/setTrace", "params": {"value": "off"}},
            7,
            {"jsonrpc": "2.0", "id": 2, "method": "doctor", "params": {"workspace": "panic"}},
        ]))
        .await;
    let Some(Value::Array(mut answers)) = client.next().await else { panic!("not a list") };
    answers.sort_by_key(|answer| answer["id"].as_i64().unwrap_or(0));
    let told: Vec<_> = answers.iter().map(|answer| (answer["id"].clone(), answer["error"]["code"].clone())).collect();
    assert_eq!(told, [(Value::Null, json!(-32600)), (json!(1), Value::Null), (json!(2), json!(-32603))]);
    client.send(&json!([{"jsonrpc": "2.0", "method": "initialized", "params": {}}])).await;
    client.send(&json!([])).await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32600, "nothing is said to a batch of notifications");
}

#[tokio::test]
async fn notifications_take_effect_in_the_order_they_came() {
    let mut client = Client::introduced(json!({})).await;
    let before = client.engine.configs.lock().unwrap().len();
    for width in 1..=20 {
        let settings = json!({"flowdrive": {"maxConcurrentAgents": width}});
        client.notify("workspace/didChangeConfiguration", json!({"settings": settings})).await;
    }
    client.ask(json!(1), "doctor", json!({})).await;
    let configs = client.engine.configs.lock().unwrap();
    let widths: Vec<u32> = configs[before..].iter().map(|config| config.max_concurrent_agents.unwrap().get()).collect();
    assert_eq!(widths, (1..=20).collect::<Vec<u32>>());
}

#[tokio::test]
async fn configuration_that_is_no_good_is_told_and_not_taken() {
    let mut client = Client::start(Framing::Lsp);
    let answer = client.introduce(json!({}), json!({"agents": {"a": {"timeoutMs": -1}}})).await;
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["data"]["field"]),
        (&json!(-32021), &json!("agents.a.timeoutMs"))
    );
    let answer = client.introduce(json!({}), json!({"protocolVersion": 99})).await;
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["data"]["kind"]),
        (&json!(-32041), &json!("protocol-mismatch"))
    );
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("99") && text.contains("1 to 1"), "{text}");
    let answer = client.introduce(json!({}), json!({"defaultAgent": "unknown"})).await;
    assert_eq!(answer["error"]["code"], -32021);
    client.introduce(json!({}), json!({"defaultAgent": "mine"})).await;
    for settings in [json!({"flowdrive": {"nope": 1}}), json!({"defaultAgent": "unknown"})] {
        client.notify("workspace/didChangeConfiguration", json!({"settings": settings})).await;
        let shown = client.told("window/showMessage").await;
        assert!(shown["params"]["message"].as_str().unwrap().contains("keeps its configuration"), "{shown}");
    }
    client.notify("workspace/didChangeConfiguration", json!({"settings": null})).await;
    client.ask(json!(2), "doctor", json!({})).await;
    assert_eq!(client.engine.configs.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_configuration_file_that_is_no_good_is_told_where_people_see_it() {
    for framing in [Framing::Lsp, Framing::Ndjson] {
        let fault = settings::load(Some(Path::new("/nowhere/config.toml")), &BTreeMap::new()).unwrap_err();
        let mut client = Client::start_with(framing, Options::default(), Limits::default(), Some(fault));
        let answer = match framing {
            Framing::Lsp => client.introduce(json!({}), Value::Null).await,
            Framing::Ndjson => client.ask(json!(1), "drive", json!({"runId": "r"})).await,
        };
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["data"]["file"]),
            (&json!(-32021), &json!("/nowhere/config.toml"))
        );
    }
}

#[tokio::test]
async fn commands_are_the_same_methods() {
    let mut client = Client::introduced(json!({})).await;
    let command = |name: &str, arguments: Value| json!({"command": name, "arguments": arguments});
    let answer = client
        .ask(json!(1), "workspace/executeCommand", command("flowdrive.doctor", json!([{"workspace": "w"}])))
        .await;
    assert_eq!(answer["result"]["version"], "w");
    let answer = client.ask(json!(2), "workspace/executeCommand", command("flowdrive.listRuns", json!([]))).await;
    assert_eq!(answer["result"]["total"], 0);
    let answer =
        client.ask(json!(3), "workspace/executeCommand", command("flowdrive.drive", json!([{"maxAttempts": 0}]))).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["field"]), (&json!(-32602), &json!("maxAttempts")));
    let answer = client.ask(json!(4), "workspace/executeCommand", command("rm", json!([]))).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("flowdrive.drive"), "{answer}");
    let answer = client.ask(json!(5), "preview", json!({})).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("/ws"), "the first folder: {answer}");
}

#[tokio::test]
async fn what_ends_a_server_does_so_in_its_own_form_only() {
    let mut client = Client::introduced(json!({})).await;
    let answer = client.ask(json!(1), "exit", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    client.notify("shutdown", json!({})).await;
    let command = json!({"command": "flowdrive.listRuns", "arguments": []});
    let answer = client.ask(json!(2), "workspace/executeCommand", command).await;
    assert_eq!(answer["result"]["total"], 0, "{answer}");
}

#[tokio::test]
async fn a_batch_has_a_bound() {
    let mut client = Client::start(Framing::Ndjson);
    client.send(&json!(vec![1; message::MAX_BATCH + 1])).await;
    let answer = client.next().await.unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("1000 are the most"), "{answer}");
    client.send(&json!(vec![1; message::MAX_BATCH])).await;
    assert_eq!(client.next().await.unwrap().as_array().map(Vec::len), Some(message::MAX_BATCH));
}
