//! The commit that ends a run.

use flowdrive_protocol::feedback::FeedbackStatus;
use flowdrive_protocol::ids::CommitId;
use flowdrive_protocol::outcome::{Evidence, EvidenceKind};
use flowdrive_protocol::run::{StepAction, StepStatus};
use flowdrive_protocol::time::Timestamp;

use super::Driver;
use super::judge::OnDisk;
use crate::EngineError;
use crate::accept::{FileLookup, Files};
use crate::decide::feedback;
use crate::decide::finish::step;
use crate::model::journal::{Commit, JournalEvent, TERMINAL_REASON};
use crate::model::state::RunState;

const UNRESOLVABLE: &str = "commit-verifier-evidence-unresolvable";

impl Driver {
    /// Commits the run, gated by its verdict where it has one. False when the gate refused: a feedback record then
    /// says why, one however often the run is resumed.
    pub(super) fn commit(&mut self) -> Result<bool, EngineError> {
        let state = self.job.record.state();
        let verdict = verdict_task(&state);
        let verifier = verdict.and_then(|place| state.verifier_node(place));
        let missing: Vec<String> = verdict
            .and_then(|place| state.tasks[place].accepted.as_ref())
            .map(|result| unresolvable(&result.evidence, &OnDisk(&self.job.workspace)))
            .unwrap_or_default();
        let number = state.commits.len() + 1;
        let refusals: Vec<_> = state.feedback.values().filter(|record| record.code == UNRESOLVABLE).collect();
        let known = refusals.iter().any(|record| record.status == FeedbackStatus::Open);
        let name = format!("commit-{:04}", refusals.len() + 1);
        let run_id = state.run_id.clone();
        drop(state);

        if !missing.is_empty() {
            let message = format!(
                "the verdict cites files that are no longer there: {}. Restore them, or retry the verdict",
                missing.join(", ")
            );
            if !known {
                let fault = feedback::Fault {
                    code: UNRESOLVABLE,
                    message: &message,
                    stage: Some("commit"),
                    source: None,
                    task: None,
                };
                let record = feedback::open(&run_id, &fault, &name, Timestamp::now())
                    .ok_or_else(|| EngineError::internal("no feedback id can be made for the commit"))?;
                self.job.record.record(&JournalEvent::FeedbackOpened { record: Box::new(record) })?;
            }
            self.refused_commit = Some(message);
            return Ok(false);
        }

        let id =
            CommitId::new(format!("state-{number:04}")).map_err(|fault| EngineError::internal(fault.to_string()))?;
        self.job.record.record(&JournalEvent::Committed {
            commit: Commit {
                id: id.clone(),
                reason: TERMINAL_REASON.to_owned(),
                verifier,
                git_head: crate::git::head(self.job.workspace.root()),
            },
        })?;
        let mut made = step(&self.job.record.state(), StepAction::Commit, StepStatus::Complete);
        made.reason = Some(format!("committed {id}"));
        self.steps.push((usize::MAX, made));
        self.committed = true;
        Ok(true)
    }
}

/// The completed verdict or synthesis task with evidence behind it.
pub(super) fn verdict_task(state: &RunState) -> Option<usize> {
    state.tasks.iter().position(|task| {
        let id = task.id.as_str().to_ascii_lowercase();
        let verdict = ["verdict:", "verdict/", "synthesis:", "synthesis/"].iter().any(|prefix| id.starts_with(prefix));
        verdict && task.accepted.as_ref().is_some_and(|result| result.verified)
    })
}

/// The files cited that are gone.
fn unresolvable(evidence: &[Evidence], files: &dyn Files) -> Vec<String> {
    let cited = evidence.iter().filter(|evidence| evidence.kind == EvidenceKind::File);
    let gone = cited.filter(|evidence| {
        let path = evidence.path.as_deref().unwrap_or_default();
        matches!(files.read(path), FileLookup::Missing | FileLookup::Outside)
    });
    gone.map(|evidence| evidence.locator.clone()).collect()
}
