//! What closing a feedback record does to it and to its task.

use flowdrive_protocol::feedback::{FeedbackStatus, Resolution};
use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::time::Timestamp;

use super::{FoldError, RunState};
use crate::model::journal::Closing;

impl RunState {
    pub(super) fn close_feedback(&mut self, id: &str, closing: &Closing, at: Timestamp) -> Result<(), FoldError> {
        let record = self
            .feedback
            .get_mut(id)
            .ok_or_else(|| FoldError::Unknown { what: "feedback record", id: id.to_owned() })?;
        // Closed in just that way already: it is told more. What it was told before stands where nothing is said anew.
        let amends = record.resolution == Some(closing.resolution) && record.status == closing.status();
        let told = closing.guidance.as_ref().filter(|_| amends && closing.guidance != record.guidance).cloned();
        let closed_at = record.resolved_at.filter(|_| amends).unwrap_or(at);
        record.status = closing.status();
        record.updated_at = at;
        record.resolution = Some(closing.resolution);
        record.resolved_by_node_id = closing.node.clone();
        record.resolved_at = (record.status == FeedbackStatus::Resolved).then_some(closed_at);
        record.resolution_note = closing.message.clone().or(record.resolution_note.take());
        record.guidance = closing.guidance.clone().or(record.guidance.take().filter(|_| amends));
        if record.status == FeedbackStatus::Tasked {
            record.correction_task_id = TaskId::new(format!("feedback:{id}")).ok();
        }
        for evidence in &closing.evidence {
            if !record.evidence.iter().any(|known| known.locator == evidence.locator) {
                record.evidence.push(evidence.clone());
            }
        }
        for artifact in &closing.artifacts {
            if !record.artifacts.contains(artifact) {
                record.artifacts.push(artifact.clone());
            }
        }
        let task = record.task_id.clone();
        let Some(place) = task.and_then(|task| self.task_by_id(&task)) else { return Ok(()) };
        match (closing.resolution, self.tasks[place].status) {
            (Resolution::Retry, TaskStatus::Failed) => {
                let state = &mut self.tasks[place];
                (state.failures, state.transient, state.not_before) = (0, 0, None);
                state.guidance.clone_from(&closing.guidance);
                self.set_status(place, TaskStatus::Pending);
                self.ended = None;
            }
            // The attempt it is for has not begun.
            (Resolution::Retry, TaskStatus::Pending) if told.is_some() => self.tasks[place].guidance = told,
            _ => {}
        }
        Ok(())
    }
}
