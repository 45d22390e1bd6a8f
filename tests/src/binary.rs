//! Where the programs under test are. Refuses a binary that is older than its own sources.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The `flowdrive` binary: `FLOWDRIVE_BIN`, else the one beside the running test.
///
/// # Panics
/// When there is none, or it is stale. The message says how to build it.
#[must_use]
pub fn flowdrive() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("FLOWDRIVE_BIN") {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "FLOWDRIVE_BIN names {}, which is not a file", path.display());
            return path;
        }
        let path = target_folder().join("flowdrive");
        assert!(path.is_file(), "{} is missing; run `cargo build -p flowdrive` first", path.display());
        if let Some(newer) = newer_source(&path) {
            panic!("{} is older than {}; run `cargo build -p flowdrive` first", path.display(), newer.display());
        }
        path
    })
}

/// The fixture agent: a program that does whatever a test asks of an agent.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn fixture_agent() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = target_folder().join("fixture-agent");
        assert!(path.is_file(), "{} is missing; run `cargo build -p flowdrive-tests --bins` first", path.display());
        path
    })
}

/// A build of `flowdrive` that dies or fails on demand (feature `fault-injection`), in a target folder of its own, made
/// now unless it is there. The first time takes as long as building the program.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn fault_injected() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let target = repository().join("target/fault-injection");
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--locked", "-p", "flowdrive", "--features", "fault-injection", "--target-dir"])
            .arg(&target)
            .current_dir(repository())
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the build with fault injection failed");
        target.join("debug/flowdrive")
    })
}

/// The repository this crate is part of.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the repository")
}

fn target_folder() -> PathBuf {
    let executable = std::env::current_exe().expect("the running test has a path");
    let folder = executable.parent().expect("an executable is in a folder");
    if folder.ends_with("deps") { folder.parent().expect("deps is in the profile's folder") } else { folder }.to_owned()
}

/// A source the binary was made from that changed after it was made, as told by cargo's own dependency file.
fn newer_source(binary: &Path) -> Option<PathBuf> {
    let built = modified(binary)?;
    let dependencies = std::fs::read_to_string(binary.with_extension("d")).ok()?;
    let (_, sources) = dependencies.split_once(": ")?;
    sources.split_whitespace().map(PathBuf::from).find(|source| modified(source).is_some_and(|at| at > built))
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}
