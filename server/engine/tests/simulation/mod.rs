//! A drive without processes and disk: the same decisions and events as a real one, with agents that end in any order and
//! in any way. Shared by the tests that need one.
#![allow(dead_code, reason = "each of the tests that share it uses its own part")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use flowdrive_engine::decide::feedback;
use flowdrive_engine::decide::next::{Agents, Availability, End, Next, Situation, iteration_bound, next};
use flowdrive_engine::decide::retry::{After, Failure, after};
use flowdrive_engine::model::journal::{
    AcceptedResult, Commit, DriveSettings, JournalEvent, RunPlanned, STATE_VERSION, TERMINAL_REASON,
};
use flowdrive_engine::model::outcome::{Ending, HandleKind, Outcome, Transient};
use flowdrive_engine::model::state::{RunState, Verdict};
use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::ids::{AgentName, CommitId, RunId, WorkerId};
use flowdrive_protocol::outcome::{Classification, Finding, Severity, Usage};
use flowdrive_protocol::run::StopMode;
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::Workflow;

/// How a simulated attempt ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Good { findings: u8 },
    Bad,
    Passing,
}

pub(crate) struct Sim {
    pub(crate) state: RunState,
    pub(crate) settings: DriveSettings,
    pub(crate) clock: i64,
    pub(crate) in_flight: Vec<(usize, WorkerId)>,
    pub(crate) dispatched: u64,
    pub(crate) most_in_flight: usize,
    pub(crate) stop: Option<StopMode>,
    /// What the run's journal would hold.
    pub(crate) events: Vec<JournalEvent>,
    /// The same without the plan, with times, so that any beginning of it can be folded anew.
    pub(crate) journal: Vec<(JournalEvent, i64)>,
    plan: RunPlanned,
    /// Tokens that each attempt reports.
    pub(crate) tokens: u64,
}

pub(crate) struct All(Availability);

impl Agents for All {
    fn availability(&self, _: &AgentName) -> Availability {
        self.0.clone()
    }
}

impl Sim {
    pub(crate) fn new(workflow: serde_json::Value, concurrency: Option<u32>, once: bool) -> Self {
        let workflow: Workflow = serde_json::from_value(workflow).unwrap();
        let plan = RunPlanned {
            schema_version: STATE_VERSION,
            run_id: RunId::new("run-1").unwrap(),
            workflow,
            workflow_source: "inline".into(),
            inputs: BTreeMap::new(),
            workspace: "/w".into(),
        };
        let events = vec![JournalEvent::RunPlanned(Box::new(plan.clone()))];
        Self {
            state: RunState::planned_at(plan.clone(), Timestamp::from_millis(0)).unwrap(),
            settings: DriveSettings {
                agent: AgentName::new("a").unwrap(),
                agent_named: false,
                concurrency: concurrency.and_then(NonZeroU32::new),
                once,
                incremental: false,
                max_attempts: NonZeroU32::new(3).unwrap(),
                token_budget: None,
                allow_unattested: false,
            },
            clock: 0,
            in_flight: Vec::new(),
            dispatched: 0,
            most_in_flight: 0,
            stop: None,
            events,
            journal: Vec::new(),
            plan,
            tokens: 0,
        }
    }

    pub(crate) fn apply(&mut self, event: &JournalEvent) {
        self.clock += 1;
        self.events.push(event.clone());
        self.state.apply(event, Timestamp::from_millis(self.clock)).unwrap();
        self.journal.push((event.clone(), self.clock));
    }

    pub(crate) fn next(&self, availability: Availability) -> Next {
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

    pub(crate) fn dispatch(&mut self, task: usize) {
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
            marker: Some("m".into()),
            cache: None,
        });
        self.in_flight.push((task, worker));
        self.most_in_flight = self.most_in_flight.max(self.in_flight.len());
        self.dispatched += u64::from(!again);
    }

    pub(crate) fn settle(&mut self, which: usize, fate: Fate) {
        let (task, worker) = self.in_flight.remove(which);
        let id = self.state.tasks[task].id.clone();
        let mut outcome =
            Outcome::bare(Ending::Completed, HandleKind::Process, String::new(), Timestamp::from_millis(self.clock));
        outcome.report.usage =
            (self.tokens > 0).then(|| Box::new(Usage { total_tokens: Some(self.tokens), ..Usage::default() }));
        self.apply(&JournalEvent::OutcomeRecorded {
            task: id.clone(),
            worker: worker.clone(),
            outcome: Box::new(outcome),
        });
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
                    usage: Some(Box::default()),
                    attestation: None,
                });
                self.apply(&JournalEvent::TaskAccepted {
                    task: id,
                    worker,
                    source: ResultSource::Agent,
                    result,
                    text: None,
                });
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
    pub(crate) fn run(&mut self, mut pick: impl FnMut(usize) -> usize, fate: impl Fn(&str, usize) -> Fate) -> End {
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
                Next::Record(event) => self.apply(&event),
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

    /// The server dies with no more than the first `kept` events on disk, and the next one takes the run up: what was
    /// under way is put back to wait.
    pub(crate) fn crash(&mut self, kept: usize) {
        self.journal.truncate(kept);
        let mut state = RunState::planned_at(self.plan.clone(), Timestamp::from_millis(0)).unwrap();
        for (event, at) in &self.journal {
            state.apply(event, Timestamp::from_millis(*at)).unwrap();
        }
        self.state = state;
        self.in_flight.clear();
        self.dispatched = 0;
        let open: Vec<_> = (self.state.tasks.iter())
            .filter_map(|task| Some((task.id.clone(), task.attempts.last()?)))
            .filter(|(_, attempt)| attempt.verdict == Verdict::Open)
            .map(|(id, attempt)| (id, attempt.worker.clone()))
            .collect();
        for (task, worker) in open {
            self.apply(&JournalEvent::TaskInterrupted { task, worker, reason: "it died".into() });
        }
    }

    /// The state as it is written down, times aside.
    pub(crate) fn timeless(&self) -> serde_json::Value {
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

pub(crate) const GOOD: Fate = Fate::Good { findings: 0 };
