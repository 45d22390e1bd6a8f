//! Nothing an agent starts outlives its delegation, however it tries, and nothing else is touched.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

mod delegate_support;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use delegate_support::{Place, SAFETY, alive, failure, options};
use flowdrive_engine::delegate::Delegator;
use flowdrive_engine::model::agent::Assignment;
use flowdrive_engine::model::outcome::{Ending, Notice};
use tokio_util::sync::CancellationToken;

/// Every way to stay alive: a child of the group, a pipeline, a new session, a double fork into a new session with its
/// outputs elsewhere, one that ignores SIGTERM, and one that forks when it gets it.
fn stubborn(place: &Place) -> String {
    let deaf = place.script("deaf.sh", "trap '' TERM HUP INT\nwhile :; do sleep 1000; done");
    let hydra = place.script(
        "hydra.sh",
        "trap 'setsid sh \"$0\" again >/dev/null 2>&1 </dev/null & sh \"$0\" again >/dev/null 2>&1 </dev/null &' TERM\nwhile :; do sleep 1000 & wait; done",
    );
    let (deaf, hydra) = (deaf.display(), hydra.display());
    format!(
        "sh {deaf} & \
         sh {deaf} | cat & \
         setsid sh {deaf} & \
         (setsid sh {deaf} >/dev/null 2>&1 </dev/null &) & \
         setsid sh -c 'setsid sh {deaf} >/dev/null 2>&1 </dev/null & exit' & \
         sh {hydra} >/dev/null 2>&1 & \
         setsid sh {hydra} >/dev/null 2>&1 & \
         sleep 0.2; echo up >\"$(dirname \"$0\")/up\"; "
    )
}

fn with_timeout(place: &Place, ms: u64) -> Assignment {
    let mut assignment = place.assignment();
    assignment.timeout = Duration::from_millis(ms);
    assignment
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let place = Place::new();
    let agent = place.shell(&format!("{}exec sleep 1000", stubborn(&place)));
    let outcome = place.run(&agent, &with_timeout(&place, 900)).await;
    let (code, reason) = failure(&outcome);
    assert_eq!(code, "agent-timeout");
    assert_eq!(reason, "agent process timed out after 900ms and was ended (SIGTERM)");
    assert!(!outcome.leaked, "it did not end by itself");
}

#[tokio::test]
async fn an_agent_that_ignores_the_signal_is_killed() {
    let place = Place::new();
    let agent = place.shell(&format!("trap '' TERM; {}while :; do sleep 1000; done", stubborn(&place)));
    let outcome = place.run(&agent, &with_timeout(&place, 900)).await;
    assert_eq!(failure(&outcome), ("agent-timeout", "agent process timed out after 900ms and was killed (SIGKILL)"));
}

#[tokio::test]
async fn a_polite_agent_may_say_its_last_words() {
    let place = Place::new();
    let agent = place.shell("trap 'echo goodbye; exit 0' TERM; echo up; while :; do sleep 0.02; done");
    let outcome = place.run(&agent, &with_timeout(&place, 300)).await;
    assert_eq!(failure(&outcome).0, "agent-timeout");
    assert_eq!(place.log("stdout.log").unwrap(), b"up\ngoodbye\n");
}

#[tokio::test]
async fn what_was_stopped_is_continued_and_heeds_the_request_to_end() {
    // A grace beyond the guard of every test: who needed it would be told a hang.
    let place = Place::with(flowdrive_engine::delegate::DelegatorOptions { term_grace: SAFETY * 10, ..options() });
    let leader = "kill -STOP $$; exec sleep 1000";
    // Its leader ends only when a child in a session of its own does, and that one stands still.
    let straggler = "trap : TERM; setsid sh -c 'echo up; kill -STOP $$; exec sleep 1000' & child=$!; \
                     while kill -0 $child 2>/dev/null; do wait $child; done";
    for script in [leader, straggler] {
        let outcome = place.run(&place.shell(script), &with_timeout(&place, 700)).await;
        let expected = "agent process timed out after 700ms and was ended (SIGTERM)";
        let (code, reason) = failure(&outcome);
        // The shell may say on its error output that a child was terminated.
        assert!(code == "agent-timeout" && reason.starts_with(expected), "{script}: {code}: {reason}");
    }
}

