//! Follows sub-workflows from file to file: each must be a valid workflow, take the inputs it is given, and not lead back
//! to where it came from or too deep.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use flowdrive_protocol::ids::InputName;
use flowdrive_protocol::workflow::{SubWorkflow, Workflow};

use super::document::{Document, Fault, FieldPath, did_you_mean, listed};
use super::error::WorkflowError;
use super::source::{self, Found, Source};

/// How deep sub-workflows may lie below the workflow that is driven.
pub const MAX_DEPTH: usize = 4;

/// Checks every sub-workflow of a workflow, and theirs.
pub(super) fn check(workflow: &Workflow, document: &Document, source: &Source, workspace: &Path) -> Vec<Fault> {
    let mut walk = Walk { workspace, heights: HashMap::new(), chain: vec![(source.clone(), workflow.id.to_string())] };
    let mut faults = Vec::new();
    for (phase_index, phase) in workflow.phases.iter().enumerate() {
        for (task_index, task) in phase.tasks.iter().enumerate() {
            let Some(sub) = &task.sub_workflow else { continue };
            let path = FieldPath::root().key("phases").at(phase_index).key("tasks").at(task_index).key("subWorkflow");
            let fault = |(field, message): (Option<String>, String)| {
                let path = match field {
                    Some(input) => path.key("inputs").key(input),
                    None => path.key("id"),
                };
                document.fault(&path, message)
            };
            match walk.visit(sub) {
                Ok(child) => faults.extend(check_inputs(sub, &child.workflow, workflow).into_iter().map(fault)),
                Err(message) => faults.push(fault((None, message))),
            }
        }
    }
    faults
}

/// Loads what a task names in place of an agent. A workflow may only name bundled ids and files of the workspace.
pub(super) fn find(sub: &SubWorkflow, workspace: &Path) -> Result<Found, WorkflowError> {
    let names_a_file = sub.id.contains(['/', '\\']) || sub.id.ends_with(".toml") || sub.id.ends_with(".json");
    if names_a_file { source::inside(&sub.id, workspace) } else { source::by_id(&sub.id, workspace) }
}

struct Walk<'a> {
    workspace: &'a Path,
    /// Workflows that were followed to their ends: what they are, and their deepest line of descendants.
    heights: HashMap<Source, Child>,
    /// From the workflow that is checked down to the one that is looked at.
    chain: Vec<(Source, String)>,
}

#[derive(Clone)]
struct Child {
    workflow: std::sync::Arc<Workflow>,
    /// The ids below it, along the longest way down.
    deepest: Vec<String>,
}

impl Walk<'_> {
    fn visit(&mut self, sub: &SubWorkflow) -> Result<Child, String> {
        let found = find(sub, self.workspace).map_err(|error| error.to_string())?;
        if let Some((_, again)) = self.chain.iter().find(|(source, _)| *source == found.source) {
            return Err(format!("sub-workflow cycle detected: {}", self.chain_with(std::slice::from_ref(again))));
        }
        let child = match self.heights.get(&found.source) {
            Some(child) => child.clone(),
            None => self.descend(sub, &found)?,
        };
        let mut below = vec![child.workflow.id.to_string()];
        below.extend(child.deepest.iter().cloned());
        if self.chain.len() - 1 + below.len() > MAX_DEPTH {
            return Err(format!("sub-workflow depth limit exceeded (> {MAX_DEPTH}): {}", self.chain_with(&below)));
        }
        Ok(child)
    }

    fn descend(&mut self, sub: &SubWorkflow, found: &Found) -> Result<Child, String> {
        let source = found.source.clone();
        let (workflow, _) = super::validate(found).map_err(|error| {
            let text = error.to_string();
            let more = match text.lines().count() {
                0 | 1 => String::new(),
                lines => format!(" (and {} more)", lines - 1),
            };
            format!("sub-workflow `{}`: {}{more}", sub.id, text.lines().next().unwrap_or_default())
        })?;
        self.chain.push((source.clone(), workflow.id.to_string()));
        let deepest = if self.chain.len() - 1 > MAX_DEPTH { Ok(Vec::new()) } else { self.deepest_below(&workflow) };
        self.chain.pop();
        let child = Child { workflow: std::sync::Arc::new(workflow), deepest: deepest? };
        self.heights.insert(source, child.clone());
        Ok(child)
    }

    fn deepest_below(&mut self, workflow: &Workflow) -> Result<Vec<String>, String> {
        let mut deepest = Vec::new();
        for sub in workflow.phases.iter().flat_map(|phase| &phase.tasks).filter_map(|task| task.sub_workflow.as_ref()) {
            let child = self.visit(sub)?;
            if let Some((_, message)) = check_inputs(sub, &child.workflow, workflow).into_iter().next() {
                return Err(format!("sub-workflow `{}` of `{}`: {message}", sub.id, workflow.id));
            }
            if child.deepest.len() + 1 > deepest.len() {
                deepest = vec![child.workflow.id.to_string()];
                deepest.extend(child.deepest.iter().cloned());
            }
        }
        Ok(deepest)
    }

    fn chain_with(&self, below: &[String]) -> String {
        let above = self.chain.iter().map(|(_, id)| id.as_str());
        above.chain(below.iter().map(String::as_str)).collect::<Vec<_>>().join(" -> ")
    }
}

/// Inputs that the child does not take, and those it needs and is not given. With each, the input's name where the fault
/// lies in a field of its own.
fn check_inputs(sub: &SubWorkflow, child: &Workflow, parent: &Workflow) -> Vec<(Option<String>, String)> {
    let known: BTreeSet<&str> = child.inputs.keys().map(InputName::as_str).collect();
    let mut faults = Vec::new();
    for name in sub.inputs.keys().filter(|name| !known.contains(name.as_str())) {
        let near = did_you_mean(name.as_str(), known.iter().copied());
        let message =
            format!("`{name}` is no input of workflow {}{near} Inputs: {}", child.id, listed(known.iter().copied()));
        faults.push((Some(name.to_string()), message));
    }
    let needed = child.inputs.iter().filter(|(_, spec)| spec.required && spec.default.is_none());
    for (name, _) in needed {
        let inherited = name.as_str() == "question" && parent.inputs.contains_key(name);
        if !sub.inputs.contains_key(name) && !inherited {
            faults.push((None, format!("workflow {} needs the input `{name}`, which is not given", child.id)));
        }
    }
    faults
}
