//! Statements 35 to 39 and 43 to 46: how an agent ends, what it leaves behind, and what is read of it until then. An agent
//! is a process group of its own here, ended with everything it started; there is no program between it and the server.

use std::fs;

use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::StopResult;
use flowdrive_protocol::run::{DriveResult, RunStatus, StepAction};
use flowdrive_tests::{Framing, Server, TestWorkspace, census, config, phase, task, wait, workflow};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{GOOD, alone, drive, limited, names, reasons, shell, steps, tasks};

#[tokio::test]
async fn a35_timed_out_agent_is_reported_with_its_limit_and_how_it_was_ended() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("slow", limited(shell("exec sleep 600"), 300))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    let reason = steps(&result, StepAction::Park)[0].reason.clone().unwrap();
    assert!(reason.contains("agent process timed out after 300ms and was "), "{reason}");
    assert!(!reason.contains("spawn"), "{reason}");
}

/// Has children in its group and in sessions of their own, one whose parent is gone, and writes down who they are.
const FAMILY: &str = r#"
sleep 600 & echo $! >>"$3/artifacts/pids"
setsid sh -c 'echo $$ >>"$0/artifacts/pids"; exec sleep 600' "$3" >/dev/null 2>&1 </dev/null &
(setsid sh -c 'echo $$ >>"$0/artifacts/pids"; exec sleep 600' "$3" >/dev/null 2>&1 </dev/null &)
while [ "$(wc -l <"$3/artifacts/pids")" -lt 3 ]; do sleep 0.01; done
"#;

#[tokio::test]
async fn a36_everything_a_timed_out_agent_started_is_ended_with_it() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("vendor", limited(shell(&format!("{FAMILY} exec sleep 600")), 3_000))]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let result = server.drive(&alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    census::assert_none(ws.root(), &[server.pid()], "after the agent had timed out");
    assert!(reasons(&result).contains("timed out after 3000ms"), "{}", reasons(&result));
    let folder = ws.run_folder(&result.run_id).join("workers");
    let pids = fs::read_to_string(folder.join(&names(&folder)[0]).join("artifacts/pids")).unwrap();
    assert_eq!(pids.lines().count(), 3, "all of them were there: {pids}");
    server.finish().await;
}

#[tokio::test]
async fn a36_process_that_only_has_a_recorded_number_is_not_touched() {
    // The earlier tool kills whatever process a file left by an agent names. Here no file is believed.
    let ws = TestWorkspace::new();
    let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let script = format!("echo {} >\"$3/agent.pid\"; exec sleep 600", stranger.id());
    ws.configure(&config::config([("wrapper", limited(shell(&script), 200))]));
    let result = drive(&ws, &alone(task("map:0")), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.parked_workers, 1);
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger was ended");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn a37_nothing_is_left_in_the_folder_for_temporary_files_however_an_agent_ends() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([
        ("good", config::fixture(&ws, &[])),
        ("failing", shell("exit 3")),
        ("killed", shell("kill -KILL $$")),
        ("slow", limited(shell("exec sleep 600"), 200)),
    ]));
    let temporary = ws.root().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let server = Server::builder(&ws, Framing::Ndjson).env("TMPDIR", temporary.to_str().unwrap()).start().await;
    let all = ["good", "failing", "killed", "slow"].map(|agent| task(&format!("map:{agent}")).agent(agent));
    let result = server.drive(&workflow(4, [phase("map", all)]), json!({ "maxAttempts": 1 })).await;
    assert_eq!((result.completed_workers, result.parked_workers), (1, 3), "{result:#?}");
    server.finish().await;
    assert_eq!(names(&temporary), Vec::<String>::new());
}

#[tokio::test]
async fn a38_second_interrupt_reaches_the_agents_and_ends_the_server_with_130() {
    let ws = TestWorkspace::new();
    let agent = config::fixture(&ws, &["--gate", &ws.beside("gate"), "--fork", "1"]);
    ws.configure(&config::config([("gated", agent)]));
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    server.start_drive(&workflow(2, [phase("map", tasks(2))]), json!({})).await;
    wait::until("the agents to run", || (ws.agent_runs().len() == 2).then_some(())).await;
    server.signal(Signal::SIGINT);
    server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
    assert_eq!(census::processes(ws.root(), &[server.pid()]).len(), 4, "the first lets them finish");
    server.signal(Signal::SIGINT);
    assert_eq!(server.wait_exit().await.code(), Some(130));
    census::assert_none(ws.root(), &[], "after the second interrupt");
}

