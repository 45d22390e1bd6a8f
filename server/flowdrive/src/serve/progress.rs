//! How far a drive is, in one line and a percentage, as editors show it. Pure: events in, text out.
//!
//! Must not: send anything, or know of tokens.

use std::collections::HashMap;

use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::{AgentName, RunId, TaskId};
use flowdrive_protocol::run::RunStatus;

/// What a progress report says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// Such as `3/8 · map · survey: reading src/x.rs`.
    pub(crate) message: String,
    /// 0 to 100; never falls.
    pub(crate) percentage: u32,
}

/// A drive's progress so far.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// The run the client asked for; runs of sub-workflows are told of by the same drive.
    run: Option<RunId>,
    title: String,
    planned: u32,
    settled: u32,
    phase: String,
    doing: String,
    percentage: u32,
    agents: HashMap<TaskId, AgentName>,
    end: Option<String>,
}

impl Tracker {
    /// The run, once it is known.
    pub(crate) fn run(&self) -> Option<RunId> {
        self.run.clone()
    }

    /// Says which run it is; the first event does too.
    pub(crate) fn name(&mut self, run: &RunId) {
        self.run.get_or_insert_with(|| run.clone());
    }

    /// Whether an event has come, the first of which names what is driven.
    pub(crate) fn has_begun(&self) -> bool {
        !self.title.is_empty()
    }

    /// The headline, once the run has begun.
    pub(crate) fn title(&self) -> String {
        if self.title.is_empty() { "Flowdrive".to_owned() } else { format!("Flowdrive: {}", self.title) }
    }

    /// The newest state.
    pub(crate) fn report(&self) -> Report {
        let count = format!("{}/{}", self.settled, self.planned);
        let parts = [count.as_str(), self.phase.as_str(), self.doing.as_str()];
        let message = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" \u{b7} ");
        Report { message, percentage: self.percentage }
    }

    /// How it ended.
    pub(crate) fn end(&self) -> Option<String> {
        self.end.clone()
    }

    /// Takes in an event. True when there is something new to show.
    pub(crate) fn note(&mut self, event: &ProgressEvent) -> bool {
        let own = self.run.get_or_insert_with(|| event.run_id.clone()) == &event.run_id;
        if !own {
            return self.note_child(&event.event);
        }
        match &event.event {
            Event::RunStarted { title, planned_workers, completed_workers, .. } => {
                self.title.clone_from(title);
                self.planned = *planned_workers;
                self.settled = *completed_workers;
            }
            Event::PhaseStarted { phase, title, .. } => {
                self.phase = if title.is_empty() { phase.to_string() } else { title.clone() };
                self.doing.clear();
            }
            Event::TaskDispatched { task_id, agent, .. } => {
                self.doing = format!("{agent}: {task_id}");
                self.agents.insert(task_id.clone(), agent.clone());
            }
            Event::TaskAccepted { task_id, .. } => self.settle(task_id, "accepted"),
            Event::TaskParked { task_id, .. } => self.settle(task_id, "parked"),
            Event::TaskRetrying { task_id, attempt, max_attempts, .. } => {
                self.doing = format!("{task_id}: attempt {attempt} of {max_attempts} refused, trying again");
            }
            Event::BudgetWarning { spent, budget } => {
                self.doing = format!("{spent} of {budget} tokens are spent");
            }
            Event::StopRequested { .. } => "stopping".clone_into(&mut self.doing),
            Event::RunFinished { status, completed_workers, parked_workers, reason, .. } => {
                self.end = Some(ending(*status, self.planned, *completed_workers, *parked_workers, reason.as_deref()));
            }
            other => return self.note_child(other),
        }
        self.advance();
        true
    }

    /// What a child run's events, or events without a count, can say: what is being done.
    fn note_child(&mut self, event: &Event) -> bool {
        match event {
            Event::AgentActivity { task_id, text, .. } => {
                self.doing = match self.agents.get(task_id) {
                    Some(agent) => format!("{agent}: {text}"),
                    None => format!("{task_id}: {text}"),
                };
                true
            }
            _ => false,
        }
    }

    fn settle(&mut self, task: &TaskId, how: &str) {
        self.settled += 1;
        // Loops add tasks as they go.
        self.planned = self.planned.max(self.settled);
        self.agents.remove(task);
        self.doing = format!("{task} {how}");
    }

    fn advance(&mut self) {
        let share = u64::from(self.settled) * 100 / u64::from(self.planned.max(1));
        // At most 100, so that it fits.
        self.percentage = self.percentage.max(u32::try_from(share.min(100)).unwrap_or(100));
    }
}

