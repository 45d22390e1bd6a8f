//! A log of what an agent printed: made when there is something to put into it, capped, and never a reason to fail.
//!
//! Must not: see a secret; what is written has been redacted.

use std::path::PathBuf;

use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::store::create_anew;

/// How much is buffered on the way to the file.
const BUFFER: usize = 64 * 1024;

/// One log.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    room: u64,
    broken: bool,
}

impl LogFile {
    /// A log that holds at most `cap` bytes.
    #[must_use]
    pub(super) fn new(path: PathBuf, cap: u64) -> Self {
        Self { path, file: None, room: cap, broken: false }
    }

    /// Adds bytes, as far as there is room.
    pub(super) async fn write(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.room).map_or(bytes.len(), |room| bytes.len().min(room));
        if fits == 0 || self.broken {
            return;
        }
        self.room -= fits as u64;
        if let Err(error) = self.try_write(&bytes[..fits]).await {
            // A full disk must not cost a paid agent its result; the log ends here.
            tracing::warn!(path = %self.path.display(), %error, "an agent's log cannot be written");
            self.broken = true;
        }
    }

    async fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            empty => {
                // The agent runs already, and may have put anything in its place.
                let path = self.path.clone();
                let made = tokio::task::spawn_blocking(move || create_anew(&path)).await;
                let mut file = File::from_std(made.map_err(std::io::Error::other)??);
                file.set_max_buf_size(BUFFER);
                empty.insert(file)
            }
        };
        file.write_all(bytes).await
    }

    /// Writes out what is buffered.
    pub(super) async fn flush(&mut self) {
        if let Some(file) = &mut self.file
            && !self.broken
            && let Err(error) = file.flush().await
        {
            tracing::warn!(path = %self.path.display(), %error, "an agent's log cannot be written");
            self.broken = true;
        }
    }

    /// Reads a part back. None when it is not all there.
    pub(super) async fn read(&mut self, from: u64, len: u64) -> Option<Vec<u8>> {
        self.flush().await;
        if self.broken {
            return None;
        }
        let file = self.file.as_mut()?;
        file.seek(std::io::SeekFrom::Start(from)).await.ok()?;
        let mut part = Vec::new();
        file.take(len).read_to_end(&mut part).await.ok()?;
        (part.len() as u64 == len).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_log_is_made_lazily_capped_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/stdout.log");
        let mut log = LogFile::new(path.clone(), 6);
        log.flush().await;
        assert!(!dir.path().join("logs").exists());
        log.write(b"abcd").await;
        log.write(b"efgh").await;
        log.write(b"i").await;
        assert_eq!(log.read(2, 3).await.as_deref(), Some(b"cde".as_slice()));
        assert_eq!(log.read(2, 9).await, None);
        assert_eq!(std::fs::read(path).unwrap(), b"abcdef");
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_fails_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("logs"), "a file where a folder should be").unwrap();
        let mut log = LogFile::new(dir.path().join("logs/stdout.log"), 6);
        log.write(b"abcd").await;
        log.flush().await;
        assert_eq!(log.read(0, 1).await, None);
    }
}
