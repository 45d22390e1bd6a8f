//! Looking at processes: what `/proc` says of them, and whose they are.
//!
//! A process is known by its number *and* its start time; a number alone may belong to a stranger by now. On systems
//! without `/proc` nothing is found, and only process groups can be ended.
//!
//! Must not: end anything.

use std::collections::HashSet;
use std::io::Read as _;
use std::sync::OnceLock;

use crate::delegate::env::MARKER;
use crate::model::outcome::ProcessIdentity;

/// One live process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: i32,
    /// Its parent's.
    pub(super) parent: i32,
    /// Its group's.
    pub(super) group: i32,
    /// Its session's.
    pub(super) session: i32,
    /// When it started, in clock ticks since boot.
    pub(super) start_ticks: u64,
    /// The marker in the environment it was started with.
    pub(super) marker: Option<String>,
}

/// The processes at one moment. Zombies are no longer processes to anybody here.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    processes: Vec<Process>,
}

impl Snapshot {
    /// Of these.
    pub(super) const fn of(processes: Vec<Process>) -> Self {
        Self { processes }
    }

    /// Their numbers.
    #[cfg(test)]
    pub(super) fn pids(&self) -> Vec<i32> {
        self.processes.iter().map(|process| process.pid).collect()
    }

    /// Those that belong to a delegation, its leader among them if it was seen: marked ones, members of its group, and,
    /// again and again, children of those found and members of the sessions and groups that they lead.
    ///
    /// A process that wiped its environment, left group and session, and whose parents are gone cannot be told from a
    /// stranger's. Making the server a child subreaper would not help: such a process would become the server's child
    /// without saying whose delegation it came from, and the server would have to reap children that other parts of
    /// it wait for.
    ///
    /// `unreaped`: the leader is a child of ours that nobody has waited for, so its number, and its group's, are its own.
    /// Otherwise the number counts for nothing unless a process with the leader's start time, or a marked one, bears it.
    #[must_use]
    pub(super) fn members(&self, identity: &ProcessIdentity, unreaped: bool) -> Vec<&Process> {
        let mut found: HashSet<i32> = HashSet::new();
        let mut led: HashSet<i32> = HashSet::new();
        if unreaped {
            // Seen or not: a look may pass a leader over.
            led.insert(identity.group);
        }
        loop {
            let before = found.len();
            for process in &self.processes {
                // Nothing a delegation started is older than its leader. This keeps reused numbers out.
                if process.start_ticks < identity.start_ticks || found.contains(&process.pid) {
                    continue;
                }
                let marked = process.marker.as_deref().map(|marker| is_marked(marker, &identity.marker));
                let leader = process.pid == identity.group
                    && process.start_ticks == identity.start_ticks
                    && identity.start_ticks > 0
                    && marked != Some(false);
                let related = [process.group, process.session, process.parent].iter().any(|of| led.contains(of));
                if leader || related || marked == Some(true) {
                    found.insert(process.pid);
                    led.insert(process.pid);
                    if marked == Some(true) && process.group == identity.group {
                        led.insert(identity.group);
                    }
                }
            }
            if found.len() == before {
                break;
            }
        }
        self.processes.iter().filter(|process| found.contains(&process.pid)).collect()
    }
}

/// Whether a marker is the delegation's own or one made inside it: an agent may run a server of its own.
fn is_marked(marker: &str, own: &str) -> bool {
    marker.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `/proc/sys/kernel/random/boot_id`; empty where there is none.
#[must_use]
pub(super) fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
    })
}

/// When a process started, in clock ticks since boot; none when it is gone or that is unknown.
#[must_use]
pub(super) fn start_ticks(pid: i32) -> Option<u64> {
    Some(read_stat(pid)?.0.start_ticks)
}

/// A process's `stat`, without its marker, and whether it is more than a zombie. In one read: there are hundreds to look at.
pub(super) fn read_stat(pid: i32) -> Option<(Process, bool)> {
    let mut line = [0; 1024];
    let len = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(pid, &line[..len])
}

/// The fields of a `stat` line, and whether the process is more than a zombie. The name in brackets may hold anything, so
/// fields are counted from its last bracket.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<(Process, bool)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next().and_then(|field| field.parse::<i32>().ok());
    let (parent, group, session) = (number()?, number()?, number()?);
    // Between the session, which is field 6, and the start time, which is field 22, lie 15 others.
    let start_ticks = fields.nth(15)?.parse().ok()?;
    let process = Process { pid, parent, group, session, start_ticks, marker: None };
    Some((process, !matches!(state, "Z" | "X" | "x")))
}

