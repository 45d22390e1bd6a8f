//! Why a workflow cannot be used, and how a client is told.

use std::io;
use std::path::PathBuf;

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use thiserror::Error;

use super::document::{Faults, listed};
use crate::EngineError;

/// Why a workflow cannot be used.
#[derive(Debug, Error)]
pub enum WorkflowError {
    /// No workflow has this id.
    #[error("No workflow `{id}` is bundled or under .cw/workflows of the workspace{near}")]
    Unknown {
        /// The id asked for.
        id: String,
        /// `; did you mean ...?`, or nothing.
        near: String,
        /// The ids there are.
        known: Vec<String>,
    },
    /// What names the workflow cannot name one.
    #[error("{reference:?} names no workflow: {reason}")]
    Reference {
        /// The id or path asked for.
        reference: String,
        /// Why.
        reason: String,
    },
    /// The file could not be read.
    #[error("Workflow {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is larger than any workflow may be.
    #[error("Workflow {} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most a workflow file may have, in bytes.
        limit: u64,
    },
    /// The document does not validate.
    #[error("{0}")]
    Invalid(Faults),
}

impl WorkflowError {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { known, .. } => {
                format!(
                    "Name one of: {}; or give the path of a .toml or .json file.",
                    listed(known.iter().map(String::as_str))
                )
            }
            Self::Reference { .. } => {
                "Give the id of a bundled workflow, of one under .cw/workflows, or the path of a .toml or .json file."
                    .to_owned()
            }
            Self::Unreadable { .. } => "Check that the file exists and that you may read it.".to_owned(),
            Self::TooLarge { .. } => {
                "Split the workflow, or move long material into files that its prompts name.".to_owned()
            }
            Self::Invalid(faults) => match faults.iter().count() {
                1 => "Correct the field named; `flowdrive schema workflow` prints what is allowed.".to_owned(),
                count => {
                    format!("Correct the {count} fields named; `flowdrive schema workflow` prints what is allowed.")
                }
            },
        }
    }
}

impl From<WorkflowError> for EngineError {
    fn from(error: WorkflowError) -> Self {
        let mut data = ErrorData::new(ErrorKind::WorkflowInvalid, error.hint());
        match &error {
            WorkflowError::Unreadable { path, .. } | WorkflowError::TooLarge { path, .. } => {
                data.file = Some(path.display().to_string());
            }
            WorkflowError::Invalid(faults) => faults.place(&mut data),
            WorkflowError::Unknown { .. } | WorkflowError::Reference { .. } => {}
        }
        Self::Fault { message: error.to_string(), data: Box::new(data) }
    }
}

impl Faults {
    /// Fills in the place of the first fault.
    pub(crate) fn place(&self, data: &mut ErrorData) {
        let first = self.first();
        data.file = self.file().map(str::to_owned);
        data.line = first.line;
        data.field = (!first.field.is_empty()).then(|| first.field.clone());
    }
}

/// Why inputs do not fit a workflow. Each fault names its input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", faults.join("\n"))]
pub struct InputError {
    /// The faults in the order of the inputs' names. Never empty.
    pub faults: Vec<String>,
}

impl From<InputError> for EngineError {
    fn from(error: InputError) -> Self {
        Self::InvalidParams(error.to_string())
    }
}
