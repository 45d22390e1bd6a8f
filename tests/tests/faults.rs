//! The record says the same of the same fault, whether its task ran alone or among others: the same code, word for word
//! the same reason.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use flowdrive_protocol::config::AgentConfig;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, results, task, workflow};
use serde_json::{Value, json};

/// Endpoint faults: task, code, words of the reason.
const REMOTE: [(&str, &str, &str); 10] = [
    ("status-500", "endpoint-error", "runner responded 500"),
    ("status-401", "endpoint-error", "runner responded 401"),
    ("page", "endpoint-error", "not JSON"),
    ("null", "endpoint-error", "null, not a JSON object"),
    ("no-exit-code", "endpoint-error", "did not report an exitCode: made-up fault"),
    ("exit-7", "agent-exit", "failed (exit 7)"),
    ("redirect", "endpoint-error", "redirect to another origin"),
    ("lost-job", "endpoint-error", "poll responded 410"),
    ("silent", "agent-timeout", "timed out after 700ms"),
    ("empty", "worker-result-missing", "result.md"),
];

/// Command faults: agent, code, words of the reason.
const LOCAL: [(&str, &str, &str); 8] = [
    ("exit-41", "agent-exit", "failed (exit 41): made-up fault"),
    ("signal", "agent-signalled", "SIGKILL"),
    ("absent", "agent-spawn", "does not exist"),
    ("slow", "agent-timeout", "timed out after 700ms"),
    ("quiet", "agent-stalled", "printed nothing for 300ms"),
    ("nothing", "worker-result-missing", "result.md"),
    ("bad-json", "result-parse-error", "cw:result"),
    ("long-argv", "agent-spawn", "{{input}}"),
];

async fn misbehave(request: flowdrive_tests::endpoint::Request) -> Response {
    if request.method == "GET" {
        return Response::new(410, "gone");
    }
    let text = results::text(results::Kind::Good, "x", CITE).unwrap();
    match request.task().as_str() {
        "map:status-500" => Response::new(500, "made-up fault"),
        "map:status-401" => Response::new(401, "made-up fault"),
        "map:page" => Response::new(200, "<html>"),
        "map:null" => Response::json(&Value::Null),
        "map:no-exit-code" => Response::json(&json!({ "error": "made-up fault" })),
        "map:exit-7" => Response::json(&json!({ "exitCode": 7, "stdout": text })),
        "map:redirect" => Response::new(307, "").header("location", "http://127.0.0.1:9/other"),
        "map:lost-job" => Response::json(&json!({ "jobId": "made-up" })),
        "map:empty" => Response::json(&json!({ "exitCode": 0, "stdout": "" })),
        _ => std::future::pending().await,
    }
}

fn shell(script: &str) -> AgentConfig {
    let command = ["/bin/sh", "-c", script, "agent", "{{result}}"].map(str::to_owned).into();
    AgentConfig { command: Some(command), ..AgentConfig::default() }
}

#[tokio::test]
async fn a_fault_is_recorded_the_same_alone_and_in_a_window() {
    let ws = TestWorkspace::new();
    let endpoint = EndpointServer::start(misbehave).await;
    // A program that is there, and cannot be started all the same; one that is not there costs no attempt.
    std::fs::write(ws.beside("absent.sh"), "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(ws.beside("absent.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let limited = |mut agent: AgentConfig| {
        agent.timeout_ms = Some(700);
        agent
    };
    let mut quiet = shell("echo once; exec sleep 600");
    quiet.idle_timeout_ms = Some(300);
    let argv = |command: &[&str]| AgentConfig {
        command: Some(command.iter().map(|part| (*part).to_owned()).collect()),
        ..AgentConfig::default()
    };
    ws.configure(&config::config([
        ("remote", config::endpoint(endpoint.url())),
        ("silent", limited(config::endpoint(endpoint.url()))),
        ("exit-41", shell("echo made-up fault >&2; exit 41")),
        ("signal", shell("kill -KILL $$")),
        ("absent", argv(&[&ws.beside("absent.sh")])),
        ("slow", limited(shell("exec sleep 600"))),
        ("quiet", quiet),
        ("nothing", shell("exit 0")),
        ("bad-json", shell("printf '```cw:result\\n{\\n```\\n' >\"$1\"")),
        ("long-argv", argv(&["/bin/echo", &"x".repeat(200_000)])),
    ]));
    // Only the endpoint that never answers has a short limit: no other may come near one on a busy machine.
    let agent_of = |row: &(&'static str, &str, &str)| if row.0 == "silent" { row.0 } else { "remote" };
    let names = || REMOTE.iter().map(|row| (row, agent_of(row))).chain(LOCAL.iter().map(|row| (row, row.0)));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut records = Vec::new();
    for width in [1, 8] {
        let tasks = names().map(|(row, agent)| task(&format!("map:{}", row.0)).agent(agent));
        let document = workflow(8, [phase("map", tasks)]);
        let result = server.drive(&document, json!({ "concurrency": width, "maxAttempts": 1 })).await;
        assert_eq!((result.status, result.completed_workers), (RunStatus::Parked, 0), "{result:#?}");
        let run = result.run_id.to_string();
        let parked: BTreeMap<String, (String, String)> = server
            .lifecycle(&run)
            .into_iter()
            .filter_map(|event| match event.event {
                Event::TaskParked { task_id, worker_id, code, reason, .. } => Some((
                    task_id.to_string(),
                    (code, reason.replace(worker_id.as_str(), "<worker>").replace(&run, "<run>")),
                )),
                _ => None,
            })
            .collect();
        records.push(parked);
    }
    server.finish().await;
    let [alone, together] = &records[..] else { unreachable!("two widths were driven") };
    assert_eq!(alone, together);
    for ((name, code, words), _) in names() {
        let (said_code, reason) = &alone[&format!("map:{name}")];
        assert!(said_code == code && reason.contains(words), "{name}: {said_code}: {reason}");
    }
}
