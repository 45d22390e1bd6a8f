//! What an editor offers at a place: code actions on diagnostics, and code lenses on files. Pure.
//!
//! Must not: carry anything out; every offer is a command of `workspace/executeCommand`.

use std::path::Path;

use flowdrive_protocol::ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower_lsp::lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeLens, Command, Diagnostic, Position, Range,
};

use super::service::{DRIVE_COMMAND, OPEN_REPORT, RESOLVE_COMMAND, SHOW_PREVIEW};

/// Offers to close one record by the result of another task, at most.
const MOST_SETTLERS: usize = 3;

/// What a diagnostic is about; travels in its `data`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct About {
    pub(crate) workspace: String,
    pub(crate) run_id: RunId,
    pub(crate) report_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) feedback_id: Option<String>,
    /// For feedback: accepted tasks whose verdict could settle it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) settled_by: Vec<String>,
    /// The cited lines have changed since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stale: bool,
}

impl About {
    pub(crate) fn of(diagnostic: &Diagnostic) -> Option<Self> {
        serde_json::from_value(diagnostic.data.clone()?).ok()
    }

    fn what(&self) -> &str {
        self.task_id.as_deref().unwrap_or("the run")
    }

    fn resolution(&self, feedback: &str, resolution: &str) -> Value {
        json!({"workspace": self.workspace, "runId": self.run_id, "feedbackId": feedback, "resolution": resolution})
    }

    /// What can be done about it: a title, a command and its argument.
    fn ways(&self) -> Vec<(String, &'static str, Value)> {
        let mut ways = Vec::new();
        if let Some(feedback) = &self.feedback_id {
            let what = self.what();
            ways.push((format!("try {what} again"), RESOLVE_COMMAND, self.resolution(feedback, "retry")));
            for task in self.settled_by.iter().take(MOST_SETTLERS) {
                let mut argument = self.resolution(feedback, "resolved");
                argument["nodeId"] = format!("{}:verifier:{task}", self.run_id).into();
                ways.push((format!("resolve, since {task} settles it"), RESOLVE_COMMAND, argument));
            }
            let reject = self.resolution(feedback, "rejected");
            ways.push((format!("reject, and leave {what} as it is"), RESOLVE_COMMAND, reject));
        }
        ways.push(("open the report".to_owned(), OPEN_REPORT, json!({ "path": self.report_path })));
        ways
    }
}

fn command(title: String, command: &str, argument: Value) -> Command {
    Command { title, command: command.to_owned(), arguments: Some(vec![argument]) }
}

/// What can be done about the diagnostics on the lines of a range: a cursor before the text of a line is on it as well.
pub(crate) fn actions(diagnostics: &[Diagnostic], range: Range) -> Vec<CodeActionOrCommand> {
    let touches = |diagnostic: &&Diagnostic| {
        let place = diagnostic.range;
        place.start.line <= range.end.line && range.start.line <= place.end.line
    };
    let touched =
        diagnostics.iter().filter(touches).filter_map(|diagnostic| Some((diagnostic, About::of(diagnostic)?)));
    let offered = touched.flat_map(|(diagnostic, about)| {
        about.ways().into_iter().map(|(way, name, argument)| {
            let title = format!("Flowdrive: {way}");
            CodeActionOrCommand::CodeAction(CodeAction {
                title: title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![diagnostic.clone()]),
                command: Some(command(title, name, argument)),
                ..CodeAction::default()
            })
        })
    });
    offered.collect()
}

