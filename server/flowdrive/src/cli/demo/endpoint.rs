//! The demo's HTTP agent: takes a delegation, has the embedded survey do it, and answers with the result.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::http;

/// An agent that listens on this machine only. It ends when this is dropped.
pub(crate) struct EndpointAgent {
    url: String,
    serving: JoinHandle<()>,
}

impl EndpointAgent {
    /// Listens on a free port. `program` is the one that is the survey when called with `agent survey`.
    pub(crate) async fn start(program: PathBuf) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/delegate", listener.local_addr()?);
        let handle = move |body: Vec<u8>| {
            let program = program.clone();
            async move { answer(&program, &body).await }
        };
        Ok(Self { url, serving: tokio::spawn(http::serve(listener, handle)) })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for EndpointAgent {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What the survey needs of a delegation.
#[derive(Debug, PartialEq, Eq)]
struct Job {
    /// The task as Flowdrive wrote it; on this machine it can simply be read.
    input: PathBuf,
    /// The folder to search.
    workspace: PathBuf,
}

fn job(body: &[u8]) -> Result<Job, String> {
    let request: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let text = |pointer: &str| {
        request.pointer(pointer).and_then(Value::as_str).ok_or_else(|| format!("the request has no `{pointer}`"))
    };
    let input = PathBuf::from(text("/manifest/inputPath")?);
    let worker_dir = text("/manifest/workerDir")?;
    let workspace =
        workspace_of(Path::new(worker_dir)).ok_or_else(|| format!("{worker_dir} is not a worker's folder"))?;
    Ok(Job { input, workspace })
}

/// The folder whose `.cw` a worker's folder is in.
fn workspace_of(worker_dir: &Path) -> Option<PathBuf> {
    let store = worker_dir.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == ".cw"))?;
    store.parent().map(Path::to_owned)
}

async fn answer(program: &Path, body: &[u8]) -> http::Answer {
    let job = match job(body) {
        Ok(job) => job,
        Err(reason) => return ("400 Bad Request", json!({"error": reason})),
    };
    match survey(program, &job).await {
        Ok(answer) => ("200 OK", answer),
        Err(error) => ("500 Internal Server Error", json!({"error": format!("the survey failed: {error}")})),
    }
}

async fn survey(program: &Path, job: &Job) -> io::Result<Value> {
    let folder = tempfile::Builder::new().prefix("flowdrive-demo-agent-").tempdir()?;
    let result = folder.path().join("result.md");
    let output = Command::new(program)
        .args(["agent", "survey", "--input"])
        .arg(&job.input)
        .arg("--result")
        .arg(&result)
        .arg("--workspace")
        .arg(&job.workspace)
        .current_dir(&job.workspace)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let text = match tokio::fs::read_to_string(&result).await {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    // A process that a signal ended has no exit code, and so neither has the answer.
    Ok(json!({
        "exitCode": output.status.code(),
        "stdout": text,
        "stderr": String::from_utf8_lossy(&output.stderr),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(worker_dir: &str) -> Vec<u8> {
        json!({"manifest": {"workerDir": worker_dir, "inputPath": "/w/.cw/runs/r/workers/x/input.md"}, "prompt": "p"})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn a_delegation_names_its_input_and_its_workspace() {
        let job = job(&body("/w/.cw/runs/r/workers/x")).unwrap();
        assert_eq!(job.workspace, Path::new("/w"));
        assert_eq!(job.input, Path::new("/w/.cw/runs/r/workers/x/input.md"));
    }

    #[tokio::test]
    async fn a_delegation_that_cannot_be_done_is_refused_with_the_reason() {
        for (body, reason) in [
            (b"{".to_vec(), "not JSON"),
            (b"{}".to_vec(), "/manifest/inputPath"),
            (body("/elsewhere/x"), "is not a worker's folder"),
        ] {
            let (status, answer) = answer(Path::new("/nonexistent"), &body).await;
            assert_eq!(status, "400 Bad Request");
            assert!(answer["error"].as_str().unwrap().contains(reason), "{answer}");
        }
        let (status, _) = answer(Path::new("/nonexistent"), &body("/w/.cw/x")).await;
        assert_eq!(status, "500 Internal Server Error");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_agents_exit_code_and_result_are_passed_on() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("survey");
        // Called with: agent survey --input I --result R --workspace W
        std::fs::write(&program, "#!/bin/sh\nprintf 'about %s' \"$(cat \"$4\")\" > \"$6\"\nexit 3\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let input = folder.path().join("input.md");
        std::fs::write(&input, "the task").unwrap();
        let job = Job { input, workspace: folder.path().to_owned() };
        let answer = survey(&program, &job).await.unwrap();
        assert_eq!((&answer["exitCode"], &answer["stdout"]), (&json!(3), &json!("about the task")));
    }
}
