//! Agents as effects: starts them, watches them, ends them, and says how they ended in one [`Outcome`] whatever kind of
//! agent it was.
//!
//! Must not: decide. Whether a task is tried again, waits or parks is not known here; nor is what a result is worth.
//!
//! [`Outcome`]: crate::model::outcome::Outcome

mod activity;
#[cfg(unix)]
mod command;
mod delegator;
mod draft;
mod endpoint;
pub mod env;
#[cfg(unix)]
mod exit;
mod limits;
mod lines;
#[cfg(unix)]
mod linger;
mod log_file;
mod placeholders;
mod presets;
#[cfg(unix)]
mod probe;
mod process;
mod program;
pub mod redact;
mod report;
mod result_file;
#[cfg(unix)]
mod spawn;
mod stderr;
mod stdout;
#[cfg(unix)]
mod supervise;
mod teller;
mod transient;
#[cfg(unix)]
mod tree;

pub(crate) use delegator::Found;
pub use delegator::{DelegateError, Delegator, DelegatorOptions};
pub use limits::{Busy, Limits, Permit};
pub(crate) use presets::SignIn;
