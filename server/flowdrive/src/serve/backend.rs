//! What the server asks of the engine. The engine is the one real implementation; the server's own tests script another,
//! since a slow, a stuck and a panicking run have to be had at will.
//!
//! Must not: do anything besides passing on.

use std::sync::Arc;
use std::time::Duration;

use flowdrive_engine::{Drive, Engine, EngineError, EventSink};
use flowdrive_protocol::config::Config;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::*;
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult};
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunView, StopMode};

type Answer<T> = Result<T, EngineError>;

/// The engine, as the server sees it.
#[tower_lsp::async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    fn reconfigure(&self, config: Config) -> Answer<()>;
    async fn drive(&self, params: DriveParams, sink: Arc<dyn EventSink>) -> Answer<Arc<dyn Driving>>;
    async fn preview(&self, params: PreviewParams) -> Answer<DrivePreview>;
    async fn resolve_feedback(&self, params: ResolveFeedbackParams, sink: Arc<dyn EventSink>)
    -> Answer<FeedbackRecord>;
    async fn stop(&self, params: StopParams) -> Answer<StopResult>;
    async fn list_runs(&self, params: ListRunsParams) -> Answer<ListRunsResult>;
    async fn show_run(&self, params: ShowRunParams) -> Answer<RunView>;
    async fn list_feedback(&self, params: ListFeedbackParams) -> Answer<ListFeedbackResult>;
    async fn list_workflows(&self, params: ListWorkflowsParams) -> Answer<ListWorkflowsResult>;
    async fn verify_run(&self, params: VerifyRunParams) -> Answer<VerifyRunResult>;
    async fn prune_runs(&self, params: PruneRunsParams) -> Answer<PruneRunsResult>;
    async fn doctor(&self, params: DoctorParams) -> Answer<DoctorResult>;
    async fn list_agents(&self, params: ListAgentsParams) -> Answer<ListAgentsResult>;
    async fn shutdown(&self, mode: StopMode, by: &str, deadline: Duration) -> usize;
}

/// A drive under way.
#[tower_lsp::async_trait]
pub(crate) trait Driving: Send + Sync + 'static {
    fn run_id(&self) -> &RunId;
    async fn finished(&self) -> Answer<Arc<DriveResult>>;
    fn stop(&self, mode: StopMode, by: &str);
}

#[tower_lsp::async_trait]
impl Backend for Engine {
    fn reconfigure(&self, config: Config) -> Answer<()> {
        Self::reconfigure(self, config)
    }
    async fn drive(&self, params: DriveParams, sink: Arc<dyn EventSink>) -> Answer<Arc<dyn Driving>> {
        Ok(Arc::new(Self::drive(self, params, sink).await?))
    }
    async fn preview(&self, params: PreviewParams) -> Answer<DrivePreview> {
        Self::preview(self, params).await
    }
    async fn resolve_feedback(
        &self,
        params: ResolveFeedbackParams,
        sink: Arc<dyn EventSink>,
    ) -> Answer<FeedbackRecord> {
        Self::resolve_feedback(self, params, sink).await
    }
    async fn stop(&self, params: StopParams) -> Answer<StopResult> {
        Self::stop(self, params).await
    }
    async fn list_runs(&self, params: ListRunsParams) -> Answer<ListRunsResult> {
        Self::list_runs(self, params).await
    }
    async fn show_run(&self, params: ShowRunParams) -> Answer<RunView> {
        Self::show_run(self, params).await
    }
    async fn list_feedback(&self, params: ListFeedbackParams) -> Answer<ListFeedbackResult> {
        Self::list_feedback(self, params).await
    }
    async fn list_workflows(&self, params: ListWorkflowsParams) -> Answer<ListWorkflowsResult> {
        Self::list_workflows(self, params).await
    }
    async fn verify_run(&self, params: VerifyRunParams) -> Answer<VerifyRunResult> {
        Self::verify_run(self, params).await
    }
    async fn prune_runs(&self, params: PruneRunsParams) -> Answer<PruneRunsResult> {
        Self::prune_runs(self, params).await
    }
    async fn doctor(&self, params: DoctorParams) -> Answer<DoctorResult> {
        Self::doctor(self, params).await
    }
    async fn list_agents(&self, params: ListAgentsParams) -> Answer<ListAgentsResult> {
        Self::list_agents(self, params).await
    }
    async fn shutdown(&self, mode: StopMode, by: &str, deadline: Duration) -> usize {
        Self::shutdown(self, mode, by, deadline).await
    }
}

#[tower_lsp::async_trait]
impl Driving for Drive {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }
    async fn finished(&self) -> Answer<Arc<DriveResult>> {
        Self::finished(self).await
    }
    fn stop(&self, mode: StopMode, by: &str) {
        Self::stop(self, mode, by);
    }
}
