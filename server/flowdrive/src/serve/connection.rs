//! The reading side: frames in, calls on the service out. Order is kept: notifications and `initialize` are seen to
//! before the next message is read; other requests run side by side, up to a limit, and a panic costs one answer.
//!
//! Must not: write to the client but through the outbox, or wait for a request.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::method;
use futures::{FutureExt, Sink, SinkExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;
use tower_lsp::jsonrpc::{Error, ErrorCode, Request, Response};
use tower_lsp::{ExitedError, LanguageServer, LspService};

use super::answer::Answer;
use super::framing::{Decoder, FrameError, Framing, MAX_MESSAGE_BYTES};
use super::message::{self, Call, Incoming, Message, RequestId, invalid_request};
use super::outbox::Outbox;
use super::service::{METHODS, Service, unknown_method};
use super::{answer, drives, fault, initialize};

/// Requests in flight at once.
pub(crate) const MAX_IN_FLIGHT: usize = 256;
/// A message of so many bytes takes some milliseconds to be read.
const LARGE: usize = 128 * 1024;
/// Room beyond that for what ends things.
const RESERVED: usize = 16;

/// Takes answers to requests of ours.
pub(crate) type Answers = Pin<Box<dyn Sink<Response, Error = ExitedError> + Send>>;

/// Why reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The input ended.
    Eof,
    /// The client said `exit`.
    Exit,
}

/// The client's side of a connection.
pub(crate) struct Connection {
    service: LspService<Service>,
    methods: Service,
    answers: Answers,
    decoder: Decoder,
    outbox: Outbox,
    in_flight: InFlight,
    handlers: TaskTracker,
    introduced: Introduced,
}

/// Whether the client has introduced itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Introduced {
    No,
    /// With newline-delimited JSON nobody has to; the service was told that somebody did.
    Implied,
    Yes,
}

impl Connection {
    /// `framing` is recognised when it is not given. Requests run on `handlers`.
    pub(crate) fn new(
        service: LspService<Service>,
        answers: Answers,
        outbox: Outbox,
        framing: Option<Framing>,
        handlers: TaskTracker,
    ) -> Self {
        let methods = service.inner().clone();
        if let Some(framing) = framing {
            outbox.set_framing(framing);
        }
        Self {
            service,
            methods,
            answers,
            decoder: Decoder::new(framing, MAX_MESSAGE_BYTES),
            outbox,
            in_flight: InFlight::default(),
            handlers,
            introduced: Introduced::No,
        }
    }

    /// Reads until the input ends or the client says `exit`.
    pub(crate) async fn read(mut self, mut chunks: mpsc::Receiver<Vec<u8>>) -> End {
        while let Some(chunk) = chunks.recv().await {
            self.decoder.push(&chunk);
            drop(chunk);
            if let Some(framing) = self.decoder.framing() {
                self.outbox.set_framing(framing);
            }
            while let Some(frame) = self.decoder.next_frame() {
                if self.frame(frame).await == Some(End::Exit) {
                    return End::Exit;
                }
            }
        }
        match self.decoder.finish() {
            Some(frame) => self.frame(frame).await.unwrap_or(End::Eof),
            None => End::Eof,
        }
    }

