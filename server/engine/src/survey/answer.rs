//! The result: Markdown for people and a `cw:result` block for the gate. Says what was done and found, and nothing more.

use serde_json::json;

use super::question::Question;
use super::search::{Found, Place};

/// A result as it is written.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) summary: String,
}

/// Puts a search into words.
pub(super) fn write(question: &Question, found: &Found) -> Answer {
    let summary = summary(question, found);
    let findings: Vec<_> = found
        .places
        .iter()
        .enumerate()
        .map(|(index, place)| {
            json!({
                "id": format!("place-{}", index + 1),
                "summary": claim(place),
                // That the words stand there is a fact. What it means for the question is not judged, nor how bad it is.
                "classification": "unknown",
                "severity": "none",
                "evidence": [locator(place)],
            })
        })
        .collect();
    let evidence: Vec<String> = if found.places.is_empty() {
        found.landmarks.iter().map(|path| cited(path, 1, 1)).collect()
    } else {
        found.places.iter().map(locator).collect()
    };
    let block = json!({ "summary": summary, "findings": findings, "evidence": evidence });
    // A reader ends the block at the next three backticks; JSON lets them be written another way.
    let block = serde_json::to_string_pretty(&block).unwrap_or_default().replace('`', "\\u0060");
    let text = format!("# Survey\n\n{}\n{}\n```cw:result\n{block}\n```\n", safe(&summary), body(question, found));
    Answer { text, summary }
}

fn summary(question: &Question, found: &Found) -> String {
    if question.terms.is_empty() {
        return format!(
            "The task holds no word to search for, so none of the {} was searched for anything; no judgement was made.",
            count(found.searched, "file")
        );
    }
    let words = format!("{}{}", listed(asked_words(question)), hints(question));
    if found.places.is_empty() {
        return format!(
            "Found no line in {} by word search for {words}; no judgement was made.",
            count(found.searched, "file")
        );
    }
    let mut files: Vec<&str> = found.places.iter().map(|place| place.path.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    format!(
        "Found {} in {} by word search for {words}; no judgement was made.",
        count(found.places.len(), "place"),
        count(files.len(), "file")
    )
}

fn body(question: &Question, found: &Found) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    if !question.asked.is_empty() {
        line(format!("\nAsked: {}", safe(&cut(&question.asked, 500))));
    }
    if !found.places.is_empty() {
        line("\n## Places, the best match first\n".to_owned());
        for (index, place) in found.places.iter().enumerate() {
            line(format!("{}. {}: {}", index + 1, locator(place), safe(&claim(place))));
            line(format!("   > {}", safe(&place.text)));
        }
    } else if !found.landmarks.is_empty() {
        line(
            "\nNo line matched. These files were among those searched, and are cited to show where it was looked:\n"
                .to_owned(),
        );
        for path in &found.landmarks {
            line(format!("- {}", cited(path, 1, 1)));
        }
    } else {
        line("\nThe workspace holds no text that could be searched, so that nothing can be cited.".to_owned());
    }
    line("\n## How it was searched\n".to_owned());
    line(format!("- Words: {}", safe(&listed(asked_words(question)))));
    let around: Vec<&str> = words_around(question).collect();
    if !around.is_empty() {
        line(format!("- Words around the question, as hints: {}", safe(&around.join(", "))));
    }
    if !found.absent.is_empty() {
        line(format!("- In no file: {}", safe(&listed(found.absent.iter().map(String::as_str)))));
    }
    line(format!(
        "- Files: {} searched; {} too large or no text; {} not readable. Ignored and hidden files were left out.",
        found.searched, found.skipped, found.unreadable
    ));
    line(
        "- A place is where words of the task stand. Whether it answers the task is for the reader to judge."
            .to_owned(),
    );
    text
}

/// A literal fact about a place.
fn claim(place: &Place) -> String {
    let lines = if place.first == place.last {
        format!("line {}", place.first)
    } else {
        format!("lines {}-{}", place.first, place.last)
    };
    let form = if place.defines { ", in a definition or heading" } else { "" };
    let verb = if place.words.len() == 1 { "stands" } else { "stand" };
    format!(
        "{} {verb} in {lines} of {}{form}: {}",
        listed(place.words.iter().map(String::as_str)),
        place.path,
        place.text
    )
}

fn locator(place: &Place) -> String {
    cited(&place.path, place.first, place.last)
}

fn cited(path: &str, first: u32, last: u32) -> String {
    // A bare name without an extension would read as `namespace:value`.
    let path = if path.contains(['/', '.']) { path.to_owned() } else { format!("./{path}") };
    if first == last { format!("{path}:{first}") } else { format!("{path}:{first}-{last}") }
}

/// The words of the question itself, or of what is around it where the question has none.
fn asked_words(question: &Question) -> impl Iterator<Item = &str> {
    let asked = question.asked_mask();
    let mut seen = std::collections::BTreeSet::new();
    question
        .terms
        .iter()
        .enumerate()
        .filter(move |(bit, _)| asked == 0 || asked & 1 << bit != 0)
        .map(|(_, term)| term.shown.as_str())
        .filter(move |shown| seen.insert(*shown))
}

/// The words around the question, which steer the search and count less.
fn words_around(question: &Question) -> impl Iterator<Item = &str> {
    let asked = question.asked_mask();
    let around = question.terms.iter().enumerate().filter(move |(bit, _)| asked & 1 << bit == 0);
    around.map(|(_, term)| term.shown.as_str())
}

fn hints(question: &Question) -> String {
    match words_around(question).count() {
        0 => String::new(),
        words => format!(", and {} around them as hints", count(words, "word")),
    }
}

fn listed<'a>(words: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 10;
    let words: Vec<&str> = words.collect();
    match words.len() {
        0 => "nothing".to_owned(),
        all if all > MOST => format!("{} and {}", words[..MOST].join(", "), count(all - MOST, "more word")),
        _ => words.join(", "),
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Text of the workspace as part of a Markdown line: it must not open a fence.
fn safe(text: &str) -> String {
    text.replace("```", "'''")
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
