//! The decision core, driven by a simulation: agents end in any order, in any way; the same decisions and events as a
//! real drive, no process and no disk.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod simulation;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use flowdrive_engine::decide::next::{Availability, End, Next, iteration_bound};
use flowdrive_engine::decide::{budget, finish};
use flowdrive_engine::model::journal::{DriveSettings, JournalEvent};
use flowdrive_protocol::ids::AgentName;
use flowdrive_protocol::run::{RunStatus, StopMode, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use simulation::{Fate, GOOD, Sim};

fn tasks(phase: &str, n: usize) -> serde_json::Value {
    (0..n).map(|i| json!({ "id": format!("{phase}:{i}"), "prompt": "p" })).collect()
}

fn two_phases(n: usize, limit: u32) -> serde_json::Value {
    json!({ "schemaVersion": 1, "id": "w", "title": "t", "limits": { "maxConcurrentAgents": limit },
        "phases": [{ "id": "map", "mode": "parallel", "tasks": tasks("map", n) },
                   { "id": "verdict", "tasks": tasks("verdict", 1) }] })
}

#[test]
fn everything_good_completes_and_the_window_is_as_wide_as_allowed() {
    for (limit, explicit, expected) in [(4, None, 4), (4, Some(1), 1), (2, Some(8), 8), (40, None, 10)] {
        let mut sim = Sim::new(two_phases(10, limit), explicit, false);
        assert_eq!(sim.run(|_| 0, |_, _| GOOD), End::Complete);
        assert_eq!(sim.most_in_flight, expected, "limit {limit}, explicit {explicit:?}");
        assert_eq!(sim.state.status(), RunStatus::Complete);
    }
}

#[test]
fn a_parked_task_lets_its_siblings_finish_and_no_later_phase_start() {
    let mut sim = Sim::new(two_phases(6, 2), None, false);
    let end = sim.run(|_| 0, |id, _| if id == "map:0" { Fate::Bad } else { GOOD });
    assert_eq!(end, End::Parked);
    assert_eq!((sim.state.completed(), sim.state.parked()), (5, 1));
    assert_eq!(sim.state.tasks[6].status, TaskStatus::Pending);
    assert_eq!(finish::conclude(&sim.state, &end, "client", false).status, RunStatus::Parked);
    assert!(sim.state.tasks[0].refusal.as_ref().unwrap().reason.ends_with("(attempt 3/3)"));
}

#[test]
fn in_a_phase_run_one_by_one_a_parked_task_stops_those_behind_it() {
    let workflow = json!({ "schemaVersion": 1, "id": "w", "title": "t",
        "phases": [{ "id": "p", "tasks": tasks("p", 3) }] });
    let mut sim = Sim::new(workflow, None, false);
    assert_eq!(sim.run(|_| 0, |id, _| if id == "p:1" { Fate::Bad } else { GOOD }), End::Parked);
    assert_eq!(sim.state.tasks[2].status, TaskStatus::Pending);
}

#[test]
fn once_fills_one_window_and_stops() {
    let mut sim = Sim::new(two_phases(6, 2), None, true);
    assert_eq!(sim.run(|_| 0, |_, _| GOOD), End::Once);
    assert_eq!(sim.state.completed(), 2);
    let conclusion = finish::conclude(&sim.state, &End::Once, "client", false);
    assert_eq!(conclusion.status, RunStatus::InProgress);
}

#[test]
fn a_run_without_tasks_is_committed_and_complete() {
    let mut sim = Sim::new(json!({ "schemaVersion": 1, "id": "w", "title": "t" }), None, false);
    assert_eq!(sim.next(Availability::Free), Next::Commit);
    assert_eq!(sim.run(|_| 0, |_, _| GOOD), End::Complete);
}

#[test]
fn a_stop_settles_what_runs_and_lets_a_finished_run_be_committed() {
    let mut sim = Sim::new(two_phases(4, 2), None, false);
    let Next::Dispatch { task, .. } = sim.next(Availability::Free) else { panic!() };
    sim.dispatch(task);
    sim.stop = Some(StopMode::Graceful);
    assert_eq!(sim.next(Availability::Free), Next::Wait { until: None });
    sim.settle(0, GOOD);
    assert_eq!(sim.next(Availability::Free), Next::End(End::Stopped(StopMode::Graceful)));
    let reason = finish::conclude(&sim.state, &End::Stopped(StopMode::Graceful), "SIGTERM", false).reason.unwrap();
    assert!(reason.contains("SIGTERM") && reason.contains("flowdrive resume run-1"), "{reason}");

    let mut last = Sim::new(two_phases(1, 1), None, false);
    for _ in 0..2 {
        let Next::Dispatch { task, .. } = last.next(Availability::Free) else { panic!() };
        last.dispatch(task);
        last.settle(0, GOOD);
        if let Next::Record(event) = last.next(Availability::Free) {
            last.apply(&event);
        }
    }
    last.stop = Some(StopMode::Graceful);
    assert_eq!(last.next(Availability::Free), Next::Commit);
}

#[test]
fn budget_agents_and_bound_block() {
    let mut sim = Sim::new(two_phases(1, 1), None, false);
    assert!(matches!(sim.next(Availability::Unknown), Next::End(End::NoAgent { task: 0, .. })));
    assert_eq!(sim.next(Availability::Busy(None)), Next::Wait { until: None });
    let later = Timestamp::from_millis(99);
    assert_eq!(sim.next(Availability::Busy(Some(later))), Next::Wait { until: Some(later) });
    sim.dispatched = iteration_bound(&sim.state, &sim.settings);
    assert_eq!(sim.next(Availability::Free), Next::End(End::Exhausted(13)));
}

#[test]
fn a_spent_budget_blocks_and_a_warning_comes_once_for_each_budget() {
    let budget = |settings: &mut DriveSettings, tokens| settings.token_budget = Some(tokens);
    // 12 of 12 are spent after two: the third is not started.
    let mut sim = Sim::new(two_phases(5, 1), Some(1), false);
    sim.tokens = 6;
    budget(&mut sim.settings, 12);
    assert_eq!(sim.run(|_| 0, |_, _| GOOD), End::Budget { task: 2, spent: 12, budget: 12 });
    let conclusion = finish::conclude(&sim.state, &End::Budget { task: 2, spent: 12, budget: 12 }, "client", false);
    assert_eq!(conclusion.status, RunStatus::Blocked);
    let reason = conclusion.reason.unwrap();
    assert!(reason.contains("12 recorded tokens >= budget 12") && reason.contains("--token-budget"), "{reason}");
    // A higher one carries on, and warns again; none at all does not.
    budget(&mut sim.settings, 30);
    assert!(matches!(sim.run(|_| 0, |_, _| GOOD), End::Budget { spent: 30, .. }));
    budget(&mut sim.settings, 0);
    assert_eq!(sim.run(|_| 0, |_, _| GOOD), End::Complete);
    let warned: Vec<(u64, u64)> = (sim.journal.iter())
        .filter_map(|(event, _)| match event {
            JournalEvent::BudgetWarned { spent, budget } => Some((*spent, *budget)),
            _ => None,
        })
        .collect();
    assert_eq!(warned, [(12, 12), (24, 30)]);
}

#[test]
fn what_runs_is_reserved_by_what_its_own_agent_used_before() {
    let mut sim = Sim::new(two_phases(10, 4), None, false);
    sim.tokens = 10;
    sim.settings.token_budget = Some(60);
    let end = sim.run(|_| 0, |_, _| GOOD);
    // Nothing is known of the first window of 4. After that 10 are reserved for each that runs.
    assert!(matches!(end, End::Budget { spent: 60, budget: 60, .. }), "{end:?}");

    let mut two = Sim::new(two_phases(10, 4), None, false);
    two.tokens = 50;
    let Next::Dispatch { task, .. } = two.next(Availability::Free) else { panic!() };
    two.dispatch(task);
    two.settle(0, GOOD);
    two.settings.agent = AgentName::new("b").unwrap();
    let Next::Dispatch { task, .. } = two.next(Availability::Free) else { panic!() };
    two.dispatch(task);
    assert_eq!(budget::reserved(&two.state), 0, "nothing is known of this agent, whatever another used");
    two.settle(0, GOOD);
    let Next::Dispatch { task, .. } = two.next(Availability::Free) else { panic!() };
    two.dispatch(task);
    assert_eq!(budget::reserved(&two.state), 50);
}

#[test]
fn iteration_bound_is_the_references_formula() {
    let one = |n, rounds: u32, attempts: u32| {
        let workflow = json!({ "schemaVersion": 1, "id": "w", "title": "t", "phases": [{ "id": "p", "tasks": tasks("p", n),
            "loop": { "maxRounds": rounds, "until": { "predicate": "x" } } }] });
        let mut sim = Sim::new(workflow, None, false);
        sim.settings.max_attempts = NonZeroU32::new(attempts).unwrap();
        iteration_bound(&sim.state, &sim.settings)
    };
    assert_eq!(one(3, 1, 3), 17);
    assert_eq!(one(5, 3, 3), 65);
    assert_eq!(one(0, 1, 3), 5);
    assert_eq!(one(2, 1, 1), 9);
    assert_eq!(one(1, 1, 3), 9);
}

#[test]
fn loops_run_while_findings_come_and_stop_at_their_cap() {
    let workflow = |rounds: u32, until: serde_json::Value| {
        json!({ "schemaVersion": 1, "id": "w", "title": "t",
        "phases": [{ "id": "hunt", "tasks": [{ "id": "t", "prompt": "p" }], "loop": { "maxRounds": rounds, "until": until } },
                   { "id": "end", "tasks": [{ "id": "e", "prompt": "p" }] }] })
    };
    let mut sim = Sim::new(workflow(5, json!({ "noNewFindings": true })), None, false);
    let fate = |id: &str, _| if id == "t" || id == "t@r2" { Fate::Good { findings: 1 } } else { GOOD };
    assert_eq!(sim.run(|_| 0, fate), End::Complete);
    let ids: Vec<_> = sim.state.phases.iter().map(|phase| phase.id.to_string()).collect();
    assert_eq!(ids, ["hunt", "hunt@r2", "hunt@r3", "end"]);
    assert_eq!(sim.state.phases[2].title, "hunt (round 3)");

    let mut capped = Sim::new(workflow(2, json!({ "findingsBelow": "P2" })), None, false);
    assert_eq!(capped.run(|_| 0, |_, _| Fate::Good { findings: 1 }), End::Complete);
    assert_eq!(capped.state.phases.len(), 3);

    let mut unknown = Sim::new(workflow(9, json!({ "predicate": "no-such" })), None, false);
    assert_eq!(unknown.run(|_| 0, |_, _| Fate::Good { findings: 1 }), End::Complete);
    assert_eq!(unknown.state.phases.len(), 2);
}

fn fates() -> impl Strategy<Value = BTreeMap<(String, usize), u8>> {
    prop::collection::btree_map(
        (
            (0..6usize, any::<bool>()).prop_map(|(n, map)| if map { format!("map:{n}") } else { "verdict:0".into() }),
            1..6usize,
        ),
        0..4u8,
        0..20,
    )
}

/// A looping phase between two others.
fn looped(width: u32) -> serde_json::Value {
    json!({ "schemaVersion": 1, "id": "w", "title": "t", "limits": { "maxConcurrentAgents": width },
        "phases": [{ "id": "map", "mode": "parallel", "tasks": tasks("map", 3) },
                   { "id": "hunt", "mode": "parallel", "tasks": tasks("hunt", 2),
                     "loop": { "maxRounds": 3, "until": { "noNewFindings": true } } },
                   { "id": "verdict", "tasks": tasks("verdict", 1) }] })
}

proptest! {
    /// However often the server dies, and wherever the journal then ends, the next one has something to do or ends; loops
    /// go on where they were; and no task fails more often than it may.
    #[test]
    fn a_run_goes_on_from_wherever_its_journal_ends(
        fates in prop::collection::vec(0..8u8, 64), picks in prop::collection::vec(any::<usize>(), 1..64),
        crashes in prop::collection::vec(any::<prop::sample::Index>(), 0..5), width in 1..5u32,
    ) {
        let fate = |id: &str, number: usize| {
            let seed = id.bytes().fold(number, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
            match fates[seed % fates.len()] {
                0 => Fate::Bad,
                1 => Fate::Passing,
                2 | 3 => Fate::Good { findings: 1 },
                _ => GOOD,
            }
        };
        let mut sim = Sim::new(looped(width), None, false);
        let mut turn = 0;
        let mut pick = |_| { turn += 1; picks[turn % picks.len()] };
        let mut end = sim.run(&mut pick, fate);
        for crash in crashes {
            sim.crash(crash.index(sim.journal.len() + 1));
            end = sim.run(&mut pick, fate);
        }
        prop_assert!(matches!(end, End::Complete | End::Parked), "{:?}", end);
        prop_assert_eq!(end == End::Complete, sim.state.status() == RunStatus::Complete);
        for task in &sim.state.tasks {
            prop_assert!(task.failures <= 3);
            let counted = sim.journal.iter().filter(|(event, _)| match event {
                JournalEvent::TaskRetrying { task: id, counted: true, .. }
                | JournalEvent::TaskParked { task: id, .. } => *id == task.id,
                _ => false,
            });
            prop_assert!(counted.count() <= 3);
        }
        // One decision for each round that was accepted whole, and none for one that was not.
        for phase in sim.state.phases.iter().filter(|phase| phase.looping.is_some()) {
            prop_assert_eq!(phase.looping.as_ref().unwrap().decided, phase.is_complete());
        }
        let mut recounted = sim.state.clone();
        recounted.reindex();
        prop_assert_eq!(recounted, sim.state);
    }

    /// A drive always ends, never tries a task more often than it may, and ends the same whatever the order.
    #[test]
    fn same_outcomes_in_any_order_give_the_same_state(
        fates in fates(), picks in prop::collection::vec(any::<usize>(), 1..64), width in 1..9u32,
    ) {
        let fate = |id: &str, number: usize| match fates.get(&(id.to_owned(), number)) {
            Some(0) => Fate::Bad,
            Some(1) => Fate::Passing,
            Some(2) => Fate::Good { findings: 1 },
            _ => GOOD,
        };
        let mut first = Sim::new(two_phases(6, 4), Some(width), false);
        let end = first.run(|_| 0, fate);
        let mut second = Sim::new(two_phases(6, 4), Some(width), false);
        let mut turn = 0;
        let other = second.run(|_| { turn += 1; picks[turn % picks.len()] }, fate);
        prop_assert_eq!(&end, &other);
        prop_assert_eq!(first.timeless(), second.timeless());
        prop_assert!(matches!(end, End::Complete | End::Parked));
        for task in &first.state.tasks {
            prop_assert!(task.failures <= 3);
        }
        prop_assert!(first.dispatched <= iteration_bound(&first.state, &first.settings));
        // Counts kept along the way are those that a count would give.
        let mut recounted = first.state.clone();
        recounted.reindex();
        prop_assert_eq!(recounted, first.state);
    }
}
