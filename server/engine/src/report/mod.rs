//! The report of a run: what was found, what it stands on, what parked and why, who ran when.
//!
//! Rendering is pure, so the same record always gives the same report.

mod facts;
pub mod html;
pub mod markdown;
mod page;

use std::path::Path;

use flowdrive_protocol::ids::TaskId;

use crate::decide::feedback;
use crate::model::state::RunState;
use crate::record::{Record, ReportDigests};
use crate::store::worker::{ResultFile, glance_at_result, look_at_result};
use crate::store::{RunPaths, StoreError, TEMPORARY_PREFIX, replace_hashed, replace_via, safe_name};

/// Whether both forms are there as they were written.
pub(crate) fn is_in_place(paths: &RunPaths, written: &ReportDigests) -> bool {
    let holds = |path: &Path, digest: &str| look_at_result(path, digest) == ResultFile::AsAccepted;
    holds(&paths.report, &written.markdown) && holds(&paths.report.with_extension("html"), &written.page)
}

/// Writes `report.md` and `report.html` of a run, and the correction tasks of its feedback.
///
/// # Errors
/// What the disk refuses.
pub(crate) fn write(record: &mut Record) -> Result<(), StoreError> {
    let written = save(TEMPORARY_PREFIX, &record.state(), &record.paths)?;
    record.set_report(written);
    Ok(())
}

/// Writes everything of a run's folder that is there for people, for one who has no lock. Whoever opens the run sweeps up
/// what a dead writer left, and must not take this for it.
///
/// # Errors
/// What the disk refuses.
pub(crate) fn save_beside(state: &RunState, paths: &RunPaths) -> Result<(), StoreError> {
    save(".report-", state, paths).map(drop)
}

/// `prefix`: how the names of temporary files begin.
fn save(prefix: &str, state: &RunState, paths: &RunPaths) -> Result<ReportDigests, StoreError> {
    paths.require_in_place()?;
    let altered = altered(state, &paths.dir);
    let markdown = replace_hashed(prefix, &paths.report, &mut |out| markdown::render(state, &altered, out))?;
    let page =
        replace_hashed(prefix, &paths.report.with_extension("html"), &mut |out| html::render(state, &altered, out))?;
    save_corrections(prefix, &corrections(state), paths)?;
    Ok(ReportDigests { markdown, page })
}

/// Writes the correction tasks of a run's feedback records.
///
/// # Errors
/// What the disk refuses.
pub(crate) fn write_corrections(record: &Record) -> Result<(), StoreError> {
    let corrections = corrections(&record.state());
    save_corrections(TEMPORARY_PREFIX, &corrections, &record.paths)
}

fn corrections(state: &RunState) -> Vec<(String, String)> {
    let tasked = state.feedback.values().filter(|record| record.correction_task_id.is_some());
    tasked
        .map(|tasked| (format!("{}.md", safe_name(tasked.id.as_str())), feedback::correction(state, tasked)))
        .collect()
}

fn save_corrections(prefix: &str, corrections: &[(String, String)], paths: &RunPaths) -> Result<(), StoreError> {
    paths.require_in_place()?;
    corrections.iter().try_for_each(|(name, text)| replace_via(prefix, &paths.dir.join(name), text.as_bytes(), false))
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
