//! What runs look like to people, and how they are found.

use super::*;
use serde_json::{Value, json};

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[test]
fn a_run_is_found_by_its_id_or_the_start_of_it() {
    let all = ids(&["a-1", "a-12", "b-1"]);
    assert_eq!(pick("a-1", &all).unwrap(), "a-1", "an exact id wins over being the start of another");
    assert_eq!(pick("b", &all).unwrap(), "b-1");
    assert_eq!(pick("a-", &all), Err(Miss::Many(ids(&["a-1", "a-12"]))));
    assert_eq!(pick("c", &all), Err(Miss::Nothing));
    assert_eq!(pick("", &all), Err(Miss::Nothing));
    let many: Vec<String> = (0..8).map(|n| format!("r{n}")).collect();
    let error = ambiguous("r", "runs", &many);
    assert_eq!(error.to_string(), "`r` is the start of 8 runs");
    assert!(matches!(error, CliError::Fault { hint, .. } if hint.ends_with("r0, r1, r2, r3, r4 and 3 more")));
}

fn summary(id: &str, status: &str, driving: bool) -> Value {
    json!({"runId": id, "workflowId": "w", "title": "Find \u{1b}[31mit", "status": status,
        "createdAt": "2026-01-02T03:00:00Z", "updatedAt": "2026-01-02T03:04:00Z", "plannedWorkers": 5,
        "completedWorkers": 3, "parkedWorkers": 1, "openFeedback": 0, "driving": driving})
}

fn now() -> Timestamp {
    "2026-01-02T03:06:30Z".parse().unwrap()
}

#[test]
fn a_list_of_runs() {
    let runs: Vec<RunSummary> =
        serde_json::from_value(json!([summary("w-1", "parked", false), summary("w-22", "in-progress", true)])).unwrap();
    let expected = "\
run   status   tasks  parked  feedback  changed    title
w-1   parked   3/5    1       -         2 min ago  Find it
w-22  driving  3/5    1       -         2 min ago  Find it
";
    assert_eq!(runs_table(&runs, now()).render(Paint(false)), expected);
}

#[test]
fn a_run_with_its_tasks() {
    let finding = |severity: &str| json!({"id": "f", "summary": "s", "classification": "real", "severity": severity, "evidence": []});
    let view: RunView = serde_json::from_value(json!({
        "schemaVersion": 1, "summary": summary("w-1", "parked", false), "inputs": {"question": "where?", "n": 3},
        "phases": [], "totalTasks": 3, "lastSeq": 9, "reportPath": "/w/.cw/runs/w-1/report.md", "statePath": "s",
        "tasks": [
            {"id": "map:a", "phase": "map", "status": "completed", "attempts": 1, "agent": "mine",
             "startedAt": "2026-01-02T03:00:00Z", "endedAt": "2026-01-02T03:00:01.5Z", "summary": "found it",
             "findings": [finding("P1"), finding("none")]},
            {"id": "map:b", "phase": "map", "status": "failed", "attempts": 3, "failure": "no evidence\nat all"},
            {"id": "verdict", "phase": "verdict", "status": "pending", "attempts": 0}]}))
    .unwrap();
    let expected = "\
w-1  Find it
parked, 3 of 5 tasks accepted, 1 parked, 0 feedback records open; changed 2 min ago
n: 3
question: where?
report: report.md

task     status     tries  agent  took   findings  result
map:a    completed  1      mine   1.5 s  2         found it
map:b    failed     3      -      -      -         no evidence at all
verdict  pending    0      -      -      -

findings: P1 1, not rated 1
";
    assert_eq!(view_text(&view, "report.md", now(), Paint(false)), expected);
}

#[test]
fn a_verdict_names_file_and_line() {
    let broken: VerifyRunResult = serde_json::from_value(json!({"runId": "r", "ok": false, "events": 1, "head": "h",
        "problems": [{"code": "hash-mismatch", "message": "line 3 was changed", "path": "journal.jsonl", "line": 3}]}))
    .unwrap();
    assert_eq!(
        verdict(&broken, Paint(false)),
        "broken: 1 problem in r, 1 event checked\njournal.jsonl:3: line 3 was changed [hash-mismatch]\n"
    );
    let sound = VerifyRunResult { ok: true, problems: Vec::new(), ..broken };
    assert_eq!(verdict(&sound, Paint(false)), "ok: r adds up, 1 event\nhead: h\n");
}
