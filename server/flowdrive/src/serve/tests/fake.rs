//! An engine that does as the test says. What a drive does is in its run id, what `doctor` does in its workspace.

use std::sync::Mutex;
use std::time::Duration;

use flowdrive_engine::EngineError;
use flowdrive_engine::EventSink;
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::{RunId, TaskId};
use flowdrive_protocol::method::*;
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult};
use flowdrive_protocol::run::{DrivePreview, DriveResult, RunView};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::backend::{Backend, Driving};
use super::*;

#[derive(Default)]
pub(in crate::serve) struct Fake {
    pub(super) configs: Mutex<Vec<Config>>,
    pub(super) drives: Mutex<Vec<Arc<FakeDrive>>>,
    /// The record of lifecycle events.
    pub(super) record: Mutex<Vec<ProgressEvent>>,
    /// The tasks and feedback records of every run, as they go over the wire.
    pub(super) tasks: Mutex<Vec<Value>>,
    pub(super) feedback: Mutex<Vec<Value>>,
    pub(super) stops: Arc<Mutex<Vec<(StopMode, String)>>>,
    /// Lets `doctor` in a workspace called `slow` go on.
    pub(super) release: watch::Sender<bool>,
}

pub(super) struct FakeDrive {
    run: RunId,
    pub(super) sink: Arc<dyn EventSink>,
    /// How it ended: by a stop, or by itself.
    finished: watch::Sender<Option<Option<StopMode>>>,
    stops: Arc<Mutex<Vec<(StopMode, String)>>>,
    /// Does not end on a graceful stop.
    stubborn: bool,
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn event(run: &str, seq: u64, body: &Value) -> ProgressEvent {
    let mut value = json!({"runId": run, "seq": seq, "at": "2026-01-02T03:04:05.000Z"});
    value.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    from_json(value)
}

pub(in crate::serve) fn started(run: &str) -> ProgressEvent {
    event(
        run,
        1,
        &json!({"type": "runStarted", "workflowId": "w", "title": "Title", "plannedWorkers": 4, "completedWorkers": 0, "resumed": false}),
    )
}

pub(in crate::serve) fn accepted(run: &str, seq: u64) -> ProgressEvent {
    event(
        run,
        seq,
        &json!({"type": "taskAccepted", "taskId": format!("t{seq}"), "workerId": "w", "phase": "p", "source": "agent", "summary": "x".repeat(200), "findings": 0}),
    )
}

pub(super) fn activity(run: &str, seq: u64, task: &str, text: &str) -> ProgressEvent {
    let mut event = event(run, seq, &json!({"type": "agentActivity", "taskId": "t", "workerId": "w", "text": text}));
    if let Event::AgentActivity { task_id, .. } = &mut event.event {
        *task_id = TaskId::new(task).unwrap();
    }
    event
}

impl Fake {
    pub(super) fn drive(&self, number: usize) -> Arc<FakeDrive> {
        self.drives.lock().unwrap()[number].clone()
    }

    pub(super) fn tell(&self, drive: usize, event: ProgressEvent) {
        if event.event.is_lifecycle() {
            self.record.lock().unwrap().push(event.clone());
        }
        self.drive(drive).sink.event(event);
    }
}

impl FakeDrive {
    pub(super) fn finish(&self) {
        self.finished.send_replace(Some(Some(StopMode::Graceful)));
    }

    /// Ends it without a stop.
    pub(super) fn complete(&self) {
        self.finished.send_replace(Some(None));
    }
}

#[tower_lsp::async_trait]
impl Backend for Fake {
    fn reconfigure(&self, config: Config) -> Result<(), EngineError> {
        if config.default_agent.as_ref().is_some_and(|agent| agent.to_string() == "unknown") {
            return Err(EngineError::new(ErrorKind::ConfigInvalid, "no such agent: unknown", "Name one."));
        }
        self.configs.lock().unwrap().push(config);
        Ok(())
    }

    async fn drive(&self, params: DriveParams, sink: Arc<dyn EventSink>) -> Result<Arc<dyn Driving>, EngineError> {
        let Some(run) = params.run_id else {
            return Err(EngineError::InvalidParams("name a workflow or a run".into()));
        };
        match run.to_string().as_str() {
            "panics" => panic!("as the test asked"),
            "locked" => return Err(EngineError::new(ErrorKind::RunLocked, "locked", "Wait.")),
            _ => {}
        }
        let drive = Arc::new(FakeDrive {
            stubborn: run.to_string() == "stubborn",
            run,
            sink,
            finished: watch::Sender::new(None),
            stops: self.stops.clone(),
        });
        self.drives.lock().unwrap().push(drive.clone());
        self.tell(self.drives.lock().map(|drives| drives.len() - 1).unwrap(), started(drive.run.as_ref()));
        if drive.run.to_string() == "quick" {
            drive.finish();
        }
        Ok(drive)
    }

    async fn preview(&self, params: PreviewParams) -> Result<DrivePreview, EngineError> {
        Err(EngineError::new(ErrorKind::WorkspaceInvalid, format!("{:?}", params.workspace), "It is only a test."))
    }

