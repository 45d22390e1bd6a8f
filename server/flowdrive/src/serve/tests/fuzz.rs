//! Made-up input for all that reads what others wrote: frames, messages, results of agents, journals, workflows. Bounded
//! in a normal run; `FLOWDRIVE_FUZZ_SECONDS=600 cargo test -p flowdrive fuzz -- --nocapture` goes on for longer.
//! `FLOWDRIVE_FUZZ_SEED` repeats a run; a failure says the seed of its input.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use flowdrive_engine::accept::parse::parse;
use flowdrive_engine::model::journal::JournalEvent;
use flowdrive_engine::store::{Journal, RunPaths, StoreError, Workspace, read_entries};
use flowdrive_engine::workflow;
use flowdrive_protocol::ids::{PhaseId, RunId};
use flowdrive_protocol::method::WorkflowRef;
use flowdrive_protocol::run::StopMode;

use super::*;

/// A small generator of numbers: the same from the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap()
    }

    /// A seed that was changed here and there: bytes replaced, taken out, put in, doubled, or words from other seeds.
    fn mutate(&mut self, seeds: &[&[u8]]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(6) {
                0 if at < bytes.len() => bytes[at] = self.next().to_le_bytes()[0],
                1 => drop(bytes.drain(at..end)),
                2 => bytes.insert(at, b"\0\n\r{}[]\":,0-\xff\xc3 "[self.below(15)]),
                3 => {
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => bytes.truncate(at),
                _ => {
                    let other = seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    let to = (from + self.below(40)).min(other.len());
                    bytes.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        bytes
    }
}

/// Feeds inputs to `target` for as long as asked, and says how many there were.
fn fuzz(name: &str, mut target: impl FnMut(&mut Dice)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number("FLOWDRIVE_FUZZ_SECONDS").unwrap_or(1));
    let first = number("FLOWDRIVE_FUZZ_SEED").unwrap_or(1).max(1);
    let started = Instant::now();
    let mut inputs = 0_u64;
    // A few at least, however slow the machine.
    while inputs < 50 || started.elapsed() < time {
        let seed = first + inputs;
        // Neighbouring seeds should not begin alike.
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let run = std::panic::catch_unwind(AssertUnwindSafe(|| target(&mut dice)));
        assert!(run.is_ok(), "{name}: repeat it with FLOWDRIVE_FUZZ_SEED={seed}");
        inputs += 1;
    }
    let told = format!("fuzz {name}: {inputs} inputs in {:.1} s\n", started.elapsed().as_secs_f64());
    io::stderr().write_all(told.as_bytes()).unwrap();
}

const MESSAGES: &[&[u8]] = &[
    br#"{"jsonrpc":"2.0","id":1,"method":"drive","params":{"workflow":{"id":"quick-survey"},"inputs":{"question":"?"}}}"#,
    br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"a"}}"#,
    br#"[{"jsonrpc":"2.0","id":-1,"method":"doctor"},{"jsonrpc":"2.0","id":99999999999999999999,"result":null}]"#,
    "{\"jsonrpc\":\"2.0\",\"id\":\"\u{1f980}\",\"error\":{\"code\":-32601,\"message\":\"\\ud83e\\udd80\"}}".as_bytes(),
];

#[test]
fn fuzz_frames_of_both_kinds_are_the_same_however_they_are_cut() {
    let framed: Vec<Vec<u8>> = [Framing::Lsp, Framing::Ndjson]
        .into_iter()
        .flat_map(|framing| {
            MESSAGES.iter().map(move |body| {
                let mut bytes = Vec::new();
                encode(framing, body, &mut bytes);
                encode(framing, body, &mut bytes);
                bytes
            })
        })
        .collect();
    let seeds: Vec<&[u8]> = framed.iter().map(Vec::as_slice).collect();
    let decode = |framing: Option<Framing>, chunks: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = Decoder::new(framing, 400);
        let mut frames = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(frame) = decoder.next_frame() {
                frames.push(frame.map_err(|error| error.to_string()));
            }
        }
        frames.extend(decoder.finish().map(|frame| frame.map_err(|error| error.to_string())));
        frames
    };
    fuzz("framing", |dice| {
        let input = dice.mutate(&seeds);
        let framing = [None, Some(Framing::Lsp), Some(Framing::Ndjson)][dice.below(3)];
        let bytewise = decode(framing, &mut input.chunks(1));
        let size = 1 + dice.below(64);
        assert_eq!(bytewise, decode(framing, &mut input.chunks(size)), "in pieces of {size}");
        for frame in bytewise.into_iter().flatten() {
            super::super::message::read(&frame);
        }
    });
}

