//! The harness of the end-to-end tests. It starts the real binary, speaks JSON-RPC to it with a client of its own (on
//! purpose not `flowdrive-client`, so that a shared mistake cannot hide), and knows what every test agent did.
//!
//! Must not: use the engine, or reach into a run by anything but the protocol and the files a user sees.
//!
//! A panic here is a failed test; every panic that concerns a server carries the end of its log.

pub mod binary;
pub mod builder;
pub mod census;
pub mod config;
pub mod endings;
pub mod endpoint;
pub mod events;
pub mod fault;
pub mod framing;
mod hearing;
pub mod ledger;
pub mod matrix;
pub mod results;
pub mod server;
pub mod tree;
pub mod wait;
pub mod workflow;
pub mod workspace;

pub use fault::RpcError;
pub use framing::Framing;
pub use server::Server;
pub use workflow::{phase, sequential, task, workflow};
pub use workspace::TestWorkspace;
