//! Every way a request can fail, and how a client is told: one place where faults become kinds, hints and places.

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use thiserror::Error;

/// Why a request failed.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The request contradicts itself; the parameters have to change.
    #[error("{0}")]
    InvalidParams(String),
    /// Any fault with a stable kind.
    #[error("{message}")]
    Fault {
        /// What happened, and where.
        message: String,
        /// The kind, the hint and the place.
        data: Box<ErrorData>,
    },
}

impl EngineError {
    /// A fault of a kind, with what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Fault { message: message.into(), data: Box::new(ErrorData::new(kind, hint)) }
    }

    /// What the client is told besides the message. None for invalid params, which is JSON-RPC's own fault.
    #[must_use]
    pub fn data(&self) -> Option<&ErrorData> {
        match self {
            Self::InvalidParams(_) => None,
            Self::Fault { data, .. } => Some(data),
        }
    }
}
