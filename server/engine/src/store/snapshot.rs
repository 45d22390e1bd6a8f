//! Snapshots of a run's state: a short cut past the journal, never the truth. One that cannot be read is none.
//!
//! The file is `{"schemaVersion":1,"state":…}`. Must not: know what a state is.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{StoreError, atomic};

/// The version of the snapshots written here.
pub const SNAPSHOT_VERSION: u32 = flowdrive_protocol::SCHEMA_VERSION;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a, S> {
    schema_version: u32,
    state: &'a S,
}

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

/// The bytes of a snapshot, for [`write`].
///
/// # Errors
/// When the state has no JSON form.
pub fn encode<S: Serialize>(state: &S) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec(&Written { schema_version: SNAPSHOT_VERSION, state })
        .map_err(|source| StoreError::Encode { what: "a snapshot", source })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Replaces the file with bytes from [`encode`], all or nothing. With `durable` it also outlives a power cut.
///
/// # Errors
/// What the disk refuses; the old file is then still there.
pub fn write(path: &Path, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
    atomic::replace(path, bytes, durable)
}

/// [`encode`] and [`write`] in one.
///
/// # Errors
/// As those.
pub fn save<S: Serialize>(path: &Path, state: &S, durable: bool) -> Result<(), StoreError> {
    write(path, &encode(state)?, durable)
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
        Ok(state) if version == known => Some(state),
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
