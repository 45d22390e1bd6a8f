//! How the store fails, and how that reaches a client: every fault names the file, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use flowdrive_protocol::error::{ErrorData, ErrorKind};
use flowdrive_protocol::ids::RunId;
use thiserror::Error;

use super::lock::LockHolder;
use crate::EngineError;

/// Why the store could not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The workspace cannot be used.
    #[error("workspace {}: {reason}", path.display())]
    WorkspaceInvalid {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder that Flowdrive keeps in the workspace is none, or is not its own.
    #[error("{}: {reason}", path.display())]
    StateFolder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The workspace has no such run.
    #[error("run not found: {run_id} (looked for {})", path.display())]
    RunNotFound {
        /// The run asked for.
        run_id: RunId,
        /// The journal that is not there.
        path: PathBuf,
    },
    /// A run of this id is there already.
    #[error("run {run_id} exists already: {}", path.display())]
    RunExists {
        /// The run to be made.
        run_id: RunId,
        /// Its folder.
        path: PathBuf,
    },
    /// Somebody else drives the run.
    #[error("run {run_id} is {} ({holder})", holder.doing())]
    Locked {
        /// The run.
        run_id: RunId,
        /// Who drives it, as far as known.
        holder: LockHolder,
    },
    /// The file system knows no locks.
    #[error("{}: this file system refuses file locks: {source}", path.display())]
    LockUnsupported {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is on disk does not add up.
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Corrupt {
        /// The file or folder at fault.
        path: PathBuf,
        /// The line at fault, from 1.
        line: Option<u64>,
        /// What does not add up.
        problem: String,
    },
    /// The snapshot stands at a place the journal does not have: one of them was replaced or cut.
    #[error("{}: the snapshot was taken after event {seq}, which this journal does not hold at byte {offset}", path.display())]
    PositionUnknown {
        /// The journal.
        path: PathBuf,
        /// The event the snapshot was taken after.
        seq: u64,
        /// Where that event should end, in bytes.
        offset: u64,
    },
    /// Intact, but written in a form this version does not know.
    #[error("{}{}: {problem}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: Option<u64>,
        /// What is not known.
        problem: String,
    },
    /// The disk refused.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An earlier write failed, so nothing more is written to this journal by this process.
    #[error("{}: not written, because an earlier write failed: {reason}", path.display())]
    Poisoned {
        /// The journal.
        path: PathBuf,
        /// The earlier fault.
        reason: String,
    },
    /// What an agent left as its result cannot be read as one. The agent can be told.
    #[error("{}: {reason}", path.display())]
    ResultRefused {
        /// The result file.
        path: PathBuf,
        /// Why.
        reason: String,
        /// Whether it leads out of the attempt's folder.
        escapes: bool,
    },
    /// A value could not be written as JSON: a defect, since every type written here can be.
    #[error("could not write {what} as JSON: {source}")]
    Encode {
        /// What was to be written.
        what: &'static str,
        /// What serde said.
        source: serde_json::Error,
    },
}

