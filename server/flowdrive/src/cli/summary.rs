//! What is said on standard output when a drive has ended: how it stands, what was found, and what to type next. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use flowdrive_protocol::ids::{AgentName, RunId};
use flowdrive_protocol::run::{DriveResult, RunStatus, RunView, TaskStatus};

use super::format::{self, Paint, Tone};

/// Parked tasks that are named.
const PARKED_SHOWN: usize = 5;

/// Everything the summary is made of.
pub(crate) struct Summary<'a> {
    pub(crate) result: &'a DriveResult,
    /// The run with its tasks; without it, findings and reasons are left out.
    pub(crate) run: Option<&'a RunView>,
    pub(crate) elapsed: Duration,
    /// Where the report is, for people.
    pub(crate) report: &'a str,
    /// Flags for the commands to type next.
    pub(crate) flags: &'a str,
    /// The agent that was asked for.
    pub(crate) agent: Option<&'a AgentName>,
}

/// The exit code that stands for a status.
pub(crate) const fn exit_code(status: RunStatus) -> u8 {
    match status {
        RunStatus::Complete => 0,
        RunStatus::Parked => 3,
        RunStatus::Blocked => 4,
        RunStatus::InProgress => 5,
    }
}

/// The command that carries a run on, with the agent it was driven with.
pub(crate) fn resume_command(run_id: &RunId, flags: &str, agent: Option<&AgentName>) -> String {
    let agent = agent.map_or_else(String::new, |agent| format!(" --agent {}", format::shell(agent.as_str())));
    format!("flowdrive resume {run_id}{flags}{agent}")
}

impl Summary<'_> {
    pub(crate) fn render(&self, paint: Paint) -> String {
        let result = self.result;
        let mut text = String::new();
        // How a stopped run stands is a detail of the record; what matters is that it can be carried on.
        let (status, tone) = match result.stopped {
            Some(_) if result.status != RunStatus::Complete => ("stopped", Tone::Warn),
            _ => (result.status.as_str(), format::run_tone(result.status)),
        };
        let parked =
            if result.parked_workers > 0 { format!(", {} parked", result.parked_workers) } else { String::new() };
        let planned = self.run.map_or(result.planned_workers, |run| run.summary.planned_workers);
        let _ = writeln!(
            text,
            "{}: {} of {} accepted{parked}, in {}",
            paint.tone(status, tone),
            result.completed_workers,
            format::count(planned, "task"),
            format::duration(self.elapsed),
        );
        if let Some(reason) = &result.reason {
            entry(&mut text, "reason", &format::clean(reason));
        }
        entry(&mut text, "run", result.run_id.as_str());
        if let Some(run) = self.run {
            self.tasks(run, &mut text, paint);
        }
        entry(&mut text, "report", self.report);
        for (index, command) in self.next().iter().enumerate() {
            entry(&mut text, if index == 0 { "next" } else { "" }, &paint.tone(command, Tone::Bold));
        }
        text
    }

    fn tasks(&self, run: &RunView, text: &mut String, paint: Paint) {
        let findings =
            format::severities(run.tasks.iter().flat_map(|task| &task.findings).map(|finding| finding.severity));
        if !findings.is_empty() {
            entry(text, "findings", &findings);
        }
        let mut parked = run.tasks.iter().filter(|task| task.status == TaskStatus::Failed);
        for task in parked.by_ref().take(PARKED_SHOWN) {
            let reason =
                task.failure.as_deref().map_or_else(String::new, |reason| format!(": {}", format::clip(reason, 160)));
            entry(text, "parked", &format!("{}{reason}", paint.tone(task.id.as_str(), Tone::Bad)));
        }
        let more = parked.count();
        if more > 0 {
            entry(text, "", &format!("and {more} more: flowdrive show {}{}", self.result.run_id, self.flags));
        }
    }

    /// What to type next.
    fn next(&self) -> Vec<String> {
        let (run_id, flags) = (&self.result.run_id, self.flags);
        let open = self.run.is_some_and(|run| run.summary.open_feedback > 0);
        let feedback = format!("flowdrive feedback list {run_id}{flags}");
        let resume = resume_command(run_id, flags, self.agent);
        match self.result.status {
            RunStatus::Complete => {
                // `report` reads no configuration.
                let place = flags.split(" --config").next().unwrap_or("");
                vec![format!("flowdrive report {run_id}{place}")]
            }
            RunStatus::InProgress => vec![resume],
            RunStatus::Parked | RunStatus::Blocked if open => {
                // Without it the resume would find the same tasks parked.
                let retry =
                    format!("flowdrive feedback resolve {run_id} RECORD --resolution retry --guidance \"...\"{flags}");
                vec![feedback, retry, resume]
            }
            RunStatus::Parked | RunStatus::Blocked if self.result.stopped.is_some() => vec![resume],
            RunStatus::Parked | RunStatus::Blocked if self.run.is_none() => vec![feedback, resume],
            RunStatus::Parked | RunStatus::Blocked if !self.result.agent_configured => {
                vec![format!("flowdrive doctor{flags}"), resume]
            }
            RunStatus::Parked | RunStatus::Blocked if self.is_out_of_budget() => {
                vec![format!("{resume} --token-budget N")]
            }
            RunStatus::Parked | RunStatus::Blocked => vec![format!("flowdrive show {run_id}{flags}"), resume],
        }
    }

    /// Whether the same resume would be blocked by the budget again.
    fn is_out_of_budget(&self) -> bool {
        let next = self.run.and_then(|run| run.summary.next.as_deref());
        next.is_some_and(|command| command.contains(" --token-budget "))
    }
}

