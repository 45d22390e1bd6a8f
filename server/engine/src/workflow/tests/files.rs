//! Where workflows come from: bundled, the workspace, a path; and where sub-workflows lead.

use super::*;

fn id(id: &str) -> WorkflowRef {
    WorkflowRef::Id(id.to_owned())
}

#[test]
fn every_bundled_workflow_loads_without_a_warning_and_asks_for_a_question() {
    for bundled in bundled_ids() {
        let loaded = load(id(bundled.as_str()), Path::new("/nonexistent")).unwrap();
        assert_eq!((loaded.workflow.id.clone(), loaded.source.as_str()), (bundled, "bundled"));
        assert_eq!(loaded.warnings, []);
        let question = &loaded.workflow.inputs[&flowdrive_protocol::ids::InputName::new("question").unwrap()];
        assert!(question.required && !question.description.is_empty());
        for task in loaded.workflow.phases.iter().flat_map(|phase| &phase.tasks) {
            assert_eq!(task.sandbox, flowdrive_protocol::workflow::Sandbox::Readonly, "{}", task.id);
            // The survey agent and people find the question on a line of its own.
            assert!(task.prompt.starts_with("Question: {{question}}\n"), "{}", task.id);
            assert!(task.prompt.contains("cw:result") && task.prompt.contains("path:line"), "{}", task.id);
            assert!(task.prompt.lines().all(|line| line.len() <= 150), "{}", task.id);
        }
    }
}

#[test]
fn the_architecture_review_keeps_the_earlier_tools_shape() {
    let review = load(id("architecture-review"), Path::new("/nonexistent")).unwrap().workflow;
    assert_eq!((review.limits.max_agents.get(), review.limits.max_concurrent_agents.get()), (40, 6));
    let shape: Vec<_> =
        review.phases.iter().map(|phase| (phase.id.as_str(), format!("{:?}", phase.mode), phase.tasks.len())).collect();
    assert_eq!(
        shape,
        [
            ("map", "Parallel".to_owned(), 6),
            ("assess", "Parallel".to_owned(), 6),
            ("verify", "Sequential".to_owned(), 1),
            ("verdict", "Sequential".to_owned(), 1)
        ]
    );
    assert_eq!(review.phases[3].tasks[0].id.as_str(), "verdict:synthesis");
    assert!(review.phases[2..].iter().all(|phase| phase.tasks[0].requires_evidence));
}

