//! Which environment variables an agent gets: a pure function of the agent's policy and the server's own environment.
//!
//! Must not: read the process environment (a snapshot is handed in), or let a value out anywhere but into the child.

use std::collections::BTreeMap;

use flowdrive_protocol::config::EnvPolicy;

/// The variable whose value marks everything a delegation starts.
pub const MARKER: &str = "FLOWDRIVE_DELEGATION";

/// Never passed to any agent, whatever the policy says. Compared without regard to case, since the provider prefixes
/// are too.
const NEVER_FORWARDED: [&str; 3] = ["CW_RELEASE_VERDICT_PRIVKEY", "CW_WORKBENCH_TOKEN", "CW_BENCH_TRACE_FILE"];

/// Variables that agents authenticate and configure themselves with. Compared without regard to case.
const PROVIDER_PREFIXES: [&str; 12] = [
    "CW_",
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "DEEPSEEK_",
    "CODEX_",
    "GOOGLE_",
    "COHERE_",
    "MISTRAL_",
    "OLLAMA_",
    "AZURE_",
    "AWS_",
];

/// Words that make a variable's name look like a credential's.
const CREDENTIAL_WORDS: [&str; 14] = [
    "KEY",
    "APIKEY",
    "PRIVKEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "AUTH",
    "BEARER",
    "COOKIE",
];

/// What every program needs, besides what its user asks for.
const UNIX_BASE: [&str; 3] = ["PATH", "HOME", "USER"];

/// The same on Windows, where programs do not start, find their folders or find their interpreters without these.
pub const WINDOWS_BASE: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "USERNAME",
    "USERPROFILE",
    "USERDOMAIN",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "COMMONPROGRAMFILES",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "OS",
    "PROCESSOR_ARCHITECTURE",
];

const fn base() -> &'static [&'static str] {
    if cfg!(windows) { &WINDOWS_BASE } else { &UNIX_BASE }
}

/// What one agent gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentEnv {
    /// The whole environment of the child. Values must not leave this struct except into the child.
    pub vars: BTreeMap<String, String>,
    /// Names of the provider variables that are among them, sorted.
    pub forwarded: Vec<String>,
    /// Names of provider and credential-looking variables the server has and the agent does not get, sorted.
    pub withheld: Vec<String>,
}

/// Whether a name begins like a provider's variable.
#[must_use]
pub fn is_provider(name: &str) -> bool {
    PROVIDER_PREFIXES.iter().any(|prefix| starts_with_ignoring_case(name, prefix))
}

/// Whether the variable is one that no agent ever gets.
#[must_use]
pub fn is_never_forwarded(name: &str) -> bool {
    NEVER_FORWARDED.iter().any(|never| never.eq_ignore_ascii_case(name))
}

/// Whether a name looks like a credential's: one of its words (split at `_`, `-` and `.`) says so, or it ends in one.
#[must_use]
pub fn looks_like_credential(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.split(['_', '-', '.']).any(|word| {
        CREDENTIAL_WORDS.contains(&word)
            || ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|tail| word.len() > tail.len() && word.ends_with(tail))
    })
}

/// Whether two names are one variable's: on Windows whatever their case.
fn is_same(name: &str, other: &str) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case(other) } else { name == other }
}

/// The value of a variable, as the system looks it up.
#[must_use]
pub fn value_of<'v>(vars: &'v BTreeMap<String, String>, name: &str) -> Option<&'v str> {
    vars.iter().find(|(known, _)| is_same(known, name)).map(|(_, value)| value.as_str())
}

