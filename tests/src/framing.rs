//! Both framings, written and read strictly: whatever the server prints that is not a frame fails the test.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// How messages are told apart on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length` headers, as the Language Server Protocol has it.
    Lsp,
    /// One JSON value a line.
    Ndjson,
}

impl Framing {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Lsp, Self::Ndjson];

    /// The bytes of one message with this body.
    #[must_use]
    pub fn frame(self, body: &str) -> Vec<u8> {
        match self {
            Self::Lsp => format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
            Self::Ndjson => format!("{body}\n").into_bytes(),
        }
    }

    /// The next message; none at a clean end of the stream.
    ///
    /// # Errors
    /// When the bytes are not a frame of this framing, or its body is not JSON.
    pub async fn read(self, input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Value>> {
        let body = match self {
            Self::Lsp => match read_headers(input).await? {
                None => return Ok(None),
                Some(length) => {
                    let mut body = vec![0; length];
                    input.read_exact(&mut body).await?;
                    body
                }
            },
            Self::Ndjson => {
                let mut line = Vec::new();
                if input.read_until(b'\n', &mut line).await? == 0 {
                    return Ok(None);
                }
                if line.pop() != Some(b'\n') {
                    return Err(fault(format!("a line without an end: {}", excerpt(&line))));
                }
                line
            }
        };
        serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| fault(format!("a message that is not JSON ({error}): {}", excerpt(&body))))
    }
}

async fn read_headers(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<usize>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line).await? == 0 {
            return if length.is_none() { Ok(None) } else { Err(fault("the stream ended within headers".to_owned())) };
        }
        let text = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix("\r\n"));
        match text {
            Some("") => return length.map(Some).ok_or_else(|| fault("headers without Content-Length".to_owned())),
            Some(header) if header.starts_with("Content-Type: ") => {}
            Some(header) => match header.strip_prefix("Content-Length: ").and_then(|number| number.parse().ok()) {
                Some(number) => length = Some(number),
                None => return Err(fault(format!("not a header: {header:?}"))),
            },
            None => return Err(fault(format!("not a header line: {}", excerpt(&line)))),
        }
    }
}

fn fault(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn reads_what_it_writes_and_refuses_stray_bytes() {
        for framing in Framing::BOTH {
            let mut bytes = framing.frame(r#"{"a":"é"}"#);
            bytes.extend(framing.frame("1"));
            let mut input = bytes.as_slice();
            assert_eq!(framing.read(&mut input).await.unwrap(), Some(json!({"a": "é"})));
            assert_eq!(framing.read(&mut input).await.unwrap(), Some(json!(1)));
            assert_eq!(framing.read(&mut input).await.unwrap(), None);

            let mut stray = b"INFO started\r\n".to_vec();
            stray.extend(framing.frame("1"));
            assert!(framing.read(&mut stray.as_slice()).await.is_err());
        }
    }
}
