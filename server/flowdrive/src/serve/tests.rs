//! The server in this process, with a scripted engine and a scripted client: what cannot be had at will from the real
//! binary, such as a handler that panics, a client that stops reading, a drive that never ends.

mod drives;
mod editor;
pub(super) mod fake;
mod flow;
mod fuzz;
mod lifecycle;
mod requests;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};

use flowdrive_engine::EngineError;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::framing::{Decoder, MAX_MESSAGE_BYTES, encode};
use super::lifecycle::StopSignal;
use super::*;
use fake::Fake;

/// A client of a server in this process.
struct Client {
    framing: Framing,
    input: Option<mpsc::Sender<Vec<u8>>>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
    decoder: Decoder,
    /// Notifications and requests that came before what was waited for.
    aside: VecDeque<Value>,
    signals: mpsc::Sender<StopSignal>,
    gate: Arc<Gate>,
    complaints: Complaints,
    server: JoinHandle<io::Result<u8>>,
    engine: Arc<Fake>,
}

/// Whether the client reads.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    shut: bool,
    broken: bool,
}

impl Gate {
    fn set(&self, shut: bool) {
        self.state.lock().unwrap().shut = shut;
        self.changed.notify_all();
    }

    fn break_off(&self) {
        *self.state.lock().unwrap() = GateState { shut: false, broken: true };
        self.changed.notify_all();
    }
}

struct Output(mpsc::UnboundedSender<Vec<u8>>, Arc<Gate>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let state = self.1.changed.wait_while(self.1.state.lock().unwrap(), |state| state.shut).unwrap();
        if state.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let _ = self.0.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Complaints(Arc<Mutex<Vec<u8>>>);

impl Write for Complaints {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Complaints {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Client {
    fn start(framing: Framing) -> Self {
        Self::start_with(framing, Options::default(), Limits::default(), None)
    }

    fn start_with(framing: Framing, options: Options, limits: Limits, broken_config: Option<EngineError>) -> Self {
        let configuration = Standing { fault: broken_config, ..Standing::default() };
        let engine = Arc::new(Fake::default());
        let (input, chunks) = mpsc::channel(16);
        let (sender, output) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate::default());
        let (signals, received) = mpsc::channel(4);
        let complaints = Complaints::default();
        let outside = Outside {
            signals: received,
            complain: Box::new(complaints.clone()),
            // The chunks' end says it here.
            input_ended: watch::channel(false).1,
        };
        let written = Output(sender, gate.clone());
        let backend = engine.clone();
        let server =
            tokio::spawn(async move { run(backend, configuration, &options, chunks, written, outside, limits).await });
        let decoder = Decoder::new(Some(framing), MAX_MESSAGE_BYTES);
        let input = Some(input);
        Self { framing, input, output, decoder, aside: VecDeque::new(), signals, gate, complaints, server, engine }
    }

    /// A client that said `initialize` and `initialized`.
    async fn introduced(capabilities: Value) -> Self {
        let mut client = Self::start(Framing::Lsp);
        client.introduce(capabilities, Value::Null).await;
        client
    }

    async fn introduce(&mut self, capabilities: Value, options: Value) -> Value {
        let params = json!({"processId": null, "rootUri": "file:///ws", "capabilities": capabilities, "initializationOptions": options});
        let answer = self.ask(json!("init"), "initialize", params).await;
        self.notify("initialized", json!({})).await;
        answer
    }

    async fn raw(&self, bytes: &[u8]) {
        self.input.as_ref().unwrap().send(bytes.to_vec()).await.unwrap();
    }

    async fn send(&self, message: &Value) {
        let mut bytes = Vec::new();
        encode(self.framing, message.to_string().as_bytes(), &mut bytes);
        self.raw(&bytes).await;
    }

    async fn request(&self, id: Value, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.request(id.clone(), method, params).await;
        self.answer(id).await
    }

    /// The next message, in the order they came.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Some(serde_json::from_slice(&frame.unwrap()).unwrap());
            }
            self.decoder.push(&self.output.recv().await?);
        }
    }

    /// The answer to a request; what came before it is put aside.
    async fn answer(&mut self, id: Value) -> Value {
        loop {
            let message = self.next().await.expect("the server ended without answering");
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    /// The next message with a method.
    async fn told(&mut self, method: &str) -> Value {
        if let Some(at) = self.aside.iter().position(|message| message["method"] == method) {
            return self.aside.remove(at).unwrap();
        }
        loop {
            let message = self.next().await.expect("the server ended");
            if message["method"] == method {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    fn end_input(&mut self) {
        self.input = None;
    }

    async fn code(self) -> u8 {
        self.server.await.unwrap().unwrap()
    }
}
