//! Statements 82 to 91: results of earlier runs, taken where nothing they depend on changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, workflow};
use serde_json::{Value, json};

use crate::support::{alone, argv, drive, limited, names, reasons, resume, steps, workers};

/// Two tasks, then two that build on them.
fn document() -> Value {
    workflow(2, [phase("map", ["map:a", "map:b"].map(task)), phase("then", ["then:c", "then:d"].map(task))])
}

fn incremental() -> Value {
    json!({ "incremental": true })
}

/// How often each task's agent ran in this drive, and which tasks were taken from the cache.
async fn again(ws: &TestWorkspace, document: &Value, fields: Value) -> (DriveResult, Vec<String>) {
    let before = ws.agent_runs();
    let result = drive(ws, document, fields).await;
    let after = ws.agent_runs();
    let ran = |task: &String| after[task] > before.get(task).copied().unwrap_or(0);
    (result, after.keys().filter(|task| ran(task)).cloned().collect())
}

fn kept(ws: &TestWorkspace) -> PathBuf {
    ws.path().join(".cw/cache/worker-results/made-for-a-test")
}

/// The files kept of one task.
fn files_of(ws: &TestWorkspace, task: &str) -> Vec<PathBuf> {
    let stem = task.replace(':', "_");
    names(&kept(ws)).iter().filter(|name| name.starts_with(&stem)).map(|name| kept(ws).join(name)).collect()
}

fn results(ws: &TestWorkspace, result: &DriveResult) -> BTreeMap<String, Vec<u8>> {
    let folder = ws.run_folder(&result.run_id).join("results");
    names(&folder).into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

#[tokio::test]
async fn d82_second_incremental_run_starts_nobody_and_has_the_same_results() {
    let ws = TestWorkspace::new();
    let (first, ran) = again(&ws, &document(), incremental()).await;
    assert_eq!(ran, ["map:a", "map:b", "then:c", "then:d"]);
    let (second, ran) = again(&ws, &document(), incremental()).await;
    assert_eq!((second.status, ran), (RunStatus::Complete, vec![]));
    let accepted = steps(&second, flowdrive_protocol::run::StepAction::Accept);
    assert_eq!(accepted.len(), 4);
    assert!(accepted.iter().all(|step| step.handle_kind.as_deref() == Some("result-cache")), "{accepted:?}");
    assert_eq!(results(&ws, &first), results(&ws, &second));
}

#[tokio::test]
async fn d83_plain_run_takes_nothing_unless_a_task_asks_for_it() {
    let ws = TestWorkspace::new();
    drive(&ws, &document(), incremental()).await;
    let (_, ran) = again(&ws, &document(), json!({})).await;
    assert_eq!(ran.len(), 4, "{ran:?}");
    let opted = workflow(
        2,
        [phase("map", [task("map:x").set("resultCache", json!({ "keyInput": "question" })), task("map:y")])],
    );
    drive(&ws, &opted, json!({})).await;
    assert_eq!(again(&ws, &opted, json!({})).await.1, ["map:y"]);
    assert_eq!(again(&ws, &opted, json!({ "inputs": { "question": "another" } })).await.1, ["map:x", "map:y"]);
}

#[tokio::test]
async fn d84_task_whose_entry_is_gone_is_the_only_one_run_again() {
    let ws = TestWorkspace::new();
    drive(&ws, &document(), incremental()).await;
    let files = files_of(&ws, "map:b");
    assert!(!files.is_empty());
    files.iter().for_each(|file| fs::remove_file(file).unwrap());
    assert_eq!(again(&ws, &document(), incremental()).await.1, ["map:b"]);
}

#[tokio::test]
async fn d85_another_result_of_the_first_phase_has_the_later_phases_run_again() {
    let ws = TestWorkspace::new();
    drive(&ws, &document(), incremental()).await;
    files_of(&ws, "map:b").iter().for_each(|file| fs::remove_file(file).unwrap());
    // The same command line, as far as anybody can tell, delivers something else.
    let script = ws.beside("agent.sh");
    let write = |word: &str| {
        let text = format!(
            "printf '```cw:result\\n{{\"summary\":\"{word}\",\"evidence\":[\"src/lib.rs:1\"]}}\\n```\\n' >\"$1\"\necho $2 >>{}\n",
            ws.beside("ran")
        );
        fs::write(&script, text).unwrap();
    };
    let agent = || argv(&["/bin/sh", &script, "{{result}}", "{{workerDir}}"]);
    ws.configure(&config::config([("scripted", agent())]));
    let ran = || {
        let text = fs::read_to_string(ws.beside("ran")).unwrap_or_default();
        let _ = fs::remove_file(ws.beside("ran"));
        let mut names: Vec<String> =
            text.lines().map(|line| line.rsplit("worker-").next().unwrap()[..6].to_owned()).collect();
        names.sort();
        names
    };
    write("one");
    drive(&ws, &document(), incremental()).await;
    assert_eq!(ran().len(), 4, "another agent");
    // The newest entry of the task is the scripted agent's.
    let newest = |task: &str| {
        let files = files_of(&ws, task);
        let stem = files.iter().max_by_key(|file| fs::metadata(file).unwrap().modified().unwrap()).unwrap();
        [stem.with_extension("md"), stem.with_extension("json")]
    };
    newest("map:b").iter().for_each(|file| fs::remove_file(file).unwrap());
    write("two");
    drive(&ws, &document(), incremental()).await;
    assert_eq!(ran(), ["map_b-", "then_c", "then_d"], "map:a was taken");
}

#[tokio::test]
async fn d85_entry_that_somebody_changed_is_not_taken() {
    let ws = TestWorkspace::new();
    drive(&ws, &document(), incremental()).await;
    let file = files_of(&ws, "map:a").into_iter().find(|file| file.extension().unwrap() == "md").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("is answered", "is invented")).unwrap();
    let (second, ran) = again(&ws, &document(), incremental()).await;
    assert_eq!(ran, ["map:a"]);
    assert!(results(&ws, &second).values().all(|text| !String::from_utf8_lossy(text).contains("invented")));
}

