//! What is answered, as it goes out. A large run's answer is text from the moment it is known: as a tree of values it would
//! take five times the room.
//!
//! Must not: know of methods.

use serde::Serialize;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::Error;

use super::drives::defect;
use super::message::RequestId;

/// What a method answers, as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// # Errors
    /// A defect of the method, when the answer has no JSON form.
    pub(crate) fn of<T: Serialize + ?Sized>(method: &str, answer: &T) -> Result<Self, Error> {
        let mut text = serde_json::to_vec(answer).map_err(|_| defect(method))?;
        text.shrink_to_fit();
        Ok(Self(text))
    }

    /// The same as a value.
    pub(crate) fn to_value(&self) -> Value {
        // It was written by serde_json.
        serde_json::from_slice(&self.0).unwrap_or_default()
    }
}

/// An answer as it goes out.
pub(crate) fn encode(id: Option<RequestId>, body: Result<Answer, Error>) -> Vec<u8> {
    let id = id.map_or(Value::Null, Value::from);
    match body {
        Ok(Answer(result)) => {
            let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
            let mut bytes = Vec::with_capacity(head.len() + result.len() + 1);
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(&result);
            bytes.push(b'}');
            bytes
        }
        Err(Error { code, message, data }) => {
            let mut error = json!({ "code": code.code(), "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes()
        }
    }
}

/// The answers to a batch, as they go out.
pub(crate) fn encode_batch(answers: &[Vec<u8>]) -> Vec<u8> {
    [&b"["[..], &answers.join(&b','), b"]"].concat()
}

#[cfg(test)]
mod tests {
    use tower_lsp::jsonrpc::ErrorCode;

    use super::*;

    #[test]
    fn answers_are_json_rpc() {
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let id = || RequestId::from_value(&json!("a\"b"));
        let result = json!({ "text": "a\n\u{e9}", "list": [1, null] });
        let answer = Answer::of("m", &result).unwrap();
        assert_eq!(answer.to_value(), result);
        let good = encode(id(), Ok(answer));
        assert_eq!(read(&good), json!({ "jsonrpc": "2.0", "id": "a\"b", "result": result }));
        let error = Error { code: ErrorCode::InvalidParams, message: "no".into(), data: Some(json!({ "field": "f" })) };
        let bad = encode(None, Err(error));
        let told = json!({ "code": -32602, "message": "no", "data": { "field": "f" } });
        assert_eq!(read(&bad), json!({ "jsonrpc": "2.0", "id": null, "error": told }));
        assert_eq!(read(&encode_batch(&[good.clone(), bad.clone()])), json!([read(&good), read(&bad)]));
    }
}