impl StoreError {
    /// An I/O fault at a path; `action` completes "could not ...".
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if is_link(&source) {
                return Self::corrupt(
                    path,
                    None,
                    "this is a symbolic link, and what is kept here is never reached by one",
                );
            }
            Self::Io { action, path: path.to_owned(), source }
        }
    }

    /// The same fault of a folder that holds not one run, but all of them.
    pub(crate) fn of_workspace(self) -> Self {
        match self {
            Self::Corrupt { path, line: None, problem } => Self::StateFolder { path, reason: problem },
            other => other,
        }
    }

    /// Damage, at a line where there is one.
    pub(crate) fn corrupt(path: &Path, line: Option<u64>, problem: impl Into<String>) -> Self {
        Self::Corrupt { path: path.to_owned(), line, problem: problem.into() }
    }

    /// The kind a client is told.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::WorkspaceInvalid { .. } | Self::StateFolder { .. } => ErrorKind::WorkspaceInvalid,
            Self::RunNotFound { .. } => ErrorKind::RunNotFound,
            Self::Locked { .. } => ErrorKind::RunLocked,
            Self::Corrupt { .. } | Self::PositionUnknown { .. } => ErrorKind::RunCorrupt,
            Self::Unsupported { .. } => ErrorKind::UnsupportedState,
            Self::LockUnsupported { .. } | Self::Io { .. } | Self::Poisoned { .. } | Self::ResultRefused { .. } => {
                ErrorKind::StorageFailed
            }
            Self::RunExists { .. } | Self::Encode { .. } => ErrorKind::Internal,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::WorkspaceInvalid { .. } => "Give the absolute path of a folder that exists.".into(),
            Self::StateFolder { .. } => {
                "Move it out of the way, and try again: the folder is made anew, this user's own.".into()
            }
            Self::RunNotFound { .. } => "List the runs of this workspace, and check the id and the workspace.".into(),
            Self::RunExists { .. } => "Resume that run, or start one with another id.".into(),
            Self::Locked { holder, .. } if holder.is_this_process() => {
                "Wait for the drive to end, or stop the run; runFinished tells of it.".into()
            }
            Self::Locked { holder, .. } => match holder.pid {
                Some(pid) => {
                    format!("Wait for process {pid} to finish, or stop the run; the lock ends with that process.")
                }
                None => "Wait for the other drive to finish, or stop the run; its lock ends with its process.".into(),
            },
            Self::LockUnsupported { .. } => "Keep the workspace, or its .cw folder, on a local file system.".into(),
            Self::Corrupt { line: None, .. } => {
                "Put right what is there, or move it out of the way, then try again.".into()
            }
            Self::Corrupt { .. } => {
                "Verify the run to see all that does not add up, and restore the file from a copy.".into()
            }
            Self::PositionUnknown { .. } => {
                "Verify the run. If the journal is whole, delete the run's state.json: it is \
                                             rebuilt from the journal."
                    .into()
            }
            Self::Unsupported { .. } => "Use the Flowdrive that wrote this run, or a newer one.".into(),
            Self::Io { source, .. } => io_hint(source).into(),
            Self::Poisoned { .. } => "Put right what the earlier fault names, then resume the run.".into(),
            Self::ResultRefused { .. } => "The result has to be a UTF-8 text file of at most 32 MiB.".into(),
            Self::Encode { .. } => "This is a defect of Flowdrive; please report it.".into(),
        }
    }
}

/// Whether a file was not opened because it is a symbolic link.
fn is_link(fault: &io::Error) -> bool {
    #[cfg(unix)]
    {
        fault.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32)
    }
    #[cfg(not(unix))]
    {
        let _ = fault;
        false
    }
}

fn io_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space on that disk, then resume the run: what was recorded is kept."
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "Make that place readable and writable for this user, then try again."
        }
        _ => "Check that disk and the folder's permissions, then resume the run: what was recorded is kept.",
    }
}

impl From<StoreError> for EngineError {
    fn from(fault: StoreError) -> Self {
        if let StoreError::RunExists { .. } = fault {
            // Who asks chose the id: no fault of the store's, and none of Flowdrive's.
            return EngineError::InvalidParams(format!("{fault}. {}", fault.hint()));
        }
        let mut data = ErrorData::new(fault.kind(), fault.hint());
        match &fault {
            StoreError::WorkspaceInvalid { path, .. }
            | StoreError::StateFolder { path, .. }
            | StoreError::LockUnsupported { path, .. }
            | StoreError::Io { path, .. }
            | StoreError::Poisoned { path, .. }
            | StoreError::RunExists { path, .. }
            | StoreError::PositionUnknown { path, .. }
            | StoreError::ResultRefused { path, .. } => data.file = Some(path.display().to_string()),
            StoreError::Corrupt { path, line, .. } | StoreError::Unsupported { path, line, .. } => {
                data.file = Some(path.display().to_string());
                data.line = *line;
            }
            StoreError::Locked { holder, .. } => {
                data.pid = holder.pid;
                data.host.clone_from(&holder.host);
                data.since = holder.since;
            }
            StoreError::RunNotFound { .. } | StoreError::Encode { .. } => {}
        }
        EngineError::Fault { message: fault.to_string(), data: Box::new(data) }
    }
}