#[test]
fn every_example_workflow_loads_without_a_warning() {
    let folder = repository().join("examples/workflows");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let loaded = load(WorkflowRef::Path(path.to_str().unwrap().to_owned()), &repository()).unwrap();
        assert_eq!(loaded.warnings, [], "{}", path.display());
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), loaded.workflow.id.as_str());
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn a_workspace_has_workflows_of_its_own_by_id() {
    let workspace = tempfile::tempdir().unwrap();
    write(workspace.path(), ".cw/workflows/mine.toml", &plain("mine"));
    write(workspace.path(), ".cw/workflows/json.json", r#"{"schemaVersion":1,"id":"json","title":"J"}"#);
    write(workspace.path(), ".cw/workflows/broken.toml", "id = ");
    write(workspace.path(), ".cw/workflows/other.toml", &plain("another"));
    write(workspace.path(), ".cw/workflows/quick-survey.toml", &plain("quick-survey"));
    write(workspace.path(), ".cw/workflows/notes.md", "not a workflow");

    let mine = load(id("mine"), workspace.path()).unwrap();
    assert_eq!(mine.source, ".cw/workflows/mine.toml");
    // A repository cannot put its own in the place of a bundled one.
    assert_eq!(load(id("quick-survey"), workspace.path()).unwrap().source, "bundled");
    let disagreeing = load(id("other"), workspace.path()).unwrap_err().to_string();
    assert!(disagreeing.contains("id: is `another`, but the file's name says `other`"), "{disagreeing}");

    let listed: Vec<_> =
        list(Some(workspace.path())).workflows.into_iter().map(|s| (s.id.to_string(), s.source, s.tasks)).collect();
    let expected = [
        ("architecture-review", "bundled", 14),
        ("json", ".cw/workflows/json.json", 0),
        ("mine", ".cw/workflows/mine.toml", 1),
        ("quick-survey", "bundled", 5),
        ("research-synthesis", "bundled", 6),
    ];
    assert_eq!(listed, expected.map(|(id, source, tasks)| (id.to_owned(), source.to_owned(), tasks)));
    assert_eq!(list(None).workflows.len(), 3);
    // What cannot be driven is not passed over in silence.
    let unusable = list(Some(workspace.path())).unusable;
    let told: Vec<_> = unusable.iter().map(|file| file.path.as_str()).collect();
    let paths = ["broken", "other", "quick-survey"].map(|stem| format!(".cw/workflows/{stem}.toml"));
    assert_eq!(told, paths);
    for (file, part) in unusable.iter().zip(["broken.toml", "the file's name says `other`", "has this id"]) {
        assert!(file.message.contains(part) && file.hint.is_some(), "{file:?}");
    }
    assert_eq!(list(None).unusable, []);

    write(workspace.path(), ".cw/workflows/mine.json", "{}");
    assert!(load(id("mine"), workspace.path()).unwrap_err().to_string().contains("remove one"));
}

#[test]
fn what_names_no_workflow_is_refused_with_advice() {
    let workspace = tempfile::tempdir().unwrap();
    write(workspace.path(), ".cw/workflows/mine.toml", &plain("mine"));
    let unknown = load(id("mime"), workspace.path()).unwrap_err();
    assert!(unknown.to_string().ends_with("did you mean `mine`?"), "{unknown}");
    assert!(unknown.hint().contains("architecture-review, mine, quick-survey"), "{}", unknown.hint());
    for bad in ["", "../mine", "a/b.toml", "x.toml", "UPPER", "a\0b"] {
        assert!(load(id(bad), workspace.path()).is_err(), "{bad:?}");
    }
    let path = |path: &str| load(WorkflowRef::Path(path.to_owned()), workspace.path()).unwrap_err();
    assert!(matches!(path("absent.toml"), WorkflowError::Unreadable { .. }));
    assert!(matches!(path(""), WorkflowError::Reference { .. }));
    assert!(matches!(path("README.md"), WorkflowError::Reference { .. }));
    std::fs::create_dir(workspace.path().join("folder.toml")).unwrap();
    assert!(path("folder.toml").to_string().contains("not a regular file"));
    std::fs::File::create(workspace.path().join("big.toml")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
    assert!(matches!(path("big.toml"), WorkflowError::TooLarge { .. }));
}

#[cfg(unix)]
#[test]
fn a_pipe_in_a_workflows_place_does_not_hang_the_reader() {
    let workspace = tempfile::tempdir().unwrap();
    nix::unistd::mkfifo(&workspace.path().join("pipe.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = load(WorkflowRef::Path("pipe.toml".into()), workspace.path()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"));
}

#[cfg(unix)]
#[test]
fn a_workflow_of_the_repository_that_is_a_link_out_of_it_is_refused() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "mine.toml", &plain("mine"));
    let workspace = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(workspace.path().join(WORKSPACE_FOLDER)).unwrap();
    std::os::unix::fs::symlink(outside.path().join("mine.toml"), workspace.path().join(".cw/workflows/mine.toml"))
        .unwrap();
    let error = load(id("mine"), workspace.path()).unwrap_err().to_string();
    assert!(error.contains("leaves the workspace"), "{error}");
}

fn workspace_with(files: &[(&str, String)]) -> tempfile::TempDir {
    let workspace = tempfile::tempdir().unwrap();
    for (name, text) in files {
        write(workspace.path(), name, text);
    }
    workspace
}

