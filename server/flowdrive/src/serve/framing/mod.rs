//! The two ways messages are laid out on a byte stream: the Language Server Protocol's `Content-Length` frames, and one
//! JSON value a line. Pure state machines: bytes in, frames or faults out. Every fault is told once, after which the
//! decoder finds the next message again.
//!
//! Must not: do I/O, look inside a message, or panic on any input.

mod lines;
mod lsp;

use thiserror::Error;

use lines::LineDecoder;
use lsp::LspDecoder;

/// The largest message taken, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 100 * 1024 * 1024;

/// How messages are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `Content-Length` headers, as the Language Server Protocol has them.
    Lsp,
    /// One JSON value a line.
    Ndjson,
}

/// What stands in the stream in place of a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FrameError {
    /// The message is passed over without being read into memory.
    #[error("the message is larger than the limit of {limit} bytes{}", .size.map(|size| format!(" (it says {size})")).unwrap_or_default())]
    TooLarge {
        /// Its size, where the header says it.
        size: Option<u64>,
        /// The limit it is over.
        limit: usize,
    },
    /// The header cannot be understood; everything up to the next `Content-Length` is passed over.
    #[error("bad message header: {0}")]
    BadHeader(String),
    /// The stream ended inside a message.
    #[error("the input ended inside a message")]
    Truncated,
}

/// Turns bytes into messages. Made for one framing, or for whichever the first byte shows.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
    limit: usize,
}

#[derive(Debug)]
enum State {
    /// The first byte that counts has not come yet; what came is a start of a byte order mark or nothing.
    Unknown(Vec<u8>),
    Lsp(LspDecoder),
    Lines(LineDecoder),
}

impl Decoder {
    /// A decoder for `framing`; with `None` the first byte decides: `C` or `c` begins a header, all else is lines.
    pub(crate) fn new(framing: Option<Framing>, limit: usize) -> Self {
        let mut decoder = Self { state: State::Unknown(Vec::new()), limit };
        if let Some(framing) = framing {
            decoder.settle(framing);
        }
        decoder
    }

    /// The framing, once it is known.
    pub(crate) const fn framing(&self) -> Option<Framing> {
        match self.state {
            State::Unknown(_) => None,
            State::Lsp(_) => Some(Framing::Lsp),
            State::Lines(_) => Some(Framing::Ndjson),
        }
    }

    /// Takes in bytes, however they were cut.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Lsp(lsp) => lsp.push(bytes),
            State::Lines(lines) => lines.push(bytes),
            State::Unknown(held) => {
                held.extend_from_slice(bytes);
                let held = std::mem::take(held);
                self.detect(&held);
            }
        }
    }

    fn detect(&mut self, held: &[u8]) {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        // Marks and blanks before the first message say nothing, however many there are and however they are cut.
        let mut text = held.trim_ascii_start();
        while let Some(rest) = text.strip_prefix(MARK) {
            text = rest.trim_ascii_start();
        }
        if MARK.starts_with(text) {
            // Nothing yet, or what may become a mark.
            self.state = State::Unknown(text.to_vec());
            return;
        }
        self.settle(if matches!(text[0], b'C' | b'c') { Framing::Lsp } else { Framing::Ndjson });
        self.push(text);
    }

    fn settle(&mut self, framing: Framing) {
        self.state = match framing {
            Framing::Lsp => State::Lsp(LspDecoder::new(self.limit)),
            Framing::Ndjson => State::Lines(LineDecoder::new(self.limit)),
        };
    }

    /// The next message or fault; `None` when more bytes are needed.
    pub(crate) fn next_frame(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        match &mut self.state {
            State::Unknown(_) => None,
            State::Lsp(lsp) => lsp.next_frame(),
            State::Lines(lines) => lines.next_frame(),
        }
    }

    /// What is left when the stream has ended: a last line without a line end is a message, half a frame is a fault.
    pub(crate) fn finish(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        match &mut self.state {
            State::Unknown(_) => None,
            State::Lsp(lsp) => lsp.finish(),
            State::Lines(lines) => lines.finish(),
        }
    }
}

/// Appends `body`, one JSON value without line ends, to `out` in `framing`.
pub(crate) fn encode(framing: Framing, body: &[u8], out: &mut Vec<u8>) {
    match framing {
        Framing::Lsp => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(body.len().to_string().as_bytes());
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(body);
        }
        Framing::Ndjson => {
            out.extend_from_slice(body);
            out.push(b'\n');
        }
    }
}

/// Room that a buffer keeps once it is empty, in bytes.
const MOST_KEPT: usize = 64 * 1024;

/// A queue of bytes that is read from the front at a constant cost per byte.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn push(&mut self, bytes: &[u8]) {
        // Moving the rest is paid for by the bytes that were taken before it.
        if self.start > 0 && self.start >= self.bytes.len() - self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn peek(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Drops `count` bytes, or all there are.
    fn skip(&mut self, count: usize) {
        self.start += count.min(self.len());
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            // A buffer that once held a large message does not stay large.
            self.bytes.shrink_to(MOST_KEPT);
        }
    }

    /// Takes `count` bytes, or all there are.
    fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.peek()[..count.min(self.len())].to_vec();
        self.skip(count);
        taken
    }
}

#[cfg(test)]
mod tests;
