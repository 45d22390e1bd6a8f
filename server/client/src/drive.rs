//! A drive as its caller holds it: its events while it runs, and its result when it ends.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll};

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::{DriveParams, StopParams, StopResult, WorkflowRef};
use flowdrive_protocol::run::{DriveResult, StopMode};
use flowdrive_protocol::time::Timestamp;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::error::ClientError;
use crate::events::EventStream;

/// A drive under way. Dropping it does not end the drive; dropping the last [`Client`] does.
#[derive(Debug)]
pub struct RunningDrive {
    /// The run. Known at once: for a new run the client chooses the id. None only when the parameters name nothing to
    /// drive, which the server refuses.
    pub run_id: Option<RunId>,
    /// The run's events. Ends when the drive is answered, after the last event.
    pub events: EventStream,
    /// The answer.
    pub result: DriveFuture,
    pub(crate) workspace: Option<String>,
    pub(crate) client: Client,
}

impl RunningDrive {
    /// Asks the server to end this drive. How it ended is told by [`RunningDrive::result`].
    ///
    /// # Errors
    /// As any call; with no run to stop, the server's refusal of the drive itself tells why.
    pub async fn stop(&self, mode: StopMode) -> Result<Option<StopResult>, ClientError> {
        let Some(run_id) = self.run_id.clone() else { return Ok(None) };
        self.client.stop(&StopParams { workspace: self.workspace.clone(), run_id, mode }).await.map(Some)
    }
}

/// The answer to a drive. The drive goes on whether or not this is awaited.
#[derive(Debug)]
pub struct DriveFuture(pub(crate) JoinHandle<Result<DriveResult, ClientError>>);

impl Future for DriveFuture {
    type Output = Result<DriveResult, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|joined| {
            joined
                .unwrap_or_else(|error| Err(ClientError::TransportLost { reason: format!("its task ended: {error}") }))
        })
    }
}

/// The id for a new run: what is driven, when, and six random digits. Chosen here, and not by the server, so that events
/// of two drives that start together can be told apart from the first on.
pub(crate) fn new_run_id(params: &DriveParams, now: Timestamp) -> Option<RunId> {
    let name = match params.workflow.as_ref()? {
        WorkflowRef::Id(id) => id.as_str(),
        WorkflowRef::Path(path) => std::path::Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(""),
        WorkflowRef::Inline(workflow) => workflow.get("id").and_then(serde_json::Value::as_str).unwrap_or(""),
    };
    let mut name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).take(80).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        name.insert_str(0, "run");
    }
    let random = RandomState::new().hash_one(now.as_millis()) & 0xff_ffff;
    RunId::new(format!("{name}-{}-{random:06x}", now.compact())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_say_what_is_driven_and_differ() {
        let now = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let id = |workflow| {
            let params = DriveParams { workflow: Some(workflow), ..DriveParams::default() };
            new_run_id(&params, now).unwrap().to_string()
        };
        for (workflow, start) in [
            (WorkflowRef::Id("quick-survey".into()), "quick-survey-20260102T030405Z-"),
            (WorkflowRef::Path("/a/b/my review.toml".into()), "my-review-20260102T030405Z-"),
            (WorkflowRef::Path("..".into()), "run-20260102T030405Z-"),
            (WorkflowRef::Inline(serde_json::json!({"id": "x/../y"})), "x-..-y-20260102T030405Z-"),
            (WorkflowRef::Inline(serde_json::json!(3)), "run-20260102T030405Z-"),
            (WorkflowRef::Id("\u{e9}".repeat(500)), "run-----"),
        ] {
            let made = id(workflow);
            assert!(made.starts_with(start), "{made}");
        }
        let many: std::collections::HashSet<String> = (0..50).map(|_| id(WorkflowRef::Id("a".into()))).collect();
        assert!(many.len() > 45, "random digits differ: {many:?}");
        assert_eq!(new_run_id(&DriveParams::default(), now), None);
    }
}
