//! What a known program could sign in with: the names of variables it would get, and the file it keeps its sign-in in,
//! each after that program's documentation. `doctor` shows it.
//!
//! Must not: read a value or a file. That a file exists does not say that what is in it is still good.

use std::path::PathBuf;

use flowdrive_protocol::config::Preset;

use crate::delegate::env::{AgentEnv, is_provider, looks_like_credential};

/// What there is to sign in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignIn {
    /// Names of credential variables that the agent gets and its program reads.
    pub(crate) variables: Vec<String>,
    /// Names of those that are set and that the agent's policy keeps from it.
    pub(crate) withheld: Vec<String>,
    /// Where its program keeps a sign-in; none when the folder is not known.
    pub(crate) file: Option<PathBuf>,
    /// Whether that file exists.
    pub(crate) file_exists: bool,
}

impl SignIn {
    /// Looks, for a program whose ways are known.
    pub(crate) fn look(preset: Option<Preset>, env: &AgentEnv) -> Option<Self> {
        let preset = preset.filter(|preset| *preset != Preset::Survey)?;
        let reads = |name: &String| {
            let prefixes: &[&str] = match preset {
                Preset::Claude => &["ANTHROPIC_", "CLAUDE_CODE_OAUTH_"],
                Preset::Codex => &["OPENAI_", "CODEX_"],
                Preset::Gemini => &["GEMINI_", "GOOGLE_"],
                // It speaks to any of them.
                Preset::Opencode => return is_provider(name) && looks_like_credential(name),
                Preset::Survey => &[],
            };
            let named = prefixes.iter().any(|prefix| name.starts_with(prefix));
            named && looks_like_credential(name)
        };
        let file = file(preset, env);
        Some(Self {
            // A variable that is passed by name is no provider's, and is there all the same.
            variables: env
                .vars
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, _)| name.clone())
                .filter(reads)
                .collect(),
            withheld: env.withheld.iter().filter(|name| reads(name)).cloned().collect(),
            file_exists: file.as_ref().is_some_and(|file| file.is_file()),
            file,
        })
    }

    /// Whether there is nothing at all.
    pub(crate) fn is_missing(&self) -> bool {
        self.variables.is_empty() && !self.file_exists
    }
}

fn file(preset: Preset, env: &AgentEnv) -> Option<PathBuf> {
    let folder = |variable: &str| env.vars.get(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = || folder("HOME").or_else(|| if cfg!(windows) { folder("USERPROFILE") } else { None });
    let home = |below: &str| own().map(|home| home.join(below));
    Some(match preset {
        Preset::Claude => folder("CLAUDE_CONFIG_DIR").or_else(|| home(".claude"))?.join(".credentials.json"),
        Preset::Codex => folder("CODEX_HOME").or_else(|| home(".codex"))?.join("auth.json"),
        Preset::Gemini => home(".gemini")?.join("oauth_creds.json"),
        Preset::Opencode => folder("XDG_DATA_HOME").or_else(|| home(".local/share"))?.join("opencode/auth.json"),
        Preset::Survey => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flowdrive_protocol::config::EnvPolicy;

    use super::*;
    use crate::delegate::env;

    fn look(preset: Preset, vars: &[(&str, &str)], deny: &[&str]) -> SignIn {
        let parent: BTreeMap<String, String> =
            vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let deny = deny.iter().map(|name| (*name).to_owned()).collect();
        SignIn::look(Some(preset), &env::build(&EnvPolicy { deny, ..EnvPolicy::default() }, &parent)).unwrap()
    }

    #[test]
    fn each_program_is_looked_at_for_what_it_reads() {
        let vars = [
            ("HOME", "/nowhere"),
            ("ANTHROPIC_API_KEY", "made-up"),
            ("ANTHROPIC_MODEL", "m"),
            ("OPENAI_API_KEY", "made-up"),
            ("GEMINI_API_KEY", ""),
        ];
        let claude = look(Preset::Claude, &vars, &[]);
        assert_eq!(claude.variables, ["ANTHROPIC_API_KEY"]);
        assert_eq!(claude.file, Some("/nowhere/.claude/.credentials.json".into()));
        assert!(!claude.is_missing() && !claude.file_exists);
        assert_eq!(look(Preset::Codex, &vars, &[]).variables, ["OPENAI_API_KEY"]);
        assert!(look(Preset::Gemini, &vars, &[]).is_missing(), "an empty variable is none");
        assert_eq!(look(Preset::Opencode, &vars, &[]).variables, ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]);
        let denied = look(Preset::Claude, &vars, &["ANTHROPIC_API_KEY"]);
        assert!(denied.is_missing());
        assert_eq!(denied.withheld, ["ANTHROPIC_API_KEY"]);
        assert_eq!(SignIn::look(Some(Preset::Survey), &AgentEnv::default()), None);
        assert_eq!(SignIn::look(None, &AgentEnv::default()), None);
    }

    #[test]
    fn a_file_is_looked_for_where_the_program_would() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("auth.json"), "unread").unwrap();
        let folder = dir.path().to_str().unwrap();
        let codex = look(Preset::Codex, &[("HOME", "/nowhere"), ("CODEX_HOME", folder)], &[]);
        assert!(codex.file_exists && !codex.is_missing());
        assert_eq!(look(Preset::Codex, &[], &[]).file, None);
    }
}
