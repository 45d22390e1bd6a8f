//! Configurations as users write them: in files, in the environment, and from clients.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flowdrive_protocol::config::{Config, Preset, StdinMode};
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::AgentName;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::EngineError;
use crate::model::agent::{Agent, Target};

fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

fn file(text: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    ConfigFile::load(&path)
}

fn faults(error: &ConfigError) -> Vec<(String, Option<u64>, String)> {
    let ConfigError::Invalid(faults) = error else { panic!("expected faults, got {error:?}") };
    faults.iter().map(|fault| (fault.field.clone(), fault.line, fault.message.clone())).collect()
}

fn resolve(config: &Config) -> Result<Agents, ConfigError> {
    Agents::resolve(config, Path::new("/opt/flowdrive"))
}

fn env(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    from_env(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn argv(agent: &Agent) -> Vec<&str> {
    match &agent.target {
        Target::Command { argv, .. } => argv.iter().map(String::as_str).collect(),
        Target::Endpoint { .. } => panic!("an endpoint"),
    }
}

#[test]
fn without_configuration_the_survey_is_the_default_and_presets_are_known() {
    let agents = resolve(&Config::default()).unwrap();
    let survey = agents.default_agent();
    assert_eq!(survey.name.as_str(), SURVEY);
    assert_eq!(
        argv(survey),
        ["/opt/flowdrive", "agent", "survey", "--input", "{{input}}", "--result", "{{result}}", "--workspace", "."]
    );
    assert_eq!(survey.timeout, Duration::from_secs(600));
    assert_eq!(agents.max_concurrent().get(), 64);
    let claude = agents.get(&name("claude")).unwrap();
    let Target::Command { argv, preset, .. } = &claude.target else { panic!("a command") };
    assert_eq!((argv.as_slice(), *preset), (["claude".to_owned()].as_slice(), Some(Preset::Claude)));
    let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, [SURVEY, "claude", "codex", "gemini", "opencode"]);
}

#[test]
fn an_agent_that_is_not_configured_is_refused_with_those_that_are() {
    let agents = resolve(&Config::default()).unwrap();
    let EngineError::Fault { message, data } = agents.get(&name("cluade")).unwrap_err() else { panic!("a fault") };
    assert_eq!(data.kind, ErrorKind::AgentNotConfigured);
    assert!(message.contains("did you mean `claude`?") && message.contains("builtin:survey, claude"), "{message}");
    let config = Config { default_agent: Some(name("mine")), ..Config::default() };
    let error = resolve(&config).unwrap_err();
    assert_eq!(faults(&error)[0].0, "defaultAgent");
}

#[test]
fn every_example_configuration_loads_and_resolves() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config");
    let mut defaults = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let agents = resolve(&ConfigFile::load_named(&path).unwrap()).unwrap();
        defaults.push(agents.default_agent().clone());
    }
    defaults.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = defaults.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["claude", "mine", "remote"]);
    assert_eq!(defaults[1].idle_timeout, Some(Duration::from_secs(120)));
    assert!(
        matches!(&defaults[2].target, Target::Endpoint { headers, .. } if headers["Authorization"] == "MY_AGENT_AUTHORIZATION")
    );
}

