//! Delegating to an HTTP endpoint: what is posted, how its job is followed, and what the answer means.
//!
//! The wall-clock limit covers all of it. There is no limit on silence: an endpoint that works on a job says nothing
//! meanwhile, and that is what polling is for.
//!
//! Must not: retry a delegation. A poll is asked again when it failed in passing, since the job behind it goes on.

mod clients;
mod http;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(super) use self::clients::Clients;
use self::http::{Call, Fault, Http, said};
use super::delegator::{Shared, Stops};
use super::draft::Draft;
use super::log_file::LogFile;
use super::redact::{Redactor, redact_url};
use super::stdout::hex_digest;
use super::transient::millis;
use super::{env, report, result_file};
use crate::model::agent::{Agent, Assignment};
use crate::model::outcome::{HandleKind, Outcome, Transient};

/// Polls that may fail in passing, one after another, before the job counts as lost.
const MOST_MISSES: u32 = 5;

/// The first pause between two polls; each is half as long again as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The request. Fields stand in this order, so that the same delegation is the same bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    manifest: Manifest<'a>,
    prompt: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    result_path: &'a str,
    sandbox_profile_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    worker_dir: &'a str,
    manifest_path: &'a str,
    input_path: &'a str,
    result_path: &'a str,
    prompt: &'a str,
}

fn request_body(assignment: &Assignment, model: Option<&str>) -> Result<Vec<u8>, serde_json::Error> {
    let folder = &assignment.folder;
    let paths = [&folder.dir, &folder.manifest, &folder.input, &folder.result].map(|path| path.to_string_lossy());
    let [worker_dir, manifest_path, input_path, result_path] = &paths;
    let manifest = Manifest { worker_dir, manifest_path, input_path, result_path, prompt: &assignment.prompt };
    serde_json::to_vec(&Request {
        manifest,
        prompt: &assignment.prompt,
        model,
        result_path,
        sandbox_profile_id: assignment.sandbox.as_str(),
    })
}

/// What an endpoint said its job came to.
#[derive(Debug, PartialEq)]
struct Answer {
    exit_code: i32,
    stdout: String,
    /// What it says went wrong.
    error: Option<String>,
}

/// What an endpoint agent is, apart from the rest of the agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// Where delegations are posted.
    pub(super) url: &'a str,
    /// Header name to the name of the environment variable that holds its value.
    pub(super) headers: &'a BTreeMap<String, String>,
    /// Certificates (PEM) that its own may be signed by, besides those the system trusts.
    pub(super) ca: Option<&'a str>,
}

