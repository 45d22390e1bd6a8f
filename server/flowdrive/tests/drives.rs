//! Drives through the real binary with real agents: order, cancelling, and that no agent outlives its server.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests; a failure is the message")]

mod support;

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{Framing, Server};

/// An agent that says its process's id and its child's, waits for a file called `go` in the workspace, and then claims
/// something about `a.rs`.
const AGENT: &str = r#"
sleep 600 & child=$!
echo "$$ $child" > "$2/pids-$$.part" && mv "$2/pids-$$.part" "$2/pids-$$"
while [ ! -e "$2/go" ]; do sleep 0.05; done
kill $child
printf '```cw:result\n{"summary":"ok","evidence":["a.rs:1"]}\n```\n' > "$1"
"#;

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.rs"), "fn main() {}\n").unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn server(&self, framing: Framing, arguments: &[&str]) -> Server {
        let mut server = Server::start_with(framing, arguments, &[]);
        let command = json!(["sh", "-c", AGENT, "sh", "{{result}}", self.path()]);
        let options = json!({"defaultAgent": "mine", "agents": {"mine": {"command": command}}});
        let answer = server.ask(
            json!("init"),
            "initialize",
            json!({"processId": null, "capabilities": {}, "initializationOptions": options}),
        );
        assert!(answer["result"].is_object(), "{answer}");
        server
    }

    fn drive(&self, server: &mut Server, id: Value, tasks: usize) {
        let tasks: Vec<Value> =
            (0..tasks).map(|n| json!({"id": format!("t{n}"), "prompt": "p", "requiresEvidence": true})).collect();
        let workflow = json!({"schemaVersion": 1, "id": "w", "title": "W", "phases": [{"id": "p", "mode": "parallel", "tasks": tasks}]});
        let params =
            json!({"workspace": self.path(), "workflow": {"inline": workflow}, "concurrency": 8, "workDoneToken": "t"});
        server.request(id, "drive", params);
    }

    fn go(&self) {
        std::fs::write(self.path().join("go"), "").unwrap();
    }

    /// The processes of `agents` agents, once all have said theirs.
    fn processes(&self, agents: usize) -> Vec<Pid> {
        loop {
            let files: Vec<_> = std::fs::read_dir(self.path())
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| {
                    path.file_name().unwrap().to_str().unwrap().starts_with("pids-") && path.extension().is_none()
                })
                .collect();
            if files.len() == agents {
                let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
                return text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap())).collect();
            }
            std::thread::yield_now();
        }
    }
}

fn assert_gone(processes: &[Pid]) {
    for process in processes {
        // One that has ended and waits for its new parent to notice is as good as gone.
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let zombie = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        assert!(zombie || kill(*process, None) == Err(Errno::ESRCH), "{process} is still there: {stat}");
    }
}

fn told(server: &mut Server, kind: &str) -> Value {
    loop {
        let message = server.next().expect("the server ended");
        let found = message["params"]["type"] == kind;
        server.aside.push(message.clone());
        if found {
            return message["params"].clone();
        }
    }
}

#[test]
fn a_run_is_told_in_order_and_answered_last() {
    let fixture = Fixture::new();
    let mut server = fixture.server(Framing::Lsp, &[]);
    fixture.go();
    fixture.drive(&mut server, json!(1), 5);
    let answer = server.answer(json!(1));
    assert_eq!(answer["result"]["status"], "complete", "{answer}");
    let of = |method: &str| -> Vec<Value> {
        server
            .aside
            .iter()
            .filter(|message| message["method"] == method)
            .map(|message| message["params"].clone())
            .collect()
    };
    let events = of("flowdrive/progress");
    let lifecycle: Vec<&Value> = events.iter().filter(|event| event["type"] != "agentActivity").collect();
    let numbers: Vec<u64> = lifecycle.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<u64>>());
    assert_eq!(
        (&lifecycle[0]["type"], &lifecycle.last().unwrap()["type"]),
        (&json!("runStarted"), &json!("runFinished"))
    );
    let shown = of("$/progress");
    assert_eq!(shown[0]["value"]["title"], "Flowdrive: W");
    assert_eq!(shown.last().unwrap()["value"]["kind"], "end");
    let run = &answer["result"]["runId"];
    let view = server.ask(json!(2), "showRun", json!({"workspace": fixture.path(), "runId": run, "sinceSeq": 0}));
    let record: Vec<&Value> = view["result"]["events"].as_array().unwrap().iter().collect();
    assert_eq!(record, lifecycle, "what was told is what is on record");
}

#[test]
fn a_cancelled_drive_answers_at_once_and_is_settled_all_the_same() {
    let fixture = Fixture::new();
    let mut server = fixture.server(Framing::Lsp, &[]);
    fixture.drive(&mut server, json!(1), 3);
    let processes = fixture.processes(3);
    server.notify("$/cancelRequest", json!({"id": 1}));
    assert_eq!(server.answer(json!(1))["error"]["code"], -32800, "though no agent has ended");
    assert_eq!(server.ask(json!(2), "serverInfo", json!({}))["result"]["name"], "flowdrive");
    fixture.go();
    let end = told(&mut server, "runFinished");
    assert_eq!(end["completedWorkers"], 3, "{end}");
    assert_gone(&processes);
}

#[test]
fn no_agent_outlives_its_server_however_that_ends() {
    type End = fn(&mut Server);
    let ways: [(&str, End, Framing); 4] = [
        ("the end of input", |server| server.input = None, Framing::Ndjson),
        (
            "shutdown and exit",
            |server| {
                server.ask(json!(9), "shutdown", Value::Null);
                server.notify("exit", Value::Null);
            },
            Framing::Lsp,
        ),
        ("exit alone", |server| server.notify("exit", Value::Null), Framing::Lsp),
        (
            "two signals",
            |server| {
                let pid = Pid::from_raw(server.child.id().try_into().unwrap());
                kill(pid, Signal::SIGTERM).unwrap();
                told(server, "stopRequested");
                kill(pid, Signal::SIGTERM).unwrap();
            },
            Framing::Lsp,
        ),
    ];
    for (name, end, framing) in ways {
        let fixture = Fixture::new();
        let mut server = fixture.server(framing, &[]);
        fixture.drive(&mut server, json!(1), 8);
        let processes = fixture.processes(8);
        assert_eq!(processes.len(), 16);
        end(&mut server);
        let (status, said) = server.ended();
        assert!(status.code().is_some(), "{name}: {said}");
        assert_gone(&processes);
    }
}

#[test]
fn one_signal_waits_for_the_agents_in_flight() {
    let fixture = Fixture::new();
    let mut server = fixture.server(Framing::Ndjson, &[]);
    fixture.drive(&mut server, json!(1), 2);
    fixture.processes(2);
    kill(Pid::from_raw(server.child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    told(&mut server, "stopRequested");
    fixture.go();
    assert_eq!(server.answer(json!(1))["result"]["completedWorkers"], 2);
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(130));
    assert!(said.contains("flowdrive resume w-"), "{said}");
}

#[test]
fn a_script_can_ask_for_its_drive_to_be_finished() {
    let fixture = Fixture::new();
    let mut server = fixture.server(Framing::Ndjson, &["--finish-on-eof"]);
    fixture.drive(&mut server, json!(1), 2);
    server.input = None;
    fixture.processes(2);
    fixture.go();
    assert_eq!(server.answer(json!(1))["result"]["status"], "complete");
    assert_eq!(server.ended().0.code(), Some(0));
}
