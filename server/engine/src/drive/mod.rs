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
mod finish;
mod handle;
pub(crate) mod judge;
mod mailbox;
mod prepare;
mod recover;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use flowdrive_protocol::feedback::FeedbackRecord;
use flowdrive_protocol::ids::{PhaseId, WorkerId};
use flowdrive_protocol::run::{DriveResult, Step, StepAction, StepStatus, StopMode};
use flowdrive_protocol::time::Timestamp;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::EngineError;
use crate::config::Agents;
use crate::decide::finish::step;
use crate::decide::next::{End, Next, Situation, iteration_bound, next};
use crate::delegate::{Delegator, Permit, Usable};
use crate::engine::EventSink;
use crate::model::journal::{DriveSettings, JournalEvent};
use crate::record::Record;
use crate::store::{EndedLog, RunLock, Workspace, host_name};
use announce::Announcer;
use prepare::{Capacity, Prepared};

pub(crate) use child::child_run_id;
pub use handle::Drive;
pub(crate) use handle::{Begun, Drives, on_own_thread};
pub(crate) use mailbox::Message;

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
        // A step for each is what is expected; of ten thousand, room that doubles would be megabytes.
        let steps = Vec::with_capacity(planned.saturating_sub(state.completed()) as usize);
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
            steps,
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
