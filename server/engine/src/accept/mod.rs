//! The accept layer: reads what an agent delivered and judges whether it may stand.
//!
//! Must not: do I/O. Files are seen through a trait that the caller implements.

pub mod attest;
pub mod evidence;
pub mod feedback;
mod fence;
mod fields;
pub mod files;
pub(crate) mod finding;
pub mod grounds;
mod harvest;
mod json;
pub mod judge;
pub mod parse;
mod path;
pub mod refusal;
pub mod report;
pub mod standing;
pub mod usage;
mod weigh;

pub use files::{FileLookup, Files, Lines, Presence};
pub use finding::ParsedFinding;
pub use judge::{Accepted, Requirements, judge};
pub use parse::ParsedResult;
pub use refusal::Refusal;
