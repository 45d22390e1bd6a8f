//! What a drive does next.

use flowdrive_protocol::ids::AgentName;
use flowdrive_protocol::run::{StopMode, TaskStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::PhaseMode;

use super::{budget, looping};
use crate::model::journal::{DriveSettings, JournalEvent};
use crate::model::state::{PhaseState, RunState};

/// What is known when the question is asked.
pub struct Situation<'a> {
    /// The run.
    pub state: &'a RunState,
    /// What the drive was asked.
    pub settings: &'a DriveSettings,
    /// Agents under way.
    pub in_flight: usize,
    /// Tasks this drive dispatched, those tried again after a passing fault not counted.
    pub dispatched: u64,
    /// Most tasks it may dispatch; see [`iteration_bound`].
    pub bound: u64,
    /// A stop that was asked for.
    pub stop: Option<StopMode>,
    /// The time.
    pub now: Timestamp,
    /// What each agent can take.
    pub agents: &'a dyn Agents,
}

/// What agents can take at the moment.
pub trait Agents {
    /// Whether an agent is configured, and whether it can take one more now.
    fn availability(&self, agent: &AgentName) -> Availability;
}

/// What an agent can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// One more, now.
    Free,
    /// Nothing until one of its delegations ends, or until the time given.
    Busy(Option<Timestamp>),
    /// It is not configured.
    Unknown,
    /// It is configured and cannot be used, for a reason that trying does not change: its program is not there.
    Unusable(String),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Start the task at this place.
    Dispatch {
        /// The task.
        task: usize,
        /// Place of its phase.
        phase: usize,
        /// How many of the phase run at once.
        width: u32,
    },
    /// Wait for an agent to end, or until a time.
    Wait {
        /// When to ask again though nothing happened.
        until: Option<Timestamp>,
    },
    /// Write down what follows from what happened: a loop's decision, the end of a phase, a warning.
    Record(Box<JournalEvent>),
    /// Commit the run: every task is accepted.
    Commit,
    /// End the drive.
    End(End),
}

/// Why a drive ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Everything is done and committed.
    Complete,
    /// A stop was asked for.
    Stopped(StopMode),
    /// `once` filled its window and settled it.
    Once,
    /// A parked task stands before everything that is left.
    Parked,
    /// The token budget is spent.
    Budget {
        /// The task that would have been next.
        task: usize,
        /// Tokens recorded.
        spent: u64,
        /// Tokens allowed.
        budget: u64,
    },
    /// The next task's agent is not configured.
    NoAgent {
        /// The task.
        task: usize,
        /// The agent it names.
        agent: AgentName,
    },
    /// The next task's agent cannot be used.
    Unusable {
        /// The task.
        task: usize,
        /// Its agent.
        agent: AgentName,
        /// Why.
        reason: String,
    },
    /// The drive dispatched as often as it may. Never reached unless something is wrong.
    Exhausted(u64),
}

