//! The accept layer: reads what an agent delivered and judges whether it may stand.
//!
//! Must not: do I/O. Files are seen through [`judge::Files`], which the caller implements.

mod json;
pub mod report;
pub mod usage;
