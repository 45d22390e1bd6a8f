//! Keeps an editor's diagnostics in step with the runs of this session. A change marks its run; the marked runs are read
//! again a moment later, so that many changes cost one reading, and only files whose diagnostics changed are told of.
//!
//! Must not: hold up who marks a run, or pile up for a client that does not read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flowdrive_engine::EngineError;
use flowdrive_engine::accept::Lines;
use flowdrive_engine::store::read_regular;
use flowdrive_protocol::event::{Event, ProgressEvent};
use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::method::{ListFeedbackParams, ShowRunParams};
use serde_json::json;
use tokio::sync::Notify;
use tower_lsp::lsp_types::{CodeActionOrCommand, CodeLens, Diagnostic, Range, Url};

use super::backend::Backend;
use super::diagnostics::{self, ByFile, Columns, Mark, Now, Run};
use super::offers;
use super::outbox::{Outbox, notification};

/// Changes within this time are read together.
const GATHER: Duration = Duration::from_millis(200);
/// Tasks read at once.
const PAGE: u32 = 1000;
/// Larger files are not looked at again.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// A run: its workspace and its id.
type Key = (String, RunId);

/// A workspace, however it was written: the folder that an editor opened and the one that a request names are one.
fn place(workspace: &str) -> String {
    Path::new(workspace).components().collect::<PathBuf>().display().to_string()
}

const OFF: u8 = 0;
const ON: u8 = 1;
const WITH_RELATED: u8 = 2;

/// The publisher. Clones share it.
#[derive(Clone)]
pub(crate) struct Publisher {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    outbox: Outbox,
    mode: AtomicU8,
    /// Whether the client counts columns in bytes.
    in_bytes: AtomicBool,
    marked: Mutex<BTreeSet<Key>>,
    wake: Notify,
    /// Told when what stands above the lines of files has changed.
    lenses: Notify,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    runs: BTreeMap<Key, Showing>,
    /// Files whose diagnostics may have changed since they were last published.
    changed: BTreeSet<Url>,
    /// What the client was told last, where it was something.
    published: BTreeMap<Url, Vec<Diagnostic>>,
}

/// What is shown of one run.
#[derive(Default)]
struct Showing {
    files: ByFile,
    /// Its drive has ended: the next run of the workspace takes its place.
    ended: bool,
}

impl Shown {
    /// A new run clears what is shown of those of its workspace that have ended.
    fn begin(&mut self, key: Key) {
        let replaced = self.runs.extract_if(.., |other, showing| showing.ended && other.0 == key.0 && *other != key);
        let files: Vec<Url> = replaced.flat_map(|(_, showing)| showing.files.into_keys()).collect();
        self.changed.extend(files);
        self.runs.entry(key).or_default().ended = false;
    }

    /// Shows runs that were there before this session, unless it has one of that workspace already. They count as ended.
    fn adopt(&mut self, keys: &[Key]) -> bool {
        let has_any = keys.iter().any(|key| self.runs.keys().any(|shown| shown.0 == key.0));
        if !has_any {
            let ended = || Showing { ended: true, ..Showing::default() };
            self.runs.extend(keys.iter().map(|key| (key.clone(), ended())));
        }
        !has_any
    }

    /// A folder was closed: what is shown of its runs goes, but for those under way.
    fn leave(&mut self, workspace: &str) {
        let left = self.runs.extract_if(.., |key, showing| showing.ended && key.0 == workspace);
        let files: Vec<Url> = left.flat_map(|(_, showing)| showing.files.into_keys()).collect();
        self.changed.extend(files);
    }

    /// Takes over what a run has to show now.
    fn replace(&mut self, key: &Key, files: ByFile) {
        let Some(showing) = self.runs.get_mut(key) else { return };
        let before = std::mem::replace(&mut showing.files, files);
        let differs = |file: &&Url| before.get(*file) != showing.files.get(*file);
        let changed: Vec<Url> = before.keys().chain(showing.files.keys()).filter(differs).cloned().collect();
        self.changed.extend(changed);
    }

    fn of_file(&self, file: &Url) -> Vec<Mark> {
        self.runs.values().filter_map(|showing| showing.files.get(file)).flatten().cloned().collect()
    }

    /// A file was changed: what cites lines of it may be shown differently now.
    fn touch(&mut self, file: &Url) {
        let files = self.runs.values().flat_map(|showing| &showing.files);
        let cites =
            |(at, marks): &(&Url, &Vec<Mark>)| marks.iter().any(|mark| mark.cites(at).any(|cited| cited == file));
        let touched: Vec<Url> = files.filter(cites).map(|(at, _)| at.clone()).collect();
        self.changed.extend(touched);
    }

