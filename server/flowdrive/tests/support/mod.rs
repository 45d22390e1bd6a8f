//! A client of the real binary over its standard streams, in either framing. Strict: what the server writes that is not
//! a frame fails the test.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Long enough for a slow machine, short enough that a hang fails the test.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Framing {
    Lsp,
    Ndjson,
}

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    framing: Framing,
    messages: Receiver<Value>,
    errors: Receiver<String>,
    pub(crate) aside: Vec<Value>,
    /// Kept until the server is gone.
    _home: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(framing: Framing) -> Self {
        Self::start_with(framing, &[], &[])
    }

    pub(crate) fn start_with(framing: Framing, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_flowdrive"))
            .args(["serve", "--stdio"])
            .args(arguments)
            .env_remove("RUST_LOG")
            // The user's own configuration is no part of a test.
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let mut complaints = child.stderr.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut output = std::io::BufReader::new(output);
            while let Some(body) = read_frame(framing, &mut output) {
                let message = serde_json::from_slice(&body).unwrap_or_else(|error| {
                    panic!("not JSON on standard output: {error}: {}", String::from_utf8_lossy(&body))
                });
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (sender, errors) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = complaints.read_to_string(&mut text);
            let _ = sender.send(text);
        });
        Self { child, input, framing, messages, errors, aside: Vec::new(), _home: home }
    }

    /// A server that was initialized.
    pub(crate) fn introduced() -> Self {
        let mut server = Self::start(Framing::Lsp);
        server.introduce();
        server
    }

    pub(crate) fn introduce(&mut self) -> Value {
        let params = json!({"processId": std::process::id(), "rootUri": null, "capabilities": {}});
        let answer = self.ask(json!(0), "initialize", params);
        self.notify("initialized", json!({}));
        answer
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let text = match self.framing {
            Framing::Lsp => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
            Framing::Ndjson => format!("{body}\n"),
        };
        self.raw(text.as_bytes());
    }

    pub(crate) fn request(&mut self, id: Value, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.request(id.clone(), method, params);
        self.answer(id)
    }

    /// The next message; `None` at the end of the output.
    pub(crate) fn next(&mut self) -> Option<Value> {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => Some(message),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the server says nothing"),
        }
    }

    pub(crate) fn answer(&mut self, id: Value) -> Value {
        loop {
            let message = self.next().expect("the server ended without answering");
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// The exit status, once the server has ended, and what it said on standard error.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let said = self.errors.recv_timeout(PATIENCE).expect("the server does not end");
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One frame; `None` at the end. Anything else fails.
fn read_frame(framing: Framing, output: &mut impl std::io::BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    output.read_until(b'\n', &mut line).unwrap();
    if line.is_empty() {
        return None;
    }
    let text = String::from_utf8(line).expect("standard output is not UTF-8");
    match framing {
        Framing::Ndjson => Some(text.strip_suffix('\n').expect("a line without an end").as_bytes().to_vec()),
        Framing::Lsp => {
            let length = text.strip_prefix("Content-Length: ").and_then(|rest| rest.strip_suffix("\r\n"));
            let length: usize =
                length.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no header: {text:?}"));
            let mut blank = [0; 2];
            output.read_exact(&mut blank).unwrap();
            assert_eq!(&blank, b"\r\n");
            let mut body = vec![0; length];
            output.read_exact(&mut body).unwrap();
            Some(body)
        }
    }
}
