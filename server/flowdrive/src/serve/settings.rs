//! Where the user's configuration comes from.
//!
//! Must not: read it (the engine does), or look into a workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowdrive_engine::EngineError;
use flowdrive_engine::config::{ConfigFile, default_path};
use flowdrive_protocol::config::Config;
use flowdrive_protocol::run::{CheckStatus, DoctorCheck};

/// Where the configuration came from, and what is wrong with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// The file; none where the environment names no place for one.
    pub(crate) file: Option<PathBuf>,
    /// Why it cannot be used.
    pub(crate) fault: Option<EngineError>,
}

impl Standing {
    /// Of the file that is named, else of the user's own.
    pub(crate) fn of(named: Option<&Path>, environment: &BTreeMap<String, String>) -> Self {
        Self { file: named.map(Path::to_owned).or_else(|| default_path(environment)), fault: None }
    }

    /// The same as one of doctor's checks.
    pub(crate) fn check(&self) -> DoctorCheck {
        let (status, message, hint) = match (&self.fault, &self.file) {
            (Some(fault), _) => {
                let hint = "correct it; until then only the agents that need no configuration are looked at";
                (CheckStatus::Fail, fault.to_string(), Some(hint))
            }
            (None, Some(file)) if file.is_file() => (CheckStatus::Ok, file.display().to_string(), None),
            (None, Some(file)) => {
                (CheckStatus::Ok, format!("none: there is no {}", file.display()), Some("agents of your own go there"))
            }
            (None, None) => (CheckStatus::Ok, "none: the environment names no folder for it".to_owned(), None),
        };
        DoctorCheck { name: "configuration".to_owned(), status, message, hint: hint.map(str::to_owned) }
    }
}

/// Reads the configuration file: the one named, else the user's own where there is one, else nothing.
///
/// # Errors
/// `config-invalid`, with the file, and the line and the field where they are known.
pub(crate) fn load(named: Option<&Path>, environment: &BTreeMap<String, String>) -> Result<Config, EngineError> {
    let loaded = match (named, default_path(environment)) {
        (Some(path), _) => ConfigFile::load_named(path),
        (None, Some(path)) => ConfigFile::load(&path),
        (None, None) => Ok(Config::default()),
    };
    loaded.map_err(EngineError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_must_be_there_and_the_users_own_need_not() {
        let folder = tempfile::tempdir().unwrap();
        let home = BTreeMap::from([("XDG_CONFIG_HOME".to_owned(), folder.path().display().to_string())]);
        assert_eq!(load(None, &home).unwrap(), Config::default());
        assert!(load(Some(&folder.path().join("none.toml")), &home).is_err());
        std::fs::create_dir(folder.path().join("flowdrive")).unwrap();
        std::fs::write(
            folder.path().join("flowdrive/config.toml"),
            "defaultAgent = \"mine\"\n[agents.mine]\npreset = \"claude\"\n",
        )
        .unwrap();
        assert_eq!(load(None, &home).unwrap().agents.len(), 1);
    }
}
