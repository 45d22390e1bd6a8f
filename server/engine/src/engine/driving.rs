//! Beginning a drive: the run it is of, what is asked of it, and the thread it runs on.
//!
//! Must not: decide anything that the drive itself decides.

use std::sync::{Arc, PoisonError, mpsc};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::AgentName;
use flowdrive_protocol::method::DriveParams;
use tokio::sync::oneshot;

use super::{END_OF_INPUT, Engine, EventSink, nothing_selected, open_workspace};
use crate::config::Agents;
use crate::drive::{Begun, Drive, Job, on_own_thread};
use crate::model::journal::DriveSettings;
use crate::orphans::{self, Among};
use crate::record::Record;
use crate::store::{RunLock, Workspace};
use crate::{EngineError, plan};

/// Attempts before a task parks, unless the drive or the task says otherwise.
const DEFAULT_ATTEMPTS: std::num::NonZeroU32 = std::num::NonZeroU32::new(3).expect("3 is not 0");

impl Engine {
    /// Plans (or loads) the run, takes its lock and starts driving it on a thread of its own. Returns as soon as that
    /// is done. Dropping the [`Drive`] does not end the drive.
    ///
    /// # Errors
    /// What is wrong with the selection, the workflow, its inputs, the agent, the workspace or the run's record;
    /// `run-locked` when somebody drives the run already.
    pub async fn drive(&self, params: DriveParams, sink: Arc<dyn EventSink>) -> Result<Drive, EngineError> {
        let engine = self.clone();
        let runtime = tokio::runtime::Handle::current();
        let (tell, told) = oneshot::channel();
        let preparing = self.shared.drives.prepare();
        // Made ready by the thread that is to drive it: what is let go of after the planning of a large run is then room for
        // the drive.
        on_own_thread(move || {
            let started = engine.start(params, sink, runtime);
            drop(preparing);
            match started {
                Ok((drive, begun)) => {
                    let _ = tell.send(Ok(drive));
                    begun.conduct();
                }
                Err(fault) => drop(tell.send(Err(fault))),
            }
        })?;
        told.await.unwrap_or_else(|_| Err(EngineError::internal("a drive could not be made ready: it panicked")))
    }

    fn start(
        &self,
        mut params: DriveParams,
        sink: Arc<dyn EventSink>,
        runtime: tokio::runtime::Handle,
    ) -> Result<(Drive, Begun), EngineError> {
        if let Some(by) = &self.shared.drives.closing() {
            let message = format!("the server is ending ({by}) and starts nothing new: the run was not driven");
            return Err(EngineError::new(ErrorKind::ShuttingDown, message, how_to_ask_again(by)));
        }
        let workspace = Arc::new(open_workspace(params.workspace.as_deref())?);
        self.end_orphans_once(&workspace, &runtime);
        let agents = self.agents();
        // Before anything is made or opened.
        let fresh = settings(&agents, &params, None)?;
        let (record, lock, resumed) = match (params.workflow.take(), &params.run_id) {
            (Some(reference), id) => {
                let plan = plan::plan(workspace.root(), reference, &params.inputs, id.clone())?;
                let paths = workspace.create_run(&plan.run_id)?;
                let lock = RunLock::acquire(&paths)?;
                let mut record = Record::create(paths, plan)?;
                record.sync()?;
                (record, lock, false)
            }
            (None, Some(id)) => {
                let paths = workspace.existing_run(id)?;
                let lock = RunLock::acquire(&paths)?;
                self.shared.readings.forget(&paths);
                (Record::open(paths, id)?, lock, true)
            }
            (None, None) => return Err(nothing_selected()),
        };
        let before = record.state().settings.clone();
        let settings = if resumed { settings(&agents, &params, before.as_ref())? } else { fresh };
        let (sender, mailbox) = mpsc::channel();
        Ok(self.shared.drives.begin(Job {
            record,
            lock,
            workspace,
            settings,
            resumed,
            agents,
            delegator: self.shared.delegator.clone(),
            sink,
            sender,
            mailbox,
            runtime,
            drives: Arc::clone(&self.shared.drives),
            lineage: Vec::new(),
        }))
    }

    /// Before the first drive in a workspace: what a dead server left there goes on at the user's cost. The drive does not
    /// wait for it.
    fn end_orphans_once(&self, workspace: &Workspace, runtime: &tokio::runtime::Handle) {
        let mut swept = self.shared.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if !swept.insert(workspace.root().to_owned()) {
            return;
        }
        drop(swept);
        let (workspace, delegator) = (workspace.clone(), self.shared.delegator.clone());
        runtime.spawn(async move {
            match orphans::end_all(workspace, Among::Abandoned, &delegator).await {
                Ok(ended) => ended.iter().for_each(|(run, task)| {
                    tracing::warn!(%run, %task, "ended an agent that a dead server left behind");
                }),
                Err(fault) => tracing::debug!(%fault, "runs cannot be looked through for agents left behind"),
            }
        });
    }
}

/// What a drive is asked: by its parameters or, where they say nothing, by the drive before it where somebody named it
/// then. Everything else follows the configuration.
pub(super) fn settings(
    agents: &Agents,
    params: &DriveParams,
    before: Option<&DriveSettings>,
) -> Result<DriveSettings, EngineError> {
    let named = before.filter(|before| before.agent_named).map(|before| &before.agent);
    let (agent, agent_named): (AgentName, bool) = match (&params.agent, named.map(|name| agents.get(name))) {
        (Some(name), _) => (agents.get(name)?.name.clone(), true),
        (None, Some(Ok(agent))) => (agent.name.clone(), true),
        (None, Some(Err(fault))) => {
            tracing::warn!(%fault, "the agent that the run was driven with is gone; taking the default one");
            (agents.default_agent().name.clone(), false)
        }
        (None, None) => (agents.default_agent().name.clone(), false),
    };
    Ok(DriveSettings {
        agent,
        agent_named,
        concurrency: params.concurrency,
        once: params.once,
        incremental: params.incremental,
        max_attempts: params.max_attempts.unwrap_or(DEFAULT_ATTEMPTS),
        token_budget: params.token_budget.or_else(|| before?.token_budget),
        allow_unattested: params.allow_unattested,
    })
}

/// What a client does whose drive came too late; `by`: why the server ends.
fn how_to_ask_again(by: &str) -> &'static str {
    if by == END_OF_INPUT {
        "Keep the server's input open until the answer has come, or start it with --finish-on-eof; then ask again."
    } else {
        "Start the server again, then ask again."
    }
}
