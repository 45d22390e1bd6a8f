//! One journal line: how it is built, and how it is taken apart without parsing it.
//!
//! A line is canonical JSON, so its members stand in a fixed order, and all but the event have a fixed form:
//! `{"at":"…","event":…,"hash":"sha256:…","prev":"sha256:…","seq":7,"v":1}`. Cutting from both ends finds the event, and
//! what was hashed is the line without its `"hash":"…",`. So loading parses each event once and nothing else.
//!
//! The form has been the same in every version; `v` tells which version the event is of.

use std::ops::Range;

use serde::Serialize;

use super::StoreError;
use super::canonical::{self, DIGEST_LEN, sha256_of_parts};

const HEAD: &[u8] = b"{\"at\":\"";
const EVENT: &[u8] = b"\",\"event\":";
const HASH: &[u8] = b",\"hash\":\"";
const PREV: &[u8] = b"\",\"prev\":\"";
const SEQ: &[u8] = b"\",\"seq\":";
const VERSION: &[u8] = b",\"v\":";

/// The `prev` of the first line: ties a journal to its run, so that one run's journal cannot stand in for another's.
pub(crate) fn genesis(run_id: &str) -> String {
    sha256_of_parts(&[b"flowdrive-journal:", run_id.as_bytes()])
}

/// Appends the line, with its line feed, to `out` and returns its hash.
pub(crate) fn write<E: Serialize>(
    out: &mut Vec<u8>,
    at: &str,
    event: &E,
    prev: &str,
    seq: u64,
    version: u32,
) -> Result<String, StoreError> {
    let start = out.len();
    out.extend_from_slice(HEAD);
    out.extend_from_slice(at.as_bytes());
    out.extend_from_slice(EVENT);
    if let Err(fault) = canonical::write(event, out) {
        out.truncate(start);
        return Err(fault);
    }
    let event_end = out.len();
    let mut tail = Vec::with_capacity(160);
    tail.extend_from_slice(&PREV[2..]);
    tail.extend_from_slice(prev.as_bytes());
    tail.extend_from_slice(SEQ);
    tail.extend_from_slice(seq.to_string().as_bytes());
    tail.extend_from_slice(VERSION);
    tail.extend_from_slice(version.to_string().as_bytes());
    tail.push(b'}');
    let hash = sha256_of_parts(&[&out[start..event_end], b",", &tail]);
    out.extend_from_slice(HASH);
    out.extend_from_slice(hash.as_bytes());
    out.extend_from_slice(b"\",");
    out.extend_from_slice(&tail);
    out.push(b'\n');
    Ok(hash)
}

/// A line taken apart. Borrowed from the line, which comes without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// The time, not yet parsed.
    pub(crate) at: &'a str,
    /// The event, not yet parsed.
    pub(crate) event: &'a [u8],
    /// The hash the line carries.
    pub(crate) hash: &'a str,
    /// The hash it says the line before carries.
    pub(crate) prev: &'a str,
    /// Its number.
    pub(crate) seq: u64,
    /// The version its event is of. What it says counts only once the hash holds.
    pub(crate) version: u32,
    /// Where `"hash":"…",` stands in the line.
    cut: Range<usize>,
    line: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The hash of what the line holds now.
    pub(crate) fn actual_hash(&self) -> String {
        sha256_of_parts(&[&self.line[..self.cut.start], &self.line[self.cut.end..]])
    }
}

/// Why a line could not be taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It has not the form of a line.
    Malformed,
    /// It has another form, and says that it is of a newer version than any there was.
    Version(u64),
}

/// Takes a line apart. `newest` is the newest version known.
pub(crate) fn split(line: &[u8], newest: u32) -> Result<Parts<'_>, Unreadable> {
    known_form(line).ok_or_else(|| newer_version(line, newest).map_or(Unreadable::Malformed, Unreadable::Version))
}

fn known_form(line: &[u8]) -> Option<Parts<'_>> {
    let rest = line.strip_prefix(HEAD)?;
    // A time as text is some 24 bytes; a far-away quote would be the event's.
    let quote = rest.iter().take(40).position(|byte| *byte == b'"')?;
    let at = std::str::from_utf8(&rest[..quote]).ok()?;
    let event_start = HEAD.len() + quote + EVENT.len();
    line.get(HEAD.len() + quote..event_start).filter(|bytes| *bytes == EVENT)?;

    let (body, version) = take_number(line.strip_suffix(b"}")?)?;
    let version = u32::try_from(version).ok()?;
    let (body, seq) = take_number(body.strip_suffix(VERSION)?)?;
    let body = body.strip_suffix(SEQ)?;
    let (body, prev) = take_digest(body)?;
    let body = body.strip_suffix(PREV)?;
    let (body, hash) = take_digest(body)?;
    let body = body.strip_suffix(HASH)?;
    let event_end = body.len();
    let event = line.get(event_start..event_end).filter(|event| !event.is_empty())?;
    // From `"hash":"` (its comma stays) to the comma after the closing quote.
    let cut = event_end + 1..event_end + HASH.len() + DIGEST_LEN + 2;
    Some(Parts { at, event, hash, prev, seq, version, cut, line })
}

