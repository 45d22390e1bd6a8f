//! What an earlier result is looked up by, and what changed when none fits.
//!
//! Two ways in. A task with `resultCache` is keyed by the value of one input. A drive that is `incremental` keys every
//! task by all that its result can depend on: prompt, inputs, agent, and the results of every phase before it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::model::state::RunState;
use crate::store::canonical::{sha256_hex, to_string};
use crate::workflow;

/// What an earlier result is looked up by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CacheKey {
    /// SHA-256 over the parts.
    pub digest: String,
    /// The parts by name, each a digest; kept beside the result, so that a later miss can say what changed.
    pub parts: BTreeMap<String, String>,
}

/// The key of a task's result, or why it has none.
///
/// `delegation` describes what the task is run with: agent, model, redacted invocation. `inner` is what a task that is a
/// workflow of its own is made of besides. `upstream` gives the results it depends on, and is asked only where they count.
///
/// # Errors
/// A sentence: why the task is not cached.
pub fn key(
    state: &RunState,
    task: usize,
    incremental: bool,
    delegation: &str,
    inner: Option<&serde_json::Value>,
    upstream: impl FnOnce() -> Result<serde_json::Value, String>,
) -> Result<CacheKey, String> {
    let spec = state.spec(task);
    let mut parts = BTreeMap::new();
    let mut part = |name: &str, value: &serde_json::Value| {
        // A JSON value always has a JSON form.
        parts.insert(name.to_owned(), sha256_hex(to_string(value).unwrap_or_default()));
    };
    part("workflow", &json!(state.workflow.id));
    part("task", &json!(state.tasks[task].id));
    part("prompt", &json!(workflow::render(&spec.prompt, &state.inputs)));
    if let Some(inner) = inner {
        part("sub-workflow", inner);
    }
    if incremental {
        part("inputs", &json!(state.inputs));
        part("agent", &json!([delegation, spec.sandbox]));
        part("upstream", &upstream()?);
    } else {
        let Some(cache) = &spec.result_cache else { return Err("caching is not asked for".to_owned()) };
        let value = state.inputs.get(&cache.key_input).and_then(serde_json::Value::as_str).map_or("", str::trim);
        if value.is_empty() {
            return Err(format!("the input {} that keys it is empty", cache.key_input));
        }
        part(&format!("input {}", cache.key_input), &json!(value));
        if cache.include_completed_results.is_some() {
            part("upstream", &upstream()?);
        }
    }
    let digest =
        sha256_hex(to_string(&json!({ "v": 1, "incremental": incremental, "parts": parts })).unwrap_or_default());
    Ok(CacheKey { digest, parts })
}

/// Ids and digests of the results of every phase before the task's, in byte order of the ids.
///
/// # Errors
/// The task whose result is not known yet, in a sentence.
pub fn upstream(state: &RunState, task: usize) -> Result<serde_json::Value, String> {
    let own = &state.tasks[task].phase;
    let before = state.phases.iter().take_while(|phase| phase.id != *own).flat_map(|phase| &phase.tasks);
    let results = before
        .map(|place| {
            let task = &state.tasks[*place];
            let known = task.accepted.as_ref();
            let result = known.ok_or_else(|| unknown_before(&format!("{} has its result", task.id)))?;
            Ok((task.id.as_str(), result.digest.as_str()))
        })
        .collect::<Result<Vec<_>, String>>()?;
    Ok(digested(results))
}

/// Ids and digests of results as a part of a key.
#[must_use]
pub fn digested(mut results: Vec<(&str, &str)>) -> serde_json::Value {
    results.sort_unstable();
    json!(results)
}

/// Why a task whose earlier results are not known has no key yet.
#[must_use]
pub fn unknown_before(what: &str) -> String {
    format!("not known before {what}")
}

/// Which parts differ between the key looked for and that of the newest result kept.
#[must_use]
pub fn difference(wanted: &CacheKey, kept: &CacheKey) -> String {
    if wanted.parts.keys().ne(kept.parts.keys()) {
        return "the newest result was kept under other rules (`resultCache` or an incremental drive)".to_owned();
    }
    let changed: Vec<&str> = wanted
        .parts
        .iter()
        .filter(|(name, digest)| kept.parts.get(*name) != Some(digest))
        .map(|(name, _)| name.as_str())
        .collect();
    if changed.is_empty() {
        "it was kept by another version".to_owned()
    } else {
        format!("{} changed", changed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(parts: &[(&str, &str)]) -> CacheKey {
        let parts = parts.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect();
        CacheKey { digest: String::new(), parts }
    }

    #[test]
    fn a_miss_says_what_is_different() {
        let keyed = key(&[("input question", "q"), ("prompt", "p"), ("task", "t"), ("workflow", "w")]);
        let incremental = key(&[
            ("agent", "a"),
            ("inputs", "i"),
            ("prompt", "p"),
            ("task", "t"),
            ("upstream", "u"),
            ("workflow", "w"),
        ]);
        let rules = "the newest result was kept under other rules (`resultCache` or an incremental drive)";
        for (wanted, kept, told) in [
            (&keyed, &keyed, "it was kept by another version"),
            (&incremental, &incremental, "it was kept by another version"),
            (&keyed, &incremental, rules),
            (&incremental, &keyed, rules),
            // Keyed by another input, or by earlier results too: no part says which of them changed.
            (&keyed, &key(&[("input topic", "q"), ("prompt", "p"), ("task", "t"), ("workflow", "w")]), rules),
            (&keyed, &key(&[("prompt", "p"), ("task", "t"), ("workflow", "w")]), rules),
            (&keyed, &key(&[]), rules),
            (
                &keyed,
                &key(&[("input question", "r"), ("prompt", "p"), ("task", "t"), ("workflow", "w")]),
                "input question changed",
            ),
            (
                &incremental,
                &key(&[
                    ("agent", "b"),
                    ("inputs", "j"),
                    ("prompt", "p"),
                    ("task", "t"),
                    ("upstream", "u"),
                    ("workflow", "w"),
                ]),
                "agent, inputs changed",
            ),
        ] {
            assert_eq!(difference(wanted, kept), told, "{wanted:?} {kept:?}");
        }
    }
}
