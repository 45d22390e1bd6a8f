//! Scores every line that holds a word of the question, and picks the best places over several files.
//!
//! A word counts more the fewer files it occurs in. Lines that define or head something count more, as do lines whose
//! neighbours or whose path hold more of the words; endless lines count less.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::files::{self, Content, Listing};
use super::question::Question;
use super::words::each_word;

/// The most places a result names.
const MOST_PLACES: usize = 12;
const MOST_PLACES_A_FILE: usize = 2;
/// Matching lines of one file that are looked at.
const MOST_HITS_A_FILE: usize = 4_000;
/// Places that score below this share of the best are noise beside it.
const LEAST_SHARE: f64 = 0.25;
/// Lines this near belong together.
const NEAR: u32 = 3;
const LONGEST_RANGE: u32 = 12;
/// How often progress is told.
const BATCHES: usize = 24;
/// A longer line was not written by a person.
const LONG_LINE: usize = 400;

/// A place that answers, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Relative to the workspace, `/` between parts.
    pub path: String,
    /// The first line, from 1.
    pub first: u32,
    /// The last line.
    pub last: u32,
    /// The line with most to say.
    pub best: u32,
    /// That line's text, trimmed and cut.
    pub text: String,
    /// The words found there, as the task writes them.
    pub words: Vec<String>,
    /// Whether the best line defines or heads something.
    pub defines: bool,
    /// Only good for comparing places of one search.
    pub score: f64,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Found {
    /// Best first.
    pub(super) places: Vec<Place>,
    pub(super) searched: usize,
    pub(super) skipped: usize,
    pub(super) unreadable: usize,
    /// Files with a line, for a search that found nothing to still say where it looked. In the order of their worth.
    pub(super) landmarks: Vec<String>,
    /// Words that no file holds, as the task writes them.
    pub(super) absent: Vec<String>,
}

/// Searches the files. `tell` hears a path now and then.
pub(super) fn search(workspace: &Path, listing: &Listing, question: &Question, tell: &mut dyn FnMut(&str)) -> Found {
    let index: HashMap<&str, u32> =
        question.terms.iter().zip(0..).map(|(term, bit)| (term.stem.as_str(), bit)).collect();
    let scans = scan_all(workspace, &listing.paths, &index, tell);

    let mut found = Found { unreadable: listing.unreadable, ..Found::default() };
    let mut texts: Vec<(&str, &TextScan)> = Vec::new();
    for (path, scan) in listing.paths.iter().zip(&scans) {
        match scan {
            Scan::Text(scan) => texts.push((path, scan)),
            Scan::Skipped => found.skipped += 1,
            Scan::Unreadable => found.unreadable += 1,
        }
    }
    found.searched = texts.len();
    found.landmarks = landmarks(&texts);

    let rarity = rarity(&texts, question, &mut found.absent);
    let mut candidates: Vec<(Candidate, &str)> = texts
        .iter()
        .flat_map(|(path, scan)| best_of_file(scan, question.asked_mask(), &rarity).into_iter().map(|c| (c, *path)))
        .collect();
    candidates.sort_by(|(a, a_path), (b, b_path)| {
        b.score.total_cmp(&a.score).then_with(|| a_path.cmp(b_path)).then_with(|| a.first.cmp(&b.first))
    });
    let least = candidates.first().map_or(0.0, |(best, _)| best.score * LEAST_SHARE);
    candidates.retain(|(candidate, _)| candidate.score >= least);
    candidates.truncate(MOST_PLACES);
    found.places =
        candidates.iter().filter_map(|(candidate, path)| place(workspace, path, candidate, question)).collect();
    found
}

/// A line that holds at least one term.
#[derive(Debug, Clone, Copy)]
struct Hit {
    line: u32,
    terms: u32,
    factor: f32,
    defines: bool,
}

struct TextScan {
    hits: Vec<Hit>,
    path_terms: u32,
    lines: u32,
}

enum Scan {
    Text(TextScan),
    Skipped,
    Unreadable,
}

