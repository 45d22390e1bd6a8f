//! One cited place at a time: does it hold?
//!
//! Must not: decide what follows from a place that does not.

use std::collections::HashSet;
use std::ops::ControlFlow;

use flowdrive_protocol::outcome::{Evidence, EvidenceKind};

use super::evidence::{Flaw, Locator, classify_word, file, is_citation, split_span, unwrap};
use super::files::{Desk, Presence};
use super::parse::{Cited, Origin};
use super::refusal::quote;
use super::{harvest, path};

/// What one locator came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Weighed {
    /// What is recorded: of the kind `Ungrounded` exactly if it does not hold.
    pub(super) evidence: Evidence,
    /// Why it does not hold.
    pub(super) fault: Option<Fault>,
}

impl Weighed {
    pub(super) fn holds(&self) -> bool {
        self.fault.is_none()
    }
}

/// Why a locator does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// Whether it is plainly meant as a place in a file, so that its failing is an error and no mere noise.
    pub(super) citation: bool,
    /// The locator and the fault, for the agent.
    pub(super) text: String,
    /// The file, relative to the workspace, where it is known.
    pub(super) path: Option<String>,
}

/// Where cited files may be.
pub(super) struct Scope<'a> {
    /// The workspace's absolute paths.
    pub(super) roots: &'a [String],
    /// The attempt's own folder, relative to the workspace.
    pub(super) worker_dir: Option<String>,
}

impl Scope<'_> {
    /// Where a file is that an agent names by `path`, and what is there: in the workspace or, failing that, among the
    /// attempt's artifacts. None if the path leads out of the workspace.
    pub(super) fn find(&self, path: &str, desk: &mut Desk<'_>) -> Option<(String, Presence)> {
        let relative = path::relative_to(self.roots, path)?;
        let presence = desk.presence(&relative);
        if let Some(dir) = self.worker_dir.as_ref().filter(|_| presence == Presence::Missing) {
            let mut places = vec![format!("{dir}/artifacts/{relative}")];
            if relative.starts_with("artifacts/") {
                places.push(format!("{dir}/{relative}"));
            }
            for place in places {
                let presence = desk.presence(&place);
                if matches!(presence, Presence::File | Presence::Folder) {
                    return Some((place, presence));
                }
            }
        }
        Some((relative, presence))
    }

    /// Whether a file, by where it is, is the attempt's own: its input, its result or a log, but none of its artifacts. An
    /// agent cannot stand on its own words.
    fn is_own(&self, real: &str) -> bool {
        let own = self.worker_dir.as_ref().and_then(|dir| real.strip_prefix(dir.as_str())?.strip_prefix('/'));
        own.is_some_and(|rest| !rest.starts_with("artifacts/"))
    }
}

/// Weighs all locators of a list, in order. Each place is recorded once; harvested noise is left out.
pub(super) fn weigh_all(cited: &Cited, scope: &Scope<'_>, desk: &mut Desk<'_>) -> Vec<Weighed> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for locator in &cited.locators {
        for weighed in weigh(locator, cited.origin, scope, desk) {
            if seen.insert(weighed.evidence.locator.clone()) {
                all.push(weighed);
            }
        }
    }
    all
}

fn weigh(text: &str, origin: Origin, scope: &Scope<'_>, desk: &mut Desk<'_>) -> Vec<Weighed> {
    let text = unwrap(text);
    if origin == Origin::Harvested {
        return in_prose(text, scope, desk).into_iter().collect();
    }
    if let Some(parts) = several_spans(text) {
        return parts.iter().map(|part| place(part, &classify_word(part), true, scope, desk)).collect();
    }
    if !text.contains(char::is_whitespace) {
        return vec![place(text, &classify_word(text), true, scope, desk)];
    }
    // A path may hold spaces; only looking tells it from prose.
    if let whole @ Locator::File { .. } = file(text) {
        let weighed = place(text, &whole, true, scope, desk);
        if weighed.holds() {
            return vec![weighed];
        }
    }
    let mut found = Vec::new();
    let _ = harvest::each(text, &mut |token| {
        found.extend(in_prose(token, scope, desk));
        ControlFlow::Continue(())
    });
    if found.is_empty() {
        found.push(ungrounded(text, Flaw::FreeText.as_str(), false, None));
    }
    found
}

