//! Starting an attempt: its folder, its record, and, once that is on disk, its agent.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flowdrive_protocol::ids::{AgentName, WorkerId};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::{IncludeResults, SubWorkflow};

use super::child::Child;
use super::{Driver, Message};
use crate::EngineError;
use crate::accept;
use crate::config::Agents;
use crate::decide::next::{Agents as Takes, Availability};
use crate::decide::prompt;
use crate::delegate::{Busy, Limits, Permit, Usable};
use crate::model::agent::{Agent, Assignment};
use crate::model::journal::JournalEvent;
use crate::model::outcome::{Ending, HandleKind, Noted, Notice, Outcome};
use crate::model::state::RunState;
use crate::store::canonical::sha256_hex;
use crate::store::{EndedLog, RunPaths, read_regular, task_name, worker};
use crate::workflow;

/// An attempt whose dispatch is recorded but not yet on disk.
pub(super) enum Prepared {
    /// For an agent.
    Agent(Box<Delegation>),
    /// For a run of another workflow.
    Child(Child),
}

/// What will do an attempt's work.
enum Place {
    /// An agent, with its place among those that may run.
    Agent(Permit),
    /// A run of another workflow; its own tasks take places.
    Child(SubWorkflow),
}

/// What an agent is started with.
pub(super) struct Delegation {
    task: usize,
    agent: Agent,
    assignment: Assignment,
    permit: Permit,
}

impl Prepared {
    /// Place of its task.
    pub(super) const fn task(&self) -> usize {
        match self {
            Self::Agent(delegation) => delegation.task,
            Self::Child(child) => child.task,
        }
    }
}

/// What agents can take, asked of the limits they share with every other run.
pub(super) struct Capacity<'a> {
    agents: &'a Agents,
    limits: &'a Limits,
    usable: &'a Usable,
    /// The place asked for last, for the attempt that is about to be prepared.
    permit: Cell<Option<Permit>>,
    busy: Cell<Option<Busy>>,
}

impl<'a> Capacity<'a> {
    pub(super) fn new(agents: &'a Agents, limits: &'a Limits, usable: &'a Usable) -> Self {
        Self { agents, limits, usable, permit: Cell::new(None), busy: Cell::new(None) }
    }

    /// The place taken, and the refusal if there was one.
    pub(super) fn into_parts(self) -> (Option<Permit>, Option<Busy>) {
        (self.permit.into_inner(), self.busy.into_inner())
    }
}

impl Takes for Capacity<'_> {
    fn availability(&self, name: &AgentName) -> Availability {
        let Ok(agent) = self.agents.get(name) else { return Availability::Unknown };
        if let Some(reason) = self.usable.fault(agent) {
            return Availability::Unusable(reason);
        }
        match self.limits.try_acquire(agent) {
            Ok(permit) => {
                self.permit.set(Some(permit));
                Availability::Free
            }
            Err(busy) => {
                let until = busy.until.map(from_now);
                self.busy.set(Some(busy));
                Availability::Busy(until)
            }
        }
    }
}

fn from_now(instant: tokio::time::Instant) -> Timestamp {
    let wait = instant.saturating_duration_since(tokio::time::Instant::now());
    let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(Timestamp::now().as_millis().saturating_add(millis))
}

/// The results of all phases before one, read from their files. None if any is not what was accepted: a task is given
/// all of them or none.
fn earlier_in_full(state: &RunState, phase: usize, paths: &RunPaths) -> Option<String> {
    let before = state.phases[..phase].iter().flat_map(|phase| &phase.tasks).map(|place| &state.tasks[*place]);
    let mut results = BTreeMap::new();
    for task in before {
        let accepted = task.accepted.as_ref()?;
        let bytes = read_regular(&paths.dir.join(&accepted.path), accepted.bytes).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = text.filter(|text| sha256_hex(text) == accepted.digest) else {
            tracing::warn!(task = %task.id, "its result is not what was accepted; later tasks are not given results in full");
            return None;
        };
        results.insert(&task.id, text);
    }
    (!results.is_empty()).then(|| prompt::in_full(&results))
}

