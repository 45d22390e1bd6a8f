//! Faults on demand, for crash tests: the process dies, or a call fails, at the k-th write, fsync or rename.
//!
//! Compiled in only with the cargo feature `fault-injection`; without it every function here is the plain call. With it:
//! - `FLOWDRIVE_CRASH_AT=<k>` ends this process with SIGKILL at the k-th point, counted from 1 over the whole process;
//!   `<k>:torn` first writes half of the bytes when that point is a write.
//! - `FLOWDRIVE_FAIL_AT=<k>:enospc` (or `eio`) makes the k-th point fail; a write has then written half of its bytes.
//! - `FLOWDRIVE_PANIC_TASK=<task id>` makes the drive's thread panic when it settles that task: the first time in this process.
//!
//! Must not: be enabled in a build that users get.

use std::fs::File;
use std::io::{self, Write};

/// A place where a crash or a fault can be injected. `name` is shown when it strikes.
///
/// # Errors
/// The injected fault. Never without the feature.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub fn point(_name: &'static str) -> io::Result<()> {
    Ok(())
}

/// Writes all of `bytes`, as one point.
///
/// # Errors
/// When the disk refuses, or the injected fault.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub fn write_all(mut file: &File, bytes: &[u8], _name: &'static str) -> io::Result<()> {
    file.write_all(bytes)
}

/// A task is being settled by its drive.
#[cfg(not(feature = "fault-injection"))]
#[inline]
pub fn settling(_task: &str) {}

#[cfg(feature = "fault-injection")]
pub use injected::{point, settling, write_all};

#[cfg(feature = "fault-injection")]
mod injected {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::{File, Write, io};

    /// The only process-wide state of the engine, and only in test builds: a point has no other way to know its number.
    static PASSED: AtomicU64 = AtomicU64::new(0);
    static PLAN: LazyLock<Plan> = LazyLock::new(Plan::from_env);
    static PANICKED: AtomicBool = AtomicBool::new(false);

    struct Plan {
        crash_at: u64,
        torn: bool,
        fail_at: u64,
        fault: io::ErrorKind,
        panic_task: String,
    }

    impl Plan {
        fn from_env() -> Self {
            let read = |name| std::env::var(name).unwrap_or_default();
            let split = |text: String| -> (u64, String) {
                let (number, rest) = text.split_once(':').unwrap_or((&text, ""));
                (number.parse().unwrap_or(0), rest.to_owned())
            };
            let (crash_at, how) = split(read("FLOWDRIVE_CRASH_AT"));
            let (fail_at, what) = split(read("FLOWDRIVE_FAIL_AT"));
            let fault = if what == "enospc" { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
            let panic_task = read("FLOWDRIVE_PANIC_TASK");
            Self { crash_at, torn: how == "torn", fail_at, fault, panic_task }
        }
    }

    enum Strike {
        None,
        Crash { torn: bool },
        Fail(io::Error),
    }

    fn strike(name: &str) -> Strike {
        let number = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if number == PLAN.crash_at {
            let _ = writeln!(io::stderr(), "fault injection: crash at point {number} ({name})");
            Strike::Crash { torn: PLAN.torn }
        } else if number == PLAN.fail_at {
            let _ = writeln!(io::stderr(), "fault injection: failure at point {number} ({name})");
            Strike::Fail(io::Error::new(PLAN.fault, format!("injected at point {number} ({name})")))
        } else {
            Strike::None
        }
    }

    fn die() -> io::Error {
        #[cfg(unix)]
        let _ = nix::sys::signal::kill(nix::unistd::getpid(), nix::sys::signal::Signal::SIGKILL);
        std::process::abort()
    }

    /// See the plain one.
    ///
    /// # Errors
    /// The injected fault.
    pub fn point(name: &'static str) -> io::Result<()> {
        match strike(name) {
            Strike::None => Ok(()),
            Strike::Crash { .. } => Err(die()),
            Strike::Fail(fault) => Err(fault),
        }
    }

    /// See the plain one.
    ///
    /// # Panics
    /// When that is what this process was started for.
    pub fn settling(task: &str) {
        let chosen = !task.is_empty() && task == PLAN.panic_task;
        assert!(!chosen || PANICKED.swap(true, Ordering::SeqCst), "fault injection: panic while {task} was settled");
    }

    /// See the plain one.
    ///
    /// # Errors
    /// When the disk refuses, or the injected fault.
    pub fn write_all(mut file: &File, bytes: &[u8], name: &'static str) -> io::Result<()> {
        let half = &bytes[..bytes.len() / 2];
        match strike(name) {
            Strike::None => file.write_all(bytes),
            Strike::Crash { torn } => {
                if torn {
                    file.write_all(half)?;
                }
                Err(die())
            }
            Strike::Fail(fault) => {
                file.write_all(half)?;
                Err(fault)
            }
        }
    }
}
