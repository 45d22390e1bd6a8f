//! Reading a journal: for its writer at open, and for readers who take no lock and never change a byte.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flowdrive_protocol::ids::RunId;
use flowdrive_protocol::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::journal::JournalPosition;
use super::line::{self, Unreadable};
use super::paths::RunPaths;
use super::{StoreError, atomic};

/// What a journal holds.
pub trait Recorded: Serialize + DeserializeOwned {
    /// The version that is written. Lines of an older one are upgraded when they are read; of a newer one, refused.
    const VERSION: u32;

    /// An event of version `from` as one of [`Self::VERSION`]. Not asked for events that are of it already.
    ///
    /// # Errors
    /// What cannot be made sense of.
    fn upgrade(from: u32, event: Value) -> Result<Value, String>;
}

/// One event as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<E> {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The hash of the line before.
    pub prev: String,
    /// The hash of its own line.
    pub hash: String,
    /// The event.
    pub event: E,
}

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<E> {
    /// The entries, in order.
    pub entries: Vec<Entry<E>>,
    /// Where the last of them ends.
    pub position: JournalPosition,
    /// What follows it and is no whole line.
    pub torn: Option<TornTail>,
}

/// Where reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Where the last whole line ends.
    pub position: JournalPosition,
    /// What follows it and is no whole line.
    pub torn: Option<TornTail>,
}

/// Bytes after the last line feed: a write that a crash cut short, or, to a reader, one still under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

/// Reads the entries after `from` (all without it), without lock. A torn last line is simply not there yet.
///
/// # Errors
/// As [`super::Journal::open`].
pub fn read_entries<E: Recorded>(
    paths: &RunPaths,
    run_id: &RunId,
    from: Option<JournalPosition>,
) -> Result<Loaded<E>, StoreError> {
    let mut entries = Vec::new();
    let end = read_entries_with(paths, run_id, from, &mut |entry| match entry {
        Some(entry) => entries.push(entry),
        None => entries.clear(),
    })?;
    Ok(Loaded { entries, position: end.position, torn: end.torn })
}

/// As [`read_entries`], handing each entry to `visit`. `None` means: forget what came so far, reading begins again.
/// That happens at most once, when a writer cut a torn tail off under the reader's hands.
///
/// # Errors
/// As [`super::Journal::open`].
pub fn read_entries_with<E: Recorded>(
    paths: &RunPaths,
    run_id: &RunId,
    from: Option<JournalPosition>,
    visit: &mut dyn FnMut(Option<Entry<E>>),
) -> Result<End, StoreError> {
    let path = &paths.journal;
    let file = atomic::open_options().read(true).open(path).map_err(open_fault(paths, run_id))?;
    require_regular(&file, path)?;
    let from = from.unwrap_or_else(|| JournalPosition::start(run_id));
    match entries(&file, path, from.clone(), &mut |entry| visit(Some(entry))) {
        // A torn tail read just before its writer cut it and went on looks like damage. Real damage is still there.
        Err(StoreError::Corrupt { .. }) => {
            visit(None);
            entries(&file, path, from, &mut |entry| visit(Some(entry)))
        }
        other => other,
    }
}

/// Reads entries from a place on, as far as the file went at the start of the call.
pub(super) fn entries<E: Recorded>(
    file: &File,
    path: &Path,
    from: JournalPosition,
    visit: &mut dyn FnMut(Entry<E>),
) -> Result<End, StoreError> {
    lines(file, path, from, E::VERSION, &mut |parts, hash| {
        visit(parse(parts, hash, path)?);
        Ok(())
    })
}

/// Reads lines from a place on, as far as the file went at the start of the call. Each is checked, and then visited with
/// its hash.
fn lines(
    file: &File,
    path: &Path,
    from: JournalPosition,
    known: u32,
    visit: &mut dyn FnMut(&line::Parts<'_>, &str) -> Result<(), StoreError>,
) -> Result<End, StoreError> {
    let length = file.metadata().map_err(StoreError::io("look at", path))?.len();
    check_position(file, path, &from, length)?;
    let mut source = file;
    source.seek(SeekFrom::Start(from.offset)).map_err(StoreError::io("read", path))?;
    let mut source = BufReader::with_capacity(256 * 1024, source.take(length - from.offset));
    let mut position = from;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = source.read_until(b'\n', &mut bytes).map_err(StoreError::io("read", path))? as u64;
        if read == 0 {
            return Ok(End { position, torn: None });
        }
        let Some(whole) = bytes.strip_suffix(b"\n") else {
            let torn = TornTail { offset: position.offset, bytes: read };
            return Ok(End { position, torn: Some(torn) });
        };
        let (parts, hash) = check(whole, path, &position, known)?;
        visit(&parts, &hash)?;
        position = JournalPosition { seq: parts.seq, offset: position.offset + read, head: hash };
    }
}

