//! What kind of place a locator names, by its shape alone.
//!
//! Must not: look at a file system; whether a place exists is for the judge to find out.

use std::sync::LazyLock;

use regex::Regex;

use super::{harvest, json::trim, path};

/// Longest locator taken for one, in bytes. No file system has longer paths.
const MAX_BYTES: usize = 4096;

/// Schemes of URLs that run or hold something. A reader who follows one looks nothing up.
const SCRIPTS: &[&str] = &["javascript", "vbscript", "livescript", "data", "blob", "about", "view-source"];

/// What a locator names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locator {
    /// A file. Whether it exists is not known here.
    File {
        /// Its path with `/` between parts and without `.` or `..`; absolute if it was written so.
        path: String,
        /// The first and last line cited, from 1.
        lines: Option<(u32, u32)>,
    },
    /// A URL. Never fetched.
    Url,
    /// A `namespace:value` token. Cannot be looked up.
    Token,
    /// Nothing that can support a claim.
    Ungrounded(Flaw),
}

/// Why a locator supports nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It is prose, or empty.
    FreeText,
    /// Its last line comes before its first.
    Backwards,
    /// It cites line 0; lines count from 1.
    LineZero,
    /// It cites a line beyond any file.
    LineTooLarge,
    /// What follows its path is meant as lines, but in no form that is known.
    UnreadableLines,
    /// Its path leads out of the workspace.
    Outside,
    /// It is a URL that runs or holds something in place of naming a place (`javascript:`, `data:`).
    Script,
}

impl Flaw {
    /// The flaw in words that follow the locator.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FreeText => "free text, not a place",
            Self::Backwards => "backwards: the last line comes before the first",
            Self::LineZero => "line 0: lines count from 1",
            Self::LineTooLarge => "no file has such a line",
            Self::UnreadableLines => "its lines cannot be read; write `:10` or `:10-12`",
            Self::Outside => "outside the workspace",
            Self::Script => "names no place that can be looked up",
        }
    }
}

/// Whether a task's result must be backed by evidence that holds: it says so, or its id begins with `verify`, `verdict`
/// or `synthesis` and `:` or `/`, in any case.
#[must_use]
pub fn requires_evidence(task_id: &str, flag: bool) -> bool {
    flag || task_id.split_once([':', '/']).is_some_and(|(prefix, _)| {
        ["verify", "verdict", "synthesis"].iter().any(|word| prefix.eq_ignore_ascii_case(word))
    })
}

/// Says what a locator names. Total: every text has a class.
///
/// A text without white space is taken as a whole. Of prose, the first locator inside it counts; prose without one is
/// free text, also when it holds a slash. The shapes, first match wins:
/// - `javascript:`, `data:` and their like are nothing, with or without `//`;
/// - `file://` URLs are files, other URLs are [`Locator::Url`];
/// - `namespace:value` is a token, also with a slash in it, unless it ends like a file name (`a.rs:10`, `x:src/a.rs`)
///   or begins with a drive letter;
/// - what holds a slash or ends in a file extension is a file, with lines as `:10`, `:10-12`, `:10:5`, `#L10-L12`, `#10`
///   or `(10,5)`. Symbols and anchors behind a file name (`a.rs:main`, `a.md#usage`) are left off where a slash shows that
///   it is a path.
#[must_use]
pub fn classify(text: &str) -> Locator {
    let text = unwrap(text);
    if text.contains(char::is_whitespace) {
        return harvest::first(text).map_or(Locator::Ungrounded(Flaw::FreeText), |token| classify_word(&token));
    }
    classify_word(text)
}

/// The class of a text that holds no white space.
pub(super) fn classify_word(word: &str) -> Locator {
    if word.is_empty() || word.len() > MAX_BYTES || word.contains(char::is_control) {
        return Locator::Ungrounded(Flaw::FreeText);
    }
    if word.split_once(':').is_some_and(|(scheme, _)| SCRIPTS.iter().any(|known| scheme.eq_ignore_ascii_case(known))) {
        return Locator::Ungrounded(Flaw::Script);
    }
    if let Some((scheme, rest)) = word.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) {
        return match scheme.eq_ignore_ascii_case("file") {
            true => file(&path::from_url(rest)),
            false if rest.contains(char::is_alphanumeric) => Locator::Url,
            false => Locator::Ungrounded(Flaw::FreeText),
        };
    }
    if let Some(rest) = word.strip_prefix("file:").or_else(|| word.strip_prefix("path:")) {
        return file(rest);
    }
    let path = split_span(word).0;
    if is_token(word) && !extension(path).is_some_and(|extension| extension.contains(char::is_alphabetic)) {
        return Locator::Token;
    }
    if word.contains(['/', '\\']) || extension(path).is_some() {
        return file(word);
    }
    Locator::Ungrounded(Flaw::FreeText)
}

/// Whether a locator is plainly meant as a place in a file: it has lines, or a folder and an extension.
pub(super) fn is_citation(locator: &Locator) -> bool {
    match locator {
        Locator::File { path, lines } => lines.is_some() || path.contains('/') && extension(path).is_some(),
        _ => false,
    }
}

/// A file locator, whatever the shape of its path.
pub(super) fn file(text: &str) -> Locator {
    let (path, lines) = split_span(text);
    let lines = match lines.map(check_span).transpose() {
        Ok(lines) => lines,
        Err(flaw) => return Locator::Ungrounded(flaw),
    };
    let named = if lines.is_none() { without_symbol(path) } else { path };
    // Left off as a symbol, lines nobody looked at would pass for lines that hold.
    let tail = &path[named.len()..];
    if tail.strip_prefix(':').is_some_and(means_lines) || tail.strip_prefix('#').is_some_and(means_lines_as_anchor) {
        return Locator::Ungrounded(Flaw::UnreadableLines);
    }
    match path::normalise(named) {
        Some(path) => Locator::File { path, lines },
        None => Locator::Ungrounded(Flaw::Outside),
    }
}