impl Driver {
    /// Makes the attempt's folder and records its dispatch.
    pub(super) fn prepare(
        &mut self,
        task: usize,
        phase: usize,
        width: u32,
        permit: Option<Permit>,
    ) -> Result<(), EngineError> {
        let state = self.job.record.state();
        let spec = state.spec(task);
        let name = spec.agent.as_ref().unwrap_or(&self.job.settings.agent);
        let agent = self.job.agents.get(name)?.clone();
        let place = match (&spec.sub_workflow, permit) {
            (Some(spec), _) => Place::Child(spec.clone()),
            (None, Some(permit)) => Place::Agent(permit),
            (None, None) => return Err(EngineError::internal("an attempt was prepared without a place for its agent")),
        };
        let current = &state.tasks[task];
        let number = current.attempts.len() + 1;
        let worker = WorkerId::new(format!("worker-{}-{number:04}", task_name(&current.id)))
            .map_err(|fault| EngineError::internal(fault.to_string()))?;
        let folder = self.job.record.paths.worker(&worker);
        let assignment = Assignment {
            run_id: state.run_id.clone(),
            task_id: current.id.clone(),
            worker_id: worker.clone(),
            attempt: current.failures + 1,
            workspace: self.job.workspace.root().to_owned(),
            folder,
            prompt: workflow::render(&spec.prompt, &state.inputs),
            model: spec.model.clone().or_else(|| agent.model.clone()),
            timeout: spec.timeout_ms.map_or(agent.timeout, Duration::from_millis),
            sandbox: spec.sandbox,
            marker: self.job.delegator.next_marker(),
            session: current
                .attempts
                .iter()
                .rev()
                .find(|attempt| attempt.agent == agent.name)
                .and_then(|attempt| attempt.session.clone()),
        };
        let evidence = accept::evidence::requires_evidence(current.id.as_str(), spec.requires_evidence);
        // The same for every task of a phase, and long: made once.
        let earlier = match &self.earlier {
            Some((of, text)) if *of == state.phases[phase].id => Arc::clone(text),
            _ => Arc::from(prompt::earlier(&state, phase, &self.job.record.paths.dir)),
        };
        let in_full = match spec.result_cache.as_ref().and_then(|cache| cache.include_completed_results) {
            Some(IncludeResults::PreviousPhases) => earlier_in_full(&state, phase, &self.job.record.paths),
            None => None,
        };
        let phase_id = state.phases[phase].id.clone();
        let briefing = prompt::Briefing {
            phase: state.phases[phase].id.as_str(),
            requires_evidence: evidence,
            artifacts: &spec.artifacts,
            earlier: &earlier,
            in_full: in_full.as_deref(),
            refused: current.refusal.as_ref(),
            guidance: current.guidance.as_deref(),
        };
        let input = prompt::input(&assignment, &briefing);
        let made = (phase_id, Arc::clone(&earlier));
        let manifest = prompt::manifest(&assignment, agent.name.as_str(), evidence);
        let starts_phase = (!state.phases[phase].started).then(|| state.phases[phase].id.clone());
        let again = current.transient > 0;
        let (cache, looked_up) = self.kept_result(&state, task, &agent);
        drop(state);
        self.earlier = Some(made);

        worker::create_worker(&self.job.record.paths, &worker, &input, &manifest)?;
        if let Some(phase) = starts_phase {
            self.job.record.record(&JournalEvent::PhaseStarted { phase, width })?;
        }
        self.job.record.record(&JournalEvent::TaskDispatched {
            task: assignment.task_id.clone(),
            worker: worker.clone(),
            agent: agent.name.clone(),
            attempt: assignment.attempt,
            prompt_digest: sha256_hex(&input),
            marker: (looked_up.is_none() && matches!(place, Place::Agent(_))).then(|| assignment.marker.clone()),
            cache,
        })?;
        self.dispatched += u64::from(!again);
        if let Some(text) = looked_up {
            drop(place);
            return self.take_kept(task, &worker, &assignment, &text);
        }
        self.in_flight.insert(task, worker.clone());
        // A delegation gets what the agent reads, not the bare prompt: guidance and the result's form are in it.
        let assignment = Assignment { prompt: input, ..assignment };
        self.prepared.push_back(match place {
            Place::Child(spec) => Prepared::Child(Child { task, worker, spec }),
            Place::Agent(permit) => Prepared::Agent(Box::new(Delegation { task, agent, assignment, permit })),
        });
        Ok(())
    }