/// Checks every line of a journal against its hash and the one before it, without reading what they say.
///
/// # Errors
/// As [`super::Journal::open`].
pub(crate) fn check_entries<E: Recorded>(paths: &RunPaths, run_id: &RunId) -> Result<End, StoreError> {
    let path = &paths.journal;
    let file = atomic::open_options().read(true).open(path).map_err(open_fault(paths, run_id))?;
    require_regular(&file, path)?;
    lines(&file, path, JournalPosition::start(run_id), E::VERSION, &mut |_, _| Ok(()))
}

fn check_position(file: &File, path: &Path, from: &JournalPosition, length: u64) -> Result<(), StoreError> {
    if from.offset == 0 && from.seq == 0 {
        return Ok(());
    }
    let unknown = || StoreError::PositionUnknown { path: path.to_owned(), seq: from.seq, offset: from.offset };
    if from.offset > length {
        return Err(unknown());
    }
    let start = from.offset.saturating_sub(line::ENDING_LEN);
    let mut ending = Vec::new();
    let mut source = file;
    source
        .seek(SeekFrom::Start(start))
        .and_then(|_| source.take(from.offset - start).read_to_end(&mut ending))
        .map_err(StoreError::io("read", path))?;
    if line::ends_with(&ending, from.seq, &from.head) { Ok(()) } else { Err(unknown()) }
}

/// Takes one line apart and checks that it follows on `before`. Lines count from 1, and so do events, one a line.
fn check<'l>(
    bytes: &'l [u8],
    path: &Path,
    before: &JournalPosition,
    known: u32,
) -> Result<(line::Parts<'l>, String), StoreError> {
    let number = before.seq + 1;
    let damage = |problem: String| StoreError::corrupt(path, Some(number), problem);
    let unsupported = |problem: String| StoreError::Unsupported { path: path.to_owned(), line: Some(number), problem };
    let newer = |version: u64| {
        unsupported(format!("this line has format version {version}; this Flowdrive knows versions up to {known}"))
    };
    let parts = line::split(bytes, known).map_err(|fault| match fault {
        Unreadable::Malformed => damage("this line is not a journal entry".into()),
        Unreadable::Version(version) => newer(version),
    })?;
    let actual = parts.actual_hash();
    if actual != parts.hash {
        return Err(damage(format!("this line was changed: it hashes to {actual} and says {}", parts.hash)));
    }
    if parts.version > known {
        return Err(newer(parts.version.into()));
    }
    if parts.seq != number {
        return Err(damage(format!("event {} stands where event {number} should", parts.seq)));
    }
    if parts.prev != before.head {
        return Err(damage(format!("this line follows on {}, but the one before it is {}", parts.prev, before.head)));
    }
    Ok((parts, actual))
}

/// What a checked line says.
fn parse<E: Recorded>(parts: &line::Parts<'_>, hash: &str, path: &Path) -> Result<Entry<E>, StoreError> {
    let number = parts.seq;
    let damage = |problem: String| StoreError::corrupt(path, Some(number), problem);
    let unsupported = |problem: String| StoreError::Unsupported { path: path.to_owned(), line: Some(number), problem };
    let at = parts.at.parse().map_err(|fault| damage(format!("this line has no valid time: {fault}")))?;
    // The hash holds, so this is what was written: not damage, but an event of another version.
    let event = if parts.version == E::VERSION {
        serde_json::from_slice(parts.event).map_err(|fault| fault.to_string())
    } else {
        let old = serde_json::from_slice(parts.event).map_err(|fault| fault.to_string());
        let new = old.and_then(|old| E::upgrade(parts.version, old));
        new.and_then(|new| serde_json::from_value(new).map_err(|fault| fault.to_string()))
    };
    let event = event.map_err(|fault| unsupported(format!("this Flowdrive does not know this event: {fault}")))?;
    Ok(Entry { seq: number, at, prev: parts.prev.to_owned(), hash: hash.to_owned(), event })
}

/// A journal that is missing is a run that is not there.
pub(super) fn open_fault<'a>(paths: &'a RunPaths, run_id: &'a RunId) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            StoreError::RunNotFound { run_id: run_id.clone(), path: paths.journal.clone() }
        }
        _ => StoreError::io("open", &paths.journal)(source),
    }
}

pub(super) fn require_regular(file: &File, path: &Path) -> Result<(), StoreError> {
    let meta = file.metadata().map_err(StoreError::io("look at", path))?;
    if meta.is_file() { Ok(()) } else { Err(StoreError::corrupt(path, None, "this is not a regular file")) }
}

/// Whether there is a line feed in the file.
pub(super) fn holds_a_line(file: &mut File) -> io::Result<bool> {
    // Nearly always it ends with one.
    let mut last = [0];
    if file.metadata()?.len() > 0
        && file.seek(SeekFrom::End(-1)).is_ok()
        && file.read(&mut last)? == 1
        && last == *b"\n"
    {
        return Ok(true);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut source = BufReader::with_capacity(64 * 1024, file);
    loop {
        let chunk = source.fill_buf()?;
        if chunk.is_empty() {
            return Ok(false);
        }
        if chunk.contains(&b'\n') {
            return Ok(true);
        }
        let seen = chunk.len();
        source.consume(seen);
    }
}
