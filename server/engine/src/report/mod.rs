//! The report of a run: what was found, what it stands on, what parked and why, who ran when.
//!
//! Rendering is pure, so the same record always gives the same report.

mod facts;
pub mod html;
pub mod markdown;

use crate::record::Record;
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
    let (markdown, page) = (markdown::render(&state), html::render(&state));
    drop(state);
    replace_file(&record.paths.report, markdown.as_bytes(), false)?;
    replace_file(&record.paths.report.with_extension("html"), page.as_bytes(), false)
}
