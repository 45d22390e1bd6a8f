//! What an editor shows of a folder that it has just opened: the findings and open feedback of the folder's newest run, as
//! they would stand there had the editor never been closed.
//!
//! Must not: hold up the handshake, or take the place of what this session drives.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::ListRunsParams;

use super::backend::Backend;
use super::publisher::Publisher;

/// How many runs are looked at: the newest, and the runs of its sub-workflows among those that changed last.
const LOOKED_AT: NonZeroU32 = NonZeroU32::new(16).unwrap();

/// Has the newest run of each folder shown, one folder after the other.
pub(crate) async fn newest(backend: Arc<dyn Backend>, publisher: Publisher, folders: Vec<String>) {
    for folder in folders {
        let params = ListRunsParams { workspace: Some(folder.clone()), limit: Some(LOOKED_AT), offset: 0 };
        match backend.list_runs(params).await {
            Ok(listed) => {
                let ids: Vec<RunId> = listed.runs.into_iter().map(|run| run.run_id).collect();
                publisher.adopt(&folder, family(&ids));
            }
            // Not every folder can have runs; nobody asked for this.
            Err(error) => tracing::debug!(folder, %error, "the runs of a folder that was opened could not be listed"),
        }
    }
}

/// The newest run and those driven beneath it, of runs in the order of their last change: a run of a sub-workflow has its
/// parent's id in its own. One that was changed after its parent stands for the parent's whole family.
fn family(newest_first: &[RunId]) -> Vec<RunId> {
    let beneath = |child: &RunId, parent: &RunId| {
        let rest = child.as_str().strip_prefix("sub-").and_then(|rest| rest.strip_prefix(parent.as_str()));
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    let Some(mut root) = newest_first.first() else { return Vec::new() };
    while let Some(parent) = newest_first.iter().find(|run| beneath(root, run)) {
        root = parent;
    }
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        let more: Vec<&RunId> =
            newest_first.iter().filter(|run| found.iter().any(|parent| beneath(run, parent))).collect();
        found.extend(more);
        if found.len() == before {
            return found.into_iter().cloned().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_run_is_shown_with_those_of_its_sub_workflows() {
        for (runs, expected) in [
            (&[][..], &[][..]),
            (&["b", "a"], &["b"]),
            (&["b", "sub-b-t", "sub-a-t", "a", "sub-sub-b-t-u"], &["b", "sub-b-t", "sub-sub-b-t-u"]),
            (&["sub-sub-a-t-u", "sub-a-t", "b", "a"], &["a", "sub-a-t", "sub-sub-a-t-u"]),
            (&["sub-gone-t", "a"], &["sub-gone-t"]),
            (&["a", "sub-ab-t", "sub-a"], &["a"]),
        ] {
            let ids: Vec<RunId> = runs.iter().map(|&run| RunId::new(run).unwrap()).collect();
            let found: Vec<String> = family(&ids).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{runs:?}");
        }
    }
}
