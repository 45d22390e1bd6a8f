//! Workflows as users write them: every fault is named with its field and line, in both formats.

mod faults;
mod files;
mod inputs;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;

/// The repository's own folder.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn write(workspace: &Path, path: &str, text: &str) {
    let path = workspace.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn load_text(extension: &str, text: &str) -> Result<LoadedWorkflow, WorkflowError> {
    let workspace = tempfile::tempdir().unwrap();
    let name = format!("w.{extension}");
    write(workspace.path(), &name, text);
    load(WorkflowRef::Path(name), workspace.path())
}

fn load_inline(value: Value) -> Result<LoadedWorkflow, WorkflowError> {
    let workspace = tempfile::tempdir().unwrap();
    load(WorkflowRef::Inline(value), workspace.path())
}

/// A workflow file with one task that calls another workflow.
fn calling(id: &str, sub: &str) -> String {
    format!(
        "schemaVersion = 1\nid = \"{id}\"\ntitle = \"T\"\n[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nsubWorkflow = {{ id = \"{sub}\" }}\n"
    )
}

/// A workflow file with one plain task.
fn plain(id: &str) -> String {
    format!(
        "schemaVersion = 1\nid = \"{id}\"\ntitle = \"T\"\n[[phases]]\nid = \"p\"\n[[phases.tasks]]\nid = \"t\"\nprompt = \"x\"\n"
    )
}
