//! Processes on Unix: a process group for each agent, signals, and on Linux a look at `/proc` for what left the group.
//! `windows/` has the same names.
//!
//! Must not: decide when a tree is to end, or know what an agent is.

mod census;
#[cfg(target_os = "linux")]
mod child;
mod exit;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
mod process;
mod spawn;
mod tree;

use std::process::ExitStatus;

use rustix::io::Errno;

#[cfg(target_os = "linux")]
pub(super) use child::Child;
pub(super) use exit::Exit;
#[cfg(target_os = "linux")]
use linux::{Ready, Starter};
#[cfg(not(target_os = "linux"))]
use portable::{Ready, Starter};
pub(super) use spawn::{Spawner, Started};
#[cfg(not(target_os = "linux"))]
pub(super) use std::process::Child;
pub(super) use tree::{Sweeper, Tree};

/// How one that heeded the request to end is said to have ended.
pub(super) const ENDED: &str = "ended (SIGTERM)";

/// How one that had to be made to end is said to have ended.
pub(super) const KILLED: &str = "killed (SIGKILL)";

/// A folder that is no project's.
pub(super) const NEUTRAL_FOLDER: &str = "/";

/// What the system says when it has no room for another open file.
pub(super) const OUT_OF_FILES: &[i32] = &[Errno::MFILE.raw_os_error(), Errno::NFILE.raw_os_error()];

/// What it says of a file that is no program.
pub(super) const NOT_A_PROGRAM: &[i32] = &[Errno::NOEXEC.raw_os_error()];

/// What it says of a command line that is too long.
pub(super) const TOO_LONG: &[i32] = &[Errno::TOOBIG.raw_os_error()];

/// Whether processes of an earlier server may still be those of this boot.
pub(super) fn is_this_boot(boot_id: &str) -> bool {
    boot_id == process::boot_id()
}

/// The signal that ended a process, by name.
pub(super) fn signal_name(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    let Some(number) = status.signal() else { return "unknown".to_owned() };
    nix::sys::signal::Signal::try_from(number)
        .map_or_else(|_| number.to_string(), |signal| format!("{signal} ({number})"))
}
