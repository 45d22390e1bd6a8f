//! How a drive ends: what it records and answers last, and, after a fault of its own, the end of its agents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::run::{DriveResult, StopMode};
use flowdrive_protocol::time::Timestamp;

use super::{Driver, Message};
use crate::decide::feedback;
use crate::decide::finish::{Conclusion, commit_refused, conclude};
use crate::decide::next::End;
use crate::model::journal::JournalEvent;
use crate::{EngineError, report};

/// How long a drive that ended by a fault waits for the next of its agents to be gone. Far more than ending one takes: only a
/// panic between a task's beginning and its agent's can leave one that never answers.
const FAREWELL: Duration = Duration::from_secs(60);

impl Driver {
    pub(super) fn finish(&mut self, end: &End) -> Result<DriveResult, EngineError> {
        let uncollected = feedback::uncollected(&self.job.record.state(), Timestamp::now());
        for record in uncollected {
            self.job.record.record(&JournalEvent::FeedbackOpened { record: Box::new(record) })?;
        }
        let settled = feedback::settled_by_commit(&self.job.record.state());
        if let Some((records, closing)) = settled
            && let Some((first, also)) = records.split_first()
        {
            self.job.record.record(&JournalEvent::FeedbackClosed {
                feedback: first.clone(),
                also: also.to_vec(),
                closing: Box::new(closing),
            })?;
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
    pub(super) fn abandon(&mut self) {
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
}
