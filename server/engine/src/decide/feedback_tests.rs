use super::*;

#[test]
fn a_parked_task_is_told_of_in_plain_words() {
    let task = TaskId::new("map:a").unwrap();
    let worker = WorkerId::new("worker-map_a-0003").unwrap();
    for (reason, begins, has) in [
        (
            "agent hop failed: map:a: failed (exit 7) (attempt 3/3)",
            "Task map:a is parked after 3 of 3 attempts. The agent failed: map:a: failed (exit 7).",
            "`logs`",
        ),
        (
            "agent produced no result.md (attempt 1/1)",
            "Task map:a is parked after 1 of 1 attempts. The agent ended without an error, but wrote no result (`result.md`).",
            "`logs`",
        ),
        (
            "result.md rejected: Task map:a cites nothing. (attempt 2/2)",
            "Task map:a is parked after 2 of 2 attempts. The result was refused: Task map:a cites nothing.",
            "`result.md`",
        ),
        (
            "result cache rejected: gone (attempt 1/1)",
            "Task map:a is parked after 1 of 1 attempts. The result kept from an earlier run was refused: gone.",
            "`result.md`",
        ),
        (
            "sub-workflow result rejected by parent gate: no evidence (attempt 1/2)",
            "Task map:a is parked after 1 of 2 attempts. The result of the task's workflow was refused: no evidence.",
            "`result.md`",
        ),
        (
            "sub-workflow child did not complete (status: parked); its run is r (attempt 1/1)",
            "Task map:a is parked after 1 of 1 attempts. The task's workflow did not give a result: sub-workflow child did not",
            "its own run",
        ),
        // Reasons of older runs, and of none of these forms.
        ("something else", "Task map:a is parked. something else.", "`logs`"),
        ("(attempt 1/1", "Task map:a is parked. (attempt 1/1.", "`logs`"),
        ("", "Task map:a is parked. .", "`logs`"),
    ] {
        let words = in_words(&task, &worker, reason);
        assert!(words.starts_with(begins), "{reason}: {words}");
        for part in [has, "worker-map_a-0003", "`retry`", "resume"] {
            assert!(words.contains(part), "{reason}: {part}: {words}");
        }
        for jargon in ["hop", "gate", "result.md rejected"] {
            assert!(!words.contains(jargon), "{reason}: {words}");
        }
    }
}