    /// Starts an attempt whose dispatch is on disk.
    pub(super) fn start(&mut self, prepared: Prepared) {
        match prepared {
            Prepared::Agent(delegation) => self.start_agent(*delegation),
            Prepared::Child(child) => self.start_child(child),
        }
    }

    fn start_agent(&self, delegation: Delegation) {
        let Delegation { task, agent, assignment, permit } = delegation;
        let (sender, stop, delegator) = (self.job.sender.clone(), self.kill.clone(), self.job.delegator.clone());
        let ended = Arc::clone(&self.ended);
        let worker = assignment.worker_id.clone();
        let (name, marker) = (agent.name.clone(), assignment.marker.clone());
        let process = Arc::new(OnceLock::new());
        let notices = {
            let (sender, announcer) = (sender.clone(), self.announcer.clone());
            let (task_id, worker) = (assignment.task_id.clone(), worker.clone());
            let process = Arc::clone(&process);
            move |notice: Notice| match notice {
                Notice::Activity(text) => announcer.activity(&task_id, &worker, text),
                notice => {
                    if let Notice::ProcessStarted(started) = &notice {
                        let _ = process.set(started.clone());
                    }
                    let _ = sender.send(Message::Noticed { task, worker: worker.clone(), notice });
                }
            }
        };
        let started_at = Timestamp::now();
        let invocation = self.job.delegator.describe(&agent, assignment.model.as_deref(), assignment.sandbox);
        let work = self.job.runtime.spawn(async move {
            let outcome = delegator.delegate(&agent, &assignment, &notices, &stop).await;
            drop(permit);
            outcome
        });
        self.job.runtime.spawn(async move {
            // A defect in a delegation must not take the drive with it, nor leave it waiting.
            let outcome = work.await.unwrap_or_else(|fault| {
                let reason = format!("the delegation itself failed, which is a defect of Flowdrive: {fault}");
                let ending = Ending::Failed { code: "internal".to_owned(), reason, transient: None };
                Outcome::bare(ending, HandleKind::Process, invocation, started_at)
            });
            let process = process.get().cloned();
            let outcome = noted(ended, &worker, Noted { agent: name, marker, process, outcome }).await;
            let _ = sender.send(Message::Settled { task, worker, outcome: Box::new(outcome) });
        });
    }
}

/// Notes an outcome where a later drive finds it should this process die before the journal has it. An attempt that was
/// interrupted ended no other way than by this process, and is begun again in either case.
async fn noted(ended: Arc<EndedLog>, worker: &WorkerId, note: Noted) -> Outcome {
    if note.outcome.ending == Ending::Interrupted {
        return note.outcome;
    }
    let (note, worker) = (Arc::new(note), worker.clone());
    let copy = Arc::clone(&note);
    let done = tokio::task::spawn_blocking(move || {
        if let Err(fault) = ended.note(&worker, &*copy) {
            tracing::warn!(%worker, %fault, "the end of an agent could not be noted");
        }
    });
    // A runtime that shuts down may not have run it; the outcome counts all the same.
    let _ = done.await;
    Arc::unwrap_or_clone(note).outcome
}