#[test]
fn every_fault_in_a_file_names_its_field_and_line() {
    let table: &[(&str, &str, u64, &str)] = &[
        ("defaultAgnet = \"x\"\n", "defaultAgnet", 1, "did you mean `defaultAgent`?"),
        ("[agents.a]\ncommand = \"run me\"\n", "agents.a.command", 2, "expected a list, found a text"),
        ("[agents.a]\ncommand = []\n", "agents.a.command", 2, "at least the program"),
        ("[agents.a]\ncommand = [\"\"]\n", "agents.a.command", 2, "at least the program"),
        (
            "[agents.a]\nendpoint = \"http://h/\"\ncommand = [\"x\"]\n",
            "agents.a.endpoint",
            2,
            "`command` is given as well",
        ),
        ("[agents.a]\npreset = \"cluade\"\n", "agents.a.preset", 2, "did you mean `claude`?"),
        ("[agents.a]\nendpoint = \"ftp://h/\"\n", "agents.a.endpoint", 2, "http:// or https://"),
        ("[agents.a]\nendpoint = \"nowhere\"\n", "agents.a.endpoint", 2, "is not a URL"),
        ("[agents.a]\nendpoint = \"http://u:made-up-password@h/\"\n", "agents.a.endpoint", 2, "user name or password"),
        ("[agents.a]\ncommand = [\"x\"]\ntimeoutMs = 0\n", "agents.a.timeoutMs", 3, "at least 1"),
        ("[agents.a]\ncommand = [\"x\"]\ntimeoutMs = -1\n", "agents.a.timeoutMs", 3, "at least 0"),
        ("[agents.a]\ncommand = [\"x\"]\nmaxConcurrent = 0\n", "agents.a.maxConcurrent", 3, "at least 1"),
        ("[agents.a]\ncommand = [\"x\"]\nmodel = \"\"\n", "agents.a.model", 3, "must not be empty"),
        (
            "[agents.a]\ncommand = [\"x\"]\nheaders = { A = \"B\" }\n",
            "agents.a.headers",
            3,
            "only an agent with an endpoint",
        ),
        (
            "[agents.a]\nendpoint = \"http://h/\"\nheaders = { \"a b\" = \"B\" }\n",
            "agents.a.headers.\"a b\"",
            3,
            "HTTP header",
        ),
        (
            "[agents.a]\nendpoint = \"http://h/\"\nheaders = { Authorization = \"Bearer made-up-for-tests\" }\n",
            "agents.a.headers.Authorization",
            3,
            "never the value",
        ),
        (
            "[agents.a]\ncommand = [\"x\"]\nenv = { pass = [\"A\", \"B=1\"] }\n",
            "agents.a.env.pass[1]",
            3,
            "environment variable",
        ),
        ("[agents.\"builtin:mine\"]\ncommand = [\"x\"]\n", "agents.\"builtin:mine\"", 1, "belong to Flowdrive"),
        ("[agents.\"a b\"]\ncommand = [\"x\"]\n", "agents.\"a b\"", 1, "not a valid name"),
        ("protocolVersion = 1\n", "protocolVersion", 1, "initializationOptions"),
        ("defaultAgent = [\n", "", 1, "is not valid TOML"),
    ];
    for (text, field, line, words) in table {
        let error = file(text).unwrap_err();
        let found = faults(&error);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!((found[0].0.as_str(), found[0].1), (*field, Some(*line)), "{text}: {found:?}");
        assert!(found[0].2.contains(words), "{words:?} is not in {:?}", found[0].2);
        assert!(!error.to_string().contains("made-up"), "{error}");
        let EngineError::Fault { data, .. } = EngineError::from(error) else { panic!("a fault") };
        assert_eq!((data.kind, data.line), (ErrorKind::ConfigInvalid, Some(*line)));
        assert!(data.file.unwrap().ends_with("config.toml"));
    }
}

#[test]
fn an_absent_file_is_empty_unless_it_was_named_and_anything_else_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent.toml");
    assert_eq!(ConfigFile::load(&absent).unwrap(), Config::default());
    assert!(matches!(ConfigFile::load_named(&absent), Err(ConfigError::Unreadable { .. })));
    assert!(matches!(ConfigFile::load(folder.path()), Err(ConfigError::Unreadable { .. })));
    let big = folder.path().join("big.toml");
    std::fs::File::create(&big).unwrap().set_len(2 * 1024 * 1024).unwrap();
    assert!(matches!(ConfigFile::load(&big), Err(ConfigError::TooLarge { .. })));
}