fn ending(status: RunStatus, planned: u32, completed: u32, parked: u32, reason: Option<&str>) -> String {
    let mut text = format!("{}: {completed}/{planned} accepted", status.as_str());
    if parked > 0 {
        text.push_str(&format!(", {parked} parked"));
    }
    if let Some(reason) = reason {
        text.push_str(&format!(" \u{b7} {reason}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use flowdrive_protocol::time::Timestamp;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn event(run: &str, body: &Value) -> ProgressEvent {
        let mut value = json!({"runId": run, "seq": 1, "at": Timestamp::from_millis(0)});
        value.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn started(planned: u32, completed: u32) -> ProgressEvent {
        event(
            "r",
            &json!({"type": "runStarted", "workflowId": "w", "title": "Quick survey", "plannedWorkers": planned,
            "completedWorkers": completed, "resumed": completed > 0}),
        )
    }

    fn dispatched(task: &str) -> ProgressEvent {
        event(
            "r",
            &json!({"type": "taskDispatched", "taskId": task, "workerId": "w", "phase": "map", "agent": "survey", "attempt": 1}),
        )
    }

    fn accepted(run: &str, task: &str) -> ProgressEvent {
        event(
            run,
            &json!({"type": "taskAccepted", "taskId": task, "workerId": "w", "phase": "map", "source": "agent",
            "summary": "", "findings": 0}),
        )
    }

    fn activity(run: &str, task: &str, text: &str) -> ProgressEvent {
        event(run, &json!({"type": "agentActivity", "taskId": task, "workerId": "w", "text": text}))
    }

    fn phase(id: &str, title: &str) -> ProgressEvent {
        event("r", &json!({"type": "phaseStarted", "phase": id, "title": title, "tasks": 2, "width": 2}))
    }

    #[test]
    fn a_line_says_how_many_where_and_what() {
        let mut tracker = Tracker::default();
        for event in [
            started(8, 2),
            phase("map", "map"),
            dispatched("t1"),
            accepted("r", "t0"),
            activity("r", "t1", "reading src/x.rs"),
        ] {
            assert!(tracker.note(&event));
        }
        assert_eq!(tracker.title(), "Flowdrive: Quick survey");
        let report = Report { message: "3/8 \u{b7} map \u{b7} survey: reading src/x.rs".into(), percentage: 37 };
        assert_eq!(tracker.report(), report);
        let end = json!({"type": "runFinished", "status": "parked", "reason": "look", "completedWorkers": 6,
            "parkedWorkers": 2, "reportPath": "x"});
        tracker.note(&event("r", &end));
        assert_eq!(tracker.end().unwrap(), "parked: 6/8 accepted, 2 parked \u{b7} look");
    }

    #[test]
    fn a_child_run_does_not_count() {
        let mut tracker = Tracker::default();
        tracker.note(&started(2, 0));
        assert!(!tracker.note(&accepted("child", "c1")));
        assert!(tracker.note(&activity("child", "c1", "thinking")));
        assert_eq!(tracker.report().message, "0/2 \u{b7} c1: thinking");
    }

    proptest! {
        #[test]
        fn the_percentage_never_falls(steps in prop::collection::vec(0..4_u8, 0..60), planned in 0..20_u32) {
            let mut tracker = Tracker::default();
            tracker.note(&started(planned, 0));
            let mut last = 0;
            for step in steps {
                tracker.note(&match step {
                    0 => accepted("r", "t"),
                    1 => phase("p", ""),
                    2 => dispatched("t"),
                    _ => started(planned + 5, 0),
                });
                let percentage = tracker.report().percentage;
                prop_assert!(percentage >= last && percentage <= 100);
                last = percentage;
            }
        }
    }
}