/// A number as it is written here, without a leading zero.
fn take_number(body: &[u8]) -> Option<(&[u8], u64)> {
    let digits = body.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, number) = body.split_at(body.len() - digits);
    if number.first().is_none_or(|first| *first == b'0' && digits > 1) {
        return None;
    }
    Some((rest, std::str::from_utf8(number).ok()?.parse().ok()?))
}

fn take_digest(body: &[u8]) -> Option<(&[u8], &str)> {
    let (rest, digest) = body.split_at_checked(body.len().checked_sub(DIGEST_LEN)?)?;
    let text = std::str::from_utf8(digest).ok()?;
    is_digest(text).then_some((rest, text))
}

/// Whether the text has the form of a digest.
pub(crate) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

fn newer_version(line: &[u8], newest: u32) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Probe {
        v: u64,
        #[allow(dead_code)]
        seq: u64,
    }
    let probe: Probe = serde_json::from_slice(line).ok()?;
    (probe.v > u64::from(newest)).then_some(probe.v)
}

/// Whether `bytes`, read up to a place in a journal, end with the whole line that has this number and hash.
pub(crate) fn ends_with(bytes: &[u8], seq: u64, hash: &str) -> bool {
    let found = || {
        let (body, _) = take_number(bytes.strip_suffix(b"\n")?.strip_suffix(b"}")?)?;
        let body = body.strip_suffix(VERSION)?.strip_suffix(seq.to_string().as_bytes())?.strip_suffix(SEQ)?;
        let (body, _) = take_digest(body)?;
        let (body, found) = take_digest(body.strip_suffix(PREV)?)?;
        body.strip_suffix(HASH)?;
        Some(found == hash)
    };
    found().unwrap_or(false)
}

/// Bytes before a place that [`ends_with`] needs to see.
pub(crate) const ENDING_LEN: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line_of(event: &Value, seq: u64) -> (Vec<u8>, String) {
        let mut out = Vec::new();
        let hash = write(&mut out, "2026-01-02T03:04:05.678Z", event, &genesis("r"), seq, 1).unwrap();
        (out, hash)
    }

    #[test]
    fn a_line_is_the_canonical_json_of_its_members_and_hashes_them_without_the_hash() {
        // An event that looks like the end of a line must not confuse the cut.
        let trap =
            json!({"z": 1, "hash": "sha256:0", "text": "\",\"hash\":\"sha256:\",\"seq\":3,\"v\":1}", "a": [1.5, null]});
        let (bytes, hash) = line_of(&trap, 12);
        assert_eq!(bytes.last(), Some(&b'\n'));
        let line = &bytes[..bytes.len() - 1];
        let value: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(canonical::to_string(&value).unwrap().as_bytes(), line);
        let mut without = value;
        without.as_object_mut().unwrap().remove("hash");
        assert_eq!(canonical::sha256_hex(canonical::to_string(&without).unwrap()), hash);

        let parts = split(line, 1).unwrap();
        assert_eq!((parts.seq, parts.version), (12, 1));
        assert_eq!((parts.hash, parts.prev), (hash.as_str(), genesis("r").as_str()));
        assert_eq!(parts.at, "2026-01-02T03:04:05.678Z");
        assert_eq!(serde_json::from_slice::<Value>(parts.event).unwrap(), trap);
        assert_eq!(parts.actual_hash(), hash);
        assert!(ends_with(&bytes, 12, &hash));
        assert!(!ends_with(&bytes, 2, &hash), "12 ends with 2, but is not 2");
        assert!(!ends_with(&bytes, 12, &genesis("other")));
        assert!(!ends_with(line, 12, &hash), "without the line feed it is no boundary");
    }

    #[test]
    fn other_versions_are_told_apart_from_damage() {
        assert_eq!(split(br#"{"seq":1,"v":2,"new":true}"#, 1), Err(Unreadable::Version(2)));
        assert_eq!(split(br#"{"seq":1,"v":2,"new":true}"#, 2), Err(Unreadable::Malformed));
        for line in [&b""[..], b"{}", b"null", b"{\"v\":2}", b"\0\0\0", b"{\"at\":\"x\",\"event\":1,\"v\":1}"] {
            assert_eq!(split(line, 1), Err(Unreadable::Malformed), "{}", String::from_utf8_lossy(line));
        }
        let (bytes, _) = line_of(&json!(1), 7);
        let line = String::from_utf8(bytes).unwrap();
        for (right, wrong) in [("\"seq\":7", "\"seq\":07"), ("\"v\":1", "\"v\":01"), ("\"v\":1", "\"v\":")] {
            let padded = line.trim_end().replace(right, wrong);
            assert_eq!(split(padded.as_bytes(), 1), Err(Unreadable::Malformed), "{wrong}");
        }
        // A line in the known form that says another version is told apart by its hash, which covers that too.
        let changed = line.trim_end().replace("\"v\":1", "\"v\":3");
        let parts = split(changed.as_bytes(), 1).unwrap();
        assert_eq!(parts.version, 3);
        assert_ne!(parts.actual_hash(), parts.hash);
    }

    #[test]
    fn no_cut_of_a_line_panics_or_passes() {
        let (bytes, _) = line_of(&json!({"text": "ä\u{1F600}"}), 3);
        let line = &bytes[..bytes.len() - 1];
        for end in 0..line.len() {
            assert!(split(&line[..end], 1).is_err(), "cut at {end}");
            assert!(split(&line[line.len() - end..], 1).is_err());
        }
    }
}
