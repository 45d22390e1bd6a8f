//! A task that is a workflow of its own: its run is driven beside the parent's agents, stops with the parent, and is
//! carried on, never planned afresh, when the parent is resumed.

use std::sync::{Arc, mpsc};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::{MAX_ID_BYTES, RunId, WorkerId};
use flowdrive_protocol::outcome::Usage;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::{BindResult, SubWorkflow};

use super::handle::Drive;
use super::{Driver, Job, Message};
use crate::model::journal::DriveSettings;
use crate::model::outcome::{Ending, HandleKind, Outcome};
use crate::model::state::RunState;
use crate::record::{self, Record};
use crate::store::canonical::sha256_hex;
use crate::store::worker::MAX_RESULT_BYTES;
use crate::store::{RunLock, RunPaths, StoreError, read_regular, replace_file, safe_name, within};
use crate::{EngineError, plan, workflow};

/// Workflows inside one another, the outermost counted, at most.
const MAX_DEPTH: usize = 4;

/// A sub-workflow whose dispatch is recorded but not yet on disk.
pub(super) struct Child {
    pub(super) task: usize,
    pub(super) worker: WorkerId,
    pub(super) spec: SubWorkflow,
}

/// The run of a task that is a workflow of its own; none for any other task.
pub(crate) fn child_run_id(state: &RunState, task: usize) -> Option<RunId> {
    state.spec(task).sub_workflow.as_ref()?;
    let name = format!("sub-{}-{}", state.run_id, safe_name(state.tasks[task].id.as_str()));
    RunId::new(within(name, MAX_ID_BYTES)).ok()
}

/// A child's drive under way.
struct Launched {
    drive: Drive,
    paths: RunPaths,
    spec: SubWorkflow,
    /// Tokens that earlier drives of the child spent.
    spent: u64,
}

impl Driver {
    /// Starts, or carries on, the run of a sub-workflow task.
    pub(super) fn start_child(&mut self, child: Child) {
        let Child { task, worker, spec } = child;
        let (started_at, app) = (Timestamp::now(), spec.id.clone());
        let (sender, broken) = (self.job.sender.clone(), self.job.sender.clone());
        let settle = move |worker: WorkerId, (ending, digest): (Ending, Option<String>), tokens: u64| {
            let outcome = outcome(&spec.id, ending, started_at, tokens);
            let outcome = Box::new(Outcome { result_digest: digest, ..outcome });
            let _ = sender.send(Message::Settled { task, worker, outcome });
        };
        let Launched { drive, paths, spec, spent } = match self.launch_child(task) {
            Ok(launched) => launched,
            Err(fault) if of_disk(&fault) => return drop(broken.send(Message::ChildBroken { task, fault })),
            Err(fault) => {
                return settle(worker, (failed(format!("sub-workflow plan failed ({app}): {fault}")), None), 0);
            }
        };
        if let Some((mode, by)) = &self.stop {
            drive.stop(*mode, by);
        }
        self.children.insert(task, drive.clone());
        let result_path = self.job.record.paths.worker(&worker).result;
        self.job.runtime.spawn(async move {
            let ended = drive.finished().await;
            // What this drive of the child spent; earlier ones are counted by the attempts that made them.
            let tokens = record::read(&drive.state).tokens_spent().saturating_sub(spent);
            let bound = tokio::task::spawn_blocking(move || bind(&spec, &paths, ended, &result_path)).await;
            match bound {
                Ok(Ok(bound)) => settle(worker, bound, tokens),
                Ok(Err(fault)) => drop(broken.send(Message::ChildBroken { task, fault })),
                Err(fault) => {
                    let failed = failed(format!("sub-workflow result could not be bound: {fault}"));
                    settle(worker, (failed, None), tokens);
                }
            }
        });
    }

