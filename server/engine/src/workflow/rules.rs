//! The rules of a workflow that its types cannot say. Pure: what lies outside the document (sub-workflows) is `nesting`'s.

use std::collections::{BTreeMap, BTreeSet};

use flowdrive_protocol::ids::MAX_ID_BYTES;
use flowdrive_protocol::workflow::{InputSpec, LoopUntil, Phase, Task, Workflow};

use super::document::{Document, Fault, FieldPath, did_you_mean, listed};
use super::inputs::{NUL, check_default};
use super::place::lexically_inside;
use super::render::placeholders;

/// Loop predicates that can be named in `until = { predicate = ... }`.
pub const PREDICATES: [&str; 2] = ["no-new-findings", "single-round"];

/// What the rules found: faults forbid the workflow, warnings are told.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<Fault>,
}

/// Applies every rule.
pub(super) fn check(workflow: &Workflow, document: &Document) -> Findings {
    let mut rules = Rules { workflow, document, findings: Findings::default() };
    let root = FieldPath::root();
    if workflow.title.trim().is_empty() {
        rules.fault(&root.key("title"), "must not be empty");
    }
    rules.limits(&root);
    for (name, spec) in &workflow.inputs {
        rules.input(spec, &root.key("inputs").key(name.as_str()));
    }
    rules.phases(&root);
    rules.findings
}

struct Rules<'a> {
    workflow: &'a Workflow,
    document: &'a Document,
    findings: Findings,
}

