//! The user's configuration: read from its file, from a client's `initializationOptions` and from the environment, laid
//! over one another, and made into agents that can be delegated to.
//!
//! Must not: read anything from a workspace (a repository is not trusted to say what runs), start an agent, or repeat a
//! value in a message that could be a secret.

mod agents;
mod check;
mod env;
mod error;
mod file;
mod merge;
mod words;

pub use agents::{Agents, SURVEY};
pub use env::from_env;
pub use error::ConfigError;
pub use file::{ConfigFile, default_path, from_value};
pub use merge::Layers;

#[cfg(test)]
mod tests;
