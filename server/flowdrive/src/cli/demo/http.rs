//! As much HTTP/1.1 as one known client on this machine needs: requests with a length, answers in JSON, connections kept
//! open. Not a web server.

use std::future::Future;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Longest request head accepted, in bytes.
const MAX_HEAD: u64 = 64 * 1024;

/// Longest request body accepted, in bytes.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// An answer: a status line without the version, and a body.
pub(crate) type Answer = (&'static str, Value);

/// Answers every request with `handle` until the future is dropped, and every connection with it.
pub(crate) async fn serve<H, F>(listener: TcpListener, handle: H)
where
    H: Fn(Vec<u8>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let handle = Arc::new(handle);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let handle = Arc::clone(&handle);
                    connections.spawn(async move {
                        let (read, write) = stream.into_split();
                        if let Err(error) = converse(read, write, &*handle).await {
                            tracing::debug!(%error, "a connection to the demo's agent");
                        }
                    });
                }
                // Out of file descriptors, or a connection that was gone already: others may still come.
                Err(error) => {
                    tracing::warn!(%error, "the demo's agent cannot accept a connection");
                    tokio::task::yield_now().await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse<H, F>(read: impl AsyncRead + Unpin, mut write: impl AsyncWrite + Unpin, handle: &H) -> io::Result<()>
where
    H: Fn(Vec<u8>) -> F,
    F: Future<Output = Answer>,
{
    let mut read = BufReader::new(read);
    loop {
        let head = match read_head(&mut read).await? {
            Some(head) => head,
            None => return Ok(()),
        };
        let (answer, stays) = match length(&head) {
            Ok(length) => {
                let mut body = vec![0; length];
                read.read_exact(&mut body).await?;
                (handle(body).await, true)
            }
            Err(status) => ((status, json!({"error": status})), false),
        };
        write_answer(&mut write, &answer, stays).await?;
        if !stays {
            return Ok(());
        }
    }
}

/// The request line and the headers; none when the client has closed the connection between requests.
async fn read_head(read: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<String>> {
    let mut head = String::new();
    let mut limited = read.take(MAX_HEAD);
    loop {
        let before = head.len();
        if limited.read_line(&mut head).await? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        if matches!(&head[before..], "\r\n" | "\n") {
            return Ok(Some(head));
        }
    }
}

/// The body's length, or the status that refuses the request.
fn length(head: &str) -> Result<usize, &'static str> {
    let mut lines = head.lines();
    let request = lines.next().unwrap_or("");
    if !request.ends_with(" HTTP/1.1") {
        return Err("505 HTTP Version Not Supported");
    }
    if !request.starts_with("POST ") {
        return Err("405 Method Not Allowed");
    }
    let value = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim());
    let length: usize = value.ok_or("411 Length Required")?.parse().map_err(|_| "400 Bad Request")?;
    if length > MAX_BODY { Err("413 Content Too Large") } else { Ok(length) }
}

async fn write_answer(write: &mut (impl AsyncWrite + Unpin), (status, body): &Answer, stays: bool) -> io::Result<()> {
    let body = body.to_string();
    let connection = if stays { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: {connection}\r\n\r\n",
        body.len()
    );
    write.write_all((head + &body).as_bytes()).await?;
    write.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn talk(requests: &str) -> String {
        let (client, server) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(server);
        let echo = |body: Vec<u8>| async move { ("200 OK", json!({"got": String::from_utf8_lossy(&body)})) };
        let (mut answers, mut send) = tokio::io::split(client);
        let requests = requests.to_owned();
        let mut text = String::new();
        let (served, (), read_all) = tokio::join!(
            converse(read, write, &echo),
            async {
                // A server that refused a request has hung up; the rest of the requests is not for it.
                let _ = send.write_all(requests.as_bytes()).await;
                let _ = send.shutdown().await;
            },
            async { answers.read_to_string(&mut text).await },
        );
        drop(served);
        read_all.unwrap();
        text
    }

    #[tokio::test]
    async fn two_requests_on_one_connection_are_answered_in_order() {
        let text = talk(
            "POST /d HTTP/1.1\r\nhost: x\r\nContent-LENGTH: 3\r\n\r\nonePOST /d HTTP/1.1\r\ncontent-length:  0\r\n\r\n",
        )
        .await;
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\nconnection: keep-alive\r\n\r\n\
                        {\"got\":\"one\"}HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\
                        connection: keep-alive\r\n\r\n{\"got\":\"\"}";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (head, status) in [
            ("POST / HTTP/1.1\r\ncontent-length: 12\r\n\r\n", Ok(12)),
            ("POST / HTTP/1.1\r\n\r\n", Err("411 Length Required")),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", Err("411 Length Required")),
            ("POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", Err("400 Bad Request")),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", Err("413 Content Too Large")),
            ("GET / HTTP/1.1\r\n\r\n", Err("405 Method Not Allowed")),
            ("POST / HTTP/1.0\r\ncontent-length: 1\r\n\r\n", Err("505 HTTP Version Not Supported")),
            ("\r\n", Err("505 HTTP Version Not Supported")),
        ] {
            assert_eq!(length(head), status, "{head:?}");
        }
    }

    #[tokio::test]
    async fn a_refusal_closes_the_connection() {
        let text = talk("GET / HTTP/1.1\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{text}");
        assert!(text.contains("connection: close\r\n"), "{text}");
    }
}
