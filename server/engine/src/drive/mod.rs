//! The drive: asks `decide` what is next, has agents run by `delegate`, judges what they deliver by `accept`, and
//! writes every step down, until the run is finished or nothing more may be done.
//!
//! One drive is one thread of its own. It is the run's only writer; agents, clients and signals reach it through its
//! mailbox. So no lock is held while anything is waited for, and a slow disk holds up this run alone.
//!
//! Order of every turn: take what arrived, write it down, judge it, decide what starts next, put all of that on the
//! disk at once, and only then tell clients and start agents.

mod announce;
pub(crate) mod cached;
mod child;
mod commit;
mod handle;
mod judge;
mod prepare;
mod recover;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::{PhaseId, WorkerId};
use flowdrive_protocol::method::ResolveFeedbackParams;
use flowdrive_protocol::run::{DriveResult, Step, StepAction, StepStatus, StopMode};
use flowdrive_protocol::time::Timestamp;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::Agents;
use crate::decide::feedback;
use crate::decide::finish::{Conclusion, commit_refused, conclude, step};
use crate::decide::next::{End, Next, Situation, iteration_bound, next};
use crate::delegate::{Busy, Delegator, Permit, Usable};
use crate::engine::EventSink;
use crate::model::journal::{DriveSettings, JournalEvent};
use crate::model::outcome::{Ending, HandleKind, Notice, Outcome};
use crate::record::Record;
use crate::resolve;
use crate::store::{EndedLog, RunLock, StoreError, Workspace, host_name, stop};
use crate::{EngineError, report};
use announce::Announcer;
use prepare::{Capacity, Prepared};

pub(crate) use child::child_run_id;
pub use handle::Drive;
pub(crate) use handle::Drives;

/// How often the file through which other processes ask for a stop is looked at.
const STOP_FILE_INTERVAL: Duration = Duration::from_millis(250);

/// How long a drive that ended by a fault waits for the next of its agents to be gone. Far more than ending one takes: only a
/// panic between a task's beginning and its agent's can leave one that never answers.
const FAREWELL: Duration = Duration::from_secs(60);

/// What reaches a drive from outside.
pub(crate) enum Message {
    /// An agent ended.
    Settled {
        /// Place of its task.
        task: usize,
        /// The attempt.
        worker: WorkerId,
        /// How it ended.
        outcome: Box<Outcome>,
    },
    /// A sub-workflow's run cannot be written down: no fault of its task's.
    ChildBroken {
        /// Place of the task.
        task: usize,
        /// What happened.
        fault: EngineError,
    },
    /// An agent told something that is written down.
    Noticed {
        /// Place of its task.
        task: usize,
        /// The attempt.
        worker: WorkerId,
        /// What it told.
        notice: Notice,
    },
    /// An agent that could take no more may now be able to.
    CapacityChanged,
    /// A stop is asked for.
    Stop {
        /// How.
        mode: StopMode,
        /// By whom.
        by: String,
    },
    /// A feedback record is to be closed.
    Resolve {
        /// How.
        params: Box<ResolveFeedbackParams>,
        /// Where the answer goes.
        reply: tokio::sync::oneshot::Sender<Result<FeedbackRecord, EngineError>>,
    },
}

/// What a drive is made of.
pub(crate) struct Job {
    /// The run's record.
    pub(crate) record: Record,
    /// Held until the drive has ended.
    pub(crate) lock: RunLock,
    /// The folder the run is about.
    pub(crate) workspace: Arc<Workspace>,
    /// What was asked.
    pub(crate) settings: DriveSettings,
    /// Whether an earlier drive is carried on.
    pub(crate) resumed: bool,
    /// The agents.
    pub(crate) agents: Arc<Agents>,
    /// Runs them.
    pub(crate) delegator: Delegator,
    /// Is told of events.
    pub(crate) sink: Arc<dyn EventSink>,
    /// The mailbox's other end.
    pub(crate) sender: mpsc::Sender<Message>,
    /// The mailbox.
    pub(crate) mailbox: mpsc::Receiver<Message>,
    /// Where agents run.
    pub(crate) runtime: tokio::runtime::Handle,
    /// The drives of this process, for sub-workflows.
    pub(crate) drives: Arc<Drives>,
    /// Ids of the workflows this one runs inside, outermost first.
    pub(crate) lineage: Vec<String>,
}

type Reply = (tokio::sync::oneshot::Sender<Result<FeedbackRecord, EngineError>>, Result<FeedbackRecord, EngineError>);

