//! What a process is started with, whichever system starts it: nothing of ours but what is said here reaches it.
//!
//! Must not: start anything.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use super::env::MARKER;

/// A process to be started, with both outputs piped to us.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch<'a> {
    /// The program, as an absolute path.
    pub(super) path: &'a Path,
    /// What the program is told that it is called.
    #[cfg_attr(windows, expect(dead_code, reason = "programs are called by their paths there"))]
    pub(super) name: &'a str,
    /// Its arguments.
    pub(super) args: &'a [String],
    /// Its whole environment, but for the marker.
    pub(super) vars: &'a BTreeMap<String, String>,
    /// What marks it, and all that it starts.
    pub(super) marker: &'a str,
    /// The folder it runs in.
    pub(super) dir: &'a Path,
    /// What it reads; nothing without.
    pub(super) stdin: Option<&'a File>,
}

impl<'a> Launch<'a> {
    /// Its whole environment, in the order of the names' bytes.
    pub(super) fn env(&self) -> BTreeMap<&'a str, &'a str> {
        let vars = self.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        vars.chain([(MARKER, self.marker)]).collect()
    }

    /// The same for the standard library.
    ///
    /// # Errors
    /// When there is no room for another open file.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn command(&self) -> std::io::Result<std::process::Command> {
        use std::process::Stdio;
        let mut command = std::process::Command::new(self.path);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, self.name);
        command.args(self.args).env_clear().envs(self.env()).current_dir(self.dir);
        command.stdin(match self.stdin {
            Some(file) => Stdio::from(file.try_clone()?),
            None => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}
