//! Counting processes. A test's processes are told by the test's own temporary folder, whose path is unique: it is in
//! their command line, their environment or their working directory.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait;

/// A process that belongs to a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line, parts joined by spaces.
    pub command: String,
}

/// Every live process that names `root`, but for this one and those in `except`.
#[must_use]
pub fn processes(root: &Path, except: &[u32]) -> Vec<Process> {
    let needle = root.as_os_str().as_encoded_bytes();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found: Vec<Process> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id() && !except.contains(pid))
        .filter_map(|pid| {
            let folder = Path::new("/proc").join(pid.to_string());
            let command = fs::read(folder.join("cmdline")).unwrap_or_default();
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            let works_there = fs::read_link(folder.join("cwd")).is_ok_and(|cwd| cwd.starts_with(root));
            let ours = contains(&command, needle) || contains(&environment, needle) || works_there;
            let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
            // A process that has ended but was not yet reaped has none of the three any more. One that is just being
            // started may lack a command line, but works in the folder already.
            ours.then_some(Process { pid, command })
        })
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// Asserts that nothing of the test runs, now.
///
/// # Panics
/// When something does; the message lists it.
pub fn assert_none(root: &Path, except: &[u32], when: &str) {
    let left = processes(root, except);
    assert!(left.is_empty(), "{when}, these processes were still there: {left:#?}");
}

/// Waits until nothing of the test runs.
///
/// # Panics
/// When something still does after [`wait::PATIENCE`].
pub async fn wait_until_none(root: &Path, except: &[u32]) {
    wait::until("every process of the test to end", || processes(root, except).is_empty().then_some(())).await;
}

/// Ends, by id, whatever the test left. Returns what that was.
pub fn sweep(root: &Path) -> Vec<Process> {
    let left = processes(root, &[]);
    for process in &left {
        if let Ok(pid) = i32::try_from(process.pid) {
            // Gone in between is as good as ended.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    left
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn finds_a_process_by_its_folder_and_forgets_it_when_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut child =
            Command::new("sleep").arg("600").current_dir(folder.path()).stdin(Stdio::null()).spawn().unwrap();
        assert_eq!(processes(folder.path(), &[]).iter().map(|p| p.pid).collect::<Vec<_>>(), [child.id()]);
        assert_eq!(processes(folder.path(), &[child.id()]), []);
        assert_eq!(sweep(folder.path()).len(), 1);
        child.wait().unwrap();
        assert_eq!(processes(folder.path(), &[]), []);
    }
}
