//! From a configuration to agents that can be delegated to, every default filled in.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use flowdrive_protocol::config::{AgentConfig, Config, Preset};
use flowdrive_protocol::error::ErrorKind;
use flowdrive_protocol::ids::AgentName;

use super::check::{self, Extent, preset_named};
use super::error::ConfigError;
use crate::EngineError;
use crate::model::agent::{Agent, DEFAULT_TIMEOUT, Target};
use crate::workflow::document::{FieldPath, did_you_mean, listed};
use crate::workflow::{Fault, Faults};

/// The agent that is always there: the deterministic word search inside the binary.
pub const SURVEY: &str = "builtin:survey";

/// Agents in flight at once over all runs, where the configuration does not say.
/// A run's own width is far below it unless it was asked for.
const DEFAULT_MAX_CONCURRENT: NonZeroU32 = NonZeroU32::new(64).expect("64 is not 0");

/// Presets that can be named without being configured.
const BARE_PRESETS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// The agents of a configuration, those that need no configuration, and which one is the default.
#[derive(Debug, Clone, PartialEq)]
pub struct Agents {
    agents: BTreeMap<AgentName, Agent>,
    /// Always a key of `agents`.
    default: AgentName,
    max_concurrent: NonZeroU32,
}

impl Agents {
    /// Checks the whole configuration and fills in what it leaves open. `survey_program` is the program that is
    /// [`SURVEY`] when it is called with `agent survey`. Reads the key files that the configuration names.
    ///
    /// # Errors
    /// [`ConfigError`] with every fault's field.
    pub fn resolve(config: &Config, survey_program: &Path) -> Result<Self, ConfigError> {
        let mut faults: Vec<(FieldPath, String)> = Vec::new();
        let Some(survey_program) = survey_program.to_str() else {
            let message = format!("the path of {SURVEY}'s program is not UTF-8 text: {}", survey_program.display());
            return Err(refuse(vec![(FieldPath::root(), message)]));
        };
        let mut agents = BTreeMap::new();
        for name in BARE_PRESETS {
            let name = builtin_name(name);
            let agent = make(&name, &AgentConfig::default(), survey_program, &mut faults);
            agents.insert(name, agent);
        }
        for (name, configured) in &config.agents {
            faults.extend(check::agent(name, configured, Extent::Whole));
            agents.insert(name.clone(), make(name, configured, survey_program, &mut faults));
        }
        let survey = builtin_name(SURVEY);
        let configured = AgentConfig { preset: Some(Preset::Survey), ..AgentConfig::default() };
        agents.insert(survey.clone(), make(&survey, &configured, survey_program, &mut faults));

        let default = config.default_agent.clone().unwrap_or(survey);
        if !agents.contains_key(&default) {
            let message = format!("agent `{default}` is not configured{}", known_after(&default, &agents));
            faults.push((FieldPath::root().key("defaultAgent"), message));
        }
        if !faults.is_empty() {
            return Err(refuse(faults));
        }
        let max_concurrent = config.max_concurrent_agents.unwrap_or(DEFAULT_MAX_CONCURRENT);
        Ok(Self { agents, default, max_concurrent })
    }

    /// The agent of a name.
    ///
    /// # Errors
    /// `agent-not-configured`, naming the agents there are.
    pub fn get(&self, name: &AgentName) -> Result<&Agent, EngineError> {
        self.agents.get(name).ok_or_else(|| {
            EngineError::new(
                ErrorKind::AgentNotConfigured,
                format!("Agent `{name}` is not configured{}", known_after(name, &self.agents)),
                "Define the agent in your configuration, or name one of those that are known.",
            )
        })
    }

    /// The agent for tasks that name none.
    #[must_use]
    pub fn default_agent(&self) -> &Agent {
        &self.agents[&self.default]
    }

    /// How many agents may be in flight at once over all runs.
    #[must_use]
    pub fn max_concurrent(&self) -> NonZeroU32 {
        self.max_concurrent
    }

    /// Every agent, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }
}

/// Whether a text is the key itself, rather than the path of a file that holds it.
pub(super) fn is_pem(text: &str) -> bool {
    text.contains("-----BEGIN")
}

