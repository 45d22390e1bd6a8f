//! A defect in one run is that run's alone: the thread that drives it panics, and its agents are ended, its request is
//! answered, its end is told; another run in the same server does not notice, and it can be resumed there itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::Event;
use flowdrive_protocol::method::VerifyRunResult;
use flowdrive_protocol::run::{DriveResult, RunStatus};
use flowdrive_tests::{Framing, Server, TestWorkspace, binary, census, config, phase, task, wait, workflow};
use serde_json::json;

#[tokio::test]
async fn a_panic_in_one_run_ends_no_other() {
    for framing in Framing::BOTH {
        let ws = TestWorkspace::new();
        let at = |gate: &str, more: &[&str]| {
            let gate = ws.beside(gate);
            let mut arguments = vec!["--gate", gate.as_str()];
            arguments.extend(more);
            config::fixture(&ws, &arguments)
        };
        ws.configure(&config::config([
            ("quick", at("quick", &[])),
            ("stubborn", at("stubborn", &["--fork", "2", "--ignore-term"])),
            ("other", at("other", &[])),
        ]));
        // Whatever is logged goes elsewhere: each byte of the output is read as a frame, or fails the test.
        let builder = Server::builder(&ws, framing).program(binary::fault_injected());
        let server = builder.env("FLOWDRIVE_PANIC_TASK", "map:bad").env("RUST_LOG", "trace").start().await;
        let (task_of, other) = (|id: &str, agent: &str| task(id).agent(agent), "map:other");
        let sound = workflow(1, [phase("map", [task_of(other, "other")])]);
        let struck = workflow(2, [phase("map", [task_of("map:bad", "quick"), task_of("map:long", "stubborn")])]);
        let (sound_request, sound_run) = server.start_drive(&sound, json!({ "runId": "sound" })).await;
        let (struck_request, struck_run) = server.start_drive(&struck, json!({ "runId": "struck" })).await;
        wait::until("all agents to run", || (ws.agent_runs().len() == 3).then_some(())).await;
        ws.open_gate("quick");

        let error = server.answer(struck_request).await.unwrap_err();
        error.assert_kind(ErrorKind::Internal);
        assert!(error.message.contains(&struck_run), "{error:?}");
        let folder = ws.run_folder(&struck_run).display().to_string();
        let left = census::processes(ws.root(), &[server.pid()]);
        let (of_struck, of_others): (Vec<_>, Vec<_>) = left.iter().partition(|one| one.command.contains(&folder));
        assert!(of_struck.is_empty(), "{framing:?}: agents of the run that panicked are still there: {of_struck:#?}");
        assert!(!of_others.is_empty(), "{framing:?}: the other run's agent went too");
        server
            .wait_event("the end of the run that panicked", |event| {
                let Event::RunFinished { status, reason, .. } = &event.event else { return false };
                assert_eq!(*status, RunStatus::InProgress, "{reason:?}");
                event.run_id.as_str() == struck_run && reason.as_ref().is_some_and(|reason| reason.contains("fault"))
            })
            .await;

        ws.open_gate("other");
        let result: DriveResult = server.result(sound_request).await;
        assert_eq!(result.status, RunStatus::Complete, "{framing:?}: {result:#?}");

        ws.open_gate("stubborn");
        let resumed: DriveResult = server.ok("resume", server.here(json!({ "runId": struck_run }))).await;
        assert_eq!((resumed.status, resumed.completed_workers), (RunStatus::Complete, 2), "{framing:?}: {resumed:#?}");
        for run in [&sound_run, &struck_run] {
            let verified: VerifyRunResult = server.ok("verifyRun", server.here(json!({ "runId": run }))).await;
            assert!(verified.ok, "{framing:?}: {verified:#?}");
        }
        let runs = ws.agent_runs();
        assert_eq!((runs["map:bad"], runs["map:long"], runs[other]), (1, 2, 1), "an agent that had ended ran again");
        let log = server.log();
        assert!(log.contains("fault injection: panic") && log.contains("TRACE"), "{framing:?}: nothing struck");
        server.finish().await;
    }
}
