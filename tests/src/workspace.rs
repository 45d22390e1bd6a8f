//! A workspace for one test: a folder with a few sources, and beside it (never inside it) a home, a configuration, the
//! agents' ledger and the server's log. All of it is gone afterwards, and so is every process of the test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use flowdrive_protocol::config::Config;
use tempfile::TempDir;

use crate::{binary, census, config, ledger, tree};

/// A locator that exists in every [`TestWorkspace`] made with [`TestWorkspace::new`].
pub const CITE: &str = "src/lib.rs:2";

/// One test's folder.
#[derive(Debug)]
pub struct TestWorkspace {
    root: TempDir,
    servers: Arc<Mutex<Vec<u32>>>,
}

impl TestWorkspace {
    /// A small project: three sources and a read-me. The default agent is `good`, a fixture that cites [`CITE`].
    #[must_use]
    pub fn new() -> Self {
        let ws = Self::empty();
        ws.write("README.md", "# A made-up project\n\nRuns are stored by `store`.\n");
        ws.write("src/lib.rs", "//! A made-up project.\npub mod store;\npub mod entry;\n");
        ws.write(
            "src/store.rs",
            "/// Stores a run.\npub fn store_run(name: &str) -> String {\n    name.to_owned()\n}\n",
        );
        ws.write(
            "src/entry.rs",
            "/// Where runs enter.\npub fn entry() {\n    super::store::store_run(\"a run\");\n}\n",
        );
        ws
    }

    /// The files of this repository that git tracks, or would.
    ///
    /// # Panics
    /// When git cannot list them.
    #[must_use]
    pub fn copy_of_repository() -> Self {
        let ws = Self::empty();
        let source = binary::repository();
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(source)
            .output()
            .expect("git runs");
        assert!(listed.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
        for name in listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = std::str::from_utf8(name).expect("this repository has UTF-8 names");
            let from = source.join(name);
            if from.is_file() {
                let to = ws.path().join(name);
                fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("the copy can be written");
                fs::copy(from, to).expect("the copy can be written");
            }
        }
        ws
    }

    fn empty() -> Self {
        let root = tempfile::Builder::new().prefix("flowdrive-test-").tempdir().expect("a temporary folder");
        let ws = Self { root, servers: Arc::default() };
        for folder in [ws.path(), ws.home()] {
            fs::create_dir_all(folder).expect("a temporary folder");
        }
        let good = config::fixture(&ws, &["--cite", CITE]);
        ws.configure(&config::config([("good", good)]));
        ws
    }

    /// The workspace itself.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    /// The workspace's path as it goes over the wire.
    #[must_use]
    pub fn text(&self) -> String {
        self.path().to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// The folder that holds the workspace and everything else of the test; names the test's processes.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The servers of the test that have not been ended.
    pub(crate) fn servers(&self) -> Arc<Mutex<Vec<u32>>> {
        Arc::clone(&self.servers)
    }

    /// The home that the server and its agents see.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.root.path().join("config.toml")
    }

    /// Where agents write down that they ran.
    #[must_use]
    pub fn ledger(&self) -> PathBuf {
        self.root.path().join("ledger")
    }

    /// How often each task's agent was started.
    #[must_use]
    pub fn agent_runs(&self) -> BTreeMap<String, usize> {
        ledger::runs(&self.ledger())
    }

    /// A path outside the workspace that does not exist yet: a gate agents wait at, a counter they keep.
    #[must_use]
    pub fn beside(&self, name: &str) -> String {
        self.root.path().join(name).to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// Lets through the agents that wait at this gate.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn open_gate(&self, name: &str) {
        fs::write(self.beside(name), "").expect("the gate can be opened");
    }

    /// Writes a file of the workspace.
    ///
    /// # Panics
    /// When that fails.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the workspace can be written");
        fs::write(&path, content).expect("the workspace can be written");
        path
    }

    /// Writes the user's configuration.
    ///
    /// # Panics
    /// When that fails.
    pub fn configure(&self, config: &Config) {
        let text = toml::to_string(config).expect("a configuration can be written as TOML");
        fs::write(self.config_file(), text).expect("the configuration can be written");
    }

    /// The folder of a run.
    #[must_use]
    pub fn run_folder(&self, run: impl AsRef<str>) -> PathBuf {
        self.path().join(".cw/runs").join(run.as_ref())
    }

    /// A run's snapshot of the state.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn state(&self, run: impl AsRef<str>) -> serde_json::Value {
        let path = self.run_folder(run).join("state.json");
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&text).expect("the snapshot is JSON")
    }

    /// The workspace as it is now.
    #[must_use]
    pub fn snapshot(&self) -> BTreeMap<PathBuf, tree::Entry> {
        tree::snapshot(&self.path())
    }

    /// A command that sees nothing of the real user's settings.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["CW_", "FLOWDRIVE_", "XDG_", "NO_COLOR", "RUST_LOG"].iter().any(|p| name_text.starts_with(p)) {
                command.env_remove(&name);
            }
        }
        command.current_dir(self.path()).env("HOME", self.home()).env("XDG_CONFIG_HOME", self.home().join(".config"));
        command
    }

    /// The `flowdrive` command line with this test's configuration, for programs that end by themselves.
    #[must_use]
    pub fn flowdrive(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(binary::flowdrive());
        command.args(arguments);
        command
    }
}

impl Default for TestWorkspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestWorkspace {
    fn drop(&mut self) {
        let left = census::sweep(self.root.path());
        if !left.is_empty() && !std::thread::panicking() {
            panic!("the test left processes behind (now ended): {left:#?}");
        }
    }
}
