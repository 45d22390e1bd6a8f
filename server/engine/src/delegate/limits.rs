//! How many delegations are in flight: per agent, over the whole server, and not at all while an agent cools down.
//!
//! Must not: queue or choose. It says yes or not yet, and when it is worth asking again.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowdrive_protocol::ids::AgentName;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::agent::Agent;

/// Longest cool-down that is kept. An endpoint that asks for more is asked again after this.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// Slots and cool-downs. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Limits {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Counts the changes that can make a refused request succeed.
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    over_all: Option<NonZeroU32>,
    in_flight: u32,
    agents: HashMap<AgentName, AgentState>,
}

#[derive(Debug, Default)]
struct AgentState {
    in_flight: u32,
    paused_until: Option<Instant>,
}

/// Leave for one delegation. Give it back by dropping it.
#[derive(Debug)]
#[must_use = "dropping it gives the slot back"]
pub struct Permit {
    inner: Arc<Inner>,
    agent: AgentName,
}

/// Not now.
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    /// The end of the agent's cool-down, when that is why.
    pub until: Option<Instant>,
    seen: u64,
}

impl Limits {
    /// At most `over_all` delegations at once, whichever agents they go to.
    #[must_use]
    pub fn new(over_all: Option<NonZeroU32>) -> Self {
        let state = Mutex::new(State { over_all, ..State::default() });
        let inner = Inner { state, version: watch::Sender::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// A slot, if there is one now.
    ///
    /// # Errors
    /// [`Busy`] when the agent cools down, or it or the server has no free slot.
    pub fn try_acquire(&self, agent: &Agent) -> Result<Permit, Busy> {
        let mut state = self.inner.state();
        let seen = *self.inner.version.borrow();
        let now = Instant::now();
        let over_all_full = state.over_all.is_some_and(|most| state.in_flight >= most.get());
        let slots = state.agents.entry(agent.name.clone()).or_default();
        if let Some(until) = slots.paused_until {
            if until > now {
                return Err(Busy { until: Some(until), seen });
            }
            slots.paused_until = None;
        }
        if over_all_full || agent.max_concurrent.is_some_and(|most| slots.in_flight >= most.get()) {
            return Err(Busy { until: None, seen });
        }
        slots.in_flight += 1;
        state.in_flight += 1;
        drop(state);
        Ok(Permit { inner: Arc::clone(&self.inner), agent: agent.name.clone() })
    }

    /// Resolves when a slot has become free or a cool-down has ended since this was *called*: call it before
    /// [`Self::try_acquire`], and await it when that refuses. [`Self::changed_since`] has no such order to keep.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let seen = *self.inner.version.borrow();
        Self::wait(Arc::clone(&self.inner), seen, None)
    }

    /// Resolves when something has changed since that refusal, at once if it already has.
    pub fn changed_since(&self, busy: &Busy) -> impl Future<Output = ()> + Send + 'static + use<> {
        Self::wait(Arc::clone(&self.inner), busy.seen, busy.until)
    }

    async fn wait(inner: Arc<Inner>, seen: u64, until: Option<Instant>) {
        let mut version = inner.version.subscribe();
        let until = until.or_else(|| inner.next_end());
        let cooled = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The sender lives in `inner`, which this future holds: it cannot close.
            _ = version.wait_for(|now| *now != seen) => {}
            () = cooled => {}
        }
    }

    /// Lets the agent have no new delegation until then. A longer cool-down already set stays.
    pub fn pause(&self, agent: &AgentName, until: Instant) {
        let until = until.min(Instant::now() + LONGEST_PAUSE);
        let mut state = self.inner.state();
        let slots = state.agents.entry(agent.clone()).or_default();
        slots.paused_until = Some(slots.paused_until.map_or(until, |already| already.max(until)));
        drop(state);
        // Those who wait must learn of the new end, since theirs may have been "when a slot frees".
        self.inner.bump();
    }

    /// Changes how many may be in flight at once. Those that are, stay.
    pub fn set_over_all(&self, over_all: Option<NonZeroU32>) {
        self.inner.state().over_all = over_all;
        self.inner.bump();
    }

    /// How many delegations are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.inner.state().in_flight
    }

    /// The end of the agent's cool-down, if it is in one.
    #[must_use]
    pub fn paused_until(&self, agent: &AgentName) -> Option<Instant> {
        let now = Instant::now();
        self.inner.state().agents.get(agent).and_then(|slots| slots.paused_until).filter(|until| *until > now)
    }
}

impl Inner {
    /// Every critical section leaves the state whole, so a poisoned lock is taken as it is.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_end(&self) -> Option<Instant> {
        let now = Instant::now();
        self.state().agents.values().filter_map(|slots| slots.paused_until).filter(|until| *until > now).min()
    }

    fn bump(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if let Some(slots) = state.agents.get_mut(&self.agent) {
            slots.in_flight = slots.in_flight.saturating_sub(1);
        }
        drop(state);
        self.inner.bump();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::agent::Target;

    fn agent(name: &str, most: Option<u32>) -> Agent {
        Agent {
            name: AgentName::new(name).unwrap(),
            target: Target::Endpoint { url: String::new(), headers: BTreeMap::new(), ca: None },
            model: None,
            timeout: Duration::from_secs(1),
            idle_timeout: None,
            max_concurrent: most.and_then(NonZeroU32::new),
            env: Default::default(),
            attest_public_key: None,
            require_attested_usage: false,
        }
    }

    #[tokio::test]
    async fn slots_are_counted_per_agent_and_over_all() {
        let limits = Limits::new(NonZeroU32::new(3));
        let (narrow, wide) = (agent("narrow", Some(1)), agent("wide", None));
        let first = limits.try_acquire(&narrow).unwrap();
        assert!(limits.try_acquire(&narrow).unwrap_err().until.is_none());
        let _second = limits.try_acquire(&wide).unwrap();
        let _third = limits.try_acquire(&wide).unwrap();
        assert!(limits.try_acquire(&wide).is_err());
        drop(first);
        assert_eq!(limits.in_flight(), 2);
        let _fourth = limits.try_acquire(&wide).unwrap();
        assert!(limits.try_acquire(&narrow).is_err(), "the server is full though the agent is not");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cool_down_refuses_and_its_end_wakes() {
        let limits = Limits::new(None);
        let agent = agent("a", None);
        let until = Instant::now() + Duration::from_secs(30);
        limits.pause(&agent.name, until);
        limits.pause(&agent.name, Instant::now() + Duration::from_secs(1));
        let busy = limits.try_acquire(&agent).unwrap_err();
        assert_eq!(busy.until, Some(until), "a shorter pause does not shorten it");
        limits.changed_since(&busy).await;
        let _permit = limits.try_acquire(&agent).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn changes_before_the_await_are_not_missed() {
        let limits = Limits::new(NonZeroU32::new(1));
        let agent = agent("a", None);
        let permit = limits.try_acquire(&agent).unwrap();
        let before = limits.changed();
        let busy = limits.try_acquire(&agent).unwrap_err();
        drop(permit);
        // Paused time would make a missed wake-up show as a timeout.
        tokio::time::timeout(Duration::from_secs(5), before).await.unwrap();
        tokio::time::timeout(Duration::from_secs(5), limits.changed_since(&busy)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_changing_wakes_nobody() {
        let limits = Limits::new(None);
        assert!(tokio::time::timeout(Duration::from_secs(5), limits.changed()).await.is_err());
    }
}