fn make(
    name: &AgentName,
    configured: &AgentConfig,
    survey_program: &str,
    faults: &mut Vec<(FieldPath, String)>,
) -> Agent {
    let stdin = configured.stdin.unwrap_or_default();
    let target = match (&configured.command, &configured.endpoint) {
        (Some(argv), _) => Target::Command { argv: argv.clone(), stdin, preset: None },
        (None, Some(url)) => {
            let ca = configured.ca_file.as_deref().and_then(|file| match certificates(file) {
                Ok(pem) => Some(pem),
                Err(reason) => {
                    faults.push((FieldPath::root().key("agents").key(name.as_str()).key("caFile"), reason));
                    None
                }
            });
            Target::Endpoint { url: url.clone(), headers: configured.headers.clone(), ca }
        }
        (None, None) => {
            let preset = configured.preset.or_else(|| preset_named(name.as_str()));
            Target::Command { argv: preset_argv(preset, survey_program), stdin, preset }
        }
    };
    let key = configured.attest_public_key.as_deref().and_then(|key| match public_key(key) {
        Ok(pem) => Some(pem),
        Err(reason) => {
            faults.push((FieldPath::root().key("agents").key(name.as_str()).key("attestPublicKey"), reason));
            None
        }
    });
    Agent {
        name: name.clone(),
        target,
        model: configured.model.clone(),
        timeout: configured.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
        idle_timeout: configured.idle_timeout_ms.filter(|limit| *limit > 0).map(Duration::from_millis),
        max_concurrent: configured.max_concurrent,
        env: configured.env.clone().unwrap_or_default(),
        attest_public_key: key,
        require_attested_usage: configured.require_attested_usage.unwrap_or(false),
    }
}

/// The survey's whole command line; of the other presets only the program, since how it is called is known where it is
/// called. The working directory is the workspace.
fn preset_argv(preset: Option<Preset>, survey_program: &str) -> Vec<String> {
    let program = match preset {
        Some(Preset::Claude) => "claude",
        Some(Preset::Codex) => "codex",
        Some(Preset::Gemini) => "gemini",
        Some(Preset::Opencode) => "opencode",
        Some(Preset::Survey) => {
            let arguments = ["agent", "survey", "--input", "{{input}}", "--result", "{{result}}", "--workspace", "."];
            return std::iter::once(survey_program).chain(arguments).map(str::to_owned).collect();
        }
        // Only reached with a fault, which forbids the configuration as a whole.
        None => "",
    };
    vec![program.to_owned()]
}

/// A PEM text, or that of the file it names.
fn pem_text(text: &str, most: u64) -> Result<String, String> {
    if is_pem(text) {
        return Ok(text.to_owned());
    }
    let unreadable = |error| format!("is neither a PEM text nor a file that can be read ({text}): {error}");
    let bytes = crate::workflow::read_regular(Path::new(text), most).map_err(unreadable)?;
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| format!("names a file that holds no PEM text ({text})"))
}

fn certificates(text: &str) -> Result<String, String> {
    let pem = pem_text(text, 4 * 1024 * 1024)?;
    let place = if is_pem(text) { String::new() } else { format!(" ({text})") };
    let found = match reqwest::Certificate::from_pem_bundle(pem.as_bytes()) {
        Ok(found) if !found.is_empty() => found,
        _ => return Err(format!("holds no `-----BEGIN CERTIFICATE-----` that can be read{place}")),
    };
    // Reading PEM looks at its frame alone. What is inside is decoded where it is taken for trusted, and that is not to be at
    // the first delegation.
    match reqwest::Client::builder().no_proxy().tls_certs_only(found).build() {
        Ok(_) => Ok(pem),
        Err(error) => {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            Err(format!("holds a certificate that cannot be decoded{place}: {cause}"))
        }
    }
}

fn public_key(text: &str) -> Result<String, String> {
    let pem = pem_text(text, 64 * 1024)?;
    if pem.contains("PRIVATE KEY-----") {
        return Err("holds a private key; the public one belongs here".to_owned());
    }
    if pem.contains("-----BEGIN PUBLIC KEY-----") {
        Ok(pem)
    } else {
        Err("holds no `-----BEGIN PUBLIC KEY-----`".to_owned())
    }
}

fn known_after(name: &AgentName, agents: &BTreeMap<AgentName, Agent>) -> String {
    let known = || agents.keys().map(AgentName::as_str);
    let builtin = format!("{}{name}", check::RESERVED);
    if known().any(|known| known == builtin) {
        return format!("; did you mean `{builtin}`? Known agents: {}", listed(known()));
    }
    format!("{} Known agents: {}", did_you_mean(name.as_str(), known()), listed(known()))
}

fn builtin_name(name: &str) -> AgentName {
    AgentName::new(name).expect("the built-in names fit the grammar of agent names")
}

fn refuse(faults: Vec<(FieldPath, String)>) -> ConfigError {
    let faults = faults.into_iter().map(|(path, message)| Fault::new(&path, None, message)).collect();
    ConfigError::Invalid(Faults::new(None, faults).expect("a refusal has at least one fault"))
}
