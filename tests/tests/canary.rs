//! No secret of the server's environment is written down or sent: not when agents print it everywhere they can, and not
//! with the server's own log at its most talkative.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flowdrive_protocol::config::{AgentConfig, EnvPolicy, Preset};
use flowdrive_protocol::run::RunStatus;
use flowdrive_tests::endpoint::{EndpointServer, Response};
use flowdrive_tests::workspace::CITE;
use flowdrive_tests::{Framing, Server, TestWorkspace, config, phase, task, workflow};
use serde_json::{Value, json};

/// In every secret here, and in nothing else.
const CANARY: &str = "canary-made-up";

/// Made-up secrets: of providers, of others, passed and not passed, never passed, in a URL, with quotes, in two lines.
const SECRETS: [(&str, &str); 11] = [
    ("OPENAI_API_KEY", "sk-canary-made-up-openai-0001"),
    ("ANTHROPIC_AUTH_TOKEN", "canary-made-up-anthropic \"quoted\""),
    ("AWS_SECRET_ACCESS_KEY", "canary-made-up/aws+0003"),
    ("CW_AGENT_ATTEST_PRIVKEY", "-----BEGIN MADE UP-----\ncanary-made-up-attest\n-----END MADE UP-----"),
    ("CW_RELEASE_VERDICT_PRIVKEY", "canary-made-up-verdict"),
    ("GH_TOKEN", "canary-made-up-gh"),
    ("DATABASE_PASSWORD", "canary-made-up-database"),
    ("DATABASE_URL", "postgres://someone:canary-made-up-in-url@127.0.0.1/db"),
    ("RUNNER_AUTHORIZATION", "Bearer canary-made-up-runner"),
    ("RUNNER_BADGE", "canary-made-up-badge"),
    ("PLAIN_SETTING_4711", "canary-made-up-unlikely-name"),
];

/// Prints all it has to both outputs, as text, as JSON and in two writes; quotes it in its result.
const TALKER: &str = r#"
env; env >&2
printf 'half sk-canary-made-'; sleep 0.1; printf '%s\n' "${OPENAI_API_KEY#sk-canary-made-}"
echo "$CW_AGENT_ATTEST_PRIVKEY" | sed 's/^/  /'
for secret in "$OPENAI_API_KEY" "$AWS_SECRET_ACCESS_KEY" "$DATABASE_PASSWORD" "$ANTHROPIC_AUTH_TOKEN"; do
  echo "text $secret"; echo "error $secret" >&2
