//! Every way a call can fail, each with what happened and what to do next.

use std::process::ExitStatus;
use std::time::Duration;

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use thiserror::Error;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The server program could not be started.
    #[error("cannot start the server `{program}`: {source}")]
    Spawn {
        /// The program that was tried.
        program: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Client and server speak no common protocol version.
    #[error("the server speaks protocol {oldest} to {newest}, this client speaks {ours}")]
    ProtocolMismatch {
        /// The client's version.
        ours: u32,
        /// The oldest version the server speaks.
        oldest: u32,
        /// The newest version the server speaks.
        newest: u32,
    },
    /// The server answered with an error.
    #[error("{message}")]
    Server {
        /// The JSON-RPC error code.
        code: i64,
        /// What happened.
        message: String,
        /// The kind, the hint and the place; absent for faults of JSON-RPC itself.
        data: Option<Box<ErrorData>>,
    },
    /// The server process ended before it answered.
    #[error("the server ended before it answered ({})", describe(.status.as_ref()))]
    ServerDied {
        /// How it ended, where that is known.
        status: Option<ExitStatus>,
        /// The end of what it wrote to stderr. Empty when stderr was not captured.
        stderr_tail: String,
    },
    /// The connection ended although the server process did not, as far as is known.
    #[error("the connection to the server was lost: {reason}")]
    TransportLost {
        /// What the transport said.
        reason: String,
    },
    /// No answer came in time. The server may still be at work on it.
    #[error("no answer to `{method}` within {} s", .after.as_secs_f64())]
    Timeout {
        /// The method called.
        method: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The server answered with something that does not have the answer's shape.
    #[error("the answer to `{method}` does not have the shape it should: {reason}")]
    BadAnswer {
        /// The method called.
        method: &'static str,
        /// What did not fit.
        reason: String,
    },
    /// The parameters could not be written as JSON.
    #[error("the parameters of `{method}` cannot be written as JSON: {reason}")]
    BadParams {
        /// The method called.
        method: &'static str,
        /// What did not fit.
        reason: String,
    },
}

impl ClientError {
    /// The kind of a domain error.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        self.data().map(|data| data.kind)
    }

    /// The kind, the hint and the place the server gave.
    #[must_use]
    pub fn data(&self) -> Option<&ErrorData> {
        match self {
            Self::Server { data, .. } => data.as_deref(),
            _ => None,
        }
    }

    /// What to do next, in a sentence.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Spawn { program, .. } => {
                format!("check that `{program}` exists and may be executed, or name another program")
            }
            Self::ProtocolMismatch { ours, oldest, .. } if ours < oldest => {
                "update the client: it is older than the server".to_owned()
            }
            Self::ProtocolMismatch { .. } => "update the server: it is older than the client".to_owned(),
            Self::Server { data, .. } => data.as_ref().map(|data| data.hint.clone()).filter(|hint| !hint.is_empty())?,
            Self::ServerDied { .. } => {
                "what was accepted is kept: start the server again and `resume` the run".to_owned()
            }
            Self::TransportLost { .. } => "start the server again and `resume` the run".to_owned(),
            Self::Timeout { .. } => "the server is busy or stuck: try again, or give the call more time".to_owned(),
            Self::BadAnswer { .. } => "client and server may be of different versions: update both".to_owned(),
            Self::BadParams { .. } => return None,
        })
    }

    /// Whether the server is gone, so that only a new one can help.
    #[must_use]
    pub const fn is_connection_loss(&self) -> bool {
        matches!(self, Self::ServerDied { .. } | Self::TransportLost { .. })
    }
}

fn describe(status: Option<&ExitStatus>) -> String {
    status.map_or_else(|| "exit status unknown".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_says_which_side_is_to_be_updated() {
        let old_client = ClientError::ProtocolMismatch { ours: 1, oldest: 2, newest: 3 };
        assert_eq!(old_client.to_string(), "the server speaks protocol 2 to 3, this client speaks 1");
        assert!(old_client.hint().unwrap().contains("update the client"));
        let old_server = ClientError::ProtocolMismatch { ours: 4, oldest: 2, newest: 3 };
        assert!(old_server.hint().unwrap().contains("update the server"));
    }

    #[test]
    fn a_domain_error_carries_the_servers_own_hint() {
        let data = ErrorData::new(ErrorKind::RunNotFound, "list the runs with `flowdrive runs`");
        let error = ClientError::Server { code: -32010, message: "no run x".into(), data: Some(Box::new(data)) };
        assert_eq!(error.kind(), Some(ErrorKind::RunNotFound));
        assert_eq!(error.hint().as_deref(), Some("list the runs with `flowdrive runs`"));
        assert!(!error.is_connection_loss());
        assert!(ClientError::ServerDied { status: None, stderr_tail: String::new() }.is_connection_loss());
    }
}
