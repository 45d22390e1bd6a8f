//! What of a planned run is allowed but likely a slip. Pure, from the workflow and the inputs it was planned with.
//!
//! Unlike the rules' warnings these know which inputs were given, so that they are told of every run without noise.

use std::collections::{BTreeMap, BTreeSet};

use flowdrive_protocol::ids::InputName;
use flowdrive_protocol::workflow::{LoopUntil, Workflow};
use serde_json::Value;

use super::document::{did_you_mean, listed};
use super::render::{lookup, placeholders};
use super::rules::PREDICATES;

/// Most that are told; a workflow with more has one mistake many times.
const MOST: usize = 20;

/// The slips, in the order of the workflow, each in a sentence.
#[must_use]
pub fn slips(workflow: &Workflow, inputs: &BTreeMap<InputName, Value>) -> Vec<String> {
    let mut all = Vec::new();
    for phase in &workflow.phases {
        if let Some(LoopUntil::Predicate(name)) = phase.looping.as_ref().map(|looping| &looping.until)
            && !PREDICATES.contains(&name.as_str())
        {
            let near = did_you_mean(name, PREDICATES);
            all.push(format!(
                "phase {}: the loop predicate {name:?} is not known, so the loop ends after one round{near}",
                phase.id
            ));
        }
        for task in &phase.tasks {
            let own = std::iter::once(("prompt".to_owned(), task.prompt.as_str(), "stays as it is"));
            let of_sub = task.sub_workflow.iter().flat_map(|sub| &sub.inputs);
            let passed = of_sub.map(|(name, text)| (format!("input {name}"), text.as_str(), "becomes nothing"));
            for (place, text, becomes) in own.chain(passed) {
                for name in placeholders(text).into_iter().collect::<BTreeSet<_>>() {
                    if lookup(inputs, name).is_some() {
                        continue;
                    }
                    all.push(slip(workflow, name, &format!("task {}, {place}", task.id), becomes));
                }
            }
        }
    }
    if all.len() > MOST {
        let more = all.len() - MOST;
        all.truncate(MOST);
        all.push(format!("and {more} more like these"));
    }
    all
}

fn slip(workflow: &Workflow, name: &str, place: &str, becomes: &str) -> String {
    let known = || workflow.inputs.keys().map(InputName::as_str);
    if known().any(|known| known == name) {
        return format!("{place}: `{{{{{name}}}}}` {becomes}: the input is not given and has no default");
    }
    let near = did_you_mean(name, known());
    format!("{place}: `{{{{{name}}}}}` names no input and {becomes}{near} Inputs: {}", listed(known()))
}
