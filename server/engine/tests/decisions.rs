//! The decision core, driven by a simulation: agents end in any order, in any way; the same decisions and events as a
//! real drive, no process and no disk.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use flowdrive_engine::decide::next::{Agents, Availability, End, Next, Situation, iteration_bound, next};
use flowdrive_engine::decide::retry::{After, Failure, after};
use flowdrive_engine::decide::{feedback, finish, looping};
use flowdrive_engine::model::journal::{
    AcceptedResult, Commit, DriveSettings, JournalEvent, RunPlanned, STATE_VERSION, TERMINAL_REASON,
};
use flowdrive_engine::model::outcome::Transient;
use flowdrive_engine::model::state::RunState;
use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::ids::{AgentName, CommitId, RunId, WorkerId};
use flowdrive_protocol::outcome::{Classification, Finding, Severity, Usage};
use flowdrive_protocol::run::{RunStatus, StopMode, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::Workflow;
use proptest::prelude::*;
use serde_json::json;

/// How a simulated attempt ends.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Good { findings: u8 },
    Bad,
    Passing,
}

struct Sim {
    state: RunState,
    settings: DriveSettings,
    clock: i64,
    in_flight: Vec<(usize, WorkerId)>,
    dispatched: u64,
    most_in_flight: usize,
    stop: Option<StopMode>,
}

struct All(Availability);

impl Agents for All {
    fn availability(&self, _: &AgentName) -> Availability {
        self.0.clone()
    }
}

impl Sim {
    fn new(workflow: serde_json::Value, concurrency: Option<u32>, once: bool) -> Self {
        let workflow: Workflow = serde_json::from_value(workflow).unwrap();
        let plan = RunPlanned {
            schema_version: STATE_VERSION,
            run_id: RunId::new("run-1").unwrap(),
            workflow,
            workflow_source: "inline".into(),
            inputs: BTreeMap::new(),
            workspace: "/w".into(),
        };
        Self {
            state: RunState::planned_at(plan, Timestamp::from_millis(0)).unwrap(),
            settings: DriveSettings {
                agent: AgentName::new("a").unwrap(),
                concurrency: concurrency.and_then(NonZeroU32::new),
                once,
                incremental: false,
                max_attempts: NonZeroU32::new(3).unwrap(),
            },
            clock: 0,
            in_flight: Vec::new(),
            dispatched: 0,
            most_in_flight: 0,
            stop: None,
        }
    }

    fn apply(&mut self, event: &JournalEvent) {
        self.clock += 1;
        self.state.apply(event, Timestamp::from_millis(self.clock)).unwrap();
    }

    fn next(&self, availability: Availability) -> Next {
        next(&Situation {
            state: &self.state,
            settings: &self.settings,
            in_flight: self.in_flight.len(),
            dispatched: self.dispatched,
            bound: iteration_bound(&self.state, &self.settings),
            stop: self.stop,
            now: Timestamp::from_millis(self.clock),
            agents: &All(availability),
        })
    }

    fn dispatch(&mut self, task: usize) {
        let again = self.state.tasks[task].transient > 0;
        let id = self.state.tasks[task].id.clone();
        let number = self.state.tasks[task].attempts.len() + 1;
        let worker = WorkerId::new(format!("worker-{}-{number:04}", id.as_str().replace([':', '@'], "_"))).unwrap();
        let attempt = self.state.tasks[task].failures + 1;
        let agent = self.settings.agent.clone();
        self.apply(&JournalEvent::TaskDispatched {
            task: id,
            worker: worker.clone(),
            agent,
            attempt,
            prompt_digest: String::new(),
            marker: None,
        });
        self.in_flight.push((task, worker));
        self.most_in_flight = self.most_in_flight.max(self.in_flight.len());
        self.dispatched += u64::from(!again);
    }