/// Takes off what a writer puts around a locator: white space, quotes, back quotes, brackets, a Markdown link, and the
/// punctuation of the sentence it ends.
pub(super) fn unwrap(text: &str) -> &str {
    let mut text = trim(text);
    loop {
        let before = text.len();
        text = trim(text.trim_end_matches([',', ';']));
        if text.ends_with('.') && !text.ends_with("..") && !text.ends_with("/.") && text.len() > 1 {
            text = &text[..text.len() - 1];
        }
        for (open, close) in [("`", "`"), ("\"", "\""), ("'", "'"), ("<", ">"), ("**", "**"), ("(", ")"), ("[", "]")] {
            let inner = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
            if let Some(inner) = inner.filter(|inner| !inner.contains(open) && !inner.contains(close)) {
                text = trim(inner);
            }
        }
        if let Some(target) = LINK.captures(text).and_then(|link| link.get(1)) {
            text = target.as_str();
        }
        if text.len() == before {
            return text;
        }
    }
}

static LINK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^!?\[[^\]]*\]\(([^()\s]+)\)$").expect("a constant pattern"));

/// The lines behind a path. `a` and `b` bound them; `ac` and `bc` are columns, which are read and not kept.
static SPAN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?P<path>.+?)(?:",
        r":L?(?P<a>\d+)(?P<ac>:\d+)?(?:[-–—]L?(?P<b>\d+)(?P<bc>:\d+)?)?",
        r"|#(?i:L|lines?[-=:]?)?(?P<c>\d+)(?:C\d+)?(?:[-–—]L?(?P<d>\d+)(?:C\d+)?)?",
        r"|\((?P<e>\d+)(?:,\d+)?\)",
        r")$"
    ))
    .expect("a constant pattern")
});

/// The lines of a span as written: digits, and digits again for a range.
type Digits<'a> = (&'a str, Option<&'a str>);

/// Splits a locator into its path and its lines.
pub(super) fn split_span(text: &str) -> (&str, Option<Digits<'_>>) {
    let Some(found) = SPAN.captures(text) else {
        return (text, None);
    };
    let group = |name| found.name(name).map(|group| group.as_str());
    let first = group("a").or_else(|| group("c")).or_else(|| group("e"));
    // In `a.rs:10:5-9` the range is one of columns.
    let columns = found.name("ac").is_some() && found.name("bc").is_none();
    let last = group("b").filter(|_| !columns).or_else(|| group("d"));
    match (group("path"), first) {
        (Some(path), Some(first)) => (path, Some((first, last))),
        _ => (text, None),
    }
}

fn check_span((first, last): Digits<'_>) -> Result<(u32, u32), Flaw> {
    let line = |digits: &str| match digits.parse() {
        Ok(0) => Err(Flaw::LineZero),
        Ok(line) => Ok(line),
        Err(_) => Err(Flaw::LineTooLarge),
    };
    let first = line(first)?;
    let last = last.map_or(Ok(first), line)?;
    if last < first { Err(Flaw::Backwards) } else { Ok((first, last)) }
}

/// Takes off `:symbol`, `::symbol` or `#anchor` behind a file name that has an extension.
fn without_symbol(path: &str) -> &str {
    let name_at = path.rfind(['/', '\\']).map_or(0, |at| at + 1);
    match path[name_at..].find([':', '#']).map(|at| &path[..name_at + at]) {
        Some(file) if extension(file).is_some() => file,
        _ => path,
    }
}

/// Whether what follows the colon behind a file name is meant as lines: no symbol begins with a digit, or with a sign
/// or the word "line" and a digit.
fn means_lines(tail: &str) -> bool {
    let tail = tail.trim_start_matches(|c: char| c.is_whitespace() || "-–—+~.=".contains(c));
    let word: String = tail.chars().take_while(char::is_ascii_alphabetic).collect();
    let number = match word.to_ascii_lowercase().as_str() {
        "" => tail,
        "l" | "ln" | "line" | "lines" => tail[word.len()..].trim_start(),
        _ => return false,
    };
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    // `L1cache` is a name.
    rest.len() < number.len() && (word.is_empty() || !rest.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// The same for what follows a `#`: an anchor such as `2-usage` does begin with a digit.
fn means_lines_as_anchor(tail: &str) -> bool {
    let digits = tail.find(|c: char| c.is_ascii_digit()).map_or("", |at| &tail[at..]);
    means_lines(tail) && !digits.contains(char::is_alphabetic)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
}

/// The 1 to 12 letters and digits behind the text's last dot.
fn extension(text: &str) -> Option<&str> {
    let (_, extension) = text.rsplit_once('.')?;
    let fits = (1..=12).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then_some(extension)
}

/// `namespace:value`, but no path of a language's names (`std::fs`) and no drive letter (`C:\a`, `C:/a`).
fn is_token(word: &str) -> bool {
    let Some((namespace, value)) = word.split_once(':') else {
        return false;
    };
    let named = namespace.starts_with(|c: char| c.is_ascii_alphabetic())
        && namespace.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let drive = namespace.len() == 1 && value.starts_with(['/', '\\']);
    named && !drive && !value.is_empty() && !value.starts_with(':')
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
