//! Processes on Windows: a job object for each agent, which everything the agent starts is in and cannot leave.
//! `unix/` has the same names.
//!
//! There is no request to end that a program without a window or a shared console would get: what has to end is ended
//! at once. A job ends with the server, so a later server finds nothing to end.
//!
//! Must not: decide when a tree is to end, or know what an agent is.

mod exit;
mod spawn;
mod tree;

use std::process::ExitStatus;

pub(super) use std::process::Child;

pub(super) use exit::Exit;
pub(super) use spawn::{Spawner, Started};
pub(super) use tree::{Sweeper, Tree};

/// How one that heeded the request to end is said to have ended.
pub(super) const ENDED: &str = "ended (job object)";

/// How one that had to be made to end is said to have ended.
pub(super) const KILLED: &str = ENDED;

/// A folder that is no project's.
pub(super) const NEUTRAL_FOLDER: &str = "C:\\";

/// What the system says when it has no room for another open file (`ERROR_TOO_MANY_OPEN_FILES`).
pub(super) const OUT_OF_FILES: &[i32] = &[4];

/// What it says of a file that is no program, or another machine's (`ERROR_BAD_EXE_FORMAT`,
/// `ERROR_EXE_MACHINE_TYPE_MISMATCH`).
pub(super) const NOT_A_PROGRAM: &[i32] = &[193, 216];

/// What it says of a command line that is too long (`ERROR_FILENAME_EXCED_RANGE`).
pub(super) const TOO_LONG: &[i32] = &[206];

/// Whether processes of an earlier server may still be those of this boot: there are none.
pub(super) fn is_this_boot(_: &str) -> bool {
    false
}

/// Processes end with a code here, never by a signal.
pub(super) fn signal_name(_: ExitStatus) -> String {
    "unknown".to_owned()
}
