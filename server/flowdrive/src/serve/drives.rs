//! The drives this server has under way. Each is a task of its own: a request that is cancelled or dropped asks its drive
//! to stop, and cannot tear it. Here a drive's events become notifications and progress.
//!
//! Must not: judge events, or block on the client.

use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use flowdrive_engine::EventSink;
use flowdrive_protocol::event::{EventKind, ProgressEvent};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::{DriveParams, ProgressToken, ShowRunParams};
use flowdrive_protocol::run::StopMode;
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tower_lsp::Client;
use tower_lsp::jsonrpc::Error;
use tower_lsp::lsp_types::request::WorkDoneProgressCreate;
use tower_lsp::lsp_types::{NumberOrString, WorkDoneProgressCreateParams};

use super::answer::Answer;
use super::backend::{Backend, Driving};
use super::outbox::{CatchUp, Outbox, Render, Source, notification};
use super::progress::Tracker;
use super::publisher::Publisher;
use super::{documents, fault};

/// What the client asked to be told, and can show.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    /// Events it does not want.
    pub(crate) opt_out: HashSet<EventKind>,
    /// Whether it lets the server open a progress display.
    pub(crate) creates_progress: bool,
    /// Whether it can show documents, and wants the report shown when a drive has ended.
    pub(crate) show_report: bool,
}

/// The drives under way. Clones share them.
#[derive(Clone)]
pub(crate) struct Drives {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    outbox: Outbox,
    client: Client,
    publisher: Publisher,
    numbers: AtomicU64,
    live: Mutex<BTreeMap<u64, Live>>,
}

struct Live {
    sink: Arc<Sink>,
    cancel: CancellationToken,
}

/// A run that is being driven, for telling how to carry it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveRun {
    pub(crate) run: RunId,
    pub(crate) workspace: Option<String>,
}

impl Drives {
    pub(crate) fn new(backend: Arc<dyn Backend>, outbox: Outbox, client: Client, publisher: Publisher) -> Self {
        let shared = Shared {
            backend,
            outbox,
            client,
            publisher,
            numbers: AtomicU64::new(1),
            live: Mutex::new(BTreeMap::new()),
        };
        Self { shared: Arc::new(shared) }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, Live>> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs under way.
    pub(crate) fn runs(&self) -> Vec<LiveRun> {
        let live = self.live();
        let told = live.values().filter_map(|drive| {
            Some(LiveRun { run: drive.sink.display().tracker.run()?, workspace: drive.sink.source.workspace.clone() })
        });
        told.collect()
    }

    /// Stops the drive behind a progress display, as the user asked there.
    pub(crate) fn cancel_progress(&self, token: &ProgressToken) {
        for drive in self.live().values().filter(|drive| drive.sink.has_token(token)) {
            drive.cancel.cancel();
        }
    }

    /// Tells the client of events that no drive tells.
    pub(crate) fn listener(&self, workspace: Option<String>, wishes: &Wishes) -> Arc<dyn EventSink> {
        let number = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
        Sink::new(number, &self.shared, &DriveParams { workspace, ..DriveParams::default() }, wishes)
    }

    /// Drives a run, and answers when it has ended or when the request is cancelled. The drive ends in its own time.
    ///
    /// # Errors
    /// What the engine answers, or "request cancelled".
    pub(crate) async fn drive(&self, params: DriveParams, wishes: &Wishes) -> Result<Answer, Error> {
        let number = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
        let sink = Sink::new(number, &self.shared, &params, wishes);
        let cancel = CancellationToken::new();
        self.live().insert(number, Live { sink: sink.clone(), cancel: cancel.clone() });
        let (answer, answered) = oneshot::channel();
        tokio::spawn(self.clone().conduct(params, sink, cancel.clone(), wishes.clone(), answer));
        // A cancelled request is a dropped future.
        let guard = cancel.clone().drop_guard();
        tokio::select! {
            biased;
            answer = answered => {
                guard.disarm();
                answer.unwrap_or_else(|_| Err(defect("drive")))
            }
            () = cancel.cancelled() => Err(Error::request_cancelled()),
        }
    }

    async fn conduct(
        self,
        params: DriveParams,
        sink: Arc<Sink>,
        cancel: CancellationToken,
        wishes: Wishes,
        answer: oneshot::Sender<Result<Answer, Error>>,
    ) {
        let number = sink.source.drive;
        let work = self.see_through(params, &sink, &cancel, &wishes);
        let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(defect("drive")));
        let fallback = match &result {
            Ok(_) => "ended".to_owned(),
            Err(error) => error.message.to_string(),
        };
        sink.end(fallback);
        self.live().remove(&number);
        // Nobody waits when the request was cancelled.
        let _ = answer.send(result);
    }

