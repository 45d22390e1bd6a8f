//! What people see on standard error while a run is driven: bars on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use flowdrive_protocol::event::{Event, ProgressEvent, ResultSource};
use flowdrive_protocol::ids::WorkerId;
use flowdrive_protocol::run::{CacheState, CacheVerdict, StopMode};
use flowdrive_protocol::time::Timestamp;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::format::{self, Paint, Tone};
use super::output;

/// Agents that get a line of their own; the others are counted.
const AGENT_LINES: usize = 12;

/// Longest text of a line that scrolls by, in characters.
const LINE: usize = 200;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Silent,
    Lines,
    Bars,
}

/// `CW_DRIVE_PROGRESS=0` silences progress, whatever else.
fn choose(setting: Option<&str>, terminal: bool) -> Kind {
    match setting {
        Some("0") => Kind::Silent,
        _ if terminal => Kind::Bars,
        _ => Kind::Lines,
    }
}

/// How far the run is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    planned: u64,
    done: u64,
    parked: u64,
    running: BTreeMap<WorkerId, Running>,
    phase: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Running {
    label: String,
    activity: String,
}

impl Tally {
    fn take(&mut self, event: &Event) {
        match event {
            Event::RunStarted { planned_workers, completed_workers, .. } => {
                self.planned = u64::from(*planned_workers);
                self.done = u64::from(*completed_workers);
            }
            Event::PhaseStarted { title, .. } => self.phase = format::clip(title, 40),
            Event::TaskDispatched { task_id, worker_id, agent, attempt, .. } => {
                let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                let running = Running { label: format!("{task_id} ({agent}{again})"), activity: String::new() };
                self.running.insert(worker_id.clone(), running);
            }
            Event::AgentActivity { worker_id, text, .. } => {
                if let Some(running) = self.running.get_mut(worker_id) {
                    running.activity = format::clip(text, LINE);
                }
            }
            Event::TaskAccepted { worker_id, .. } => {
                self.running.remove(worker_id);
                self.done += 1;
            }
            Event::TaskRetrying { worker_id, .. } => {
                self.running.remove(worker_id);
            }
            Event::TaskParked { worker_id, .. } => {
                self.running.remove(worker_id);
                self.parked += 1;
            }
            Event::RunFinished { .. } => self.running.clear(),
            _ => {}
        }
        // A loop adds tasks while the run is under way.
        self.planned = self.planned.max(self.done + self.parked);
    }

