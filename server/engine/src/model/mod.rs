//! The domain's types. Data only: no I/O, no decisions.

pub mod agent;
mod exact;
pub mod journal;
pub mod node;
pub mod outcome;
pub mod state;
pub mod upgrade;
