//! Agents that a dead server left running. A drive ends those of its own run before it goes on; here they are found in all
//! runs of a workspace that nobody drives.
//!
//! Must not: touch a run that is being driven, or write to a record.

use flowdrive_protocol::ids::{RunId, TaskId};

use crate::delegate::Delegator;
use crate::model::outcome::ProcessIdentity;
use crate::model::state::Verdict;
use crate::record::read_state;
use crate::store::{RunLock, StoreError, Workspace};

/// Runs looked at, the newest first: older ones have no agent that still runs.
const MOST_RUNS: usize = 200;

/// A run nobody drives, with attempts that never ended. Its lock is held, so that nobody begins to drive it meanwhile.
struct Abandoned {
    run: RunId,
    attempts: Vec<(TaskId, Option<ProcessIdentity>, Option<String>)>,
    _lock: RunLock,
}

/// Ends what dead servers left in a workspace. Gives the run and the task of each agent that was still there.
///
/// # Errors
/// What keeps the runs from being listed.
pub(crate) async fn end_all(workspace: Workspace, delegator: &Delegator) -> Result<Vec<(RunId, TaskId)>, StoreError> {
    let found = tokio::task::spawn_blocking(move || abandoned(&workspace)).await;
    let mut ended = Vec::new();
    for run in found.unwrap_or_else(|_| Ok(Vec::new()))? {
        for (task, process, marker) in &run.attempts {
            if delegator.end_left(process.as_ref(), marker.as_deref()).await {
                ended.push((run.run.clone(), task.clone()));
            }
        }
    }
    Ok(ended)
}

fn abandoned(workspace: &Workspace) -> Result<Vec<Abandoned>, StoreError> {
    let ids = workspace.list_runs()?.into_iter().filter_map(|listing| listing.id).take(MOST_RUNS);
    let look = |run: RunId| {
        let paths = workspace.existing_run(&run).ok()?;
        let open = |paths: &_| -> Option<Vec<_>> {
            let state = read_state(paths, &run).ok()?;
            let attempts = state.tasks.iter().filter_map(|task| {
                let attempt = task.attempts.last().filter(|attempt| attempt.verdict == Verdict::Open)?;
                Some((task.id.clone(), attempt.process.clone(), attempt.marker.clone()))
            });
            Some(attempts.collect())
        };
        if open(&paths)?.is_empty() {
            return None;
        }
        let lock = RunLock::acquire(&paths).ok()?;
        // Again under the lock: an agent that was started since is its drive's.
        let attempts = open(&paths)?;
        Some(Abandoned { run, attempts, _lock: lock })
    };
    Ok(ids.filter_map(look).collect())
}
