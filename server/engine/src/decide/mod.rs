//! The decisions of a drive: what to do next, what a failure leads to, how a run ends.
//!
//! Pure: takes what is known, gives what to do. Must not do I/O, read a clock or hold state of its own.

pub mod budget;
pub mod cache;
pub mod feedback;
pub mod finish;
pub mod looping;
pub mod next;
pub mod prompt;
pub mod prune;
pub mod retry;