impl Rules<'_> {
    fn fault(&mut self, path: &FieldPath, message: impl Into<String>) {
        self.findings.faults.push(self.document.fault(path, message));
    }

    fn warn(&mut self, path: &FieldPath, message: impl Into<String>) {
        self.findings.warnings.push(self.document.fault(path, message));
    }

    fn limits(&mut self, root: &FieldPath) {
        let limits = &self.workflow.limits;
        let path = root.key("limits");
        if limits.max_concurrent_agents > limits.max_agents {
            self.fault(
                &path.key("maxConcurrentAgents"),
                format!("is {}, more than maxAgents, which is {}", limits.max_concurrent_agents, limits.max_agents),
            );
        }
        let total = self
            .workflow
            .phases
            .iter()
            .map(|phase| {
                let rounds = phase.looping.as_ref().map_or(1, |looping| u64::from(looping.max_rounds.get()));
                rounds.saturating_mul(phase.tasks.len() as u64)
            })
            .fold(0, u64::saturating_add);
        if total > u64::from(limits.max_agents.get()) {
            self.fault(
                &path.key("maxAgents"),
                format!("is {}, but the workflow has {total} tasks, loops counted in full", limits.max_agents),
            );
        }
        if total == 0 {
            self.warn(&root.key("phases"), "no phase holds a task; a run has nothing to do");
        }
    }

    fn input(&mut self, spec: &InputSpec, path: &FieldPath) {
        let Some(default) = &spec.default else { return };
        if let Err(reason) = check_default(spec, default) {
            self.fault(&path.key("default"), reason);
        }
        if spec.required {
            self.warn(&path.key("required"), "has no effect: the default is used when no value is given");
        }
    }

    fn phases(&mut self, root: &FieldPath) {
        let mut phase_ids = BTreeSet::new();
        let mut task_ids = BTreeMap::new();
        for (index, phase) in self.workflow.phases.iter().enumerate() {
            let path = root.key("phases").at(index);
            if !phase_ids.insert(phase.id.as_str()) {
                self.fault(&path.key("id"), format!("Duplicate phase id: {}", phase.id));
            }
            self.reserved("phase", phase.id.as_str(), phase, &path.key("id"));
            self.looping(phase, &path.key("loop"));
            for (index, task) in phase.tasks.iter().enumerate() {
                let path = path.key("tasks").at(index);
                if let Some(first) = task_ids.insert(task.id.as_str(), phase.id.as_str()) {
                    let message = format!("Duplicate task id: {} (also in phase {first})", task.id);
                    self.fault(&path.key("id"), message);
                }
                self.reserved("task", task.id.as_str(), phase, &path.key("id"));
                self.task(task, &path);
            }
        }
    }

    /// Later rounds of a loop make ids of their own, which must neither collide nor grow too long.
    fn reserved(&mut self, kind: &str, id: &str, phase: &Phase, path: &FieldPath) {
        if let Some((_, round)) = id.rsplit_once("@r")
            && !round.is_empty()
            && round.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.fault(path, format!("a {kind} id must not end in `@r{round}`: loops name their later rounds so"));
        }
        if let Some(looping) = &phase.looping {
            let suffix = format!("@r{}", looping.max_rounds);
            if id.len() + suffix.len() > MAX_ID_BYTES {
                let most = MAX_ID_BYTES - suffix.len();
                self.fault(path, format!("is too long for a looped {kind}: at most {most} bytes"));
            }
        }
    }

    fn looping(&mut self, phase: &Phase, path: &FieldPath) {
        let Some(looping) = &phase.looping else { return };
        if phase.tasks.is_empty() {
            self.warn(path, "the phase has no tasks to repeat");
        }
        match &looping.until {
            LoopUntil::NoNewFindings(_) | LoopUntil::FindingsBelow(_) => {}
            LoopUntil::BudgetTarget(0) => {
                self.fault(&path.key("until").key("budgetTarget"), "must be at least 1; 0 is reached before the start");
            }
            LoopUntil::BudgetTarget(_) => {}
            LoopUntil::Predicate(name) if PREDICATES.contains(&name.as_str()) => {}
            LoopUntil::Predicate(name) => {
                let near = did_you_mean(name, PREDICATES);
                self.warn(
                    &path.key("until").key("predicate"),
                    format!(
                        "{name:?} is not known, so the loop ends after one round{near} Known: {}",
                        listed(PREDICATES)
                    ),
                );
            }
        }
    }

    fn task(&mut self, task: &Task, path: &FieldPath) {
        let known = || self.workflow.inputs.keys().map(|name| name.as_str());
        if task.prompt.trim().is_empty() && task.sub_workflow.is_none() {
            self.fault(&path.key("prompt"), "must not be empty: say what the agent is to do, or name a subWorkflow");
        }
        if task.timeout_ms == Some(0) {
            self.fault(&path.key("timeoutMs"), "must be at least 1; leave it out for the agent's own limit");
        }
        if let Some(cache) = &task.result_cache
            && !self.workflow.inputs.contains_key(&cache.key_input)
        {
            let near = did_you_mean(cache.key_input.as_str(), known());
            let message =
                format!("`{}` is no input of this workflow{near} Inputs: {}", cache.key_input, listed(known()));
            self.fault(&path.key("resultCache").key("keyInput"), message);
        }
        for (index, artifact) in task.artifacts.iter().enumerate() {
            if let Err(reason) = lexically_inside(artifact) {
                self.fault(&path.key("artifacts").at(index), reason);
            }
        }
        // All that can come to an agent's command line.
        for (field, text) in [("prompt", Some(&task.prompt)), ("model", task.model.as_ref())] {
            if text.is_some_and(|text| text.contains('\0')) {
                self.fault(&path.key(field), NUL);
            }
        }
        self.placeholders(&task.prompt, &path.key("prompt"));
        if let Some(sub) = &task.sub_workflow {
            for (name, template) in &sub.inputs {
                if template.contains('\0') {
                    self.fault(&path.key("subWorkflow").key("inputs").key(name.as_str()), NUL);
                }
                self.placeholders(template, &path.key("subWorkflow").key("inputs").key(name.as_str()));
            }
        }
    }

    fn placeholders(&mut self, text: &str, path: &FieldPath) {
        for name in placeholders(text).into_iter().collect::<BTreeSet<_>>() {
            let known = || self.workflow.inputs.keys().map(|name| name.as_str());
            match self.workflow.inputs.iter().find(|(known, _)| known.as_str() == name) {
                None => {
                    let near = did_you_mean(name, known());
                    let message =
                        format!("`{{{{{name}}}}}` names no input and stays as it is{near} Inputs: {}", listed(known()));
                    self.warn(path, message);
                }
                Some((_, spec)) if !spec.required && spec.default.is_none() => self.warn(
                    path,
                    format!("`{{{{{name}}}}}` stays as it is when the input is not given; give the input a default"),
                ),
                Some(_) => {}
            }
        }
    }
}
