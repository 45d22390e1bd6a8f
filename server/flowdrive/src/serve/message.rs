//! What one JSON value from the client is: a request, a notification, an answer to a request of ours, a batch of these,
//! or none of them. Pure.
//!
//! Must not: know of methods or of how a message came.

use std::hash::{Hash, Hasher};

use serde_json::{Map, Number, Value};
use tower_lsp::jsonrpc::{Error, ErrorCode, Id, Response};

/// The first whole number, 2 to the 53rd, from which on not every one is a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Messages that a batch may hold. Each may cost an answer.
pub(crate) const MAX_BATCH: usize = 1_000;

/// The id of a request, given back as it came.
#[derive(Debug, Clone)]
pub(crate) enum RequestId {
    /// A whole number: what it is, and how the client wrote it (`1`, `1.0` and `1e0` are one number, and one id).
    Number(i128, Number),
    /// A text.
    Text(String),
}

impl RequestId {
    /// The id in a JSON value, if it can be one: a text or a whole number. A number with a fraction is none, and neither
    /// is one so large that reading it as a float has rounded it: it could not be given back.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => whole(number).map(|value| Self::Number(value, number.clone())),
            Value::String(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
    }
}

fn whole(number: &Number) -> Option<i128> {
    if let Some(signed) = number.as_i64() {
        return Some(signed.into());
    }
    if let Some(unsigned) = number.as_u64() {
        return Some(unsigned.into());
    }
    // Whole and below that bound, a float is exact as an integer.
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT)?;
    Some(float as i128)
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one, _), Self::Number(other, _)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Number(value, _) => value.hash(state),
            Self::Text(text) => text.hash(state),
        }
    }
}

impl From<RequestId> for Value {
    fn from(id: RequestId) -> Self {
        match id {
            RequestId::Number(_, given) => Self::Number(given),
            RequestId::Text(text) => Self::String(text),
        }
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(_, given) => write!(f, "{given}"),
            Self::Text(text) => write!(f, "\"{}\"", text.escape_debug()),
        }
    }
}

/// A request or, without an id, a notification.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: Option<RequestId>,
    pub(crate) method: String,
    /// An object or a list; absent when the message has none, or null.
    pub(crate) params: Option<Value>,
}

/// One message from the client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    Call(Call),
    /// An answer to a request of ours.
    Answer(Response),
    /// Not a message; the error goes out with the id it had, if it had one.
    Invalid(Option<RequestId>, Error),
}

/// What a frame holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    Single(Message),
    Batch(Vec<Message>),
}

/// Reads a frame.
pub(crate) fn read(frame: &[u8]) -> Incoming {
    match serde_json::from_slice::<Value>(frame) {
        Ok(Value::Array(items)) if items.is_empty() => {
            Incoming::Single(Message::Invalid(None, invalid_request("an empty batch")))
        }
        Ok(Value::Array(items)) if items.len() > MAX_BATCH => Incoming::Single(Message::Invalid(
            None,
            invalid_request(format!("a batch of {} messages; {MAX_BATCH} are the most", items.len())),
        )),
        Ok(Value::Array(items)) => Incoming::Batch(items.into_iter().map(classify).collect()),
        Ok(value) => Incoming::Single(classify(value)),
        Err(error) => {
            Incoming::Single(Message::Invalid(None, fault(ErrorCode::ParseError, format!("Parse error: {error}"))))
        }
    }
}

fn classify(value: Value) -> Message {
    let Value::Object(mut object) = value else {
        return Message::Invalid(None, invalid_request("a message must be an object"));
    };
    let id = object.remove("id");
    let known = id.as_ref().and_then(RequestId::from_value);
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Message::Invalid(known, invalid_request("`jsonrpc` must be \"2.0\""));
    }
    match object.remove("method") {
        Some(Value::String(method)) => call(id.is_some(), known, method, object.remove("params")),
        Some(_) => Message::Invalid(known, invalid_request("`method` must be a string")),
        None => answer(known, object),
    }
}

fn call(has_id: bool, known: Option<RequestId>, method: String, params: Option<Value>) -> Message {
    if has_id && known.is_none() {
        let why = "`id` must be a string or a whole number of at most 64 bits; a notification has none";
        return Message::Invalid(None, invalid_request(why));
    }
    let params = match params {
        None | Some(Value::Null) => None,
        Some(params @ (Value::Object(_) | Value::Array(_))) => Some(params),
        Some(_) => return Message::Invalid(known, invalid_request("`params` must be an object or a list")),
    };
    Message::Call(Call { id: known, method, params })
}

fn answer(id: Option<RequestId>, mut object: Map<String, Value>) -> Message {
    let body = match (object.remove("result"), object.remove("error")) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => Err(Error {
            code: ErrorCode::from(error.get("code").and_then(Value::as_i64).unwrap_or(-32603)),
            message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned().into(),
            data: error.get("data").cloned(),
        }),
        _ => return Message::Invalid(id, invalid_request("neither a request (`method`) nor an answer")),
    };
    // Our own ids are small numbers; an answer with any other id answers nothing we asked.
    let id = match id {
        Some(RequestId::Number(number, _)) => i64::try_from(number).map_or(Id::Null, Id::Number),
        Some(RequestId::Text(text)) => Id::String(text),
        None => Id::Null,
    };
    Message::Answer(Response::from_parts(id, body))
}