    /// Takes over what a file is to be shown with. False when that is what the client was told last.
    fn publish(&mut self, file: &Url, diagnostics: &[Diagnostic]) -> bool {
        let before = self.published.get(file).map_or(&[][..], Vec::as_slice);
        if before == diagnostics {
            return false;
        }
        if diagnostics.is_empty() {
            self.published.remove(file);
        } else {
            self.published.insert(file.clone(), diagnostics.to_vec());
        }
        true
    }

    fn published(&self, file: &Url) -> &[Diagnostic] {
        self.published.get(file).map_or(&[], Vec::as_slice)
    }
}

impl Publisher {
    pub(crate) fn new(backend: Arc<dyn Backend>, outbox: Outbox) -> Self {
        let shared = Shared {
            backend,
            outbox,
            mode: AtomicU8::new(OFF),
            in_bytes: AtomicBool::new(false),
            marked: Mutex::default(),
            wake: Notify::new(),
            lenses: Notify::new(),
            shown: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Begins to publish, for a client that can show diagnostics.
    pub(crate) fn enable(&self, related: bool, columns: Columns) {
        self.shared.in_bytes.store(columns == Columns::Utf8, Ordering::Relaxed);
        self.shared.mode.store(if related { WITH_RELATED } else { ON }, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.shared.mode.load(Ordering::Relaxed) != OFF
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shared.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marked(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.shared.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an event that may change what is shown.
    pub(crate) fn note(&self, workspace: Option<&str>, event: &ProgressEvent) {
        let Some(workspace) = workspace.filter(|_| self.is_on()) else { return };
        let key = || (place(workspace), event.run_id.clone());
        match &event.event {
            Event::RunStarted { .. } => {
                self.shown().begin(key());
                self.mark(key());
            }
            Event::RunFinished { .. } => {
                if let Some(showing) = self.shown().runs.get_mut(&key()) {
                    showing.ended = true;
                }
                self.mark(key());
            }
            Event::TaskAccepted { findings: 1.., .. } | Event::FeedbackOpened { .. } | Event::FeedbackClosed { .. } => {
                self.mark(key());
            }
            _ => {}
        }
    }

    /// Shows runs of a folder that were there before this session.
    pub(crate) fn adopt(&self, workspace: &str, runs: Vec<RunId>) {
        let keys: Vec<Key> = runs.into_iter().map(|run| (place(workspace), run)).collect();
        if self.is_on() && self.shown().adopt(&keys) {
            keys.into_iter().for_each(|key| self.mark(key));
        }
    }

    /// Shows no longer what is there of a folder that was closed.
    pub(crate) fn leave(&self, workspace: &str) {
        if self.is_on() {
            self.shown().leave(&place(workspace));
            self.shared.wake.notify_one();
        }
    }

    /// Has a run read again, if it is shown.
    pub(crate) fn mark(&self, key: Key) {
        if self.is_on() {
            self.marked().insert((place(&key.0), key.1));
            self.shared.wake.notify_one();
        }
    }

    /// What can be done at a place in a file.
    pub(crate) fn actions(&self, file: &Url, range: Range) -> Vec<CodeActionOrCommand> {
        offers::actions(self.shown().published(file), range)
    }

    /// What stands above the lines of a file.
    pub(crate) fn lenses(&self, file: &Url) -> Vec<CodeLens> {
        offers::lenses(self.shown().published(file))
    }

    /// Returns when lenses have changed.
    pub(crate) async fn lenses_changed(&self) {
        self.shared.lenses.notified().await;
    }

    /// A file was saved: findings in it may have lost, or found again, what they stand on.
    pub(crate) fn saved(&self, file: &Url) {
        if self.is_on() {
            self.shown().touch(file);
            self.shared.wake.notify_one();
        }
    }

    /// Publishes, for as long as the server runs.
    pub(crate) async fn publish(self) {
        loop {
            self.shared.wake.notified().await;
            tokio::time::sleep(GATHER).await;
            let marked = std::mem::take(&mut *self.marked());
            for key in marked {
                if !self.shown().runs.contains_key(&key) {
                    continue;
                }
                match self.read(&key).await {
                    Ok(files) => self.shown().replace(&key, files),
                    Err(error) => tracing::warn!(run = %key.1, %error, "the run's findings could not be read"),
                }
            }
            let files = std::mem::take(&mut self.shown().changed);
            let mut now = Now::new();
            let in_bytes = self.shared.in_bytes.load(Ordering::Relaxed);
            let columns = if in_bytes { Columns::Utf8 } else { Columns::Utf16 };
            let mut told = false;
            for file in files {
                // Not more than the client takes.
                self.shared.outbox.room().await;
                let marks = self.shown().of_file(&file);
                for cited in marks.iter().flat_map(|mark| mark.cites(&file)) {
                    look(cited, &mut now).await;
                }
                let diagnostics: Vec<Diagnostic> = marks.iter().map(|mark| mark.shown(&file, &now, columns)).collect();
                if !self.shown().publish(&file, &diagnostics) {
                    continue;
                }
                told = true;
                let params = json!({"uri": file, "diagnostics": diagnostics});
                if let Some(message) = notification("textDocument/publishDiagnostics", &params) {
                    self.shared.outbox.answer(message);
                }
            }
            if told {
                self.shared.lenses.notify_one();
            }
        }
    }

    async fn read(&self, key: &Key) -> Result<ByFile, EngineError> {
        let related = self.shared.mode.load(Ordering::Relaxed) == WITH_RELATED;
        let mut by_file = ByFile::new();
        let mut settlers = Vec::new();
        let mut offset = 0;
        loop {
            let params = ShowRunParams {
                workspace: Some(key.0.clone()),
                run_id: key.1.clone(),
                since_seq: None,
                task_ids: Vec::new(),
                task_offset: offset,
                task_limit: Some(PAGE),
                write_report: false,
            };
            let view = self.shared.backend.show_run(params).await?;
            let run = Run { workspace: &key.0, id: &key.1, report: &view.report_path, related };
            diagnostics::add_findings(run, &view.tasks, &mut by_file);
            settlers.extend(diagnostics::settlers(&view.tasks));
            offset += PAGE;
            if view.tasks.is_empty() || offset >= view.total_tasks {
                let params = ListFeedbackParams { workspace: Some(key.0.clone()), run_id: key.1.clone(), status: None };
                let records = self.shared.backend.list_feedback(params).await?.feedback;
                diagnostics::add_feedback(run, &records, &settlers, &mut by_file);
                return Ok(by_file);
            }
        }
    }
}

/// Reads a file as it is now, once. One that cannot be read, or is too large, is not looked at.
async fn look(file: &Url, now: &mut Now) {
    if now.contains_key(file) {
        return;
    }
    let Ok(path) = file.to_file_path() else { return };
    // It may have become a link, a pipe or a device since it was cited.
    let found = tokio::task::spawn_blocking(move || read_regular(&path, MAX_FILE_BYTES)).await;
    match found.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        Ok(bytes) => drop(now.insert(file.clone(), Some(Lines::of(String::from_utf8_lossy(&bytes).into_owned())))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => drop(now.insert(file.clone(), None)),
        Err(error) => tracing::debug!(%file, %error, "a cited file could not be looked at again"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outbox::Limits;
    use super::super::tests::fake::{Fake, accepted, started};
    use super::*;

    #[test]
    fn nothing_is_kept_for_a_client_that_shows_no_diagnostics() {
        let (outbox, _requests) = Outbox::new(Limits::default());
        let publisher = Publisher::new(Arc::new(Fake::default()), outbox);
        let mut accepted = accepted("r", 2);
        if let Event::TaskAccepted { findings, .. } = &mut accepted.event {
            *findings = 1;
        }
        for on in [false, true] {
            publisher.note(Some("/ws"), &started("r"));
            publisher.note(Some("/ws"), &accepted);
            assert_eq!((publisher.marked().len(), publisher.shown().runs.len()), (usize::from(on), usize::from(on)));
            publisher.enable(false, Columns::Utf16);
        }
    }

    #[test]
    fn what_was_there_before_gives_way_to_what_this_session_drives() {
        let (outbox, _requests) = Outbox::new(Limits::default());
        let publisher = Publisher::new(Arc::new(Fake::default()), outbox);
        let old = || vec![RunId::new("old").unwrap(), RunId::new("sub-old-t").unwrap()];
        let shown =
            || -> Vec<String> { publisher.shown().runs.keys().map(|key| format!("{}:{}", key.0, key.1)).collect() };
        publisher.adopt("/ws", old());
        assert_eq!(shown(), [""; 0], "nobody shows them");
        publisher.enable(false, Columns::Utf16);
        publisher.adopt("/ws", old());
        publisher.adopt("/other", old());
        assert_eq!(shown(), ["/other:old", "/other:sub-old-t", "/ws:old", "/ws:sub-old-t"]);
        // However the folder is written.
        publisher.note(Some("/ws/"), &started("new"));
        publisher.leave("/other/");
        assert_eq!(shown(), ["/ws:new"]);
        // The list came late, and the folder was closed over a drive.
        publisher.adopt("/ws", old());
        publisher.leave("/ws");
        assert_eq!(shown(), ["/ws:new"]);
    }
}
