//! The Language Server Protocol's base protocol: header lines, a blank line, a body of `Content-Length` bytes. Names of
//! headers are case-insensitive, a lone `\n` ends a line too, and only `Content-Length` means anything.
//!
//! Must not: hold a body over the limit, or a header that has no end.

use super::{Buffer, FrameError};

/// A header block longer than this is taken for garbage.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The longest body that is passed over as too large a message; above it, the header itself is not believed.
const MAX_BELIEVED_BYTES: u64 = u32::MAX as u64;
/// What a lost decoder looks for.
const NEEDLE: &[u8] = b"content-length:";

#[derive(Debug)]
pub(super) struct LspDecoder {
    buffer: Buffer,
    limit: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Header,
    Body(usize),
    /// Passing over the body of a message that is over the limit.
    Skipping(u64),
    /// Looking for the next header after one that could not be understood.
    Lost,
}

impl LspDecoder {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: Buffer::default(), limit, state: State::Header }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if let State::Skipping(left) = &mut self.state {
            let passed = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            bytes = &bytes[passed..];
            *left -= passed as u64;
        }
        self.buffer.push(bytes);
    }

    pub(super) fn next_frame(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        loop {
            match self.state {
                State::Header => match self.header() {
                    Ok(Some(length)) => match usize::try_from(length) {
                        Ok(length) if length <= self.limit => self.state = State::Body(length),
                        _ => {
                            self.state = State::Skipping(length);
                            return Some(Err(FrameError::TooLarge { size: Some(length), limit: self.limit }));
                        }
                    },
                    Ok(None) => return None,
                    Err(reason) => {
                        self.state = State::Lost;
                        return Some(Err(FrameError::BadHeader(reason)));
                    }
                },
                State::Body(length) => {
                    if self.buffer.len() < length {
                        return None;
                    }
                    self.state = State::Header;
                    return Some(Ok(self.buffer.take(length)));
                }
                State::Skipping(left) => {
                    let passed = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
                    self.buffer.skip(passed);
                    let left = left - passed as u64;
                    if left > 0 {
                        self.state = State::Skipping(left);
                        return None;
                    }
                    self.state = State::Header;
                }
                State::Lost => {
                    if !self.find_header() {
                        return None;
                    }
                    self.state = State::Header;
                }
            }
        }
    }

    pub(super) fn finish(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        let inside = match self.state {
            State::Header => !self.buffer.peek().trim_ascii().is_empty(),
            State::Body(_) => true,
            State::Skipping(left) => left > 0,
            State::Lost => false,
        };
        self.buffer.skip(usize::MAX);
        self.state = State::Header;
        inside.then_some(Err(FrameError::Truncated))
    }

    /// The length a complete header block at the front says, with the block taken away; `None` when it is not complete.
    fn header(&mut self) -> Result<Option<u64>, String> {
        let bytes = self.buffer.peek();
        let blanks = bytes.len() - bytes.trim_ascii_start().len();
        self.buffer.skip(blanks);
        let bytes = self.buffer.peek();
        let Some(first) = bytes.first() else { return Ok(None) };
        if !first.is_ascii_alphabetic() {
            return Err(format!("expected `Content-Length`, found {}", shown(&[*first])));
        }
        let Some((block, end)) = split_block(bytes) else {
            if bytes.len() > MAX_HEADER_BYTES {
                self.buffer.skip(1);
                return Err(format!("no blank line within {MAX_HEADER_BYTES} bytes"));
            }
            return Ok(None);
        };
        let length = parse_block(block);
        // Also a bad block is taken away: its own `Content-Length` must not be found again.
        self.buffer.skip(end);
        length.map(Some)
    }

    /// Drops everything before the next `Content-Length:`; false when it has not come yet.
    fn find_header(&mut self) -> bool {
        let bytes = self.buffer.peek();
        let found = bytes.windows(NEEDLE.len()).position(|window| window.eq_ignore_ascii_case(NEEDLE));
        // The start of a header may be at the very end.
        let drop = found.unwrap_or_else(|| bytes.len().saturating_sub(NEEDLE.len() - 1));
        self.buffer.skip(drop);
        found.is_some()
    }
}

/// A header block and where it ends, blank line included.
fn split_block(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let mut line = 0;
    let searched = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
    for (at, _) in searched.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if matches!(&bytes[line..at], b"" | b"\r") {
            return Some((&bytes[..line], at + 1));
        }
        line = at + 1;
    }
    None
}

fn parse_block(block: &[u8]) -> Result<u64, String> {
    let mut length = None;
    for line in block.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let Some((name, value)) = colon.map(|at| (line[..at].trim_ascii(), line[at + 1..].trim_ascii())) else {
            return Err(format!("a line without a colon: {}", shown(line)));
        };
        if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            return Err(format!("not a header name: {}", shown(name)));
        }
        if !name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse::<u64>().ok());
        // Passing over so many bytes would leave the server deaf for good: such a header is garbage, not a message.
        let number = number.filter(|number| *number <= MAX_BELIEVED_BYTES);
        match (number, length) {
            (None, _) => return Err(format!("`Content-Length` is not a number of bytes: {}", shown(value))),
            (Some(number), Some(earlier)) if number != earlier => {
                return Err(format!("`Content-Length` is given twice: {earlier} and {number}"));
            }
            (number, _) => length = number,
        }
    }
    length.ok_or_else(|| "`Content-Length` is missing".to_owned())
}

/// The start of some bytes, for a message.
fn shown(bytes: &[u8]) -> String {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    format!("`{}`{}", start.escape_debug(), if bytes.len() > 40 { "..." } else { "" })
}

#[cfg(test)]
impl LspDecoder {
    /// Bytes held in memory.
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }
}
