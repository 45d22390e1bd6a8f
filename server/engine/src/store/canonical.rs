//! Canonical JSON and digests: one byte sequence for one value, so that a hash over it means something.
//!
//! Object keys are sorted by their UTF-8 bytes, there is no white space, and numbers and strings are written as
//! serde_json writes them. `docs/journal-format.md` says the same for those who read journals with other tools.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::StoreError;

/// Length of a digest as text: `sha256:` and 64 hex digits.
pub const DIGEST_LEN: usize = 71;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The value as canonical JSON.
///
/// # Errors
/// [`StoreError::Encode`] when it has no JSON form, such as a map whose keys are not strings.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    let value = serde_json::to_value(value).map_err(encode)?;
    let mut out = Vec::with_capacity(256);
    write_value(&value, &mut out)?;
    // serde_json writes UTF-8 only, and the rest is ASCII.
    Ok(String::from_utf8(out).unwrap_or_else(|fault| String::from_utf8_lossy(fault.as_bytes()).into_owned()))
}

/// Appends the value's canonical form.
pub(crate) fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), StoreError> {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            // Sorted here, since whether the map is sorted depends on a feature any other crate may turn on.
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (index, (key, member)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, key).map_err(encode)?;
                out.push(b':');
                write_value(member, out)?;
            }
            out.push(b'}');
        }
        scalar => serde_json::to_writer(out, scalar).map_err(encode)?,
    }
    Ok(())
}

fn encode(source: serde_json::Error) -> StoreError {
    StoreError::Encode { what: "a value", source }
}

/// SHA-256 of the bytes, as `sha256:` and 64 lower-case hex digits.
#[must_use]
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    sha256_of_parts(&[bytes.as_ref()])
}

/// SHA-256 of the parts one after the other.
pub(crate) fn sha256_of_parts(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    digest_text(&hasher.finalize())
}

/// A digest as text.
pub(crate) fn digest_text(digest: &[u8]) -> String {
    let mut text = String::with_capacity(DIGEST_LEN);
    text.push_str("sha256:");
    // By table: this runs for every line of a journal, and formatting each byte would cost as much as the hash.
    for byte in digest {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}
