//! Later rounds of a loop: the tasks of the first one, again.

use flowdrive_protocol::ids::{PhaseId, TaskId};

use super::{FoldError, LoopState, PhaseState, RunState, TaskState};

impl RunState {
    pub(super) fn decide_loop(&mut self, origin: &PhaseId, round: u32, done: bool) -> Result<(), FoldError> {
        let unknown = || FoldError::Unknown { what: "loop round", id: format!("{origin} round {round}") };
        let place = self
            .phases
            .iter()
            .position(|phase| phase.looping.as_ref().is_some_and(|l| l.origin == *origin && l.round == round))
            .ok_or_else(unknown)?;
        let spec_phase = self.workflow.phases.iter().position(|spec| spec.id == *origin).ok_or_else(unknown)?;
        if let Some(looping) = &mut self.phases[place].looping {
            looping.decided = true;
        }
        if done {
            return Ok(());
        }
        let next = round + 1;
        let spec = &self.workflow.phases[spec_phase];
        let title = spec.title.clone().unwrap_or_else(|| spec.id.to_string());
        let id = PhaseId::new(format!("{origin}@r{next}")).map_err(|_| unknown())?;
        let mut places = Vec::with_capacity(spec.tasks.len());
        for (t, task) in spec.tasks.iter().enumerate() {
            let task_id = TaskId::new(format!("{}@r{next}", task.id)).map_err(|_| unknown())?;
            places.push(self.tasks.len());
            self.index.insert(task_id.clone(), self.tasks.len());
            self.tasks.push(TaskState::new(task_id, (spec_phase, t), id.clone()));
        }
        let open = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let phase = PhaseState {
            id,
            title: format!("{title} (round {next})"),
            mode: spec.mode,
            tasks: places,
            started: false,
            finished: false,
            looping: Some(LoopState { origin: origin.clone(), round: next, decided: false }),
            completed: 0,
            open,
            parked: 0,
            settled: 0,
        };
        self.phases.insert(place + 1, phase);
        Ok(())
    }
}
