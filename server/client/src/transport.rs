//! The connection: newline-delimited JSON over a pair of byte streams, as jsonrpsee's client wants it.
//!
//! jsonrpsee drops what the server asks of us, drops events when their reader is slow, and ends over one odd line. So
//! the receiving half keeps all of that from it: requests of the server's are answered here, events go to the [`Hub`],
//! odd lines are logged and passed over, and only answers to calls that are waiting for one are handed on.
//!
//! Must not: know the methods beyond telling events from the rest.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::method;
use jsonrpsee::core::client::{ReceivedMessage, TransportReceiverT, TransportSenderT};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};

use crate::command::closed;
use crate::events::Hub;
use crate::frame::{self, Frame};

/// Longest line accepted from the server, in bytes. A run of 20,000 tasks stays far below it.
pub(crate) const MAX_LINE: usize = 256 * 1024 * 1024;

/// Requests that may wait for the server to read them before callers wait too.
const REQUESTS_WAITING: usize = 64;

/// Ids, as JSON, of the calls that wait for an answer.
#[derive(Debug, Clone, Default)]
struct Waiting(Arc<Mutex<HashSet<String>>>);

impl Waiting {
    fn ids(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending half.
pub(crate) struct Sender {
    frames: mpsc::Sender<String>,
    waiting: Waiting,
}

/// The receiving half.
pub(crate) struct Receiver<R> {
    lines: Lines<BufReader<R>>,
    answers: mpsc::UnboundedSender<String>,
    waiting: Waiting,
    hub: Hub,
}

/// Joins two byte streams to a transport. The writing half is closed, after what is queued was written, when `closing`
/// turns true or its sender is gone, or when jsonrpsee lets go of its half.
pub(crate) fn connect<R, W>(reader: R, writer: W, hub: Hub, closing: watch::Receiver<bool>) -> (Sender, Receiver<R>)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (frames, queued) = mpsc::channel(REQUESTS_WAITING);
    let (answers, queued_answers) = mpsc::unbounded_channel();
    tokio::spawn(write_frames(writer, queued, queued_answers, closing));
    let waiting = Waiting::default();
    let receiver =
        Receiver { lines: Lines::new(BufReader::new(reader), MAX_LINE), answers, waiting: waiting.clone(), hub };
    (Sender { frames, waiting }, receiver)
}

/// The only place that writes to the server. Answers go first: the server waits for them.
async fn write_frames<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut requests: mpsc::Receiver<String>,
    mut answers: mpsc::UnboundedReceiver<String>,
    mut closing: watch::Receiver<bool>,
) {
    loop {
        let frame = tokio::select! {
            biased;
            Some(answer) = answers.recv() => answer,
            request = requests.recv() => match request {
                Some(request) => request,
                None => break,
            },
            () = closed(&mut closing) => break,
        };
        if let Err(error) = write_frame(&mut writer, frame).await {
            tracing::debug!(%error, "the server no longer reads");
            return;
        }
    }
    while let Ok(frame) = requests.try_recv() {
        if write_frame(&mut writer, frame).await.is_err() {
            return;
        }
    }
    // The end of the stream is what tells the server to leave; a failure means that it has left already.
    let _ = writer.shutdown().await;
}

async fn write_frame<W: AsyncWrite + Unpin>(writer: &mut W, mut frame: String) -> io::Result<()> {
    frame.push('\n');
    writer.write_all(frame.as_bytes()).await?;
    writer.flush().await
}

impl TransportSenderT for Sender {
    type Error = io::Error;