/// An error with a code and a message.
pub(crate) fn fault(code: ErrorCode, message: impl Into<String>) -> Error {
    Error { code, message: message.into().into(), data: None }
}

/// What a request is told that came before `initialize`.
pub(crate) fn not_initialized() -> Error {
    fault(ErrorCode::ServerError(-32002), "Server not initialized: send `initialize` first")
}

/// "Invalid request", and why.
pub(crate) fn invalid_request(why: impl std::fmt::Display) -> Error {
    fault(ErrorCode::InvalidRequest, format!("Invalid request: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn single(text: &str) -> Message {
        match read(text.as_bytes()) {
            Incoming::Single(message) => message,
            Incoming::Batch(_) => panic!("a batch: {text}"),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let call = |id: Option<Value>, params: Option<Value>| {
            Message::Call(Call { id: id.and_then(|id| RequestId::from_value(&id)), method: "m".into(), params })
        };
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, call(Some(json!(1)), None)),
            (r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{}}"#, call(Some(json!("a")), Some(json!({})))),
            (
                r#"{"jsonrpc":"2.0","id":4294967296,"method":"m","params":null}"#,
                call(Some(json!(4_294_967_296_u64)), None),
            ),
            (r#"{"jsonrpc":"2.0","method":"m","params":[1]}"#, call(None, Some(json!([1])))),
            (
                r#"{"jsonrpc":"2.0","id":0,"result":null}"#,
                Message::Answer(Response::from_ok(Id::Number(0), Value::Null)),
            ),
            (
                r#"{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no","extra":1}}"#,
                Message::Answer(Response::from_error(Id::Number(0), fault(ErrorCode::ServerError(-1), "no"))),
            ),
        ] {
            assert_eq!(single(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_and_a_reason() {
        for (text, code, id, reason) in [
            ("{", -32700, None, "Parse error"),
            ("\"\\ud800\"", -32700, None, "Parse error"),
            ("1", -32600, None, "must be an object"),
            ("[]", -32600, None, "empty batch"),
            (r#"{"id":7,"method":"m"}"#, -32600, Some(json!(7)), "`jsonrpc`"),
            (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, -32600, Some(json!(7)), "`jsonrpc`"),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, -32600, Some(json!(7)), "`method`"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":1}"#, -32600, Some(json!(7)), "`params`"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, -32600, None, "`id`"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, -32600, None, "`id`"),
            (r#"{"jsonrpc":"2.0","id":7}"#, -32600, Some(json!(7)), "neither"),
        ] {
            let Message::Invalid(found, error) = single(text) else { panic!("{text}") };
            assert_eq!((error.code.code(), found.map(Value::from)), (code, id), "{text}");
            assert!(error.message.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn ids_are_texts_and_whole_numbers_and_are_given_back_as_they_came() {
        for (id, same_as) in [
            ("1", "1"),
            ("1.0", "1"),
            ("10e-1", "1"),
            ("1e3", "1000"),
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("-5", "-5.0"),
            ("9007199254740991.0", "9007199254740991"),
            ("9007199254740993", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            (r#""""#, r#""""#),
            (r#""1""#, r#""1""#),
            (r#""\u0000é""#, r#""\u0000\u00e9""#),
        ] {
            let [id, same_as] = [id, same_as].map(|text| serde_json::from_str::<Value>(text).unwrap());
            let read = RequestId::from_value(&id).unwrap_or_else(|| panic!("{id}"));
            assert_eq!(Some(&read), RequestId::from_value(&same_as).as_ref(), "{id} and {same_as} are one id");
            assert_eq!(Value::from(read), id, "given back as it came");
        }
        let [number, text] = [json!(1), json!("1")].map(|id| RequestId::from_value(&id).unwrap());
        assert_ne!(number, text);
    }

    #[test]
    fn all_else_is_no_id() {
        for id in [
            "1.5",
            "-0.1",
            "1e-3",
            "9007199254740992.0",
            "-9007199254740993.0",
            "1e300",
            "18446744073709551616",
            "-9223372036854775809",
            "99999999999999999999",
            "null",
            "true",
            "{}",
            "[1]",
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            let Message::Invalid(None, error) = single(&text) else { panic!("{text}") };
            assert_eq!(error.code.code(), -32600, "{text}");
            assert!(error.message.contains("`id`"), "{text}: {error}");
        }
        // Reading one as a number of any kind fails: that is no JSON that this server takes.
        assert!(matches!(single(r#"{"jsonrpc":"2.0","id":1e999,"method":"m"}"#), Message::Invalid(None, _)));
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a-z0-9]{0,80}") {
            read(&bytes);
            read(text.as_bytes());
        }
    }
}
