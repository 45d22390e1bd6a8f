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

/// The drives under way in this process.
#[derive(Default)]
pub(crate) struct Drives {
    live: Mutex<Live>,
    /// How many are being made ready.
    preparing: watch::Sender<usize>,
}

#[derive(Default)]
struct Live {
    /// By run folder.
    drives: HashMap<PathBuf, Drive>,
    /// How all of them are to end, and who said so first, once the process ends.
    closing: Option<(StopMode, String)>,
}

impl Drives {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a drive is being made ready, until what this gives is dropped.
    pub(crate) fn prepare(self: &Arc<Self>) -> Preparing {
        self.preparing.send_modify(|count| *count += 1);
        Preparing(Arc::clone(self))
    }

    /// Resolves when none is being made ready.
    pub(crate) async fn prepared(&self) {
        // The sender lives as long as this.
        let _ = self.preparing.subscribe().wait_for(|count| *count == 0).await;
    }

    /// The one that drives the run of this folder.
    pub(crate) fn get(&self, folder: &Path) -> Option<Drive> {
        self.live().drives.get(folder).cloned()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Drive> {
        self.live().drives.values().cloned().collect()
    }

    /// Who said that all drives are to end, once somebody did.
    pub(crate) fn closing(&self) -> Option<String> {
        self.live().closing.as_ref().map(|(_, by)| by.clone())
    }

    /// Stops all of them, and each that is launched from now on. Gives those that there were.
    pub(crate) fn close(&self, mode: StopMode, by: &str) -> Vec<Drive> {
        let mut live = self.live();
        let first = live.closing.take().map_or_else(|| by.to_owned(), |(_, first)| first);
        live.closing = Some((mode, first));
        let drives: Vec<Drive> = live.drives.values().cloned().collect();
        drop(live);
        drives.iter().for_each(|drive| drive.stop(mode, by));
        drives
    }

    /// Starts a drive on a thread of its own.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn launch(self: &Arc<Self>, job: Job) -> Result<Drive, EngineError> {
        let (drive, begun) = self.begin(job);
        let key = begun.key.clone();
        on_own_thread(move || begun.conduct()).inspect_err(|_| self.forget(&key))?;
        Ok(drive)
    }

    /// Begins a drive, which is then to be conducted by this thread.
    pub(crate) fn begin(self: &Arc<Self>, job: Job) -> (Drive, Begun) {
        let run_id = job.record.state().run_id.clone();
        let key = job.record.paths.dir.clone();
        let (end, ended) = watch::channel(None);
        let drive = Drive { run_id, sender: job.sender.clone(), state: job.record.shared(), ended };
        let driver = Driver::new(job);
        let mut live = self.live();
        live.drives.insert(key.clone(), drive.clone());
        // It was asked for before the process began to end, and was being made ready meanwhile.
        if let Some((mode, by)) = &live.closing {
            drive.stop(*mode, by);
        }
        drop(live);
        let begun = Begun { driver, run_id: drive.run_id.clone(), drives: Arc::clone(self), key, end };
        (drive, begun)
    }

    fn forget(&self, folder: &Path) {
        self.live().drives.remove(folder);
    }
}

/// A drive that is being made ready.
pub(crate) struct Preparing(Arc<Drives>);

impl Drop for Preparing {
    fn drop(&mut self) {
        self.0.preparing.send_modify(|count| *count -= 1);
    }
}

/// A drive that has begun.
#[must_use = "it waits to be conducted"]
pub(crate) struct Begun {
    driver: Driver,
    run_id: RunId,
    drives: Arc<Drives>,
    key: PathBuf,
    end: watch::Sender<Option<Ended>>,
}

impl Begun {
    /// Drives to the end, and tells it.
    pub(crate) fn conduct(self) {
        let Self { driver, run_id, drives, key, end } = self;
        // The driver sees to its own panics; this is for one while it did.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.run()));
        // Forgotten before its end is told: who hears of the end may drive the run again at once.
        drives.forget(&key);
        end.send_replace(Some(outcome.unwrap_or_else(|_| Err(died(&run_id))).map(Arc::new)));
    }
}

/// Has a thread do a drive's work.
///
/// # Errors
/// When there is none to be had.
pub(crate) fn on_own_thread(work: impl FnOnce() + Send + 'static) -> Result<(), EngineError> {
    match std::thread::Builder::new().name("drive".to_owned()).spawn(work) {
        Ok(_) => Ok(()),
        Err(fault) => Err(EngineError::internal(format!("no thread can be started for the drive: {fault}"))),
    }
}