fn entry(text: &mut String, name: &str, value: &str) {
    let colon = if name.is_empty() { "" } else { ":" };
    let _ = writeln!(text, "{:<10}{value}", format!("{name}{colon}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn result(status: &str, extra: &Value) -> DriveResult {
        let mut value = json!({"schemaVersion": 1, "runId": "w-1", "workflowId": "w", "status": status, "steps": [],
            "plannedWorkers": 8, "completedWorkers": 2, "parkedWorkers": 0, "reportPath": "r", "statePath": "s",
            "agentConfigured": true});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn run(open_feedback: u32, parked: usize) -> RunView {
        let finding = json!({"id": "f", "summary": "", "classification": "real", "severity": "P2", "evidence": []});
        let mut tasks = vec![json!({"id": "map:ok", "phase": "map", "status": "completed", "attempts": 1,
            "findings": [finding, finding]})];
        tasks.extend((0..parked).map(|n| {
            json!({"id": format!("map:{n}"), "phase": "map", "status": "failed", "attempts": 3,
                "failure": "nothing\nis cited"})
        }));
        serde_json::from_value(json!({"schemaVersion": 1, "summary": {"runId": "w-1", "workflowId": "w", "title": "t",
            "status": "parked", "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z",
            "plannedWorkers": 9, "completedWorkers": 2, "parkedWorkers": 0, "openFeedback": open_feedback,
            "driving": false}, "inputs": {}, "phases": [], "tasks": tasks, "totalTasks": 9, "lastSeq": 1,
            "reportPath": "r", "statePath": "s"}))
        .unwrap()
    }

    fn render(result: &DriveResult, run: Option<&RunView>, flags: &str) -> String {
        let elapsed = Duration::from_millis(12_300);
        Summary { result, run, elapsed, report: ".cw/runs/w-1/report.md", flags, agent: None }.render(Paint(false))
    }

    #[test]
    fn a_complete_run_points_to_its_report() {
        let text = render(&result("complete", &json!({})), Some(&run(0, 0)), " --workspace /w --config c.toml");
        let expected = "\
complete: 2 of 9 tasks accepted, in 12.3 s
run:      w-1
findings: P2 2
report:   .cw/runs/w-1/report.md
next:     flowdrive report w-1 --workspace /w
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_parked_run_names_what_parked_and_how_to_go_on() {
        let parked = result("parked", &json!({"parkedWorkers": 6}));
        let expected = "\
parked: 2 of 9 tasks accepted, 6 parked, in 12.3 s
run:      w-1
findings: P2 2
parked:   map:0: nothing is cited
parked:   map:1: nothing is cited
parked:   map:2: nothing is cited
parked:   map:3: nothing is cited
parked:   map:4: nothing is cited
          and 1 more: flowdrive show w-1 -w x
report:   .cw/runs/w-1/report.md
next:     flowdrive feedback list w-1 -w x
          flowdrive feedback resolve w-1 RECORD --resolution retry --guidance \"...\" -w x
          flowdrive resume w-1 -w x
";
        assert_eq!(render(&parked, Some(&run(6, 6)), " -w x"), expected);
    }

    #[test]
    fn other_ends_say_why_and_what_helps() {
        let blocked = result("blocked", &json!({"reason": "no agent is configured", "agentConfigured": false}));
        let text = render(&blocked, Some(&run(0, 0)), "");
        assert!(text.contains("reason:   no agent is configured\n"), "{text}");
        assert!(text.ends_with("next:     flowdrive doctor\n          flowdrive resume w-1\n"), "{text}");
        for status in ["in-progress", "blocked"] {
            let stopped = result(status, &json!({"stopped": "graceful"}));
            let text = render(&stopped, None, "");
            assert!(text.starts_with("stopped: 2 of 8 tasks accepted, in"), "{text}");
            assert!(text.ends_with("next:     flowdrive resume w-1\n"), "{text}");
        }
        let stopped = result("blocked", &json!({"stopped": "graceful", "parkedWorkers": 1}));
        assert!(render(&stopped, Some(&run(1, 1)), "").contains("next:     flowdrive feedback list w-1\n"));
    }

    #[test]
    fn a_run_is_carried_on_with_its_agent() {
        let id = RunId::new("w-1").unwrap();
        let agent = AgentName::new("mine").unwrap();
        assert_eq!(resume_command(&id, " -w x", Some(&agent)), "flowdrive resume w-1 -w x --agent mine");
    }

    #[test]
    fn each_status_has_its_exit_code() {
        let all = [RunStatus::Complete, RunStatus::Parked, RunStatus::Blocked, RunStatus::InProgress];
        assert_eq!(all.map(exit_code), [0, 3, 4, 5]);
    }
}
