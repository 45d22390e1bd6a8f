//! Canonical JSON and digests: one byte sequence for one value, so that a hash over it means something.
//!
//! Object keys are sorted by their UTF-8 bytes, there is no white space, and numbers and strings are written as
//! serde_json writes them. `docs/journal-format.md` says the same for those who read journals with other tools.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::ops::Range;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
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
    let mut out = Vec::with_capacity(256);
    write(value, &mut out)?;
    // serde_json writes UTF-8 only, and the rest is ASCII.
    Ok(String::from_utf8(out).unwrap_or_else(|fault| String::from_utf8_lossy(fault.as_bytes()).into_owned()))
}

/// Appends the value's canonical form. It is written as the value gives it, and members are put in order where they
/// are not: no tree of the value is made, which for a plan of ten thousand tasks would be ten times the text.
pub(crate) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), StoreError> {
    let start = out.len();
    let text = RefCell::new(std::mem::take(out));
    let sorting = Sorting { text: &text, objects: Vec::new(), members: Vec::new() };
    let written = value.serialize(&mut Serializer::with_formatter(Appending(&text), sorting));
    *out = text.into_inner();
    written.map_err(|fault| {
        out.truncate(start);
        encode(fault)
    })
}

/// Appends to the text that [`Sorting`] puts in order.
struct Appending<'t>(&'t RefCell<Vec<u8>>);

impl io::Write for Appending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a member of an object stands in the text.
#[derive(Clone)]
struct Member {
    /// Of its key, the quotation marks included.
    key: Range<usize>,
    /// Where its value ends.
    end: usize,
}

/// Puts the members of each object in the order of their keys once the object is whole.
struct Sorting<'t> {
    text: &'t RefCell<Vec<u8>>,
    /// For each object that is open, where its members begin in `members`.
    objects: Vec<usize>,
    members: Vec<Member>,
}

impl Sorting<'_> {
    /// Puts the last object's members in order.
    fn close(&mut self) {
        let Some(first) = self.objects.pop() else { return };
        let mut text = self.text.borrow_mut();
        let members = &mut self.members[first..];
        if !members.is_sorted_by(|a, b| key(&text, a) < key(&text, b))
            && let (Some(start), Some(end)) =
                (members.first().map(|member| member.key.start), members.last().map(|member| member.end))
        {
            // Stable, so that of two members with one key the later counts, as everywhere in JSON.
            members.sort_by(|a, b| key(&text, a).cmp(&key(&text, b)));
            let mut ordered = Vec::with_capacity(end - start);
            for (index, member) in members.iter().enumerate() {
                if members.get(index + 1).is_some_and(|next| key(&text, next) == key(&text, member)) {
                    continue;
                }
                if !ordered.is_empty() {
                    ordered.push(b',');
                }
                ordered.extend_from_slice(&text[member.key.start..member.end]);
            }
            text.truncate(start);
            text.append(&mut ordered);
        }
        drop(text);
        self.members.truncate(first);
    }
}

/// A member's key as its object has it: what sorts is the key, not the way it is escaped.
fn key<'t>(text: &'t [u8], member: &Member) -> Cow<'t, [u8]> {
    let written = &text[member.key.clone()];
    match written.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) {
        Some(plain) if !plain.contains(&b'\\') => Cow::Borrowed(plain),
        _ => serde_json::from_slice::<String>(written).map_or(Cow::Borrowed(written), |key| key.into_bytes().into()),
    }
}

impl Formatter for Sorting<'_> {
    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects.push(self.members.len());
        writer.write_all(b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close();
        writer.write_all(b"}")
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        let start = self.text.borrow().len();
        self.members.push(Member { key: start..start, end: start });
        Ok(())
    }

    fn end_object_key<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        if let Some(member) = self.members.last_mut() {
            member.key.end = self.text.borrow().len();
        }
        Ok(())
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        if let Some(member) = self.members.last_mut() {
            member.end = self.text.borrow().len();
        }
        Ok(())
    }
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

/// Passes on what is written, and keeps its digest.
pub(crate) struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W: io::Write> Hashing<W> {
    pub(crate) fn on(inner: W) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// Of what was written so far, as [`sha256_hex`] has it.
    pub(crate) fn digest(&self) -> String {
        digest_text(&self.hash.clone().finalize())
    }
}

impl<W: io::Write> io::Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
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
