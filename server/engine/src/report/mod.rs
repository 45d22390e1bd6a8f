//! The report of a run: what was found, what it stands on, what parked and why, who ran when.
//!
//! Rendering is pure, so the same record always gives the same report.

mod facts;
pub mod html;
pub mod markdown;

use std::path::Path;

use flowdrive_protocol::ids::TaskId;

use crate::model::state::RunState;
use crate::record::Record;
use crate::store::worker::{ResultFile, glance_at_result};
use crate::store::{RunPaths, StoreError, replace_file};

/// Whether both forms are there.
pub(crate) fn exists(paths: &RunPaths) -> bool {
    [paths.report.clone(), paths.report.with_extension("html")].iter().all(|path| path.is_file())
}

/// Writes `report.md` and `report.html` of a run.
///
/// # Errors
/// What the disk refuses.
pub(crate) fn write(record: &Record) -> Result<(), StoreError> {
    let state = record.state();
    let altered = altered(&state, &record.paths.dir);
    let (markdown, page) = (markdown::render(&state, &altered), html::render(&state, &altered));
    drop(state);
    replace_file(&record.paths.report, markdown.as_bytes(), false)?;
    replace_file(&record.paths.report.with_extension("html"), page.as_bytes(), false)
}

/// The tasks whose result files are no longer what was accepted, in task order: a report that links to them has to say so.
fn altered(state: &RunState, run: &Path) -> Vec<TaskId> {
    let accepted = facts::ordered(state).filter_map(|task| Some((task, task.accepted.as_ref()?)));
    let altered = accepted.filter(|(task, result)| {
        let path = run.join(&result.path);
        glance_at_result(&path, &result.digest, result.bytes, task.accepted_at) != ResultFile::AsAccepted
    });
    altered.map(|(task, _)| task.id.clone()).collect()
}