done
echo "$OPENAI_API_KEY" >"$SEEN"
cat >"$2" <<END
# The key is $OPENAI_API_KEY and the password $DATABASE_PASSWORD
$ANTHROPIC_AUTH_TOKEN
$CW_AGENT_ATTEST_PRIVKEY
$DATABASE_URL
\`\`\`cw:result
{"summary": "it is $OPENAI_API_KEY", "findings": [{"id": "f", "summary": "$AWS_SECRET_ACCESS_KEY", "classification": "real",
"severity": "P3", "evidence": ["CITE", "ticket:$DATABASE_PASSWORD"]}], "evidence": ["CITE"]}
\`\`\`
END
echo "{\"model\": \"$OPENAI_API_KEY\", \"usage\": {\"input_tokens\": 1, \"note\": \"$DATABASE_PASSWORD\"}}"
"#;

/// Prints the events of a known program, with secrets in what it is doing, its model and its final message.
const STREAMER: &str = r#"
[ "$1" = --version ] && { echo "9.9 $OPENAI_API_KEY"; exit 0; }
cat >/dev/null
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"made-up\",\"model\":\"m-$OPENAI_API_KEY\"}"
echo "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"using $OPENAI_API_KEY\"}]},\"session_id\":\"made-up\"}"
sleep 0.4
echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"made-up\",\"result\":\"$OPENAI_API_KEY at CITE\"}"
"#;

fn script(ws: &TestWorkspace, name: &str, text: &str) -> String {
    let path = ws.beside(name);
    let text = text.replace("CITE", CITE).replace("$SEEN", &ws.beside("seen"));
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn passing(command: &[&str]) -> AgentConfig {
    let pass = ["DATABASE_PASSWORD", "DATABASE_URL"].map(str::to_owned).into();
    AgentConfig {
        command: Some(command.iter().map(|part| (*part).to_owned()).collect()),
        env: Some(EnvPolicy { pass, ..EnvPolicy::default() }),
        ..AgentConfig::default()
    }
}

fn secret(name: &str) -> &'static str {
    SECRETS.iter().find(|(known, _)| *known == name).unwrap().1
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() { files(&entry.path(), found) } else { found.push(entry.path()) }
    }
}

/// Where in the bytes a secret is, with what stands around it.
fn leaks(place: &str, bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.match_indices(CANARY)
        .map(|(at, _)| {
            let around: String = text[..at].chars().rev().take(120).collect::<Vec<_>>().into_iter().rev().collect();
            format!("{place}: {around}>>>{}", text[at..].chars().take(60).collect::<String>())
        })
        .collect()
}

#[tokio::test]
async fn a_secret_of_the_environment_is_in_no_file_of_the_run_no_log_and_no_byte_of_the_protocol() {
    let ws = TestWorkspace::new();
    let endpoint = EndpointServer::start(|request| async move {
        let sent = request.headers.iter().find(|(name, _)| name == "authorization").map_or("", |(_, value)| value);
        let bare = sent.trim_start_matches("Bearer ");
        let badge = request.headers.iter().find(|(name, _)| name == "x-badge").map_or("", |(_, value)| value);
        let said = format!("I was sent {sent}, that is {bare}, {badge}, and {}", secret("OPENAI_API_KEY"));
        match request.task().as_str() {
            "map:good" => {
                let text = format!("# {said}\n\nSee {CITE}.\n");
                Response::json(
                    &json!({ "exitCode": 0, "stdout": json!({ "result": text, "model": said }).to_string() }),
                )
            }
            "map:exit" => Response::json(&json!({ "exitCode": 4, "stdout": said })),
            "map:said" => Response::json(&json!({ "error": said })),
            "map:page" => Response::new(200, format!("<html>{said}")),
            "map:moved" => {
                Response::new(307, said).header("location", &format!("http://127.0.0.1:9/x?key={}", secret("GH_TOKEN")))
            }
            _ => Response::new(500, said),
        }
    })
    .await;
    let talker = script(&ws, "talker.sh", TALKER);
    let failing =
        script(&ws, "failing.sh", "echo \"fatal: $OPENAI_API_KEY $DATABASE_PASSWORD was refused\" >&2; exit 3");
    let claude = script(&ws, "claude", STREAMER);
    let mut remote =
        config::endpoint(&format!("{}?key={}&other=canary-made-up-query", endpoint.url(), secret("OPENAI_API_KEY")));
    // The second has neither a name nor a look that says it is secret; that it is a header's does.
    remote.headers = [("authorization", "RUNNER_AUTHORIZATION"), ("x-badge", "RUNNER_BADGE")]
        .map(|(header, variable)| (header.to_owned(), variable.to_owned()))
        .into();
    let in_argv = format!("--note={}", secret("AWS_SECRET_ACCESS_KEY"));
    let argv = ["--api-key", "canary-made-up-argv", "--token=canary-made-up-inline", &in_argv];
    let with_argv: Vec<&str> = [talker.as_str(), "{{input}}", "{{result}}"].into_iter().chain(argv).collect();
    let failing_argv: Vec<&str> = [failing.as_str()].into_iter().chain(argv).collect();
    ws.configure(&config::config([
        ("talker", passing(&[&talker, "{{input}}", "{{result}}"])),
        ("argv", passing(&with_argv)),
        ("failing", passing(&failing_argv)),
        ("streamer", AgentConfig { preset: Some(Preset::Claude), ..AgentConfig::default() }),
        ("remote", remote),
        ("missing", passing(&[&format!("/nowhere/{}", secret("OPENAI_API_KEY"))])),
    ]));
    let mut server = Server::builder(&ws, Framing::Lsp).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
    for (name, value) in SECRETS {
        server = server.env(name, value);
    }
    let folder = Path::new(&claude).parent().unwrap().to_str().unwrap();
    let server = server.env("PATH", &format!("{folder}:/usr/bin:/bin")).without_handshake().start().await;
    // A client that shows diagnostics, with all their places.
    let capabilities = json!({
        "window": { "workDoneProgress": true },
        "textDocument": { "publishDiagnostics": { "relatedInformation": true } },
    });
    let folders = json!([{ "uri": format!("file://{}", ws.text()), "name": "workspace" }]);
    let opening = json!({ "processId": null, "capabilities": capabilities, "workspaceFolders": folders });
    let _: Value = server.ok("initialize", opening).await;
    server.notify("initialized", json!({})).await;
    let remote = ["good", "exit", "said", "page", "moved", "refused"].map(|name| (name, "remote"));
    let programs = ["talker", "argv", "failing", "streamer", "missing"].map(|name| (name, name));
    let tasks = programs.into_iter().chain(remote).map(|(name, agent)| task(&format!("map:{name}")).agent(agent));
    let document = workflow(4, [phase("map", tasks)]);
    let _: Value = server.ok("preview", server.here(json!({ "workflow": { "inline": document } }))).await;
    // A second attempt is told why the first was refused.
    let result = server.drive(&document, json!({ "maxAttempts": 2 })).await;
    assert_eq!(
        (result.status, result.completed_workers, result.parked_workers),
        (RunStatus::Blocked, 4, 6),
        "{result:#?}"
    );
    assert!(result.reason.as_ref().is_some_and(|reason| reason.contains("/nowhere/<redacted>")), "{result:#?}");
    for method in ["showRun", "verifyRun", "listFeedback"] {
        let _: Value = server.ok(method, server.here(json!({ "runId": result.run_id }))).await;
    }
    for method in ["listRuns", "doctor"] {
        let _: Value = server.ok(method, server.here(json!({}))).await;
    }
    let messages = server.finish().await;

    // The agents had them, and what they said is kept but for the secrets.
    assert_eq!(fs::read_to_string(ws.beside("seen")).unwrap().trim(), secret("OPENAI_API_KEY"));
    let mut found = Vec::new();
    files(&ws.path().join(".cw"), &mut found);
    let read: Vec<(String, Vec<u8>)> =
        found.iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect();
    for name in ["stdout.log", "stderr.log", "result.md", "report.md", "report.html", "journal.jsonl", "state.json"] {
        let redacted = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("redacted");
        assert!(read.iter().any(|(path, bytes)| path.ends_with(name) && redacted(bytes)), "no {name} was redacted");
    }
    // What was looked through is where it could have been: answers, events, previews and diagnostics.
    let said: Vec<String> = messages.iter().map(Value::to_string).filter(|text| text.contains("redacted")).collect();
    for part in
        ["textDocument/publishDiagnostics", "agentActivity", "taskRetrying", "taskParked", "--api-key <redacted>"]
    {
        assert!(said.iter().any(|text| text.contains(part)), "no message with {part} and something redacted");
    }
    let mut leaked: Vec<String> = read.iter().flat_map(|(path, bytes)| leaks(path, bytes)).collect();
    for entry in fs::read_dir(ws.root()).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "log") {
            let log = fs::read(&path).unwrap();
            assert!(log.windows(5).any(|word| word == b"TRACE"), "the log is not at its most talkative");
            leaked.extend(leaks("the server's log", &log));
        }
    }
    for message in &messages {
        leaked.extend(leaks("the protocol", message.to_string().as_bytes()));
    }
    assert!(leaked.is_empty(), "{} places:\n{}", leaked.len(), leaked.join("\n"));
}
