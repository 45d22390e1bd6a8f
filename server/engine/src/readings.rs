//! States of runs that nobody in this process drives, kept from one request to the next: a client that draws a tree
//! asks for the same run many times. A state is good as long as its journal has not grown.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use flowdrive_protocol::ids::RunId;

use crate::model::state::RunState;
use crate::record;
use crate::store::{RunPaths, StoreError};

/// States kept at most; each can be some megabytes.
const MOST: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    length: u64,
    modified: Option<SystemTime>,
}

struct Kept {
    mark: Mark,
    used: u64,
    state: Arc<RunState>,
}

/// The states kept.
#[derive(Default)]
pub(crate) struct Readings(Mutex<(u64, HashMap<PathBuf, Kept>)>);

impl Readings {
    /// The state of a run, read from the disk unless it is known already.
    pub(crate) fn state(&self, paths: &RunPaths, id: &RunId) -> Result<Arc<RunState>, StoreError> {
        // Looked at before reading: what is written meanwhile makes the mark old, never the state.
        let mark = mark(paths);
        if let Some(state) = mark.and_then(|mark| self.kept(paths, mark)) {
            return Ok(state);
        }
        let state = Arc::new(record::read_state(paths, id)?);
        if let Some(mark) = mark {
            self.keep(paths, mark, &state);
        }
        Ok(state)
    }

    fn kept(&self, paths: &RunPaths, mark: Mark) -> Option<Arc<RunState>> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, kept) = &mut *guard;
        let found = kept.get_mut(&paths.dir).filter(|found| found.mark == mark)?;
        *clock += 1;
        found.used = *clock;
        Some(Arc::clone(&found.state))
    }

    fn keep(&self, paths: &RunPaths, mark: Mark, state: &Arc<RunState>) {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, kept) = &mut *guard;
        *clock += 1;
        kept.insert(paths.dir.clone(), Kept { mark, used: *clock, state: Arc::clone(state) });
        if kept.len() > MOST
            && let Some(oldest) = kept.iter().min_by_key(|(_, found)| found.used).map(|(path, _)| path.clone())
        {
            kept.remove(&oldest);
        }
    }
}

fn mark(paths: &RunPaths) -> Option<Mark> {
    let found = std::fs::symlink_metadata(&paths.journal).ok()?;
    Some(Mark { length: found.len(), modified: found.modified().ok() })
}
