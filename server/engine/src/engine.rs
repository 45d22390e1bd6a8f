//! The engine as a server or a program uses it: one method for each request. Those that only read are in [`reading`], what
//! begins a drive in [`driving`].

mod driving;
mod reading;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use flowdrive_protocol::config::Config;
use flowdrive_protocol::event::ProgressEvent;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::method::{ResolveFeedbackParams, StopParams, StopResult};
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult};
use flowdrive_protocol::run::StopMode;
use tokio::sync::oneshot;

use crate::config::{self, Agents, Layers};
use crate::delegate::{Delegator, DelegatorOptions};
use crate::drive::{Drives, Message};
use crate::orphans::{self, Among};
use crate::readings::Readings;
use crate::record::Record;
use crate::store::{self, RunLock, RunPaths, StoreError, Workspace};
use crate::{EngineError, prune, resolve};

/// What [`Engine::shutdown`] is told as its reason when the client has closed the server's input.
pub const END_OF_INPUT: &str = "end of input";

/// How long one request to close a record waits for others of this server, and how often it looks.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(5);
const RESOLVE_INTERVAL: Duration = Duration::from_millis(5);

/// How long a stop waits for agents to be gone, and how often it looks at a drive of another process. Agents get one
/// second before they are killed.
const STOPPED_PATIENCE: Duration = Duration::from_secs(10);
const STOPPED_INTERVAL: Duration = Duration::from_millis(50);

/// Who is told of a drive's events. Called on the drive's own thread and on those that read agents' output: must not
/// block.
pub trait EventSink: Send + Sync + 'static {
    /// One event; lifecycle events in order of `seq`.
    fn event(&self, event: ProgressEvent);
}

/// What an engine is made with.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// The user's configuration, as its file has it.
    pub config: Config,
    /// The environment: agents get a filtered part of it, and it may configure an agent. The process's own when absent.
    pub environment: Option<BTreeMap<String, String>>,
    /// The program that serves as `builtin:survey` when called with `agent survey`; the running one when absent.
    pub survey_program: Option<PathBuf>,
}

/// The engine. Cheap to clone; all clones share the same drives.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    /// File and environment together; what a client configures lies on top.
    base: Layers,
    survey_program: PathBuf,
    agents: RwLock<Arc<Agents>>,
    delegator: Delegator,
    drives: Arc<Drives>,
    readings: Readings,
    /// Workspaces in which this process has looked for what dead servers left.
    swept: Mutex<HashSet<PathBuf>>,
}

