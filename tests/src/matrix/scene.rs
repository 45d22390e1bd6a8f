//! The run of the matrix: command and endpoint agents, a kept result, a sub-workflow, a loop, a result that is refused
//! before it is good, an agent with a child that stays, and a task that parks and is opened again by a person.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flowdrive_protocol::run::{RunStatus, RunView};
use serde_json::{Value, json};

use super::Played;
use crate::endpoint::EndpointServer;
use crate::framing::Framing;
use crate::ledger::{self, What};
use crate::server::Server;
use crate::workspace::{CITE, TestWorkspace};
use crate::{census, config, phase, sequential, task, workflow};

/// The run.
pub(super) const RUN: &str = "crash-run";

const GUIDANCE: &str = "Look harder.";

/// Where the run is played.
pub(super) struct Scene {
    pub(super) ws: TestWorkspace,
    program: PathBuf,
    endpoint: EndpointServer,
    /// Exchanges that belong to scenes before.
    exchanged: AtomicUsize,
}

impl Scene {
    pub(super) async fn new(program: &Path) -> Self {
        let ws = TestWorkspace::new();
        let endpoint = EndpointServer::good(CITE, Duration::ZERO).await;
        ws.configure(&config::config([
            ("quick", config::fixture(&ws, &["--cite", CITE])),
            ("forking", config::fixture(&ws, &["--cite", CITE, "--fork", "1", "--ignore-term"])),
            (
                "careless",
                config::fixture(&ws, &["--cite", CITE, "--kind", "no-evidence", "--good-when", "Previous attempt"]),
            ),
            ("stubborn", config::fixture(&ws, &["--cite", CITE, "--kind", "no-evidence", "--good-when", GUIDANCE])),
            ("remote", config::endpoint(endpoint.url())),
        ]));
        let child = json!({
            "schemaVersion": 1, "id": "inner", "title": "Inside",
            "phases": [
                phase("look", [task("look:a"), task("look:b").agent("remote")]),
                phase("judge", [task("verdict:inner").needs_evidence()]),
            ],
        });
        ws.write("flows/inner.json", &child.to_string());
        Self { ws, program: program.to_owned(), endpoint, exchanged: AtomicUsize::new(0) }
    }

    fn document() -> Value {
        let kept = task("map:kept").set("resultCache", json!({ "keyInput": "question" }));
        let child =
            task("sub:inner").set("subWorkflow", json!({ "id": "flows/inner.json", "bindResult": "verdict-result" }));
        let mut hunt = phase("hunt", [task("hunt:a")]);
        hunt["loop"] = json!({ "maxRounds": 2, "until": { "findingsBelow": "P2" } });
        workflow(
            4,
            [
                phase(
                    "map",
                    [
                        task("map:a"),
                        task("map:remote").agent("remote"),
                        kept,
                        task("map:forking").agent("forking"),
                        task("map:careless").agent("careless").needs_evidence(),
                    ],
                ),
                phase("sub", [child, task("sub:beside")]),
                hunt,
                sequential(
                    "check",
                    [
                        task("check:parks").agent("stubborn").needs_evidence().set("maxAttempts", 2),
                        task("check:last").agent("remote"),
                    ],
                ),
                phase("judge", [task("verdict:all").needs_evidence()]),
            ],
        )
    }

    /// Leaves a result that the run's task `map:kept` finds.
    pub(super) async fn seed(&mut self) {
        let kept = task("map:kept").set("resultCache", json!({ "keyInput": "question" }));
        let server = self.server(&[]).await;
        server.drive(&workflow(1, [phase("map", [kept])]), json!({})).await;
        server.finish().await;
        assert!(self.cache().is_dir(), "the seed was kept");
        copy(&self.cache(), &self.ws.root().join("kept"));
    }

    fn cache(&self) -> PathBuf {
        self.ws.path().join(".cw/cache")
    }

    /// Takes everything away but the kept result.
    pub(super) fn reset(&self) {
        let _ = fs::remove_dir_all(self.ws.path().join(".cw"));
        let _ = fs::remove_file(self.ws.ledger());
        copy(&self.ws.root().join("kept"), &self.cache());
        self.exchanged.store(self.endpoint.exchanges().len(), Ordering::SeqCst);
    }

    /// Plays it without a fault.
    pub(super) async fn undisturbed(&mut self) -> super::Outcome {
        self.reset();
        let server = self.server(&[]).await;
        match self.advance(&server).await {
            Some(Ok(())) => {}
            other => server.fail(&format!("the undisturbed run failed: {other:#?}")),
        }
        server.finish().await;
        let outcome = super::Outcome::of(self);
        assert!(!outcome.runs.contains_key("map:kept"), "a kept result is taken, not made: {:?}", outcome.runs);
        self.assert_complete();
        outcome
    }

