//! Errors as JSON-RPC carries them, and what every domain fault must have.

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use serde_json::Value;

/// An error as JSON-RPC carries it.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// What else there is.
    pub data: Option<Value>,
}

impl RpcError {
    /// The domain fault's details.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn details(&self) -> ErrorData {
        let data = self.data.clone().unwrap_or_else(|| panic!("an error without data: {self:?}"));
        serde_json::from_value(data).unwrap_or_else(|error| panic!("{error} in the data of {self:?}"))
    }

    /// Asserts the kind, that the code belongs to it, and that there is a hint.
    ///
    /// # Panics
    /// When one of them is wrong.
    pub fn assert_kind(&self, kind: ErrorKind) -> ErrorData {
        let details = self.details();
        assert_eq!((details.kind, self.code), (kind, kind.code()), "{self:?}");
        assert!(!details.hint.trim().is_empty(), "a fault without a hint: {self:?}");
        assert!(!self.message.trim().is_empty(), "a fault without a message: {self:?}");
        details
    }
}