impl Engine {
    /// Makes an engine.
    ///
    /// # Errors
    /// `config-invalid`; or what keeps agents from being run at all.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let environment = options.environment.unwrap_or_else(process_environment);
        let survey_program = match options.survey_program {
            Some(program) => program,
            None => std::env::current_exe()
                .map_err(|fault| EngineError::internal(format!("the running program cannot be found: {fault}")))?,
        };
        let base = Layers {
            environment: config::from_env(&environment)?,
            file: options.config,
            initialization_options: Config::default(),
        };
        let agents = Agents::resolve(&base.clone().merge(), &survey_program)?;
        let delegator = Delegator::new(DelegatorOptions {
            parent_env: environment,
            max_concurrent: Some(agents.max_concurrent()),
            ..DelegatorOptions::default()
        })?;
        Ok(Self {
            shared: Arc::new(Shared {
                base,
                survey_program,
                agents: RwLock::new(Arc::new(agents)),
                delegator,
                drives: Arc::default(),
                readings: Readings::default(),
                swept: Mutex::default(),
            }),
        })
    }

    /// Lays a client's configuration over that of the file and the environment. Drives under way keep theirs.
    ///
    /// # Errors
    /// `config-invalid`; the configuration in force then stays.
    pub fn reconfigure(&self, config: Config) -> Result<(), EngineError> {
        let merged = Layers { initialization_options: config, ..self.shared.base.clone() }.merge();
        let agents = Agents::resolve(&merged, &self.shared.survey_program)?;
        self.shared.delegator.limits().set_over_all(Some(agents.max_concurrent()));
        *self.shared.agents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(agents);
        Ok(())
    }

    /// The agents in force.
    fn agents(&self) -> Arc<Agents> {
        Arc::clone(&self.shared.agents.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes a feedback record: through the run's drive when there is one here, else under the run's lock. `sink` is
    /// told of it when no drive tells its own.
    ///
    /// # Errors
    /// `feedback-unknown`, `resolution-refused`; `run-locked` when another process drives the run.
    pub async fn resolve_feedback(
        &self,
        params: ResolveFeedbackParams,
        sink: Arc<dyn EventSink>,
    ) -> Result<FeedbackRecord, EngineError> {
        let engine = self.clone();
        let request = params.clone();
        let (paths, drive) = blocking(move || {
            let paths = open_workspace(request.workspace.as_deref())?.existing_run(&request.run_id)?;
            let drive = engine.shared.drives.get(&paths.dir);
            Ok((paths, drive))
        })
        .await?;
        if let Some(drive) = drive {
            let (reply, answer) = oneshot::channel();
            let message = Message::Resolve { params: Box::new(params.clone()), reply };
            if drive.sender.send(message).is_ok()
                && let Ok(answer) = answer.await
            {
                return answer;
            }
            // The drive ended without looking at it; its lock is free, or about to be.
            let _ = drive.finished().await;
        }
        let engine = self.clone();
        blocking(move || {
            let _lock = engine.lock_to_resolve(&paths)?;
            let mut record = Record::open(paths, &params.run_id)?;
            record.close_unfinished()?;
            let closed = resolve::resolve(&mut record, &params)?;
            record.sync()?.into_iter().for_each(|event| sink.event(event));
            // In this order: the snapshot says which report was written.
            crate::report::write(&mut record)?;
            record.save_snapshot()?;
            Ok(closed)
        })
        .await
    }

    /// The run's lock, for one who needs it for a moment. Several records may be closed at once, by requests of one
    /// client: they wait for each other, but not for a drive.
    fn lock_to_resolve(&self, paths: &RunPaths) -> Result<RunLock, EngineError> {
        let patience = Instant::now() + RESOLVE_PATIENCE;
        loop {
            match RunLock::acquire(paths) {
                Err(StoreError::Locked { holder, .. })
                    // A holder is nameless while it comes or goes.
                    if (holder.pid.is_none() || holder.is_this_process())
                        && self.shared.drives.get(&paths.dir).is_none()
                        && Instant::now() < patience =>
                {
                    std::thread::sleep(RESOLVE_INTERVAL);
                }
                lock => return Ok(lock?),
            }
        }
    }

    /// Asks for a drive to end early, whichever process drives it. A stop that ends the agents returns when they are
    /// gone: whoever hears of it may start something in their place.
    ///
    /// # Errors
    /// `run-not-found`; what the disk refuses.
    pub async fn stop(&self, params: StopParams) -> Result<StopResult, EngineError> {
        let engine = self.clone();
        let StopParams { run_id, mode, workspace } = params;
        let id = run_id.clone();
        let (paths, drive, driving) = blocking(move || {
            let paths = open_workspace(workspace.as_deref())?.existing_run(&id)?;
            let drive = engine.shared.drives.get(&paths.dir);
            let driving = match &drive {
                Some(drive) => {
                    drive.stop(mode, "client");
                    true
                }
                None if store::is_locked(&paths).is_some() => {
                    store::stop::request_stop(&paths, mode)?;
                    true
                }
                None => false,
            };
            Ok((paths, drive, driving))
        })
        .await?;
        if driving && mode == StopMode::Now {
            let gone = async {
                match drive {
                    Some(drive) => drop(drive.finished().await),
                    None => {
                        while store::is_locked(&paths).is_some() {
                            tokio::time::sleep(STOPPED_INTERVAL).await;
                        }
                    }
                }
            };
            if tokio::time::timeout(STOPPED_PATIENCE, gone).await.is_err() {
                tracing::warn!(run = %run_id, "a stopped drive has not ended yet");
            }
        }
        Ok(StopResult { run_id, driving, mode })
    }

    /// Removes runs, and kept results, that nobody needs any more.
    ///
    /// # Errors
    /// Parameters that let nothing go; `workspace-invalid`; what the disk refuses.
    pub async fn prune_runs(&self, params: PruneRunsParams) -> Result<PruneRunsResult, EngineError> {
        let path = params.workspace.clone();
        let workspace = blocking(move || open_workspace(path.as_deref())).await?;
        if !params.dry_run {
            // With a run goes the only record of what a dead server may have left running of it.
            orphans::end_all(workspace.clone(), Among::All, &self.shared.delegator).await?;
        }
        blocking(move || prune::prune(&workspace, &params)).await
    }

    /// Stops every drive and returns when their agents are gone and their state is on disk, or at the deadline. No
    /// drive can be started afterwards. Returns how many there were.
    pub async fn shutdown(&self, mode: StopMode, by: &str, deadline: Duration) -> usize {
        let drives = self.shared.drives.close(mode, by);
        let all = async {
            if mode == StopMode::Now {
                self.shared.delegator.shutdown(deadline).await;
            }
            // Those that are being made ready are stopped as they begin.
            self.shared.drives.prepared().await;
            let mut left = self.shared.drives.all();
            while !left.is_empty() {
                for drive in &left {
                    // How each drive ended is told by its own events.
                    let _ = drive.finished().await;
                }
                left = self.shared.drives.all();
            }
        };
        if tokio::time::timeout(deadline, all).await.is_err() {
            tracing::warn!("some drives did not end before the deadline");
        }
        drives.len()
    }
}

fn open_workspace(path: Option<&str>) -> Result<Workspace, EngineError> {
    let path = path.ok_or_else(|| {
        EngineError::InvalidParams(
            "missing field workspace: the absolute path of the folder the run is about".to_owned(),
        )
    })?;
    Ok(Workspace::open(Path::new(path))?)
}

fn nothing_selected() -> EngineError {
    EngineError::InvalidParams("give either workflow (with inputs) or runId".to_owned())
}

fn process_environment() -> BTreeMap<String, String> {
    // A variable that is not UTF-8 cannot be named in a policy, and is not passed on.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Runs what may touch the disk away from the threads that serve clients.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(fault) => Err(EngineError::internal(format!("a request failed: {fault}"))),
    }
}
