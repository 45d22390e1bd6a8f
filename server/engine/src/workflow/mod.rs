//! Workflows: found, read, checked field by field, and made ready for a run (inputs, prompts).
//!
//! Must not: run anything, or take a command line from a workflow. A workflow comes with a repository and is not trusted:
//! what it names (sub-workflows, artifacts, path inputs) stays inside the workspace.

mod bundled;
pub(crate) mod document;
mod error;
mod inputs;
mod nesting;
mod place;
mod render;
mod rules;
mod slips;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use flowdrive_protocol::SCHEMA_VERSION;
use flowdrive_protocol::ids::WorkflowId;
use flowdrive_protocol::method::WorkflowRef;
use flowdrive_protocol::method::{ListWorkflowsResult, UnusableWorkflow};
use flowdrive_protocol::run::WorkflowSummary;
use flowdrive_protocol::workflow::{SubWorkflow, Workflow};

use document::{Document, FieldPath};
pub use document::{Fault, Faults};
pub use error::{InputError, WorkflowError};
pub(crate) use inputs::NUL;
pub use inputs::{child_inputs, plan_inputs};
pub use nesting::MAX_DEPTH;
pub use render::render;
pub use rules::PREDICATES;
pub use slips::slips;
pub(crate) use source::read_regular;
use source::{Found, Source};
pub use source::{MAX_FILE_BYTES, WORKSPACE_FOLDER};

/// A workflow that holds to every rule.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedWorkflow {
    /// The workflow.
    pub workflow: Workflow,
    /// `bundled`, `inline`, or the file it was read from.
    pub source: String,
    /// What is allowed but likely a slip, in the order of the document.
    pub warnings: Vec<Fault>,
}

/// Finds, reads and checks a workflow, and the sub-workflows it leads to. Blocks on the disk.
///
/// # Errors
/// [`WorkflowError`] when there is no such workflow, it cannot be read, or it breaks a rule; in that case with every fault
/// found, each with its field and line.
pub fn load(reference: WorkflowRef, workspace: &Path) -> Result<LoadedWorkflow, WorkflowError> {
    let found = match reference {
        WorkflowRef::Id(id) => source::by_id(&id, workspace)?,
        WorkflowRef::Path(path) => source::by_path(&path, workspace)?,
        WorkflowRef::Inline(value) => {
            Found { source: Source::Inline, document: Document::inline(value), expected_id: None }
        }
    };
    finish(&found, workspace)
}

/// The same for what a task names in place of an agent: a bundled id, an id of the workspace, or a file inside it.
///
/// # Errors
/// As [`load`], and when the path leaves the workspace.
pub fn load_sub(sub: &SubWorkflow, workspace: &Path) -> Result<LoadedWorkflow, WorkflowError> {
    finish(&nesting::find(sub, workspace)?, workspace)
}

/// The workflows that can be driven: the bundled ones and those of the workspace, by id; and the workspace's files that
/// cannot, with what is wrong with them.
#[must_use]
pub fn list(workspace: Option<&Path>) -> ListWorkflowsResult {
    let nowhere = Path::new("");
    let mut summaries = BTreeMap::new();
    let mut unusable = Vec::new();
    for bundled in bundled::BUNDLED {
        match load(WorkflowRef::Id(bundled.id.to_owned()), nowhere) {
            Ok(loaded) => drop(summaries.insert(loaded.workflow.id.clone(), summary(loaded))),
            Err(error) => tracing::error!(workflow = bundled.id, "a bundled workflow has a fault: {error}"),
        }
    }
    for path in workspace.map(source::workspace_files).unwrap_or_default() {
        let stem = Path::new(&path).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let (message, hint) = if bundled::find(stem).is_some() {
            ("a bundled workflow has this id".to_owned(), "rename the file, or drive it by its path".to_owned())
        } else {
            match load(WorkflowRef::Id(stem.to_owned()), workspace.unwrap_or(nowhere)) {
                Ok(loaded) => {
                    summaries.insert(loaded.workflow.id.clone(), summary(loaded));
                    continue;
                }
                Err(error) => (error.to_string(), error.hint()),
            }
        };
        unusable.push(UnusableWorkflow { path, message, hint: Some(hint).filter(|hint| !hint.is_empty()) });
    }
    ListWorkflowsResult { workflows: summaries.into_values().collect(), unusable }
}

fn summary(loaded: LoadedWorkflow) -> WorkflowSummary {
    let LoadedWorkflow { workflow, source, .. } = loaded;
    let tasks = workflow.phases.iter().map(|phase| phase.tasks.len()).sum::<usize>();
    WorkflowSummary {
        id: workflow.id,
        title: workflow.title,
        summary: workflow.summary,
        source,
        inputs: workflow.inputs,
        tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
    }
}

fn finish(found: &Found, workspace: &Path) -> Result<LoadedWorkflow, WorkflowError> {
    let (workflow, mut warnings) = validate(found)?;
    let faults = nesting::check(&workflow, &found.document, &found.source, workspace);
    if let Some(faults) = Faults::new(found.document.file().map(str::to_owned), faults) {
        return Err(WorkflowError::Invalid(faults));
    }
    warnings.sort_by_key(|warning| warning.line);
    Ok(LoadedWorkflow { workflow, source: found.source.shown().to_owned(), warnings })
}

/// Everything that can be judged from the document alone: first its shape, then its rules.
fn validate(found: &Found) -> Result<(Workflow, Vec<Fault>), WorkflowError> {
    let document = &found.document;
    let file = || document.file().map(str::to_owned);
    // A document of another version may have any shape, so that its other faults would mislead.
    if let Some(version) = document.root_number("schemaVersion")
        && version.as_u64() != Some(u64::from(SCHEMA_VERSION))
    {
        let newer = version.as_f64().is_some_and(|version| version > f64::from(SCHEMA_VERSION));
        let advice = if newer { "; it was written for a newer Flowdrive" } else { "" };
        let message = format!("is {version}, but this Flowdrive reads only {SCHEMA_VERSION}{advice}");
        let fault = document.fault(&FieldPath::root().key("schemaVersion"), message);
        return Err(WorkflowError::Invalid(Faults::new(file(), vec![fault]).expect("one fault was given")));
    }
    let workflow: Workflow = document.decode(&[]).map_err(WorkflowError::Invalid)?;
    let mut findings = rules::check(&workflow, document);
    if let Some(expected) = &found.expected_id
        && workflow.id.as_str() != expected
    {
        let message = format!("is `{}`, but the file's name says `{expected}`; they must agree", workflow.id);
        findings.faults.push(document.fault(&FieldPath::root().key("id"), message));
    }
    match Faults::new(file(), findings.faults) {
        Some(faults) => Err(WorkflowError::Invalid(faults)),
        None => Ok((workflow, findings.warnings)),
    }
}

/// The workflow ids that come with Flowdrive, in byte order.
#[must_use]
pub fn bundled_ids() -> Vec<WorkflowId> {
    bundled::BUNDLED.iter().filter_map(|bundled| WorkflowId::new(bundled.id).ok()).collect()
}

#[cfg(test)]
mod tests;
