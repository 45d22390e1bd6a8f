//! The result file as far as delegation goes: whether an agent has finished it, writing it on an agent's behalf, and taking
//! secrets out of it before anybody reads it.
//!
//! Must not: judge a result, or change anything else in one that the agent wrote.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::redact::Redactor;
use crate::store::canonical::sha256_hex;

/// A larger file is not looked at for being complete: its agent will have to exit.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A larger file is refused by those who judge it, so it is not looked through either.
const LARGEST_READ: u64 = 32 * 1024 * 1024;

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

/// Replaces what the file holds of known secrets; the file is not touched where it holds none. Gives the digest of what it
/// holds now: it tells later whether the file still is what the agent left. What is no plain file (a link, a device) or
/// is too large is left for those who judge it, who refuse it, and has no digest here.
///
/// # Errors
/// When it cannot be read or replaced.
pub(super) async fn redact(path: &Path, redactor: &Arc<Redactor>) -> io::Result<Option<String>> {
    let (path, redactor) = (path.to_owned(), Arc::clone(redactor));
    let done = tokio::task::spawn_blocking(move || {
        match path.symlink_metadata() {
            Ok(about) if about.is_file() && about.len() <= LARGEST_READ => {}
            _ => return Ok(None),
        }
        let bytes = std::fs::read(&path)?;
        let mut stream = redactor.stream();
        let mut clean = stream.push(&bytes).into_owned();
        clean.extend_from_slice(&stream.finish());
        let digest = sha256_hex(&clean);
        if clean == bytes {
            return Ok(Some(digest));
        }
        let permissions = path.metadata()?.permissions();
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".result-").tempfile_in(folder)?;
        io::Write::write_all(&mut file, &clean)?;
        file.as_file().set_permissions(permissions)?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(Some(digest))
    });
    done.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn secrets_are_taken_out_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let redactor = Arc::new(Redactor::new(&[("X_TOKEN".to_owned(), "canary-made-up".to_owned())].into()));
        let path = dir.path().join("result.md");
        assert_eq!(redact(&path, &redactor).await.unwrap(), None, "no file is no fault");
        std::fs::write(&path, b"a canary-made-up \xff b").unwrap();
        let cleaned = Some(sha256_hex(b"a <redacted> \xff b"));
        assert_eq!(redact(&path, &redactor).await.unwrap(), cleaned);
        assert_eq!(std::fs::read(&path).unwrap(), b"a <redacted> \xff b");
        assert_eq!(redact(&path, &redactor).await.unwrap(), cleaned);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

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
