//! Domain faults as clients see them: a stable kind, its code, and what to do next. Faults of JSON-RPC itself (parse
//! error, invalid request, unknown method, invalid params, request cancelled) keep the codes of their specifications.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What went wrong, for programs to match on. Stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum ErrorKind { $($(#[$doc])* $name,)* }

        impl ErrorKind {
            /// Every kind, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The JSON-RPC error code.
            #[must_use]
            pub const fn code(self) -> i64 {
                match self { $(Self::$name => $code,)* }
            }

            /// The kind on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// No such run in this workspace.
    RunNotFound = -32010, "run-not-found";
    /// Another process, or this one, is driving the run.
    RunLocked = -32011, "run-locked";
    /// The run's record on disk does not add up.
    RunCorrupt = -32012, "run-corrupt";
    /// The run was written by a newer Flowdrive.
    UnsupportedState = -32013, "unsupported-state";
    /// The workflow does not validate.
    WorkflowInvalid = -32020, "workflow-invalid";
    /// The configuration does not validate.
    ConfigInvalid = -32021, "config-invalid";
    /// The agent named is not configured.
    AgentNotConfigured = -32022, "agent-not-configured";
    /// The workspace is missing, not a folder, or not writable.
    WorkspaceInvalid = -32023, "workspace-invalid";
    /// No such feedback record in this run.
    FeedbackUnknown = -32030, "feedback-unknown";
    /// The resolution asked for is not allowed.
    ResolutionRefused = -32031, "resolution-refused";
    /// Too many requests are in flight.
    Overloaded = -32040, "overloaded";
    /// Client and server speak no common protocol version.
    ProtocolMismatch = -32041, "protocol-mismatch";
    /// The server is ending, and starts nothing new.
    ShuttingDown = -32042, "shutting-down";
    /// The disk refused a read or write.
    StorageFailed = -32050, "storage-failed";
    /// A defect of Flowdrive itself.
    Internal = -32603, "internal";
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `data` of a domain error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    /// What went wrong.
    pub kind: ErrorKind,
    /// What to do next, in one sentence.
    pub hint: String,
    /// The file at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line at fault, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The field at fault, such as `phases[1].tasks[0].id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// For `run-locked`: the process that drives the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// For `run-locked`: the machine that process is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Since when that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<crate::time::Timestamp>,
}

impl ErrorData {
    /// A kind and a hint; the other fields are set by those who know them.
    #[must_use]
    pub fn new(kind: ErrorKind, hint: impl Into<String>) -> Self {
        Self { kind, hint: hint.into(), file: None, line: None, field: None, pid: None, host: None, since: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_wire_names_are_distinct_and_match_serde() {
        let mut codes: Vec<i64> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
