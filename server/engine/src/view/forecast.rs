//! Which results of earlier runs a drive would take: what it would find at each task, followed from phase to phase.
//!
//! A result that is kept and holds is the one its task will have, so that what depends on it can be looked up too. Past the
//! first one that is not known, nothing is guessed: the task it hangs on is named.

use flowdrive_protocol::run::TaskStatus;
use flowdrive_protocol::run::{CacheState, CacheVerdict};
use serde_json::Value;

use crate::decide::cache::{digested, unknown_before};
use crate::drive::cached::{Lookup, refused_before};
use crate::drive::judge::weigh;
use crate::model::state::RunState;
use crate::store::canonical::sha256_hex;

/// The first task or phase of a run whose result cannot be told.
type Unknown = String;

/// Foretells the cache's part in a drive. Asked in the order of the phases it looks at each task once.
pub(super) struct Forecast<'a> {
    state: &'a RunState,
    lookup: Lookup<'a>,
    /// Phases whose results are in `known`.
    reached: usize,
    /// Places and digests of the results of those phases, or what is not known.
    known: Result<Vec<(usize, String)>, Unknown>,
    /// `known` as a part of a key, made once for a phase.
    part: Option<(usize, Value)>,
}

impl<'a> Forecast<'a> {
    pub(super) const fn new(state: &'a RunState, lookup: Lookup<'a>) -> Self {
        Self { state, lookup, reached: 0, known: Ok(Vec::new()), part: None }
    }

    /// What a drive would tell of a task of the given phase. None for a task whose result is not to be reused.
    pub(super) fn of(&mut self, phase: usize, task: usize) -> Option<CacheState> {
        Some(self.find(phase, task)?.0)
    }

    fn find(&mut self, phase: usize, task: usize) -> Option<(CacheState, Option<String>)> {
        let (state, lookup) = (self.state, self.lookup);
        if !lookup.applies(state, task) {
            return None;
        }
        let agent = lookup.agents.get(state.spec(task).agent.as_ref().unwrap_or(&lookup.settings.agent)).ok()?;
        let mut depends_on = None;
        let found = lookup.find(state, task, agent, || {
            self.upstream(phase).map_err(|unknown| {
                let reason = unknown_before(&format!("{unknown} has its result"));
                depends_on = Some(unknown);
                reason
            })
        });
        let (told, text) = found?;
        if text.is_some() && state.tasks[task].refusal.is_some() {
            return Some((refused_before(), None));
        }
        let Some(text) = text else { return Some((CacheState { depends_on, ..told }, None)) };
        match weigh(&text, &state.tasks[task].id, state.spec(task), None, lookup.workspace) {
            Ok(_) => Some((told, Some(text))),
            Err(refusal) => {
                let reason = Some(format!("what was kept would be refused: {}", refusal.message));
                Some((CacheState { state: CacheVerdict::Miss, reason, depends_on: None }, None))
            }
        }
    }

    /// The results of every phase before one, as a part of a key.
    fn upstream(&mut self, phase: usize) -> Result<Value, Unknown> {
        while self.reached < phase && self.known.is_ok() {
            self.reach();
        }
        let known = self.known.as_ref().map_err(Clone::clone)?;
        if let Some((of, part)) = &self.part
            && *of == phase
        {
            return Ok(part.clone());
        }
        let results = known.iter().map(|(place, digest)| (self.state.tasks[*place].id.as_str(), digest.as_str()));
        let part = digested(results.collect());
        self.part = Some((phase, part.clone()));
        Ok(part)
    }

    /// Takes the next phase's results in.
    fn reach(&mut self) {
        let state = self.state;
        let phase = &state.phases[self.reached];
        let mut results = Vec::with_capacity(phase.tasks.len());
        let mut unknown = None;
        for place in &phase.tasks {
            let task = &state.tasks[*place];
            let digest = match &task.accepted {
                Some(accepted) => Some(accepted.digest.clone()),
                None if task.status == TaskStatus::Failed => None,
                None => self.find(self.reached, *place).and_then(|(_, text)| text).map(sha256_hex),
            };
            match digest {
                Some(digest) => results.push((*place, digest)),
                None => {
                    unknown = Some(task.id.to_string());
                    break;
                }
            }
        }
        // Rounds that are not decided yet would come between.
        if unknown.is_none() && phase.looping.as_ref().is_some_and(|looping| !looping.decided) {
            unknown = Some(format!("the loop of phase {}", phase.id));
        }
        match (unknown, &mut self.known) {
            (Some(unknown), known) => *known = Err(unknown),
            (None, Ok(known)) => known.append(&mut results),
            (None, Err(_)) => {}
        }
        self.reached += 1;
    }
}
