//! What must not be written down or sent: secrets in arguments and in text, found by flag, by look and by value.
//!
//! Values are taken from the server's own environment, so that a key an agent prints is found whatever it looks like.
//! They are replaced in everything this module's callers record: invocations, stderr tails, reasons, activity, the
//! logs of an agent's output, and result files whoever wrote them. Logs and results are otherwise the agent's own bytes:
//! a secret has to be found in no file of a run, and that is worth more than bytes kept exactly. Other files that an
//! agent writes are its own affair.
//!
//! Must not: keep or return a secret, or change what is passed to the agent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

use super::env;

/// What stands in for a secret.
pub const REDACTED: &str = "<redacted>";

/// Shortest value that is looked for: shorter ones turn up by chance.
const SHORTEST: usize = 6;

/// Shortest line of a value of several lines that is looked for by itself.
const SHORTEST_LINE: usize = 12;

/// Longest value that is looked for whole; of a longer one, its first part is looked for.
const LONGEST: usize = 16 * 1024;

/// Flags whose next argument is a secret.
const FLAGS: [&str; 8] = ["--api-key", "--apikey", "--token", "--key", "--secret", "--password", "--auth", "--bearer"];

/// Last words of provider variables' names that say the value is no secret.
const PLAIN_WORDS: [&str; 24] = [
    "MODEL", "REGION", "HOST", "URL", "ENDPOINT", "BASE", "DIR", "HOME", "PATH", "FILE", "COMMAND", "PROFILE",
    "VERSION", "PROJECT", "LOCATION", "TIMEOUT", "MS", "LEVEL", "LOG", "DEBUG", "ENABLED", "NAME", "MODE", "STREAM",
];

#[expect(clippy::expect_used, reason = "constant patterns, compiled by the tests")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

static INLINE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?is)^(--?(?:[A-Za-z][A-Za-z0-9_-]*)?(?:key|token|secret|password|auth|bearer)[A-Za-z0-9_-]*)=.*")
});
static LOOK: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(sk-|ghp_|gho_|github_pat_|xox[abpr]-|Bearer\s)"));
/// Inside running text only what can hardly be anything else: a plain 32-character word may be a digest.
static LOOK_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\b(?:sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}",
        r"|xox[abpr]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,})|(?i:\bBearer\s+)[A-Za-z0-9._~+/=-]{8,}",
    ))
});
static USERINFO: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/?#@]+@"));

/// Finds secrets. Building it costs a pass over the environment; share it behind an `Arc`.
#[derive(Default)]
pub struct Redactor {
    values: Vec<String>,
    finder: Option<AhoCorasick>,
}

/// Says how many values there are and never which.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Looks for the secrets of an environment.
    #[must_use]
    pub fn new(env: &BTreeMap<String, String>) -> Self {
        Self::with_values(secret_values(env))
    }

    fn with_values(mut values: Vec<String>) -> Self {
        // As a JSON string spells them, for values with quotes or line ends in them.
        let escaped: Vec<String> = values
            .iter()
            .filter_map(|value| {
                let json = serde_json::to_string(value).ok()?;
                let inner = json.get(1..json.len().saturating_sub(1))?.to_owned();
                (inner != *value).then_some(inner)
            })
            .collect();
        values.extend(escaped);
        values.sort();
        values.dedup();
        if values.is_empty() {
            return Self::default();
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&values)
            .inspect_err(|error| tracing::error!(%error, "secrets in agents' output are found by look only"))
            .ok();
        Self { values, finder }
    }

    /// One that looks for these values as well, whatever the names they were set under; itself where it does already.
    #[must_use]
    pub fn with<'v>(self: &Arc<Self>, values: impl IntoIterator<Item = &'v str>) -> Arc<Self> {
        let further: Vec<String> = values
            .into_iter()
            .flat_map(parts)
            .filter(|value| value.len() >= SHORTEST && !self.values.iter().any(|known| known == value))
            .map(str::to_owned)
            .collect();
        if further.is_empty() {
            return Arc::clone(self);
        }
        Arc::new(Self::with_values(self.values.iter().cloned().chain(further).collect()))
    }

    /// Arguments as they may be recorded: by flag, by inline form, by look and by value.
    #[must_use]
    pub fn redact_args(&self, args: &[String]) -> Vec<String> {
        let mut after_flag = false;
        args.iter()
            .map(|arg| {
                if std::mem::take(&mut after_flag) {
                    return REDACTED.to_owned();
                }
                after_flag = FLAGS.iter().any(|flag| flag.eq_ignore_ascii_case(arg));
                if let Some(inline) = INLINE.captures(arg) {
                    format!("{}={REDACTED}", &inline[1])
                } else if LOOK.is_match(arg) || is_long_word(arg) {
                    REDACTED.to_owned()
                } else {
                    self.redact_text(arg).into_owned()
                }
            })
            .collect()
    }

    /// Text as it may be recorded: by value, by what can hardly be anything but a key, and credentials in URLs.
    #[must_use]
    pub fn redact_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = self.redact_values(text);
        for (pattern, with) in [(&*LOOK_IN_TEXT, REDACTED), (&*USERINFO, "${1}<redacted>@")] {
            if pattern.is_match(&text) {
                text = Cow::Owned(pattern.replace_all(&text, with).into_owned());
            }
        }
        text
    }

    /// Text with the known values replaced, and nothing else.
    #[must_use]
    pub fn redact_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => {
                let mut clean = String::with_capacity(text.len());
                finder.replace_all_with(text, &mut clean, |_, _, to| {
                    to.push_str(REDACTED);
                    true
                });
                Cow::Owned(clean)
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// A redactor for a stream of bytes, where a value may be cut by the edge of a chunk.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> StreamRedactor {
        StreamRedactor { redactor: Arc::clone(self), held: Vec::new() }
    }

    /// How many of the last bytes could be the beginning of a value: the longest tail that a value starts with.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let begins = |value: &str| {
            let value = value.as_bytes();
            let window = bytes.len().min(value.len().saturating_sub(1));
            (1..=window).rev().find(|len| value.starts_with(&bytes[bytes.len() - len..])).unwrap_or(0)
        };
        self.values.iter().map(|value| begins(value)).max().unwrap_or(0)
    }
}