    async fn frame(&mut self, frame: Result<Vec<u8>, FrameError>) -> Option<End> {
        // A client that does not read its answers is not read from either.
        self.outbox.room().await;
        let bytes = match frame {
            Ok(bytes) => bytes,
            Err(error) => {
                let code = match error {
                    FrameError::TooLarge { .. } => ErrorCode::InvalidRequest,
                    FrameError::BadHeader(_) | FrameError::Truncated => ErrorCode::ParseError,
                };
                tracing::warn!(%error, "a message could not be read");
                self.outbox.answer(answer::encode(None, Err(message::fault(code, error.to_string()))));
                return None;
            }
        };
        tracing::trace!(message = %String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]), "received");
        match taken_apart(bytes).await {
            Incoming::Single(message) => self.message(message, None).await,
            Incoming::Batch(_) if self.decoder.framing() == Some(Framing::Lsp) => {
                let error = invalid_request("the Language Server Protocol has no batches");
                self.outbox.answer(answer::encode(None, Err(error)));
                None
            }
            Incoming::Batch(messages) => {
                let batch = Arc::new(Batch { outbox: self.outbox.clone(), answers: Mutex::default() });
                let mut end = None;
                for message in messages {
                    end = end.or(self.message(message, Some(batch.clone())).await);
                }
                end
            }
        }
    }

    async fn message(&mut self, message: Message, batch: Option<Arc<Batch>>) -> Option<End> {
        match message {
            Message::Invalid(id, error) => self.reply(id, batch).send(Err(error)),
            Message::Answer(response) => {
                // The table behind the sink panics when whoever waited is gone; that is no reason to stop reading.
                let taken = AssertUnwindSafe(self.answers.send(response)).catch_unwind().await;
                if !matches!(taken, Ok(Ok(()))) {
                    tracing::debug!("an answer came that nobody waits for");
                }
            }
            Message::Call(call) if call.method == "exit" && call.id.is_none() => return Some(End::Exit),
            Message::Call(Call { id: None, method, params }) => self.notification(method, params).await,
            Message::Call(Call { id: Some(id), method, params }) => {
                let reply = self.reply(Some(id.clone()), batch);
                self.request(id, method, params, reply).await;
            }
        }
        None
    }

    fn reply(&self, id: Option<RequestId>, batch: Option<Arc<Batch>>) -> Reply {
        Reply { id, to: batch.map_or_else(|| To::Client(self.outbox.clone()), To::Batch) }
    }

    async fn notification(&mut self, method: String, params: Option<Value>) {
        let params = if method == "$/cancelRequest" {
            let id = params.as_ref().and_then(|params| params.get("id")).and_then(RequestId::from_value);
            let Some(number) = id.and_then(|id| self.in_flight.cancel(&id)) else {
                tracing::debug!("a request was cancelled that is not in flight");
                return;
            };
            // One of the Language Server Protocol's own is known there by this number; of others nothing is known.
            Some(json!({ "id": number }))
        } else {
            if METHODS.contains(&method.as_str()) || method == "shutdown" {
                tracing::warn!(%method, "sent without an id, so that it could not be answered; ignored");
                return;
            }
            self.imply_introduction().await;
            params
        };
        let request = build(method, None, params);
        let work = std::panic::catch_unwind(AssertUnwindSafe(|| self.service.call(request)));
        if let Ok(work) = work
            && AssertUnwindSafe(work).catch_unwind().await.is_err()
        {
            tracing::error!("a notification's handler panicked");
        }
    }

    async fn request(&mut self, id: RequestId, method: String, params: Option<Value>, reply: Reply) {
        let urgent = matches!(method.as_str(), "shutdown" | method::STOP);
        let limit = if urgent { MAX_IN_FLIGHT + RESERVED } else { MAX_IN_FLIGHT };
        let entry = match self.in_flight.enter(id, limit) {
            Ok(entry) => entry,
            Err(error) => return reply.send(Err(error)),
        };
        if self.methods.is_shut_down() {
            drop(entry);
            return reply.send(Err(invalid_request("the server is shutting down; only `exit` is taken now")));
        }
        if method == "exit" {
            // A notification only: as a request it is none, and must not end half of the server.
            drop(entry);
            return reply.send(Err(unknown_method("exit")));
        }
        if method == "initialize" {
            let answer = self.initialize(entry.number, params).await;
            drop(entry);
            return reply.send(answer);
        }
        self.imply_introduction().await;
        if METHODS.contains(&method.as_str()) {
            if self.introduced == Introduced::No {
                drop(entry);
                return reply.send(Err(message::not_initialized()));
            }
            return self.own_request(entry, method, params, reply);
        }
        // A handler without params refuses even empty ones.
        let params = params.filter(|_| method != "shutdown");
        let request = build(method.clone(), Some(entry.number), params);
        let work = std::panic::catch_unwind(AssertUnwindSafe(|| self.service.call(request)));
        self.handlers.spawn(async move {
            let answer = match work {
                Ok(work) => AssertUnwindSafe(work).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            let answer = unwrapped(&method, answer);
            // The id is free again before the client can know of the answer.
            drop(entry);
            reply.send(answer);
        });
    }

    /// A request that is none of the Language Server Protocol's.
    fn own_request(&self, entry: Entry, method: String, params: Option<Value>, reply: Reply) {
        let service = self.methods.clone();
        self.handlers.spawn(async move {
            let work = service.answer(&method, params.unwrap_or_else(|| json!({})));
            let answer = tokio::select! {
                biased;
                answer = work => answer,
                () = entry.cancelled.cancelled() => Err(Error::request_cancelled()),
            };
            // The id is free again before the client can know of the answer.
            drop(entry);
            reply.send(answer);
        });
    }

    async fn initialize(&mut self, number: i64, params: Option<Value>) -> Result<Answer, Error> {
        let params = initialize::tolerant(params);
        if self.introduced != Introduced::Implied {
            let answer = self.call_inline("initialize", number, params).await;
            if answer.is_ok() {
                self.introduced = Introduced::Yes;
            }
            return answer;
        }
        // The service believes that it was initialized; its handler is asked directly.
        let params = fault::params("initialize", params)?;
        let work = AssertUnwindSafe(self.methods.initialize(params)).catch_unwind().await;
        let result = work.unwrap_or_else(|_| Err(drives::defect("initialize")))?;
        self.introduced = Introduced::Yes;
        Answer::of("initialize", &result)
    }

    /// Without a handshake the service is told of one, so that it takes requests.
    async fn imply_introduction(&mut self) {
        if self.introduced != Introduced::No || self.decoder.framing() != Some(Framing::Ndjson) {
            return;
        }
        let number = self.in_flight.next_number();
        self.methods.set_implied(true);
        let answer = self.call_inline("initialize", number, initialize::tolerant(None)).await;
        self.methods.set_implied(false);
        match answer {
            Ok(_) => self.introduced = Introduced::Implied,
            Err(error) => tracing::error!(%error, "the service refused the server's own introduction"),
        }
    }

    async fn call_inline(&mut self, method: &str, number: i64, params: Value) -> Result<Answer, Error> {
        let request = build(method.to_owned(), Some(number), Some(params));
        match std::panic::catch_unwind(AssertUnwindSafe(|| self.service.call(request))) {
            Ok(work) => unwrapped(method, AssertUnwindSafe(work).catch_unwind().await),
            Err(panic) => unwrapped(method, Err(panic)),
        }
    }
}

