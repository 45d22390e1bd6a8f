//! Endpoints over TLS, against a real server on this machine: what is refused, what is trusted, and HTTP/2 where it is offered.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up may panic")]

mod delegate_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use delegate_support::{Place, agent, failure, transient};
use flowdrive_engine::model::agent::{Agent, Target};
use flowdrive_engine::model::outcome::Ending;
use http::{Request, Response, Version};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The authority that signed the server's certificate; no system trusts it.
const AUTHORITY: &str = include_str!("certificates/ca.pem");

const ANSWER: &str = r#"{"exitCode": 0, "stdout": "{\"result\": \"over TLS\"}"}"#;

/// A server with the made-up certificate for `localhost` and `127.0.0.1`.
struct TlsServer {
    port: u16,
    /// The version of each request that was understood.
    spoken: Arc<Mutex<Vec<Version>>>,
}

impl TlsServer {
    /// `offered`: what it says it speaks, in its order of preference.
    async fn start(address: &str, offered: &[&str]) -> Self {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(include_bytes!("certificates/server.pem")).collect();
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/server.key")).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.unwrap(), key)
            .unwrap();
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let spoken: Arc<Mutex<Vec<Version>>> = Arc::default();
        let log = Arc::clone(&spoken);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), Arc::clone(&log)));
            }
        });
        Self { port, spoken }
    }

    fn spoken(&self) -> Vec<Version> {
        self.spoken.lock().unwrap().clone()
    }
}

/// None when the other side did not like the certificate, or went away.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, log: Arc<Mutex<Vec<Version>>>) -> Option<()> {
    let stream = acceptor.accept(stream).await.ok()?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let mut connection = h2::server::handshake(stream).await.ok()?;
        while let Some(Ok((request, respond))) = connection.accept().await {
            // The connection has to be looked after while the request is read.
            tokio::spawn(answer_http2(request, respond, Arc::clone(&log)));
        }
        Some(())
    } else {
        answer_http1(stream, log).await
    }
}

async fn answer_http2(
    request: Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    log: Arc<Mutex<Vec<Version>>>,
) -> Option<()> {
    log.lock().unwrap().push(request.version());
    let mut body = request.into_body();
    while let Some(chunk) = body.data().await {
        let len = chunk.ok()?.len();
        body.flow_control().release_capacity(len).ok()?;
    }
    let head = Response::builder().header("content-type", "application/json").body(()).unwrap();
    respond.send_response(head, false).ok()?.send_data(Bytes::from_static(ANSWER.as_bytes()), true).ok()
}

async fn answer_http1(mut stream: impl AsyncRead + AsyncWrite + Unpin, log: Arc<Mutex<Vec<Version>>>) -> Option<()> {
    let mut bytes = Vec::new();
    // Every delegation ends with this: the braces of the body and of nothing in the head.
    while !bytes.ends_with(b"}") {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    assert!(bytes.starts_with(b"POST /delegate HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&bytes));
    log.lock().unwrap().push(Version::HTTP_11);
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", ANSWER.len());
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(ANSWER.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// `ca`: what the user's configuration names in `caFile`.
fn endpoint(host: &str, server: &TlsServer, ca: Option<&str>) -> Agent {
    let url = format!("https://{host}:{}/delegate", server.port);
    agent(Target::Endpoint { url, headers: BTreeMap::new(), ca: ca.map(str::to_owned) })
}

#[tokio::test]
async fn a_certificate_nobody_vouches_for_is_refused_with_what_to_do() {
    let server = TlsServer::start("127.0.0.1", &["h2", "http/1.1"]).await;
    let place = Place::new();
    let outcome = place.run(&endpoint("localhost", &server, None), &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert_eq!(code, "endpoint-error");
    for part in ["could not connect to https://localhost:", "certificate", "caFile", "SSL_CERT_FILE"] {
        assert!(reason.contains(part), "{part:?} in {reason}");
    }
    assert_eq!(transient(&outcome), None, "waiting does not make it better");
    assert_eq!(server.spoken(), [], "nothing was said to it");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let server = TlsServer::start("127.0.0.2", &["h2"]).await;
    let place = Place::new();
    let outcome = place.run(&endpoint("127.0.0.2", &server, Some(AUTHORITY)), &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert!(code == "endpoint-error" && reason.contains("certificate"), "{code}: {reason}");
    assert_eq!(server.spoken(), [], "nothing was said to it");
}

#[tokio::test]
async fn a_certificate_of_the_users_own_authority_is_trusted_and_http_2_is_spoken_where_it_is_offered() {
    for (offered, expected) in
        [(&["h2", "http/1.1"][..], Version::HTTP_2), (&["http/1.1"][..], Version::HTTP_11), (&[][..], Version::HTTP_11)]
    {
        let server = TlsServer::start("127.0.0.1", offered).await;
        let place = Place::new();
        let agent = endpoint("localhost", &server, Some(AUTHORITY));
        for _ in 0..2 {
            let outcome = place.run(&agent, &place.assignment()).await;
            assert_eq!(outcome.ending, Ending::Completed, "{offered:?}");
        }
        assert_eq!(place.result().as_deref(), Some("over TLS\n"));
        assert_eq!(server.spoken(), [expected, expected], "{offered:?}");
    }
}

/// Certificates are loaded once for a process, so this one looks at it from a process of its own: itself.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_usual_variable_names_further_authorities() {
    const INSIDE: &str = "FD_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/ca.pem");
        let status = tokio::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_usual_variable_names_further_authorities", "--nocapture"])
            .envs([("SSL_CERT_FILE", file), (INSIDE, "1")])
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .status();
        assert!(status.await.unwrap().success());
        return;
    }
    let server = TlsServer::start("127.0.0.1", &["h2"]).await;
    let place = Place::new();
    let outcome = place.run(&endpoint("localhost", &server, None), &place.assignment()).await;
    assert_eq!(outcome.ending, Ending::Completed);
    assert_eq!(server.spoken(), [Version::HTTP_2]);
}

#[tokio::test]
async fn a_url_of_the_wrong_scheme_is_told_as_one() {
    let server = TlsServer::start("127.0.0.1", &["h2", "http/1.1"]).await;
    let place = Place::new();
    let plainly = agent(Target::Endpoint {
        url: format!("http://localhost:{}/delegate", server.port),
        headers: BTreeMap::new(),
        ca: None,
    });
    let outcome = place.run(&plainly, &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert!(code == "endpoint-error" && reason.contains("begin with https://"), "{code}: {reason}");
    assert_eq!(transient(&outcome), None, "waiting does not make it better");
    assert_eq!(server.spoken(), [], "nothing was said to it");

    // A server that speaks HTTP and no TLS.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 64];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut bytes).await;
            let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    });
    let secured = agent(Target::Endpoint {
        url: format!("https://localhost:{port}/delegate"),
        headers: BTreeMap::new(),
        ca: Some(AUTHORITY.to_owned()),
    });
    let outcome = place.run(&secured, &place.assignment()).await;
    let (code, reason) = failure(&outcome);
    assert!(code == "endpoint-error" && reason.contains("begin with http://"), "{code}: {reason}");
    assert_eq!(transient(&outcome), None);
    answering.abort();
}