    async fn see_through(
        &self,
        params: DriveParams,
        sink: &Arc<Sink>,
        cancel: &CancellationToken,
        wishes: &Wishes,
    ) -> Result<Answer, Error> {
        let workspace = params.workspace.clone().unwrap_or_default();
        let started = self.shared.backend.drive(params, sink.clone()).await;
        let driving: Arc<dyn Driving> = started.map_err(|error| fault::from_engine(&error))?;
        sink.name(driving.run_id());
        if wishes.creates_progress && !sink.has_any_token() {
            self.create_progress(sink.clone());
        }
        let result = {
            let mut finished = driving.finished();
            tokio::select! {
                biased;
                result = &mut finished => result,
                () = cancel.cancelled() => {
                    driving.stop(StopMode::Graceful, "client");
                    finished.await
                }
            }
        };
        // With it goes the run's state, before the answer of a large run takes room beside it.
        drop(driving);
        let result = result.map_err(|error| fault::from_engine(&error))?;
        // Who stopped it is not waiting for a report.
        if wishes.show_report && result.stopped.is_none() {
            documents::show(&self.shared.client, &Path::new(&workspace).join(&result.report_path));
        }
        Answer::of("drive", &*result)
    }

    /// Asks the client for a progress display. Its answer may come late or never; nothing waits for it.
    fn create_progress(&self, sink: Arc<Sink>) {
        let client = self.shared.client.clone();
        tokio::spawn(async move {
            let name = format!("flowdrive/{}", sink.source.drive);
            let params = WorkDoneProgressCreateParams { token: NumberOrString::String(name.clone()) };
            match client.send_request::<WorkDoneProgressCreate>(params).await {
                Ok(()) => sink.attach(ProgressToken::Text(name)),
                Err(error) => tracing::debug!(%error, "the client refused a progress display"),
            }
        });
    }

    /// Reads events again for a client that had stopped reading. Runs until the outbox is gone.
    pub(crate) async fn serve_catch_up(self, mut requests: mpsc::UnboundedReceiver<CatchUp>) {
        while let Some(CatchUp { stream, since }) = requests.recv().await {
            let params = ShowRunParams {
                workspace: stream.0.workspace.clone(),
                run_id: stream.1.clone(),
                since_seq: Some(since),
                task_ids: Vec::new(),
                task_offset: 0,
                task_limit: Some(0),
                write_report: false,
            };
            let page = AssertUnwindSafe(self.shared.backend.show_run(params)).catch_unwind().await;
            let (events, more) = match page {
                Ok(Ok(view)) => (view.events, view.more_events),
                Ok(Err(error)) => {
                    tracing::warn!(run = %stream.1, %error, "events that the client missed could not be read again");
                    (Vec::new(), false)
                }
                Err(_) => (Vec::new(), false),
            };
            let encode = |event: ProgressEvent| {
                let wanted = !stream.0.opt_out.contains(&event.event.kind());
                let bytes = wanted.then(|| notification(flowdrive_protocol::method::PROGRESS, &event)).flatten();
                (event.seq, bytes)
            };
            self.shared.outbox.caught_up(&stream, events.into_iter().map(encode).collect(), more);
        }
    }
}