#[tokio::test]
async fn d86_another_agent_model_argument_or_sandbox_finds_nothing_and_another_secret_does() {
    let ws = TestWorkspace::new();
    let with = |arguments: &[&str], model: Option<&str>| AgentConfig {
        model: model.map(str::to_owned),
        ..config::fixture(&ws, arguments)
    };
    let one = alone(task("map:a"));
    let key = ["--print", "sk-made-up-for-tests-1111111111111111"];
    ws.configure(&config::config([("good", with(&key, None))]));
    assert_eq!(again(&ws, &one, incremental()).await.1, ["map:a"]);
    assert!(again(&ws, &one, incremental()).await.1.is_empty());
    let other = ["--print", "sk-made-up-for-tests-2222222222222222"];
    ws.configure(&config::config([("good", with(&other, None))]));
    assert!(again(&ws, &one, incremental()).await.1.is_empty(), "a secret is no part of the key");
    ws.configure(&config::config([("good", with(&["--print", "hello"], None))]));
    assert_eq!(again(&ws, &one, incremental()).await.1, ["map:a"], "another argument");
    ws.configure(&config::config([("good", with(&["--print", "hello"], Some("made-up")))]));
    assert_eq!(again(&ws, &one, incremental()).await.1, ["map:a"], "another model");
    ws.configure(&config::config([("other", with(&["--print", "hello"], Some("made-up")))]));
    assert_eq!(again(&ws, &one, incremental()).await.1, ["map:a"], "another agent");
    let strict = alone(task("map:a").set("sandbox", "readonly"));
    assert_eq!(again(&ws, &strict, incremental()).await.1, ["map:a"], "another sandbox");
    ws.configure(&config::config([("other", limited(config::endpoint("http://127.0.0.1:9/delegate"), 5_000))]));
    let result = drive(&ws, &strict, json!({ "incremental": true, "maxAttempts": 1, "once": true })).await;
    assert_eq!(result.completed_workers, 0, "another endpoint: {}", reasons(&result));
}

