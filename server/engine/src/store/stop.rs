//! Requests to stop a run, left by one process for the one that drives it. A small file in the run's folder.
//!
//! Must not: stop anything. The drive asks now and then, and clears what is left from before when it starts.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use flowdrive_protocol::run::StopMode;
use flowdrive_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::paths::RunPaths;
use super::{StoreError, atomic, faults};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    mode: StopMode,
    pid: u32,
    at: Timestamp,
}

/// Leaves a request. One to stop at once is never weakened by a graceful one that comes after it.
///
/// # Errors
/// What the disk refuses.
pub fn request_stop(paths: &RunPaths, mode: StopMode) -> Result<(), StoreError> {
    let path = &paths.stop_request;
    if mode == StopMode::Graceful && read(path).ok().is_some_and(|waiting| waiting == StopMode::Now) {
        return Ok(());
    }
    let request = Request { mode, pid: std::process::id(), at: Timestamp::now() };
    let bytes = serde_json::to_vec(&request).map_err(|source| StoreError::Encode { what: "a stop request", source })?;
    // Not by the holder of the lock, whose sweep must not take the file away under our hands.
    atomic::replace_via(".stop-", path, &bytes, false)
}

/// Takes the request there is, if any. One that arrives meanwhile stays for the next call. A file that says nothing this
/// version knows, such as an empty one made by hand, asks for a graceful stop.
#[must_use]
pub fn take_stop(paths: &RunPaths) -> Option<StopMode> {
    // A link or a folder in its place is nobody's request.
    fs::symlink_metadata(&paths.stop_request).ok().filter(fs::Metadata::is_file)?;
    // Renamed before it is read: what is read is then what is removed.
    let taken = paths.stop_request.with_extension("taken");
    faults::point("stop.take").and_then(|()| fs::rename(&paths.stop_request, &taken)).ok()?;
    let mode = read(&taken).unwrap_or_default();
    if let Err(fault) = fs::remove_file(&taken) {
        tracing::warn!(path = %taken.display(), %fault, "could not remove a stop request that was obeyed");
    }
    Some(mode)
}

/// Removes a request from before.
///
/// # Errors
/// What the disk refuses.
pub fn clear_stop(paths: &RunPaths) -> Result<(), StoreError> {
    match fs::remove_file(&paths.stop_request) {
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", &paths.stop_request)(fault))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> io::Result<StopMode> {
    let mut text = Vec::new();
    let file = atomic::open_options().read(true).open(path)?;
    file.take(4096).read_to_end(&mut text)?;
    let request: Request = serde_json::from_slice(&text)?;
    Ok(request.mode)
}