/// Reads the files on all cores. The outcome is in the order of the paths, whichever core was faster.
fn scan_all(workspace: &Path, paths: &[String], index: &HashMap<&str, u32>, tell: &mut dyn FnMut(&str)) -> Vec<Scan> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(8);
    let mut scans = Vec::with_capacity(paths.len());
    for batch in paths.chunks(paths.len().div_ceil(BATCHES).max(16)) {
        if let Some(path) = batch.first() {
            tell(path);
        }
        std::thread::scope(|scope| {
            let workers: Vec<_> = batch
                .chunks(batch.len().div_ceil(cores))
                .map(|part| {
                    scope.spawn(move || part.iter().map(|path| scan(workspace, path, index)).collect::<Vec<_>>())
                })
                .collect();
            for worker in workers {
                match worker.join() {
                    Ok(part) => scans.extend(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    scans
}

fn scan(workspace: &Path, path: &str, index: &HashMap<&str, u32>) -> Scan {
    let text = match files::read(&workspace.join(path)) {
        Content::Text(text) => text,
        Content::Skipped => return Scan::Skipped,
        Content::Unreadable => return Scan::Unreadable,
    };
    let mut scratch = String::new();
    let mut terms_of = |text: &str| {
        let mut terms = 0_u32;
        each_word(text, &mut scratch, |word| terms |= index.get(word).map_or(0, |bit| 1 << bit));
        terms
    };
    let path_terms = terms_of(path);
    let mut hits = Vec::new();
    let mut lines = 0_u32;
    for line in text.lines() {
        lines += 1;
        let terms = terms_of(line);
        if terms != 0 && hits.len() < MOST_HITS_A_FILE {
            let (factor, defines) = standing(line, path);
            hits.push(Hit { line: lines, terms, factor, defines });
        }
    }
    Scan::Text(TextScan { hits, path_terms, lines })
}

/// How much a line counts by its form, and whether it defines or heads something.
fn standing(line: &str, path: &str) -> (f32, bool) {
    const DEFINING: [&str; 22] = [
        "fn",
        "func",
        "function",
        "def",
        "class",
        "struct",
        "enum",
        "trait",
        "interface",
        "type",
        "impl",
        "module",
        "mod",
        "const",
        "static",
        "macro_rules!",
        "package",
        "record",
        "protocol",
        "object",
        "table",
        "#define",
    ];
    if line.len() > LONG_LINE {
        return (0.3, false);
    }
    let trimmed = line.trim_start();
    let is_prose = path.ends_with(".md") || path.ends_with(".rst") || path.ends_with(".txt");
    if is_prose {
        return if trimmed.starts_with('#') { (1.3, true) } else { (0.9, false) };
    }
    let is_comment = ["//", "#", "/*", "*", "--", ";", "\"\"\"", "<!--"].iter().any(|mark| trimmed.starts_with(mark))
        && !trimmed.starts_with("#define");
    if is_comment {
        let heads = trimmed.starts_with("///") || trimmed.starts_with("//!") || trimmed.starts_with("/**");
        return (if heads { 1.1 } else { 1.0 }, false);
    }
    if trimmed.split_whitespace().take(4).any(|word| DEFINING.contains(&word.to_ascii_lowercase().as_str())) {
        return (1.5, true);
    }
    // What another file defines is found there.
    if ["use ", "import ", "from ", "#include", "require("].iter().any(|mark| trimmed.starts_with(mark)) {
        return (0.6, false);
    }
    (1.0, false)
}

/// What each term is worth: its weight, times how rare it is.
fn rarity(texts: &[(&str, &TextScan)], question: &Question, absent: &mut Vec<String>) -> Vec<f64> {
    let mut files_with = vec![0_usize; question.terms.len()];
    for (_, scan) in texts {
        let terms = scan.hits.iter().fold(scan.path_terms, |terms, hit| terms | hit.terms);
        for (bit, count) in files_with.iter_mut().enumerate() {
            *count += usize::from(terms & 1 << bit != 0);
        }
    }
    let mut seen = BTreeSet::new();
    let none = question.terms.iter().zip(&files_with).filter(|(term, count)| term.weight >= 1.0 && **count == 0);
    absent.extend(none.map(|(term, _)| term.shown.clone()).filter(|shown| seen.insert(shown.clone())));
    let all = texts.len() as f64;
    question
        .terms
        .iter()
        .zip(&files_with)
        .map(|(term, count)| term.weight * (1.0 + all / (1.0 + *count as f64)).ln())
        .collect()
}

struct Candidate {
    first: u32,
    last: u32,
    best: u32,
    terms: u32,
    defines: bool,
    score: f64,
}

fn worth(terms: u32, rarity: &[f64]) -> f64 {
    rarity.iter().enumerate().filter(|(bit, _)| terms & 1 << bit != 0).map(|(_, worth)| worth).sum()
}

/// The best places of one file, which do not overlap.
fn best_of_file(scan: &TextScan, asked: u32, rarity: &[f64]) -> Vec<Candidate> {
    let mut scored: Vec<(f64, usize)> = Vec::new();
    let mut window = 0..0;
    for (index, hit) in scan.hits.iter().enumerate() {
        while scan.hits[window.start].line + NEAR < hit.line {
            window.start += 1;
        }
        while scan.hits.get(window.end).is_some_and(|near| near.line <= hit.line + NEAR) {
            window.end += 1;
        }
        // Without a word of the question itself, here or in the path, a line is beside the point.
        if (hit.terms | scan.path_terms) & asked == 0 {
            continue;
        }
        let near = scan.hits[window.clone()].iter().fold(0, |terms, near| terms | near.terms) & !hit.terms;
        let by_path = scan.path_terms & !hit.terms;
        let together = 1.0 + 0.25 * f64::from((hit.terms & asked).count_ones().saturating_sub(1));
        let score = worth(hit.terms, rarity) * together * f64::from(hit.factor)
            + 0.35 * worth(near, rarity)
            + 0.3 * worth(by_path, rarity);
        scored.push((score, index));
    }
    scored.sort_by(|(a, a_index), (b, b_index)| b.total_cmp(a).then_with(|| a_index.cmp(b_index)));

    let mut places: Vec<Candidate> = Vec::new();
    for (score, index) in scored {
        let hit = scan.hits[index];
        if places.iter().any(|place| hit.line + NEAR >= place.first && hit.line <= place.last + NEAR) {
            continue;
        }
        let (first, last) = extent(&scan.hits, index, asked);
        let inside = scan.hits.iter().filter(|other| (first..=last).contains(&other.line));
        let terms = inside.fold(0, |terms, other| terms | other.terms);
        let score = if places.is_empty() { score } else { score * 0.7 };
        places.push(Candidate { first, last, best: hit.line, terms, defines: hit.defines, score });
        if places.len() == MOST_PLACES_A_FILE {
            break;
        }
    }
    places
}

/// The lines around a hit that belong to it: hits with a word of the question and at most one line between them.
fn extent(hits: &[Hit], index: usize, asked: u32) -> (u32, u32) {
    let (mut first, mut last) = (hits[index].line, hits[index].line);
    for hit in hits[..index].iter().rev().filter(|hit| hit.terms & asked != 0) {
        if first - hit.line > 2 || last - hit.line >= LONGEST_RANGE {
            break;
        }
        first = hit.line;
    }
    for hit in hits[index + 1..].iter().filter(|hit| hit.terms & asked != 0) {
        if hit.line - last > 2 || hit.line - first >= LONGEST_RANGE {
            break;
        }
        last = hit.line;
    }
    (first, last)
}

/// A candidate with its words and its text. None when the file changed meanwhile and has no such lines any more.
fn place(workspace: &Path, path: &str, candidate: &Candidate, question: &Question) -> Option<Place> {
    const LONGEST: usize = 160;
    let Content::Text(text) = files::read(&workspace.join(path)) else { return None };
    text.lines().nth(candidate.last as usize - 1)?;
    let line = text.lines().nth(candidate.best as usize - 1)?.trim();
    let mut cut: String = line.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut.len() < line.len() {
        cut.push_str("...");
    }
    let mut seen = BTreeSet::new();
    let terms = question.terms.iter().enumerate().filter(|(bit, _)| candidate.terms & 1 << bit != 0);
    let words = terms.map(|(_, term)| term.shown.clone()).filter(|shown| seen.insert(shown.clone())).collect();
    Some(Place {
        path: path.to_owned(),
        first: candidate.first,
        last: candidate.last,
        best: candidate.best,
        text: cut,
        words,
        defines: candidate.defines,
        score: candidate.score,
    })
}

/// Files that a newcomer would open first.
fn landmarks(texts: &[(&str, &TextScan)]) -> Vec<String> {
    const MOST: usize = 3;
    const KNOWN: [&str; 8] = [
        "cargo.toml",
        "package.json",
        "pyproject.toml",
        "go.mod",
        "pom.xml",
        "build.gradle",
        "makefile",
        "cmakelists.txt",
    ];
    let mut ranked: Vec<(usize, usize, &str)> = texts
        .iter()
        .filter(|(_, scan)| scan.lines > 0)
        .map(|(path, _)| {
            let depth = path.matches('/').count();
            let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
            let rank = if name.starts_with("readme") {
                0
            } else if KNOWN.contains(&name.as_str()) {
                1
            } else {
                2
            };
            (depth, rank, *path)
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(MOST).map(|(_, _, path)| path.to_owned()).collect()
}
