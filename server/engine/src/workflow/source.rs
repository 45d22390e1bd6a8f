//! From what names a workflow to its text: bundled ids, files under `.cw/workflows`, paths.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flowdrive_protocol::ids::WorkflowId;

use super::bundled::{self, BUNDLED};
use super::document::{Document, Format, did_you_mean};
use super::error::WorkflowError;
use super::place::resolve_inside;

/// The most a workflow file may have, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Where a workspace keeps its own workflows.
pub const WORKSPACE_FOLDER: &str = ".cw/workflows";

/// What tells one workflow from another while sub-workflows are followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// It came with Flowdrive.
    Bundled(&'static str),
    /// A file: how messages name it, and where it really is.
    File { shown: String, real: PathBuf },
    /// It came in the request.
    Inline,
}

impl Source {
    /// `bundled`, the file, or `inline`.
    pub(super) fn shown(&self) -> &str {
        match self {
            Self::Bundled(_) => "bundled",
            Self::File { shown, .. } => shown,
            Self::Inline => "inline",
        }
    }
}

/// A workflow's document, and where it came from.
pub(super) struct Found {
    pub(super) source: Source,
    pub(super) document: Document,
    /// The id that the document must have, when it was found by its file's name.
    pub(super) expected_id: Option<String>,
}

/// Finds a workflow by its id. Bundled ones win, so that a repository cannot put another in their place.
pub(super) fn by_id(id: &str, workspace: &Path) -> Result<Found, WorkflowError> {
    if let Err(error) = WorkflowId::new(id) {
        let looks_like_path = id.contains(['/', '\\']) || has_workflow_extension(Path::new(id));
        let reason =
            if looks_like_path { "it looks like a path, and was given as an id".to_owned() } else { error.to_string() };
        return Err(WorkflowError::Reference { reference: id.to_owned(), reason });
    }
    if let Some(bundled) = bundled::find(id) {
        let document = Document::read(Some(format!("bundled:{id}")), Format::Toml, bundled.text.as_bytes())
            .map_err(WorkflowError::Invalid)?;
        return Ok(Found { source: Source::Bundled(bundled.id), document, expected_id: None });
    }
    let candidates = ["toml", "json"].map(|extension| format!("{WORKSPACE_FOLDER}/{id}.{extension}"));
    let mut present = candidates.iter().filter(|path| workspace.join(path).symlink_metadata().is_ok());
    match (present.next(), present.next()) {
        (Some(path), None) => inside(path, workspace).map(|found| Found { expected_id: Some(id.to_owned()), ..found }),
        (Some(first), Some(second)) => Err(WorkflowError::Reference {
            reference: id.to_owned(),
            reason: format!("both {first} and {second} exist; remove one"),
        }),
        (None, _) => {
            let known = known_ids(workspace);
            let near = did_you_mean(id, known.iter().map(String::as_str));
            Err(WorkflowError::Unknown { id: id.to_owned(), near, known })
        }
    }
}

/// Reads a file that the user named. It may be anywhere.
pub(super) fn by_path(path: &str, workspace: &Path) -> Result<Found, WorkflowError> {
    if path.is_empty() || path.contains('\0') {
        return Err(WorkflowError::Reference { reference: path.to_owned(), reason: "it is not a path".to_owned() });
    }
    file(path, &workspace.join(path))
}

/// Reads a file that a workflow named: a workflow may only reach into the workspace.
pub(super) fn inside(path: &str, workspace: &Path) -> Result<Found, WorkflowError> {
    let refuse = |reason| WorkflowError::Reference { reference: path.to_owned(), reason };
    if Path::new(path).is_absolute() {
        return Err(refuse("the path must be relative to the workspace".to_owned()));
    }
    let (_, real) = resolve_inside(workspace, path).map_err(refuse)?;
    file(path, &real)
}

/// The ids of a workspace: bundled ones, and the names of its own files.
pub(super) fn known_ids(workspace: &Path) -> Vec<String> {
    let mut ids: Vec<String> = BUNDLED.iter().map(|bundled| bundled.id.to_owned()).collect();
    let own = workspace_files(workspace).into_iter();
    ids.extend(own.filter_map(|path| Some(Path::new(&path).file_stem()?.to_str()?.to_owned())));
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The workflow files of a workspace, relative to it, in byte order.
pub(super) fn workspace_files(workspace: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(workspace.join(WORKSPACE_FOLDER)) else { return Vec::new() };
    let mut paths: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && has_workflow_extension(Path::new(name)))
        .map(|name| format!("{WORKSPACE_FOLDER}/{name}"))
        .collect();
    paths.sort_unstable();
    paths
}

fn has_workflow_extension(path: &Path) -> bool {
    format_of(path).is_some()
}

fn format_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "toml" => Some(Format::Toml),
        "json" => Some(Format::Json),
        _ => None,
    }
}

fn file(shown: &str, path: &Path) -> Result<Found, WorkflowError> {
    let Some(format) = format_of(path) else {
        return Err(WorkflowError::Reference {
            reference: shown.to_owned(),
            reason: "a workflow file ends in .toml or .json".to_owned(),
        });
    };
    let unreadable = |source| WorkflowError::Unreadable { path: PathBuf::from(shown), source };
    let real = dunce::canonicalize(path).map_err(unreadable)?;
    let bytes = match read_regular(&real, MAX_FILE_BYTES).map_err(unreadable)? {
        Some(bytes) => bytes,
        None => return Err(WorkflowError::TooLarge { path: PathBuf::from(shown), limit: MAX_FILE_BYTES }),
    };
    let document = Document::read(Some(shown.to_owned()), format, &bytes).map_err(WorkflowError::Invalid)?;
    Ok(Found { source: Source::File { shown: shown.to_owned(), real }, document, expected_id: None })
}

/// The bytes of a regular file; none when it has more than `limit`. Anything but a regular file is refused before it is
/// opened, since opening a pipe waits for its other end.
pub(crate) fn read_regular(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large, also one that grows while it is read.
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}