#[tokio::test]
async fn d87_result_file_that_is_lost_is_restored_and_later_tasks_are_still_found() {
    let ws = TestWorkspace::new();
    let document = workflow(1, [sequential("map", [task("map:a")]), sequential("then", [task("then:c")])]);
    drive(&ws, &document, incremental()).await;
    let before = ws.agent_runs();
    let run = drive(&ws, &document, json!({ "incremental": true, "once": true })).await.run_id;
    let folder = ws.run_folder(&run).join("results");
    let file = folder.join(&names(&folder)[0]);
    let text = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let result = resume(&ws, &run, incremental()).await;
    assert_eq!((result.status, ws.agent_runs()), (RunStatus::Complete, before), "nobody was started");
    assert_eq!(fs::read(&file).unwrap(), text);
}

#[tokio::test]
async fn d88_kept_result_that_no_longer_holds_is_refused_and_the_agent_is_asked() {
    let ws = TestWorkspace::new();
    ws.write("notes.md", "one\n");
    let one = alone(task("map:a").set("artifacts", json!(["notes.md"])));
    drive(&ws, &one, incremental()).await;
    fs::remove_file(ws.path().join("notes.md")).unwrap();
    let parked = drive(&ws, &one, json!({ "incremental": true, "maxAttempts": 1 })).await;
    assert_eq!((parked.status, ws.agent_runs()["map:a"]), (RunStatus::Parked, 1));
    let reason = parked.steps[0].reason.as_deref().unwrap();
    assert!(reason.starts_with("result cache rejected: ") && reason.contains("notes.md"), "{reason}");
    // With attempts left, the next one is the agent's, and not the same hit again.
    drive(&ws, &one, json!({ "incremental": true, "maxAttempts": 2 })).await;
    assert_eq!(ws.agent_runs()["map:a"], 2);
}

#[tokio::test]
async fn d89_keys_do_not_depend_on_the_language() {
    let ws = TestWorkspace::new();
    let odd = ["map:a", "map:B", "map:Z", "map:_z", "map:z-1"].map(task);
    let document = workflow(4, [phase("map", odd), phase("then", [task("then:c")])]);
    for (language, runs) in [("C", 1), ("sv_SE.UTF-8", 1), ("tr_TR.UTF-8", 1)] {
        let server = Server::builder(&ws, Framing::Ndjson).env("LC_ALL", language).env("LANG", language).start().await;
        let result = server.drive(&document, incremental()).await;
        assert_eq!(result.status, RunStatus::Complete);
        server.finish().await;
        assert!(ws.agent_runs().values().all(|count| *count == runs), "{language}: {:?}", ws.agent_runs());
    }
}

#[tokio::test]
async fn d90_names_of_kept_files_are_those_of_every_other_file_of_a_task() {
    let ws = TestWorkspace::new();
    let result = drive(&ws, &workflow(2, [phase("map", ["a/b", "a_b", "a:b"].map(task))]), incremental()).await;
    assert_eq!(result.status, RunStatus::Complete);
    let kept = names(&kept(&ws));
    assert_eq!(kept.len(), 6, "a text and its key for each of three: {kept:?}");
    assert!(kept.iter().all(|name| name.starts_with("a_b-") && !name.contains([':', '/'])), "{kept:?}");
    assert_eq!(workers(&ws, &result.run_id).len(), 3);
}

#[tokio::test]
async fn d91_kept_results_are_whole_and_nothing_half_written_is_left() {
    let ws = TestWorkspace::new();
    // Many at once write into one folder, several of them the same entry.
    let all = (0..12).map(|n| task(&format!("map:{n}"))).collect::<Vec<_>>();
    let document = workflow(12, [phase("map", all)]);
    let one = Server::start(&ws, Framing::Ndjson).await;
    let other = Server::start(&ws, Framing::Ndjson).await;
    let params = |server: &Server| server.here(json!({ "workflow": { "inline": document }, "incremental": true }));
    let requests = (one.send("drive", params(&one)).await, other.send("drive", params(&other)).await);
    let _: DriveResult = one.result(requests.0).await;
    let _: DriveResult = other.result(requests.1).await;
    one.finish().await;
    other.finish().await;
    let kept = names(&kept(&ws));
    assert_eq!(kept.len(), 24, "{kept:?}");
    assert!(kept.iter().all(|name| name.ends_with(".md") || name.ends_with(".json")), "{kept:?}");
    assert!(again(&ws, &document, incremental()).await.1.is_empty(), "every one of them is taken");
}