    fn message(&self) -> String {
        let mut parts = vec![self.phase.clone()];
        if !self.running.is_empty() {
            parts.push(format!("{} running", self.running.len()));
        }
        if self.parked > 0 {
            parts.push(format!("{} parked", self.parked));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

/// The line that an event leaves behind, if any.
fn line(event: &Event, paint: Paint) -> Option<String> {
    let entry = |tone, word: &str, rest: String| Some(format!("{} {rest}", paint.tone(&format!("{word:>8}"), tone)));
    match event {
        Event::RunStarted { title, planned_workers, completed_workers, resumed, warnings, .. } => {
            let title = format::clip(title, 80);
            let tasks = format::count(*planned_workers, "task");
            if !warnings.is_empty() {
                let begun = entry(Tone::Bold, "driving", format!("{title}: {tasks}"));
                let told = warnings.iter().filter_map(|warning| entry(Tone::Warn, "warning", format::clean(warning)));
                return Some(begun.into_iter().chain(told).collect::<Vec<_>>().join("\n"));
            }
            if *resumed {
                entry(Tone::Bold, "resuming", format!("{title}: {completed_workers} of {tasks} accepted"))
            } else {
                entry(Tone::Bold, "driving", format!("{title}: {tasks}"))
            }
        }
        Event::PhaseStarted { title, tasks, width, .. } => {
            let tasks = format::count(*tasks, "task");
            entry(Tone::Bold, "phase", format!("{}: {tasks}, {width} at once", format::clip(title, 80)))
        }
        Event::TaskAccepted { task_id, source, summary, findings, .. } => {
            let source = match source {
                ResultSource::Agent => "",
                ResultSource::Cache => " from the cache",
                ResultSource::SubWorkflow => " from a sub-workflow",
            };
            let findings =
                if *findings > 0 { format!(", {}", format::count(*findings, "finding")) } else { String::new() };
            let text = format!("{task_id}{source}{findings}: {}", format::clean(summary));
            entry(Tone::Good, "accepted", format::clip(&text, LINE))
        }
        Event::TaskRetrying { task_id, reason, not_before: Some(time), .. } => {
            // The time first: it must not be what a long reason cuts off.
            let wait = time.as_millis().saturating_sub(Timestamp::now().as_millis()).max(0).unsigned_abs();
            let wait = format::duration(Duration::from_millis(wait));
            let text = format!("{task_id} is tried again in {wait}: {}", format::clean(reason));
            entry(Tone::Warn, "waiting", format::clip(&text, LINE))
        }
        Event::TaskRetrying { task_id, attempt, max_attempts, reason, .. } => {
            let text = format!("{task_id}, attempt {attempt} of {max_attempts} failed: {}", format::clean(reason));
            entry(Tone::Warn, "retrying", format::clip(&text, LINE))
        }
        Event::TaskParked { task_id, attempts, reason, .. } => {
            let text = format!("{task_id} after {}: {}", format::count(*attempts, "attempt"), format::clean(reason));
            entry(Tone::Bad, "parked", format::clip(&text, LINE))
        }
        Event::FeedbackOpened { feedback_id, classification, .. } => {
            entry(Tone::Warn, "feedback", format!("{feedback_id} waits for a decision: {}", classification.as_str()))
        }
        Event::BudgetWarning { spent, budget } => {
            entry(Tone::Warn, "budget", format!("{spent} of {budget} tokens are spent"))
        }
        Event::StopRequested { mode, by } => {
            let how = match mode {
                StopMode::Graceful => "when what is in flight has settled",
                StopMode::Now => "at once",
            };
            entry(Tone::Warn, "stopping", format!("{how}, asked by {}", format::clean(by)))
        }
        Event::TaskDispatched {
            task_id, cache: Some(CacheState { state: CacheVerdict::Miss, reason, .. }), ..
        } => {
            let why = reason.as_deref().unwrap_or("nothing fits");
            entry(Tone::Dim, "anew", format::clip(&format!("{task_id}: {}", format::clean(why)), LINE))
        }
        Event::TaskDispatched { .. }
        | Event::AgentActivity { .. }
        | Event::FeedbackClosed { .. }
        | Event::Checkpoint { .. }
        | Event::PhaseFinished { .. }
        | Event::RunFinished { .. } => None,
    }
}

/// Progress of one drive.
pub(crate) struct Progress {
    tally: Tally,
    paint: Paint,
    view: View,
}

enum View {
    Silent,
    Lines,
    Bars(Box<Bars>),
}

impl Progress {
    /// Progress as the terminal and the environment have it.
    pub(crate) fn new() -> Self {
        let setting = std::env::var("CW_DRIVE_PROGRESS").ok();
        let paint = Paint(output::err_colours());
        let view = match choose(setting.as_deref(), std::io::stderr().is_terminal()) {
            Kind::Silent => View::Silent,
            Kind::Lines => View::Lines,
            Kind::Bars => View::Bars(Box::new(Bars::new(paint))),
        };
        Self { tally: Tally::default(), paint, view }
    }

    pub(crate) fn event(&mut self, event: &ProgressEvent) {
        self.tally.take(&event.event);
        let left = line(&event.event, self.paint);
        match &mut self.view {
            View::Silent => {}
            View::Lines => {
                if let Some(line) = left {
                    output::err(&format!("{line}\n"));
                }
            }
            View::Bars(bars) => {
                if let Some(line) = left {
                    bars.scroll(&line);
                }
                bars.show(&self.tally);
            }
        }
    }

    /// Something that has to be seen, whatever is shown otherwise.
    pub(crate) fn note(&self, text: &str) {
        match &self.view {
            View::Bars(bars) => bars.scroll(text),
            View::Silent | View::Lines => output::err(&format!("{text}\n")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bars(bars) = &self.view {
            bars.clear();
        }
    }
}

/// A bar for the run, and below it a line for each running agent.
struct Bars {
    multi: MultiProgress,
    main: ProgressBar,
    agents: BTreeMap<WorkerId, ProgressBar>,
    main_style: ProgressStyle,
    agent_style: ProgressStyle,
    /// Whether the main bar has something to measure.
    measuring: bool,
}

impl Bars {
    fn new(paint: Paint) -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let (bar, agent) = if paint.0 {
            (
                "{bar:30.green/dim} {pos}/{len}  {elapsed:>4.dim}  {wide_msg}",
                "  {spinner:.dim} {prefix}  {wide_msg:.dim}",
            )
        } else {
            ("{bar:30} {pos}/{len}  {elapsed:>4}  {wide_msg}", "  {spinner} {prefix}  {wide_msg}")
        };
        // Both templates are constants; one that does not parse leaves the default, which shows the same things.
        let main_style = ProgressStyle::with_template(bar).unwrap_or_else(|_| ProgressStyle::default_bar());
        let agent_style = ProgressStyle::with_template(agent).unwrap_or_else(|_| ProgressStyle::default_spinner());
        let main = multi.add(ProgressBar::new_spinner().with_style(agent_style.clone()).with_prefix("planning"));
        main.enable_steady_tick(Duration::from_millis(120));
        let main_style = main_style.progress_chars("━╸─");
        Self { multi, main, agents: BTreeMap::new(), main_style, agent_style, measuring: false }
    }

    fn show(&mut self, tally: &Tally) {
        if !self.measuring && tally.planned > 0 {
            self.measuring = true;
            self.main.set_style(self.main_style.clone());
        }
        self.agents.retain(|worker, bar| {
            let stays = tally.running.contains_key(worker);
            if !stays {
                bar.finish_and_clear();
                self.multi.remove(bar);
            }
            stays
        });
        for (worker, running) in &tally.running {
            if !self.agents.contains_key(worker) && self.agents.len() < AGENT_LINES {
                let bar = self.multi.add(ProgressBar::new_spinner().with_style(self.agent_style.clone()));
                bar.enable_steady_tick(Duration::from_millis(120));
                self.agents.insert(worker.clone(), bar);
            }
            if let Some(bar) = self.agents.get(worker) {
                if bar.prefix() != running.label {
                    bar.set_prefix(running.label.clone());
                }
                bar.set_message(running.activity.clone());
            }
        }
        if self.measuring {
            self.main.set_length(tally.planned);
        }
        self.main.set_position(tally.done);
        self.main.set_message(tally.message());
    }

    fn scroll(&self, line: &str) {
        // A terminal that cannot be written to shows nothing, and no more can be done about it.
        let _ = self.multi.println(line);
    }

    fn clear(&self) {
        for bar in self.agents.values() {
            bar.finish_and_clear();
        }
        self.main.finish_and_clear();
        let _ = self.multi.clear();
    }
}

#[cfg(test)]
mod tests;
