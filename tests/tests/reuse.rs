//! Results of earlier runs, and of earlier phases: taken where nothing they depend on changed, and each task told why it was
//! or was not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;

use flowdrive_protocol::event::{Event, ResultSource};
use flowdrive_protocol::run::{CacheState, CacheVerdict, DrivePreview, DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, sequential, task, workflow};
use serde_json::{Value, json};

/// What a run's events say of the cache, by task.
fn told(server: &Server, result: &DriveResult) -> BTreeMap<String, CacheState> {
    let events = server.lifecycle(result.run_id.as_str()).into_iter();
    events
        .filter_map(|event| match event.event {
            Event::TaskDispatched { task_id, cache, .. } => Some((task_id.to_string(), cache?)),
            _ => None,
        })
        .collect()
}

fn previewed(preview: &DrivePreview) -> BTreeMap<String, CacheState> {
    let tasks = preview.plan.iter().flat_map(|phase| &phase.tasks);
    tasks.map(|task| (task.id.to_string(), task.cache.clone())).collect()
}

#[tokio::test]
async fn each_task_is_told_why_it_was_or_was_not_served_from_the_cache() {
    let ws = TestWorkspace::new();
    let configure = |model: &str| {
        let mut agent = config::fixture(&ws, &[]);
        agent.model = Some(model.to_owned());
        ws.configure(&config::config([("a", agent)]));
    };
    configure("one");
    let mut document =
        workflow(2, [phase("map", [task("map:a"), task("map:b")]), sequential("then", [task("then:c")])]);
    document["phases"][0]["tasks"][1]["prompt"] = json!("A fixed prompt. task-marker=map:b");
    let runs = |n: usize| ["map:a", "map:b", "then:c"].map(|id| (id.to_owned(), n)).into();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let drive = async |server: &Server, question: &str| {
        let request =
            json!({ "workflow": { "inline": document }, "inputs": { "question": question }, "incremental": true });
        let preview: DrivePreview = server.ok("preview", server.here(request.clone())).await;
        let id = server.send("drive", server.here(request)).await;
        let result: DriveResult = server.result(id).await;
        assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
        (previewed(&preview), told(server, &result), result)
    };
    let reason =
        |told: &BTreeMap<String, CacheState>, id: &str| (told[id].state, told[id].reason.clone().unwrap_or_default());

    let (_, first, _) = drive(&server, "how?").await;
    assert_eq!(reason(&first, "map:a"), (CacheVerdict::Miss, "no result was kept yet".to_owned()));
    let (before, second, result) = drive(&server, "how?").await;
    for id in ["map:a", "map:b", "then:c"] {
        assert_eq!(reason(&second, id), (CacheVerdict::Hit, "nothing it depends on changed".to_owned()), "{id}");
    }
    assert_eq!((&before["map:a"], &before["map:b"]), (&second["map:a"], &second["map:b"]), "preview said so before");
    assert_eq!(ws.agent_runs(), runs(1), "no agent was asked again");
    assert!(
        server.lifecycle(result.run_id.as_str()).iter().all(|event| {
            !matches!(event.event, Event::TaskAccepted { source, .. } if source != ResultSource::Cache)
        })
    );

    let (before, third, _) = drive(&server, "why?").await;
    assert_eq!(reason(&third, "map:a"), (CacheVerdict::Miss, "inputs, prompt changed".to_owned()));
    assert_eq!(reason(&third, "map:b"), (CacheVerdict::Miss, "inputs changed".to_owned()));
    assert_eq!(before["map:b"], third["map:b"]);
    assert!(before["then:c"].reason.as_ref().unwrap().contains("not known before"), "{before:#?}");
    assert_eq!(before["then:c"].depends_on.as_deref(), Some("map:a"), "{before:#?}");
    server.finish().await;

    configure("two");
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (_, fourth, _) = drive(&server, "why?").await;
    assert_eq!(reason(&fourth, "map:a"), (CacheVerdict::Miss, "agent changed".to_owned()));
    ws.write("src/lib.rs", "//! Another project.\npub mod store;\npub mod entry;\n");
    let (before, fifth, _) = drive(&server, "why?").await;
    assert_eq!(reason(&fifth, "map:a"), (CacheVerdict::Miss, "what it cites changed: src/lib.rs:1".to_owned()));
    assert_eq!(before["map:a"], fifth["map:a"]);
    // Nothing is told where nothing was to be reused.
    let plain = server.drive(&document, json!({})).await;
    assert!(told(&server, &plain).is_empty());
    server.finish().await;
}