/// The next thing to do.
#[must_use]
pub fn next(situation: &Situation<'_>) -> Next {
    let Situation { state, settings, in_flight, .. } = *situation;
    let idle = in_flight == 0;
    let wait_or = |end: End| if idle { Next::End(end) } else { Next::Wait { until: None } };

    if let Some(event) = due(state, settings) {
        return Next::Record(Box::new(event));
    }
    if idle && state.completed() == state.planned() {
        return if state.terminal_commit().is_some() { Next::End(End::Complete) } else { Next::Commit };
    }
    if let Some(mode) = situation.stop {
        return wait_or(End::Stopped(mode));
    }
    let Some(place) = runnable_phase(state) else {
        return wait_or(End::Parked);
    };
    let phase = &state.phases[place];
    let width = width(state, phase, settings);
    if settings.once && situation.dispatched >= u64::from(width) {
        return wait_or(End::Once);
    }
    if halted(phase, width) {
        return wait_or(End::Parked);
    }
    if in_flight >= width as usize {
        return Next::Wait { until: None };
    }
    if situation.dispatched >= situation.bound {
        return wait_or(End::Exhausted(situation.bound));
    }

    let mut until: Option<Timestamp> = None;
    let mut sooner = |time: Timestamp| until = Some(until.map_or(time, |known| known.min(time)));
    let mut waiting = false;
    let mut unusable: Option<End> = None;
    for &task in phase.unsettled() {
        let candidate = &state.tasks[task];
        if candidate.status != TaskStatus::Pending {
            continue;
        }
        if let Some(time) = candidate.not_before.filter(|time| *time > situation.now) {
            sooner(time);
            waiting = true;
            continue;
        }
        let agent = state.spec(task).agent.as_ref().unwrap_or(&settings.agent);
        // A sub-workflow needs no agent of its own: its tasks do.
        let availability = match state.spec(task).sub_workflow {
            Some(_) => Availability::Free,
            None => situation.agents.availability(agent),
        };
        match availability {
            Availability::Unknown => return wait_or(End::NoAgent { task, agent: agent.clone() }),
            // What others can do meanwhile is done; no attempt is spent on what cannot be.
            Availability::Unusable(reason) => {
                unusable.get_or_insert(End::Unusable { task, agent: agent.clone(), reason });
                if phase.mode == PhaseMode::Sequential {
                    break;
                }
            }
            Availability::Busy(time) => {
                time.into_iter().for_each(&mut sooner);
                waiting = true;
            }
            Availability::Free => {
                if let Some((spent, budget)) = budget::exhausted(state, settings) {
                    return wait_or(End::Budget { task, spent, budget });
                }
                return Next::Dispatch { task, phase: place, width };
            }
        }
    }
    if let Some(end) = unusable.filter(|_| !waiting) {
        return wait_or(end);
    }
    if idle && !waiting { Next::End(End::Parked) } else { Next::Wait { until } }
}

/// The phase whose tasks may run: the first with a task that waits or runs, unless a phase before it holds a parked
/// task and nothing else to do. A phase without tasks is passed over.
#[must_use]
pub fn runnable_phase(state: &RunState) -> Option<usize> {
    let place = state.phases.iter().position(|phase| !phase.is_complete())?;
    (state.phases[place].open() > 0).then_some(place)
}

/// How many tasks of a phase run at once: the width asked for, else the workflow's limit in a parallel phase, else one.
#[must_use]
pub fn width(state: &RunState, phase: &PhaseState, settings: &DriveSettings) -> u32 {
    match (settings.concurrency, phase.mode) {
        (Some(width), _) => width.get(),
        (None, PhaseMode::Parallel) => {
            let tasks = u32::try_from(phase.tasks.len()).unwrap_or(u32::MAX);
            state.workflow.limits.max_concurrent_agents.get().min(tasks).max(1)
        }
        (None, PhaseMode::Sequential) => 1,
    }
}

/// In a phase run one by one, a parked task stops those behind it: they may build on it.
fn halted(phase: &PhaseState, width: u32) -> bool {
    phase.mode == PhaseMode::Sequential && width == 1 && phase.parked() > 0
}

/// What follows from the state and is not written down yet. Asked for before anything else, so that a crash between a
/// fact and what follows from it loses nothing.
fn due(state: &RunState, settings: &DriveSettings) -> Option<JournalEvent> {
    let ended = |phase: &&PhaseState| !phase.finished && !phase.tasks.is_empty() && phase.is_complete();
    looping::due(state)
        .or_else(|| Some(JournalEvent::PhaseFinished { phase: state.phases.iter().find(ended)?.id.clone() }))
        .or_else(|| budget::warning(state, settings))
}

/// Most tasks one drive may dispatch: `(tasks + rounds that loops may add) * (attempts + 1) + 5`.
#[must_use]
pub fn iteration_bound(state: &RunState, settings: &DriveSettings) -> u64 {
    let expansion: u64 = state
        .workflow
        .phases
        .iter()
        .filter_map(|phase| phase.looping.as_ref().map(|looping| (looping, phase.tasks.len() as u64)))
        .map(|(looping, tasks)| u64::from(looping.max_rounds.get() - 1) * tasks)
        .sum();
    let attempts = state
        .workflow
        .phases
        .iter()
        .flat_map(|phase| &phase.tasks)
        .filter_map(|task| task.max_attempts)
        .fold(settings.max_attempts, std::cmp::max);
    (u64::from(state.planned()) + expansion) * (u64::from(attempts.get()) + 1) + 5
}
