use std::fs;
use std::path::Path;

use super::{Bench, Event, note, run_id};
use crate::EngineError;
use crate::store::workspace::MAX_EVIDENCE_BYTES;
use crate::store::{Journal, RunLock, StoreError, Workspace, WorkspaceFile};

#[test]
fn only_an_absolute_path_of_a_folder_is_a_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in
        [Path::new("relative"), Path::new(""), Path::new("."), &file, &dir.path().join("missing"), Path::new("/a\0b")]
    {
        let fault = Workspace::open(path).unwrap_err();
        assert_eq!(EngineError::from(fault).data().unwrap().kind.as_str(), "workspace-invalid", "{}", path.display());
    }
    let opened = Workspace::open(&dir.path().join("..").join(dir.path().file_name().unwrap())).unwrap();
    assert_eq!(opened.root(), fs::canonicalize(dir.path()).unwrap());
}

#[test]
fn looking_for_runs_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    assert_eq!(workspace.list_runs().unwrap(), []);
    let fault = workspace.existing_run(&run_id("r")).unwrap_err();
    assert_eq!(EngineError::from(fault).data().unwrap().kind.as_str(), "run-not-found");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_run_is_there_once_its_journal_holds_a_line() {
    let bench = Bench::new();
    let exists = || bench.workspace.existing_run(&bench.id);
    let create = || bench.workspace.create_run(&bench.id);
    assert_eq!(fs::read_to_string(bench.dir.path().join(".cw/.gitignore")).unwrap(), "*\n");

    // All that a crash can leave before the first line is whole.
    drop(RunLock::acquire(&bench.paths).unwrap());
    fs::write(bench.paths.dir.join(".tmp-x"), "").unwrap();
    for journal in ["", "{\"at\":"] {
        fs::write(&bench.paths.journal, journal).unwrap();
        assert!(matches!(exists(), Err(StoreError::RunNotFound { .. })));
        assert_eq!(create().unwrap(), bench.paths);
    }
    drop(bench.journal(&[note("one")]));
    assert_eq!(exists().unwrap(), bench.paths);
    assert!(matches!(create(), Err(StoreError::RunExists { .. })));
}

#[test]
fn a_folder_with_content_but_no_journal_is_damage_not_a_new_run() {
    let bench = Bench::new();
    fs::write(&bench.paths.state, "{}").unwrap();
    for fault in
        [bench.workspace.existing_run(&bench.id).unwrap_err(), bench.workspace.create_run(&bench.id).unwrap_err()]
    {
        assert_eq!(EngineError::from(fault).data().unwrap().kind.as_str(), "run-corrupt");
    }
    fs::write(&bench.paths.journal, "").unwrap();
    assert!(matches!(bench.workspace.existing_run(&bench.id), Err(StoreError::Corrupt { .. })));
}

#[test]
fn runs_are_listed_newest_first_with_odd_names_as_they_are() {
    let bench = Bench::new();
    let set = |path: &Path, seconds: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    };
    drop(bench.journal(&[note("one")]));
    set(&bench.paths.journal, 2_000_000_000);
    for (name, seconds) in [("b", 1_000), ("a", 3_000), ("c", 3_000)] {
        let paths = bench.workspace.create_run(&run_id(name)).unwrap();
        drop(Journal::<Event>::create(&paths, &run_id(name)).unwrap());
        set(&paths.journal, seconds);
    }
    let runs = bench.dir.path().join(".cw/runs");
    fs::create_dir(runs.join("not an id")).unwrap();
    fs::write(runs.join("a-file"), "").unwrap();
    let listed = bench.workspace.list_runs().unwrap();
    let names: Vec<_> = listed.iter().map(|run| run.name.as_str()).filter(|name| *name != "not an id").collect();
    assert_eq!(names, ["run-1", "c", "a", "b"]);
    let odd = listed.iter().find(|run| run.name == "not an id").unwrap();
    assert_eq!(odd.id, None);
    assert_eq!(listed.len(), 5);
}

