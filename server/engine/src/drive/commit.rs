//! The commit that ends a run.

use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackStatus};
use flowdrive_protocol::ids::CommitId;
use flowdrive_protocol::outcome::{Evidence, EvidenceKind};
use flowdrive_protocol::run::{StepAction, StepStatus};
use flowdrive_protocol::time::Timestamp;

use super::Driver;
use super::judge::OnDisk;
use crate::EngineError;
use crate::accept::{FileLookup, Files};
use crate::decide::feedback::{self, COMMIT_REFUSALS, COMMIT_RESULT_CHANGED, COMMIT_UNRESOLVABLE};
use crate::decide::finish::step;
use crate::model::journal::{AcceptedResult, Commit, JournalEvent, TERMINAL_REASON};
use crate::model::state::RunState;
use crate::store::worker::{ResultFile, look_at_result};

impl Driver {
    /// Commits the run, gated by its verdict where it has one. False when the gate refused: a feedback record then
    /// says why, one however often the run is resumed.
    pub(super) fn commit(&mut self) -> Result<bool, EngineError> {
        // Agents run as the same user. A run is not called complete over a record that would not verify.
        self.job.record.check()?;
        let state = self.job.record.state();
        let verdict = verdict_task(&state);
        let verifier = verdict.and_then(|place| state.verifier_node(place));
        let refusal = self.refusal(&state, verdict);
        let number = state.commits.len() + 1;
        let of_gate = |record: &&FeedbackRecord| COMMIT_REFUSALS.contains(&record.code.as_str());
        let refusals: Vec<_> = state.feedback.values().filter(of_gate).collect();
        let known =
            |code: &str| refusals.iter().any(|record| record.code == code && record.status != FeedbackStatus::Resolved);
        let opens = refusal.as_ref().filter(|(code, _)| !known(code)).map(|(code, message)| {
            let fault = feedback::Fault { code, message, stage: Some("commit"), source: None, task: None };
            let name = format!("commit-{:04}", refusals.len() + 1);
            feedback::open(&state.run_id, &fault, &name, Timestamp::now())
                .ok_or_else(|| EngineError::internal("no feedback id can be made for the commit"))
        });
        drop(state);

        if let Some((_, message)) = refusal {
            if let Some(record) = opens.transpose()? {
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

impl Driver {
    /// Why the run may not be committed: the code and the words.
    fn refusal(&self, state: &RunState, verdict: Option<usize>) -> Option<(&'static str, String)> {
        let dir = &self.job.record.paths.dir;
        let intact =
            |result: &AcceptedResult| look_at_result(&dir.join(&result.path), &result.digest) == ResultFile::AsAccepted;
        let accepted = state.tasks.iter().filter_map(|task| Some((task, task.accepted.as_ref()?)));
        let changed: Vec<String> =
            accepted.filter(|(_, result)| !intact(result)).map(|(task, _)| task.id.to_string()).collect();
        if !changed.is_empty() {
            let message = format!(
                "results are no longer what was accepted: {}. `flowdrive verify {}` names the files; delete a changed one \
                 and resume, and it is restored from the journal",
                listed(&changed),
                state.run_id
            );
            return Some((COMMIT_RESULT_CHANGED, message));
        }
        let result = verdict.and_then(|place| state.tasks[place].accepted.as_ref())?;
        let missing = unresolvable(&result.evidence, &OnDisk(&self.job.workspace));
        (!missing.is_empty()).then(|| {
            let message = format!(
                "the verdict cites files that are no longer there: {}. Restore them, or retry the verdict",
                missing.join(", ")
            );
            (COMMIT_UNRESOLVABLE, message)
        })
    }
}

/// The first few of many.
fn listed(ids: &[String]) -> String {
    const FEW: usize = 8;
    match ids.len() {
        0..=FEW => ids.join(", "),
        all => format!("{} and {} more", ids[..FEW].join(", "), all - FEW),
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