/// What stands above the lines of a file that has diagnostics: at its top how many there are of each run, and at each
/// record of feedback what can be done about it.
pub(crate) fn lenses(diagnostics: &[Diagnostic]) -> Vec<CodeLens> {
    let about: Vec<(Range, About)> = diagnostics.iter().filter_map(|one| Some((one.range, About::of(one)?))).collect();
    let mut runs: Vec<&RunId> = about.iter().map(|(_, about)| &about.run_id).collect();
    runs.dedup();
    let mut lenses = Vec::new();
    for run in runs {
        let of_run: Vec<&About> = about.iter().map(|(_, about)| about).filter(|about| about.run_id == *run).collect();
        let Some(first) = of_run.first() else { continue };
        let open = of_run.iter().filter(|about| about.feedback_id.is_some()).count();
        let stale = of_run.iter().filter(|about| about.stale).count();
        let parts = [
            counted(of_run.len() - open, "finding", "findings"),
            counted(stale, "stale", "stale"),
            counted(open, "waits for you", "wait for you"),
        ];
        let title = format!("Flowdrive: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "));
        lenses.push(lens(Range::default(), command(title, OPEN_REPORT, json!({ "path": first.report_path }))));
    }
    for (range, about) in about.iter().filter(|(_, about)| about.feedback_id.is_some()) {
        let at = Range::new(range.start, range.start);
        let ways = about.ways().into_iter().filter(|(_, command, _)| *command == RESOLVE_COMMAND);
        lenses.extend(ways.map(|(way, name, argument)| lens(at, command(format!("Flowdrive: {way}"), name, argument))));
    }
    lenses
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        _ => Some(format!("{count} {many}")),
    }
}

fn lens(range: Range, command: Command) -> CodeLens {
    CodeLens { range, command: Some(command), data: None }
}

/// Whether a file of this name may hold a workflow. Records of runs do not.
pub(crate) fn may_be_workflow(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let inside = |folder: &str| path.components().any(|part| part.as_os_str() == folder);
    matches!(extension, Some("toml" | "json")) && !(inside(".cw") && inside("runs"))
}

/// What stands above a workflow: ways to look at it and to run it. Nothing for any other text.
pub(crate) fn workflow_lenses(path: &Path, text: &str, workspace: &str) -> Vec<CodeLens> {
    let document: Option<Value> = serde_json::from_str(text).ok().or_else(|| toml::from_str(text).ok());
    // Not only valid ones: what is wrong with one is what its preview says.
    let fits = |document: &Value| document["id"].is_string() && document["phases"].is_array();
    if !document.as_ref().is_some_and(fits) {
        return Vec::new();
    }
    let shown = path.strip_prefix(workspace).unwrap_or(path).display().to_string();
    let argument = json!({"workspace": workspace, "workflow": {"path": shown}});
    let top = Range::new(Position::default(), Position::default());
    [("Preview", SHOW_PREVIEW), ("Drive", DRIVE_COMMAND)]
        .into_iter()
        .map(|(title, name)| lens(top, command(title.to_owned(), name, argument.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflows_are_told_from_other_files() {
        let toml = "id = \"w\"\n[[phases]]\nid = \"p\"\n";
        for (path, text, lenses) in [
            ("/ws/.cw/workflows/w.toml", toml, 2),
            ("/ws/w.json", r#"{"id": "w", "phases": []}"#, 2),
            ("/ws/Cargo.toml", "[package]\nname = \"x\"\n", 0),
            ("/ws/package.json", r#"{"id": "w"}"#, 0),
            ("/ws/broken.toml", "id = ", 0),
        ] {
            assert!(may_be_workflow(Path::new(path)), "{path}");
            assert_eq!(workflow_lenses(Path::new(path), text, "/ws").len(), lenses, "{path}");
        }
        for path in ["/ws/w.rs", "/ws/w", "/ws/.cw/runs/r/state.json"] {
            assert!(!may_be_workflow(Path::new(path)), "{path}");
        }
        let offered = workflow_lenses(Path::new("/ws/a/w.toml"), toml, "/ws");
        let drive = offered[1].command.as_ref().unwrap();
        assert_eq!(drive.command, "flowdrive.drive");
        assert_eq!(drive.arguments.as_ref().unwrap()[0], json!({"workspace": "/ws", "workflow": {"path": "a/w.toml"}}));
    }
}