#[tokio::test]
async fn a39_reason_of_an_interrupted_drive_says_how_to_go_on() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("gated", config::fixture(&ws, &["--gate", &ws.beside("gate")]))]));
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&workflow(1, [phase("map", tasks(2))]), json!({})).await;
    wait::until("the agent to run", || (ws.agent_runs().len() == 1).then_some(())).await;
    server.signal(Signal::SIGTERM);
    server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
    ws.open_gate("gate");
    let result: DriveResult = server.result(request).await;
    let reason = result.reason.unwrap();
    assert_eq!(reason, format!("drive interrupted by SIGTERM — resume: flowdrive resume {run}"));
    assert_eq!(result.steps.last().unwrap().reason.as_deref(), Some(reason.as_str()));
    server.wait_exit().await;
    // And what it says works, as it stands.
    let words: Vec<&str> = reason.split_once("flowdrive ").unwrap().1.split(' ').collect();
    let output = ws.flowdrive(&words).arg("--config").arg(ws.config_file()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a43_grandchild_that_holds_the_output_holds_up_neither_a_stop_nor_an_end() {
    let ws = TestWorkspace::new();
    let holding = "setsid sleep 600 & while ! [ -e \"$GATE\" ]; do sleep 0.01; done; ";
    let script = format!("GATE={}; touch \"$3/artifacts/up\"; {holding}{GOOD}", ws.beside("gate"));
    ws.configure(&config::config([("leaky", shell(&script))]));
    let up = |ws: &TestWorkspace, run: &str, worker: &str| {
        ws.run_folder(run).join("workers").join(worker).join("artifacts/up").exists().then_some(())
    };
    // A stop.
    let server = Server::start(&ws, Framing::Ndjson).await;
    let (request, run) = server.start_drive(&alone(task("a")), json!({})).await;
    wait::until("the agent to run", || up(&ws, &run, "worker-a-0001")).await;
    let _: StopResult = server.ok("stop", server.here(json!({ "runId": run, "mode": "now" }))).await;
    let _: DriveResult = server.result(request).await;
    census::assert_none(ws.root(), &[server.pid()], "after the stop");
    // An end of its own.
    ws.open_gate("gate");
    let result: DriveResult = server.ok("resume", server.here(json!({ "runId": run }))).await;
    assert_eq!(result.status, RunStatus::Complete);
    census::assert_none(ws.root(), &[server.pid()], "after the agent's own end");
    server.finish().await;
}

#[tokio::test]
async fn a43_signal_twice_ends_the_server_with_143_although_a_grandchild_holds_the_output() {
    let ws = TestWorkspace::new();
    let script = "setsid sleep 600 & setsid sleep 600 >&2 & touch \"$3/artifacts/up\"; exec sleep 600";
    ws.configure(&config::config([("leaky", shell(script))]));
    let mut server = Server::start(&ws, Framing::Ndjson).await;
    let (_, run) = server.start_drive(&alone(task("a")), json!({})).await;
    let up = ws.run_folder(&run).join("workers/worker-a-0001/artifacts/up");
    wait::until("the agent to run", || up.exists().then_some(())).await;
    server.signal(Signal::SIGTERM);
    server.wait_event("the stop to be told", |e| matches!(e.event, Event::StopRequested { .. })).await;
    server.signal(Signal::SIGTERM);
    assert_eq!(server.wait_exit().await.code(), Some(143));
    census::assert_none(ws.root(), &[], "after the second signal");
}

#[tokio::test]
async fn a44_agent_that_reads_its_standard_input_finds_its_end_at_once() {
    let ws = TestWorkspace::new();
    ws.configure(&config::config([("reader", shell(&format!("cat >\"$3/artifacts/in\"; {GOOD}")))]));
    let result = drive(&ws, &workflow(3, [phase("map", tasks(3))]), json!({})).await;
    assert_eq!((result.status, result.completed_workers), (RunStatus::Complete, 3));
    for step in steps(&result, StepAction::Accept) {
        let folder = ws.run_folder(&result.run_id).join("workers").join(step.worker_id.as_ref().unwrap().as_str());
        assert_eq!(fs::read(folder.join("artifacts/in")).unwrap(), b"", "it was given something");
    }
}

#[tokio::test]
async fn a45_characters_cut_by_writes_are_whole_and_a_cut_off_tail_is_replaced() {
    let ws = TestWorkspace::new();
    // The three bytes of one character in three writes; and, where an output ends, two bytes of three.
    let cut = r"printf '\346'; sleep 0.1; printf '\274'; sleep 0.1; printf '\242 is whole\n'";
    let (report, tail) = (r#"printf '{"model":"tail \346\274"}'"#, r"printf 'tail \346\274'");
    ws.configure(&config::config([
        ("cut", shell(&format!("{cut}; {GOOD}"))),
        ("ending", shell(&format!("{report}; {GOOD}"))),
        ("failing", shell(&format!("exec >&2; {cut}; {tail}; exit 3"))),
    ]));
    let server = Server::start(&ws, Framing::Ndjson).await;
    let all = ["cut", "ending", "failing"].map(|agent| task(&format!("map:{agent}")).agent(agent));
    let document = workflow(3, [phase("map", all)]);
    let result = server.drive(&document, json!({ "maxAttempts": 1 })).await;
    let told: Vec<String> = server
        .events()
        .into_iter()
        .filter_map(|event| match event.event {
            Event::AgentActivity { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert!(told.iter().any(|text| text.contains("漢 is whole")), "{told:?}");
    assert!(told.iter().all(|text| !text.contains("\u{fffd} is whole")), "{told:?}");
    let accepted = steps(&result, StepAction::Accept);
    assert!(accepted.iter().any(|step| step.reported_model.as_deref() == Some("tail \u{fffd}")), "{accepted:?}");
    let reason = steps(&result, StepAction::Park)[0].reason.clone().unwrap();
    assert!(reason.contains("tail \u{fffd}"), "{reason}");
    server.finish().await;
}

#[tokio::test]
async fn a46_much_output_in_small_pieces_is_counted_and_kept_whole() {
    let ws = TestWorkspace::new();
    // Eight thousand pieces from each of two, at once. What happens at the cap is statement 99.
    ws.configure(&config::config([("chatty", config::fixture(&ws, &["--print-mb", "8"]))]));
    let result = drive(&ws, &workflow(2, [phase("map", tasks(2))]), json!({ "maxAttempts": 1 })).await;
    assert_eq!(result.completed_workers, 2, "{result:#?}");
    let folder = ws.run_folder(&result.run_id).join("workers");
    for worker in names(&folder) {
        let log = fs::metadata(folder.join(worker).join("logs/stdout.log")).unwrap();
        assert_eq!(log.len(), 8 * 1024 * 1024);
    }
}