#[cfg(unix)]
#[test]
fn links_in_place_of_run_folders_are_refused() {
    use std::os::unix::fs::symlink;
    for level in [".cw", ".cw/runs", ".cw/runs/run-1"] {
        let bench = Bench::new();
        drop(bench.journal(&[note("one")]));
        let moved = tempfile::tempdir().unwrap();
        let target = moved.path().join("moved");
        let place = bench.dir.path().join(level);
        fs::rename(&place, &target).unwrap();
        symlink(&target, &place).unwrap();
        let kind = if level == ".cw/runs/run-1" { "run-corrupt" } else { "workspace-invalid" };
        for fault in
            [bench.workspace.existing_run(&bench.id).unwrap_err(), bench.workspace.create_run(&bench.id).unwrap_err()]
        {
            assert_eq!(fault.kind().as_str(), kind, "{level}: {fault}");
        }
        if level != ".cw/runs/run-1" {
            assert!(bench.workspace.list_runs().is_err(), "{level}");
        }
    }
}

#[cfg(unix)]
#[test]
fn evidence_is_read_inside_the_workspace_only() {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("ws");
    fs::create_dir_all(root.join("src/deep")).unwrap();
    fs::write(outer.path().join("secret"), "made-up secret").unwrap();
    fs::write(outer.path().join("ws-sibling"), "shares a prefix").unwrap();
    fs::write(root.join("src/main.rs"), "fn main() {}\n").unwrap();
    fs::write(root.join("latin1"), b"caf\xe9\n").unwrap();
    fs::write(root.join("data"), b"a\0b").unwrap();
    fs::File::create(root.join("limit")).unwrap().set_len(MAX_EVIDENCE_BYTES + 1).unwrap();
    nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("src/main.rs", root.join("inner-link")).unwrap();
    symlink("../secret", root.join("outer-link")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/", root.join("slash")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink(&root, outer.path().join("alias")).unwrap();

    let text = |text: &str| WorkspaceFile::Text(text.to_owned());
    let absolute = fs::canonicalize(&root).unwrap();
    let long = "x".repeat(300);
    let cases: Vec<(String, WorkspaceFile)> = [
        ("src/main.rs", text("fn main() {}\n")),
        ("./src/../src/main.rs", text("fn main() {}\n")),
        ("inner-link", text("fn main() {}\n")),
        ("latin1", text("caf\u{fffd}\n")),
        ("data", WorkspaceFile::Binary),
        ("limit", WorkspaceFile::TooBig),
        ("src", WorkspaceFile::Folder),
        (".", WorkspaceFile::Folder),
        ("pipe", WorkspaceFile::Special),
        ("", WorkspaceFile::Missing),
        ("nope", WorkspaceFile::Missing),
        ("src/main.rs/x", WorkspaceFile::Missing),
        ("src/main.rs/", WorkspaceFile::Missing),
        ("a\0b", WorkspaceFile::Missing),
        (&long, WorkspaceFile::Missing),
        ("dangling", WorkspaceFile::Missing),
        ("loop", WorkspaceFile::Unreadable),
        ("outer-link", WorkspaceFile::Outside),
        ("up/secret", WorkspaceFile::Outside),
        ("slash/etc/passwd", WorkspaceFile::Outside),
        ("slash/dev/zero", WorkspaceFile::Outside),
        ("../secret", WorkspaceFile::Outside),
        ("../not-there-at-all", WorkspaceFile::Outside),
        ("../ws-sibling", WorkspaceFile::Outside),
        ("src/../../secret", WorkspaceFile::Outside),
        ("/etc/passwd", WorkspaceFile::Outside),
        ("/not-there-at-all", WorkspaceFile::Outside),
    ]
    .into_iter()
    .map(|(path, file)| (path.to_owned(), file))
    .chain([(absolute.join("src/main.rs").display().to_string(), text("fn main() {}\n"))])
    .chain([(absolute.join("../secret").display().to_string(), WorkspaceFile::Outside)])
    .collect();
    let workspace = Workspace::open(&outer.path().join("alias")).unwrap();
    for (path, expected) in cases {
        let found = workspace.read_workspace_file(&path);
        assert_eq!(found, expected, "{path:?}");
        let there = !matches!(expected, WorkspaceFile::Missing | WorkspaceFile::Outside | WorkspaceFile::Unreadable);
        assert_eq!(workspace.path_exists_inside(&path), there, "{path:?}");
    }
}