/// The drive's own thread.
pub(crate) struct Driver {
    job: Job,
    /// Ends every agent of this drive when cancelled.
    kill: CancellationToken,
    /// Cancels that also when this thread unwinds.
    _leash: DropGuard,
    in_flight: BTreeMap<usize, WorkerId>,
    prepared: VecDeque<Prepared>,
    children: BTreeMap<usize, Drive>,
    unread: VecDeque<Message>,
    replies: Vec<Reply>,
    steps: Vec<(usize, Step)>,
    dispatched: u64,
    bound: u64,
    stop: Option<(StopMode, String)>,
    planned_at_start: u32,
    committed: bool,
    refused_commit: Option<String>,
    announcer: Announcer,
    watches_capacity: bool,
    /// Where the ends of this drive's agents are noted before they reach the mailbox.
    ended: Arc<EndedLog>,
    usable: Usable,
    /// What tasks of a phase are told of the phases before it.
    earlier: Option<(PhaseId, Arc<str>)>,
}

impl Driver {
    pub(crate) fn new(job: Job) -> Self {
        let state = job.record.state();
        let (planned, seq) = (state.planned(), state.event_seq);
        let bound = iteration_bound(&state, &job.settings);
        let announcer = Announcer::new(state.run_id.clone(), Arc::clone(&job.sink), seq);
        drop(state);
        let ended = Arc::new(EndedLog::of(&job.record.paths));
        let usable = Usable::new(job.delegator.clone());
        let kill = CancellationToken::new();
        Self {
            job,
            _leash: kill.clone().drop_guard(),
            kill,
            in_flight: BTreeMap::new(),
            prepared: VecDeque::new(),
            children: BTreeMap::new(),
            unread: VecDeque::new(),
            replies: Vec::new(),
            steps: Vec::new(),
            dispatched: 0,
            bound,
            stop: None,
            planned_at_start: planned,
            committed: false,
            refused_commit: None,
            announcer,
            watches_capacity: false,
            ended,
            usable,
            earlier: None,
        }
    }

    /// Drives to the end. Whatever happens, no agent is left behind: a panic is a fault like any other, which ends this run
    /// alone. What was recorded but not written is lost by it; what is on the disk is whole.
    pub(crate) fn run(mut self) -> Result<DriveResult, EngineError> {
        let driven = catch_unwind(AssertUnwindSafe(|| self.drive()));
        let result = driven.unwrap_or_else(|_| Err(handle::died(&self.job.record.state().run_id)));
        if let Err(fault) = &result {
            self.abandon();
            let state = self.job.record.state();
            let counts = (state.completed(), state.parked());
            drop(state);
            self.announcer.failed(&self.job.record.paths, fault, counts);
        }
        for (reply, answer) in self.replies.drain(..) {
            let _ = reply.send(match &result {
                Ok(_) => answer,
                Err(fault) => Err(fault.clone()),
            });
        }
        // Messages that arrive from here on find the mailbox closed and are answered by whoever sent them.
        drop(self.job.lock);
        result
    }

    fn drive(&mut self) -> Result<DriveResult, EngineError> {
        self.job.record.close_unfinished()?;
        self.job.record.record(&JournalEvent::DriveStarted {
            pid: std::process::id(),
            host: host_name().unwrap_or_default(),
            settings: self.job.settings.clone(),
            resumed: self.job.resumed,
        })?;
        self.recover()?;
        let end = loop {
            let (decision, permit) = self.decide();
            match decision {
                Next::Dispatch { task, phase, width } => self.prepare(task, phase, width, permit)?,
                Next::Wait { until } => {
                    self.flush()?;
                    let messages = self.receive(until);
                    self.take(messages)?;
                }
                Next::Record(event) => self.job.record.record(&event)?,
                Next::Commit => {
                    if !self.commit()? {
                        break End::Parked;
                    }
                }
                Next::End(end) => break end,
            }
        };
        self.finish(&end)
    }

    fn decide(&mut self) -> (Next, Option<Permit>) {
        let state = self.job.record.state();
        let capacity = Capacity::new(&self.job.agents, self.job.delegator.limits(), &self.usable);
        let decision = next(&Situation {
            state: &state,
            settings: &self.job.settings,
            in_flight: self.in_flight.len(),
            dispatched: self.dispatched,
            bound: self.bound,
            stop: self.stop.as_ref().map(|(mode, _)| *mode),
            now: Timestamp::now(),
            agents: &capacity,
        });
        drop(state);
        let (permit, busy) = capacity.into_parts();
        if let (Next::Wait { .. }, Some(busy)) = (&decision, busy) {
            self.watch_capacity(busy);
        }
        (decision, permit)
    }

