//! What was read of runs that nobody in this process drives, kept from one request to the next: a client that draws a
//! tree asks for the same run many times, and one that draws a list for all of them. It is good as long as the run's
//! journal has not grown.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::run::RunSummary;

use crate::model::state::RunState;
use crate::store::{RunPaths, StoreError};
use crate::{record, view};

/// States kept at most; each can be some megabytes.
const MOST_STATES: usize = 8;

/// Summaries kept at most; each is some hundred bytes.
const MOST_SUMMARIES: usize = 5_000;

/// What was read.
pub(crate) struct Readings {
    states: Shelf<Arc<RunState>>,
    summaries: Shelf<RunSummary>,
}

impl Default for Readings {
    fn default() -> Self {
        Self { states: Shelf::of(MOST_STATES), summaries: Shelf::of(MOST_SUMMARIES) }
    }
}

impl Readings {
    /// The state of a run, read from the disk unless it is known already.
    pub(crate) fn state(&self, paths: &RunPaths, id: &RunId) -> Result<Arc<RunState>, StoreError> {
        self.states.get_or_read(paths, || Ok(Arc::new(record::read_state(paths, id)?)))
    }

    /// Lets go of a run's state, which is to be driven: what was read would soon be old, and its drive keeps its own.
    pub(crate) fn forget(&self, paths: &RunPaths) {
        self.states.forget(&paths.dir);
    }

    /// A run's line in a list, as of a moment when nobody drove it.
    pub(crate) fn summary(&self, paths: &RunPaths, id: &RunId) -> Result<RunSummary, StoreError> {
        self.summaries.get_or_read(paths, || match self.states.kept(&paths.dir, mark(paths)) {
            Some(state) => Ok(view::summary(&state, false)),
            // Not kept as a state: a list of a thousand runs would drive out the few that are looked at.
            None => Ok(view::summary(&record::read_state(paths, id)?, false)),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    length: u64,
    modified: Option<SystemTime>,
}

fn mark(paths: &RunPaths) -> Option<Mark> {
    let found = std::fs::symlink_metadata(&paths.journal).ok()?;
    Some(Mark { length: found.len(), modified: found.modified().ok() })
}

/// So many values, by the run's folder; the one unused for longest makes room for another.
struct Shelf<T> {
    most: usize,
    kept: Mutex<(u64, HashMap<PathBuf, Kept<T>>)>,
}

struct Kept<T> {
    mark: Mark,
    used: u64,
    value: T,
}

impl<T: Clone> Shelf<T> {
    fn of(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    fn get_or_read(&self, paths: &RunPaths, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        // Looked at before reading: what is written meanwhile makes the mark old, never the value.
        let mark = mark(paths);
        if let Some(value) = self.kept(&paths.dir, mark) {
            return Ok(value);
        }
        let value = read()?;
        if let Some(mark) = mark {
            self.keep(&paths.dir, mark, value.clone());
        }
        Ok(value)
    }

    fn kept(&self, dir: &Path, mark: Option<Mark>) -> Option<T> {
        let mark = mark?;
        let mut guard = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, kept) = &mut *guard;
        let found = kept.get_mut(dir).filter(|found| found.mark == mark)?;
        *clock += 1;
        found.used = *clock;
        Some(found.value.clone())
    }

    fn forget(&self, dir: &Path) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).1.remove(dir);
    }

    fn keep(&self, dir: &Path, mark: Mark, value: T) {
        let mut guard = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (clock, kept) = &mut *guard;
        *clock += 1;
        kept.insert(dir.to_owned(), Kept { mark, used: *clock, value });
        if kept.len() > self.most
            && let Some(oldest) = kept.iter().min_by_key(|(_, found)| found.used).map(|(path, _)| path.clone())
        {
            kept.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_unused_for_longest_makes_room_and_a_grown_journal_makes_a_value_old() {
        let shelf = Shelf::of(2);
        let mark = |length| Mark { length, modified: None };
        shelf.keep(Path::new("a"), mark(1), 1);
        shelf.keep(Path::new("b"), mark(1), 2);
        assert_eq!(shelf.kept(Path::new("a"), Some(mark(1))), Some(1));
        shelf.keep(Path::new("c"), mark(1), 3);
        assert_eq!(shelf.kept(Path::new("b"), Some(mark(1))), None);
        assert_eq!(shelf.kept(Path::new("a"), Some(mark(1))), Some(1));
        assert_eq!(shelf.kept(Path::new("a"), Some(mark(2))), None);
        assert_eq!(shelf.kept(Path::new("a"), None), None);
    }
}
