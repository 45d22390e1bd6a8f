//! The wire types of Flowdrive: method names, parameters, results, events, error kinds, and the two documents users
//! write (workflows and agent configuration). Schemas, TypeScript types and the tables in the docs are generated from
//! here; nothing else defines a shape that crosses a process boundary.
//!
//! Must not: do I/O, decide anything, or know how a message is framed.

pub mod config;
pub mod error;
pub mod event;
pub mod feedback;
pub mod ids;
pub mod method;
pub mod outcome;
pub mod prune;
pub mod run;
pub mod time;
pub mod workflow;

/// The version of the protocol between client and server, exchanged in `initialize` and `serverInfo`.
pub const PROTOCOL_VERSION: u32 = 1;

/// The oldest protocol version this server still speaks.
pub const MIN_PROTOCOL_VERSION: u32 = 1;

/// `schemaVersion` of every result object and document defined here.
pub const SCHEMA_VERSION: u32 = 1;
