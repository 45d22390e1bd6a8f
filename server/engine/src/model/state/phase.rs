//! A phase: its tasks, and counts of them that are kept along the way.

use flowdrive_protocol::ids::PhaseId;
use flowdrive_protocol::run::{PhaseStatus, TaskStatus};
use flowdrive_protocol::workflow::PhaseMode;
use serde::{Deserialize, Serialize};

use super::TaskState;

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseState {
    /// Its id.
    pub id: PhaseId,
    /// Its name for people.
    pub title: String,
    /// How its tasks run.
    pub mode: PhaseMode,
    /// Places of its tasks in [`RunState::tasks`].
    pub tasks: Vec<usize>,
    /// Whether `PhaseStarted` was recorded.
    #[serde(default)]
    pub started: bool,
    /// Whether `PhaseFinished` was recorded.
    #[serde(default)]
    pub finished: bool,
    /// For a phase that loops, and each of its later rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looping: Option<LoopState>,
    /// Tasks accepted. Not stored: made anew at load.
    #[serde(skip)]
    pub(super) completed: u32,
    /// Tasks that wait or run. Not stored: made anew at load.
    #[serde(skip)]
    pub(super) open: u32,
    /// Tasks parked. Not stored: made anew at load.
    #[serde(skip)]
    pub(super) parked: u32,
    /// Every task before this one in `tasks` is accepted or parked, so that looking for the next one costs the same in
    /// a phase of ten thousand. Not stored: made anew at load.
    #[serde(skip)]
    pub(super) settled: usize,
}

/// Where a loop stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopState {
    /// The phase the loop is declared on.
    pub origin: PhaseId,
    /// This phase's round, from 1.
    pub round: u32,
    /// Whether the decision after this round was made.
    pub decided: bool,
}

impl PhaseState {
    /// Tasks accepted.
    #[must_use]
    pub const fn completed(&self) -> u32 {
        self.completed
    }

    /// Tasks that wait or run.
    #[must_use]
    pub const fn open(&self) -> u32 {
        self.open
    }

    /// Tasks parked.
    #[must_use]
    pub const fn parked(&self) -> u32 {
        self.parked
    }

    /// Places of its tasks from the first that is neither accepted nor parked on.
    #[must_use]
    pub fn unsettled(&self) -> &[usize] {
        &self.tasks[self.settled..]
    }

    pub(super) fn count(&mut self, status: TaskStatus) -> &mut u32 {
        match status {
            TaskStatus::Completed => &mut self.completed,
            TaskStatus::Failed => &mut self.parked,
            TaskStatus::Pending | TaskStatus::Running => &mut self.open,
        }
    }

    pub(super) fn advance(&mut self, tasks: &[TaskState]) {
        let done = |place: &usize| matches!(tasks[*place].status, TaskStatus::Completed | TaskStatus::Failed);
        self.settled += self.tasks[self.settled..].iter().take_while(|place| done(place)).count();
    }

    /// Whether all of its tasks are accepted. True of a phase without tasks.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.completed as usize == self.tasks.len()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> PhaseStatus {
        if !self.tasks.is_empty() && self.is_complete() {
            PhaseStatus::Completed
        } else if self.started || self.completed > 0 {
            PhaseStatus::Running
        } else {
            PhaseStatus::Pending
        }
    }
}
