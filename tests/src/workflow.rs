//! Short-hand for the workflows of tests. Gives plain JSON, so that what goes over the wire is what a user would write.

use serde_json::{Value, json};

/// A task in the making.
#[derive(Debug, Clone)]
pub struct Task(Value);

/// A task whose prompt carries its marker.
#[must_use]
pub fn task(id: &str) -> Task {
    Task(json!({ "id": id, "prompt": format!("Look into {{{{question}}}}. task-marker={id}\n") }))
}

impl Task {
    /// The agent that runs it.
    #[must_use]
    pub fn agent(self, name: &str) -> Self {
        self.set("agent", name)
    }

    /// A result without evidence is refused.
    #[must_use]
    pub fn needs_evidence(self) -> Self {
        self.set("requiresEvidence", true)
    }

    /// Any other field.
    #[must_use]
    pub fn set(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0[field] = value.into();
        self
    }
}

/// A phase whose tasks run at once.
pub fn phase(id: &str, tasks: impl IntoIterator<Item = Task>) -> Value {
    json!({ "id": id, "mode": "parallel", "tasks": tasks.into_iter().map(|task| task.0).collect::<Vec<_>>() })
}

/// A phase whose tasks run one after the other.
pub fn sequential(id: &str, tasks: impl IntoIterator<Item = Task>) -> Value {
    json!({ "id": id, "mode": "sequential", "tasks": tasks.into_iter().map(|task| task.0).collect::<Vec<_>>() })
}

/// A workflow with one input, `question`, that has a default. At most `width` agents at once.
pub fn workflow(width: u32, phases: impl IntoIterator<Item = Value>) -> Value {
    json!({
        "schemaVersion": 1,
        "id": "made-for-a-test",
        "title": "Made for a test",
        "limits": { "maxConcurrentAgents": width },
        "inputs": { "question": { "type": "string", "default": "how this works" } },
        "phases": phases.into_iter().collect::<Vec<_>>(),
    })
}
