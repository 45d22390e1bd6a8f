//! One request and its answer: redirects, size, status and faults, told in words without a secret in them.
//!
//! Must not: know what a job is.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io;
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::Value;

use crate::delegate::redact::redact_url;
use crate::delegate::transient::{is_transient_status, json_hint, retry_after};

/// Redirects followed within the same origin.
const MOST_REDIRECTS: usize = 5;

/// How much of a refusal's body is read for a hint.
const REFUSAL_CAP: u64 = 64 * 1024;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    kind: Kind,
    message: String,
    wait: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    TooLarge,
    Overloaded,
    Unreachable,
    Refused,
}

impl Fault {
    /// One that trying again does not help.
    pub(super) fn error(message: String) -> Self {
        Self { kind: Kind::Error, message, wait: None }
    }

    /// Whether it may pass by itself.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Overloaded | Kind::Unreachable | Kind::Refused)
    }

    /// Whether nobody listens there.
    pub(super) fn is_refused(&self) -> bool {
        self.kind == Kind::Refused
    }

    /// How long the other side asked us to wait.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// As an outcome names it.
    pub(super) fn code(&self) -> &'static str {
        match self.kind {
            Kind::Error => "endpoint-error",
            Kind::TooLarge => "output-too-large",
            Kind::Overloaded => "endpoint-overloaded",
            Kind::Unreachable | Kind::Refused => "endpoint-unreachable",
        }
    }

    /// In words.
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

/// Headers whose values come from the environment.
pub(super) fn headers(
    names: &BTreeMap<String, String>,
    value_of: &dyn Fn(&str) -> Option<String>,
) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for (header, variable) in names {
        let name: HeaderName =
            header.parse().map_err(|_| Fault::error(format!("{header:?} is not a header's name")))?;
        let value = value_of(variable).ok_or_else(|| {
            Fault::error(format!(
                "header {header} needs environment variable {variable}, which is not set or never sent"
            ))
        })?;
        let mut value = HeaderValue::try_from(value.trim())
            .map_err(|_| Fault::error(format!("environment variable {variable} does not fit into a header")))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// What is asked.
#[derive(Debug, Clone)]
pub(super) enum Call {
    /// A delegation, with this body.
    Post(Vec<u8>),
    /// How a job is doing.
    Poll,
}

impl Call {
    const fn method(&self) -> Method {
        match self {
            Self::Post(_) => Method::POST,
            Self::Poll => Method::GET,
        }
    }

    /// Who answers, as a refusal names it.
    const fn subject(&self) -> &'static str {
        match self {
            Self::Post(_) => "runner",
            Self::Poll => "poll",
        }
    }
}

/// Speaks to one endpoint.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    headers: HeaderMap,
    cap: u64,
}

impl Http {
    /// `cap`: bytes of an answer at most.
    pub(super) fn new(client: Client, url: &Url, headers: HeaderMap, cap: u64) -> Result<Self, Fault> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Fault::error(format!("its URL has scheme {:?}; http and https are known", url.scheme())));
        }
        Ok(Self { client, headers, cap })
    }

    /// Asks once; the answer is a JSON object.
    pub(super) async fn exchange(&self, call: Call, url: Url) -> Result<Value, Fault> {
        let subject = call.subject();
        let response = self.send(&call, url).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(subject, status, response).await);
        }
        let body = read_body(response, self.cap).await?;
        match serde_json::from_slice(&body) {
            Ok(answer @ Value::Object(_)) => Ok(answer),
            Ok(other) => Err(Fault::error(format!("{subject} answered with {}, not a JSON object", kind_of(&other)))),
            Err(error) => {
                let start: String = String::from_utf8_lossy(&body).chars().take(60).collect();
                Err(Fault::error(format!("{subject} answered with something that is not JSON ({error}): {start:?}")))
            }
        }
    }

    async fn send(&self, call: &Call, mut url: Url) -> Result<Response, Fault> {
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.client.request(call.method(), url.clone()).headers(self.headers.clone());
            if let Call::Post(body) = call {
                request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
            }
            let response = request.send().await.map_err(|error| lost(&error, &url))?;
            let status = response.status();
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            url = redirect(call, &url, status, location)?;
        }
        Err(Fault::error(format!("more than {MOST_REDIRECTS} redirects")))
    }

    async fn refusal(&self, subject: &str, status: StatusCode, response: Response) -> Fault {
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = header.and_then(|header| retry_after(header, SystemTime::now()));
        let body: Option<Value> =
            read_body(response, REFUSAL_CAP).await.ok().and_then(|body| serde_json::from_slice(&body).ok());
        let said = body.as_ref().and_then(said).map(|said| format!(": {said}")).unwrap_or_default();
        let message = format!("{subject} responded {}{said}", status.as_u16());
        if !is_transient_status(status.as_u16()) {
            return Fault::error(message);
        }
        Fault { kind: Kind::Overloaded, message, wait: wait.or_else(|| json_hint(body.as_ref()?)) }
    }
}

/// Where a redirect may lead: the same origin, with the request unchanged.
fn redirect(call: &Call, from: &Url, status: StatusCode, location: Option<&str>) -> Result<Url, Fault> {
    let number = status.as_u16();
    let to = location
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| Fault::error(format!("{} responded {number} without saying where to go", call.subject())))?;
    if to.origin() != from.origin() {
        let to = redact_url(to.as_str());
        return Err(Fault::error(format!(
            "{} responded {number} with a redirect to another origin, {to}; if that is meant, configure it as the endpoint",
            call.subject()
        )));
    }
    let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if matches!(call, Call::Post(_)) && !keeps_method {
        return Err(Fault::error(format!(
            "{} responded {number}, a redirect that would turn the POST into a GET",
            call.subject()
        )));
    }
    Ok(to)
}

