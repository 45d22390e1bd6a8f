//! The requests that only read: what a client needs to draw itself, and what checks a record.
//!
//! Must not take a lock, or change anything but a report that is asked for.

use std::path::Path;
use std::sync::Arc;

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::{
    DoctorParams, DoctorResult, DriveParams, ListAgentsParams, ListAgentsResult, ListFeedbackParams,
    ListFeedbackResult, ListRunsParams, ListRunsResult, ListWorkflowsParams, ListWorkflowsResult, PreviewParams,
    ShowRunParams, VerifyRunParams, VerifyRunResult,
};
use flowdrive_protocol::run::{DrivePreview, RunSummary, RunView, UnreadableRun, VerifyProblem};

use super::driving::settings;
use super::{Engine, blocking, nothing_selected, open_workspace};
use crate::drive::cached::Lookup;
use crate::model::journal::{JournalEvent, MAX_CARRIED};
use crate::model::state::RunState;
use crate::record;
use crate::store::worker::{self, ResultFile};
use crate::store::{self, RunPaths, StoreError, Workspace};
use crate::{EngineError, doctor, plan, roster, view, workflow};

/// Tasks in an answer, unless more or fewer are asked for.
const TASK_PAGE: u32 = 1_000;

/// Runs that `doctor` tries to read, the newest first.
const MOST_EXAMINED: std::num::NonZeroU32 = std::num::NonZeroU32::new(1_000).expect("1000 is not 0");

/// Events sent with one `showRun`, at most.
const MAX_REPLAY: usize = 10_000;

impl Engine {
    /// Says what a drive would do. Starts nothing, writes nothing.
    ///
    /// # Errors
    /// What is wrong with the selection.
    pub async fn preview(&self, params: PreviewParams) -> Result<DrivePreview, EngineError> {
        let engine = self.clone();
        blocking(move || {
            let mut params = params;
            let workspace = open_workspace(params.workspace.as_deref())?;
            let agents = engine.agents();
            let asked = DriveParams {
                agent: params.agent.clone(),
                concurrency: params.concurrency,
                incremental: params.incremental,
                token_budget: params.token_budget,
                ..DriveParams::default()
            };
            let fresh = settings(&agents, &asked, None)?;
            let delegator = &engine.shared.delegator;
            let range = (params.task_offset as usize, params.task_limit.unwrap_or(TASK_PAGE) as usize);
            match (params.workflow.take(), &params.run_id) {
                (Some(reference), None) => {
                    let plan = plan::plan(workspace.root(), reference, &params.inputs, None)?;
                    let state = RunState::planned_at(plan, flowdrive_protocol::time::Timestamp::now())
                        .map_err(|fault| EngineError::internal(fault.to_string()))?;
                    Ok(view::preview::preview(
                        &state,
                        false,
                        Lookup { settings: &fresh, agents: &agents, delegator, workspace: &workspace },
                        None,
                        range,
                    ))
                }
                (None, Some(id)) => {
                    let paths = workspace.existing_run(id)?;
                    let driver = store::is_locked(&paths).map(|holder| format!("the run is being driven ({holder})"));
                    // What it is compared with is read from the disk: a drive under way must not wait for that.
                    let state = engine.copy_of_state(&paths, id)?;
                    let settings = settings(&agents, &asked, state.settings.as_ref())?;
                    let lookup = Lookup { settings: &settings, agents: &agents, delegator, workspace: &workspace };
                    Ok(view::preview::preview(&state, true, lookup, driver, range))
                }
                (Some(_), Some(_)) => {
                    Err(EngineError::InvalidParams("give either workflow or runId, not both".to_owned()))
                }
                (None, None) => Err(nothing_selected()),
            }
        })
        .await
    }

    /// The runs of a workspace, newest first.
    ///
    /// # Errors
    /// `workspace-invalid`; what the disk refuses.
    pub async fn list_runs(&self, params: ListRunsParams) -> Result<ListRunsResult, EngineError> {
        let engine = self.clone();
        blocking(move || {
            let workspace = open_workspace(params.workspace.as_deref())?;
            let listed = workspace.list_runs()?;
            let total = u32::try_from(listed.len()).unwrap_or(u32::MAX);
            let limit = params.limit.map_or(100, |limit| limit.get() as usize);
            let mut result = ListRunsResult { runs: Vec::new(), unreadable: Vec::new(), total };
            for listing in listed.into_iter().skip(params.offset as usize).take(limit) {
                let read = match &listing.id {
                    Some(id) => engine.summary(&workspace, id),
                    None => Err(EngineError::new(ErrorKind::RunNotFound, "the folder's name is no run id", "")),
                };
                match read {
                    Ok(summary) => result.runs.push(summary),
                    // Removed since it was listed.
                    Err(_) if !listing.exists(&workspace) => {}
                    Err(fault) => result.unreadable.push(UnreadableRun {
                        name: listing.name,
                        kind: fault.kind().unwrap_or(ErrorKind::RunCorrupt),
                        message: fault.to_string(),
                    }),
                }
            }
            Ok(result)
        })
        .await
    }