    /// That the run has in it every kind of task there is, so that no kind can drop out of the matrix unseen.
    fn assert_complete(&self) {
        let journal = &self.journals()[RUN];
        let some = |kind: &str, fits: &dyn Fn(&Value) -> bool| {
            assert!(journal.of(kind).any(fits), "the run of the matrix lacks a certain {kind}");
        };
        for handle in ["process", "endpoint", "result-cache", "sub-workflow"] {
            some("outcomeRecorded", &|event| event["outcome"]["handle"] == handle);
        }
        for source in ["agent", "cache", "sub-workflow"] {
            some("taskAccepted", &|event| event["source"] == source);
        }
        some("loopDecided", &|event| event["done"] == false);
        some("taskRetrying", &|event| event["counted"] == true);
        some("taskParked", &|_| true);
        some("feedbackClosed", &|event| event["closing"]["resolution"] == "retry");
    }

    pub(super) async fn server(&self, environment: &[(&str, &str)]) -> Server {
        let mut builder = Server::builder(&self.ws, Framing::Ndjson).program(&self.program);
        for (name, value) in environment {
            builder = builder.env(name, value);
        }
        builder.start().await
    }

    /// Brings the run from wherever it is to its end, as its user would. None when the server died; the first error
    /// ends it.
    pub(super) async fn advance(&self, server: &Server) -> Played {
        // Each turn gets the run further; a run has a handful of them.
        for _ in 0..8 {
            let shown = server.call_or_death("showRun", server.here(json!({ "runId": RUN }))).await?;
            let Ok(view) = shown.map(|view| serde_json::from_value::<RunView>(view).expect("a run")) else {
                let wish = json!({ "runId": RUN, "workflow": { "inline": Self::document() } });
                match server.call_or_death("drive", server.here(wish)).await? {
                    Ok(_) => continue,
                    Err(error) => return Some(Err(error)),
                }
            };
            if view.summary.status == RunStatus::Complete {
                return Some(Ok(()));
            }
            let listed = json!({ "runId": RUN, "status": "open" });
            let listed = server.call_or_death("listFeedback", server.here(listed)).await?;
            let open = listed.ok().and_then(|listed| listed["feedback"][0]["id"].as_str().map(str::to_owned));
            let (method, wish) = match open {
                Some(id) => (
                    "resolveFeedback",
                    json!({ "runId": RUN, "feedbackId": id, "resolution": "retry", "guidance": GUIDANCE }),
                ),
                None => ("resume", json!({ "runId": RUN })),
            };
            if let Err(error) = server.call_or_death(method, server.here(wish)).await? {
                return Some(Err(error));
            }
        }
        server.fail("the run does not get any further");
    }

    /// Whether the run was planned.
    pub(super) fn exists(&self) -> bool {
        fs::read(self.ws.run_folder(RUN).join("journal.jsonl")).is_ok_and(|journal| journal.contains(&b'\n'))
    }

    /// The run, and the one inside it.
    pub(super) fn run_names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.ws.path().join(".cw/runs")) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// What the runs' journals hold, whole lines only.
    pub(super) fn journals(&self) -> BTreeMap<String, Journal> {
        let read = |name: String| {
            let bytes = fs::read(self.ws.run_folder(&name).join("journal.jsonl")).unwrap_or_default();
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let events = lines.map(|line| {
                let mut line: Value = serde_json::from_slice(line).expect("journal lines are JSON");
                line["event"].take()
            });
            (name, Journal(events.collect()))
        };
        self.run_names().into_iter().map(read).collect()
    }

    /// The attempts whose ends were noted beside the journal, by run; whole notes only.
    pub(super) fn noted(&self) -> BTreeMap<String, BTreeSet<String>> {
        let read = |name: String| {
            let text = fs::read_to_string(self.ws.run_folder(&name).join("ended.log")).unwrap_or_default();
            let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            let workers = whole.filter_map(|line| {
                let note: Value = serde_json::from_str(line.split_once(' ')?.1).ok()?;
                note["worker"].as_str().map(str::to_owned)
            });
            (name, workers.collect())
        };
        self.run_names().into_iter().map(read).collect()
    }

    /// The attempts of each task that an agent was started for, whether a program or an endpoint.
    pub(super) fn runs(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut note = |task: String, worker: String| {
            let new = runs.entry(task.clone()).or_default().insert(worker.clone());
            assert!(new, "attempt {worker} of {task} was started twice");
        };
        for entry in ledger::read(&self.ws.ledger()).into_iter().filter(|entry| entry.what == What::Start) {
            note(entry.task, entry.worker);
        }
        for exchange in &self.endpoint.exchanges()[self.exchanged.load(Ordering::SeqCst)..] {
            let body = exchange.request.json();
            let folder = Path::new(body["manifest"]["workerDir"].as_str().unwrap_or_default());
            let worker = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            note(exchange.request.task(), worker);
        }
        runs
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        census::sweep(self.ws.root());
    }
}

/// The events of a journal.
pub(super) struct Journal(Vec<Value>);

impl Journal {
    pub(super) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |event| event["type"] == kind)
    }

    pub(super) fn accepted(&self) -> Vec<String> {
        self.of("taskAccepted").filter_map(|event| event["task"].as_str().map(str::to_owned)).collect()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be read").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a file can be copied");
        }
    }
}
