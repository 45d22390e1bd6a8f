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
    assert_eq!(titles.len(), 3, "{titles:?}");
    let answer = client.ask(json!(3), "workspace/executeCommand", offered[0]["command"].clone()).await;
    assert_eq!(answer["result"]["id"], "f1");
    let (uri, shown) = client.diagnostics().await;
    assert_eq!((uri.as_str(), shown.len()), ("file:///ws/src/b.rs", 0), "settled, so cleared");

    client.request(json!(4), "workspace/executeCommand", offered[2]["command"].clone()).await;
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
