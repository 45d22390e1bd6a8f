//! Closing a feedback record, by whoever holds the run's record: its drive, or the engine when nobody drives it.

use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::outcome::Evidence;

use crate::EngineError;
use crate::accept::evidence;
use crate::decide::feedback;
use crate::model::journal::{Closing, JournalEvent};
use crate::record::Record;

/// Closes the record, and gives it as it is then. Durable at the next [`Record::sync`]. Asking twice for the same
/// changes nothing the second time.
///
/// # Errors
/// `feedback-unknown` and `resolution-refused`; what the disk refuses.
pub(crate) fn resolve(record: &mut Record, params: &ResolveFeedbackParams) -> Result<FeedbackRecord, EngineError> {
    let id = &params.feedback_id;
    let due = feedback::check(&record.state(), params)?;
    if due.is_some() {
        let locators = params.evidence.iter().map(String::as_str);
        let evidence: Vec<Evidence> = locators.map(evidence::unresolved).collect();
        record.record(&JournalEvent::FeedbackClosed {
            feedback: id.clone(),
            closing: Box::new(Closing {
                resolution: params.resolution,
                node: params.node_id.clone(),
                message: params.message.clone(),
                evidence,
                artifacts: params.artifacts.clone(),
                guidance: params.guidance.clone(),
            }),
        })?;
    }
    let state = record.state();
    let closed = state.feedback.get(id.as_str()).cloned();
    closed.ok_or_else(|| EngineError::internal(format!("feedback {id} vanished while it was closed")))
}
