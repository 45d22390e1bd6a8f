//! Asking an installed program for its version: started as an agent is, with the agent's own environment, and ended with
//! everything it started after a short time, whatever it does.
//!
//! Must not: write a file, pass a secret on, or be used on what was not found on `PATH`: `--version` is a convention of
//! installed programs, and no more than an argument to somebody's script.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::activity::strip_controls;
use super::delegator::Shared;
use super::env::AgentEnv;
use super::launch::Launch;
use super::os::{Exit, NEUTRAL_FOLDER};
use super::pipes::{Pipes, Read};
use super::program;
use super::supervise::{KILL_WAIT, Leader};

/// How long a program may take to say its version.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Bytes of each output that are looked at; the rest is read and dropped.
const KEPT: usize = 8 * 1024;

/// Longest version shown, in characters.
const LONGEST: usize = 100;

/// What `PROGRAM --version` printed first, redacted and cut. When this returns, nothing it started is alive.
///
/// # Errors
/// In words: why there is no version.
pub(super) async fn version(shared: &Shared, path: &Path, agent_env: &AgentEnv) -> Result<String, String> {
    let marker = shared.next_marker();
    let launch = Launch {
        path,
        name: &path.to_string_lossy(),
        args: &["--version".to_owned()],
        vars: &agent_env.vars,
        marker: &marker,
        // Not the workspace: a project's own settings have no part in what is installed.
        dir: Path::new(NEUTRAL_FOLDER),
        stdin: None,
    };
    let started = shared
        .spawner
        .spawn(&launch)
        .await
        .map_err(|error| program::explain(&error, path, Path::new(NEUTRAL_FOLDER)).0)?;
    let identity = started.identity(marker);
    let unreadable = |error: std::io::Error| format!("its output cannot be read: {error}");
    let exit = Exit::of(&started);
    let mut leader = Leader::new(started);
    let mut exit = exit.map_err(unreadable)?;
    let mut pipes = Pipes::of(leader.child()).map_err(unreadable)?;

    let mut printed = Printed::default();
    let stopped = shared.stopped();
    tokio::pin!(stopped);
    let deadline = Instant::now() + PATIENCE;
    let ended = loop {
        tokio::select! {
            biased;
            () = exit.wait() => break true,
            () = &mut stopped => break false,
            () = sleep_until(deadline) => break false,
            read = pipes.read() => printed.take(&read, &pipes),
        }
    };
    if ended {
        // What it printed last may still be in the pipes; whoever holds them open is not waited for.
        let soon = Instant::now() + shared.options.leak_timeout;
        while !pipes.are_closed() {
            match timeout_at(soon, pipes.read()).await {
                Ok(read) => printed.take(&read, &pipes),
                Err(_) => break,
            }
        }
    }
    leader.tree().kill();
    let gone = timeout_at(Instant::now() + KILL_WAIT, exit.wait()).await.is_ok();
    shared.sweeper.sweep(&identity, Some(leader.tree())).await;
    let status = if gone { leader.reap().ok() } else { None };
    if !ended {
        return Err(format!("it did not answer --version within {} s and was ended", PATIENCE.as_secs()));
    }
    let line = printed.first_line().map(|line| {
        let line = shared.redactor.redact_text(&line).into_owned();
        line.chars().take(LONGEST).collect::<String>()
    });
    match (status.and_then(|status| status.code()), line) {
        (Some(0), Some(line)) => Ok(line),
        (Some(0), None) => Err("it printed nothing on --version".to_owned()),
        (Some(code), line) => {
            let line = line.map(|line| format!(": {line}")).unwrap_or_default();
            Err(format!("--version failed (exit {code}){line}"))
        }
        (None, _) => Err("--version was ended by a signal".to_owned()),
    }
}

/// The beginnings of both outputs.
#[derive(Debug, Default)]
struct Printed {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Printed {
    fn take(&mut self, read: &Read, pipes: &Pipes) {
        let (kept, bytes) = match read {
            Read::Out(len) => (&mut self.out, pipes.out(*len)),
            Read::Err(len) => (&mut self.err, pipes.err(*len)),
            Read::Closed => return,
        };
        let room = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The first line that says something; standard error's where standard output has none.
    fn first_line(&self) -> Option<String> {
        [&self.out, &self.err].into_iter().find_map(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            text.lines().map(|line| strip_controls(line).trim().to_owned()).find(|line| !line.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_says_something_counts() {
        let printed = |out: &str, err: &str| Printed { out: out.into(), err: err.into() }.first_line();
        assert_eq!(printed("\n \n1.2.3 (Made Up)\nmore", "warning").as_deref(), Some("1.2.3 (Made Up)"));
        assert_eq!(printed("", "\x1b[1mtool 9\x1b[0m\n").as_deref(), Some("tool 9"));
        assert_eq!(printed("\n", " "), None);
    }
}
