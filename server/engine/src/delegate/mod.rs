//! Agents as effects: starts them, watches them, ends them, and says how they ended in one [`Outcome`] whatever kind of
//! agent it was.
//!
//! Must not: decide. Whether a task is tried again, waits or parks is not known here; nor is what a result is worth.
//!
//! [`Outcome`]: crate::model::outcome::Outcome

mod activity;
mod command;
mod delegator;
mod draft;
mod endpoint;
pub mod env;
mod launch;
mod limits;
mod lines;
mod linger;
mod log_file;
mod pipes;
mod placeholders;
mod presets;
mod probe;
mod program;
pub mod redact;
mod report;
mod result_file;
mod stderr;
mod stdout;
mod supervise;
mod teller;
mod transient;
#[cfg(unix)]
mod unix;
mod usable;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as os;
#[cfg(windows)]
use windows as os;

pub(crate) use delegator::Found;
pub use delegator::{DelegateError, Delegator, DelegatorOptions};
pub use limits::{Busy, Limits, Permit};
pub(crate) use presets::SignIn;
#[doc(hidden)]
pub use presets::read_stream;
pub(crate) use usable::Usable;
