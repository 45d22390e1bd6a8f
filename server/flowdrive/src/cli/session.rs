//! A command's connection to a server of its own: started for the command, ended with it.

use std::path::{Path, PathBuf};

use flowdrive_client::{Client, ClientError, ServerCommand, StderrMode};

use super::args::PlaceArgs;
use super::error::CliError;
use super::format::shell;

/// Where a command looks when no workspace is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// In the current folder.
    Here,
    /// In the nearest folder, from the current one upwards, that has runs.
    Upwards,
}

/// The nearest folder, from this one upwards, that has runs. Not one whose runs belong to somebody else: in a folder that
/// everybody may write to, anybody could lay some down for others to find.
fn with_runs_above(current: &Path) -> Option<&Path> {
    let found = current.ancestors().find(|folder| folder.join(".cw/runs").is_dir())?;
    same_owner(&found.join(".cw"), current).then_some(found)
}

#[cfg(unix)]
fn same_owner(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let owner = |path: &Path| path.symlink_metadata().ok().map(|metadata| metadata.uid());
    owner(one).is_some() && owner(one) == owner(other)
}

#[cfg(not(unix))]
fn same_owner(_: &Path, _: &Path) -> bool {
    true
}

/// A server, and where the command looks.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Absolute path of the folder runs are about.
    pub(crate) workspace: String,
    /// The folder the command was typed in.
    pub(crate) current: PathBuf,
    /// Flags that a command typed next needs to look at the same place, with a space before each.
    pub(crate) flags: String,
}

impl Session {
    /// Does the work with a server, and sees the server to its end whichever way the work ends.
    pub(crate) async fn with<R>(
        place: &PlaceArgs,
        work: impl AsyncFnOnce(&Self) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        Self::open(place, place.config.as_deref(), Look::Here).await?.through(work).await
    }

    /// The same for what is about runs that are there: typed in a folder below that of the runs, it finds them.
    pub(crate) async fn with_runs<R>(
        place: &PlaceArgs,
        work: impl AsyncFnOnce(&Self) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        Self::open(place, place.config.as_deref(), Look::Upwards).await?.through(work).await
    }

    /// The same with a configuration that nobody can name in a later command.
    pub(crate) async fn with_config<R>(
        place: &PlaceArgs,
        config: &Path,
        work: impl AsyncFnOnce(&Self) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        Self::open(place, Some(config), Look::Here).await?.through(work).await
    }

    async fn through<R>(self, work: impl AsyncFnOnce(&Self) -> Result<R, CliError>) -> Result<R, CliError> {
        let outcome = work(&self).await;
        if let Err(error) = self.client.shutdown().await {
            tracing::debug!(%error, "the server's end");
        }
        outcome
    }

    async fn open(place: &PlaceArgs, config: Option<&Path>, look: Look) -> Result<Self, CliError> {
        let current = std::env::current_dir().map_err(|source| CliError::io("tell the current folder", source))?;
        let workspace = match &place.workspace {
            None if look == Look::Upwards => with_runs_above(&current).unwrap_or(&current).to_owned(),
            None => current.clone(),
            Some(folder) => current.join(folder),
        };
        // What is not there keeps its name, for the server to refuse.
        let workspace = dunce::canonicalize(&workspace).unwrap_or(workspace).to_string_lossy().into_owned();
        let program = std::env::current_exe().map_err(|source| CliError::io("find this program", source))?;
        let mut command = ServerCommand::new(program).stderr(stderr_mode());
        if let Some(config) = config {
            command = command.arg("--config").arg(current.join(config));
        }
        let client = match Client::spawn(command).await {
            Ok(client) => client,
            Err(error) => return Err(explain_start(error)),
        };
        if let Some(fault) = &client.server().configuration_fault {
            let warning =
                super::format::Paint(super::output::err_colours()).tone("warning:", super::format::Tone::Warn);
            let faults: Vec<_> = fault.lines().map(|line| format!("  {}\n", super::format::clean(line))).collect();
            super::output::err(&format!("{warning} the configuration is not used:\n{}", faults.concat()));
        }
        Ok(Self { client, workspace, current, flags: flags(place) })
    }

    /// The workspace as a parameter.
    #[allow(clippy::unnecessary_wraps, reason = "the parameters want an option")]
    pub(crate) fn place(&self) -> Option<String> {
        Some(self.workspace.clone())
    }

    /// A path for people.
    pub(crate) fn shown<'a>(&self, path: &'a str) -> std::borrow::Cow<'a, str> {
        super::format::shown_path(path, &self.current).into()
    }
}

/// A server that refuses to start, over its configuration for one, says why on stderr and not over the wire.
fn explain_start(error: ClientError) -> CliError {
    match error {
        ClientError::ServerDied { status: Some(status), stderr_tail }
            if !status.success() && !stderr_tail.is_empty() =>
        {
            let message = stderr_tail.strip_prefix("flowdrive: ").unwrap_or(&stderr_tail).to_owned();
            CliError::fault(format!("the server did not start: {message}"), "")
        }
        other => other.into(),
    }
}

/// Who asks for the server's log gets it as it is written.
fn stderr_mode() -> StderrMode {
    if std::env::var_os("RUST_LOG").is_some() { StderrMode::Inherit } else { StderrMode::Capture }
}

fn flags(place: &PlaceArgs) -> String {
    let flag = |name: &str, path: &Option<PathBuf>| {
        path.as_deref().map_or_else(String::new, |path: &Path| format!(" --{name} {}", shell(&path.to_string_lossy())))
    };
    flag("workspace", &place.workspace) + &flag("config", &place.config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_from_below_and_the_nearest_ones_first() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(with_runs_above(&below).filter(|found| found.starts_with(top.path())), None);
        std::fs::create_dir_all(top.path().join(".cw/runs")).unwrap();
        assert_eq!(with_runs_above(&below), Some(top.path()));
        assert_eq!(with_runs_above(top.path()), Some(top.path()));
        std::fs::create_dir_all(top.path().join("a/.cw")).unwrap();
        assert_eq!(with_runs_above(&below), Some(top.path()), "kept results alone are no runs");
        std::fs::create_dir_all(top.path().join("a/.cw/runs")).unwrap();
        assert_eq!(with_runs_above(&below), Some(top.path().join("a").as_path()));
    }

    #[cfg(unix)]
    #[test]
    fn runs_of_somebody_else_are_not_taken_up() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("a");
        std::fs::create_dir_all(&below).unwrap();
        let planted = top.path().join(".cw");
        std::fs::create_dir_all(planted.join("runs")).unwrap();
        assert_eq!(with_runs_above(&below), Some(top.path()));
        // Only the superuser can give a folder away.
        if std::os::unix::fs::chown(&planted, Some(12_345), None).is_ok() {
            assert_eq!(with_runs_above(&below), None);
        }
    }

    #[test]
    fn the_next_command_looks_at_the_same_place() {
        let place = PlaceArgs { workspace: Some("/a b".into()), config: Some("c.toml".into()), json: false };
        assert_eq!(flags(&place), " --workspace '/a b' --config c.toml");
        assert_eq!(flags(&PlaceArgs::default()), "");
    }
}