/// Reads a frame; a large one on a thread that is gone afterwards, which holds up nobody, and leaves what it took to others.
async fn taken_apart(bytes: Vec<u8>) -> Incoming {
    if bytes.len() < LARGE {
        return message::read(&bytes);
    }
    let bytes = Arc::new(bytes);
    let (tell, told) = oneshot::channel();
    let copy = Arc::clone(&bytes);
    let reader = std::thread::Builder::new().name("read".to_owned());
    let started = reader.spawn(move || drop(tell.send(message::read(&copy))));
    match (started, told.await) {
        (Ok(_), Ok(incoming)) => incoming,
        // There was no thread to be had.
        _ => message::read(&bytes),
    }
}

type Outcome = std::thread::Result<Result<Option<Response>, ExitedError>>;

fn unwrapped(method: &str, outcome: Outcome) -> Result<Answer, Error> {
    let response = match outcome {
        Ok(Ok(Some(response))) => response,
        // Unknown methods that begin with `$/` are dropped there; a request needs its answer all the same.
        Ok(Ok(None)) => return Err(unknown_method(method)),
        Ok(Err(ExitedError { .. })) => return Err(invalid_request("the server has exited")),
        Err(_) => return Err(drives::defect(method)),
    };
    match response.into_parts().1 {
        Ok(answer) => Answer::of(method, &answer),
        Err(error) if error.code == ErrorCode::MethodNotFound => Err(unknown_method(method)),
        Err(error) => Err(error),
    }
}

fn build(method: String, number: Option<i64>, params: Option<Value>) -> Request {
    let mut request = Request::build(method);
    if let Some(number) = number {
        request = request.id(number);
    }
    if let Some(params) = params {
        request = request.params(params);
    }
    request.finish()
}

/// The requests in flight: the client's ids and our own numbers for them. tower-lsp sees only numbers, so that any id
/// a client may choose works, and `$/cancelRequest` finds it.
#[derive(Debug, Clone, Default)]
struct InFlight {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    requests: HashMap<RequestId, (i64, CancellationToken)>,
    last: i64,
}

/// A request in flight, until dropped.
struct Entry {
    table: InFlight,
    id: RequestId,
    number: i64,
    /// Set when the client wants no answer any more.
    cancelled: CancellationToken,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.lock().requests.remove(&self.id);
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&self) -> i64 {
        let mut table = self.lock();
        // tower-lsp reads the number in a cancellation as 32 bits.
        table.last = if table.last >= i64::from(i32::MAX) { 1 } else { table.last + 1 };
        table.last
    }

    /// Cancels a request. Gives our number for it.
    fn cancel(&self, id: &RequestId) -> Option<i64> {
        let (number, cancelled) = self.lock().requests.get(id)?.clone();
        cancelled.cancel();
        Some(number)
    }

    fn enter(&self, id: RequestId, limit: usize) -> Result<Entry, Error> {
        let number = self.next_number();
        let mut table = self.lock();
        if table.requests.contains_key(&id) {
            return Err(invalid_request(format!("a request with the id {id} is still in flight")));
        }
        if table.requests.len() >= limit {
            let message = format!("{limit} requests are in flight, which is the limit");
            return Err(fault::of_kind(ErrorKind::Overloaded, message, "Wait for answers, then ask again."));
        }
        let cancelled = CancellationToken::new();
        table.requests.insert(id.clone(), (number, cancelled.clone()));
        drop(table);
        Ok(Entry { table: self.clone(), id, number, cancelled })
    }
}

/// Where an answer goes.
struct Reply {
    id: Option<RequestId>,
    to: To,
}

enum To {
    Client(Outbox),
    Batch(Arc<Batch>),
}

impl Reply {
    fn send(self, body: Result<Answer, Error>) {
        let answer = answer::encode(self.id, body);
        match self.to {
            To::Client(outbox) => outbox.answer(answer),
            To::Batch(batch) => batch.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer),
        }
    }
}

/// The answers to a batch; they leave together when the last one that can come has come.
struct Batch {
    outbox: Outbox,
    answers: Mutex<Vec<Vec<u8>>>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let answers = self.answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A batch of notifications is not answered.
        if !answers.is_empty() {
            self.outbox.answer(answer::encode_batch(answers));
        }
    }
}
