//! The listening half of the client: keeps everything the server says, in order, and answers the server's own requests
//! as an editor would.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowdrive_protocol::event::ProgressEvent;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::fault::RpcError;
use crate::framing::Framing;

/// What was heard.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Every message, in order.
    pub(crate) messages: Vec<Value>,
    /// Set when the stream ended, with why if that was a fault.
    pub(crate) ended: Option<Result<(), String>>,
}

/// A task that listens to one server.
#[derive(Debug)]
pub(crate) struct Hearing {
    heard: Arc<Mutex<Heard>>,
    changed: watch::Sender<()>,
    reading: watch::Sender<bool>,
}

impl Hearing {
    /// Begins to listen; ends with the stream.
    pub(crate) fn start(framing: Framing, stdout: ChildStdout, stdin: Arc<AsyncMutex<Option<ChildStdin>>>) -> Self {
        let hearing = Self { heard: Arc::default(), changed: watch::channel(()).0, reading: watch::channel(true).0 };
        let (heard, changed) = (Arc::clone(&hearing.heard), hearing.changed.clone());
        let mut reading = hearing.reading.subscribe();
        tokio::spawn(async move {
            let mut stdout = BufReader::new(stdout);
            while reading.wait_for(|reading| *reading).await.is_ok() {
                let read = framing.read(&mut stdout).await;
                let reply = lock(&heard).keep(read);
                if let Some(reply) = reply {
                    // In a task of its own: a server that does not read must not stop us from reading.
                    tokio::spawn(answer(Arc::clone(&stdin), framing.frame(&reply.to_string())));
                }
                changed.send_replace(());
                if lock(&heard).ended.is_some() {
                    break;
                }
            }
        });
        hearing
    }

    /// What was heard so far.
    pub(crate) fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.heard)
    }

    /// Tells of every change to what was heard.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Pauses, or goes on.
    pub(crate) fn read(&self, reading: bool) {
        self.reading.send_replace(reading);
    }
}

impl Heard {
    /// Keeps what was read, and returns what is to be answered to it.
    fn keep(&mut self, read: io::Result<Option<Value>>) -> Option<Value> {
        match read {
            Ok(Some(message)) => {
                let reply = reply_to(&message);
                self.messages.push(message);
                return reply;
            }
            Ok(None) => self.ended = Some(Ok(())),
            Err(fault) => self.ended = Some(Err(format!("stdout carried something else than frames: {fault}"))),
        }
        None
    }
}

async fn answer(stdin: Arc<AsyncMutex<Option<ChildStdin>>>, frame: Vec<u8>) {
    if let Some(stdin) = stdin.lock().await.as_mut() {
        // A server that ends may close its input before it reads our answer.
        let _ = stdin.write_all(&frame).await;
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an editor answers to the server's own requests.
fn reply_to(message: &Value) -> Option<Value> {
    let (id, method) = (message.get("id")?, message.get("method")?.as_str()?);
    Some(match method {
        "window/workDoneProgress/create"
        | "client/registerCapability"
        | "workspace/codeLens/refresh"
        | "workspace/diagnostic/refresh"
        | "window/showMessageRequest" => {
            json!({ "jsonrpc": "2.0", "id": id, "result": null })
        }
        "workspace/configuration" => {
            let count = message["params"]["items"].as_array().map_or(0, Vec::len);
            json!({ "jsonrpc": "2.0", "id": id, "result": vec![Value::Null; count] })
        }
        _ => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "this client has no such method" } })
        }
    })
}

/// The answer to a request, once it is there.
pub(crate) fn answer_to(messages: &[Value], id: i64) -> Option<Result<Value, RpcError>> {
    let answer = messages.iter().find(|message| message.get("method").is_none() && message["id"] == id)?;
    Some(match answer.get("error") {
        Some(error) => {
            Err(serde_json::from_value(error.clone()).unwrap_or_else(|e| panic!("{e} in the error {error}")))
        }
        None => Ok(answer["result"].clone()),
    })
}

/// The events among these messages.
pub(crate) fn progress(messages: &[Value]) -> impl Iterator<Item = ProgressEvent> {
    messages.iter().filter(|message| message["method"] == flowdrive_protocol::method::PROGRESS).map(|message| {
        serde_json::from_value(message["params"].clone())
            .unwrap_or_else(|error| panic!("{error} in the event {}", message["params"]))
    })
}