    fn settle(&mut self, which: usize, fate: Fate) {
        let (task, worker) = self.in_flight.remove(which);
        let id = self.state.tasks[task].id.clone();
        let failure =
            |transient| Failure { code: "agent-exit".into(), reason: "it broke".into(), transient, by_agent: true };
        let failure = match fate {
            Fate::Good { findings } => {
                let finding = |n: u8| Finding {
                    id: format!("f{n}"),
                    summary: String::new(),
                    classification: Classification::Real,
                    severity: Severity::P2,
                    evidence: Vec::new(),
                };
                let result = Box::new(AcceptedResult {
                    summary: "s".into(),
                    findings: (0..findings).map(finding).collect(),
                    evidence: Vec::new(),
                    empty_capture: false,
                    verified: true,
                    path: format!("results/{id}.md"),
                    digest: String::new(),
                    bytes: 0,
                    usage: Some(Usage::default()),
                    attestation: None,
                });
                self.apply(&JournalEvent::TaskAccepted {
                    task: id,
                    worker,
                    source: ResultSource::Agent,
                    result,
                    text: None,
                });
                if let Some(decision) = looping::due(&self.state) {
                    self.apply(&decision);
                }
                return;
            }
            Fate::Bad => failure(None),
            Fate::Passing => failure(Some(Transient::default())),
        };
        let current = &self.state.tasks[task];
        let (failures, transient, number) = (current.failures, current.transient, current.attempts.len());
        let max = self.settings.max_attempts;
        let now = Timestamp::from_millis(self.clock);
        match after(&failure, failures, transient, max, 0.0, now) {
            After::Retry { counted, attempts, not_before } => self.apply(&JournalEvent::TaskRetrying {
                task: id,
                worker,
                counted,
                attempts,
                max_attempts: max.get(),
                code: failure.code,
                reason: failure.reason,
                not_before,
            }),
            After::Park { attempts, reason } => {
                let fault = feedback::Fault {
                    code: &failure.code,
                    message: &reason,
                    stage: None,
                    source: None,
                    task: Some((&id, &worker)),
                };
                let name = format!("{}-{number}", id.as_str().replace([':', '@'], "_"));
                let record = feedback::open(&self.state.run_id, &fault, &name, now).unwrap();
                let feedback = Box::new(record);
                self.apply(&JournalEvent::TaskParked {
                    task: id,
                    worker,
                    attempts,
                    code: failure.code,
                    reason,
                    feedback,
                });
            }
        }
    }

    /// Runs to the end. `pick` chooses which agent ends next, `fate` how an attempt (task, number) ends.
    fn run(&mut self, mut pick: impl FnMut(usize) -> usize, fate: impl Fn(&str, usize) -> Fate) -> End {
        for _ in 0..100_000 {
            match self.next(Availability::Free) {
                Next::Dispatch { task, .. } => self.dispatch(task),
                Next::Wait { until } => {
                    if self.in_flight.is_empty() {
                        self.clock = until.expect("nothing runs, so there must be a time to wait for").as_millis();
                    } else {
                        let which = pick(self.in_flight.len()) % self.in_flight.len();
                        let task = self.in_flight[which].0;
                        let id = self.state.tasks[task].id.as_str().to_owned();
                        let number = self.state.tasks[task].attempts.len();
                        self.settle(which, fate(&id, number));
                    }
                }
                Next::Commit => self.apply(&JournalEvent::Committed {
                    commit: Commit {
                        id: CommitId::new("state-0001").unwrap(),
                        reason: TERMINAL_REASON.into(),
                        verifier: None,
                        git_head: None,
                    },
                }),
                Next::End(end) => return end,
            }
        }
        panic!("the drive does not end");
    }

    /// The state as it is written down, times aside.
    fn timeless(&self) -> serde_json::Value {
        fn strip(value: &mut serde_json::Value) {
            match value {
                serde_json::Value::Object(map) => {
                    map.retain(|key, _| !key.ends_with("At") && key != "notBefore");
                    map.values_mut().for_each(strip);
                }
                serde_json::Value::Array(list) => list.iter_mut().for_each(strip),
                _ => {}
            }
        }
        let mut value = serde_json::to_value(&self.state).unwrap();
        strip(&mut value);
        value
    }
}

const GOOD: Fate = Fate::Good { findings: 0 };

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

proptest! {
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