    /// Puts what was recorded on the disk; then tells clients, answers requests and starts agents.
    fn flush(&mut self) -> Result<(), EngineError> {
        if self.prepared.is_empty() && self.replies.is_empty() && !self.job.record.has_news() {
            // Nothing leaves this process on account of what was recorded: the kernel's copy is enough for now.
            return Ok(self.job.record.write()?);
        }
        let events = self.job.record.sync()?;
        self.announcer.lifecycle(events);
        for (reply, answer) in self.replies.drain(..) {
            let _ = reply.send(answer);
        }
        // One at a time: what has not begun is then known should beginning one panic.
        while let Some(prepared) = self.prepared.pop_front() {
            self.start(prepared);
        }
        Ok(())
    }

    /// Waits for something to happen, and takes all that did.
    fn receive(&mut self, until: Option<Timestamp>) -> Vec<Message> {
        let mut wait = STOP_FILE_INTERVAL;
        if let Some(until) = until {
            let millis = until.as_millis().saturating_sub(Timestamp::now().as_millis()).max(1);
            wait = wait.min(Duration::from_millis(millis.unsigned_abs()));
        }
        let mut messages: Vec<Message> = self.job.mailbox.recv_timeout(wait).into_iter().collect();
        messages.extend(self.job.mailbox.try_iter());
        if let Some(mode) = stop::take_stop(&self.job.record.paths) {
            messages.push(Message::Stop { mode, by: "another process".to_owned() });
        }
        messages
    }

    /// Has the mailbox told when an agent that refused may be able to take more. One watch at a time.
    fn watch_capacity(&mut self, busy: Busy) {
        if std::mem::replace(&mut self.watches_capacity, true) {
            return;
        }
        let changed = self.job.delegator.limits().changed_since(&busy);
        let (sender, kill) = (self.job.sender.clone(), self.kill.clone());
        self.job.runtime.spawn(async move {
            tokio::select! {
                () = changed => { let _ = sender.send(Message::CapacityChanged); }
                () = kill.cancelled() => {}
            }
        });
    }

