//! The documents say what the program does: every kind, method, event and field is in them, every link leads somewhere,
//! and the recorded conversation is one that the server still holds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flowdrive_protocol::config::{AgentConfig, Config, EnvPolicy};
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::event::EventKind;
use flowdrive_protocol::method as m;
use flowdrive_protocol::workflow::Workflow;
use flowdrive_tests::binary;
use serde_json::Value;

fn document(name: &str) -> String {
    let path = binary::repository().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_error_kind_has_its_section_and_its_code() {
    let (guide, protocol) = (document("docs/troubleshooting.md"), document("docs/protocol.md"));
    for kind in ErrorKind::ALL {
        let heading = format!("\n## `{kind}` ({})\n", kind.code());
        assert!(guide.contains(&heading), "docs/troubleshooting.md lacks {heading:?}");
        assert!(protocol.contains(&format!("| `{kind}` | {} |", kind.code())), "docs/protocol.md lacks {kind}");
    }
}

#[test]
fn every_method_and_event_is_described() {
    let protocol = document("docs/protocol.md");
    for method in [
        m::DRIVE,
        m::PREVIEW,
        m::RESUME,
        m::RESOLVE_FEEDBACK,
        m::STOP,
        m::LIST_RUNS,
        m::SHOW_RUN,
        m::LIST_FEEDBACK,
        m::LIST_WORKFLOWS,
        m::VERIFY_RUN,
        m::PRUNE_RUNS,
        m::DOCTOR,
        m::SERVER_INFO,
    ] {
        assert!(protocol.contains(&format!("\n| `{method}` |")), "docs/protocol.md lacks {method}");
    }
    for kind in EventKind::ALL {
        let name = serde_json::to_value(kind).unwrap();
        assert!(protocol.contains(&format!("\n| `{}` |", name.as_str().unwrap())), "docs/protocol.md lacks {name}");
    }
}

#[test]
fn every_field_of_the_configuration_is_described() {
    let guide = document("docs/configuration.md");
    let fields = |schema: schemars::Schema| -> Vec<String> {
        schema.as_value()["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let mut all = fields(schemars::schema_for!(Config));
    all.extend(fields(schemars::schema_for!(AgentConfig)));
    all.extend(fields(schemars::schema_for!(EnvPolicy)));
    assert!(all.len() > 15, "{all:?}");
    for field in all {
        assert!(guide.contains(&format!("\n| `{field}` |")), "docs/configuration.md lacks {field}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let root = binary::repository();
    let mut documents: Vec<PathBuf> =
        vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")];
    for folder in ["docs", "docs/decisions"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        documents.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    assert!(documents.len() > 10);
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split([')', '#', ' ']).next().unwrap();
            if !target.is_empty() && !target.contains("://") {
                let path = document.parent().unwrap().join(target);
                assert!(path.exists(), "{} links to {target}", document.display());
            }
        }
    }
}

#[test]
fn the_examples_in_the_documents_are_valid() {
    for name in ["README.md", "docs/configuration.md", "docs/agents.md"] {
        let text = document(name);
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            let config: Result<Config, _> = toml::from_str(block);
            assert!(config.is_ok(), "{name}: {config:?} in\n{block}");
        }
    }
    let text = document("docs/workflows.md");
    let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let workflow: Result<Workflow, _> = toml::from_str(block);
    assert!(workflow.is_ok(), "{workflow:?}");
}

#[test]
fn the_recorded_conversation_is_one_the_server_still_holds() {
    let script = binary::repository().join("examples/record_session.py");
    let output = Command::new("python3").arg(script).arg("--check").arg(binary::flowdrive()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recorded = document("docs/protocol.md");
    assert!(recorded.contains("\n← {"), "nothing is recorded");
    let every_line_is_json = recorded
        .lines()
        .filter_map(|line| line.strip_prefix("→ ").or(line.strip_prefix("← ")))
        .all(|message| serde_json::from_str::<Value>(message).is_ok());
    assert!(every_line_is_json);
}

#[test]
fn nothing_names_a_place_only_one_machine_has() {
    let tracked = Command::new("git").args(["ls-files", "-z"]).current_dir(binary::repository()).output().unwrap();
    for name in tracked.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = std::str::from_utf8(name).unwrap();
        let Ok(text) = fs::read_to_string(binary::repository().join(name)) else { continue };
        for place in [
            concat!("/wo", "rk/wt"),
            concat!("/wo", "rk/main"),
            concat!("/wo", "rk/shared"),
            concat!("registry.npm", "js.org"),
        ] {
            assert!(!text.contains(place), "{} names {place}", Path::new(name).display());
        }
    }
}