async fn read_body(mut response: Response, cap: u64) -> Result<Vec<u8>, Fault> {
    let url = response.url().clone();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error, &url))? {
        if (body.len() + chunk.len()) as u64 > cap {
            return Err(Fault {
                kind: Kind::TooLarge,
                message: format!("the answer exceeded {cap} byte cap"),
                wait: None,
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What an answer gives as its `error`: a text, or the `message` of an object, as providers have it. One line, clipped.
pub(super) fn said(answer: &Value) -> Option<String> {
    let error = answer.get("error")?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str())?.trim();
    let line: String = text.lines().next()?.chars().take(300).collect();
    (!line.is_empty()).then_some(line)
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A connection that was not made or was lost.
fn lost(error: &reqwest::Error, url: &Url) -> Fault {
    let passing = error.is_timeout() || may_pass(error);
    let what = if error.is_connect() { "could not connect to" } else { "lost the connection to" };
    let mut message = format!("{what} {}: {}", redact_url(url.as_str()), cause(error));
    let kind = if error.is_connect() && io_cause(error).is_some_and(|kind| kind == io::ErrorKind::ConnectionRefused) {
        message.push_str("; nothing listens there: is it running?");
        Kind::Refused
    } else if message.contains("certificate") {
        message.push_str(
            "; if that is the endpoint you mean, name the certificates to trust in `caFile` of the agent, or in SSL_CERT_FILE",
        );
        Kind::Error
    } else if let Some(hint) = other_scheme(url, &message) {
        message.push_str(hint);
        Kind::Error
    } else if passing {
        Kind::Unreachable
    } else {
        Kind::Error
    };
    Fault { kind, message, wait: None }
}

/// What to say when one side speaks TLS and the other does not: the library's words for that name neither.
fn other_scheme(url: &Url, message: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match url.scheme() {
        "https" if says(&["corrupt message", "InvalidContentType", "wrong version number"]) => {
            Some("; what listens there does not speak TLS: should the URL begin with http:// instead?")
        }
        "http" if says(&["invalid HTTP version", "invalid HTTP status", "HTTP/0.9"]) => {
            Some("; what listens there does not answer in HTTP: should the URL begin with https:// instead?")
        }
        _ => None,
    }
}

/// The innermost cause, which unlike the outer ones names no URL.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn std::error::Error> = error.source();
    while let Some(inner) = cause.and_then(std::error::Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "no cause given".to_owned(), ToString::to_string)
}

/// The kind of the system's own error, where one is behind it.
fn io_cause(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&dyn std::error::Error> = error.source();
    let mut kind = None;
    while let Some(inner) = cause {
        kind = inner.downcast_ref::<io::Error>().map(io::Error::kind).or(kind);
        cause = inner.source();
    }
    kind
}

fn may_pass(error: &reqwest::Error) -> bool {
    use io::ErrorKind as Is;
    let mut cause: Option<&dyn std::error::Error> = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>()
            && matches!(
                io.kind(),
                Is::ConnectionRefused
                    | Is::ConnectionReset
                    | Is::ConnectionAborted
                    | Is::BrokenPipe
                    | Is::UnexpectedEof
                    | Is::NotConnected
                    | Is::TimedOut
                    | Is::HostUnreachable
                    | Is::NetworkUnreachable
                    | Is::NetworkDown
            )
        {
            return true;
        }
        // The HTTP library has no type of its own for this that can be asked from here.
        if inner.to_string().contains("connection closed before message completed") {
            return true;
        }
        cause = inner.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_at_home_and_stay_what_they_are() {
        let from = Url::parse("http://a:1/x/y").unwrap();
        let post = Call::Post(Vec::new());
        let go = |call: &Call, status: u16, to: &str| {
            redirect(call, &from, StatusCode::from_u16(status).unwrap(), Some(to)).map(String::from)
        };
        assert_eq!(go(&post, 307, "z"), Ok("http://a:1/x/z".to_owned()));
        assert_eq!(go(&post, 308, "/z"), Ok("http://a:1/z".to_owned()));
        assert_eq!(go(&Call::Poll, 302, "/z"), Ok("http://a:1/z".to_owned()));
        for (call, status, to) in [
            (&post, 302, "/z"),
            (&post, 303, "/z"),
            (&post, 301, "/z"),
            (&post, 307, "http://a:2/x"),
            (&post, 307, "https://a:1/x"),
            (&Call::Poll, 302, "http://b:1/"),
            (&Call::Poll, 302, "//b/"),
        ] {
            assert!(go(call, status, to).is_err(), "{status} {to}");
        }
        let error = go(&Call::Poll, 302, "http://u:made-up@b/z?token=made-up").unwrap_err();
        assert!(!error.message().contains("made-up"), "{error:?}");
    }

    #[test]
    fn headers_come_from_the_environment_and_are_marked_secret() {
        let names = [("authorization".to_owned(), "X".to_owned())].into();
        let given = headers(&names, &|_| Some("Bearer made-up\n".to_owned())).unwrap();
        assert!(!format!("{given:?}").contains("made-up"));
        assert!(headers(&names, &|_| None).unwrap_err().message().contains("variable X"));
        let broken = headers(&names, &|_| Some("made\nup".to_owned())).unwrap_err();
        assert!(!broken.message().contains("made"));
    }
}