#[test]
fn an_agent_without_a_target_is_a_layer_in_a_file_and_a_fault_in_the_end() {
    let layer = file("[agents.a]\nmodel = \"m\"\n[agents.codex]\nmodel = \"m\"\n").unwrap();
    let error = resolve(&layer).unwrap_err();
    assert_eq!(faults(&error), [("agents.a".to_owned(), None, "needs one of preset, command and endpoint".to_owned())]);
    let layers = Layers {
        file: layer,
        initialization_options: from_value(&json!({ "agents": { "a": { "command": ["run"] } } })).unwrap(),
        ..Layers::default()
    };
    let agents = resolve(&layers.merge()).unwrap();
    let a = agents.get(&name("a")).unwrap();
    assert_eq!((argv(a), a.model.as_deref()), (vec!["run"], Some("m")));
    let codex = agents.get(&name("codex")).unwrap();
    assert!(matches!(codex.target, Target::Command { preset: Some(Preset::Codex), .. }));
}

#[test]
fn stronger_places_win_field_by_field() {
    let file = file(
        "defaultAgent = \"a\"\nmaxConcurrentAgents = 2\n[agents.a]\nendpoint = \"http://h/\"\nmodel = \"m\"\ntimeoutMs = 5\nheaders = { A = \"SECRET_NAME\" }\n[agents.b]\ncommand = [\"b\"]\n",
    )
    .unwrap();
    let environment = env(&[("CW_AGENT_COMMAND", "from-env")]).unwrap();
    let initialization_options =
        from_value(&json!({ "maxConcurrentAgents": 3, "agents": { "a": { "command": ["c"], "timeoutMs": 7 } } }))
            .unwrap();
    let merged = Layers { initialization_options, environment, file }.merge();
    let agents = resolve(&merged).unwrap();
    assert_eq!(agents.default_agent().name.as_str(), "env");
    assert_eq!(agents.max_concurrent().get(), 3);
    let a = agents.get(&name("a")).unwrap();
    assert_eq!((argv(a), a.model.as_deref(), a.timeout), (vec!["c"], Some("m"), Duration::from_millis(7)));
    // The headers were for the endpoint that was replaced.
    assert!(merged.agents[&name("a")].headers.is_empty());
    assert_eq!(argv(agents.get(&name("b")).unwrap()), ["b"]);
}

#[test]
fn what_one_place_denies_no_other_allows_again() {
    let with = |pass: &str, deny: &[&str]| {
        let env = json!({ "pass": [pass], "deny": deny });
        from_value(&json!({ "agents": { "a": { "command": ["x"], "env": env } } })).unwrap()
    };
    let layers = Layers {
        initialization_options: with("GH_TOKEN", &["A", "C"]),
        file: with("B", &["GH_TOKEN", "A"]),
        ..Layers::default()
    };
    let agents = resolve(&layers.merge()).unwrap();
    let policy = &agents.get(&name("a")).unwrap().env;
    assert_eq!((policy.pass.join(" "), policy.deny.join(" ")), ("GH_TOKEN".to_owned(), "A C GH_TOKEN".to_owned()));
}

#[test]
fn the_environment_makes_the_default_agent() {
    let config = env(&[
        ("CW_AGENT_COMMAND", "'/opt/my agent' --in {{input}} \"--out={{result}}\""),
        ("CW_AGENT_ENDPOINT", "http://127.0.0.1:9/"),
        ("CW_AGENT_MODEL", " large "),
        ("CW_AGENT_TIMEOUT_MS", "5000"),
        ("CW_REQUIRE_ATTESTED_TELEMETRY", "yes"),
    ])
    .unwrap();
    let agents = resolve(&config).unwrap();
    let agent = agents.default_agent();
    assert_eq!(argv(agent), ["/opt/my agent", "--in", "{{input}}", "--out={{result}}"]);
    assert!(matches!(agent.target, Target::Command { stdin: StdinMode::Closed, preset: None, .. }));
    assert_eq!((agent.model.as_deref(), agent.timeout), (Some("large"), Duration::from_secs(5)));
    assert!(agent.require_attested_usage);

    let endpoint = env(&[("CW_AGENT_ENDPOINT", "http://127.0.0.1:9/"), ("CW_AGENT_TIMEOUT_MS", "0")]).unwrap();
    let agents = resolve(&endpoint).unwrap();
    assert!(matches!(&agents.default_agent().target, Target::Endpoint { url, .. } if url == "http://127.0.0.1:9/"));
    assert_eq!(agents.default_agent().timeout, Duration::from_secs(600));

    let preset = resolve(&env(&[("CW_AGENT_COMMAND", "builtin:gemini")]).unwrap()).unwrap();
    assert!(matches!(preset.default_agent().target, Target::Command { preset: Some(Preset::Gemini), .. }));
    assert_eq!(env(&[("CW_AGENT_COMMAND", "  "), ("CW_AGENT_MODEL", "m")]).unwrap(), Config::default());
}

