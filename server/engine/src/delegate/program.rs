//! Finding the program an agent names, and saying what is wrong when it cannot be started.
//!
//! A name is looked up in the agent's own `PATH`, and only in absolute folders of it; anything else has to be an absolute
//! path. A relative one would be looked up in the workspace, and a workspace is not trusted to bring its own agent.
//!
//! Must not: run anything.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{env, os};
use crate::model::outcome::Transient;

/// Where the program is.
///
/// # Errors
/// In a sentence, naming the program and where it was looked for.
pub(super) fn find(name: &str, vars: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    let path = Path::new(name);
    if name.is_empty() {
        return Err("no program is named".to_owned());
    }
    if path.is_absolute() {
        return if path.exists() { Ok(path.to_owned()) } else { Err(format!("program {name:?} does not exist")) };
    }
    if path.components().count() > 1 || name.contains(std::path::is_separator) {
        return Err(format!("program {name:?} is a relative path; give an absolute path or a name that is on PATH"));
    }
    let searched = env::value_of(vars, "PATH").unwrap_or_default();
    let names = spellings(name, vars);
    std::env::split_paths(searched)
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|candidate| is_program(candidate))
        .ok_or_else(|| format!("program {name:?} was not found; PATH searched: {searched}"))
}

/// How the file of a program may be called: as it is named, and on Windows with each of the endings that are left out there.
fn spellings(name: &str, vars: &BTreeMap<String, String>) -> Vec<String> {
    if !cfg!(windows) || Path::new(name).extension().is_some() {
        return vec![name.to_owned()];
    }
    let endings = env::value_of(vars, "PATHEXT").unwrap_or(".COM;.EXE;.BAT;.CMD");
    endings.split(';').filter(|ending| ending.starts_with('.')).map(|ending| format!("{name}{ending}")).collect()
}

/// Whether the path is a file that may be executed.
pub(super) fn is_program(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    metadata.is_file()
}

/// What the system's refusal means, and whether it may pass by itself.
#[must_use]
pub(super) fn explain(error: &io::Error, program: &Path, workspace: &Path) -> (String, Option<Transient>) {
    let program = program.display();
    let passing = Some(Transient::default());
    match error.kind() {
        io::ErrorKind::NotFound if !workspace.is_dir() => {
            (format!("the workspace {} is not a folder", workspace.display()), None)
        }
        io::ErrorKind::NotFound => {
            (format!("{program}, or the interpreter its first line names, does not exist"), None)
        }
        io::ErrorKind::PermissionDenied => (format!("{program} may not be executed (permission denied)"), None),
        _ if is_one_of(error, os::TOO_LONG) => (
            "the command line is longer than the system takes (E2BIG); instead of {{prompt}} name the file with \
             {{input}}, or set stdin to \"prompt\""
                .to_owned(),
            None,
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            (format!("the system has no room for another process now ({error})"), passing)
        }
        io::ErrorKind::ExecutableFileBusy => (format!("{program} is being written to ({error})"), passing),
        _ if is_one_of(error, os::OUT_OF_FILES) => (format!("too many files are open ({error})"), passing),
        _ if is_one_of(error, os::NOT_A_PROGRAM) => {
            (format!("{program} is no program this system can run; does it lack a #! line?"), None)
        }
        _ => (format!("{program}: {error}"), None),
    }
}

fn is_one_of(error: &io::Error, codes: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn env(path: &str) -> BTreeMap<String, String> {
        [("PATH".to_owned(), path.to_owned())].into()
    }

    #[test]
    fn names_are_looked_up_in_absolute_folders_only() {
        assert_eq!(find("sh", &env("relative:/nowhere:/bin")).unwrap(), Path::new("/bin/sh"));
        let error = find("no-such-agent", &env("/nowhere:/bin")).unwrap_err();
        assert!(error.contains("no-such-agent") && error.contains("/nowhere:/bin"), "{error}");
        assert!(find("sh", &env(".:bin")).is_err());
        assert!(find("sh", &BTreeMap::new()).is_err());
        assert!(find("./agent", &env("/bin")).unwrap_err().contains("absolute"));
        assert!(find("bin/agent", &env("/bin")).is_err());
        assert!(find("/no/such/agent", &env("/bin")).unwrap_err().contains("/no/such/agent"));
        assert_eq!(find("/bin/sh", &BTreeMap::new()).unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        let explain = |errno: rustix::io::Errno| {
            explain(&io::Error::from_raw_os_error(errno.raw_os_error()), Path::new("/bin/x"), Path::new("/"))
        };
        for errno in
            [rustix::io::Errno::AGAIN, rustix::io::Errno::NOMEM, rustix::io::Errno::MFILE, rustix::io::Errno::TXTBSY]
        {
            assert!(explain(errno).1.is_some(), "{errno}");
        }
        for errno in
            [rustix::io::Errno::NOENT, rustix::io::Errno::ACCESS, rustix::io::Errno::NOEXEC, rustix::io::Errno::TOOBIG]
        {
            assert!(explain(errno).1.is_none(), "{errno}");
        }
        assert!(explain(rustix::io::Errno::TOOBIG).0.contains("{{input}}"));
        assert!(explain(rustix::io::Errno::TOOBIG).0.contains("stdin"));
    }
}
