//! A drive as others hold it: to wait for its end, to stop it, to look at its state.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::run::{DriveResult, StopMode};
use tokio::sync::watch;

use super::{Driver, Job, Message};
use crate::EngineError;
use crate::model::state::RunState;

/// How a drive ended. Shared: the steps of a large run are megabytes.
type Ended = Result<Arc<DriveResult>, EngineError>;

/// A drive under way, or one that has ended. Dropping it ends nothing.
#[derive(Clone)]
pub struct Drive {
    /// The run it drives.
    pub run_id: RunId,
    pub(crate) sender: mpsc::Sender<Message>,
    pub(crate) state: Arc<RwLock<RunState>>,
    ended: watch::Receiver<Option<Ended>>,
}

impl Drive {
    /// Waits for the end. Can be called by several.
    ///
    /// # Errors
    /// The fault that ended the drive.
    pub async fn finished(&self) -> Result<Arc<DriveResult>, EngineError> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(value) => value.clone().unwrap_or_else(|| Err(died(&self.run_id))),
            Err(_) => Err(died(&self.run_id)),
        }
    }

    /// Asks for a stop; `by` is recorded, such as `client` or `SIGTERM`.
    pub fn stop(&self, mode: StopMode, by: &str) {
        // A drive that has ended needs no stop.
        let _ = self.sender.send(Message::Stop { mode, by: by.to_owned() });
    }
}

/// A drive that panicked.
pub(super) fn died(run: &RunId) -> EngineError {
    EngineError::internal(format!(
        "the drive of {run} ended without a result, which is a defect of Flowdrive (the log says where); resume it"
    ))
}

/// The drives under way in this process, by run folder.
#[derive(Default)]
pub(crate) struct Drives(Mutex<HashMap<PathBuf, Drive>>);

impl Drives {
    fn map(&self) -> MutexGuard<'_, HashMap<PathBuf, Drive>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that drives the run of this folder.
    pub(crate) fn get(&self, folder: &Path) -> Option<Drive> {
        self.map().get(folder).cloned()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Drive> {
        self.map().values().cloned().collect()
    }

    /// Starts a drive on a thread of its own.
    pub(crate) fn launch(self: &Arc<Self>, job: Job) -> Result<Drive, EngineError> {
        let run_id = job.record.state().run_id.clone();
        let key = job.record.paths.dir.clone();
        let (end, ended) = watch::channel(None);
        let drive = Drive { run_id: run_id.clone(), sender: job.sender.clone(), state: job.record.shared(), ended };
        let driver = Driver::new(job);
        self.map().insert(key.clone(), drive.clone());
        let spawned = std::thread::Builder::new().name("drive".to_owned()).spawn({
            let (drives, key) = (Arc::clone(self), key.clone());
            move || {
                // The driver sees to its own panics; this is for one while it did.
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.run()));
                // Forgotten before its end is told: who hears of the end may drive the run again at once.
                drives.map().remove(&key);
                end.send_replace(Some(outcome.unwrap_or_else(|_| Err(died(&run_id))).map(Arc::new)));
            }
        });
        match spawned {
            Ok(_) => Ok(drive),
            Err(fault) => {
                self.map().remove(&key);
                Err(EngineError::internal(format!("no thread can be started for the drive: {fault}")))
            }
        }
    }
}
