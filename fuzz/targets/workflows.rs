//! Workflow documents, which come with a repository: TOML where the first byte is odd, else JSON; from a file and, where it is
//! JSON, also in a request. A fault has words.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use flowdrive_engine::workflow;
use flowdrive_protocol::method::WorkflowRef;
use libfuzzer_sys::fuzz_target;

/// A folder of this process, in memory where there is such a place.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = place.join(format!("flowdrive-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        folder
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, text)) = input.split_first() else { return };
    let name = if first % 2 == 1 { "w.toml" } else { "w.json" };
    std::fs::write(folder().join(name), text).expect("a file can be written");
    let from_file = workflow::load(WorkflowRef::Path(name.to_owned()), folder());
    if let Err(error) = &from_file {
        assert!(!error.to_string().is_empty() && !error.hint().is_empty());
    }
    if first % 2 == 0
        && let Ok(value) = serde_json::from_slice(text)
    {
        let inline = workflow::load(WorkflowRef::Inline(value), folder());
        // A value may be read where a document is not (a name given twice), never the other way round.
        if let Ok(loaded) = from_file {
            assert_eq!(inline.expect("what is good in a file is good in a request").workflow, loaded.workflow);
        }
    }
});
