//! The run directory: journal, snapshot, lock, worker folders, stop requests, and reads of workspace files.
//!
//! Effects only. Must not: decide what a run does next, know what an event means (the journal is generic over it), or
//! write anywhere but below `.cw/` of a workspace.

mod atomic;
pub mod cache;
pub mod canonical;
mod ended;
mod error;
pub mod faults;
pub mod journal;
mod line;
pub mod lock;
mod paths;
mod place;
pub mod read;
pub mod snapshot;
pub mod stop;
#[cfg(test)]
mod tests;
pub mod trash;
mod verify;
pub mod worker;
pub mod workspace;

pub(crate) use atomic::{TEMPORARY_PREFIX, create_anew, replace_hashed, replace_via};
pub use atomic::{read_regular, replace as replace_file};
pub use ended::{EndedLog, read_ended};
pub use error::StoreError;
pub use journal::{
    Appended, Entry, Journal, JournalPosition, Loaded, Recorded, TornTail, read_entries, read_entries_with,
};
pub use lock::{LockHolder, RunLock, host_name, is_locked};
pub use paths::{MAX_NAME_BYTES, RunPaths, safe_name};
pub(crate) use paths::{task_name, within};
pub(crate) use read::check_entries;
pub use verify::{MAX_PROBLEMS, Verification, WRONG_VERSION, verify};
pub use workspace::{RunListing, Workspace, WorkspaceFile};