/// What a preview foretells of each task, and where its drive had each accepted result from.
async fn foretold(
    server: &Server,
    document: &Value,
    fields: Value,
) -> (BTreeMap<String, CacheState>, BTreeMap<String, ResultSource>) {
    let mut request = fields;
    request["workflow"] = json!({ "inline": document });
    let preview: DrivePreview = server.ok("preview", server.here(request.clone())).await;
    request["maxAttempts"] = json!(1);
    let id = server.send("drive", server.here(request)).await;
    let result: DriveResult = server.result(id).await;
    let sources = server.lifecycle(result.run_id.as_str()).into_iter().filter_map(|event| match event.event {
        Event::TaskAccepted { task_id, source, .. } => Some((task_id.to_string(), source)),
        _ => None,
    });
    (previewed(&preview), sources.collect())
}

#[tokio::test]
async fn what_a_preview_foretells_is_what_the_drive_does() {
    type Change = (&'static str, fn(&TestWorkspace, &mut Value, &mut Value, &mut String));
    let changes: [Change; 18] = [
        ("nothing was kept", |_, _, _, _| {}),
        ("nothing", |_, _, _, _| {}),
        ("an input", |_, _, fields, _| fields["inputs"] = json!({ "question": "why?" })),
        ("the first prompt", |_, document, _, _| {
            document["phases"][0]["tasks"][0]["prompt"] = json!("Other words. task-marker=map:a");
        }),
        ("the second of a phase", |_, document, _, _| {
            document["phases"][0]["tasks"][1]["prompt"] = json!("Other words. task-marker=map:b");
        }),
        ("the last prompt", |_, document, _, _| {
            document["phases"][3]["tasks"][0]["prompt"] = json!("Other words. task-marker=last:d");
        }),
        ("the model", |_, _, _, model| "two".clone_into(model)),
        ("the workflow inside", |ws, _, _, _| {
            let child = workflow(2, [phase("map", [task("map:x"), task("map:y"), task("map:z")])]);
            ws.write(
                ".cw/workflows/child.json",
                &serde_json::to_string(&child).unwrap().replace("made-for-a-test", "child"),
            );
        }),
        ("what is passed to it", |_, document, _, _| {
            document["phases"][1]["tasks"][0]["subWorkflow"]["inputs"] = json!({ "question": "more of {{question}}" });
        }),
        ("a task more", |_, document, _, _| {
            let more = document["phases"][0]["tasks"][0].to_string().replace("map:a", "map:more");
            document["phases"][0]["tasks"].as_array_mut().unwrap().push(serde_json::from_str(&more).unwrap());
        }),
        ("a task less", |_, document, _, _| drop(document["phases"][0]["tasks"].as_array_mut().unwrap().pop())),
        ("what is asked of a result", |_, document, _, _| {
            document["phases"][2]["tasks"][0]["requiresEvidence"] = json!(true);
        }),
        ("what a result cites", |ws, _, _, _| {
            fs::rename(ws.path().join("src/lib.rs"), ws.path().join("src/old.rs")).unwrap();
        }),
        ("what it cites is back", |ws, _, _, _| {
            fs::rename(ws.path().join("src/old.rs"), ws.path().join("src/lib.rs")).unwrap();
        }),
        ("the lines that results cite", |ws, _, _, _| {
            ws.write("src/lib.rs", "//! Other words.\npub mod other;\npub mod entry;\n");
        }),
        ("a line before them", |ws, _, _, _| {
            ws.write("src/lib.rs", "//! One more.\n//! Other words.\npub mod other;\npub mod entry;\n");
        }),
        ("a line after them, and another file", |ws, _, _, _| {
            ws.write("src/lib.rs", "//! One more.\n//! Other words.\npub mod other;\npub mod entry;\n// the end\n");
            ws.write("src/entry.rs", "// other words\n");
        }),
        ("what was kept was damaged", |ws, _, _, _| {
            let damage = |folder: &std::path::Path| {
                for entry in fs::read_dir(folder).unwrap().flatten() {
                    let name = entry.file_name().into_string().unwrap();
                    if name.starts_with("map_b") && name.ends_with(".md") {
                        fs::write(entry.path(), "not what was kept").unwrap();
                    }
                }
            };
            damage(&ws.path().join(".cw/cache/worker-results/made-for-a-test"));
        }),
    ];
    let ws = TestWorkspace::new();
    let child = workflow(2, [phase("map", [task("map:x"), task("map:y")])]);
    let child = serde_json::to_string(&child).unwrap().replace("made-for-a-test", "child");
    ws.write(".cw/workflows/child.json", &child);
    let nested = task("sub:x").set("subWorkflow", json!({ "id": "child", "inputs": { "question": "{{question}}" } }));
    let mut document = workflow(
        3,
        [
            phase("map", [task("map:a"), task("map:b")]),
            phase("sub", [nested]),
            phase("then", [task("then:c")]),
            sequential("last", [task("last:d")]),
        ],
    );
    let mut fields = json!({ "incremental": true, "inputs": { "question": "how?" } });
    let mut model = "one".to_owned();
    let (mut hits, mut open) = (0, 0);
    for (what, change) in changes {
        change(&ws, &mut document, &mut fields, &mut model);
        let mut agent = config::fixture(&ws, &[]);
        agent.model = Some(model.clone());
        ws.configure(&config::config([("a", agent)]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        // The second time nothing has changed since the first.
        for again in [false, true] {
            let (told, sources) = foretold(&server, &document, fields.clone()).await;
            for (id, cache) in &told {
                let reused = sources.get(id).map(|source| *source == ResultSource::Cache);
                let place = format!("{what}, again {again}, {id}: {cache:?}, {reused:?}");
                match (cache.state, &cache.depends_on) {
                    (CacheVerdict::Hit, None) => assert_eq!(reused, Some(true), "{place}"),
                    (CacheVerdict::Miss, None) => assert_ne!(reused, Some(true), "{place}"),
                    (CacheVerdict::Miss, Some(on)) => {
                        assert!(cache.reason.as_ref().unwrap().contains(on.as_str()), "{place}");
                    }
                    other => panic!("{place}: {other:?}"),
                }
                hits += usize::from(cache.state == CacheVerdict::Hit);
                open += usize::from(cache.depends_on.is_some());
            }
            let cited = what != "what a result cites";
            if again && cited {
                assert!(told.values().all(|cache| cache.state == CacheVerdict::Hit), "{what}: {told:#?}");
            }
        }
        server.finish().await;
    }
    assert!(hits > 60 && open > 10, "it foretells both what is known and what is not: {hits}, {open}");
}

#[tokio::test]
async fn past_a_loop_that_is_not_decided_nothing_is_foretold() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let mut document = workflow(2, [phase("dig", [task("dig:a")]), phase("then", [task("then:b")])]);
    document["phases"][0]["loop"] = json!({ "maxRounds": 2, "until": { "findingsBelow": "P0" } });
    let server = Server::start(&ws, Framing::Ndjson).await;
    let fields = json!({ "incremental": true });
    let (_, first) = foretold(&server, &document, fields.clone()).await;
    assert!(first.values().all(|source| *source == ResultSource::Agent), "{first:?}");
    let (told, second) = foretold(&server, &document, fields).await;
    assert_eq!(told["dig:a"].state, CacheVerdict::Hit);
    let then = &told["then:b"];
    assert_eq!(
        (then.state, then.depends_on.as_deref()),
        (CacheVerdict::Miss, Some("the loop of phase dig")),
        "{then:?}"
    );
    assert!(second.values().all(|source| *source == ResultSource::Cache), "{second:?}");
    server.finish().await;
}

#[tokio::test]
async fn a_result_that_was_refused_is_not_taken_again_and_that_is_told() {
    let ws = TestWorkspace::new();
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(1, [phase("map", [task("map:a").set("artifacts", json!(["README.md"]))])]);
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let first = server.drive(&document, json!({ "incremental": true })).await;
    assert_eq!(first.status, RunStatus::Complete);
    // What has to be there, and is not cited, is gone.
    fs::rename(ws.path().join("README.md"), ws.path().join("OLD.md")).unwrap();
    let second = server.drive(&document, json!({ "incremental": true, "maxAttempts": 2 })).await;
    let states: Vec<CacheState> = server
        .lifecycle(second.run_id.as_str())
        .into_iter()
        .filter_map(|event| match event.event {
            Event::TaskDispatched { cache, .. } => cache,
            _ => None,
        })
        .collect();
    assert_eq!(states.iter().map(|state| state.state).collect::<Vec<_>>(), [CacheVerdict::Hit, CacheVerdict::Miss]);
    assert!(states[1].reason.as_ref().unwrap().contains("refused"), "{states:?}");
    assert!(second.steps[0].reason.as_ref().unwrap().starts_with("result cache rejected: "), "{second:#?}");
    server.finish().await;
}

#[tokio::test]
async fn a_task_that_asks_for_it_is_given_earlier_results_in_full() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let cache = json!({ "keyInput": "question", "includeCompletedResults": "previous-phases" });
    let document: Value = workflow(
        2,
        [
            phase("map", [task("map:b"), task("map:a")]),
            sequential("then", [task("then:all").set("resultCache", cache), task("then:plain")]),
        ],
    );
    let result = server.drive(&document, json!({})).await;
    assert_eq!(result.status, RunStatus::Complete, "{result:#?}");
    let input = |id: &str| {
        let step = result.steps.iter().find(|step| step.task_id.as_ref().is_some_and(|t| t.as_str() == id)).unwrap();
        let worker = step.worker_id.as_ref().unwrap().as_str();
        fs::read_to_string(ws.run_folder(&result.run_id).join("workers").join(worker).join("input.md")).unwrap()
    };
    let text = input("then:all");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
    assert!(
        place("## Boundary") < place("BEGIN RESULT map:a") && place("BEGIN RESULT map:a") < place("BEGIN RESULT map:b")
    );
    assert!(text.contains("# Result of map:a") && text.contains("END RESULT map:b"), "{text}");
    assert!(!input("then:plain").contains("BEGIN RESULT"));
    server.finish().await;
}

#[tokio::test]
async fn a_task_about_the_workspace_is_not_answered_by_flowdrives_own_files() {
    let ws = TestWorkspace::new();
    // Two results of an earlier run, cited in place of the sources.
    ws.configure(&config::config([("a", config::fixture(&ws, &[]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let early = server.drive(&workflow(1, [phase("map", [task("map:a")])]), json!({ "runId": "early" })).await;
    assert_eq!(early.status, RunStatus::Complete);
    server.finish().await;
    let cite = ".cw/runs/early/report.md:1,2";
    ws.configure(&config::config([("lost", config::fixture(&ws, &["--cite", cite]))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let about = |reviews: bool| workflow(1, [phase("map", [task("map:a").set("reviewsRepo", reviews)])]);
    let fine = server.drive(&about(false), json!({ "maxAttempts": 1 })).await;
    assert_eq!(fine.status, RunStatus::Complete, "{fine:#?}");
    let lost = server.drive(&about(true), json!({ "maxAttempts": 1 })).await;
    assert_eq!(lost.status, RunStatus::Parked, "{lost:#?}");
    let reason = lost.steps[0].reason.as_ref().unwrap();
    assert!(reason.contains("is about the workspace") && reason.contains(".cw/runs/early"), "{reason}");
    server.finish().await;

    // Nor by another name: a link to the file, a link to a folder above it, or a way round.
    #[cfg(unix)]
    for (cite, link) in [
        ("notes.md:1,2", Some((".cw/runs/early/report.md", "notes.md"))),
        ("docs/latest/report.md:1,2", Some(("../.cw/runs/early", "docs/latest"))),
        ("kept/runs/early/report.md:1,2", Some((".cw", "kept"))),
        ("src/../.cw//runs/./early/report.md:1,2", None),
        (&format!("{}/.cw/runs/early/report.md:1,2", ws.text()), None),
    ] {
        if let Some((target, name)) = link {
            let name = ws.path().join(name);
            fs::create_dir_all(name.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, name).unwrap();
        }
        ws.configure(&config::config([("lost", config::fixture(&ws, &["--cite", cite]))]));
        let server = Server::start(&ws, Framing::Ndjson).await;
        let fine = server.drive(&about(false), json!({ "maxAttempts": 1 })).await;
        assert_eq!(fine.status, RunStatus::Complete, "{cite}: {fine:#?}");
        let lost = server.drive(&about(true), json!({ "maxAttempts": 1 })).await;
        assert_eq!(lost.status, RunStatus::Parked, "{cite}: {lost:#?}");
        server.finish().await;
    }
}

#[tokio::test]
async fn whatever_a_result_cites_counts_also_in_a_workflow_inside_and_in_files_that_are_no_text() {
    for (cite, bind) in [
        ("d/a b.txt:2", "report"),
        ("short.rs:2", "verdict-result"),
        ("data.bin", "report"),
        ("odd.txt", "report"),
        ("odd.txt:1", "report"),
    ] {
        let ws = TestWorkspace::new();
        ws.write("d/a b.txt", "one\ntwo\n");
        ws.write("short.rs", "a\nbb\n");
        fs::write(ws.path().join("data.bin"), b"\0\x01\x02").unwrap();
        fs::write(ws.path().join("odd.txt"), b"caf\xe9\n").unwrap();
        ws.configure(&config::config([
            ("plain", config::fixture(&ws, &[])),
            ("citing", config::fixture(&ws, &["--cite", cite])),
        ]));
        let mut child = workflow(1, [phase("map", [task("map:x").agent("citing")]), phase("v", [task("verdict:v")])]);
        child["id"] = json!("child");
        ws.write(".cw/workflows/child.json", &child.to_string());
        let nested = task("sub:x").set("subWorkflow", json!({ "id": "child", "bindResult": bind }));
        let document = workflow(1, [phase("sub", [nested]), phase("own", [task("own:y").agent("citing")])]);
        let server = Server::start(&ws, Framing::Ndjson).await;
        let drive = async || foretold(&server, &document, json!({ "incremental": true })).await;
        drive().await;
        let (told, _) = drive().await;
        assert!(told.values().all(|cache| cache.state == CacheVerdict::Hit), "{cite}: {told:#?}");
        let runs = ws.agent_runs();
        let name = cite.split(':').next().unwrap();
        let mut bytes = fs::read(ws.path().join(name)).unwrap();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        fs::write(ws.path().join(name), bytes).unwrap();
        let (told, _) = drive().await;
        assert_eq!(told["sub:x"].state, CacheVerdict::Miss, "{cite}: {told:#?}");
        assert!(told["sub:x"].reason.as_ref().unwrap().contains(name), "{cite}: {told:#?}");
        let after = ws.agent_runs();
        for id in ["map:x", "own:y"] {
            assert!(after[id] > runs[id], "{cite}: {id} ran again: {after:?}");
        }
        server.finish().await;
    }
}