    /// Writes down what arrived, hands it to the kernel, then judges the outcomes.
    fn take(&mut self, messages: Vec<Message>) -> Result<(), EngineError> {
        let mut outcomes = Vec::new();
        let (mut broken, mut noted) = (None, 0);
        // Kept where a fault half way leaves the rest: whoever abandons the drive has to see each agent's end.
        self.unread.extend(messages);
        while let Some(message) = self.unread.pop_front() {
            match message {
                Message::Settled { task, worker, outcome } => {
                    noted += usize::from(is_noted(&outcome));
                    if self.in_flight.get(&task) != Some(&worker) {
                        continue;
                    }
                    self.in_flight.remove(&task);
                    self.children.remove(&task);
                    let id = self.job.record.state().tasks[task].id.clone();
                    self.job.record.record(&JournalEvent::OutcomeRecorded {
                        task: id,
                        worker: worker.clone(),
                        outcome: outcome.clone(),
                    })?;
                    outcomes.push((task, worker, outcome));
                }
                Message::ChildBroken { task, fault } => {
                    // Nothing is recorded of it: the next drive finds the attempt open and carries the child on.
                    self.in_flight.remove(&task);
                    self.children.remove(&task);
                    broken = Some(fault);
                }
                Message::Noticed { task, worker, notice } => self.note(task, worker, notice)?,
                Message::CapacityChanged => self.watches_capacity = false,
                Message::Stop { mode, by } => self.request_stop(mode, by)?,
                Message::Resolve { params, reply } => {
                    let answer = resolve::resolve(&mut self.job.record, &params);
                    self.replies.push((reply, answer));
                }
            }
        }
        self.job.record.write()?;
        if noted > 0 {
            self.ended.recorded(noted);
        }
        for (task, worker, outcome) in outcomes {
            self.judge(task, &worker, &outcome)?;
        }
        match broken {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn note(&mut self, task: usize, worker: WorkerId, notice: Notice) -> Result<(), StoreError> {
        if self.in_flight.get(&task) != Some(&worker) {
            return Ok(());
        }
        let id = self.job.record.state().tasks[task].id.clone();
        match notice {
            Notice::ProcessStarted(process) => {
                self.job.record.record(&JournalEvent::ProcessStarted { task: id, worker, process })
            }
            Notice::Session(session) => {
                self.job.record.record(&JournalEvent::SessionKnown { task: id, worker, session })
            }
            Notice::Activity(_) => Ok(()),
        }
    }

    fn request_stop(&mut self, mode: StopMode, by: String) -> Result<(), StoreError> {
        let stronger = match &self.stop {
            None => true,
            Some((StopMode::Graceful, _)) => mode == StopMode::Now,
            Some((StopMode::Now, _)) => false,
        };
        if stronger {
            self.job.record.record(&JournalEvent::StopRequested { mode, by: by.clone() })?;
            self.children.values().for_each(|child| child.stop(mode, &by));
            self.stop = Some((mode, by));
        }
        if mode == StopMode::Now {
            self.kill.cancel();
        }
        Ok(())
    }

    fn finish(&mut self, end: &End) -> Result<DriveResult, EngineError> {
        let uncollected = feedback::uncollected(&self.job.record.state(), Timestamp::now());
        for record in uncollected {
            self.job.record.record(&JournalEvent::FeedbackOpened { record: Box::new(record) })?;
        }
        let state = self.job.record.state();
        let by = self.stop.as_ref().map_or("client", |(_, by)| by.as_str());
        let conclusion = match &self.refused_commit {
            Some(message) => commit_refused(&state, message),
            None => conclude(&state, end, by, self.committed),
        };
        drop(state);
        let Conclusion { status, reason, step: last, stopped } = conclusion;
        self.job.record.record(&JournalEvent::DriveFinished { status, reason: reason.clone() })?;
        self.job.record.write()?;
        // A drive that found nothing to do leaves a large run's files as they are.
        let record = &self.job.record;
        let current = record.report().is_some_and(|written| report::is_in_place(&record.paths, written));
        if !current {
            report::write(&mut self.job.record)?;
        }
        // Synced before the snapshot, which must never be ahead of the journal on disk.
        let events = self.job.record.sync()?;
        if !current {
            self.job.record.save_snapshot()?;
        }
        self.ended.clear();
        self.announcer.lifecycle(events);

        let state = self.job.record.state();
        let order: BTreeMap<usize, usize> = state
            .phases
            .iter()
            .flat_map(|phase| &phase.tasks)
            .enumerate()
            .map(|(place, task)| (*task, place))
            .collect();
        let mut steps = std::mem::take(&mut self.steps);
        steps.sort_by_key(|(task, step)| (order.get(task).copied().unwrap_or(usize::MAX), step.worker_id.clone()));
        let needed: BTreeSet<_> = state
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.accepted.is_none())
            .map(|(place, _)| state.spec(place).agent.as_ref().unwrap_or(&self.job.settings.agent))
            .collect();
        Ok(DriveResult {
            schema_version: SCHEMA_VERSION,
            run_id: state.run_id.clone(),
            workflow_id: state.workflow.id.clone(),
            status,
            steps: steps.into_iter().map(|(_, step)| step).chain(last).collect(),
            planned_workers: self.planned_at_start,
            completed_workers: state.completed(),
            parked_workers: state.parked(),
            commit_id: state.terminal_commit().map(|commit| commit.id.clone()),
            report_path: self.job.record.paths.report.to_string_lossy().into_owned(),
            state_path: self.job.record.paths.state.to_string_lossy().into_owned(),
            agent_configured: needed
                .iter()
                .all(|agent| self.job.agents.get(agent).is_ok_and(|agent| self.usable.fault(agent).is_none())),
            reason,
            stopped,
        })
    }

    /// After a fault of the drive itself: ends the agents and waits until they are gone. What they did is in their
    /// folders; the next drive finds their attempts open.
    fn abandon(&mut self) {
        self.kill.cancel();
        self.children.values().for_each(|child| child.stop(StopMode::Now, "a fault of the parent run"));
        for prepared in self.prepared.drain(..) {
            self.in_flight.remove(&prepared.task());
        }
        while !self.in_flight.is_empty() {
            let message = self.unread.pop_front().map_or_else(|| self.job.mailbox.recv_timeout(FAREWELL), Ok);
            match message {
                Ok(Message::Settled { task, .. } | Message::ChildBroken { task, .. }) => {
                    self.in_flight.remove(&task);
                }
                Ok(Message::Resolve { reply, .. }) => drop(reply),
                Ok(_) => {}
                Err(_) => {
                    tracing::error!(
                        left = self.in_flight.len(),
                        "agents that were ended do not say so; the next drive looks for them"
                    );
                    break;
                }
            }
        }
    }

    fn push_step(&mut self, task: usize, worker: &WorkerId, action: StepAction, status: StepStatus) -> &mut Step {
        let state = self.job.record.state();
        let mut made = step(&state, action, status);
        made.task_id = Some(state.tasks[task].id.clone());
        made.phase = Some(state.tasks[task].phase.clone());
        made.worker_id = Some(worker.clone());
        made.backend_id = Some("agent".into());
        drop(state);
        self.steps.push((task, made));
        let last = self.steps.len() - 1;
        &mut self.steps[last].1
    }
}

/// Whether an outcome comes from an agent, whose end was noted.
fn is_noted(outcome: &Outcome) -> bool {
    matches!(outcome.handle, HandleKind::Process | HandleKind::Endpoint) && outcome.ending != Ending::Interrupted
}
