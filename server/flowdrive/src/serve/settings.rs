//! Where the user's configuration comes from.
//!
//! Must not: read it (the engine does), or look into a workspace.

use std::collections::BTreeMap;
use std::path::Path;

use flowdrive_engine::EngineError;
use flowdrive_engine::config::{ConfigFile, default_path};
use flowdrive_protocol::config::Config;

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
