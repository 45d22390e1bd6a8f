//! Journals of older versions: how each version's events become the next one's. Pure; the journal on the disk is never
//! rewritten, it is upgraded whenever it is read.
//!
//! Must not forget a version that was ever released: `tests/fixtures/runs/` keeps a run of each.

use serde_json::Value;

use super::journal::{JournalEvent, STATE_VERSION};
use crate::store::Recorded;

/// Makes the events of one version those of the next.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The version it starts from.
    pub from: u32,
    /// Changes an event of that version into one of the next; says what it cannot make sense of.
    pub apply: fn(&mut Value) -> Result<(), String>,
}

/// One for each version there was but the newest, oldest first.
pub const STEPS: &[Step] = &[];

/// An event of version `from` as one of version `to`.
///
/// # Errors
/// When a step is missing, or cannot make sense of the event.
pub fn upgrade(steps: &[Step], from: u32, to: u32, mut event: Value) -> Result<Value, String> {
    for version in from..to {
        let step = steps.iter().find(|step| step.from == version);
        let step = step.ok_or_else(|| format!("there is no way from version {version} to {}", version + 1))?;
        (step.apply)(&mut event)?;
    }
    Ok(event)
}

impl Recorded for JournalEvent {
    const VERSION: u32 = STATE_VERSION;

    fn upgrade(from: u32, event: Value) -> Result<Value, String> {
        upgrade(STEPS, from, STATE_VERSION, event)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MADE_UP: &[Step] = &[
        Step {
            from: 1,
            apply: |event| {
                if let Some(text) = event.as_object_mut().and_then(|fields| fields.remove("text")) {
                    event["note"] = text;
                }
                Ok(())
            },
        },
        Step {
            from: 2,
            apply: |event| match event["type"].as_str() {
                Some("gone") => Err("version 3 has no such event".to_owned()),
                _ => {
                    event["checked"] = json!(true);
                    Ok(())
                }
            },
        },
    ];

    #[test]
    fn an_event_goes_through_every_version_between() {
        let old = json!({ "type": "said", "text": "a" });
        let new = json!({ "type": "said", "note": "a", "checked": true });
        assert_eq!(upgrade(MADE_UP, 1, 3, old.clone()), Ok(new.clone()));
        assert_eq!(upgrade(MADE_UP, 2, 3, json!({ "type": "said", "note": "a" })), Ok(new.clone()));
        assert_eq!(upgrade(MADE_UP, 3, 3, new.clone()), Ok(new), "the newest is left as it is");
        assert!(upgrade(MADE_UP, 1, 3, json!({ "type": "gone" })).unwrap_err().contains("no such event"));
        assert!(upgrade(MADE_UP, 0, 3, old.clone()).unwrap_err().contains("from version 0"));
        assert!(upgrade(MADE_UP, 1, 4, old).unwrap_err().contains("from version 3"));
    }

    #[test]
    fn there_is_a_step_for_every_version_there_was() {
        let versions: Vec<u32> = STEPS.iter().map(|step| step.from).collect();
        assert_eq!(versions, (1..STATE_VERSION).collect::<Vec<_>>());
    }
}
