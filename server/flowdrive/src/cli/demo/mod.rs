//! `demo`: one workflow driven by two agents of both kinds at once, a program and an HTTP endpoint, with nothing but this
//! binary. Both agents are the embedded survey; what the demo shows is the drive, not their wit.

mod endpoint;
mod http;

use std::collections::BTreeMap;
use std::path::Path;

use flowdrive_protocol::config::{AgentConfig, Config};
use flowdrive_protocol::ids::{AgentName, InputName, InvalidId};
use flowdrive_protocol::method::{DriveParams, WorkflowRef};
use serde_json::{Value, json};

use self::endpoint::EndpointAgent;
use super::args::{DemoArgs, PlaceArgs};
use super::drive;
use super::error::CliError;
use super::output;
use super::session::Session;

const COMMAND_AGENT: &str = "demo-command";
const ENDPOINT_AGENT: &str = "demo-endpoint";

pub(crate) async fn demo(args: DemoArgs) -> Result<u8, CliError> {
    let program = std::env::current_exe().map_err(|source| CliError::io("find this program", source))?;
    let folder = tempfile::Builder::new()
        .prefix("flowdrive-demo-")
        .tempdir()
        .map_err(|source| CliError::io("make a temporary folder", source))?;
    let agent =
        EndpointAgent::start(program.clone()).await.map_err(|source| CliError::io("listen on 127.0.0.1", source))?;
    let config = folder.path().join("config.toml");
    let text = config_text(&program, agent.url())?;
    std::fs::write(&config, text).map_err(|source| CliError::io("write the demo's configuration", source))?;

    let place = PlaceArgs { workspace: args.workspace, config: None, json: args.json };
    Session::with_config(&place, &config, async |session| {
        if !args.json {
            let what = format!(
                "Asking in {}: {}\n`{COMMAND_AGENT}` is a program, `{ENDPOINT_AGENT}` listens at {}.\n",
                session.workspace,
                args.question,
                agent.url(),
            );
            output::err(&what);
        }
        let question = InputName::new("question").map_err(|error| defect(&error))?;
        let running = session.client.drive(DriveParams {
            workspace: session.place(),
            workflow: Some(WorkflowRef::Inline(workflow())),
            inputs: BTreeMap::from([(question, Value::from(args.question))]),
            ..DriveParams::default()
        });
        drive::conclude(session, running, args.json, None).await
    })
    .await
}

/// Names written in this file are well-formed, or the file is wrong.
fn defect(error: &InvalidId) -> CliError {
    CliError::fault(error.to_string(), "this is a defect of the program: report it")
}

fn agent_name(name: &str) -> Result<AgentName, CliError> {
    AgentName::new(name).map_err(|error| defect(&error))
}

fn config_text(program: &Path, url: &str) -> Result<String, CliError> {
    let program = program.to_string_lossy().into_owned();
    let command = ["agent", "survey", "--input", "{{input}}", "--result", "{{result}}", "--workspace", "."];
    let command = std::iter::once(program).chain(command.map(str::to_owned)).collect();
    let agents = BTreeMap::from([
        (agent_name(COMMAND_AGENT)?, AgentConfig { command: Some(command), ..AgentConfig::default() }),
        (agent_name(ENDPOINT_AGENT)?, AgentConfig { endpoint: Some(url.to_owned()), ..AgentConfig::default() }),
    ]);
    let default_agent = Some(agent_name(COMMAND_AGENT)?);
    let config = Config { default_agent, agents, ..Config::default() };
    toml::to_string(&config).map_err(|error| {
        CliError::fault(format!("cannot write the demo's configuration: {error}"), "move the program to a plainer path")
    })
}

/// Four looks at once, two by each agent, and a verdict.
fn workflow() -> Value {
    let looks = [
        ("map:entry-points", "Find where the program is entered from outside."),
        ("map:structure", "Find how the code is laid out, and what depends on what."),
        ("map:tests", "Find the tests, and how they are run."),
        ("map:configuration", "Find what can be configured, and where."),
    ];
    let tasks = looks.iter().zip([COMMAND_AGENT, ENDPOINT_AGENT].iter().cycle()).map(|((id, what), agent)| {
        json!({
            "id": id,
            "agent": agent,
            "sandbox": "readonly",
            "requiresEvidence": true,
            "prompt": format!("Question: {{{{question}}}}\n\n{what}\n"),
        })
    });
    json!({
        "schemaVersion": 1,
        "id": "demo",
        "title": "Demo",
        "summary": "Four looks at a repository by two kinds of agent at once, and a verdict.",
        "limits": {"maxConcurrentAgents": 4},
        "inputs": {"question": {"type": "string", "required": true, "description": "What to look for."}},
        "phases": [
            {"id": "map", "title": "Map", "mode": "parallel", "tasks": tasks.collect::<Vec<_>>()},
            {"id": "verdict", "title": "Verdict", "tasks": [{
                "id": "verdict:answer",
                "agent": COMMAND_AGENT,
                "sandbox": "readonly",
                "requiresEvidence": true,
                "prompt": "Question: {{question}}\n\nAnswer it, and cite the lines the answer stands on.\n",
            }]},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_is_one_and_uses_both_agents_in_one_phase() {
        let workflow: flowdrive_protocol::workflow::Workflow = serde_json::from_value(workflow()).unwrap();
        let agents: Vec<&str> =
            workflow.phases[0].tasks.iter().filter_map(|task| task.agent.as_ref()).map(AsRef::as_ref).collect();
        assert_eq!(agents, [COMMAND_AGENT, ENDPOINT_AGENT, COMMAND_AGENT, ENDPOINT_AGENT]);
        assert!(workflow.phases[0].tasks[0].prompt.starts_with("Question: {{question}}\n"));
    }

    #[test]
    fn the_configuration_reads_back() {
        let text = config_text(Path::new("/opt/a \"b\"/flowdrive"), "http://127.0.0.1:1/x").unwrap();
        let config: Config = toml::from_str(&text).unwrap();
        let agent = |name: &str| &config.agents[&AgentName::new(name).unwrap()];
        assert_eq!(agent(COMMAND_AGENT).command.as_ref().unwrap()[0], "/opt/a \"b\"/flowdrive");
        assert_eq!(agent(ENDPOINT_AGENT).endpoint.as_deref(), Some("http://127.0.0.1:1/x"));
    }
}
