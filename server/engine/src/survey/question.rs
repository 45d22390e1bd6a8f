//! What a task asks: its words, without the instructions around them.

use std::collections::BTreeSet;

use super::words::{each_word, is_common, stem};

/// A word to search for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Term {
    /// The word without its ending, as it is compared.
    pub(super) stem: String,
    /// The word as the task writes it.
    pub(super) shown: String,
    /// How much it counts.
    pub(super) weight: f64,
}

/// What a task asks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    /// In the task's own words, on one line.
    pub(super) asked: String,
    /// At most [`MOST_TERMS`].
    pub(super) terms: Vec<Term>,
}

/// Terms are remembered as bits of a `u32`.
pub(super) const MOST_TERMS: usize = 32;
const MOST_ASKED: usize = 24;
const ASKED_WEIGHT: f64 = 1.0;
/// The words around a question steer the search; they do not decide it.
const CONTEXT_WEIGHT: f64 = 0.35;

impl Question {
    /// Reads `input.md`: the section `Task` (else all of it) and `Guidance`, of that the lines after `Question:` (else all
    /// of it) and the paragraph that follows them. Fenced blocks are examples and are left out.
    pub(super) fn read(input: &str) -> Self {
        let sections = sections(input);
        let named = |name: &str| sections.iter().find(|section| section.title == name).map(|section| &section.lines);
        let whole: Vec<&str> = sections.iter().flat_map(|section| section.lines.iter().copied()).collect();
        let task = named("task").or_else(|| named("prompt")).unwrap_or(&whole);
        let (asked, mut context) = split(task);
        if let Some(guidance) = named("guidance") {
            context.push('\n');
            context.push_str(&guidance.join("\n"));
        }
        let mut terms = Vec::new();
        collect(&asked, ASKED_WEIGHT, MOST_ASKED, &mut terms);
        collect(&context, CONTEXT_WEIGHT, MOST_TERMS, &mut terms);
        Self { asked: asked.split_whitespace().collect::<Vec<_>>().join(" "), terms }
    }

    /// The terms of the question itself, as bits.
    pub(super) fn asked_mask(&self) -> u32 {
        let bits = self.terms.iter().enumerate().filter(|(_, term)| term.weight >= ASKED_WEIGHT);
        match bits.fold(0, |mask, (bit, _)| mask | 1 << bit) {
            // A question of nothing but small words: what the task says beside it is all there is to look for.
            0 => u32::MAX,
            mask => mask,
        }
    }
}

struct Section<'a> {
    /// Lower case.
    title: String,
    lines: Vec<&'a str>,
}

/// The sections that Flowdrive itself puts into `input.md`. Other headings belong to the text they stand in.
const TITLES: &[&str] = &[
    "task",
    "prompt",
    "guidance",
    "boundary",
    "boundaries",
    "rules",
    "result",
    "result format",
    "how to answer",
    "output",
    "inputs",
    "earlier results",
    "results of earlier tasks",
    "previous attempt",
    "previous attempts",
    "what was refused",
    "sandbox",
    "paths",
];

fn sections(input: &str) -> Vec<Section<'_>> {
    let mut sections = vec![Section { title: String::new(), lines: Vec::new() }];
    let mut fence: Option<&str> = None;
    for line in input.lines() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let title = trimmed.trim_start_matches('#').trim().trim_end_matches(':').to_lowercase();
                if trimmed.starts_with('#') && TITLES.contains(&title.as_str()) {
                    sections.push(Section { title, lines: Vec::new() });
                } else if let Some(section) = sections.last_mut() {
                    section.lines.push(line);
                }
            }
        }
    }
    sections
}

/// The question, and what surrounds it and may steer the search.
fn split(task: &[&str]) -> (String, String) {
    const MARK: &str = "question:";
    let is_mark =
        |line: &&&str| line.trim_start().get(..MARK.len()).is_some_and(|start| start.eq_ignore_ascii_case(MARK));
    let Some(start) = task.iter().position(|line| is_mark(&line)) else {
        return (task.join("\n"), String::new());
    };
    let mut paragraphs = task[start..].split(|line| line.trim().is_empty()).filter(|lines| !lines.is_empty());
    let question = paragraphs.next().unwrap_or_default().join("\n");
    let question = question.trim_start().get(MARK.len()..).unwrap_or_default().trim().to_owned();
    let context = paragraphs.next().unwrap_or_default().join("\n");
    (question, context)
}

fn collect(text: &str, weight: f64, most: usize, terms: &mut Vec<Term>) {
    let mut known: BTreeSet<String> = terms.iter().map(|term| term.stem.clone()).collect();
    let mut scratch = String::new();
    for shown in text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()) {
        each_word(shown, &mut scratch, |word| {
            if terms.len() < most && says_something(word, shown) && !known.contains(word) {
                known.insert(word.to_owned());
                terms.push(Term { stem: word.to_owned(), shown: shown.to_owned(), weight });
            }
        });
    }
}

fn says_something(word: &str, shown: &str) -> bool {
    let lower = shown.to_lowercase();
    let mut bare = lower.clone();
    stem(&mut bare);
    // A part of an identifier is judged by itself, a plain word as it is written.
    let common = if bare == word { is_common(&lower) } else { is_common(word) };
    let length = word.chars().count();
    let short_but_telling =
        length == 2 && (!word.is_ascii() || shown.chars().all(|c| c.is_uppercase() || c.is_numeric()));
    !common && (length >= 3 || short_but_telling)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(input: &str) -> Vec<String> {
        Question::read(input).terms.into_iter().map(|term| term.shown).collect()
    }

    #[test]
    fn the_task_is_found_among_the_instructions() {
        let input = "# Worker worker-x\n\nRun: r-1\n\n## Task\n\nWhere are failed uploads retried?\n\n### Hint\nlook at queues\n\n```cw:result\n{\"summary\": \"fenced\"}\n```\n\n## Boundary\n\nWrite only result.md.\n\n## Guidance\n\nStart in the scheduler.\n";
        assert_eq!(shown(input), ["failed", "uploads", "retried", "Hint", "queues", "Start", "scheduler"]);
        assert_eq!(shown("Where is the cache?"), ["cache"]);
    }

    #[test]
    fn a_question_on_its_own_line_counts_more_than_what_is_around_it() {
        let input = "## Task\n\nQuestion: How does the UI\nhandle parse_config errors?\n\nFind the tests that fix it.\n\nDeliver: a banana.\n";
        let question = Question::read(input);
        assert_eq!(question.asked, "How does the UI handle parse_config errors?");
        let weights: Vec<_> = question.terms.iter().map(|term| (term.stem.as_str(), term.weight >= 1.0)).collect();
        assert_eq!(
            weights,
            [
                ("ui", true),
                ("handl", true),
                ("pars", true),
                ("config", true),
                ("parseconfig", true),
                ("error", true),
                ("test", false),
                ("fix", false)
            ]
        );
        assert_eq!(question.asked_mask(), 0b11_1111);
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic_and_terms_fit_their_mask(input in "(\\PC{0,20}\n|## Task\n|Question: |```\n){0,12}") {
            prop_assert!(Question::read(&input).terms.len() <= MOST_TERMS);
        }

        #[test]
        fn many_words_are_cut(words in proptest::collection::vec("[a-z]{5,9}", 60)) {
            prop_assert!(Question::read(&words.join(" ")).terms.len() <= MOST_ASKED);
        }
    }
}
