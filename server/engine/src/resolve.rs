//! Closing a feedback record, by whoever holds the run's record: its drive, or the engine when nobody drives it.

use flowdrive_protocol::feedback::{FeedbackRecord, Resolution};
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::outcome::{Evidence, EvidenceKind};

use crate::EngineError;
use crate::accept::evidence::{Locator, classify};
use crate::decide::feedback;
use crate::model::journal::{Closing, JournalEvent};
use crate::record::Record;
use crate::report;
use crate::workflow::NUL;

/// Closes the record, and those named with it, and gives it as it is then. Durable at the next [`Record::sync`]. Asking
/// twice for the same changes nothing the second time.
///
/// # Errors
/// `feedback-unknown` and `resolution-refused`; what the disk refuses.
pub(crate) fn resolve(record: &mut Record, params: &ResolveFeedbackParams) -> Result<FeedbackRecord, EngineError> {
    if params.guidance.as_ref().is_some_and(|guidance| guidance.contains('\0')) {
        return Err(EngineError::InvalidParams(format!("guidance {NUL}")));
    }
    let due = feedback::due(&record.state(), params)?;
    if let Some((first, also)) = due.split_first() {
        let locators = params.evidence.iter().map(String::as_str);
        let evidence: Vec<Evidence> = locators.map(brought).collect();
        record.record(&JournalEvent::FeedbackClosed {
            feedback: first.clone(),
            also: also.to_vec(),
            closing: Box::new(Closing {
                resolution: params.resolution,
                node: params.node_id.clone(),
                message: params.message.clone(),
                evidence,
                artifacts: params.artifacts.clone(),
                guidance: params.guidance.clone(),
            }),
        })?;
        if params.resolution == Resolution::Tasked {
            report::write_corrections(record)?;
        }
    }
    let id = &params.feedback_id;
    let state = record.state();
    let closed = state.feedback.get(id.as_str()).cloned();
    closed.ok_or_else(|| EngineError::internal(format!("feedback {id} vanished while it was closed")))
}

/// A locator that a person brings forward. Recorded as it is: the person vouches for it.
fn brought(locator: &str) -> Evidence {
    let (kind, path, lines) = match classify(locator) {
        Locator::File { path, lines } => (EvidenceKind::File, Some(path), lines),
        Locator::Url => (EvidenceKind::Url, None, None),
        Locator::Token => (EvidenceKind::Token, None, None),
        Locator::Ungrounded(_) => (EvidenceKind::Ungrounded, None, None),
    };
    Evidence {
        locator: locator.to_owned(),
        kind,
        path,
        line: lines.map(|(first, _)| first),
        end_line: lines.map(|(_, last)| last),
        digest: None,
        text: None,
    }
}