/// Weighs a locator of a known class. `meant` is whether its failing is an error: so it is for a locator that the agent
/// listed itself, and for one in prose that is plainly a citation.
fn place(text: &str, locator: &Locator, meant: bool, scope: &Scope<'_>, desk: &mut Desk<'_>) -> Weighed {
    match locator {
        Locator::File { path, lines } => in_file(text, path, *lines, meant, scope, desk),
        Locator::Url => plain(text, EvidenceKind::Url),
        Locator::Token => match file(text) {
            // `Makefile:10` has the shape of a token. If there is such a file, it is one; also behind a link that leads
            // out of the workspace, or a link without a dot in its name would be a way around the refusal; and a folder,
            // which has no lines.
            Locator::File { path, lines: lines @ Some(_) }
                if scope.find(&path, desk).is_some_and(|(_, presence)| presence != Presence::Missing) =>
            {
                in_file(text, &path, lines, meant, scope, desk)
            }
            _ => plain(text, EvidenceKind::Token),
        },
        Locator::Ungrounded(flaw) => ungrounded(text, flaw.as_str(), *flaw != Flaw::FreeText, None),
    }
}

/// Weighs a locator found in prose. What fails and is no citation is noise: `Node.js` and `e.g` look like files too.
fn in_prose(token: &str, scope: &Scope<'_>, desk: &mut Desk<'_>) -> Option<Weighed> {
    let locator = classify_word(token);
    let weighed = place(token, &locator, is_citation(&locator), scope, desk);
    let noise = weighed.fault.as_ref().is_some_and(|fault| !fault.citation);
    (!noise).then_some(weighed)
}

fn in_file(
    text: &str,
    path: &str,
    lines: Option<(u32, u32)>,
    meant: bool,
    scope: &Scope<'_>,
    desk: &mut Desk<'_>,
) -> Weighed {
    let Some((path, presence)) = scope.find(path, desk) else {
        return ungrounded(text, Flaw::Outside.as_str(), meant, None);
    };
    let fault = |why: &str, citation| ungrounded(text, why, citation, Some(path.clone()));
    match presence {
        Presence::Missing => return fault("no such file", meant),
        Presence::Outside => return fault(Flaw::Outside.as_str(), meant),
        Presence::Folder => {
            return fault("a folder, which supports nothing by itself; cite a file in it", lines.is_some());
        }
        Presence::File => {}
    }
    if scope.is_own(desk.real(&path)) {
        return fault("this attempt's own file; cite what the claim is about", true);
    }
    let mut evidence = Evidence { path: Some(path.clone()), ..bare(text, EvidenceKind::File) };
    if let Some((first, last)) = lines {
        let read = match desk.lines(&path) {
            Ok(read) => read,
            Err(why) => return fault(&why, true),
        };
        let Some((digest, line)) = read.cite((first, last)) else {
            return fault(&beyond(read.count()), true);
        };
        evidence.line = Some(first);
        evidence.end_line = Some(last);
        evidence.digest = Some(digest);
        evidence.text = Some(line);
    }
    Weighed { evidence, fault: None }
}

fn beyond(count: usize) -> String {
    match count {
        0 => "the file is empty".to_owned(),
        1 => "the file has 1 line".to_owned(),
        count => format!("the file has {count} lines"),
    }
}

fn bare(text: &str, kind: EvidenceKind) -> Evidence {
    Evidence { locator: text.to_owned(), kind, path: None, line: None, end_line: None, digest: None, text: None }
}

fn plain(text: &str, kind: EvidenceKind) -> Weighed {
    Weighed { evidence: bare(text, kind), fault: None }
}

fn ungrounded(text: &str, why: &str, citation: bool, path: Option<String>) -> Weighed {
    let fault = Fault { citation, text: format!("{}: {why}", quote(text)), path };
    Weighed { evidence: bare(text, EvidenceKind::Ungrounded), fault: Some(fault) }
}

/// `a.rs:10,20-22` as `a.rs:10` and `a.rs:20-22`.
fn several_spans(text: &str) -> Option<Vec<String>> {
    let (first, rest) = text.split_once(',')?;
    let (path, span) = split_span(first);
    span?;
    if path.contains(char::is_whitespace) || path.contains("://") {
        return None;
    }
    let mut parts = vec![first.to_owned()];
    for span in rest.split(',') {
        let span = span.trim().trim_start_matches(':');
        if !span.starts_with(|c: char| c.is_ascii_digit() || c == 'L') {
            return None;
        }
        let part = format!("{path}:{span}");
        if split_span(&part).0 != path {
            return None;
        }
        parts.push(part);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_lines_are_taken_apart() {
        assert_eq!(
            several_spans("a.rs:10, 20-22,L30"),
            Some(vec!["a.rs:10".into(), "a.rs:20-22".into(), "a.rs:L30".into()])
        );
        for text in ["a.rs:10", "a.rs,b.rs", "a.rs:10,b.rs:2", "https://x.org/a:1,2", "see a.rs:1,2", "a.rs:10,"] {
            assert_eq!(several_spans(text), None, "{text}");
        }
    }
}
