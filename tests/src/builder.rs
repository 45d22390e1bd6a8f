//! How a server under test is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};

use crate::binary;
use crate::framing::Framing;
use crate::server::Server;
use crate::workspace::TestWorkspace;

/// How a server is started.
#[derive(Debug)]
#[must_use]
pub struct Builder<'a> {
    ws: &'a TestWorkspace,
    framing: Framing,
    program: Option<PathBuf>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    options: Value,
    process_id: Option<u32>,
    handshake: bool,
}

impl<'a> Builder<'a> {
    /// A server for this workspace, with nothing special about it.
    pub fn new(ws: &'a TestWorkspace, framing: Framing) -> Self {
        let (arguments, environment) = (Vec::new(), Vec::new());
        Self {
            ws,
            framing,
            program: None,
            arguments,
            environment,
            options: json!({}),
            process_id: None,
            handshake: true,
        }
    }

    /// Another build of the program than the one under test.
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// An argument after `serve --stdio`.
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// A variable of the server's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// `initializationOptions`.
    pub fn options(mut self, options: Value) -> Self {
        self.options = options;
        self
    }

    /// `initialize.processId`; this test's own when not set.
    pub fn process_id(mut self, pid: u32) -> Self {
        self.process_id = Some(pid);
        self
    }

    /// Leaves `initialize` to the test.
    pub fn without_handshake(mut self) -> Self {
        self.handshake = false;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it does not start, or refuses `initialize`.
    pub async fn start(self) -> Server {
        static COUNT: AtomicI64 = AtomicI64::new(1);
        let log = self.ws.root().join(format!("server-{}.log", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut command = self.ws.command(self.program.as_deref().unwrap_or_else(|| binary::flowdrive()));
        command.args(["serve", "--stdio", "--config"]).arg(self.ws.config_file()).args(&self.arguments);
        command.envs(self.environment);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(fs::File::create(&log).expect("the log can be made"));
        let server = Server::spawn(self.ws, self.framing, command, log);
        if self.handshake && self.framing == Framing::Lsp {
            let process_id = self.process_id.unwrap_or_else(std::process::id);
            server.initialize(process_id, self.options).await;
        }
        server
    }
}
