//! Faults as JSON-RPC errors: one place where kinds become codes.
//!
//! Must not: decide what is a fault.

use flowdrive_engine::EngineError;
use flowdrive_protocol::error::ErrorKind;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, ErrorCode};

use super::message;
use super::service::METHODS;

/// An engine's fault, as the client is told.
pub(crate) fn from_engine(error: &EngineError) -> Error {
    let Some(data) = error.data() else { return message::fault(ErrorCode::InvalidParams, error.to_string()) };
    let told = serde_json::to_value(data).ok();
    Error { data: told, ..message::fault(ErrorCode::from(data.kind.code()), error.to_string()) }
}

/// A fault of a kind.
pub(crate) fn of_kind(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Error {
    from_engine(&EngineError::new(kind, message, hint))
}

/// The path of the field that does not fit (empty for the value itself), and the reason.
fn broken(error: serde_path_to_error::Error<serde_json::Error>) -> (String, String) {
    let path = error.path().to_string();
    let path = if path == "." { String::new() } else { path };
    (path, error.into_inner().to_string())
}

/// Reads the parameters of a method. What it does not know is passed over, for a client may be newer, and logged, for it
/// may be a slip.
///
/// # Errors
/// "Invalid params", naming the field.
pub(crate) fn params<T: DeserializeOwned>(method: &str, value: Value) -> Result<T, Error> {
    if !value.is_object() {
        return Err(message::fault(ErrorCode::InvalidParams, format!("`{method}` takes one object as its params")));
    }
    let mut unknown = Vec::new();
    let mut note = |path: serde_ignored::Path<'_>| unknown.push(path.to_string());
    let read = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(value, &mut note));
    // The Language Server Protocol's own grow with every version of it.
    if !unknown.is_empty() && METHODS.contains(&method) {
        tracing::warn!(method, fields = %unknown.join(", "), "unknown params were passed over");
    }
    read.map_err(broken).map_err(|(field, reason)| {
        let place = if field.is_empty() { String::new() } else { format!(" `{field}`:") };
        let data = (!field.is_empty()).then(|| json!({ "field": field }));
        let text = format!("`{method}` params:{place} {reason}");
        Error { data, ..message::fault(ErrorCode::InvalidParams, text) }
    })
}

#[cfg(test)]
mod tests {
    use flowdrive_protocol::error::ErrorData;
    use flowdrive_protocol::method::{DriveParams, ResolveFeedbackParams};

    use super::*;

    #[test]
    fn a_field_that_does_not_fit_is_named() {
        for (value, field, reason) in [
            (json!({"concurrency": 0}), "concurrency", "nonzero"),
            (json!({"concurrency": 1.5}), "concurrency", "1.5"),
            (json!({"concurrency": -1}), "concurrency", "-1"),
            (json!({"maxAttempts": "3"}), "maxAttempts", "string"),
            (json!({"runId": "../x"}), "runId", "run id"),
            (json!({"inputs": {"a b": 1}}), "inputs.a b", "input name"),
        ] {
            let error = params::<DriveParams>("drive", value).unwrap_err();
            assert_eq!(error.code.code(), -32602);
            assert!(error.message.contains(&format!("`{field}`")) && error.message.contains(reason), "{error}");
            assert_eq!(error.data, Some(json!({"field": field})));
        }
        let value = json!({"runId": "r", "feedbackId": "f", "resolution": "accept"});
        let error = params::<ResolveFeedbackParams>("resolveFeedback", value).unwrap_err();
        assert!(error.message.contains("`resolved`, `rejected`"), "the values there are: {error}");
        let error = params::<DriveParams>("drive", json!([1])).unwrap_err();
        assert!(error.message.contains("one object"), "{error}");
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        assert!(params::<DriveParams>("drive", json!({"runId": "r", "later": true})).is_ok());
    }

    #[test]
    fn an_engines_fault_keeps_its_kind_hint_and_place() {
        let mut data = ErrorData::new(ErrorKind::RunLocked, "Wait.");
        data.pid = Some(7);
        let error = from_engine(&EngineError::Fault { message: "locked".into(), data: Box::new(data) });
        assert_eq!(error.code.code(), -32011);
        assert_eq!(error.data, Some(json!({"kind": "run-locked", "hint": "Wait.", "pid": 7})));
        let error = from_engine(&EngineError::InvalidParams("both".into()));
        assert_eq!((error.code.code(), error.data), (-32602, None));
    }
}
