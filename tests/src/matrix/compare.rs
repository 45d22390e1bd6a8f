//! What two runs have to have in common, whatever happened on the way: all but times, processes, hashes, the numbers of
//! attempts, and attempts that were interrupted.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::scene::Scene;

/// How a scene ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// How often each task's agent ran.
    pub(super) runs: BTreeMap<String, usize>,
    states: BTreeMap<String, Value>,
    reports: BTreeMap<String, Vec<String>>,
    results: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

impl Outcome {
    pub(super) fn of(scene: &Scene) -> Self {
        let names = scene.run_names();
        let state = |name: &String| (name.clone(), plain(scene.ws.state(name)["state"]["state"].clone()));
        let report = |name: &String| {
            let path = scene.ws.run_folder(name).join("report.md");
            let text = fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
            assert!(path.with_extension("html").is_file(), "{name} has its page");
            (name.clone(), text.lines().filter(|line| tells(line)).map(plain_text).collect())
        };
        let results = |name: &String| {
            let folder = scene.ws.run_folder(name).join("results");
            let entries = fs::read_dir(&folder).unwrap_or_else(|fault| panic!("{}: {fault}", folder.display()));
            let files = entries.flatten().map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read(entry.path()).expect("a result can be read"))
            });
            (name.clone(), files.collect())
        };
        Self {
            runs: scene.runs().into_iter().map(|(task, workers)| (task, workers.len())).collect(),
            states: names.iter().map(state).collect(),
            reports: names.iter().map(report).collect(),
            results: names.iter().map(results).collect(),
        }
    }

    pub(super) fn assert_same(&self, expected: &Self, when: &str) {
        for (name, state) in &expected.states {
            let found = self.states.get(name).unwrap_or_else(|| panic!("{when}, run {name} is missing"));
            assert!(!state.is_null(), "the snapshot has a state");
            if let Some(place) = difference(found, state, "state") {
                panic!("{when}, the state of {name} is another: {place}");
            }
        }
        assert_eq!(self.reports, expected.reports, "{when}, the report is another");
        assert_eq!(self.results, expected.results, "{when}, the results are others");
    }
}

/// Whether a line of the report tells more than when and by which attempt.
fn tells(line: &str) -> bool {
    // The table of who ran when, and totals of time.
    !(line.contains("ms") || line.contains(" s |") || line.contains("worker-") || line.contains("2026-"))
}

fn plain_text(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    // The number of an attempt is four digits after a dash.
    while let Some(at) = rest.find('-') {
        let (before, after) = rest.split_at(at + 1);
        plain.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 4 {
            plain.push_str("NNNN");
            rest = &after[4..];
        } else {
            rest = after;
        }
    }
    plain.push_str(rest);
    plain
}

/// A state without what may differ.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            const ASIDE: [&str; 15] = [
                "acceptedAt",
                "createdAt",
                "updatedAt",
                "startedAt",
                "endedAt",
                "at",
                "closedAt",
                "openedAt",
                "resolvedAt",
                "notBefore",
                "process",
                "eventSeq",
                "gitHead",
                "settings",
                // The input names the attempt's own folder.
                "promptDigest",
            ];
            let kept = fields.into_iter().filter(|(name, _)| !ASIDE.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (plain_text(&name), plain(value))).collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().filter(|item| item["verdict"] != "interrupted").map(plain).collect())
        }
        Value::String(text) => Value::String(plain_text(&text)),
        other => other,
    }
}

/// The first place where two values differ.
fn difference(found: &Value, expected: &Value, place: &str) -> Option<String> {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => a.keys().chain(b.keys()).find_map(|name| {
            let inner = format!("{place}.{name}");
            difference(a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null), &inner)
        }),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(n, (a, b))| difference(a, b, &format!("{place}[{n}]")))
        }
        _ if found == expected => None,
        _ => Some(format!("{place} is {found:#} and should be {expected:#}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn interruptions_and_times_count_for_nothing_and_verdicts_do() {
        let attempt =
            |worker: &str, verdict: &str, at: &str| json!({ "worker": worker, "verdict": verdict, "startedAt": at });
        let one = json!({ "attempts": [attempt("worker-a-0001", "accepted", "1")] });
        let two = json!({ "attempts": [attempt("worker-a-0001", "interrupted", "1"), attempt("worker-a-0002", "accepted", "2")] });
        let three = json!({ "attempts": [attempt("worker-a-0001", "refused", "1")] });
        assert_eq!(difference(&plain(two), &plain(one.clone()), "s"), None);
        let found = difference(&plain(three), &plain(one), "s");
        assert_eq!(found.as_deref(), Some("s.attempts[0].verdict is \"refused\" and should be \"accepted\""));
    }
}
