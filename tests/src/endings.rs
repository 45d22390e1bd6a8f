//! Counted results about agents' ends: how many processes outlive their delegations, and how much memory the server needs
//! for what agents print. Run small as tests, and at full size by `bench leaks` and `bench memory`.

use flowdrive_protocol::run::{RunStatus, StepAction};
use serde_json::json;

use crate::{Framing, Server, TestWorkspace, census, config, ledger, phase, task, workflow};

/// What a number of timeouts left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endings {
    /// Delegations that were ended at their time limit.
    pub timed_out: usize,
    /// Processes their agents had started, themselves included.
    pub started: usize,
    /// Processes that were alive when the run's answer had arrived.
    pub left: usize,
}

/// An agent that never ends, with children of every kind: one in its group that ignores SIGTERM, one in a session of its
/// own, and one whose parent is gone. Each writes its line before it sleeps, so that they can be counted.
const FAMILY: &str = r#"
line() { echo "$1" >>"$COUNT"; }
sh -c "trap '' TERM; echo deaf >>$COUNT; while :; do sleep 600; done" &
setsid sh -c "echo session >>$COUNT; exec sleep 600" >/dev/null 2>&1 </dev/null &
(setsid sh -c "trap '' TERM; echo orphan >>$COUNT; while :; do sleep 600; done" >/dev/null 2>&1 </dev/null &)
line agent
exec sleep 600
"#;

/// Drives so many tasks, each of which times out after half a second, and counts.
///
/// # Panics
/// When a run says anything but that every one of its tasks timed out.
pub async fn time_out(count: usize, width: u32) -> Endings {
    const BATCH: usize = 250;
    let ws = TestWorkspace::new();
    let counter = ws.beside("count");
    let script = ws.beside("family.sh");
    std::fs::write(&script, format!("COUNT={counter}\n{FAMILY}")).expect("the script can be written");
    let mut family = flowdrive_protocol::config::AgentConfig {
        command: Some(["/bin/sh", &script].map(str::to_owned).into()),
        ..Default::default()
    };
    family.timeout_ms = Some(500);
    ws.configure(&config::config([("family", family)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let mut endings = Endings { timed_out: 0, started: 0, left: 0 };
    let mut open = count;
    while open > 0 {
        let batch = open.min(BATCH);
        open -= batch;
        let document = workflow(width, [phase("map", (0..batch).map(|n| task(&format!("map:{n}"))))]);
        let result = server.drive(&document, json!({ "concurrency": width, "maxAttempts": 1 })).await;
        assert_eq!(result.status, RunStatus::Parked, "every task times out");
        // Looked at once: what is alive when the answer is here has outlived its delegation.
        endings.left += census::processes(ws.root(), &[server.pid()]).len();
        let timed_out = |reason: &str| reason.contains("timed out after 500ms");
        endings.timed_out += result
            .steps
            .iter()
            .filter(|step| step.action == StepAction::Park && step.reason.as_deref().is_some_and(timed_out))
            .count();
    }
    endings.started = std::fs::read_to_string(&counter).unwrap_or_default().lines().count();
    server.finish().await;
    endings
}

/// What a server needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Agents that were in flight at one moment.
    pub together: usize,
    /// The server's largest resident size, in KiB.
    pub peak_kib: u64,
}

/// Runs so many agents at once, each of which prints so many MiB to each of its outputs, and asks the kernel for the
/// server's peak.
///
/// # Panics
/// When the kernel does not say.
pub async fn print(agents: u32, stdout_mib: usize, stderr_mib: usize) -> Memory {
    let ws = TestWorkspace::new();
    // All wait for each other before they print.
    let meet = format!("{agents}:{}", ws.beside("meeting"));
    let (out, err) = (stdout_mib.to_string(), stderr_mib.to_string());
    let printer = config::fixture(&ws, &["--meet", &meet, "--print-mb", &out, "--print-err-mb", &err]);
    ws.configure(&config::config([("printer", printer)]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let document = workflow(agents, [phase("map", (0..agents).map(|n| task(&format!("map:{n}"))))]);
    let result = server.drive(&document, json!({ "concurrency": agents, "maxAttempts": 1 })).await;
    assert!(result.completed_workers + result.parked_workers == agents, "{result:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("the server lives");
    let peak_kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
        .expect("the kernel says VmHWM");
    let mut together: Vec<String> = ledger::read(&ws.ledger()).into_iter().map(|entry| entry.task).collect();
    together.sort_unstable();
    together.dedup();
    server.finish().await;
    Memory { together: together.len(), peak_kib }
}
