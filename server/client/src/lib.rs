//! A typed client of the Flowdrive server: spawns `flowdrive serve` as a child and speaks JSON-RPC with it over the
//! child's stdin and stdout, one JSON value a line.
//!
//! ```no_run
//! use flowdrive_client::{Client, ServerCommand};
//! use flowdrive_protocol::method::{DriveParams, WorkflowRef};
//!
//! # async fn example() -> Result<(), flowdrive_client::ClientError> {
//! let client = Client::spawn(ServerCommand::new("flowdrive")).await?;
//! let mut drive = client.drive(DriveParams {
//!     workspace: Some("/path/to/repository".to_owned()),
//!     workflow: Some(WorkflowRef::Id("quick-survey".to_owned())),
//!     ..DriveParams::default()
//! });
//! while let Some(event) = drive.events.next().await {
//!     tracing::info!(seq = event.seq, "{:?}", event.event.kind());
//! }
//! let result = drive.result.await?;
//! tracing::info!(run = %result.run_id, status = result.status.as_str(), "ended");
//! client.shutdown().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The calls are jsonrpsee's; the transport below them is our own (`transport`), because a request that the *server*
//! makes has to be answered, and because events must not be lost when their reader is slow.
//!
//! Must not: know what a workflow or a result means, or write anything but frames to the child.

mod client;
mod command;
mod drive;
mod error;
mod events;
mod frame;
mod transport;

pub use client::{Client, Reattached};
pub use command::{ServerCommand, StderrMode};
pub use drive::{DriveFuture, RunningDrive};
pub use error::ClientError;
pub use events::EventStream;
