//! Every way a request can fail, and how a client is told: one place where faults become kinds, hints and places.

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use thiserror::Error;

use crate::decide::feedback::{Late, ResolutionRefused};
use crate::delegate::DelegateError;

/// Why a request failed.
#[derive(Debug, Clone, Error)]
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

    /// A defect of Flowdrive itself.
    pub fn internal(message: impl Into<String>) -> Self {
        let hint = "this is a defect of Flowdrive: report it with the message and the server's log (RUST_LOG=debug)";
        Self::new(ErrorKind::Internal, message, hint)
    }

    /// What the client is told besides the message. None for invalid params, which is JSON-RPC's own fault.
    #[must_use]
    pub fn data(&self) -> Option<&ErrorData> {
        match self {
            Self::InvalidParams(_) => None,
            Self::Fault { data, .. } => Some(data),
        }
    }

    /// The kind, where there is one.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        self.data().map(|data| data.kind)
    }
}

impl From<ResolutionRefused> for EngineError {
    fn from(refused: ResolutionRefused) -> Self {
        let message = refused.to_string();
        let (kind, hint) = match refused {
            ResolutionRefused::Unknown { .. } => {
                (ErrorKind::FeedbackUnknown, "list the run's records with listFeedback (flowdrive feedback list)")
            }
            ResolutionRefused::NoNode(_) => (
                ErrorKind::ResolutionRefused,
                "name the verified node that settles it, such as <run>:verifier:<task>; or use retry or rejected",
            ),
            ResolutionRefused::NodeNotFound { .. } | ResolutionRefused::NodeNotVerified { .. } => (
                ErrorKind::ResolutionRefused,
                "name a node <run>:verifier:<task> of an accepted task with evidence, or a gated commit <run>:commit:<id>",
            ),
            ResolutionRefused::Closed(..) => (ErrorKind::ResolutionRefused, "nothing is left to do for this record"),
            ResolutionRefused::TooLate { late, .. } => (
                ErrorKind::ResolutionRefused,
                match late {
                    Late::Running(_) => "wait for how this attempt ends; if its task parks again, retry the new record",
                    Late::Accepted(_) => "nothing is left to guide; for another answer, begin another run",
                    Late::Parked { .. } => "retry that record with this guidance",
                    Late::NoTask => "use resolved or rejected",
                },
            ),
            ResolutionRefused::NothingToRetry(_) => (
                ErrorKind::ResolutionRefused,
                "only a record of a parked task can be retried; use resolved or rejected",
            ),
        };
        Self::new(kind, message, hint)
    }
}

impl From<DelegateError> for EngineError {
    fn from(fault: DelegateError) -> Self {
        Self::internal(fault.to_string())
    }
}