    async fn send(&mut self, message: String) -> Result<(), io::Error> {
        let id = frame::request_id(&message);
        if let Some(id) = &id {
            self.waiting.ids().insert(id.clone());
        }
        self.frames.send(message).await.map_err(|_| {
            if let Some(id) = &id {
                self.waiting.ids().remove(id);
            }
            io::Error::new(io::ErrorKind::BrokenPipe, "the server no longer reads its input")
        })
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> TransportReceiverT for Receiver<R> {
    type Error = io::Error;

    async fn receive(&mut self) -> Result<ReceivedMessage, io::Error> {
        loop {
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return Err(self.ended(io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Err(self.ended(error)),
            };
            if let Some(message) = self.sort(line) {
                return Ok(ReceivedMessage::Bytes(message));
            }
        }
    }
}

impl<R> Receiver<R> {
    /// Readers of events are told before the calls that wait are failed.
    fn ended(&self, error: io::Error) -> io::Error {
        self.hub.close();
        error
    }

    /// Deals with a line; what is left for jsonrpsee is returned.
    fn sort(&self, line: Vec<u8>) -> Option<Vec<u8>> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        match frame::classify(&line) {
            Frame::Response { id, sound } => {
                if !self.waiting.ids().remove(id) {
                    tracing::warn!(id, "an answer nobody waits for");
                    return None;
                }
                if sound {
                    return Some(line);
                }
                let message = "the server's answer is not a JSON-RPC answer";
                Some(frame::error_answer(id, -32603, message).into_bytes())
            }
            Frame::Request { id, method } => {
                tracing::debug!(%method, "the server asks");
                // Fails only when the writer is gone, and then the server no longer reads answers either.
                let _ = self.answers.send(frame::answer_to_server(id, &method));
                None
            }
            Frame::Notification { method, params } if method == method::PROGRESS => {
                match serde_json::from_str::<ProgressEvent>(params) {
                    Ok(event) => self.hub.publish(&event),
                    // A newer server may know more events than we do.
                    Err(error) => tracing::warn!(%error, "an event that this client does not know"),
                }
                None
            }
            Frame::Notification { method, .. } => {
                tracing::trace!(%method, "a notification");
                None
            }
            Frame::Malformed(reason) => {
                let start: String = String::from_utf8_lossy(&line).chars().take(120).collect();
                tracing::warn!(reason, line = start, "a line that is no message");
                None
            }
        }
    }
}

/// Lines of any length up to a limit, however the bytes arrive.
struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    limit: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    const fn new(reader: R, limit: usize) -> Self {
        Self { reader, line: Vec::new(), limit }
    }

    /// The next line without its newline; none at the end. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                let rest = std::mem::take(&mut self.line);
                return Ok((!rest.is_empty()).then_some(rest));
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let part = newline.unwrap_or(available.len());
            if self.line.len() + part > self.limit {
                let message = format!("the server sent a line longer than {} bytes", self.limit);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.line.extend_from_slice(&available[..part]);
            self.reader.consume(newline.map_or(part, |at| at + 1));
            if newline.is_some() {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8], chunk: usize, limit: usize) -> io::Result<Vec<String>> {
        let (mut far, near) = tokio::io::duplex(chunk);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            for part in bytes.chunks(chunk) {
                if far.write_all(part).await.is_err() {
                    return;
                }
            }
        });
        let mut lines = Lines::new(BufReader::with_capacity(chunk, near), limit);
        let mut read = Vec::new();
        let outcome = loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(String::from_utf8(line).unwrap()),
                Ok(None) => break Ok(read),
                Err(error) => break Err(error),
            }
        };
        drop(lines);
        writing.await.unwrap();
        outcome
    }

    #[tokio::test]
    async fn lines_come_out_the_same_however_they_are_cut() {
        let text = "{\"a\":1}\n\n{\"b\":\"\u{e9}\u{1f980}\"}\r\nlast without newline";
        for chunk in [1, 2, 3, 7, 4096] {
            let lines = read_all(text.as_bytes(), chunk, 1000).await.unwrap();
            assert_eq!(lines, ["{\"a\":1}", "", "{\"b\":\"\u{e9}\u{1f980}\"}\r", "last without newline"], "{chunk}");
        }
    }

    #[tokio::test]
    async fn a_line_beyond_the_limit_is_refused_and_one_at_the_limit_is_not() {
        assert_eq!(read_all(b"12345678\n1\n", 3, 8).await.unwrap(), ["12345678", "1"]);
        let error = read_all(b"1\n123456789\n", 3, 8).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("longer than 8 bytes"), "{error}");
    }
}
