//! Agents that a dead server left running. A drive ends those of its own run before it goes on; here they are found in all
//! runs of a workspace that nobody drives.
//!
//! Must not: touch a run that is being driven, hold up one who wants to drive it, or write to a record.

use flowdrive_protocol::ids::{RunId, TaskId};

use crate::delegate::Delegator;
use crate::model::outcome::ProcessIdentity;
use crate::record::read_state;
use crate::store::{RunPaths, StoreError, Workspace, is_locked, lock};

/// Runs looked at, the newest first: older ones have no agent that still runs.
const MOST_RUNS: usize = 200;

/// Which runs are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    /// All; each is read.
    All,
    /// Those whose last drive did not let go of its lock itself. That is seen without reading them; where a disk was too full
    /// for a drive to say who it is, it is not.
    Abandoned,
}

/// A run nobody drives, with attempts that never ended.
struct Abandoned {
    run: RunId,
    attempts: Vec<Left>,
}

/// An attempt that never ended, and what is known of its agent.
struct Left {
    task: TaskId,
    process: Option<ProcessIdentity>,
    marker: Option<String>,
}

/// Ends what dead servers left in a workspace. Gives the run and the task of each agent that was still there.
///
/// # Errors
/// What keeps the runs from being listed.
pub(crate) async fn end_all(
    workspace: Workspace,
    among: Among,
    delegator: &Delegator,
) -> Result<Vec<(RunId, TaskId)>, StoreError> {
    let found = tokio::task::spawn_blocking(move || abandoned(&workspace, among)).await;
    let mut ended = Vec::new();
    for run in found.unwrap_or_else(|_| Ok(Vec::new()))? {
        for left in run.attempts {
            if delegator.end_left(left.process.as_ref(), left.marker.as_deref()).await {
                ended.push((run.run.clone(), left.task));
            }
        }
    }
    Ok(ended)
}

fn abandoned(workspace: &Workspace, among: Among) -> Result<Vec<Abandoned>, StoreError> {
    let ids = workspace.list_runs()?.into_iter().filter_map(|listing| listing.id).take(MOST_RUNS);
    let look = |run: RunId| {
        let paths = workspace.existing_run(&run).ok()?;
        if among == Among::Abandoned && !lock::was_abandoned(&paths) {
            return None;
        }
        let attempts = open_attempts(&paths, &run)?;
        // Only now: where nobody drives it after it was read, whoever began those attempts is gone. One who takes it up from
        // here on begins others, and ends these as well.
        (!attempts.is_empty() && is_locked(&paths).is_none()).then_some(Abandoned { run, attempts })
    };
    Ok(ids.filter_map(look).collect())
}

fn open_attempts(paths: &RunPaths, run: &RunId) -> Option<Vec<Left>> {
    let state = read_state(paths, run).ok()?;
    let open = state.tasks.iter().filter_map(|task| {
        let attempt = task.open_attempt()?;
        Some(Left { task: task.id.clone(), process: attempt.process.clone(), marker: attempt.marker.clone() })
    });
    Some(open.collect())
}