#[test]
fn fuzz_results_of_agents() {
    let seeds: &[&[u8]] = &[
        b"# Done\n\n```cw:result\n{\"summary\": \"s\", \"findings\": [{\"id\": \"f\", \"severity\": \"P1\", \"classification\": \"real\", \"evidence\": [\"src/lib.rs:1-2\"]}], \"evidence\": [\"src/lib.rs:1\"]}\n```\n",
        b"```json cw:result\n{\"verdict\": \"x\", \"usage\": {\"inputTokens\": 1e9}}\n````\n~~~\n",
        "No block, but `src/a.rs:10` and https://example.com/\u{1f980} and ns:value.\n".as_bytes(),
    ];
    fuzz("results", |dice| {
        let text = String::from_utf8_lossy(&dice.mutate(seeds)).into_owned();
        if let Ok(result) = parse(&text) {
            // The same text means the same.
            assert_eq!(format!("{result:?}"), format!("{:?}", parse(&text).unwrap()));
        }
    });
}

#[test]
fn fuzz_journals_never_give_what_was_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunId::new("fuzz").unwrap();
    let paths: RunPaths = Workspace::open(folder.path()).unwrap().create_run(&run).unwrap();
    let mut journal = Journal::<JournalEvent>::create(&paths, &run).unwrap();
    let phase = |name: &str| PhaseId::new(name).unwrap();
    for event in [
        JournalEvent::PhaseStarted { phase: phase("a"), width: 3 },
        JournalEvent::StopRequested { mode: StopMode::Graceful, by: "\u{1f980}".to_owned() },
        JournalEvent::PhaseFinished { phase: phase("a") },
    ] {
        journal.append(&event).unwrap();
    }
    journal.sync_blocking().unwrap();
    drop(journal);
    let written: Vec<JournalEvent> =
        read_entries::<JournalEvent>(&paths, &run, None).unwrap().entries.into_iter().map(|one| one.event).collect();
    let bytes = std::fs::read(&paths.journal).unwrap();
    fuzz("journals", |dice| {
        std::fs::write(&paths.journal, dice.mutate(&[&bytes])).unwrap();
        match read_entries::<JournalEvent>(&paths, &run, None) {
            Ok(loaded) => {
                let found: Vec<JournalEvent> = loaded.entries.into_iter().map(|one| one.event).collect();
                assert!(written.starts_with(&found), "{found:?}");
            }
            Err(StoreError::Corrupt { .. } | StoreError::Unsupported { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    });
}

#[test]
fn fuzz_workflows_in_toml_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let toml = include_bytes!("../../../../engine/workflows/quick-survey.toml");
    let json = br#"{"schemaVersion": 1, "id": "w", "title": "W", "phases": [{"id": "p", "mode": "parallel", "tasks": [{"id": "t", "prompt": "{{question}}"}]}], "inputs": {"question": {"type": "string", "default": 3}}}"#;
    let mut refused = 0;
    fuzz("workflows", |dice| {
        let (name, seed): (&str, &[u8]) = if dice.below(2) == 0 { ("w.toml", toml) } else { ("w.json", json) };
        std::fs::write(folder.path().join(name), dice.mutate(&[seed])).unwrap();
        if let Err(error) = workflow::load(WorkflowRef::Path(name.to_owned()), folder.path()) {
            refused += 1;
            assert!(!error.to_string().is_empty());
        }
    });
    assert!(refused > 0, "or the changes change nothing");
}
