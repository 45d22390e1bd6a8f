//! Snapshots of a run's state: a short cut past the journal, never the truth. One that cannot be read is none.
//!
//! The file is `{"schemaVersion":1,"state":…,"digest":"sha256:…"}`; the digest is of all bytes before its name, so that
//! a byte that changed makes it no snapshot. Must not: know what a state is.

use std::io::{self, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::canonical::{DIGEST_LEN, Hashing, sha256_hex};
use super::{StoreError, atomic};

/// The version of the snapshots written here.
pub const SNAPSHOT_VERSION: u32 = flowdrive_protocol::SCHEMA_VERSION;

const DIGEST: &[u8] = b",\"digest\":\"";
const END: &[u8] = b"\"}\n";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<S> {
    schema_version: u32,
    state: S,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    schema_version: u64,
}

/// Replaces the file, all or nothing. With `durable` it also outlives a power cut. The state is written out piece by
/// piece: a large one is never in memory a second time as text.
///
/// # Errors
/// When the state has no JSON form, or what the disk refuses; the old file is then still there.
pub fn save<S: Serialize>(path: &Path, state: &S, durable: bool) -> Result<(), StoreError> {
    atomic::replace_with(path, durable, &mut |out| {
        let mut out = Hashing::on(out);
        write!(out, "{{\"schemaVersion\":{SNAPSHOT_VERSION},\"state\":").map_err(StoreError::io("write", path))?;
        serde_json::to_writer(&mut out, state).map_err(|source| match source.io_error_kind() {
            Some(kind) => StoreError::io("write", path)(io::Error::new(kind, source)),
            None => StoreError::Encode { what: "a snapshot", source },
        })?;
        let tail = [DIGEST, out.digest().as_bytes(), END].concat();
        out.write_all(&tail).map_err(StoreError::io("write", path))
    })
}

/// Whether the bytes end in their own digest.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(body) =
        bytes.strip_suffix(END).and_then(|rest| rest.len().checked_sub(DIGEST_LEN).map(|at| rest.split_at(at)))
    else {
        return false;
    };
    let (rest, digest) = body;
    rest.strip_suffix(DIGEST).is_some_and(|state| sha256_hex(state).as_bytes() == digest)
}

/// The state saved last. None, with a warning in the log, when there is no snapshot, it cannot be read, or another version
/// of Flowdrive wrote it: all of it is in the journal, which alone decides whether this version may go on with the run.
#[must_use]
pub fn load<S: DeserializeOwned>(path: &Path) -> Option<S> {
    let bytes = match read(path) {
        Ok(bytes) => bytes,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return None,
        Err(fault) => {
            tracing::warn!(path = %path.display(), %fault, "snapshot not readable; rebuilding it from the journal");
            return None;
        }
    };
    let known = u64::from(SNAPSHOT_VERSION);
    let (version, outcome) = match serde_json::from_slice::<Read<S>>(&bytes) {
        Ok(read) => (u64::from(read.schema_version), Ok(read.state)),
        Err(fault) => (serde_json::from_slice::<Probe>(&bytes).map_or(0, |probe| probe.schema_version), Err(fault)),
    };
    match outcome {
        Ok(state) if version == known && is_whole(&bytes) => Some(state),
        Ok(_) if version == known => {
            tracing::warn!(path = %path.display(), "snapshot was changed; rebuilding it from the journal");
            None
        }
        Err(fault) if version == known => {
            tracing::warn!(path = %path.display(), %fault, "snapshot does not parse; rebuilding it from the journal");
            None
        }
        _ => {
            tracing::warn!(path = %path.display(), version, known, "snapshot of another version; reading the journal");
            None
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = atomic::open_options().read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(bytes)
}
