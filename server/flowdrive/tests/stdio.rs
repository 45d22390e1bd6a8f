//! The real binary over its standard streams: both framings, bad input, and how it ends.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests; a failure is the message")]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{Framing, Server};

fn signal(server: &Server, signal: Signal) {
    kill(Pid::from_raw(server.child.id().try_into().unwrap()), signal).unwrap();
}

#[test]
fn either_framing_is_recognised_from_its_first_byte() {
    for framing in [Framing::Lsp, Framing::Ndjson] {
        let mut server = Server::start(framing);
        let answer = match framing {
            Framing::Lsp => server.introduce()["result"]["serverInfo"].clone(),
            Framing::Ndjson => server.ask(json!("a"), "serverInfo", Value::Null)["result"].clone(),
        };
        assert_eq!((&answer["name"], &answer["version"]), (&json!("flowdrive"), &json!(env!("CARGO_PKG_VERSION"))));
    }
}

#[test]
fn a_forced_framing_is_used_whatever_comes() {
    let mut server = Server::start_with(Framing::Lsp, &["--framing", "lsp"], &[]);
    server.raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"serverInfo\"}\n");
    assert_eq!(server.answer(Value::Null)["error"]["code"], -32700);
    assert!(server.introduce()["result"].is_object());
}

#[test]
fn the_end_of_input_ends_it_though_nobody_reads_its_answers() {
    // More than the server takes in while its answers wait.
    let request = json!({"jsonrpc": "2.0", "id": "x".repeat(1000), "method": "serverInfo"}).to_string();
    let mut client = Command::new("yes").arg(request).stdout(Stdio::piped()).spawn().unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_flowdrive"))
        .args(["serve", "--stdio"])
        .env("XDG_CONFIG_HOME", home.path())
        .stdin(client.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Nothing tells from outside when everything is full; if it is not yet, that is no reason to stay either.
    std::thread::sleep(Duration::from_secs(1));
    assert!(server.try_wait().unwrap().is_none());
    client.kill().unwrap();
    client.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            server.kill().unwrap();
            panic!("it stays for ever");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn shutdown_and_exit_end_it_with_the_input_still_open() {
    let mut server = Server::introduced();
    assert_eq!(server.ask(json!(1), "shutdown", Value::Null)["result"], Value::Null);
    server.notify("exit", Value::Null);
    let input = server.input.take();
    let (status, said) = server.ended();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    drop(input);
}

#[test]
fn exit_alone_and_the_end_of_input_are_told_apart_from_a_clean_end() {
    let mut server = Server::introduced();
    server.notify("exit", Value::Null);
    assert_eq!(server.ended().0.code(), Some(1));

    let mut server = Server::introduced();
    server.input = None;
    assert_eq!(server.ended().0.code(), Some(1));

    let mut server = Server::introduced();
    server.ask(json!(1), "shutdown", Value::Null);
    server.input = None;
    assert_eq!(server.ended().0.code(), Some(0));

    let mut server = Server::start(Framing::Ndjson);
    server.input = None;
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn a_script_gets_its_answer_though_it_closes_its_end_at_once() {
    let mut server = Server::start(Framing::Ndjson);
    server.raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"serverInfo\"}");
    server.input = None;
    assert_eq!(server.answer(json!(1))["result"]["protocolVersion"], 1);
    assert_eq!(server.next(), None);
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn bad_input_costs_one_answer() {
    let mut server = Server::introduced();
    server.raw(b"Content-Length: 3\r\n\r\n{]}content-length: nope\r\n\r\nContent-Length: 4\r\n\r\nnull");
    for code in [-32700, -32700, -32600] {
        assert_eq!(server.answer(Value::Null)["error"]["code"], code);
    }
    let answer = server.ask(json!(1), "drive", json!({"maxAttempts": 0}));
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["field"]), (&json!(-32602), &json!("maxAttempts")));
    assert_eq!(server.ask(json!(2), "serverInfo", json!({}))["result"]["name"], "flowdrive");
}

#[test]
fn large_messages_and_torn_ones_arrive_whole() {
    let mut server = Server::start(Framing::Ndjson);
    let padding = "\u{e9}".repeat(2_000_000);
    let answer = server.ask(json!("big"), "serverInfo", json!({"padding": padding}));
    assert_eq!(answer["result"]["name"], "flowdrive");
    // An answer larger than any pipe, too: the id comes back.
    let answer = server.ask(json!(padding), "serverInfo", json!({}));
    assert_eq!(answer["result"]["name"], "flowdrive");
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\xa9\",\"method\":\"serverInfo\"}\n" {
        server.raw(&[*byte]);
    }
    assert_eq!(server.answer(json!("\u{e9}"))["result"]["name"], "flowdrive");
}

#[test]
fn standard_output_carries_frames_only_however_much_is_logged() {
    for framing in [Framing::Lsp, Framing::Ndjson] {
        let mut server = Server::start_with(framing, &[], &[("RUST_LOG", "trace"), ("RUST_BACKTRACE", "1")]);
        if framing == Framing::Lsp {
            server.introduce();
        }
        for id in 1..50 {
            server.ask(json!(id), "serverInfo", json!({}));
        }
        server.raw(b"Content-Length: 2\r\n\r\n{]\n");
        server.answer(Value::Null);
        server.ask(json!(100), "no such method", json!({}));
        server.ask(json!(101), "drive", json!({"workspace": "/nowhere", "runId": "r"}));
        server.input = None;
        // The reader behind `next` fails on anything that is not a frame.
        while server.next().is_some() {}
        let (_, said) = server.ended();
        assert!(said.contains("TRACE"), "or the test shows nothing: {said}");
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_hold_it_up() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flowdrive"))
        .args(["serve", "--framing", "ndjson"])
        .env("RUST_LOG", "trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Held, and never read.
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        for id in 0..2000 {
            let padding = "x".repeat(1000);
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "serverInfo", "params": {"padding": padding}});
            writeln!(input, "{line}").unwrap();
        }
    });
    let mut answers = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut answers).unwrap();
    writer.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let answered = |line: &str| line.contains("\"result\"") || line.contains("-32040");
    assert_eq!(answers.lines().filter(|line| answered(line)).count(), 2000);
}

