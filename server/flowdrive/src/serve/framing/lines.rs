//! One JSON value a line. `\r\n` ends a line as `\n` does; blank lines are passed over.
//!
//! Must not: hold more of a line than the limit.

use super::{Buffer, FrameError};

#[derive(Debug)]
pub(super) struct LineDecoder {
    buffer: Buffer,
    limit: usize,
    /// Bytes at the front that were already searched for a line end.
    searched: usize,
    /// The line being read is over the limit, and was told of.
    passing_over: bool,
}

impl LineDecoder {
    pub(super) fn new(limit: usize) -> Self {
        Self { buffer: Buffer::default(), limit, searched: 0, passing_over: false }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if !self.passing_over {
            self.buffer.push(bytes);
            return;
        }
        if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.passing_over = false;
            self.buffer.push(&bytes[end + 1..]);
        }
    }

    pub(super) fn next_frame(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        loop {
            let bytes = self.buffer.peek();
            let Some(end) = bytes[self.searched..].iter().position(|&byte| byte == b'\n') else {
                self.searched = bytes.len();
                if bytes.len() <= self.limit {
                    return None;
                }
                self.buffer.skip(usize::MAX);
                self.searched = 0;
                self.passing_over = true;
                return Some(Err(self.too_large()));
            };
            let length = self.searched + end;
            self.searched = 0;
            if length > self.limit {
                self.buffer.skip(length + 1);
                return Some(Err(self.too_large()));
            }
            let line = self.buffer.take(length);
            self.buffer.skip(1);
            if let Some(line) = trimmed(line) {
                return Some(Ok(line));
            }
        }
    }

    pub(super) fn finish(&mut self) -> Option<Result<Vec<u8>, FrameError>> {
        self.searched = 0;
        trimmed(self.buffer.take(usize::MAX)).map(Ok)
    }

    fn too_large(&self) -> FrameError {
        FrameError::TooLarge { size: None, limit: self.limit }
    }
}

/// The line without blanks around it; `None` when nothing is left.
fn trimmed(line: Vec<u8>) -> Option<Vec<u8>> {
    let text = line.trim_ascii();
    match text.len() {
        0 => None,
        length if length == line.len() => Some(line),
        _ => Some(text.to_vec()),
    }
}
