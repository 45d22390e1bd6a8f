//! Statements 121 and 122, and the rest of 111: options of tasks and drives that came later.

use std::fs;

use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::{TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

use crate::support::{alone, drive, inputs, journal, of_type, reasons, shell, steps};

/// Two results, then a task that is given both in full if `whole`.
fn document(whole: bool) -> Value {
    let mut cache = json!({ "keyInput": "question" });
    if whole {
        cache["includeCompletedResults"] = json!("previous-phases");
    }
    let last = task("then:c").set("resultCache", cache);
    workflow(2, [phase("map", ["map:b", "map:a"].map(task)), phase("then", [last])])
}

#[tokio::test]
async fn g121_task_that_asks_for_it_is_given_every_earlier_result_in_full_and_keyed_by_them() {
    let ws = TestWorkspace::new();
    let result = drive(&ws, &document(true), json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{}", reasons(&result));
    let input = inputs(&ws, &result.run_id, "then:c").remove(0);
    let at = |words: &str| input.find(words).unwrap_or_else(|| panic!("{words} is not in {input}"));
    // As data, after what the agent may do, in the order of the ids.
    assert!(
        at("## Boundary") < at("# Result of map:a") && at("# Result of map:a") < at("# Result of map:b"),
        "{input}"
    );
    assert!(at("BEGIN") < at("# Result of map:a") && at("# Result of map:b") < input.rfind("END").unwrap(), "{input}");

    // The same results: taken. Others: not.
    let again = drive(&ws, &document(true), json!({})).await;
    let kinds = |result: &flowdrive_protocol::run::DriveResult| -> Vec<Option<String>> {
        result
            .steps
            .iter()
            .filter(|step| step.task_id.is_some())
            .map(|step| step.handle_kind.clone().map(Into::into))
            .collect()
    };
    assert_eq!(kinds(&again).last().unwrap().as_deref(), Some("result-cache"), "{again:#?}");
    let changed =
        shell(r#"printf '# Another result\n```cw:result\n{"summary":"x","evidence":["src/lib.rs:1"]}\n```\n' >"$1""#);
    ws.configure(&config::config([("good", changed)]));
    let other = drive(&ws, &document(true), json!({})).await;
    assert_eq!(kinds(&other).last().unwrap().as_deref(), Some("process"), "{other:#?}");
}

#[tokio::test]
async fn g121_long_result_is_cut_and_without_being_asked_nothing_is_given_in_full() {
    let ws = TestWorkspace::new();
    let long = "seq 1 60000 >\"$1\"; printf '\\n```cw:result\\n{\"summary\":\"long\",\"evidence\":[\"src/lib.rs:1\"]}\\n```\\n' >>\"$1\"";
    ws.configure(&config::config([("long", shell(long))]));
    let result = drive(&ws, &document(true), json!({})).await;
    let input = inputs(&ws, &result.run_id, "then:c").remove(0);
    assert!(input.contains("\n1\n2\n3\n"), "the beginning is there");
    assert!(input.len() < 450_000, "each of two is cut: {} bytes", input.len());
    let result = drive(&ws, &document(false), json!({ "inputs": { "question": "another" } })).await;
    assert!(!inputs(&ws, &result.run_id, "then:c")[0].contains("\n1\n2\n3\n"));
}

#[tokio::test]
async fn g122_review_that_stands_mostly_on_the_tools_own_files_is_refused_as_off_target() {
    let ws = TestWorkspace::new();
    for name in ["runs/old/a.md", "context/b.md", "cache/c.md"] {
        ws.write(&format!(".cw/{name}"), "one\n");
    }
    let cites = |places: &str| {
        shell(&format!("printf '```cw:result\\n{{\"summary\":\"s\",\"evidence\":[{places}]}}\\n```\\n' >\"$1\""))
    };
    ws.configure(&config::config([
        ("own", cites(r#"".cw/runs/old/a.md:1",".cw/context/b.md:1","src/lib.rs:1""#)),
        ("half", cites(r#"".cw/cache/c.md:1",".cw/context/b.md:1","src/lib.rs:1","src/store.rs:1""#)),
        ("one", cites(r#"".cw/runs/old/a.md:1","src/lib.rs:1""#)),
        ("few", cites(r#"".cw/runs/old/a.md:1",".cw/context/b.md:1","src/lib.rs:1","src/lib.rs:2","src/store.rs:1""#)),
    ]));
    let agents = ["own", "half", "one", "few"];
    let mut all: Vec<_> =
        agents.iter().map(|agent| task(&format!("review:{agent}")).agent(agent).set("reviewsRepo", true)).collect();
    all.push(task("plain:own").agent("own"));
    let result = drive(&ws, &workflow(5, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    let parked: Vec<&str> = steps(&result, flowdrive_protocol::run::StepAction::Park)
        .iter()
        .map(|step| step.task_id.as_ref().unwrap().as_str())
        .collect();
    assert_eq!(parked, ["review:own", "review:half"], "{}", reasons(&result));
    let journal = fs::read_to_string(crate::support::journal_file(&ws, &result.run_id)).unwrap();
    assert!(journal.contains("\"code\":\"worker-off-target\""));
}

#[tokio::test]
async fn f111_drive_that_allows_unsigned_usage_says_so_in_its_record_once_for_each_task() {
    let ws = TestWorkspace::new();
    let mut unsigned = config::fixture(&ws, &["--print", &json!({ "usage": { "inputTokens": 7 } }).to_string()]);
    unsigned.require_attested_usage = Some(true);
    ws.configure(&config::config([("unsigned", unsigned)]));
    let refused = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(refused.status, RunStatus::Parked);
    let allowed = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1, "allowUnattested": true })).await;
    assert_eq!(allowed.status, RunStatus::Complete, "{}", reasons(&allowed));
    let accepted = of_type(&journal(&ws, &allowed.run_id), "taskAccepted");
    assert_eq!((accepted.len(), &accepted[0]["result"]["attestation"]["overridden"]), (1, &json!(true)));
}
