//! Accepted results whose files were lost: they are not flushed one by one, and the journal has all but the longest.

use std::collections::{BTreeMap, BTreeSet};

use flowdrive_protocol::ids::{RunId, TaskId};

use crate::model::journal::JournalEvent;
use crate::model::state::RunState;
use crate::store::canonical::sha256_hex;
use crate::store::worker::{self, Fate, ResultCheck};
use crate::store::{RunPaths, StoreError, read_entries_with};

/// What became of the accepted results' files since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFiles {
    Untouched,
    /// Or lost: the report may have to say so, or no longer.
    Touched,
}

/// Writes accepted results whose files are gone (they are not flushed one by one) anew from the journal, which carries
/// all but the longest.
pub(super) fn restore_lost_results(
    paths: &RunPaths,
    run_id: &RunId,
    state: &RunState,
) -> Result<ResultFiles, StoreError> {
    let check = ResultCheck::new(paths);
    let mut lost: BTreeSet<&TaskId> = BTreeSet::new();
    let mut touched = false;
    for task in &state.tasks {
        let Some(result) = &task.accepted else { continue };
        match check.fate(result, task.accepted_at) {
            Fate::Untouched => {}
            Fate::Touched => touched = true,
            Fate::Lost => {
                lost.insert(&task.id);
            }
        }
    }
    if lost.is_empty() {
        return Ok(if touched { ResultFiles::Touched } else { ResultFiles::Untouched });
    }
    let mut texts: BTreeMap<TaskId, String> = BTreeMap::new();
    read_entries_with(paths, run_id, None, &mut |entry| match entry.map(|entry| entry.event) {
        Some(JournalEvent::TaskAccepted { task, result, text: Some(text), .. })
            if lost.contains(&task) && sha256_hex(&text) == result.digest =>
        {
            texts.insert(task, text);
        }
        Some(_) => {}
        None => texts.clear(),
    })?;
    for (task, text) in &texts {
        tracing::warn!(%task, "the file of an accepted result was lost; writing it anew from the journal");
        worker::publish_result(paths, task, text, false)?;
    }
    Ok(ResultFiles::Touched)
}
