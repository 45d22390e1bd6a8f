//! Endpoint agents, against a real server on this machine that behaves and misbehaves.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

mod delegate_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use delegate_support::{Place, SAFETY, agent, endpoint, failure, options, transient};
use flowdrive_engine::model::agent::{Agent, Target};
use flowdrive_engine::model::outcome::{Ending, HandleKind};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A request as it arrived.
#[derive(Debug, Clone)]
struct Asked {
    method: String,
    path: String,
    head: String,
    body: Vec<u8>,
}

/// What the server does with one.
enum Does {
    Answer(String),
    Raw(Vec<u8>),
    Drip(Vec<u8>),
    Endless,
    Reset,
    Nothing,
}

struct Server {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Serves until the test's runtime ends. `handle` gets the number of the request, from 0.
    async fn start(handle: impl Fn(usize, &Asked) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/delegate", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, handle) = (Arc::clone(&asked), Arc::new(handle));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, handle) = (Arc::clone(&log), Arc::clone(&handle));
                tokio::spawn(async move {
                    let _ = serve(stream, &log, &*handle).await;
                });
            }
        });
        Self { url, asked }
    }

    async fn answering(answer: serde_json::Value) -> Self {
        Self::start(move |_, _| ok(&answer)).await
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    handle: &(dyn Fn(usize, &Asked) -> Does + Send + Sync),
) -> std::io::Result<()> {
    loop {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|length| length.trim().parse().ok())
            .unwrap_or(0);
        while bytes.len() < end + length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let first = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut words = first.split(' ');
        let asked = Asked {
            method: words.next().unwrap_or_default().to_owned(),
            path: words.next().unwrap_or_default().to_owned(),
            head,
            body: bytes[end..end + length].to_vec(),
        };
        let number = {
            let mut log = log.lock().map_err(|_| std::io::ErrorKind::Other)?;
            log.push(asked.clone());
            log.len() - 1
        };
        match handle(number, &asked) {
            Does::Answer(text) => stream.write_all(text.as_bytes()).await?,
            Does::Raw(bytes) => {
                stream.write_all(&bytes).await?;
                return Ok(());
            }
            Does::Drip(bytes) => {
                for byte in bytes {
                    stream.write_all(&[byte]).await?;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            Does::Endless => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\"")
                    .await?;
                loop {
                    stream.write_all(&[b'x'; 65536]).await?;
                }
            }
            Does::Reset => {
                stream.set_zero_linger()?;
                return Ok(());
            }
            Does::Nothing => std::future::pending().await,
        }
    }
}