/// Builds the environment of an agent.
///
/// The base is `PATH`, `HOME` and `USER` (on Windows [`WINDOWS_BASE`]) and the names the policy passes, or everything when it inherits. Provider variables are
/// added. What the policy denies, and what is never forwarded, is absent whatever else is said. Entries no
/// system call could take (an `=` in the name, a NUL) are left out: one such must not keep every agent from starting.
#[must_use]
pub fn build(policy: &EnvPolicy, parent: &BTreeMap<String, String>) -> AgentEnv {
    let denied = |name: &str| policy.deny.iter().any(|deny| is_same(deny, name)) || is_never_forwarded(name);
    let mut env = AgentEnv::default();
    for (name, value) in parent {
        let usable = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') && name != MARKER;
        let wanted = policy.inherit
            || base().iter().any(|base| is_same(base, name))
            || policy.pass.iter().any(|pass| is_same(pass, name))
            || is_provider(name);
        let provider = is_provider(name);
        if usable && wanted && !denied(name) {
            env.vars.insert(name.clone(), value.clone());
            if provider {
                env.forwarded.push(name.clone());
            }
        } else if name != MARKER && (provider || looks_like_credential(name)) {
            env.withheld.push(name.clone());
        }
    }
    env
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> BTreeMap<String, String> {
        [
            ("PATH", "/bin"),
            ("HOME", "/home/u"),
            ("USER", "u"),
            ("LANG", "C"),
            ("GH_TOKEN", "made-up"),
            ("RANDOM_7F3", "made-up"),
            ("ANTHROPIC_API_KEY", "made-up"),
            ("aws_secret_access_key", "made-up"),
            ("AWS_SECRET_ACCESS_KEY", "made-up"),
            ("CW_AGENT_ATTEST_PRIVKEY", "made-up"),
            ("CW_RELEASE_VERDICT_PRIVKEY", "made-up"),
            ("CW_WORKBENCH_TOKEN", "made-up"),
            ("cw_workbench_token", "made-up"),
            ("CW_BENCH_TRACE_FILE", "made-up"),
            ("FLOWDRIVE_DELEGATION", "outer"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
    }

    fn policy(inherit: bool, pass: &[&str], deny: &[&str]) -> EnvPolicy {
        let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        EnvPolicy { inherit, pass: own(pass), deny: own(deny) }
    }

    /// policy, a name, whether the agent gets it
    #[test]
    fn every_rule_of_the_policy_holds() {
        let strict = policy(false, &[], &[]);
        let inherit = policy(true, &[], &[]);
        let table: &[(&EnvPolicy, &str, bool)] = &[
            (&strict, "PATH", true),
            (&strict, "HOME", true),
            (&strict, "USER", true),
            (&strict, "LANG", false),
            (&strict, "RANDOM_7F3", false),
            (&strict, "GH_TOKEN", false),
            (&strict, "ANTHROPIC_API_KEY", true),
            (&strict, "aws_secret_access_key", true),
            (&strict, "CW_AGENT_ATTEST_PRIVKEY", true),
            (&strict, "CW_RELEASE_VERDICT_PRIVKEY", false),
            (&strict, "CW_WORKBENCH_TOKEN", false),
            (&strict, "cw_workbench_token", false),
            (&strict, "CW_BENCH_TRACE_FILE", false),
            (&strict, "FLOWDRIVE_DELEGATION", false),
            (&inherit, "LANG", true),
            (&inherit, "RANDOM_7F3", true),
            (&inherit, "GH_TOKEN", true),
            (&inherit, "CW_RELEASE_VERDICT_PRIVKEY", false),
            (&inherit, "CW_WORKBENCH_TOKEN", false),
            (&inherit, "cw_workbench_token", false),
            (&inherit, "CW_BENCH_TRACE_FILE", false),
            (&inherit, "FLOWDRIVE_DELEGATION", false),
            (&policy(false, &["GH_TOKEN", "LANG"], &[]), "GH_TOKEN", true),
            (&policy(false, &["GH_TOKEN", "LANG"], &[]), "LANG", true),
            (&policy(false, &["NOT_SET"], &[]), "NOT_SET", false),
            (&policy(false, &["CW_WORKBENCH_TOKEN"], &[]), "CW_WORKBENCH_TOKEN", false),
            (&policy(false, &["GH_TOKEN"], &["GH_TOKEN"]), "GH_TOKEN", false),
            (&policy(true, &[], &["LANG"]), "LANG", false),
            (&policy(true, &[], &["PATH"]), "PATH", false),
            (&policy(false, &[], &["USER"]), "USER", false),
            (&policy(false, &[], &["HOME"]), "HOME", false),
            (&policy(false, &[], &["AWS_SECRET_ACCESS_KEY"]), "AWS_SECRET_ACCESS_KEY", false),
            (&policy(false, &[], &["CW_AGENT_ATTEST_PRIVKEY"]), "CW_AGENT_ATTEST_PRIVKEY", false),
            // Deny is exact: another spelling is another variable.
            (&policy(false, &[], &["AWS_SECRET_ACCESS_KEY"]), "aws_secret_access_key", true),
        ];
        for (policy, name, expected) in table {
            assert_eq!(build(policy, &parent()).vars.contains_key(*name), *expected, "{name} under {policy:?}");
        }
    }

    #[test]
    fn names_are_told_and_values_are_not() {
        let env = build(&policy(false, &[], &["AWS_SECRET_ACCESS_KEY"]), &parent());
        assert_eq!(env.forwarded, ["ANTHROPIC_API_KEY", "CW_AGENT_ATTEST_PRIVKEY", "aws_secret_access_key"]);
        assert_eq!(
            env.withheld,
            [
                "AWS_SECRET_ACCESS_KEY",
                "CW_BENCH_TRACE_FILE",
                "CW_RELEASE_VERDICT_PRIVKEY",
                "CW_WORKBENCH_TOKEN",
                "GH_TOKEN",
                "cw_workbench_token",
            ]
        );
        assert!(!env.forwarded.contains(&"USER".to_owned()), "USER is no provider's");
    }

    #[test]
    fn forwarded_names_are_told_under_inherit_too() {
        let env = build(&policy(true, &[], &[]), &parent());
        assert!(env.forwarded.contains(&"ANTHROPIC_API_KEY".to_owned()));
        assert!(!env.withheld.contains(&"GH_TOKEN".to_owned()));
    }

    #[test]
    fn entries_no_child_can_be_given_are_left_out() {
        let mut parent = parent();
        parent.insert("OPENAI_A=B".to_owned(), "x".to_owned());
        parent.insert("OPENAI_NUL".to_owned(), "x\0y".to_owned());
        parent.insert(String::new(), "x".to_owned());
        let env = build(&policy(true, &[], &[]), &parent);
        assert!(env.vars.keys().all(|k| !k.is_empty() && !k.contains('=')), "{:?}", env.vars.keys());
        assert!(!env.vars.contains_key("OPENAI_NUL"));
    }

    #[test]
    fn credentials_are_known_by_their_names() {
        for name in ["GH_TOKEN", "DB_PASSWORD", "stripe_secret", "MY_API_KEY", "NPM_AUTH", "GITHUBTOKEN", "X_PRIVKEY"] {
            assert!(looks_like_credential(name), "{name}");
        }
        for name in ["PATH", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM", "LANG", "MONKEYS", "AUTHOR", "PASSENGER"] {
            assert!(!looks_like_credential(name), "{name}");
        }
    }
}
