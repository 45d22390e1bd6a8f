//! The judgement: whether a result may stand, and what of it is recorded.
//!
//! Must not: do I/O; change its mind with the order in which files are listed; refuse without saying what to mend.

use std::collections::BTreeSet;

use flowdrive_protocol::ids::TaskId;
use flowdrive_protocol::outcome::{Evidence, Finding, Severity};

use super::evidence;
use super::files::{Desk, Files, Presence};
use super::parse::ParsedResult;
use super::path;
use super::refusal::{
    EVIDENCE_UNRESOLVABLE, FINDING_WITHOUT_EVIDENCE, MISSING_ARTIFACT_PATH, MISSING_REQUIRED_EVIDENCE, OFF_TARGET,
    Refusal, list, quote,
};
use super::weigh::{Scope, Weighed, weigh_all};

/// What a task asks of its result.
#[derive(Debug, Clone, Copy)]
pub struct Requirements<'a> {
    /// The task. Ids that begin with `verify`, `verdict` or `synthesis` require evidence by themselves.
    pub task_id: &'a TaskId,
    /// Whether the task says that it requires evidence.
    pub requires_evidence: bool,
    /// Whether the task is about the workspace's own files, so that Flowdrive's are no answer.
    pub reviews_repo: bool,
    /// Paths that the task promises, relative to the workspace or to the attempt's folder of artifacts.
    pub artifacts: &'a [String],
    /// The workspace's absolute paths: as it was named, and as it resolves. Absolute paths below them become relative.
    pub roots: &'a [String],
    /// The attempt's own folder, relative to the workspace, with `/` between parts. Files are also looked for in its
    /// `artifacts` folder; its other files are no evidence.
    pub worker_dir: Option<&'a str>,
}

/// A result that may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The result in a sentence or a few. May be empty.
    pub summary: String,
    /// Its findings, in its order.
    pub findings: Vec<Finding>,
    /// What it stands on as a whole. What does not hold is kept as ungrounded.
    pub evidence: Vec<Evidence>,
    /// Whether it has neither findings nor evidence, which is worth a warning.
    pub empty_capture: bool,
}

/// Judges a result.
///
/// # Errors
/// A refusal that names everything that is wrong, under the code of the first: evidence that a task requires and that
/// is missing or does not resolve, findings of P0 to P2 without evidence of their own, artifacts that do not exist.
pub fn judge(required: &Requirements<'_>, result: &ParsedResult, files: &dyn Files) -> Result<Accepted, Refusal> {
    let scope = Scope { roots: required.roots, worker_dir: required.worker_dir.and_then(path::normalise) };
    let mut desk = Desk::new(files);
    let whole = weigh_all(&result.evidence, &scope, &mut desk);
    let each: Vec<Vec<Weighed>> =
        result.findings.iter().map(|finding| weigh_all(&finding.evidence, &scope, &mut desk)).collect();

    let mut faults = Faults::default();
    let strict = evidence::requires_evidence(required.task_id.as_str(), required.requires_evidence);
    if strict {
        check_evidence(required, &whole, &each, &mut faults);
    }
    for (finding, weighed) in result.findings.iter().zip(&each) {
        if finding.severity <= Severity::P2 && !weighed.iter().any(Weighed::holds) {
            faults.add(FINDING_WITHOUT_EVIDENCE, None, unfounded(&finding.id, finding.severity, weighed));
        }
    }
    if required.reviews_repo {
        check_target(required.task_id, &whole, &each, &mut desk, &mut faults);
    }
    check_artifacts(required, result, &scope, &mut desk, &mut faults);
    faults.into_result()?;

    let findings: Vec<Finding> = result
        .findings
        .iter()
        .zip(&each)
        .map(|(finding, weighed)| Finding {
            id: finding.id.clone(),
            summary: finding.summary.clone(),
            classification: finding.classification,
            severity: finding.severity,
            evidence: recorded(weighed),
        })
        .collect();
    let mut evidence = recorded(&whole);
    if strict && !whole.iter().any(Weighed::holds) {
        // The result holds by what its findings stand on, so that is what it stands on.
        let known: BTreeSet<String> = evidence.iter().map(|evidence| evidence.locator.clone()).collect();
        let mut added = BTreeSet::new();
        evidence.extend(
            each.iter()
                .flatten()
                .filter(|weighed| weighed.holds() && !known.contains(&weighed.evidence.locator))
                .filter(|weighed| added.insert(weighed.evidence.locator.as_str()))
                .map(|weighed| weighed.evidence.clone()),
        );
    }
    Ok(Accepted {
        summary: result.summary.clone(),
        empty_capture: findings.is_empty() && evidence.is_empty(),
        findings,
        evidence,
    })
}

