//! The report of a run: what was found, what it stands on, what parked and why, who ran when.
//!
//! Rendering is pure, so the same state always gives the same report.

mod markdown;

use crate::record::Record;
use crate::store::{StoreError, replace_file};

pub use markdown::render;

/// Writes `report.md` of a run.
///
/// # Errors
/// What the disk refuses.
pub(crate) fn write(record: &Record) -> Result<(), StoreError> {
    let text = render(&record.state());
    replace_file(&record.paths.report, text.as_bytes(), false)
}
