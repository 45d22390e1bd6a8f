//! The engine as a server or a program uses it: one method for each request.

use std::sync::Arc;
use std::time::Duration;

use flowdrive_protocol::config::Config;
use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::*;
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunView, StopMode};

use crate::EngineError;

/// Who is told of a drive's events. Called on the drive's own task: must not block.
pub trait EventSink: Send + Sync + 'static {
    /// One event; lifecycle events in order of `seq`.
    fn event(&self, event: ProgressEvent);
}

/// What an engine is made with.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// The user's configuration.
    pub config: Config,
    /// The program that serves as `builtin:survey` when called with `agent survey`; the running one when absent.
    pub survey_program: Option<std::path::PathBuf>,
}

/// The engine. Cheap to clone; all clones share the same drives.
#[derive(Clone)]
pub struct Engine {}

/// A drive under way.
pub struct Drive {
    /// The run it drives.
    pub run_id: RunId,
}

fn unfinished<T>() -> Result<T, EngineError> {
    Err(EngineError::new(flowdrive_protocol::error::ErrorKind::Internal, "not there yet", ""))
}

#[allow(unused_variables, missing_docs, clippy::unused_async)]
impl Engine {
    /// # Errors
    /// When the configuration does not validate.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        Ok(Self {})
    }
    /// Replaces the configuration; drives under way keep theirs.
    pub fn reconfigure(&self, config: Config) -> Result<(), EngineError> {
        Ok(())
    }
    /// Plans (or loads) the run, takes its lock and starts driving it as a task of its own. Returns as soon as that is
    /// done. Dropping the [`Drive`] does not end the drive.
    pub async fn drive(&self, params: DriveParams, sink: Arc<dyn EventSink>) -> Result<Drive, EngineError> {
        unfinished()
    }
    pub async fn preview(&self, params: PreviewParams) -> Result<DrivePreview, EngineError> {
        unfinished()
    }
    pub async fn resolve_feedback(&self, params: ResolveFeedbackParams) -> Result<FeedbackRecord, EngineError> {
        unfinished()
    }
    pub async fn stop(&self, params: StopParams) -> Result<StopResult, EngineError> {
        unfinished()
    }
    pub async fn list_runs(&self, params: ListRunsParams) -> Result<ListRunsResult, EngineError> {
        unfinished()
    }
    pub async fn show_run(&self, params: ShowRunParams) -> Result<RunView, EngineError> {
        unfinished()
    }
    pub async fn list_feedback(&self, params: ListFeedbackParams) -> Result<ListFeedbackResult, EngineError> {
        unfinished()
    }
    pub async fn list_workflows(&self, params: ListWorkflowsParams) -> Result<ListWorkflowsResult, EngineError> {
        unfinished()
    }
    pub async fn verify_run(&self, params: VerifyRunParams) -> Result<VerifyRunResult, EngineError> {
        unfinished()
    }
    pub async fn doctor(&self, params: DoctorParams) -> Result<DoctorResult, EngineError> {
        unfinished()
    }
    /// Stops every drive and returns when their agents are gone and their state is on disk, or at the deadline.
    /// Returns how many drives were stopped.
    pub async fn shutdown(&self, mode: StopMode, by: &str, deadline: Duration) -> usize {
        0
    }
}

#[allow(unused_variables, missing_docs, clippy::unused_async)]
impl Drive {
    /// Waits for the end. Can be called by several.
    pub async fn finished(&self) -> Result<DriveResult, EngineError> {
        unfinished()
    }
    /// Asks for a stop; `by` is recorded, such as `client` or `SIGTERM`.
    pub fn stop(&self, mode: StopMode, by: &str) {}
}
