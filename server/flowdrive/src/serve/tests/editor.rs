//! Diagnostics and what can be done about them.

use super::fake::event;
use super::*;

async fn client() -> Client {
    Client::introduced(json!({"textDocument": {"publishDiagnostics": {"relatedInformation": true}}})).await
}

fn finding(path: &str) -> Value {
    let evidence = json!([{"locator": path, "kind": "file", "path": path, "line": 3}]);
    let findings =
        json!([{"id": "f", "summary": "a claim", "classification": "real", "severity": "P2", "evidence": evidence}]);
    json!({"id": "t", "phase": "p", "status": "completed", "attempts": 1, "findings": findings})
}

fn record() -> Value {
    json!({"schemaVersion": 1, "id": "f1", "runId": "r", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z",
        "status": "open", "severity": "high", "classification": "missing-evidence", "source": "verifier", "code": "c",
        "message": "no evidence", "taskId": "t", "path": "src/b.rs", "retryable": true})
}

fn opened(run: &str, seq: u64) -> flowdrive_protocol::event::ProgressEvent {
    let body = json!({"type": "feedbackOpened", "feedbackId": "f1", "classification": "missing-evidence", "severity": "high", "message": "m"});
    event(run, seq, &body)
}

impl Client {
    async fn diagnostics(&mut self) -> (String, Vec<Value>) {
        let told = self.told("textDocument/publishDiagnostics").await;
        let params = &told["params"];
        (params["uri"].as_str().unwrap().to_owned(), params["diagnostics"].as_array().unwrap().clone())
    }
}