/// Runs one delegation from start to end.
pub(super) async fn run(
    shared: &Shared,
    agent: &Agent,
    target: Target<'_>,
    redactor: &Arc<Redactor>,
    assignment: &Assignment,
    stops: &Stops,
) -> Outcome {
    let forwarded: Vec<String> =
        target.headers.values().filter(|name| shared.options.parent_env.contains_key(*name)).cloned().collect();
    let draft = Draft::new(HandleKind::Endpoint, redact_url(target.url), sorted(forwarded), redactor);
    let work = tokio::time::timeout(assignment.timeout, converse(shared, agent, target, assignment));
    let ended = tokio::select! {
        biased;
        () = stops.stop.cancelled() => return draft.interrupted(),
        ended = work => ended,
    };
    match ended {
        Ok(Ok(answer)) => settle(shared, redactor, assignment, draft, answer).await,
        Ok(Err(fault)) => refuse(shared, agent, draft, &fault),
        Err(_) => {
            let ms = assignment.timeout.as_millis();
            draft.failed("agent-timeout", &format!("agent endpoint error: timed out after {ms}ms"), None)
        }
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// Posts the delegation and follows its job to the end.
async fn converse(
    shared: &Shared,
    agent: &Agent,
    target: Target<'_>,
    assignment: &Assignment,
) -> Result<Answer, Fault> {
    let model = assignment.model.as_deref().or(agent.model.as_deref());
    let body = request_body(assignment, model).map_err(|error| Fault::error(format!("cannot be asked: {error}")))?;
    let url = Url::parse(target.url).map_err(|error| Fault::error(format!("its URL is not one: {error}")))?;
    let headers = http::headers(target.headers, &|name| {
        if env::is_never_forwarded(name) { None } else { shared.options.parent_env.get(name).cloned() }
    })?;
    let http = Http::new(shared.clients.of(&url, target.ca)?, &url, headers, shared.options.output_cap)?;
    let mut answer = http.exchange(Call::Post(body), url.clone()).await?;
    let mut pause = FIRST_PAUSE;
    let mut misses = 0;
    while let Some(job) = open_job(&answer) {
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        match http.exchange(Call::Poll, poll_url(&url, &job)?).await {
            Ok(next) => {
                answer = next;
                misses = 0;
            }
            Err(fault) if fault.may_pass() && misses < MOST_MISSES => {
                misses += 1;
                tokio::time::sleep(fault.wait().unwrap_or(pause)).await;
            }
            Err(fault) => return Err(fault),
        }
    }
    read_answer(&answer)
}

/// The id of a job that is still going on.
fn open_job(answer: &Value) -> Option<String> {
    if answer.get("done") == Some(&Value::Bool(true)) {
        return None;
    }
    match answer.get("jobId")? {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Number(id) if id.as_f64() != Some(0.0) => Some(id.to_string()),
        _ => None,
    }
}

/// The endpoint with `jobId` added to whatever query it has.
fn poll_url(url: &Url, job: &str) -> Result<Url, Fault> {
    let mut text = url.clone();
    text.set_fragment(None);
    let join = if url.query().is_some() { '&' } else { '?' };
    Url::parse(&format!("{text}{join}jobId={}", url_encoded(job)))
        .map_err(|error| Fault::error(format!("its poll URL is not one: {error}")))
}

/// As JavaScript's `encodeURIComponent` does it.
fn url_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

fn read_answer(answer: &Value) -> Result<Answer, Fault> {
    let exit_code = match answer.get("exitCode") {
        Some(Value::Number(number)) => {
            let whole = number.as_i64().or_else(|| whole_number(number.as_f64()?));
            whole
                .and_then(|code| i32::try_from(code).ok())
                .ok_or_else(|| Fault::error(format!("runner reported an exitCode that is none: {number}")))?
        }
        _ => {
            let said = said(answer).map(|said| format!(": {said}")).unwrap_or_default();
            return Err(Fault::error(format!("runner did not report an exitCode{said}")));
        }
    };
    let stdout = match answer.get("stdout") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null | Value::Bool(false)) => String::new(),
        Some(other) => other.to_string(),
    };
    Ok(Answer { exit_code, stdout, error: said(answer) })
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small just before")]
fn whole_number(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
}

async fn settle(
    shared: &Shared,
    redactor: &Redactor,
    assignment: &Assignment,
    mut draft: Draft,
    answer: Answer,
) -> Outcome {
    let task = &assignment.task_id;
    let stdout = redactor.redact_values(&answer.stdout);
    let (report, result) = report::with_result(&stdout);
    let outcome = draft.edit();
    outcome.exit_code = Some(answer.exit_code);
    outcome.report = report;
    if !answer.stdout.is_empty() {
        outcome.stdout_digest = Some(hex_digest(Sha256::new_with_prefix(answer.stdout.as_bytes())));
    }
    if answer.exit_code != 0 {
        // Nothing else of it is kept, and somebody will want to know why.
        let mut log = LogFile::new(assignment.folder.logs.join("stdout.log"), shared.options.output_cap);
        log.write(stdout.as_bytes()).await;
        log.flush().await;
        let said = answer.error.map(|said| format!(": {said}")).unwrap_or_default();
        return draft.failed("agent-exit", &format!("{task}: failed (exit {}){said}", answer.exit_code), None);
    }
    let Some(result) = result else { return draft.completed() };
    let path = &assignment.folder.result;
    match result_file::write_if_absent(path, result).await {
        Ok(_) => draft.completed(),
        Err(error) => {
            let reason = format!("{task}: its result cannot be written to {}: {error}", path.display());
            draft.failed("agent-result", &reason, None)
        }
    }
}

fn refuse(shared: &Shared, agent: &Agent, draft: Draft, fault: &Fault) -> Outcome {
    let wait = fault.wait();
    if let Some(wait) = wait {
        shared.pause(&agent.name, wait);
    }
    let transient =
        fault.may_pass().then(|| Transient { retry_after_ms: wait.map(millis), refused: fault.is_refused() });
    draft.failed(fault.code(), &format!("agent endpoint error: {}", fault.message()), transient)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_job_is_added_to_any_query() {
        let table = [
            ("http://h/d", "a b", "http://h/d?jobId=a%20b"),
            ("http://h/d?x=1", "a/b&c=d#e?", "http://h/d?x=1&jobId=a%2Fb%26c%3Dd%23e%3F"),
            ("http://h/d#frag", "é", "http://h/d?jobId=%C3%A9"),
            ("http://h", "-_.!~*'()", "http://h/?jobId=-_.!~*'()"),
        ];
        for (url, job, expected) in table {
            // The parser may spell a quote its own way; what the server decodes is the same.
            let polled = poll_url(&Url::parse(url).unwrap(), job).unwrap().to_string().replace("%27", "'");
            assert_eq!(polled, expected);
        }
    }

    #[test]
    fn a_job_is_open_until_it_says_done() {
        let table = [
            (json!({"jobId": "j"}), Some("j")),
            (json!({"jobId": 7}), Some("7")),
            (json!({"jobId": "j", "done": false}), Some("j")),
            (json!({"jobId": "j", "done": "true"}), Some("j")),
            (json!({"jobId": "j", "done": true}), None),
            (json!({"jobId": ""}), None),
            (json!({"jobId": 0}), None),
            (json!({"jobId": null}), None),
            (json!({}), None),
        ];
        for (answer, expected) in table {
            assert_eq!(open_job(&answer).as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn answers_are_read_strictly_where_it_matters() {
        let ok = |code, stdout: &str| Some(Answer { exit_code: code, stdout: stdout.to_owned(), error: None });
        let table = [
            (json!({"exitCode": 0, "stdout": "x"}), ok(0, "x")),
            (json!({"exitCode": 7.0}), ok(7, "")),
            (json!({"exitCode": -1, "stdout": null}), ok(-1, "")),
            (json!({"exitCode": 0, "stdout": {"result": "r"}}), ok(0, r#"{"result":"r"}"#)),
            (json!({"exitCode": "0"}), None),
            (json!({"exitCode": 0.5}), None),
            (json!({"exitCode": 1e30}), None),
            (json!({"stdout": "x"}), None),
        ];
        for (answer, expected) in table {
            assert_eq!(read_answer(&answer).ok(), expected, "{answer}");
        }
    }
}