#[test]
fn signals_end_it_with_their_code() {
    for (number, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut server = Server::introduced();
        server.ask(json!(1), "serverInfo", json!({}));
        signal(&server, number);
        assert_eq!(server.ended().0.code(), Some(code));
    }
}

#[test]
fn the_end_of_the_clients_process_ends_it() {
    let mut client = Command::new("sleep").arg("600").spawn().unwrap();
    let mut server = Server::start(Framing::Lsp);
    server.ask(json!(1), "initialize", json!({"processId": client.id(), "capabilities": {}}));
    client.kill().unwrap();
    client.wait().unwrap();
    let input = server.input.take();
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("not alive"), "{said}");
    drop(input);
}

#[test]
fn a_closed_output_ends_it() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flowdrive"))
        .args(["serve", "--framing", "ndjson"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    use std::io::Write;
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"serverInfo\"}\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(input);
}

#[test]
fn a_configuration_that_is_no_good_is_told_to_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "defaultAgent = \"mine\"\n\n[agents.mine]\ntimeoutMs = \"soon\"\n").unwrap();
    let mut server = Server::start_with(Framing::Ndjson, &["--config", file.to_str().unwrap()], &[]);
    // What only reads goes on, and says so.
    let answer = server.ask(json!(1), "doctor", json!({}));
    assert_eq!(answer["result"]["ok"], json!(false), "{answer}");
    let answer = server.ask(json!(2), "drive", json!({ "workflow": { "id": "quick-survey" } }));
    let data = &answer["error"]["data"];
    assert_eq!(answer["error"]["code"], -32021);
    assert_eq!(
        (&data["file"], &data["line"], &data["field"]),
        (&json!(file), &json!(4), &json!("agents.mine.timeoutMs"))
    );
}

#[test]
fn the_committed_schemas_pass_the_check() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema");
    let done =
        Command::new(env!("CARGO_BIN_EXE_flowdrive")).args(["schema", "--check", "--out", committed]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let empty = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_flowdrive"))
        .args(["schema", "--check", "--out"])
        .arg(empty.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("cargo run -- schema --out schema"), "{said}");
}
