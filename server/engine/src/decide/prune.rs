//! Which runs may be removed. Pure.

use std::collections::BTreeSet;

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::run::RunStatus;
use flowdrive_protocol::time::Timestamp;

/// A run as this decision sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The run.
    pub run_id: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The runs of its sub-workflows, whether they are there or not.
    pub children: Vec<RunId>,
}

/// What may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// So many of the newest stay, of those whose status may go.
    pub keep: Option<u32>,
    /// Only what last changed before this goes.
    pub before: Option<Timestamp>,
    /// Only runs that stand like this go.
    pub statuses: Vec<RunStatus>,
}

/// Places of the runs that go, oldest first. The run of a sub-workflow goes with the run it belongs to and never before it:
/// a parent that is carried on would have to pay for it again. Without a limit nothing goes.
#[must_use]
pub fn chosen(runs: &[Candidate], rule: &Rule) -> Vec<usize> {
    if rule.keep.is_none() && rule.before.is_none() {
        return Vec::new();
    }
    let owned: BTreeSet<&RunId> = runs.iter().flat_map(|run| &run.children).collect();
    let mut eligible: Vec<usize> = (0..runs.len())
        .filter(|place| rule.statuses.contains(&runs[*place].status) && !owned.contains(&runs[*place].run_id))
        .collect();
    eligible.sort_by(|a, b| {
        let key = |place: &usize| (runs[*place].updated_at, &runs[*place].run_id);
        key(b).cmp(&key(a))
    });
    let keep = rule.keep.unwrap_or(0) as usize;
    let mut chosen: Vec<usize> = eligible
        .into_iter()
        .skip(keep)
        .filter(|place| rule.before.is_none_or(|before| runs[*place].updated_at < before))
        .collect();
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RunId {
        RunId::new(text).unwrap()
    }

    fn run(name: &str, status: RunStatus, at: i64, children: &[&str]) -> Candidate {
        let children = children.iter().map(|child| id(child)).collect();
        Candidate { run_id: id(name), status, updated_at: Timestamp::from_millis(at), children }
    }

    fn names(runs: &[Candidate], keep: Option<u32>, before: Option<i64>, statuses: &[RunStatus]) -> Vec<String> {
        let rule = Rule { keep, before: before.map(Timestamp::from_millis), statuses: statuses.to_vec() };
        chosen(runs, &rule).into_iter().map(|place| runs[place].run_id.to_string()).collect()
    }

    #[test]
    fn the_newest_and_the_young_stay_and_children_go_with_their_parents_alone() {
        use RunStatus::{Blocked, Complete, InProgress, Parked};
        let runs = [
            run("c5", Complete, 50, &[]),
            run("c1", Complete, 10, &["sub-c1"]),
            run("p2", Parked, 20, &["sub-p2"]),
            run("sub-c1", Complete, 9, &[]),
            run("sub-p2", Complete, 8, &[]),
            run("c3", Complete, 30, &["gone"]),
            run("b4", Blocked, 40, &[]),
            run("i6", InProgress, 5, &[]),
            run("c3b", Complete, 30, &[]),
        ];
        let complete = &[Complete][..];
        assert_eq!(names(&runs, None, None, complete), [""; 0], "no limit, no removal");
        assert_eq!(names(&runs, Some(0), None, complete), ["c1", "c3", "c3b", "c5"]);
        assert_eq!(names(&runs, Some(2), None, complete), ["c1", "c3"]);
        assert_eq!(names(&runs, Some(9), None, complete), [""; 0]);
        assert_eq!(names(&runs, None, Some(30), complete), ["c1"], "as old as the limit is not older");
        assert_eq!(names(&runs, Some(1), Some(1000), complete), ["c1", "c3", "c3b"], "both must allow it");
        assert_eq!(names(&runs, Some(3), Some(20), complete), ["c1"]);
        assert_eq!(names(&runs, Some(0), None, &[Parked, Blocked]), ["p2", "b4"]);
        assert_eq!(names(&runs, Some(0), None, &[]), [""; 0]);
    }
}
