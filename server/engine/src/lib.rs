//! Flowdrive's engine: plans runs from workflows, drives them, judges what agents deliver, and records every step.
//!
//! Data flows one way: [`Engine`] asks `decide` what to do, tells `delegate` to do it, has `accept` judge what comes
//! back, and writes it down through `store`. `decide` and `accept` do no I/O; `store` and `delegate` decide nothing.
//!
//! Must not: know of JSON-RPC, framings or editors; call a model; hold an API key.

pub mod accept;
pub mod config;
pub mod decide;
pub mod delegate;
mod doctor;
mod drive;
mod engine;
mod error;
mod git;
pub mod model;
mod orphans;
mod plan;
mod prune;
mod readings;
pub mod record;
pub mod report;
mod resolve;
mod roster;
pub mod store;
pub mod survey;
pub mod view;
#[cfg(windows)]
pub mod windows;
pub mod workflow;

pub use drive::Drive;
pub use engine::{END_OF_INPUT, Engine, EngineOptions, EventSink};
pub use error::EngineError;