#[tokio::test]
async fn silence_is_told_from_slowness() {
    let place = Place::new();
    let mut agent = place.shell("echo thinking; exec sleep 1000");
    agent.idle_timeout = Some(Duration::from_millis(200));
    let outcome = place.run(&agent, &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert_eq!(code, "agent-stalled");
    assert!(reason.contains("200ms"), "{reason}");
    let mut agent = place.shell("for i in 1 2 3 4 5 6 7 8 9 10; do echo $i >&2; sleep 0.1; done");
    agent.idle_timeout = Some(Duration::from_millis(800));
    assert_eq!(place.run(&agent, &place.assignment()).await.ending, Ending::Completed);
}

#[tokio::test]
async fn an_endless_printer_is_timed_out_all_the_same() {
    let place = Place::with(flowdrive_engine::delegate::DelegatorOptions { output_cap: u64::MAX, ..options() });
    // The log is of no interest here, and would be large.
    std::fs::write(place.folder().logs, "in the way").unwrap();
    let outcome = place.run(&place.shell("trap '' TERM; yes endless"), &with_timeout(&place, 300)).await;
    assert_eq!(failure(&outcome).0, "agent-timeout");
}

#[tokio::test]
async fn stragglers_of_a_clean_exit_are_ended_and_told() {
    let place = Place::new();
    let outcome = place.run(&place.shell(&format!("{}exit 0", stubborn(&place))), &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert!(outcome.leaked);
    let outcome = place.run(&place.shell("echo nothing left"), &place.assignment()).await;
    assert!(!outcome.leaked);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_does_not_hold_up_the_end() {
    let place = Place::new();
    let holder = place.script("holder.sh", "sleep 1000");
    for start in ["", "setsid "] {
        let agent = place.shell(&format!("{start}sh {} & echo said; exit 0", holder.display()));
        let outcome = place.run(&agent, &place.assignment()).await;
        assert_eq!(outcome.ending, Ending::Completed);
        assert!(outcome.leaked);
        assert_eq!(place.log("stdout.log").unwrap(), b"said\n");
    }
}

#[tokio::test]
async fn a_wiped_environment_in_the_same_session_is_found() {
    let place = Place::new();
    let deaf = place.script("deaf.sh", "trap '' TERM\nwhile :; do sleep 1000; done");
    let agent = place.shell(&format!("env -i /bin/sh {} >/dev/null 2>&1 & sleep 0.1; exit 0", deaf.display()));
    let outcome = place.run(&agent, &place.assignment()).await;
    assert!(outcome.leaked);
}

#[tokio::test]
async fn what_left_the_session_and_wiped_its_environment_is_known_by_its_parent_at_the_time_limit() {
    let place = Place::new();
    let known = place.folder().dir.join("pid");
    // Its process is the agent's child, in a session of its own, with nothing of the agent's environment.
    let script =
        format!("env -i setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > {}; sleep 1000", known.display());
    let outcome = place.run(&place.shell(&script), &with_timeout(&place, 500)).await;
    assert_eq!(failure(&outcome).0, "agent-timeout");
    let pid = std::fs::read_to_string(known).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}

#[tokio::test]
async fn a_stop_is_reported_when_everything_is_gone() {
    let place = Place::new();
    let agent = place.shell(&format!("trap '' TERM; {}while :; do sleep 1000; done", stubborn(&place)));
    let stop = CancellationToken::new();
    let assignment = place.assignment();
    let running = place.run_until(&agent, &assignment, &stop);
    let stopping = async {
        place.wait_for("up").await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(running, stopping);
    assert_eq!(outcome.ending, Ending::Interrupted);
    // Already stopped: nothing is started.
    let before = place.processes().len();
    let outcome = place.run_until(&agent, &place.assignment(), &stop).await;
    assert_eq!(outcome.ending, Ending::Interrupted);
    assert_eq!(place.processes().len(), before);
}

#[tokio::test]
async fn a_dropped_future_ends_the_tree() {
    let place = Place::new();
    let agent = place.shell(&format!("{}exec sleep 1000", stubborn(&place)));
    let assignment = place.assignment();
    let stop = CancellationToken::new();
    let notices = Arc::clone(&place.notices);
    let notice = move |told: Notice| notices.lock().unwrap().push(told);
    {
        let delegation = place.delegator.delegate(&agent, &assignment, &notice, &stop);
        tokio::select! {
            outcome = delegation => panic!("ended by itself: {outcome:?}"),
            _ = place.wait_for("up") => {}
        }
    }
    assert!(!stop.is_cancelled(), "the caller's own token is not ours to cancel");
    place.delegator.shutdown(SAFETY).await;
    assert_eq!(place.delegator.in_flight(), 0);
    place.assert_nothing_left();
}

#[tokio::test]
async fn a_shutdown_ends_all_and_hurries_those_that_do_not_heed_it() {
    let place = Place::with(flowdrive_engine::delegate::DelegatorOptions { stop_grace: SAFETY, ..options() });
    let agent = place.shell("trap '' TERM; echo up >\"$(dirname \"$0\")/up\"; while :; do sleep 1000; done");
    let assignment = place.assignment();
    let stop = CancellationToken::new();
    let running = place.run_until(&agent, &assignment, &stop);
    let stopping = async {
        place.wait_for("up").await;
        place.delegator.shutdown(Duration::from_millis(900)).await;
    };
    let (outcome, ()) = tokio::join!(running, stopping);
    assert_eq!(outcome.ending, Ending::Interrupted);
    assert_eq!(place.delegator.in_flight(), 0);
}

#[test]
fn a_runtime_that_is_torn_down_leaves_nothing() {
    let place = Place::new();
    let agent =
        place.shell("trap '' TERM; sleep 1000 & echo up >\"$(dirname \"$0\")/up\"; while :; do sleep 1000; done");
    let assignment = place.assignment();
    let marker = format!("FLOWDRIVE_DELEGATION={}\0", assignment.marker);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let delegator = place.delegator.clone();
    let notices = Arc::clone(&place.notices);
    runtime.spawn(async move {
        let notice = move |told: Notice| notices.lock().unwrap().push(told);
        delegator.delegate(&agent, &assignment, &notice, &CancellationToken::new()).await;
    });
    runtime.block_on(place.wait_for("up"));
    runtime.shutdown_timeout(SAFETY);
    // The signal was sent; the kernel takes it from there. Zombies of ours count as gone.
    let gone = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        !alive().iter().any(|(_, environ, _)| environ.contains(&marker))
    });
    assert!(gone);
}

#[tokio::test]
async fn an_orphan_is_ended_and_a_stranger_with_its_number_is_not() {
    let place = Place::new();
    // What a dead server leaves: a group nobody supervises, some of it in a new session.
    let deaf = place.script("deaf.sh", "trap '' TERM\nwhile :; do sleep 1000; done");
    let mut leader = Command::new("/bin/sh");
    leader.arg("-c").arg(format!("setsid sh {0} & sh {0} & exec sh {0}", deaf.display()));
    leader
        .env("FLOWDRIVE_DELEGATION", "orphan-test-1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut leader, 0);
    let mut leader = leader.spawn().unwrap();
    let pid = i32::try_from(leader.id()).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start_ticks = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned();
    let identity = flowdrive_engine::model::outcome::ProcessIdentity {
        group: pid,
        start_ticks,
        boot_id,
        marker: "orphan-test-1".to_owned(),
    };
    for wrong in [
        flowdrive_engine::model::outcome::ProcessIdentity { boot_id: "another".into(), ..identity.clone() },
        flowdrive_engine::model::outcome::ProcessIdentity { start_ticks: start_ticks + 100_000, ..identity.clone() },
        flowdrive_engine::model::outcome::ProcessIdentity { marker: "another".into(), ..identity.clone() },
        flowdrive_engine::model::outcome::ProcessIdentity { marker: String::new(), ..identity.clone() },
        flowdrive_engine::model::outcome::ProcessIdentity { start_ticks: 0, ..identity.clone() },
    ] {
        assert!(!place.delegator.end_orphan(&wrong).await, "{wrong:?}");
        assert_eq!(leader.try_wait().unwrap(), None, "{wrong:?}");
    }
    // As another server would: this one never started it.
    let other = Delegator::new(options()).unwrap();
    assert!(other.end_orphan(&identity).await);
    leader.wait().unwrap();
    place.assert_nothing_left();
    assert!(!other.end_orphan(&identity).await, "there is nothing any more");
}

#[tokio::test]
async fn a_delegation_inside_a_delegation_is_found_from_outside() {
    let mut inner = options();
    inner.parent_env.insert("FLOWDRIVE_DELEGATION".to_owned(), "outer-7".to_owned());
    let place = Place::with(inner);
    place.run(&place.shell("env"), &place.assignment()).await;
    assert!(place.processes()[0].marker.starts_with("outer-7/"));
}

/// Not a test by itself: what `a_killed_servers_agents_die_with_it` runs as a server to kill.
#[tokio::test]
async fn as_a_server() {
    let Ok(dir) = std::env::var("FLOWDRIVE_TEST_SERVER") else { return };
    let place = Place::new();
    let straggler = std::path::Path::new(&dir).join("straggler.sh");
    std::fs::write(&straggler, "trap '' TERM\nwhile :; do sleep 1000; done\n").unwrap();
    let agent = place.shell(&format!(
        "trap '' TERM; setsid sh {0} >/dev/null 2>&1 </dev/null & sh {0} & echo up >{dir}/up; while :; do sleep 1000; done",
        straggler.display()
    ));
    let notice = move |told: Notice| {
        if let Notice::ProcessStarted(identity) = told {
            std::fs::write(format!("{dir}/identity"), serde_json::to_string(&identity).unwrap() + "\n").unwrap();
        }
    };
    place.delegator.delegate(&agent, &place.assignment(), &notice, &CancellationToken::new()).await;
}

#[tokio::test]
async fn a_killed_servers_agents_die_with_it_and_the_rest_is_found_by_the_next() {
    let place = Place::new();
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_server"])
        .env("FLOWDRIVE_TEST_SERVER", place.dir.path())
        .env("TMPDIR", place.dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    place.wait_for("up").await;
    let identity: flowdrive_engine::model::outcome::ProcessIdentity =
        serde_json::from_str(&place.wait_for("identity").await).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let leader = |alive: Vec<(i32, String, String)>| alive.iter().any(|(pid, _, _)| *pid == identity.group);
    tokio::time::timeout(SAFETY, async {
        while leader(alive()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the leader outlives its server");
    assert!(place.delegator.end_orphan(&identity).await, "its children were left");
    place.assert_nothing_left();
}