/// The marker in a process's environment. An empty environment is looked at again: in the middle of an exec there is
/// none yet.
pub(super) fn read_marker(pid: i32) -> Option<String> {
    for _ in 0..3 {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        if !environ.is_empty() {
            return find_marker(&environ);
        }
        std::thread::sleep(std::time::Duration::from_micros(300));
    }
    None
}

fn find_marker(environ: &[u8]) -> Option<String> {
    environ.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(MARKER.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, session: i32, start_ticks: u64, marker: Option<&str>) -> Process {
        Process { pid, parent, group, session, start_ticks, marker: marker.map(str::to_owned) }
    }

    fn pids(processes: Vec<Process>, unreaped: bool) -> Vec<i32> {
        let identity = ProcessIdentity { group: 100, start_ticks: 50, boot_id: String::new(), marker: "m1".into() };
        Snapshot { processes }.members(&identity, unreaped).iter().map(|process| process.pid).collect()
    }

    #[test]
    fn members_are_found_by_group_marker_descent_and_session() {
        let found = pids(
            vec![
                process(1, 0, 1, 1, 0, None),
                process(100, 9, 100, 9, 50, Some("m1")),
                process(101, 100, 100, 9, 51, Some("m1")),
                process(102, 1, 102, 102, 52, Some("m1")),
                process(103, 1, 102, 102, 53, None),
                process(104, 103, 104, 104, 54, None),
                process(105, 1, 105, 104, 55, None),
                process(106, 1, 106, 106, 56, Some("m1/nested")),
                process(107, 1, 107, 107, 57, Some("m12")),
                process(108, 1, 108, 108, 58, None),
            ],
            true,
        );
        assert_eq!(found, [100, 101, 102, 103, 104, 105, 106]);
    }

    #[test]
    fn a_stranger_older_than_the_delegation_is_none_of_its_members() {
        let old = vec![process(100, 1, 100, 100, 49, None), process(7, 100, 7, 7, 40, None)];
        assert_eq!(pids(old.clone(), true), [0i32; 0]);
        assert_eq!(pids(old, false), [0i32; 0]);
    }

    #[test]
    fn a_number_alone_proves_nothing_once_the_leader_may_be_gone() {
        let none = [0i32; 0];
        assert_eq!(pids(vec![process(100, 1, 100, 100, 60, None), process(101, 100, 100, 100, 61, None)], false), none);
        assert_eq!(pids(vec![process(100, 1, 100, 100, 50, Some("other"))], false), none, "another's marker");
        assert_eq!(
            pids(vec![process(100, 1, 100, 100, 50, None), process(101, 100, 100, 100, 61, None)], false),
            [100, 101]
        );
        // The leader is gone, but a marked member keeps the group's number from being anybody else's.
        assert_eq!(
            pids(vec![process(101, 1, 100, 9, 61, Some("m1")), process(102, 1, 100, 9, 62, None)], false),
            [101, 102]
        );
    }

    #[test]
    fn stat_lines_with_odd_names_are_read() {
        let line = b"42 (a) R (b) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 2";
        let (process, alive) = parse_stat(42, line).unwrap();
        assert_eq!(
            process,
            super::Process { pid: 42, parent: 7, group: 8, session: 9, start_ticks: 12345, marker: None }
        );
        assert!(alive);
        assert!(
            parse_stat(42, b"42 (x) Z 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 2").is_some_and(|p| !p.1)
        );
        assert!(parse_stat(42, b"42 (x) S 7").is_none());
        assert!(parse_stat(42, b"").is_none());
    }

    #[test]
    fn the_marker_is_read_from_an_environment_block() {
        assert_eq!(find_marker(b"A=1\0FLOWDRIVE_DELEGATION=x/y\0B=2\0"), Some("x/y".to_owned()));
        assert_eq!(find_marker(b"XFLOWDRIVE_DELEGATION=x\0FLOWDRIVE_DELEGATIONS=1\0"), None);
        assert_eq!(find_marker(b""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_very_process_is_seen() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let start = start_ticks(pid).unwrap();
        let (seen, alive) = read_stat(pid).unwrap();
        assert!(alive && seen.pid == pid && seen.start_ticks == start);
        assert!(!boot_id().is_empty());
    }
}
