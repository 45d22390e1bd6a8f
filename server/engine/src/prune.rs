//! Removing runs and kept results that nobody needs any more. What goes is `decide`'s to say; here it is looked up, locked,
//! taken out and taken apart.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult, PrunedRun};
use flowdrive_protocol::run::{RunStatus, UnreadableRun};
use flowdrive_protocol::time::Timestamp;

use crate::EngineError;
use crate::decide::prune::{Candidate, Rule, chosen};
use crate::drive::child_run_id;
use crate::model::state::RunState;
use crate::record::read_state;
use crate::store::trash::{Discarded, Trash, bytes_of};
use crate::store::{RunLock, RunPaths, StoreError, Workspace, cache, is_locked};

struct Known {
    paths: RunPaths,
    title: String,
}

/// Removes what the rule lets go.
///
/// # Errors
/// Parameters that let nothing go; what the disk refuses. A single run that cannot go is in the answer.
pub(crate) fn prune(workspace: &Workspace, params: &PruneRunsParams) -> Result<PruneRunsResult, EngineError> {
    let limits = params.keep.is_some() || params.older_than_ms.is_some();
    if !limits && params.cache_older_than_ms.is_none() {
        return Err(EngineError::InvalidParams("give keep, olderThanMs or cacheOlderThanMs: what may go".to_owned()));
    }
    if !limits && params.statuses.is_some() {
        return Err(EngineError::InvalidParams("statuses says which runs may go: give keep or olderThanMs".to_owned()));
    }
    let now = Timestamp::now();
    let before =
        |millis: u64| Timestamp::from_millis(now.as_millis().saturating_sub(i64::try_from(millis).unwrap_or(i64::MAX)));
    let rule = Rule {
        keep: params.keep,
        before: params.older_than_ms.map(before),
        statuses: params.statuses.clone().unwrap_or_else(|| vec![RunStatus::Complete]),
    };
    let mut result = PruneRunsResult {
        dry_run: params.dry_run,
        removed: Vec::new(),
        skipped: Vec::new(),
        kept: 0,
        cached_results: 0,
        leftovers: 0,
        bytes: 0,
    };
    let trash = Trash::of(workspace);
    let mut rubbish = trash.leftovers()?;
    result.leftovers = u32::try_from(rubbish.len()).unwrap_or(u32::MAX);
    result.bytes += rubbish.iter().map(Discarded::bytes).sum::<u64>();

    let listed = workspace.list_runs()?;
    let total = listed.len();
    let mut candidates = Vec::new();
    let mut known = BTreeMap::new();
    for id in listed.into_iter().filter_map(|listing| listing.id) {
        // A run that cannot be read is nobody's to remove unseen: verify says what is wrong with it.
        let Ok(paths) = workspace.existing_run(&id) else { continue };
        let Ok(state) = read_state(&paths, &id) else { continue };
        candidates.push(candidate(&state));
        known.insert(id, Known { paths, title: state.workflow.title.clone() });
    }
    let mut gone = 0;
    for place in chosen(&candidates, &rule) {
        let run = &candidates[place];
        let family = family(run, &candidates);
        match remove(&trash, &known, &family, params.dry_run) {
            Ok((bytes, discarded)) => {
                rubbish.extend(discarded);
                gone += family.len();
                result.bytes += bytes;
                result.removed.push(PrunedRun {
                    run_id: run.run_id.clone(),
                    title: known.get(&run.run_id).map(|known| known.title.clone()).unwrap_or_default(),
                    status: run.status,
                    updated_at: run.updated_at,
                    children: family[1..].iter().map(|child| child.run_id.clone()).collect(),
                    bytes,
                });
            }
            Err(fault) => result.skipped.push(skipped(run.run_id.as_str(), &fault)),
        }
    }
    result.kept = u32::try_from(total - gone).unwrap_or(u32::MAX);
    if !params.dry_run && !rubbish.is_empty() {
        trash.sync()?;
        for discarded in rubbish {
            if let Err(fault) = discarded.remove() {
                result.skipped.push(skipped(".cw/trash", &fault.into()));
            }
        }
        trash.tidy();
    }
    if let Some(millis) = params.cache_older_than_ms {
        let limit = SystemTime::now().checked_sub(Duration::from_millis(millis));
        if let Some(limit) = limit {
            let (results, bytes) = cache::prune(workspace.root(), limit, params.dry_run)?;
            result.cached_results = results;
            result.bytes += bytes;
        }
    }
    Ok(result)
}

fn candidate(state: &RunState) -> Candidate {
    Candidate {
        run_id: state.run_id.clone(),
        status: state.status(),
        updated_at: state.updated_at,
        children: (0..state.tasks.len()).filter_map(|task| child_run_id(state, task)).collect(),
    }
}

/// A run and the runs of its sub-workflows that are there, each after the one it belongs to.
fn family<'a>(run: &'a Candidate, all: &'a [Candidate]) -> Vec<&'a Candidate> {
    let mut family = vec![run];
    let mut next = 0;
    while next < family.len() {
        for child in &family[next].children {
            let found = all.iter().find(|other| other.run_id == *child);
            if let Some(found) = found.filter(|found| !family.iter().any(|known| known.run_id == found.run_id)) {
                family.push(found);
            }
        }
        next += 1;
    }
    family
}

/// Takes a run and its children out of the list. Gives their bytes, and what is to be taken apart.
fn remove(
    trash: &Trash,
    known: &BTreeMap<RunId, Known>,
    family: &[&Candidate],
    dry_run: bool,
) -> Result<(u64, Vec<Discarded>), EngineError> {
    let members: Vec<_> = family.iter().filter_map(|run| Some((*run, &known.get(&run.run_id)?.paths))).collect();
    let bytes = members.iter().map(|(_, paths)| bytes_of(&paths.dir)).sum();
    if dry_run {
        return match members.iter().find_map(|(run, paths)| Some((*run, is_locked(paths)?))) {
            Some((run, holder)) => Err(StoreError::Locked { run_id: run.run_id.clone(), holder }.into()),
            None => Ok((bytes, Vec::new())),
        };
    }
    let mut locks = Vec::new();
    for (run, paths) in &members {
        locks.push(RunLock::acquire(paths)?);
        // Somebody may have driven it since it was looked at.
        let state = read_state(paths, &run.run_id)?;
        if state.updated_at != run.updated_at {
            let message = format!("run {} changed while it was looked at", run.run_id);
            return Err(EngineError::new(ErrorKind::RunLocked, message, "try again"));
        }
    }
    // The parent first: one that stood without its children would run them again when it is carried on.
    let mut discarded = Vec::new();
    for ((run, paths), lock) in members.iter().zip(&locks) {
        match trash.discard(paths, lock) {
            Ok(gone) => discarded.push(gone),
            Err(fault) if discarded.is_empty() => return Err(fault.into()),
            // Without its parent it is a run like any other, and goes like one.
            Err(fault) => tracing::warn!(run = %run.run_id, %fault, "the run of a sub-workflow could not be removed"),
        }
    }
    Ok((bytes, discarded))
}

fn skipped(name: &str, fault: &EngineError) -> UnreadableRun {
    UnreadableRun {
        name: name.to_owned(),
        kind: fault.kind().unwrap_or(ErrorKind::StorageFailed),
        message: fault.to_string(),
    }
}
