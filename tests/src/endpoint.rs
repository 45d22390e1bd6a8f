//! A real HTTP endpoint agent on the loopback interface: HTTP/1.1, keep-alive, one scripted behaviour a server. It
//! records every exchange, so that a test can say what was in flight together and what was asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::ledger::Span;
use crate::results::{self, Kind};
use crate::wait::now_ms;

/// A request, whole.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How many requests came before it, on all connections.
    pub number: usize,
}

impl Request {
    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The task whose marker is in the prompt.
    #[must_use]
    pub fn task(&self) -> String {
        let body = self.json();
        results::marker(body["prompt"].as_str().unwrap_or_default()).unwrap_or("?").to_owned()
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// An answer with this status and body.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// A JSON answer with status 200.
    #[must_use]
    pub fn json(body: &Value) -> Self {
        Self::new(200, body.to_string()).header("content-type", "application/json")
    }

    /// The answer of an agent that did its work well.
    #[must_use]
    pub fn good(request: &Request, cite: &str) -> Self {
        let text = results::text(Kind::Good, &request.task(), cite).unwrap_or_default();
        Self::json(&json!({ "exitCode": 0, "done": true, "stdout": text }))
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// One request and when it was in flight, as the endpoint saw it.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// From the request's last byte to the answer's first.
    pub span: Span,
}

type Handler = dyn Fn(Request) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync;

/// The endpoint. Gone when dropped.
#[derive(Debug)]
pub struct EndpointServer {
    url: String,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    accepting: JoinHandle<()>,
}

impl EndpointServer {
    /// An endpoint that answers with `handler`.
    ///
    /// # Panics
    /// When the loopback interface gives no port.
    pub async fn start<F>(handler: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let url = format!("http://{}/delegate", listener.local_addr().expect("a bound socket has an address"));
        let exchanges = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(move |request| Box::pin(handler(request)));
        let (recorded, count) = (Arc::clone(&exchanges), Arc::new(AtomicUsize::new(0)));
        let accepting = tokio::spawn(async move {
            // Connections end with this set, which ends with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&handler), Arc::clone(&recorded), Arc::clone(&count)));
            }
        });
        Self { url, exchanges, accepting }
    }

    /// Answers well after `delay`.
    pub async fn good(cite: &'static str, delay: Duration) -> Self {
        Self::start(move |request| async move {
            tokio::time::sleep(delay).await;
            Response::good(&request, cite)
        })
        .await
    }

    /// Answers nobody until `count` requests have arrived, then all of them.
    pub async fn barrier(count: usize, cite: &'static str) -> Self {
        let barrier = Arc::new(Barrier::new(count));
        Self::start(move |request| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                Response::good(&request, cite)
            }
        })
        .await
    }

    /// Gives these answers in turn, then good ones.
    pub async fn sequence(answers: Vec<Response>, cite: &'static str) -> Self {
        Self::start(move |request| {
            let answer = answers.get(request.number).cloned().unwrap_or_else(|| Response::good(&request, cite));
            async move { answer }
        })
        .await
    }

    /// Takes each request as a job: a POST answers `jobId`, and so many polls of it `done: false`, before the result.
    pub async fn jobs(polls: usize, cite: &'static str) -> Self {
        let jobs: Arc<Mutex<Vec<(Request, usize)>>> = Arc::default();
        Self::start(move |request| {
            let answer = answer_job(&mut lock(&jobs), request, polls, cite);
            async move { answer }
        })
        .await
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Every exchange that was answered, in the order of the answers.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.exchanges).clone()
    }
}

impl Drop for EndpointServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Job ids hold a space and an ampersand, so that a client that does not encode them is found out.
fn answer_job(jobs: &mut Vec<(Request, usize)>, request: Request, polls: usize, cite: &str) -> Response {
    if request.method == "POST" {
        jobs.push((request, 0));
        return Response::json(&json!({ "jobId": format!("job & {}", jobs.len() - 1), "done": false }));
    }
    let wanted = request.target.split_once("jobId=").map(|(_, id)| id.replace("%20", " ").replace('+', " "));
    let number = wanted.and_then(|id| id.replace("%26", "&").strip_prefix("job & ")?.parse::<usize>().ok());
    match number.and_then(|number| jobs.get_mut(number)) {
        Some((first, polled)) => {
            *polled += 1;
            if *polled > polls {
                Response::good(first, cite)
            } else {
                let id = format!("job & {}", number.unwrap_or_default());
                Response::json(&json!({ "jobId": id, "done": false }))
            }
        }
        None => Response::new(404, "no such job"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    stream: TcpStream,
    handler: Arc<Handler>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    count: Arc<AtomicUsize>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = read_request(&mut stream).await?;
        request.number = count.fetch_add(1, Ordering::SeqCst);
        let start = now_ms();
        let response = handler(request.clone()).await;
        lock(&exchanges).push(Exchange { request, span: Span { start, end: now_ms() } });
        let mut head = format!("HTTP/1.1 {} scripted\r\ncontent-length: {}\r\n", response.status, response.body.len());
        for (name, value) in &response.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&response.body).await.ok()?;
        stream.flush().await.ok()?;
    }
}

/// The next request; none when the other side is done, or does not speak HTTP.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request { method, target, headers, body, number: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn exchange(stream: &mut BufReader<TcpStream>, request: &str) -> (u16, String) {
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let status = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    #[tokio::test]
    async fn keeps_a_connection_and_follows_a_job_to_its_end() {
        let server = EndpointServer::jobs(1, "src/lib.rs:1").await;
        let address = server.url().strip_prefix("http://").unwrap().strip_suffix("/delegate").unwrap().to_owned();
        let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        let body = json!({ "prompt": "task-marker=a" }).to_string();
        let post = format!("POST /delegate HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let (status, answer) = exchange(&mut stream, &post).await;
        assert_eq!((status, answer.contains("job & 0")), (200, true));
        let poll = "GET /delegate?jobId=job%20%26%200 HTTP/1.1\r\n\r\n";
        assert!(exchange(&mut stream, poll).await.1.contains(r#""done":false"#));
        assert!(exchange(&mut stream, poll).await.1.contains("finding-a"));
        assert_eq!(exchange(&mut stream, "GET /delegate?jobId=other HTTP/1.1\r\n\r\n").await.0, 404);
        assert_eq!(server.exchanges().len(), 4);
    }
}