#[tokio::test]
async fn findings_and_feedback_are_shown_answered_and_cleared() {
    let mut client = client().await;
    client.request(json!(1), "drive", json!({"runId": "r"})).await;
    client.told("flowdrive/progress").await;
    client.engine.tasks.lock().unwrap().push(finding("src/a.rs"));
    client.engine.feedback.lock().unwrap().push(record());
    client.engine.tell(0, opened("r", 2));
    let (uri, shown) = client.diagnostics().await;
    assert_eq!((uri.as_str(), shown.len()), ("file:///ws/src/a.rs", 1));
    assert_eq!(shown[0]["range"]["start"], json!({"line": 2, "character": 0}));
    let (uri, shown) = client.diagnostics().await;
    assert_eq!((uri.as_str(), shown.len()), ("file:///ws/src/b.rs", 1));

    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}});
    let params = json!({"textDocument": {"uri": uri}, "range": range, "context": {"diagnostics": shown}});
    let offered = client.ask(json!(2), "textDocument/codeAction", params).await["result"].clone();
    let titles: Vec<&str> =
        offered.as_array().unwrap().iter().map(|action| action["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), 4, "{titles:?}");
    let answer = client.ask(json!(3), "workspace/executeCommand", offered[0]["command"].clone()).await;
    assert_eq!(answer["result"]["id"], "f1");
    let (uri, shown) = client.diagnostics().await;
    assert_eq!((uri.as_str(), shown.len()), ("file:///ws/src/b.rs", 0), "settled, so cleared");

    client.request(json!(4), "workspace/executeCommand", offered[3]["command"].clone()).await;
    let shown = client.told("window/showDocument").await;
    assert!(shown["params"]["uri"].as_str().unwrap().starts_with("file:///ws"), "{shown}");

    client.engine.tell(0, event("r", 3, &json!({"type": "runFinished", "status": "complete", "completedWorkers": 1, "parkedWorkers": 0, "reportPath": ""})));
    client.engine.drive(0).finish();
    client.answer(json!(1)).await;
    client.engine.tasks.lock().unwrap().clear();
    client.request(json!(5), "drive", json!({"runId": "next"})).await;
    let (uri, shown) = client.diagnostics().await;
    assert_eq!((uri.as_str(), shown.len()), ("file:///ws/src/a.rs", 0), "the next run takes the place");
}

#[tokio::test]
async fn an_editor_is_asked_for_its_configuration_and_whenever_it_says_that_it_changed() {
    let workspace = json!({"configuration": true, "didChangeConfiguration": {"dynamicRegistration": true}});
    let mut client = Client::start(Framing::Lsp);
    let options = json!({"agents": {"mine": {"preset": "claude"}}});
    client.introduce(json!({ "workspace": workspace }), options).await;
    let wish = client.told("client/registerCapability").await;
    assert_eq!(wish["params"]["registrations"][0]["method"], "workspace/didChangeConfiguration");
    let evil = json!({"serverPath": "x", "defaultAgent": "mine", "agents": {"evil": {"command": ["/bin/false"]}}});
    for expected in [2, 3] {
        let asked = client.told("workspace/configuration").await;
        assert_eq!(asked["params"]["items"], json!([{"section": "flowdrive"}]));
        client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": [evil]})).await;
        wait_for(|| client.engine.configs.lock().unwrap().len() == expected).await;
        let config = client.engine.configs.lock().unwrap().last().unwrap().clone();
        let agents: Vec<&str> = config.agents.keys().map(|name| name.as_str()).collect();
        assert_eq!((agents, config.default_agent.unwrap().as_str()), (vec!["mine"], "mine"));
        client.notify("workspace/didChangeConfiguration", json!({"settings": null})).await;
    }
    // What it answers to no use is told, and what there was is kept.
    let asked = client.told("workspace/configuration").await;
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": [{"maxConcurrentAgents": "many"}]});
    client.send(&answer).await;
    let told = client.told("window/showMessage").await;
    assert!(told["params"]["message"].as_str().unwrap().contains("maxConcurrentAgents"), "{told}");
    assert_eq!(client.engine.configs.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_client_that_cannot_answer_is_asked_nothing() {
    let mut client = client().await;
    client.notify("workspace/didChangeConfiguration", json!({"settings": null})).await;
    client.ask(json!(1), "doctor", json!({})).await;
    assert!(client.aside.iter().all(|message| message.get("id").is_none()), "{:?}", client.aside);
}

/// Waits until something holds that another task brings about.
async fn wait_for(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn with_several_folders_open_a_request_names_one() {
    let mut client = Client::start(Framing::Lsp);
    let folder = |uri: &str| json!({"uri": uri, "name": "x"});
    let params =
        json!({"processId": null, "capabilities": {}, "workspaceFolders": [folder("file:///a"), folder("file:///b")]});
    client.ask(json!("init"), "initialize", params).await;
    client.notify("initialized", json!({})).await;
    let refused = client.ask(json!(1), "preview", json!({"workflow": {"id": "w"}})).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["field"]), (&json!(-32602), &json!("workspace")));
    assert!(refused["error"]["message"].as_str().unwrap().contains("/a, /b"), "{refused}");
    let named = client.ask(json!(2), "preview", json!({"workflow": {"id": "w"}, "workspace": "/b"})).await;
    assert_eq!(named["error"]["message"], "Some(\"/b\")");
    assert_eq!(client.ask(json!(3), "doctor", json!({})).await["result"]["version"], "", "it can do without");
    let event = json!({"added": [], "removed": [folder("file:///a")]});
    client.notify("workspace/didChangeWorkspaceFolders", json!({ "event": event })).await;
    let only = client.ask(json!(4), "preview", json!({"workflow": {"id": "w"}})).await;
    assert_eq!(only["error"]["message"], "Some(\"/b\")");
}

#[tokio::test]
async fn the_report_is_shown_to_who_wants_it_and_can_see_it() {
    for (can, wants, shown) in [(true, true, true), (true, false, false), (false, true, false)] {
        let mut client = Client::start(Framing::Lsp);
        let options = json!({"notifications": {"showReport": wants}});
        client.introduce(json!({"window": {"showDocument": {"support": can}}}), options).await;
        client.request(json!(1), "drive", json!({"runId": "r"})).await;
        client.told("flowdrive/progress").await;
        // A run that was stopped is not shown; this one ends by itself.
        client.engine.drive(0).complete();
        client.answer(json!(1)).await;
        client.ask(json!(2), "shutdown", Value::Null).await;
        let asked = client.aside.iter().any(|message| message["method"] == "window/showDocument");
        assert_eq!(asked, shown, "can {can}, wants {wants}");
    }
}
