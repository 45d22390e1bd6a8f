use super::*;
use serde_json::{Value, json};

fn event(value: &Value) -> Event {
    serde_json::from_value(value.clone()).unwrap()
}

fn dispatched(worker: &str, attempt: u32) -> Event {
    event(&json!({"type": "taskDispatched", "taskId": "map:a", "workerId": worker, "phase": "map", "agent": "mine",
        "attempt": attempt}))
}

#[test]
fn the_setting_and_the_terminal_decide() {
    for (setting, terminal, kind) in [
        (None, true, Kind::Bars),
        (None, false, Kind::Lines),
        (Some("1"), false, Kind::Lines),
        (Some("1"), true, Kind::Bars),
        (Some("0"), true, Kind::Silent),
        (Some("0"), false, Kind::Silent),
    ] {
        assert_eq!(choose(setting, terminal), kind, "{setting:?} {terminal}");
    }
}

#[test]
fn a_tally_follows_a_run_with_a_retry_a_loop_and_a_parked_task() {
    let mut tally = Tally::default();
    tally.take(&event(&json!({"type": "runStarted", "workflowId": "w", "title": "T", "plannedWorkers": 2,
        "completedWorkers": 1, "resumed": true})));
    tally.take(&event(&json!({"type": "phaseStarted", "phase": "map", "title": "Map", "tasks": 2, "width": 2})));
    tally.take(&dispatched("w1", 1));
    tally.take(&event(&json!({"type": "agentActivity", "taskId": "map:a", "workerId": "w1",
        "text": "\u{1b}[1mreading\u{1b}[0m src"})));
    assert_eq!(tally.message(), "Map, 1 running");
    assert_eq!(tally.running.values().next().unwrap().activity, "reading src");
    tally.take(&event(&json!({"type": "taskRetrying", "taskId": "map:a", "workerId": "w1", "attempt": 1,
        "maxAttempts": 2, "code": "c", "reason": "r"})));
    assert_eq!(tally.message(), "Map");
    tally.take(&dispatched("w2", 2));
    assert_eq!(tally.running.values().next().unwrap().label, "map:a (mine, attempt 2)");
    tally.take(&event(&json!({"type": "taskParked", "taskId": "map:a", "workerId": "w2", "phase": "map",
        "attempts": 2, "code": "c", "reason": "r"})));
    tally.take(&event(&json!({"type": "taskAccepted", "taskId": "map:b", "workerId": "w3", "phase": "map",
        "source": "agent", "summary": "s", "findings": 0})));
    assert_eq!((tally.planned, tally.done, tally.parked), (3, 2, 1), "the plan grew");
    assert_eq!(tally.message(), "Map, 1 parked");
}

#[test]
fn events_that_matter_leave_a_line_without_escapes() {
    for (value, expected) in [
        (
            json!({"type": "runStarted", "workflowId": "w", "title": "T", "plannedWorkers": 4, "completedWorkers": 0,
                "resumed": false}),
            Some(" driving T: 4 tasks"),
        ),
        (
            json!({"type": "runStarted", "workflowId": "w", "title": "T", "plannedWorkers": 4, "completedWorkers": 3,
                "resumed": true}),
            Some("resuming T: 3 of 4 tasks accepted"),
        ),
        (
            json!({"type": "taskAccepted", "taskId": "a", "workerId": "w", "phase": "p", "source": "cache",
                "summary": "two\n\u{1b}[31mlines", "findings": 2}),
            Some("accepted a from the cache, 2 findings: two lines"),
        ),
        (
            json!({"type": "taskParked", "taskId": "a", "workerId": "w", "phase": "p", "attempts": 1, "code": "c",
                "reason": "no evidence"}),
            Some("  parked a after 1 attempt: no evidence"),
        ),
        (
            json!({"type": "feedbackOpened", "feedbackId": "f-1", "taskId": "a", "severity": "high",
                "classification": "missing-evidence", "message": "said when the task parked"}),
            Some("feedback f-1 waits for a decision: missing-evidence"),
        ),
        (
            json!({"type": "stopRequested", "mode": "graceful", "by": "client"}),
            Some("stopping when what is in flight has settled, asked by client"),
        ),
        (json!({"type": "agentActivity", "taskId": "a", "workerId": "w", "text": "x"}), None),
    ] {
        assert_eq!(line(&event(&value), Paint(false)).as_deref(), expected, "{value}");
    }
}
