//! The result file as far as delegation goes: whether an agent has finished it, and writing it on an agent's behalf.
//!
//! Must not: judge a result, or replace one that the agent wrote.

use std::io;
use std::path::Path;
use std::time::SystemTime;

/// A larger file is not looked at for being complete: its agent will have to exit.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Which content a file has, as far as that can be told from outside.
pub(super) type Stamp = (u64, Option<SystemTime>);

/// Whether the text holds a `cw:result` block that is closed.
#[must_use]
pub(super) fn is_complete(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let opened = lines
        .any(|line| line.strip_prefix("```").is_some_and(|info| info.trim_start_matches('`').trim() == "cw:result"));
    opened && lines.any(|line| line.len() >= 3 && line.bytes().all(|byte| byte == b'`'))
}

/// The file's stamp; none when there is no such file.
pub(super) async fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = tokio::fs::metadata(path).await.ok().filter(std::fs::Metadata::is_file)?;
    Some((metadata.len(), metadata.modified().ok()))
}

/// Whether the file holds a complete result.
pub(super) async fn holds_result(path: &Path, stamp: Stamp) -> bool {
    stamp.0 <= LARGEST && tokio::fs::read(path).await.is_ok_and(|bytes| is_complete(&String::from_utf8_lossy(&bytes)))
}

/// Writes the result unless there is one, whole or not at all. Not synced: the run's store decides what is durable and when.
///
/// # Errors
/// When the folder cannot be written to.
pub(super) async fn write_if_absent(path: &Path, body: String) -> io::Result<bool> {
    let path = path.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        if path.symlink_metadata().is_ok() {
            return Ok(false);
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".result-").tempfile_in(folder)?;
        io::Write::write_all(&mut file, body.as_bytes())?;
        if !body.ends_with('\n') {
            io::Write::write_all(&mut file, b"\n")?;
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // Temporary files are for their owner alone; results are read by others as any file of the workspace is.
            file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        }
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    });
    written.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_complete_once_its_block_is_closed() {
        for (text, complete) in [
            ("x\n```cw:result\n{}\n```\n", true),
            ("```cw:result\r\n{}\r\n```", true),
            ("```` cw:result\n{}\n````", true),
            ("```cw:result\n{}\n", false),
            ("```json\n{}\n```\n", false),
            ("```json\n{}\n```\n```cw:result\n{", false),
            ("cw:result\n```\n", false),
            ("", false),
        ] {
            assert_eq!(is_complete(text), complete, "{text:?}");
        }
    }

    #[tokio::test]
    async fn what_an_agent_wrote_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.md");
        assert!(write_if_absent(&path, "ours".to_owned()).await.unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours\n");
        assert!(!write_if_absent(&path, "other".to_owned()).await.unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(write_if_absent(&dir.path().join("none/result.md"), String::new()).await.is_err());
    }
}
