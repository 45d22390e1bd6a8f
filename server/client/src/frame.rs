//! Tells what a line from the server is, looking no deeper than its top-level fields. jsonrpsee ends the whole client
//! over a line it cannot place; so every line is placed here first, and it only ever sees sound answers to its calls.
//!
//! Must not: do I/O.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What a line is.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    /// An answer. `sound` tells whether it is well-formed apart from its id.
    Response { id: &'a str, sound: bool },
    /// The server asks us something, and waits.
    Request { id: &'a str, method: Cow<'a, str> },
    /// The server tells us something.
    Notification { method: Cow<'a, str>, params: &'a str },
    /// None of these, and why.
    Malformed(String),
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Tells a field that is `null` from one that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Places a line.
pub(crate) fn classify(line: &[u8]) -> Frame<'_> {
    let head: Head<'_> = match serde_json::from_slice(line) {
        Ok(head) => head,
        Err(error) => return Frame::Malformed(format!("not a JSON-RPC message: {error}")),
    };
    let id = head.id.map(RawValue::get);
    match (head.method, id) {
        (Some(method), Some(id)) => Frame::Request { id, method },
        (Some(method), None) => Frame::Notification { method, params: head.params.map_or("{}", RawValue::get) },
        (None, None) => Frame::Malformed("neither `id` nor `method`".to_owned()),
        // The server could not read a request of ours, and so does not know whose answer this is.
        (None, Some("null")) => {
            Frame::Malformed(format!("an answer without an id: {}", head.error.map_or("", RawValue::get)))
        }
        (None, Some(id)) => {
            let sound = head.jsonrpc.as_deref() == Some("2.0") && (head.result.is_some() != head.error.is_some());
            Frame::Response { id, sound: sound && head.error.is_none_or(is_error_object) }
        }
    }
}

fn is_error_object(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(rename = "code")]
        _code: i32,
        #[serde(borrow, rename = "message")]
        _message: Cow<'a, str>,
    }
    serde_json::from_str::<Shape<'_>>(error.get()).is_ok()
}

/// The id of a request we are about to send; none for a notification.
pub(crate) fn request_id(text: &str) -> Option<String> {
    match classify(text.as_bytes()) {
        Frame::Request { id, .. } => Some(id.to_owned()),
        _ => None,
    }
}

/// An error answer, as a line without its newline. `id` is JSON already.
pub(crate) fn error_answer(id: &str, code: i64, message: &str) -> String {
    let message = serde_json::Value::from(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#)
}

/// Our answer to a request of the server's. Only the one it makes of every client is granted.
pub(crate) fn answer_to_server(id: &str, method: &str) -> String {
    if method == "window/workDoneProgress/create" {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#)
    } else {
        error_answer(id, -32601, &format!("this client does not answer `{method}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_placed_by_their_top_level_fields() {
        let cases: &[(&str, &str)] = &[
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "sound answer 1"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "sound answer 1"),
            (r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"m"}}"#, "sound answer \"a\""),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}"#, "unsound answer 1"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "unsound answer 1"),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":-1,"message":"m"}}"#, "unsound answer 1"),
            (r#"{"id":1,"result":1}"#, "unsound answer 1"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{}}"#, "request 7 m"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "request null m"),
            (r#"{"jsonrpc":"2.0","method":"m","params":{"id":3}}"#, "notification m {\"id\":3}"),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, "notification m {}"),
            (r#"{"jsonrpc":"2.0","method":"a\nb"}"#, "notification a\nb {}"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#, "malformed"),
            (r#"{"jsonrpc":"2.0"}"#, "malformed"),
            ("[]", "malformed"),
            ("[1]", "malformed"),
            ("progress: 3 of 4", "malformed"),
            ("{\"id\":1", "malformed"),
        ];
        for (line, expected) in cases {
            let seen = match classify(line.as_bytes()) {
                Frame::Response { id, sound: true } => format!("sound answer {id}"),
                Frame::Response { id, sound: false } => format!("unsound answer {id}"),
                Frame::Request { id, method } => format!("request {id} {method}"),
                Frame::Notification { method, params } => format!("notification {method} {params}"),
                Frame::Malformed(_) => "malformed".to_owned(),
            };
            assert_eq!(seen, *expected, "{line}");
        }
        assert!(matches!(classify(b"{\"method\":\"\xff\"}"), Frame::Malformed(_)), "bytes that are not UTF-8");
    }

    #[test]
    fn the_server_is_always_answered() {
        let granted: serde_json::Value =
            serde_json::from_str(&answer_to_server("\"t1\"", "window/workDoneProgress/create")).unwrap();
        assert_eq!(granted, serde_json::json!({"jsonrpc": "2.0", "id": "t1", "result": null}));
        let refused: serde_json::Value = serde_json::from_str(&answer_to_server("9", "x/\"y\"")).unwrap();
        assert_eq!(refused["error"]["code"], -32601);
        assert_eq!(refused["id"], 9);
    }

    #[test]
    fn only_requests_have_an_id_to_wait_for() {
        assert_eq!(request_id(r#"{"jsonrpc":"2.0","id":5,"method":"m"}"#).as_deref(), Some("5"));
        assert_eq!(request_id(r#"{"jsonrpc":"2.0","method":"m"}"#), None);
    }
}