#[test]
fn a_placeholder_of_a_command_that_is_none_is_told_with_the_one_meant() {
    let command = |argument: &str| {
        let agent = serde_json::json!({ "command": ["/bin/agent", "--in={{input}}", argument] });
        let config = serde_json::json!({ "agents": { "mine": agent } });
        resolve(&serde_json::from_value(config).unwrap())
    };
    for (argument, meant) in [
        ("{{reslt}}", "result"),
        ("--out={{ result }}", "result"),
        ("{{input}}:{{manifst}}", "manifest"),
        ("{{workerdir}}", "workerDir"),
        ("{{Prompt}}", "prompt"),
    ] {
        let (field, _, message) = faults(&command(argument).unwrap_err()).remove(0);
        assert_eq!(field, "agents.mine.command", "{argument}");
        assert!(message.contains(&format!("did you mean {{{{{meant}}}}}?")), "{argument}: {message}");
    }
    // Templates of the program's own, and what is known.
    for argument in
        ["{{.Name}}", "{{date}}", "{result}", "${result}", "{{", "}}", "{{}}", "a{{manifest}}b{{model}}", "{{a b c}}"]
    {
        assert!(command(argument).is_ok(), "{argument}");
    }
}

#[test]
fn faults_in_the_environment_name_the_variable() {
    for (pairs, variable) in [
        (vec![("CW_AGENT_COMMAND", "a 'b")], "CW_AGENT_COMMAND"),
        (vec![("CW_AGENT_COMMAND", "''")], "CW_AGENT_COMMAND"),
        (vec![("CW_AGENT_COMMAND", "builtin:nobody")], "CW_AGENT_COMMAND"),
        (vec![("CW_AGENT_ENDPOINT", "file:///etc/passwd")], "CW_AGENT_ENDPOINT"),
        (vec![("CW_AGENT_COMMAND", "a"), ("CW_AGENT_TIMEOUT_MS", "soon")], "CW_AGENT_TIMEOUT_MS"),
        (
            vec![("CW_AGENT_COMMAND", "a"), ("CW_REQUIRE_ATTESTED_TELEMETRY", "perhaps")],
            "CW_REQUIRE_ATTESTED_TELEMETRY",
        ),
    ] {
        assert_eq!(faults(&env(&pairs).unwrap_err())[0].0, variable);
    }
}

#[test]
fn a_public_key_is_a_pem_text_or_a_file_beside_the_configuration() {
    // Made up for tests: no key at all, only the shape of one.
    let pem = "-----BEGIN PUBLIC KEY-----\nmade-up-for-tests\n-----END PUBLIC KEY-----\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key.pem"), pem).unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "[agents.claude]\nattestPublicKey = \"key.pem\"\n").unwrap();
    let agents = resolve(&ConfigFile::load(&path).unwrap()).unwrap();
    assert_eq!(agents.get(&name("claude")).unwrap().attest_public_key.as_deref(), Some(pem));

    let with_key = |key: &str| from_value(&json!({ "agents": { "claude": { "attestPublicKey": key } } })).unwrap();
    assert!(resolve(&with_key(pem)).is_ok());
    for bad in ["/nonexistent/key.pem", "-----BEGIN RSA KEY-----", &pem.replace("PUBLIC", "PRIVATE")] {
        let error = resolve(&with_key(bad)).unwrap_err();
        assert_eq!(faults(&error)[0].0, "agents.claude.attestPublicKey");
        assert!(!error.to_string().contains("made-up"), "{error}");
    }
}

