//! Why a configuration cannot be used, and how a client is told.

use std::io;
use std::path::PathBuf;

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use thiserror::Error;

use crate::EngineError;
use crate::workflow::Faults;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("Configuration {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than any configuration may be.
    #[error("Configuration {} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most a configuration file may have, in bytes.
        limit: u64,
    },
    /// The configuration does not validate. A fault that came from the environment has the variable as its field.
    #[error("{0}")]
    Invalid(Faults),
}

impl From<ConfigError> for EngineError {
    fn from(error: ConfigError) -> Self {
        let hint = match &error {
            ConfigError::Unreadable { .. } => "Check that the file exists and that you may read it.",
            ConfigError::TooLarge { .. } => "Check that this is the file you meant.",
            ConfigError::Invalid(_) => "Correct what is named; `flowdrive schema config` prints what is allowed.",
        };
        let mut data = ErrorData::new(ErrorKind::ConfigInvalid, hint);
        match &error {
            ConfigError::Unreadable { path, .. } | ConfigError::TooLarge { path, .. } => {
                data.file = Some(path.display().to_string());
            }
            ConfigError::Invalid(faults) => faults.place(&mut data),
        }
        Self::Fault { message: error.to_string(), data: Box::new(data) }
    }
}