#[test]
fn cycles_of_sub_workflows_are_refused_as_a_chain() {
    let workspace = workspace_with(&[
        (".cw/workflows/a.toml", calling("a", "b")),
        (".cw/workflows/b.toml", calling("b", ".cw/workflows/a.toml")),
        (".cw/workflows/self.toml", calling("self", "self")),
        ("start.toml", calling("start", "a")),
    ]);
    let refused = |reference: WorkflowRef| load(reference, workspace.path()).unwrap_err();
    let error = refused(id("a"));
    assert!(error.to_string().contains("sub-workflow cycle detected: a -> b -> a"), "{error}");
    let WorkflowError::Invalid(faults) = &error else { panic!("{error:?}") };
    assert_eq!((faults.first().field.as_str(), faults.first().line), ("phases[0].tasks[0].subWorkflow.id", Some(8)));
    assert!(refused(id("self")).to_string().contains("self -> self"));
    let from_outside = refused(WorkflowRef::Path("start.toml".into())).to_string();
    assert!(from_outside.contains("cycle detected: start -> a -> b -> a"), "{from_outside}");
}

#[test]
fn sub_workflows_may_lie_four_deep_and_no_deeper() {
    let mut files: Vec<(String, String)> = (0..6)
        .map(|n| (format!(".cw/workflows/d{n}.toml"), calling(&format!("d{n}"), &format!("d{}", n + 1))))
        .collect();
    files.push((".cw/workflows/d6.toml".to_owned(), plain("d6")));
    // Two ways down: the shallow one is looked at first, and must not hide the deep one.
    let both = format!("{}[[phases.tasks]]\nid = \"u\"\nsubWorkflow = {{ id = \"d1\" }}\n", calling("both", "d4"));
    files.push((".cw/workflows/both.toml".to_owned(), both));
    let files: Vec<(&str, String)> = files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let workspace = workspace_with(&files);
    for fine in ["d2", "d3", "d6"] {
        assert!(load(id(fine), workspace.path()).is_ok(), "{fine}");
    }
    let error = load(id("d1"), workspace.path()).unwrap_err().to_string();
    assert!(error.contains("depth limit exceeded (> 4): d1 -> d2 -> d3 -> d4 -> d5 -> d6"), "{error}");
    let error = load(id("both"), workspace.path()).unwrap_err().to_string();
    assert!(error.contains("phases[0].tasks[1].subWorkflow.id: sub-workflow depth limit"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_faulty_sub_workflow_is_named_with_its_own_place() {
    let workspace = workspace_with(&[
        ("parent.toml", calling("parent", "sub/child.toml")),
        ("sub/child.toml", plain("child").replace("prompt = \"x\"", "promt = \"x\"\nmodle = \"m\"")),
    ]);
    let error = load(WorkflowRef::Path("parent.toml".into()), workspace.path()).unwrap_err().to_string();
    assert!(error.starts_with("parent.toml:8: phases[0].tasks[0].subWorkflow.id:"), "{error}");
    assert!(error.contains("sub/child.toml:8: phases[0].tasks[0].promt: unknown field"), "{error}");
    assert!(error.ends_with("(and 1 more)") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_sub_workflow_is_loaded_like_any_other_but_only_from_inside() {
    let workspace = workspace_with(&[("sub/child.toml", plain("child"))]);
    let sub = |id: &str| SubWorkflow { id: id.to_owned(), inputs: BTreeMap::new(), bind_result: Default::default() };
    assert_eq!(load_sub(&sub("sub/child.toml"), workspace.path()).unwrap().source, "sub/child.toml");
    assert_eq!(load_sub(&sub("quick-survey"), workspace.path()).unwrap().source, "bundled");
    let absolute = workspace.path().join("sub/child.toml");
    assert!(load_sub(&sub(absolute.to_str().unwrap()), workspace.path()).is_err());
    assert!(load_sub(&sub("sub/../../x.toml"), workspace.path()).is_err());
}