/// A panic, as the client is told.
pub(crate) fn defect(method: &str) -> Error {
    let message = format!("`{method}` failed because of a defect in Flowdrive");
    let hint = "The server goes on. Its log on stderr says where; please report it.";
    fault::of_kind(flowdrive_protocol::error::ErrorKind::Internal, message, hint)
}

/// Where one drive's events go.
struct Sink {
    /// Itself, for the outbox to ask.
    this: Weak<Self>,
    source: Arc<Source>,
    outbox: Outbox,
    publisher: Publisher,
    display: Mutex<Display>,
}

#[derive(Default)]
struct Display {
    tracker: Tracker,
    token: Option<ProgressToken>,
    begun: bool,
    ended: Option<String>,
}

impl Sink {
    fn new(number: u64, shared: &Shared, params: &DriveParams, wishes: &Wishes) -> Arc<Self> {
        let display = Display { token: params.work_done_token.clone(), ..Display::default() };
        let source = Source { drive: number, workspace: params.workspace.clone(), opt_out: wishes.opt_out.clone() };
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            source: Arc::new(source),
            outbox: shared.outbox.clone(),
            publisher: shared.publisher.clone(),
            display: Mutex::new(display),
        })
    }

    fn display(&self) -> MutexGuard<'_, Display> {
        self.display.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_token(&self, token: &ProgressToken) -> bool {
        self.display().token.as_ref() == Some(token)
    }

    fn has_any_token(&self) -> bool {
        self.display().token.is_some()
    }

    fn name(&self, run: &RunId) {
        self.display().tracker.name(run);
    }

    /// Begins to show the drive, if there is a token and it has not begun.
    fn begin_in(&self, display: &mut Display) {
        let Some(token) = display.token.as_ref().filter(|_| !display.begun) else { return };
        let value = json!({"kind": "begin", "title": display.tracker.title(), "cancellable": true, "percentage": 0});
        // A sink that is being dropped has nothing to show.
        if let (Some(bytes), Some(this)) = (progress(token, &value), self.this.upgrade()) {
            self.outbox.begin(self.source.drive, bytes, this);
            display.begun = true;
        }
    }

    /// Shows the drive under a token that was made for it; also when it has ended meanwhile, so that the client can
    /// put the display away.
    fn attach(&self, token: ProgressToken) {
        let mut display = self.display();
        display.token = Some(token);
        match display.ended.clone() {
            Some(message) => {
                self.begin_in(&mut display);
                self.end_in(&display, &message);
            }
            None if display.tracker.has_begun() => {
                self.begin_in(&mut display);
                self.outbox.report(self.source.drive);
            }
            // The first event begins it.
            None => {}
        }
    }

    fn end(&self, fallback: String) {
        let mut display = self.display();
        let message = display.tracker.end().unwrap_or(fallback);
        self.end_in(&display, &message);
        display.ended = Some(message);
    }

    fn end_in(&self, display: &Display, message: &str) {
        let Some(token) = display.token.as_ref().filter(|_| display.begun) else { return };
        if let Some(bytes) = progress(token, &json!({"kind": "end", "message": message})) {
            self.outbox.end(self.source.drive, bytes);
        }
    }
}

impl Render for Sink {
    fn render(&self) -> Option<Vec<u8>> {
        let display = self.display();
        let report = display.tracker.report();
        let value =
            json!({"kind": "report", "cancellable": true, "message": report.message, "percentage": report.percentage});
        progress(display.token.as_ref()?, &value)
    }
}

fn progress(token: &ProgressToken, value: &Value) -> Option<Vec<u8>> {
    notification("$/progress", &json!({"token": token, "value": value}))
}

impl EventSink for Sink {
    fn event(&self, event: ProgressEvent) {
        let mut display = self.display();
        if display.tracker.note(&event) {
            self.begin_in(&mut display);
            self.outbox.report(self.source.drive);
        }
        drop(display);
        self.publisher.note(self.source.workspace.as_deref(), &event);
        if !self.source.opt_out.contains(&event.event.kind()) {
            self.outbox.event(&self.source, event);
        }
    }
}
