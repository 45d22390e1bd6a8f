//! The byte stream from a client, in either framing, and the messages in it. The first byte says how it is read and cut: what
//! comes out must not depend on the cuts, and whatever is a message must be given back the id it came with.
#![no_main]
#![allow(dead_code, unreachable_pub, reason = "the server's own modules, of which only a part is used here")]

#[path = "../../server/flowdrive/src/serve/framing/mod.rs"]
mod framing;
#[path = "../../server/flowdrive/src/serve/message.rs"]
mod message;

use framing::{Decoder, Framing};
use libfuzzer_sys::fuzz_target;
use message::{Incoming, Message, RequestId};
use serde_json::Value;

/// Small enough for inputs to be over it.
const LIMIT: usize = 400;

fn decode(framing: Option<Framing>, bytes: &[u8], size: usize) -> Vec<Result<Vec<u8>, String>> {
    let mut decoder = Decoder::new(framing, LIMIT);
    let mut frames = Vec::new();
    for chunk in bytes.chunks(size) {
        decoder.push(chunk);
        while let Some(frame) = decoder.next_frame() {
            frames.push(frame.map_err(|error| error.to_string()));
        }
    }
    frames.extend(decoder.finish().map(|frame| frame.map_err(|error| error.to_string())));
    frames
}

fn check(message: &Message) {
    let id = match message {
        Message::Call(call) => call.id.as_ref(),
        Message::Invalid(id, _) => id.as_ref(),
        Message::Answer(_) => None,
    };
    let Some(id) = id else { return };
    let given = Value::from(id.clone());
    let answer = message::encode_answer(Some(id.clone()), Ok(Value::Null)).to_string();
    let read: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    assert_eq!(read["id"], given, "{answer}");
    assert_eq!(RequestId::from_value(&read["id"]).as_ref(), Some(id), "{answer}");
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    let framing = [None, Some(Framing::Lsp), Some(Framing::Ndjson)][usize::from(first % 3)];
    let whole = decode(framing, bytes, usize::MAX);
    assert_eq!(whole, decode(framing, bytes, 1));
    assert_eq!(whole, decode(framing, bytes, 1 + usize::from(first)));
    for frame in whole.iter().flatten() {
        assert!(frame.len() <= LIMIT);
        match message::read(frame) {
            Incoming::Single(message) => check(&message),
            Incoming::Batch(messages) => messages.iter().for_each(check),
        }
        // What goes out in a framing comes in again as it was.
        if framing == Some(Framing::Lsp) || !frame.contains(&b'\n') {
            let framing = framing.unwrap_or(Framing::Ndjson);
            let mut out = Vec::new();
            framing::encode(framing, frame, &mut out);
            let again = decode(Some(framing), &out, usize::MAX);
            // A line without the blanks around it, and not a blank one.
            if framing == Framing::Lsp || (frame.trim_ascii() == &frame[..] && !frame.is_empty()) {
                assert_eq!(again, [Ok(frame.clone())]);
            }
        }
    }
});
