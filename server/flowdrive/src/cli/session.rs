//! A command's connection to a server of its own: started for the command, ended with it.

use std::path::{Path, PathBuf};

use flowdrive_client::{Client, ClientError, ServerCommand, StderrMode};

use super::args::PlaceArgs;
use super::error::CliError;
use super::format::shell;

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
        Self::between(place, place.config.as_deref(), work).await
    }

    /// The same with a configuration that nobody can name in a later command.
    pub(crate) async fn with_config<R>(
        place: &PlaceArgs,
        config: &Path,
        work: impl AsyncFnOnce(&Self) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        Self::between(place, Some(config), work).await
    }

    async fn between<R>(
        place: &PlaceArgs,
        config: Option<&Path>,
        work: impl AsyncFnOnce(&Self) -> Result<R, CliError>,
    ) -> Result<R, CliError> {
        let session = Self::open(place, config).await?;
        let outcome = work(&session).await;
        if let Err(error) = session.client.shutdown().await {
            tracing::debug!(%error, "the server's end");
        }
        outcome
    }

    async fn open(place: &PlaceArgs, config: Option<&Path>) -> Result<Self, CliError> {
        let current = std::env::current_dir().map_err(|source| CliError::io("tell the current folder", source))?;
        let workspace = match &place.workspace {
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
            let text = format!("the configuration is not used: {fault}");
            super::output::err(&format!(
                "{} {}\n",
                super::format::Paint(super::output::err_colours()).tone("warning:", super::format::Tone::Warn),
                super::format::clean(&text)
            ));
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
    fn the_next_command_looks_at_the_same_place() {
        let place = PlaceArgs { workspace: Some("/a b".into()), config: Some("c.toml".into()), json: false };
        assert_eq!(flags(&place), " --workspace '/a b' --config c.toml");
        assert_eq!(flags(&PlaceArgs::default()), "");
    }
}