    fn launch_child(&self, task: usize) -> Result<Launched, EngineError> {
        let state = self.job.record.state();
        let spec = state
            .spec(task)
            .sub_workflow
            .clone()
            .ok_or_else(|| EngineError::internal("a task without sub-workflow was started as one"))?;
        let own = state.workflow.id.to_string();
        let lineage: Vec<String> = self.job.lineage.iter().cloned().chain([own]).collect();
        if lineage.len() >= MAX_DEPTH {
            return Err(EngineError::InvalidParams(format!("sub-workflow depth limit exceeded (> {MAX_DEPTH})")));
        }
        if lineage.contains(&spec.id) {
            let chain = lineage.join(" -> ");
            return Err(EngineError::InvalidParams(format!("sub-workflow cycle detected: {chain} -> {}", spec.id)));
        }
        let id = child_run_id(&state, task)
            .ok_or_else(|| EngineError::internal(format!("no run id can be made for task {}", state.tasks[task].id)))?;
        let (record, lock, resumed) = self.child_record(&state, &id, &spec)?;
        drop(state);
        let (paths, spent) = (record.paths.clone(), record.state().tokens_spent());
        let (sender, mailbox) = mpsc::channel();
        let drive = self.job.drives.launch(Job {
            record,
            lock,
            workspace: Arc::clone(&self.job.workspace),
            settings: DriveSettings { once: false, token_budget: None, ..self.job.settings.clone() },
            resumed,
            agents: Arc::clone(&self.job.agents),
            delegator: self.job.delegator.clone(),
            sink: Arc::clone(&self.job.sink),
            sender,
            mailbox,
            runtime: self.job.runtime.clone(),
            drives: Arc::clone(&self.job.drives),
            lineage,
        })?;
        Ok(Launched { drive, paths, spec, spent })
    }

    fn child_record(
        &self,
        state: &RunState,
        id: &RunId,
        spec: &SubWorkflow,
    ) -> Result<(Record, RunLock, bool), EngineError> {
        match self.job.workspace.existing_run(id) {
            Ok(paths) => {
                let lock = RunLock::acquire(&paths)?;
                Ok((Record::open(paths, id)?, lock, true))
            }
            Err(StoreError::RunNotFound { .. }) => {
                let root = self.job.workspace.root();
                let loaded = workflow::load_sub(spec, root)?;
                let given = workflow::child_inputs(spec, &state.inputs, &loaded.workflow);
                let planned = plan::of(loaded, root, &given, Some(id.clone()))?;
                let paths = self.job.workspace.create_run(id)?;
                let lock = RunLock::acquire(&paths)?;
                let mut record = Record::create(paths, planned)?;
                record.sync()?;
                Ok((record, lock, false))
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

/// Writes what of the child becomes the parent task's result, and gives that file's digest. What the disk refuses is an
/// error: the task can do nothing about it.
fn bind(
    spec: &SubWorkflow,
    paths: &RunPaths,
    ended: Result<Arc<DriveResult>, EngineError>,
    result_path: &std::path::Path,
) -> Result<(Ending, Option<String>), EngineError> {
    let refused = |reason: String| Ok((failed(reason), None));
    let app = &spec.id;
    let result = match ended {
        Ok(result) if result.status == RunStatus::Complete => result,
        Ok(result) if result.stopped.is_some() => return Ok((Ending::Interrupted, None)),
        Ok(result) => {
            let why = result.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let status = result.status.as_str();
            return refused(format!(
                "sub-workflow {app} did not complete (status: {status}){why}; its run is {}",
                result.run_id
            ));
        }
        Err(fault) if of_disk(&fault) => return Err(fault),
        Err(fault) => return refused(format!("sub-workflow {app} failed: {fault}")),
    };
    let source = match spec.bind_result {
        BindResult::Report => Some(paths.report.clone()),
        BindResult::VerdictResult => match record::read_state(paths, &result.run_id).map_err(EngineError::from) {
            Ok(state) => super::commit::verdict_task(&state)
                .and_then(|place| state.tasks[place].accepted.as_ref())
                .map(|accepted| paths.dir.join(&accepted.path)),
            Err(fault) if of_disk(&fault) => return Err(fault),
            Err(fault) => return refused(format!("sub-workflow {app} cannot be read: {fault}")),
        },
    };
    let Some(bytes) = source.and_then(|path| read_regular(&path, MAX_RESULT_BYTES).ok()) else {
        let wanted = match spec.bind_result {
            BindResult::Report => "report",
            BindResult::VerdictResult => "verdict-result",
        };
        return refused(format!("sub-workflow {app} produced no {wanted}"));
    };
    replace_file(result_path, &bytes, false)?;
    Ok((Ending::Completed, Some(sha256_hex(&bytes))))
}

/// Whether a fault is the disk's.
fn of_disk(fault: &EngineError) -> bool {
    fault.kind() == Some(ErrorKind::StorageFailed)
}

fn failed(reason: String) -> Ending {
    Ending::Failed { code: "sub-workflow-failed".to_owned(), reason, transient: None }
}

fn outcome(workflow: &str, ending: Ending, started_at: Timestamp, tokens: u64) -> Outcome {
    let mut outcome = Outcome::bare(ending, HandleKind::SubWorkflow, format!("workflow {workflow}"), started_at);
    // The parent's budget knows what its children spend.
    outcome.report.usage = (tokens > 0).then(|| Box::new(Usage { total_tokens: Some(tokens), ..Usage::default() }));
    outcome
}