    /// One run, and the events a client missed.
    ///
    /// # Errors
    /// `run-not-found`, `run-corrupt`, `unsupported-state`.
    pub async fn show_run(&self, params: ShowRunParams) -> Result<RunView, EngineError> {
        let engine = self.clone();
        blocking(move || {
            let paths = open_workspace(params.workspace.as_deref())?.existing_run(&params.run_id)?;
            let driving = store::is_locked(&paths).is_some();
            let events = match params.since_seq {
                Some(since) => record::replay(&paths, &params.run_id, since, MAX_REPLAY)?,
                None => (Vec::new(), false),
            };
            if params.write_report {
                engine.write_report(&paths, &params.run_id)?;
            }
            let (offset, limit) = (params.task_offset as usize, params.task_limit.unwrap_or(TASK_PAGE) as usize);
            let asked = view::Asked { ids: &params.task_ids, offset, limit };
            engine.with_state(&paths, &params.run_id, |state| view::run(state, &paths, driving, asked, events))
        })
        .await
    }

    /// A run's feedback records, in task order.
    ///
    /// # Errors
    /// `run-not-found`, `run-corrupt`, `unsupported-state`.
    pub async fn list_feedback(&self, params: ListFeedbackParams) -> Result<ListFeedbackResult, EngineError> {
        let engine = self.clone();
        blocking(move || {
            let paths = open_workspace(params.workspace.as_deref())?.existing_run(&params.run_id)?;
            let feedback = engine.with_state(&paths, &params.run_id, |state| view::feedback(state, params.status))?;
            Ok(ListFeedbackResult { feedback })
        })
        .await
    }

    /// The workflows that can be driven, bundled ones first.
    ///
    /// # Errors
    /// `workspace-invalid`.
    pub async fn list_workflows(&self, params: ListWorkflowsParams) -> Result<ListWorkflowsResult, EngineError> {
        blocking(move || {
            let workspace = params.workspace.as_deref().map(|path| open_workspace(Some(path))).transpose()?;
            Ok(workflow::list(workspace.as_ref().map(Workspace::root)))
        })
        .await
    }

    /// Checks a run's record against itself, and the accepted results against it.
    ///
    /// # Errors
    /// `run-not-found`; what the disk refuses.
    pub async fn verify_run(&self, params: VerifyRunParams) -> Result<VerifyRunResult, EngineError> {
        blocking(move || {
            let paths = open_workspace(params.workspace.as_deref())?.existing_run(&params.run_id)?;
            // Looked at first: a drive syncs the journal before it writes a snapshot, so an older look is never ahead.
            let snapshot = record::snapshot_position(&paths, &params.run_id);
            let mut verification = store::verify::<JournalEvent>(&paths, &params.run_id)?;
            if let Some(newer) = verification.problems.first()
                && verification.problems.iter().all(|problem| problem.code == store::WRONG_VERSION)
            {
                // Nothing is wrong with it that could be told from here.
                let (path, line, problem) = (paths.journal, newer.line, newer.message.clone());
                return Err(StoreError::Unsupported { path, line, problem }.into());
            }
            if let Some(seq) = snapshot.map(|position| position.seq).filter(|seq| *seq > verification.events)
                && verification.problems.is_empty()
            {
                verification.problems.push(VerifyProblem {
                    code: "journal-cut".to_owned(),
                    message: format!(
                        "state.json was taken after event {seq}, and the journal ends with event {}: whole lines were cut off",
                        verification.events
                    ),
                    path: paths.journal.to_string_lossy().into_owned(),
                    line: None,
                });
            }
            if verification.problems.is_empty() {
                verification.problems.extend(changed_results(&paths, &params.run_id)?);
            }
            Ok(VerifyRunResult {
                run_id: params.run_id,
                ok: verification.problems.is_empty(),
                events: verification.events,
                head: verification.head,
                problems: verification.problems,
            })
        })
        .await
    }

