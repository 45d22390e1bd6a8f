//! Whether what a run is written to is still what was opened. Agents run as the same user: one that cleans up too much,
//! or means harm, can move the run's folder away, put a link in its place, or take the journal from under its writer.
//! Nothing is then written where the run is not, and no run is told to be on record whose record is gone.
//!
//! Must not: claim more than that. It is looked at before each write, and who is quick enough can still come in between.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};

use super::paths::RunPaths;
use super::{StoreError, line};

/// What tells a file or folder from any other for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    #[allow(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
    pub(super) fn of(meta: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self { device: meta.dev(), inode: meta.ino() })
    }

    /// The standard library does not tell it.
    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// The folders from the workspace down to a run's own: `.cw`, `runs`, and it.
const OWN: usize = 3;

impl RunPaths {
    /// The same, of the folder that is there now. For whoever holds the run's lock: before that, it may be removed and
    /// made anew.
    ///
    /// # Errors
    /// [`StoreError::RunNotFound`] when it is gone.
    pub(crate) fn opened(self) -> Result<Self, StoreError> {
        match fs::symlink_metadata(&self.dir) {
            Ok(meta) => Ok(Self { folder: Identity::of(&meta), ..self }),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::RunNotFound { run_id: self.run_id, path: self.journal })
            }
            Err(fault) => Err(StoreError::io("look at", &self.dir)(fault)),
        }
    }

    /// Refuses to go on when the run's folder is gone, is another one, or is reached through a link. To be asked before
    /// each write below it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`].
    pub(crate) fn require_in_place(&self) -> Result<(), StoreError> {
        for dir in self.dir.ancestors().take(OWN) {
            let problem = match fs::symlink_metadata(dir) {
                Err(fault) => format!("this folder cannot be looked at any more while its run is written to: {fault}"),
                Ok(meta) if meta.is_symlink() => {
                    "a symbolic link was put in place of this folder while its run is written to".to_owned()
                }
                Ok(meta) if !meta.is_dir() => "this is no folder any more while its run is written to".to_owned(),
                Ok(meta) if dir == self.dir && self.folder.is_some() && Identity::of(&meta) != self.folder => {
                    "another folder was put in place of this one while its run is written to".to_owned()
                }
                Ok(_) => continue,
            };
            return Err(StoreError::corrupt(dir, None, problem));
        }
        Ok(())
    }
}

/// The last bytes of a file that grows by whole lines, as its one writer left them.
#[derive(Debug, Default)]
pub(super) struct Ending(Vec<u8>);

impl Ending {
    /// Of a file that was read to this place.
    pub(super) fn read(file: &File, written: u64) -> io::Result<Self> {
        let bytes = line::ENDING_LEN.min(written);
        let mut ending = Vec::new();
        let mut source = file;
        source.seek(SeekFrom::Start(written - bytes))?;
        source.take(bytes).read_to_end(&mut ending)?;
        Ok(Self(ending))
    }

    /// After these bytes were written too.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        const LEN: usize = line::ENDING_LEN as usize;
        let from_new = bytes.len().min(LEN);
        let kept = self.0.len().min(LEN - from_new);
        self.0.drain(..self.0.len() - kept);
        self.0.extend_from_slice(&bytes[bytes.len() - from_new..]);
    }

    /// What was done to an open file behind its writer's back, if anything: it was taken away or replaced, cut or written
    /// to. A file cut and grown again to its old length by other bytes shows by its last ones, which chain all before.
    pub(super) fn disturbance(&self, file: &File, path: &std::path::Path, written: u64) -> io::Result<Option<String>> {
        let held = file.metadata()?;
        let told = match fs::symlink_metadata(path) {
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => {
                return Ok(Some("the journal was deleted or moved away while it was written to".to_owned()));
            }
            found => found?,
        };
        if !told.is_file() || Identity::of(&told) != Identity::of(&held) {
            return Ok(Some("another file was put in place of the journal while it was written to".to_owned()));
        }
        // Where files have no identity, the one found by its name is looked at.
        for length in [held.len(), told.len()] {
            if length != written {
                let problem = format!(
                    "the journal has {length} bytes where {written} were written: somebody else wrote to it or cut it"
                );
                return Ok(Some(problem));
            }
        }
        if Self::read(file, written)?.0 != self.0 {
            return Ok(Some(
                "the journal ends with other bytes than were written: somebody else wrote to it".to_owned(),
            ));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_the_last_bytes_of_all_that_was_pushed() {
        let mut whole = Vec::new();
        let mut ending = Ending::default();
        for length in [0_usize, 1, 10, 255, 256, 257, 3, 1000, 128, 128, 5] {
            let piece: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            ending.push(&piece);
            whole.extend_from_slice(&piece);
            let last = whole.len().saturating_sub(line::ENDING_LEN as usize);
            assert_eq!(ending.0, whole[last..], "after {length} more");
        }
    }
}