#[test]
fn a_client_sends_the_same_shape_and_older_names_keep_working() {
    let config = from_value(&json!({
        "defaultAgent": "a",
        "agents": { "a": { "command": ["x"], "env": { "expose": ["GH_TOKEN"], "deny": ["B"] }, "model": null } },
        "notifications": { "optOut": ["agentActivity"] },
        "protocolVersion": 1
    }))
    .unwrap();
    let agents = resolve(&config).unwrap();
    assert_eq!(agents.default_agent().env.pass, ["GH_TOKEN"]);
    assert_eq!(from_value(&json!(null)).unwrap(), Config::default());
    let error = from_value(&json!({ "agents": { "a": { "cmd": ["x"] } } })).unwrap_err();
    assert_eq!(faults(&error)[0].0, "agents.a.cmd");
}

#[test]
fn the_users_file_is_in_the_platforms_folder() {
    let path = |pairs: &[(&str, &str)]| {
        default_path(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>())
    };
    if cfg!(not(windows)) {
        assert_eq!(path(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]).unwrap(), Path::new("/x/flowdrive/config.toml"));
        assert_eq!(
            path(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "")]).unwrap(),
            Path::new("/h/.config/flowdrive/config.toml")
        );
        assert_eq!(path(&[]), None);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "([a-z]{0,8} ?= ?[\"\\[\\]{}a-z0-9]{0,8}\n|\\[agents\\.[a-z]{1,3}\\]\n|\\PC{0,6}){0,8}") {
        if let Err(error) = file(&text) {
            prop_assert!(faults(&error).iter().all(|(_, line, _)| line.is_some()));
        }
    }

    #[test]
    fn laying_nothing_over_something_changes_nothing(timeout in 1..u64::MAX, model in "[a-z]{1,4}") {
        let some = from_value(&json!({ "agents": { "a": { "command": ["x"], "timeoutMs": timeout, "model": model } } })).unwrap();
        for layers in [
            Layers { file: some.clone(), ..Layers::default() },
            Layers { environment: some.clone(), ..Layers::default() },
            Layers { initialization_options: some.clone(), file: some.clone(), ..Layers::default() },
        ] {
            prop_assert_eq!(layers.merge(), some.clone());
        }
    }
}

#[test]
fn certificates_that_cannot_be_decoded_are_refused_with_their_file_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let pem = |inside: &str| format!("-----BEGIN CERTIFICATE-----\n{inside}\n-----END CERTIFICATE-----\n");
    let good = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/ca.pem");
    let good_text = std::fs::read_to_string(good).unwrap();
    let resolved = |ca: &str| {
        let config = json!({ "agents": { "far": { "endpoint": "https://localhost:1/x", "caFile": ca } } });
        resolve(&serde_json::from_value(config).unwrap())
    };
    assert!(resolved(good).is_ok());
    assert!(resolved(&good_text).is_ok(), "as a text");
    for (name, text, reason) in [
        // Well-formed PEM around what is no certificate, alone and behind a good one.
        ("bytes.pem", pem("aGVsbG8="), "cannot be decoded"),
        ("second.pem", format!("{good_text}{}", pem("aGVsbG8=")), "cannot be decoded"),
        ("cut.pem", pem(&good_text.lines().skip(1).take(3).collect::<Vec<_>>().join("\n")), "cannot be decoded"),
        ("empty.pem", String::new(), "no `-----BEGIN CERTIFICATE-----`"),
        ("words.pem", "not a certificate".to_owned(), "no `-----BEGIN CERTIFICATE-----`"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let found = faults(&resolved(path.to_str().unwrap()).unwrap_err());
        let (field, _, message) = &found[0];
        assert_eq!(field, "agents.far.caFile", "{name}");
        assert!(message.contains(name) && message.contains(reason), "{name}: {message}");
    }
    let missing = folder.path().join("gone.pem");
    let (_, _, message) = &faults(&resolved(missing.to_str().unwrap()).unwrap_err())[0];
    assert!(message.contains("gone.pem"), "{message}");
}