    /// Looks at the installation.
    ///
    /// # Errors
    /// None at present.
    pub async fn doctor(&self, params: DoctorParams) -> Result<DoctorResult, EngineError> {
        let runs = match &params.workspace {
            Some(workspace) => {
                let asked =
                    ListRunsParams { workspace: Some(workspace.clone()), limit: Some(MOST_EXAMINED), offset: 0 };
                Some(self.list_runs(asked).await)
            }
            None => None,
        };
        Ok(doctor::examine(&self.agents(), &self.shared.delegator, params.workspace, runs).await)
    }

    /// The agents that tasks can be given to.
    ///
    /// # Errors
    /// None at present.
    pub async fn list_agents(&self, _: ListAgentsParams) -> Result<ListAgentsResult, EngineError> {
        let engine = self.clone();
        // Programs are looked for on the disk.
        blocking(move || Ok(roster::roster(&engine.agents(), &engine.shared.delegator))).await
    }

    fn summary(&self, workspace: &Workspace, id: &RunId) -> Result<RunSummary, EngineError> {
        let paths = workspace.existing_run(id)?;
        let driving = store::is_locked(&paths).is_some();
        match self.shared.drives.get(&paths.dir).map(|drive| drive.state) {
            Some(state) => Ok(view::summary(&record::read(&state), driving)),
            None => {
                let known = self.shared.readings.summary(&paths, id)?;
                let (reason, next) = if driving { (None, None) } else { (known.reason, known.next) };
                Ok(RunSummary { driving, reason, next, ..known })
            }
        }
    }

    /// Writes a run's reports anew, whoever drives it.
    fn write_report(&self, paths: &RunPaths, id: &RunId) -> Result<(), EngineError> {
        loop {
            let state = self.copy_of_state(paths, id)?;
            crate::report::save_beside(&state, paths)?;
            let of = state.updated_at;
            drop(state);
            // A drive that ended meanwhile wrote its own, and an older one must not have taken its place.
            let outdated = |state: &RunState| state.ended.is_some() && state.updated_at != of;
            if !self.with_state(paths, id, outdated)? {
                return Ok(());
            }
        }
    }

    /// A run's state as it is now, to be looked at for longer than its drive may be held up.
    fn copy_of_state(&self, paths: &RunPaths, id: &RunId) -> Result<Arc<RunState>, EngineError> {
        match self.shared.drives.get(&paths.dir).map(|drive| drive.state) {
            Some(state) => Ok(Arc::new(record::read(&state).clone())),
            None => Ok(self.shared.readings.state(paths, id)?),
        }
    }

    fn with_state<T>(&self, paths: &RunPaths, id: &RunId, look: impl FnOnce(&RunState) -> T) -> Result<T, EngineError> {
        let shared = self.shared.drives.get(&paths.dir).map(|drive| drive.state);
        match shared {
            Some(state) => Ok(look(&record::read(&state))),
            None => {
                let state = self.shared.readings.state(paths, id)?;
                Ok(look(&state))
            }
        }
    }
}

/// The accepted results whose files are gone or no longer what was accepted.
fn changed_results(paths: &RunPaths, id: &RunId) -> Result<Vec<VerifyProblem>, StoreError> {
    let state = record::read_state(paths, id)?;
    let accepted = state.tasks.iter().filter_map(|task| task.accepted.as_ref().map(|result| (task, result)));
    let problem = |code: &str, message: String, path: &Path| VerifyProblem {
        code: code.to_owned(),
        message,
        path: path.to_string_lossy().into_owned(),
        line: None,
    };
    Ok(accepted
        .filter_map(|(task, result)| {
            let path = paths.dir.join(&result.path);
            let remedy = if result.bytes <= MAX_CARRIED as u64 {
                "; the journal has it, and a resume restores a lost one"
            } else {
                ""
            };
            match worker::look_at_result(&path, &result.digest) {
                ResultFile::AsAccepted => None,
                ResultFile::Changed => {
                    let message = format!("the result of {} is not the one that was accepted{remedy}", task.id);
                    Some(problem("result-changed", message, &path))
                }
                ResultFile::Missing => {
                    let message = format!("the accepted result of {} is no file that can be read{remedy}", task.id);
                    Some(problem("result-missing", message, &path))
                }
            }
        })
        .collect())
}
