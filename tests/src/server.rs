//! A server under test, and the client that speaks to it. Everything the server says is kept in order, so that a test
//! can ask not only what was said, but also what was said first.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::run::DriveResult;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::sync::Mutex as AsyncMutex;

use crate::builder::Builder;
use crate::census;
use crate::fault::RpcError;
use crate::framing::Framing;
use crate::hearing::{Heard, Hearing, answer_to, progress};
use crate::wait::{self, within};
use crate::workspace::TestWorkspace;

/// A server under test. End it with [`Server::finish`], or by one of the harder ways; dropping it unended fails the test.
#[derive(Debug)]
pub struct Server {
    framing: Framing,
    root: PathBuf,
    workspace: String,
    log: PathBuf,
    pid: u32,
    child: Child,
    stdin: Arc<AsyncMutex<Option<ChildStdin>>>,
    hearing: Hearing,
    servers: Arc<Mutex<Vec<u32>>>,
    next_id: AtomicI64,
    patience: Duration,
    ended: bool,
}

impl Server {
    /// A server for this workspace.
    pub fn builder(ws: &TestWorkspace, framing: Framing) -> Builder<'_> {
        Builder::new(ws, framing)
    }

    /// A started server that has been through `initialize`, where the framing has one.
    pub async fn start(ws: &TestWorkspace, framing: Framing) -> Self {
        Self::builder(ws, framing).start().await
    }

    pub(crate) fn spawn(ws: &TestWorkspace, framing: Framing, command: Command, log: PathBuf) -> Self {
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().expect("the server starts");
        let pid = child.id().expect("a new process has an id");
        let stdin = Arc::new(AsyncMutex::new(child.stdin.take()));
        let stdout = child.stdout.take().expect("stdout is piped");
        let hearing = Hearing::start(framing, stdout, Arc::clone(&stdin));
        let (root, workspace) = (ws.root().to_owned(), ws.text());
        let (servers, next_id) = (ws.servers(), AtomicI64::new(1));
        servers.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Self {
            framing,
            root,
            workspace,
            log,
            pid,
            child,
            stdin,
            hearing,
            servers,
            next_id,
            patience: wait::PATIENCE,
            ended: false,
        }
    }

    /// Waits so long for each answer, where a run is meant to take long.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The Language Server Protocol's opening. Returns what the server answered.
    pub async fn initialize(&self, process_id: u32, options: Value) -> Value {
        let answer = self
            .ok(
                "initialize",
                json!({
                    "processId": process_id,
                    "capabilities": { "window": { "workDoneProgress": true } },
                    "workspaceFolders": [{ "uri": format!("file://{}", self.workspace), "name": "workspace" }],
                    "initializationOptions": options,
                }),
            )
            .await;
        self.notify("initialized", json!({})).await;
        answer
    }

    // Speaking

    /// Sends bytes as they are.
    pub async fn send_raw(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.lock().await;
        let Some(stdin) = stdin.as_mut() else { self.fail("the test closed stdin and then wrote to it") };
        let sent = async {
            stdin.write_all(bytes).await?;
            stdin.flush().await
        };
        if let Err(error) = within("the server to read", sent).await {
            self.fail(&format!("the server does not read: {error}"));
        }
    }

    /// Sends a message.
    pub async fn send_message(&self, message: Value) {
        self.send_raw(&self.framing.frame(&message.to_string())).await;
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        self.send_message(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Sends a request and returns its id, without waiting for the answer. Null params are left out.
    pub async fn send(&self, method: &str, params: Value) -> i64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        self.send_message(message).await;
        id
    }

    /// Waits for the answer to a request.
    pub async fn answer(&self, id: i64) -> Result<Value, RpcError> {
        match self.answer_or_death(id).await {
            Some(answer) => answer,
            None => self.fail(&format!("the server ended before the answer to request {id}")),
        }
    }

    /// Asks and waits; none when the server dies first.
    pub async fn call_or_death(&self, method: &str, params: Value) -> Option<Result<Value, RpcError>> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        if let Some(stdin) = self.stdin.lock().await.as_mut() {
            // A server that is dead does not read; that it is shows below.
            let _ = stdin.write_all(&self.framing.frame(&message.to_string())).await;
        }
        self.answer_or_death(id).await
    }

    /// Looks at each message once: a run of ten thousand tasks tells some forty thousand events.
    async fn answer_or_death(&self, id: i64) -> Option<Result<Value, RpcError>> {
        let mut changed = self.hearing.changes();
        let mut seen = 0;
        let search = async {
            loop {
                changed.mark_unchanged();
                {
                    let heard = self.heard();
                    if let Some(found) = answer_to(&heard.messages[seen..], id) {
                        return Some(found);
                    }
                    seen = heard.messages.len();
                    if heard.ended.is_some() {
                        return None;
                    }
                }
                if changed.changed().await.is_err() {
                    return None;
                }
            }
        };
        match tokio::time::timeout(self.patience, search).await {
            Ok(found) => found,
            Err(_) => self.fail(&format!("waited {:?} for the answer to request {id}", self.patience)),
        }
    }

    /// Asks and waits.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// Asks, and expects a result of this type.
    pub async fn ok<T: DeserializeOwned>(&self, method: &str, params: Value) -> T {
        let id = self.send(method, params).await;
        self.result(id).await
    }

    /// Waits for the result of a request.
    pub async fn result<T: DeserializeOwned>(&self, id: i64) -> T {
        match self.answer(id).await {
            Ok(result) => serde_json::from_value(result.clone())
                .unwrap_or_else(|error| self.fail(&format!("{error} in the result {result:#}"))),
            Err(error) => self.fail(&format!("request {id} was refused: {error:#?}")),
        }
    }

    /// Asks, and expects an error.
    pub async fn err(&self, method: &str, params: Value) -> RpcError {
        match self.call(method, params.clone()).await {
            Ok(result) => self.fail(&format!("{method} {params} should have been refused, but answered {result:#}")),
            Err(error) => error,
        }
    }

    /// The parameters of a request about this workspace: `workspace` and `fields`.
    #[must_use]
    pub fn here(&self, mut fields: Value) -> Value {
        fields["workspace"] = json!(self.workspace);
        fields
    }

    /// Drives an inline workflow to its end.
    pub async fn drive(&self, workflow: &Value, mut fields: Value) -> DriveResult {
        fields["workflow"] = json!({ "inline": workflow });
        self.ok("drive", self.here(fields)).await
    }

    /// Starts driving an inline workflow and waits for the run to exist. Returns the request's id and the run's.
    pub async fn start_drive(&self, workflow: &Value, mut fields: Value) -> (i64, String) {
        fields["workflow"] = json!({ "inline": workflow });
        let known = self.events().len();
        let request = self.send("drive", self.here(fields)).await;
        let run = self
            .wait_for("the run to start", |messages| {
                let mut started = progress(messages).skip(known);
                if let Some(Err(error)) = answer_to(messages, request) {
                    return Some(Err(error));
                }
                started.find(|event| matches!(event.event, Event::RunStarted { .. })).map(|event| Ok(event.run_id))
            })
            .await;
        match run {
            Ok(run) => (request, run.to_string()),
            Err(error) => self.fail(&format!("the drive was refused: {error:#?}")),
        }
    }

    // Listening

    /// Stops reading what the server says, as a client that hangs does, or goes on.
    pub fn read(&self, reading: bool) {
        self.hearing.read(reading);
    }

    /// Everything the server said so far, in order.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        self.heard().messages.clone()
    }

    /// Every `flowdrive/progress` event so far, in order.
    #[must_use]
    pub fn events(&self) -> Vec<ProgressEvent> {
        progress(&self.heard().messages).collect()
    }

    /// The lifecycle events of one run so far, in order.
    #[must_use]
    pub fn lifecycle(&self, run: &str) -> Vec<ProgressEvent> {
        self.events().into_iter().filter(|e| e.run_id.as_str() == run && e.event.is_lifecycle()).collect()
    }

    /// Waits for an event that fits, past ones included.
    pub async fn wait_event(&self, what: &str, fits: impl Fn(&ProgressEvent) -> bool) -> ProgressEvent {
        self.wait_for(what, |messages| progress(messages).find(|event| fits(event))).await
    }

    /// Waits until so many events fit, past ones included.
    pub async fn wait_events(&self, what: &str, count: usize, fits: impl Fn(&Event) -> bool) {
        self.wait_for(what, |messages| {
            (progress(messages).filter(|event| fits(&event.event)).count() >= count).then_some(())
        })
        .await;
    }

    /// Waits until what was said gives a value.
    pub async fn wait_for<T>(&self, what: &str, find: impl Fn(&[Value]) -> Option<T>) -> T {
        let mut changed = self.hearing.changes();
        let search = async {
            loop {
                changed.mark_unchanged();
                {
                    let heard = self.heard();
                    if let Some(found) = find(&heard.messages) {
                        return Ok(found);
                    }
                    match &heard.ended {
                        Some(Err(fault)) => return Err(format!("{fault}, before {what}")),
                        Some(Ok(())) => return Err(format!("the server ended before {what}")),
                        None => {}
                    }
                }
                if changed.changed().await.is_err() {
                    return Err(format!("the server ended before {what}"));
                }
            }
        };
        match tokio::time::timeout(wait::PATIENCE, search).await {
            Ok(Ok(found)) => found,
            Ok(Err(fault)) => self.fail(&fault),
            Err(_) => self.fail(&format!("waited {:?} for {what}", wait::PATIENCE)),
        }
    }

    // Ending

    /// Ends it the way its framing is meant to be ended; asserts that it exits with 0, said nothing but frames, and
    /// that no process of the test is left but other servers. Returns everything it said.
    pub async fn finish(mut self) -> Vec<Value> {
        if self.framing == Framing::Lsp {
            let answer = self.call("shutdown", Value::Null).await;
            assert_eq!(answer, Ok(Value::Null), "shutdown answers null");
            self.notify("exit", Value::Null).await;
        } else {
            self.close_stdin().await;
        }
        let status = self.wait_exit().await;
        if !status.success() {
            self.fail(&format!("the server ended with {status}"));
        }
        let others = self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        census::assert_none(&self.root, &others, "after the server's end");
        self.messages()
    }

    /// Ends its standard input.
    pub async fn close_stdin(&self) {
        drop(self.stdin.lock().await.take());
    }

    /// Sends a signal to the server alone.
    ///
    /// # Panics
    /// When it is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid).expect("process ids fit"));
        kill(pid, signal).expect("the server can be signalled");
    }

    /// Kills it with SIGKILL, as a crash would.
    pub async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait_exit().await;
    }

    /// Waits for its end, however it comes, and for the last of its output.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        let exited = tokio::time::timeout(wait::PATIENCE, self.child.wait()).await;
        let status = match exited {
            Ok(status) => status.expect("a child can be waited for"),
            Err(_) => self.fail("the server does not end"),
        };
        self.ended = true;
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).retain(|pid| *pid != self.pid);
        let mut changed = self.hearing.changes();
        within("the server's output to end", async {
            while self.heard().ended.is_none() {
                if changed.changed().await.is_err() {
                    break;
                }
            }
        })
        .await;
        if let Some(Err(fault)) = self.heard().ended.clone() {
            self.fail(&fault);
        }
        status
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Fails the test with the end of the conversation and of the server's log.
    ///
    /// # Panics
    /// Always.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let messages = self.messages();
        let said: Vec<String> = messages[messages.len().saturating_sub(15)..].iter().map(Value::to_string).collect();
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        panic!(
            "{why}\n--- the last of {} messages\n{}\n--- the end of the server's log\n{}",
            messages.len(),
            said.join("\n"),
            lines[lines.len().saturating_sub(60)..].join("\n"),
        );
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.hearing.heard()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.ended {
            // `kill_on_drop` ends the server; the workspace ends what it started.
            let _ = self.child.start_kill();
            if !std::thread::panicking() {
                panic!("the test did not end its server; call `finish`");
            }
        }
    }
}