/// Replaces values in a stream. Holds back only what could still become one, so at most the longest value's length.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Arc<Redactor>,
    held: Vec<u8>,
}

impl StreamRedactor {
    /// The next chunk, as far as it is certain.
    #[must_use]
    pub fn push<'c>(&mut self, chunk: &'c [u8]) -> Cow<'c, [u8]> {
        let Some(finder) = &self.redactor.finder else { return Cow::Borrowed(chunk) };
        let open = self.redactor.open_end(chunk);
        if self.held.is_empty() && open == 0 && !finder.is_match(chunk) {
            return Cow::Borrowed(chunk);
        }
        self.held.extend_from_slice(chunk);
        let mut certain = self.held.len() - self.redactor.open_end(&self.held);
        let mut clean = Vec::with_capacity(self.held.len());
        let mut done = 0;
        for found in finder.find_iter(&self.held) {
            if found.start() >= certain {
                break;
            }
            clean.extend_from_slice(&self.held[done..found.start()]);
            clean.extend_from_slice(REDACTED.as_bytes());
            done = found.end();
            certain = certain.max(done);
        }
        clean.extend_from_slice(&self.held[done..certain]);
        self.held.drain(..certain);
        Cow::Owned(clean)
    }

    /// What was held back, when the stream has ended.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        match &self.redactor.finder {
            Some(finder) => finder.replace_all_bytes(&held, &vec![REDACTED; self.redactor.values.len()]),
            None => held,
        }
    }
}

/// A URL as it may be recorded: no credentials, no query, no fragment.
#[must_use]
pub fn redact_url(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => bare.to_owned(),
    }
}

fn is_long_word(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The values of an environment that must not be written down: those of credential-looking names (withheld or passed)
/// and of never-forwarded ones, and those of provider variables that are not plainly a setting.
fn secret_values(env: &BTreeMap<String, String>) -> Vec<String> {
    let harmless: Vec<&str> =
        ["PATH", "HOME", "USER", "PWD", "SHELL"].iter().filter_map(|name| env.get(*name)).map(String::as_str).collect();
    env.iter()
        .filter(|(name, value)| is_secret(name, value))
        .flat_map(|(_, value)| parts(value))
        .filter(|value| value.len() >= SHORTEST && !is_common(value))
        .filter(|value| !harmless.iter().any(|plain| plain.contains(value)))
        .map(|value| {
            let end = (0..=LONGEST.min(value.len())).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
            value[..end].to_owned()
        })
        .collect()
}

/// The value, and the parts of it that are secret by themselves: the password in a URL, what comes after the scheme of an
/// `Authorization` header, and each line of several (a PEM key is often printed indented, or a line at a time).
fn parts(value: &str) -> Vec<&str> {
    let value = value.trim();
    let mut parts = vec![value];
    parts.extend(password_of_url(value));
    let scheme = value
        .split_once(' ')
        .filter(|(scheme, _)| ["bearer", "basic", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known)));
    parts.extend(scheme.map(|(_, credentials)| credentials.trim()));
    if value.contains('\n') {
        let lines = value.lines().map(str::trim);
        parts.extend(lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----")));
    }
    parts
}

fn is_secret(name: &str, value: &str) -> bool {
    if env::is_never_forwarded(name) || env::looks_like_credential(name) || LOOK.is_match(value) {
        return true;
    }
    let upper = name.to_ascii_uppercase();
    let last_word = upper.rsplit('_').next().unwrap_or_default();
    env::is_provider(name) && !PLAIN_WORDS.contains(&last_word) && !value.starts_with('/')
        || password_of_url(value).is_some()
}

/// Words and numbers that turn up everywhere.
fn is_common(value: &str) -> bool {
    value.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        || ["disabled", "enabled", "default", "production", "development", "always", "never "]
            .iter()
            .any(|word| word.trim().eq_ignore_ascii_case(value))
}

fn password_of_url(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (userinfo, _) = authority.rsplit_once('@')?;
    let (_, password) = userinfo.split_once(':')?;
    (!password.is_empty()).then_some(password)
}

#[cfg(test)]
mod tests;