    async fn resolve_feedback(
        &self,
        _: ResolveFeedbackParams,
        _: Arc<dyn EventSink>,
    ) -> Result<FeedbackRecord, EngineError> {
        let record = self.feedback.lock().unwrap().pop();
        record.map(from_json).ok_or_else(|| EngineError::new(ErrorKind::FeedbackUnknown, "unknown", "List them."))
    }

    async fn stop(&self, params: StopParams) -> Result<StopResult, EngineError> {
        Ok(StopResult { run_id: params.run_id, driving: false, mode: params.mode })
    }

    async fn list_runs(&self, _: ListRunsParams) -> Result<ListRunsResult, EngineError> {
        Ok(ListRunsResult { runs: Vec::new(), unreadable: Vec::new(), total: 0 })
    }

    async fn show_run(&self, params: ShowRunParams) -> Result<RunView, EngineError> {
        let since = usize::try_from(params.since_seq.unwrap_or(0)).unwrap();
        let record = self.record.lock().unwrap();
        let events: Vec<ProgressEvent> = record.iter().skip(since).take(100).cloned().collect();
        let more = since + events.len() < record.len();
        let tasks = self.tasks.lock().unwrap().clone();
        let summary = json!({"runId": params.run_id, "workflowId": "w", "title": "", "status": "in-progress",
            "createdAt": "2026-01-02T03:04:05.000Z", "updatedAt": "2026-01-02T03:04:05.000Z", "plannedWorkers": 0,
            "completedWorkers": 0, "parkedWorkers": 0, "openFeedback": 0, "driving": true});
        Ok(from_json(
            json!({"schemaVersion": 1, "summary": summary, "inputs": {}, "phases": [], "tasks": tasks, "totalTasks": tasks.len(),
            "lastSeq": record.len(), "events": events, "moreEvents": more, "reportPath": "", "statePath": ""}),
        ))
    }

    async fn list_feedback(&self, _: ListFeedbackParams) -> Result<ListFeedbackResult, EngineError> {
        let records = self.feedback.lock().unwrap().clone();
        Ok(ListFeedbackResult { feedback: records.into_iter().map(from_json).collect() })
    }

    async fn list_workflows(&self, _: ListWorkflowsParams) -> Result<ListWorkflowsResult, EngineError> {
        Ok(ListWorkflowsResult { workflows: Vec::new(), unusable: Vec::new() })
    }

    async fn verify_run(&self, params: VerifyRunParams) -> Result<VerifyRunResult, EngineError> {
        Ok(VerifyRunResult { run_id: params.run_id, ok: true, events: 0, head: String::new(), problems: Vec::new() })
    }

    async fn prune_runs(&self, params: PruneRunsParams) -> Result<PruneRunsResult, EngineError> {
        Ok(from_json(json!({"dryRun": params.dry_run, "removed": [], "kept": 0, "cachedResults": 0, "leftovers": 0,
            "bytes": 0})))
    }

    async fn doctor(&self, params: DoctorParams) -> Result<DoctorResult, EngineError> {
        match params.workspace.as_deref() {
            Some("panic") => panic!("as the test asked"),
            Some("slow") => {
                self.release.subscribe().wait_for(|released| *released).await.unwrap();
            }
            _ => {}
        }
        Ok(DoctorResult { version: params.workspace.unwrap_or_default(), ok: true, checks: Vec::new() })
    }

    async fn list_agents(&self, _: ListAgentsParams) -> Result<ListAgentsResult, EngineError> {
        Ok(ListAgentsResult { agents: Vec::new() })
    }

    async fn shutdown(&self, mode: StopMode, by: &str, deadline: Duration) -> usize {
        let drives = self.drives.lock().unwrap().clone();
        for drive in &drives {
            drive.stop(mode, by);
        }
        for drive in &drives {
            let _ = tokio::time::timeout(deadline, drive.finished()).await;
        }
        drives.len()
    }
}

#[tower_lsp::async_trait]
impl Driving for FakeDrive {
    fn run_id(&self) -> &RunId {
        &self.run
    }

    async fn finished(&self) -> Result<Arc<DriveResult>, EngineError> {
        let mode = *self.finished.subscribe().wait_for(Option::is_some).await.unwrap();
        Ok(Arc::new(from_json(
            json!({"schemaVersion": 1, "runId": self.run, "workflowId": "w", "status": "in-progress", "steps": [],
            "plannedWorkers": 4, "completedWorkers": 0, "parkedWorkers": 0, "reportPath": "", "statePath": "",
            "agentConfigured": true, "stopped": mode}),
        )))
    }

    fn stop(&self, mode: StopMode, by: &str) {
        self.stops.lock().unwrap().push((mode, by.to_owned()));
        if mode == StopMode::Now || !self.stubborn {
            // How a drive ended does not change any more.
            self.finished.send_if_modified(|ended| ended.is_none() && ended.replace(Some(mode)).is_none());
        }
    }
}
