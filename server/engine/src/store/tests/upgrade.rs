use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Bench, Event, note};
use crate::model::upgrade::{Step, upgrade};
use crate::store::{Journal, Recorded, StoreError, read_entries, verify};

/// The same events one version later: a text is a note, and there is a kind that was not there before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
enum Later {
    Note { note: String },
    Done,
    Asked { by: String },
}

const STEPS: &[Step] = &[Step {
    from: 1,
    apply: |event| match event["type"].as_str() {
        Some("note") => {
            *event = json!({ "type": "note", "note": event["text"] });
            Ok(())
        }
        Some("done") => Ok(()),
        other => Err(format!("version 2 has nothing for {other:?}")),
    },
}];

impl Recorded for Later {
    const VERSION: u32 = 2;

    fn upgrade(from: u32, event: Value) -> Result<Value, String> {
        upgrade(STEPS, from, Self::VERSION, event)
    }
}

#[test]
fn an_older_journal_is_upgraded_as_it_is_read_and_gone_on_with_as_it_is() {
    let bench = Bench::new();
    drop(bench.journal(&[note("one"), Event::Done]));
    let before = std::fs::read(&bench.paths.journal).unwrap();

    let (mut journal, loaded) = Journal::<Later>::open(&bench.paths, &bench.id, None).unwrap();
    let events: Vec<Later> = loaded.entries.into_iter().map(|entry| entry.event).collect();
    assert_eq!(events, [Later::Note { note: "one".into() }, Later::Done]);
    let middle = journal.position();
    journal.append(&Later::Asked { by: "me".into() }).unwrap();
    journal.sync_blocking().unwrap();
    let after = std::fs::read(&bench.paths.journal).unwrap();
    assert!(after.starts_with(&before), "what is written stays as it was written");
    assert!(after.ends_with(b",\"seq\":3,\"v\":2}\n"));

    let all = read_entries::<Later>(&bench.paths, &bench.id, None).unwrap().entries;
    assert_eq!(all.len(), 3);
    let rest = read_entries::<Later>(&bench.paths, &bench.id, Some(middle)).unwrap().entries;
    assert_eq!(rest, all[2..], "a place in the older part is found again");
    assert_eq!(verify::<Later>(&bench.paths, &bench.id).unwrap().problems, []);

    // The older program says which line is beyond it, and changes nothing.
    for fault in [
        read_entries::<Event>(&bench.paths, &bench.id, None).unwrap_err(),
        Journal::<Event>::open(&bench.paths, &bench.id, None).unwrap_err(),
    ] {
        assert!(matches!(fault, StoreError::Unsupported { line: Some(3), .. }), "{fault}");
    }
    assert_eq!(verify::<Event>(&bench.paths, &bench.id).unwrap().problems[0].code, "wrong-version");
    assert_eq!(std::fs::read(&bench.paths.journal).unwrap(), after);
}

#[test]
fn an_older_event_that_no_step_understands_is_unsupported_and_named() {
    let bench = Bench::new();
    drop(bench.journal(&[note("one"), Event::Many { items: vec![None] }]));
    let fault = read_entries::<Later>(&bench.paths, &bench.id, None).unwrap_err();
    assert!(matches!(fault, StoreError::Unsupported { line: Some(2), .. }), "{fault}");
    assert!(fault.to_string().contains("many"), "{fault}");
}
