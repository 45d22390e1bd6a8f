//! `builtin:survey`: the embedded agent. It searches the workspace for the words of a task and writes a result whose every
//! claim is a place that exists. It knows no meaning and says so. Deterministic: the same workspace and input give the
//! same bytes.
//!
//! Must not: call a model, follow links, read outside the workspace (but for its input), or write anything but its result.

mod answer;
mod files;
mod question;
mod search;
mod words;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use search::Place;

/// What the agent reports as its model.
pub const MODEL: &str = "builtin:survey/1";

/// What the agent is called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyArgs {
    /// The folder to search.
    pub workspace: PathBuf,
    /// The task, as `input.md` of an attempt holds it.
    pub input: PathBuf,
    /// Where the result is written.
    pub result: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SurveyReport {
    /// The words that were searched for, as the task writes them.
    pub words: Vec<String>,
    /// How many files were searched.
    pub searched_files: usize,
    /// The best places, best first.
    pub places: Vec<Place>,
    /// The result's summary.
    pub summary: String,
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum SurveyError {
    /// The task could not be read.
    #[error("the task {} cannot be read: {source}; name the attempt's input.md with --input", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The workspace is no folder that can be read.
    #[error("the workspace {} cannot be read: {source}; name a folder with --workspace", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing to search.
    #[error(
        "the workspace {} has nothing to search: no text file that is not hidden or ignored; open the folder that the \
         question is about", path.display()
    )]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// The result could not be written.
    #[error("the result {} cannot be written: {source}; its folder must exist and be writable", path.display())]
    Result {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Searches, writes the result, and tells on standard output what it is doing; the last line names the model as JSON.
/// For the agent's own process, whose standard output is the delegation's.
///
/// # Errors
/// [`SurveyError`] when the task or the workspace cannot be read, there is nothing to search, or the result cannot be
/// written.
pub fn run(args: &SurveyArgs) -> Result<SurveyReport, SurveyError> {
    run_telling(args, &mut io::stdout().lock())
}

/// The same, telling it to any writer. Whether somebody listens makes no difference to the result.
///
/// # Errors
/// As [`run`].
pub fn run_telling(args: &SurveyArgs, out: &mut dyn Write) -> Result<SurveyReport, SurveyError> {
    let input = read_input(&args.input).map_err(|source| SurveyError::Input { path: args.input.clone(), source })?;
    let question = question::Question::read(&input);
    let listing = files::list(&args.workspace)
        .map_err(|source| SurveyError::Workspace { path: args.workspace.clone(), source })?;
    let found = search::search(&args.workspace, &listing, &question, &mut |path| tell(out, &format!("reading {path}")));
    if found.places.is_empty() && found.landmarks.is_empty() {
        return Err(SurveyError::Nothing { path: args.workspace.clone() });
    }
    let answer = answer::write(&question, &found);
    tell(out, "writing the result");
    save(&args.result, &answer.text).map_err(|source| SurveyError::Result { path: args.result.clone(), source })?;
    tell(out, &serde_json::json!({ "model": MODEL }).to_string());
    Ok(SurveyReport {
        words: question.terms.iter().map(|term| term.shown.clone()).collect(),
        searched_files: found.searched,
        places: found.places,
        summary: answer.summary,
    })
}

/// A listener that has gone away is no reason to stop.
fn tell(out: &mut dyn Write, line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        tracing::debug!("nobody reads the progress: {error}");
    }
}

fn read_input(path: &Path) -> io::Result<String> {
    const MOST: u64 = 8 * 1024 * 1024;
    match crate::workflow::read_regular(path, MOST)? {
        Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        None => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST} bytes"))),
    }
}

/// Written beside its place and moved there, so that nobody ever reads half a result.
fn save(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests;
