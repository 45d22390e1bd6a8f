//! The user's configuration file.
//!
//! Must not: validate what a field means or lay configurations over one another (the engine does both), or read anything from a workspace.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use flowdrive_engine::EngineError;
use flowdrive_protocol::config::Config;
use flowdrive_protocol::error::{ErrorData, ErrorKind};

/// Reads the configuration file: the one named, else the user's own where there is one, else nothing.
///
/// # Errors
/// `config-invalid`, with the file, and the line and the field where they are known.
pub(crate) fn load(named: Option<&Path>) -> Result<Config, EngineError> {
    let Some(path) = named.map(Path::to_owned).or_else(own) else { return Ok(Config::default()) };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        fault(&path, format!("the configuration {} cannot be read: {error}", path.display()), None, None)
    })?;
    parse(&path, &text)
}

fn own() -> Option<PathBuf> {
    let path = etcetera::choose_base_strategy().ok()?.config_dir().join("flowdrive").join("config.toml");
    path.exists().then_some(path)
}

fn parse(path: &Path, text: &str) -> Result<Config, EngineError> {
    let line_of = |span: Option<std::ops::Range<usize>>| {
        span.map(|span| {
            text.as_bytes()[..span.start.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1
        })
    };
    let bad = |error: &toml::de::Error, field: Option<String>| {
        let place = field.as_ref().map(|field| format!(" `{field}`:")).unwrap_or_default();
        let message = format!("the configuration {} does not fit:{place} {}", path.display(), error.message());
        fault(path, message, line_of(error.span()), field)
    };
    let document = toml::Deserializer::parse(text).map_err(|error| bad(&error, None))?;
    serde_path_to_error::deserialize(document).map_err(|error| {
        let field = error.path().to_string();
        bad(error.inner(), (field != ".").then_some(field))
    })
}

fn fault(path: &Path, message: String, line: Option<u64>, field: Option<String>) -> EngineError {
    let mut data = ErrorData::new(ErrorKind::ConfigInvalid, "Correct the file, or name another with `--config`.");
    data.file = Some(path.display().to_string());
    data.line = line;
    data.field = field;
    EngineError::Fault { message, data: Box::new(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_fit_is_told_with_line_and_field() {
        for (text, line, field) in [
            ("defaultAgent = \"a\"\n[agents.mine]\ncommand = 7\n", 3, Some("agents.mine.command")),
            ("defaultAgent = \"a\"\nagnets = 1\n", 2, Some("agnets")),
            ("a = [\n", 1, None),
        ] {
            let error = parse(Path::new("/c.toml"), text).unwrap_err();
            let data = error.data().unwrap();
            assert_eq!(data.kind, ErrorKind::ConfigInvalid);
            assert_eq!((data.file.as_deref(), data.field.as_deref()), (Some("/c.toml"), field), "{error}");
            assert!(data.line.is_some_and(|found| found >= line), "{text}: {:?}", data.line);
        }
        let missing = load(Some(Path::new("/nowhere/c.toml"))).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/c.toml"), "{missing}");
    }
}