fn response(status: &str, headers: &str, body: &str) -> Does {
    Does::Answer(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
}

fn ok(body: &serde_json::Value) -> Does {
    response("200 OK", "content-type: application/json\r\n", &body.to_string())
}

async fn fails(
    handle: impl Fn(usize, &Asked) -> Does + Send + Sync + 'static,
) -> (String, String, Option<Option<u64>>) {
    let place = Place::new();
    let server = Server::start(handle).await;
    let outcome = place.run(&endpoint(&server.url), &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert!(place.result().is_none(), "a failure leaves no result");
    (code.to_owned(), reason.to_owned(), transient(&outcome))
}

#[tokio::test]
async fn the_request_is_as_documented_and_its_result_is_written() {
    let place = Place::new();
    let body = "日本語の結果。".repeat(20_000);
    let stdout = json!({ "model": "m-2", "usage": { "input_tokens": 9 }, "result": body }).to_string();
    let server = Server::answering(json!({ "exitCode": 0, "stdout": stdout })).await;
    let mut assignment = place.assignment();
    assignment.model = Some("asked".to_owned());
    let outcome = place.run(&endpoint(&server.url), &assignment).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!((outcome.handle, outcome.exit_code), (HandleKind::Endpoint, Some(0)));
    assert_eq!(outcome.report.model.as_deref(), Some("m-2"), "what it reports, not what was asked");
    assert_eq!(outcome.report.usage.unwrap().input_tokens, Some(9));
    assert_eq!(place.result().unwrap().trim_end(), body);
    assert!(outcome.stdout_digest.unwrap().starts_with("sha256:"));
    let [asked] = &server.asked()[..] else { panic!("asked once") };
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/delegate"));
    assert!(asked.head.contains("content-type: application/json"));
    let at = |name: &str| json!(place.folder().dir.join(name)).to_string();
    let prompt = json!(assignment.prompt).to_string();
    let expected = format!(
        r#"{{"manifest":{{"workerDir":{},"manifestPath":{},"inputPath":{},"resultPath":{},"prompt":{prompt}}},"prompt":{prompt},"model":"asked","resultPath":{},"sandboxProfileId":"readonly"}}"#,
        json!(place.folder().dir),
        at("manifest.json"),
        at("input.md"),
        at("result.md"),
        at("result.md"),
    );
    assert_eq!(String::from_utf8(asked.body.clone()).unwrap(), expected);
}

#[tokio::test]
async fn a_model_that_is_not_asked_for_is_not_sent() {
    let place = Place::new();
    let server = Server::answering(json!({ "exitCode": 0 })).await;
    place.run(&endpoint(&server.url), &place.assignment()).await;
    assert!(!String::from_utf8(server.asked()[0].body.clone()).unwrap().contains("model"));
    assert!(place.result().is_none(), "no result is none, not an empty one");
}

#[tokio::test]
async fn plain_text_is_the_result_and_an_agents_own_file_is_kept() {
    let place = Place::new();
    let server = Server::answering(json!({ "exitCode": 0, "stdout": "# Plain\n\ntext\n" })).await;
    place.run(&endpoint(&server.url), &place.assignment()).await;
    assert_eq!(place.result().as_deref(), Some("# Plain\n\ntext\n"));
    std::fs::write(place.folder().result, "its own").unwrap();
    place.run(&endpoint(&server.url), &place.assignment()).await;
    assert_eq!(place.result().as_deref(), Some("its own"));
}

#[tokio::test]
async fn an_exit_code_is_a_failure_and_writes_no_result() {
    let (code, reason, passing) = fails(|_, _| ok(&json!({ "exitCode": 7, "stdout": "# Text" }))).await;
    assert_eq!((code.as_str(), reason.as_str(), passing), ("agent-exit", "map:one: failed (exit 7)", None));
}

#[tokio::test]
async fn what_an_endpoint_says_of_its_error_is_told_and_nothing_else_of_its_body() {
    let said = |reason: &str| reason.to_owned() + ": the quota is used up";
    for error in [json!("the quota is used up\nand more"), json!({ "message": "the quota is used up", "code": 1 })] {
        let body = json!({ "error": error, "other": "not quoted" });
        let answer = body.clone();
        let (_, reason, _) = fails(move |_, _| response("401 Unauthorized", "", &answer.to_string())).await;
        assert_eq!(reason, said("agent endpoint error: runner responded 401"));
        let answer = body.clone();
        let (_, reason, passing) =
            fails(move |_, _| response("503 Service Unavailable", "", &answer.to_string())).await;
        assert_eq!(reason, said("agent endpoint error: runner responded 503"));
        assert_eq!(passing, Some(None));
        let mut answer = body;
        answer["exitCode"] = json!(3);
        let (_, reason, _) = fails(move |_, _| ok(&answer)).await;
        assert_eq!(reason, said("map:one: failed (exit 3)"));
    }
}

#[tokio::test]
async fn refusals_are_worded_one_way_and_told_from_what_may_pass() {
    for (status, code, may_pass) in [
        ("429 Too Many Requests", "endpoint-overloaded", true),
        ("502 Bad Gateway", "endpoint-overloaded", true),
        ("503 Service Unavailable", "endpoint-overloaded", true),
        ("504 Gateway Timeout", "endpoint-overloaded", true),
        ("529 Overloaded", "endpoint-overloaded", true),
        ("500 Internal Server Error", "endpoint-error", false),
        ("401 Unauthorized", "endpoint-error", false),
        ("404 Not Found", "endpoint-error", false),
    ] {
        let (got, reason, passing) = fails(move |_, _| response(status, "", "<html>")).await;
        assert_eq!(got, code, "{status}");
        assert_eq!(reason, format!("agent endpoint error: runner responded {}", &status[..3]));
        assert_eq!(passing, may_pass.then_some(None), "{status}");
    }
}

#[tokio::test]
async fn a_wait_that_is_asked_for_is_told_and_pauses_the_agent() {
    let in_an_hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
    let table = [
        ("retry-after: 7\r\n".to_owned(), "", 7_000..=7_000),
        (format!("retry-after: {in_an_hour}\r\n"), "", 3_500_000..=3_600_000),
        (String::new(), r#"{"error":{"details":[{"retryDelay":"34s"}]}}"#, 34_000..=34_000),
    ];
    for (headers, body, expected) in table {
        let place = Place::new();
        let server = Server::start(move |_, _| response("429 Too Many Requests", &headers, body)).await;
        let agent = endpoint(&server.url);
        let outcome = place.run(&agent, &place.assignment()).await;
        let wait = transient(&outcome).unwrap().unwrap();
        assert!(expected.contains(&wait), "{wait}");
        let busy = place.delegator.limits().try_acquire(&agent).unwrap_err();
        assert!(busy.until.is_some());
    }
}

#[tokio::test]
async fn answers_that_are_none_are_told_cleanly() {
    let table: [(&'static str, &str); 5] = [
        ("null", "runner answered with null, not a JSON object"),
        ("[1]", "runner answered with an array, not a JSON object"),
        ("{}", "runner did not report an exitCode"),
        ("<html><body>hello", "runner answered with something that is not JSON"),
        ("", "runner answered with something that is not JSON"),
    ];
    for (body, expected) in table {
        let (code, reason, passing) = fails(move |_, _| response("200 OK", "", body)).await;
        assert_eq!((code.as_str(), passing), ("endpoint-error", None), "{body}");
        assert!(reason.starts_with(&format!("agent endpoint error: {expected}")), "{body}: {reason}");
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_off_at_the_cap() {
    let (code, reason, _) = fails(|_, _| Does::Endless).await;
    assert_eq!(code, "output-too-large");
    assert!(reason.contains("33554432"), "{reason}");
}

#[tokio::test]
async fn redirects_do_not_lead_astray() {
    let elsewhere = Server::answering(json!({ "exitCode": 0, "stdout": "stolen" })).await;
    let there = elsewhere.url.clone();
    let to = |status: &'static str, to: String| {
        move |_: usize, _: &Asked| response(status, &format!("location: {to}\r\n"), "")
    };
    let (code, reason, _) = fails(to("307 Temporary Redirect", there.clone())).await;
    assert_eq!(code, "endpoint-error");
    assert!(reason.contains("another origin"), "{reason}");
    let (_, reason, _) = fails(to("302 Found", "/other".to_owned())).await;
    assert!(reason.contains("POST into a GET"), "{reason}");
    let (_, reason, _) = fails(to("307 Temporary Redirect", "/delegate".to_owned())).await;
    assert!(reason.contains("more than 5 redirects"), "{reason}");
    assert!(elsewhere.asked().is_empty(), "nothing was sent there");

    let place = Place::new();
    let server = Server::start(|number, asked| match number {
        0 => response("308 Permanent Redirect", "location: /moved\r\n", ""),
        _ => ok(&json!({ "exitCode": 0, "stdout": format!("{} {}", asked.method, asked.body.len()) })),
    })
    .await;
    place.run(&endpoint(&server.url), &place.assignment()).await;
    let asked = server.asked();
    assert_eq!((asked[1].path.as_str(), &asked[1].body), ("/moved", &asked[0].body));
}

#[tokio::test]
async fn a_job_is_followed_to_its_end() {
    let place = Place::new();
    let server = Server::start(|number, _| match number {
        0 => ok(&json!({ "jobId": "a b/c" })),
        1 => ok(&json!({ "jobId": "a b/c", "done": false, "exitCode": 9 })),
        2 => response("503 Service Unavailable", "", ""),
        3 => Does::Reset,
        _ => ok(&json!({ "jobId": "a b/c", "done": true, "exitCode": 0, "stdout": "done" })),
    })
    .await;
    let agent = endpoint(&format!("{}?key=1", server.url));
    let outcome = place.run(&agent, &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed, "a poll that fails in passing does not lose the job");
    assert_eq!(place.result().as_deref(), Some("done\n"));
    let asked = server.asked();
    assert_eq!(asked[0].method, "POST");
    assert!(asked[1..].iter().all(|poll| poll.method == "GET" && poll.path == "/delegate?key=1&jobId=a%20b%2Fc"));
    assert_eq!(asked.iter().filter(|asked| asked.method == "POST").count(), 1, "a delegation is posted once");
}

#[tokio::test]
async fn a_poll_that_fails_for_good_ends_the_job() {
    let (code, reason, passing) = fails(|number, _| match number {
        0 => ok(&json!({ "jobId": "j" })),
        _ => response("410 Gone", "", ""),
    })
    .await;
    assert_eq!(
        (code.as_str(), reason.as_str(), passing),
        ("endpoint-error", "agent endpoint error: poll responded 410", None)
    );
    let (code, _, passing) = fails(|number, _| match number {
        0 => ok(&json!({ "jobId": "j" })),
        _ => response("503 Service Unavailable", "", ""),
    })
    .await;
    assert_eq!((code.as_str(), passing), ("endpoint-overloaded", Some(None)));
}

#[tokio::test]
async fn a_deadline_covers_silence_dripping_and_jobs_that_never_end() {
    let table: [fn(usize, &Asked) -> Does; 3] = [
        |_, _| Does::Nothing,
        |_, _| {
            Does::Drip(b"HTTP/1.1 200 OK\r\n\r\n{".iter().copied().chain(std::iter::repeat_n(b' ', 100_000)).collect())
        },
        |_, _| ok(&json!({ "jobId": "j", "done": false })),
    ];
    for handle in table {
        let place = Place::new();
        let server = Server::start(handle).await;
        let mut assignment = place.assignment();
        assignment.timeout = Duration::from_millis(400);
        let outcome = place.run(&endpoint(&server.url), &assignment).await;
        assert_eq!(failure(&outcome), ("agent-timeout", "agent endpoint error: timed out after 400ms"));
    }
}

#[tokio::test]
async fn a_slow_answer_is_an_answer() {
    let place = Place::new();
    let body = json!({ "exitCode": 0, "stdout": "slow" }).to_string();
    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = Server::start(move |_, _| Does::Drip(text.clone().into_bytes())).await;
    assert_eq!(place.run(&endpoint(&server.url), &place.assignment()).await.ending, Ending::Completed);
}

#[tokio::test]
async fn lost_connections_may_pass() {
    let (code, reason, passing) = fails(|_, _| Does::Reset).await;
    assert_eq!((code.as_str(), passing), ("endpoint-unreachable", Some(None)), "{reason}");
    let (code, reason, passing) =
        fails(|_, _| Does::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec())).await;
    assert_eq!((code.as_str(), passing), ("endpoint-unreachable", Some(None)), "{reason}");
    // A port nobody listens on.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let place = Place::new();
    let url = format!("http://someone:made-up-pw@127.0.0.1:{port}/delegate?key=made-up-key");
    let outcome = place.run(&endpoint(&url), &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert_eq!((code, transient(&outcome)), ("endpoint-unreachable", Some(None)));
    assert!(reason.contains(&format!("http://127.0.0.1:{port}/delegate")), "{reason}");
    assert!(!format!("{outcome:?}").contains("made-up"), "{outcome:?}");
}

#[tokio::test]
async fn a_url_that_is_none_is_an_error_without_a_request() {
    let place = Place::new();
    for url in ["not a url", "ftp://127.0.0.1/x", "http://"] {
        let outcome = place.run(&endpoint(url), &place.assignment()).await;
        assert_eq!((failure(&outcome).0, transient(&outcome)), ("endpoint-error", None), "{url}");
    }
}

fn with_header(url: &str, header: &str, variable: &str) -> Agent {
    let headers = BTreeMap::from([(header.to_owned(), variable.to_owned())]);
    agent(Target::Endpoint { url: url.to_owned(), headers, ca: None })
}

#[tokio::test]
async fn headers_are_sent_and_their_values_written_down_nowhere() {
    let mut options = options();
    options.parent_env.insert("RUNNER_AUTH".to_owned(), "Bearer canary-made-up-for-tests".to_owned());
    options.parent_env.insert("CW_WORKBENCH_TOKEN".to_owned(), "canary-made-up-two".to_owned());
    let place = Place::with(options);
    let server = Server::start(|_, asked| {
        let sent = asked.head.lines().find(|line| line.starts_with("authorization")).unwrap_or("none").to_owned();
        ok(&json!({ "exitCode": 0, "stdout": format!("I was sent {}", sent.replace("bearer", "Bearer")) }))
    })
    .await;
    let outcome = place.run(&with_header(&server.url, "authorization", "RUNNER_AUTH"), &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(outcome.forwarded_env, ["RUNNER_AUTH"]);
    assert!(server.asked()[0].head.contains("authorization: bearer canary-made-up-for-tests"));
    assert_eq!(place.result().as_deref(), Some("I was sent authorization: <redacted>\n"));
    assert!(!format!("{outcome:?}").contains("canary"));
    for variable in ["NOT_SET", "CW_WORKBENCH_TOKEN"] {
        let outcome = place.run(&with_header(&server.url, "x-key", variable), &place.assignment()).await;
        assert!(failure(&outcome).1.contains(variable), "{outcome:?}");
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_stop_aborts_the_request() {
    let place = Place::new();
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let server = Server::start(move |_, _| {
        stopping.cancel();
        Does::Nothing
    })
    .await;
    let outcome = place.run_until(&endpoint(&server.url), &place.assignment(), &stop).await;
    assert_eq!(outcome.ending, Ending::Interrupted);
}

#[tokio::test]
async fn a_window_is_in_flight_at_once() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Answers only when all have asked.
    tokio::spawn(async move {
        let mut streams = Vec::new();
        for _ in 0..8 {
            streams.push(listener.accept().await.unwrap().0);
        }
        for mut stream in streams {
            let mut buffer = [0; 8192];
            let _ = stream.read(&mut buffer).await.unwrap();
            let body = r#"{"exitCode":0}"#;
            let text = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    });
    let (agent, assignment, stop) = (endpoint(&url), place.assignment(), CancellationToken::new());
    let all = futures::future::join_all((0..8).map(|_| place.delegator.delegate(&agent, &assignment, &|_| {}, &stop)));
    let outcomes = tokio::time::timeout(SAFETY, all).await.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.ending == Ending::Completed), "{outcomes:?}");
}
