//! The configuration file, and the same shape as a client sends it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use flowdrive_protocol::config::Config;
use serde_json::Value;

use super::check::{self, Extent};
use super::error::ConfigError;
use crate::workflow::document::{Document, FieldPath, Format};
use crate::workflow::{Faults, read_regular};

/// The most a configuration file may have, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Other spellings of fields, as the earlier tool has them.
const ALIASES: [(&str, &str); 1] = [("expose", "pass")];

/// A configuration file (TOML).
#[derive(Debug, Clone, Copy)]
pub struct ConfigFile;

impl ConfigFile {
    /// Reads the user's file. One that does not exist is an empty configuration. Blocks on the disk.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be read or does not validate, with every fault's field and line.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        match Self::load_named(path) {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Config::default())
            }
            other => other,
        }
    }

    /// Reads a file that the user named, which therefore must exist.
    ///
    /// # Errors
    /// As [`ConfigFile::load`], and when there is no such file.
    pub fn load_named(path: &Path) -> Result<Config, ConfigError> {
        let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        let Some(bytes) = read_regular(path, MAX_FILE_BYTES).map_err(unreadable)? else {
            return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
        };
        let shown = path.display().to_string();
        let document = Document::read(Some(shown), Format::Toml, &bytes).map_err(ConfigError::Invalid)?;
        let mut config = decode(&document)?;
        let mut faults = Vec::new();
        for (field, given) in
            [("notifications", config.notifications.is_some()), ("protocolVersion", config.protocol_version.is_some())]
        {
            if given {
                let message = "is for a client to say in its initializationOptions, not for this file";
                faults.push(document.fault(&FieldPath::root().key(field), message));
            }
        }
        if let Some(faults) = Faults::new(document.file().map(str::to_owned), faults) {
            return Err(ConfigError::Invalid(faults));
        }
        // A file of keys or certificates is looked for beside the configuration that names it.
        let folder = path.parent().unwrap_or(Path::new(""));
        let named = config.agents.values_mut();
        for key in named.flat_map(|agent| [agent.attest_public_key.as_mut(), agent.ca_file.as_mut()]).flatten() {
            if !super::agents::is_pem(key)
                && let Some(beside) = folder.join(&*key).to_str()
            {
                *key = beside.to_owned();
            }
        }
        Ok(config)
    }
}

/// The configuration in a client's `initializationOptions` or `didChangeConfiguration`. Null is an empty one.
///
/// # Errors
/// [`ConfigError`] with every fault's field.
pub fn from_value(value: &Value) -> Result<Config, ConfigError> {
    if value.is_null() { Ok(Config::default()) } else { decode(&Document::inline(value.clone())) }
}

/// Where the user's file is: `flowdrive/config.toml` in the platform's configuration folder, as the environment names it.
#[must_use]
pub fn default_path(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        folder("APPDATA")?
    } else {
        folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?
    };
    Some(base.join("flowdrive").join("config.toml"))
}

fn decode(document: &Document) -> Result<Config, ConfigError> {
    let config: Config = document.decode(&ALIASES).map_err(ConfigError::Invalid)?;
    let faults = config
        .agents
        .iter()
        .flat_map(|(name, agent)| check::agent(name, agent, Extent::Layer))
        .map(|(path, message)| document.fault(&path, message))
        .collect();
    match Faults::new(document.file().map(str::to_owned), faults) {
        Some(faults) => Err(ConfigError::Invalid(faults)),
        None => Ok(config),
    }
}