/// For a task that requires evidence: every place that is cited exists, and there is at least one.
fn check_evidence(required: &Requirements<'_>, whole: &[Weighed], each: &[Vec<Weighed>], faults: &mut Faults) {
    let all = || whole.iter().chain(each.iter().flatten());
    let task = required.task_id;
    let mut seen = BTreeSet::new();
    let cited: Vec<_> = all()
        .filter_map(|weighed| weighed.fault.as_ref())
        .filter(|fault| fault.citation && seen.insert(fault.text.as_str()))
        .collect();
    if !cited.is_empty() {
        let texts: Vec<String> = cited.iter().map(|fault| fault.text.clone()).collect();
        faults.add(
            EVIDENCE_UNRESOLVABLE,
            cited.iter().find_map(|fault| fault.path.clone()),
            format!(
                "Task {task} cites evidence that does not hold: {}. Cite files of the workspace by their path from its \
                 root, with lines that exist, such as `src/main.rs:10-12`; leave out what you cannot cite.",
                list(&texts)
            ),
        );
    } else if !all().any(Weighed::holds) {
        let mut seen = BTreeSet::new();
        let given: Vec<String> = all()
            .filter_map(|weighed| Some(weighed.fault.as_ref()?.text.clone()))
            .filter(|text| seen.insert(text.clone()))
            .collect();
        let given = if given.is_empty() { "none".to_owned() } else { list(&given) };
        faults.add(
            MISSING_REQUIRED_EVIDENCE,
            None,
            format!(
                "Task {task} requires grounded cw:result evidence (a path-like locator, URL, or namespace:value token — \
                 not free text). Given: {given}. Add an `evidence` array to the cw:result block that names the places \
                 the answer stands on, such as [\"src/main.rs:10-12\"]."
            ),
        );
    }
}

/// For a task about the workspace: not half of the files that its evidence names, and not two of them, are files that
/// Flowdrive itself keeps there, by whatever name. An agent that got lost reads its own papers.
fn check_target(task: &TaskId, whole: &[Weighed], each: &[Vec<Weighed>], desk: &mut Desk<'_>, faults: &mut Faults) {
    let holding = whole.iter().chain(each.iter().flatten()).filter(|weighed| weighed.holds());
    let places: BTreeSet<(&str, &str)> = holding
        .filter_map(|weighed| Some((weighed.evidence.path.as_deref()?, weighed.evidence.locator.as_str())))
        .collect();
    let own: Vec<String> =
        (places.iter()).filter(|(path, _)| is_kept(desk.real(path))).map(|(_, locator)| quote(locator)).collect();
    if own.len() >= 2 && own.len() * 2 >= places.len() {
        faults.add(
            OFF_TARGET,
            None,
            format!(
                "Task {task} is about the workspace, and its evidence is mostly files that Flowdrive keeps there: {}. \
                 Look at the workspace's own files, and cite those.",
                list(&own)
            ),
        );
    }
}

/// Whether Flowdrive keeps the file at this real path. Workflows are the user's. In any case: some file systems know none.
fn is_kept(real: &str) -> bool {
    let below = |folder: &str| real.get(..folder.len()).is_some_and(|head| head.eq_ignore_ascii_case(folder));
    below(".cw/") && !below(".cw/workflows/")
}

fn unfounded(id: &str, severity: Severity, weighed: &[Weighed]) -> String {
    let given: Vec<String> = weighed.iter().filter_map(|weighed| Some(weighed.fault.as_ref()?.text.clone())).collect();
    let given = if given.is_empty() {
        "It has none".to_owned()
    } else {
        format!("What it has does not hold: {}", list(&given))
    };
    format!(
        "Finding {} is rated {severity:?} and so needs evidence of its own. {given}. Give it an `evidence` array with a \
         place in the workspace, such as [\"src/main.rs:10-12\"], or rate it P3 or none if there is no such place.",
        quote(id)
    )
}

fn check_artifacts(
    required: &Requirements<'_>,
    result: &ParsedResult,
    scope: &Scope<'_>,
    desk: &mut Desk<'_>,
    faults: &mut Faults,
) {
    let promised = required.artifacts.iter().map(|path| (path, path::normalise(path), "promised by the task"));
    let named = result.artifacts.iter().map(|path| (path, as_named(path), "named by the result"));
    let mut seen = BTreeSet::new();
    let mut first = None;
    let mut missing = Vec::new();
    for (text, path, by) in promised.chain(named).filter(|(text, ..)| seen.insert(text.as_str())) {
        let found = path.and_then(|path| scope.find(&path, desk));
        let why = match &found {
            Some((_, Presence::File | Presence::Folder)) => continue,
            Some((_, Presence::Missing)) => "no such file",
            Some((_, Presence::Outside)) | None => "outside the workspace",
        };
        first = first.or(found.map(|(path, _)| path));
        missing.push(format!("{} ({by}): {why}", quote(text)));
    }
    if !missing.is_empty() {
        faults.add(
            MISSING_ARTIFACT_PATH,
            first,
            format!(
                "Task {} has artifacts that do not exist: {}. Write each file in the workspace or in the attempt's \
                 artifacts folder before you end, and name in `artifacts` only files that you wrote.",
                required.task_id,
                list(&missing)
            ),
        );
    }
}

/// The path an agent means by an artifact it names, in its one spelling. None if it leads out of the workspace.
fn as_named(text: &str) -> Option<String> {
    let text = evidence::unwrap(text);
    match text.strip_prefix("file://") {
        Some(rest) => path::normalise(&path::from_url(rest)),
        None => path::normalise(text),
    }
}

fn recorded(weighed: &[Weighed]) -> Vec<Evidence> {
    weighed.iter().map(|weighed| weighed.evidence.clone()).collect()
}

/// What is wrong with a result, in the order in which it was found.
#[derive(Default)]
struct Faults {
    first: Option<(&'static str, Option<String>)>,
    texts: Vec<String>,
}

impl Faults {
    fn add(&mut self, code: &'static str, path: Option<String>, text: String) {
        self.first.get_or_insert((code, path));
        self.texts.push(text);
    }

    fn into_result(self) -> Result<(), Refusal> {
        match self.first {
            Some((code, path)) => Err(Refusal { path, ..Refusal::new(code, self.texts.join("\n")) }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
