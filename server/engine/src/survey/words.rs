//! From text to words that can be compared: identifiers come apart at their joints, and endings come off.

/// Calls `each` with every word of a text: lower case, and its ending taken off. An identifier of several parts gives its
/// parts and then the whole, so that `parseConfig` and `parse_config` are the same words. Scripts without spaces between
/// words give pairs of neighbouring characters.
pub(super) fn each_word(text: &str, scratch: &mut String, mut each: impl FnMut(&str)) {
    for identifier in text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|text| !text.is_empty()) {
        if identifier.chars().any(is_unspaced) {
            each_pair(identifier, scratch, &mut each);
            continue;
        }
        let mut parts = 0;
        for part in Parts(identifier) {
            parts += 1;
            lower_into(part, scratch);
            stem(scratch);
            each(scratch);
        }
        if parts > 1 {
            scratch.clear();
            scratch.extend(identifier.chars().filter(|c| *c != '_').flat_map(char::to_lowercase));
            stem(scratch);
            each(scratch);
        }
    }
}

/// The words of one identifier.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start_matches('_');
        let mut chars = rest.char_indices().peekable();
        let (_, mut before) = chars.next()?;
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            // `someWord`, and `HTTPServer`, where the last capital begins the next word.
            let next_is_lower = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
            let joint = c.is_uppercase() && (!before.is_uppercase() || next_is_lower);
            if c == '_' || joint {
                end = at;
                break;
            }
            before = c;
        }
        let (part, after) = rest.split_at(end);
        self.0 = after;
        Some(part)
    }
}

/// Han, Kana, Hangul and their neighbours.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn each_pair(text: &str, scratch: &mut String, each: &mut impl FnMut(&str)) {
    let mut before = None;
    for c in text.chars() {
        if let Some(before) = before {
            scratch.clear();
            scratch.push(before);
            scratch.push(c);
            each(scratch);
        }
        before = Some(c);
    }
}

fn lower_into(part: &str, scratch: &mut String) {
    scratch.clear();
    if part.is_ascii() {
        scratch.push_str(part);
        scratch.make_ascii_lowercase();
    } else {
        scratch.extend(part.chars().flat_map(char::to_lowercase));
    }
}

/// Takes common English endings off a lower-case word. Both sides of a comparison go through it, so that what matters is
/// that forms of one word meet, not that what is left is a word.
pub(super) fn stem(word: &mut String) {
    if !word.is_ascii() {
        return;
    }
    let cut = |word: &mut String, count: usize| word.truncate(word.len() - count);
    if word.len() > 4 && (word.ends_with("ies") || word.ends_with("ied")) {
        cut(word, 3);
        word.push('y');
        return;
    }
    if word.len() > 5 && word.ends_with("sses") {
        cut(word, 2);
    } else if word.len() > 3 && word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        cut(word, 1);
    }
    for (end, least) in [("ing", 6), ("ion", 6), ("ed", 5), ("er", 6), ("or", 7)] {
        if word.len() >= least && word.ends_with(end) {
            cut(word, end.len());
            let bytes = word.as_bytes();
            let doubled = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
            if doubled && !b"lsz".contains(&bytes[bytes.len() - 1]) {
                cut(word, 1);
            }
            break;
        }
    }
    if word.len() >= 5 && word.ends_with('e') {
        cut(word, 1);
    }
}

/// Words that say how a task is to be done or hold a sentence together, and so say nothing about what is looked for.
pub(super) fn is_common(word: &str) -> bool {
    COMMON.binary_search(&word).is_ok()
}

/// Sorted.
const COMMON: &[&str] = &[
    "about",
    "above",
    "add",
    "after",
    "again",
    "all",
    "also",
    "always",
    "and",
    "another",
    "answer",
    "any",
    "anything",
    "are",
    "because",
    "been",
    "before",
    "being",
    "below",
    "best",
    "between",
    "both",
    "but",
    "can",
    "cannot",
    "cite",
    "come",
    "could",
    "deliver",
    "describe",
    "did",
    "different",
    "does",
    "doing",
    "done",
    "each",
    "either",
    "else",
    "every",
    "everything",
    "evidence",
    "explain",
    "find",
    "finding",
    "findings",
    "following",
    "for",
    "from",
    "gets",
    "give",
    "given",
    "goes",
    "good",
    "had",
    "happen",
    "happened",
    "happens",
    "has",
    "have",
    "having",
    "help",
    "here",
    "how",
    "into",
    "its",
    "just",
    "know",
    "let",
    "like",
    "list",
    "look",
    "made",
    "make",
    "makes",
    "many",
    "may",
    "might",
    "more",
    "most",
    "much",
    "must",
    "name",
    "need",
    "needed",
    "needs",
    "never",
    "not",
    "nothing",
    "now",
    "off",
    "one",
    "only",
    "onto",
    "other",
    "our",
    "out",
    "over",
    "place",
    "please",
    "project",
    "question",
    "questions",
    "rather",
    "really",
    "repository",
    "same",
    "say",
    "says",
    "see",
    "shall",
    "should",
    "show",
    "since",
    "some",
    "something",
    "still",
    "such",
    "take",
    "takes",
    "task",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "things",
    "this",
    "those",
    "through",
    "today",
    "too",
    "under",
    "until",
    "use",
    "used",
    "uses",
    "using",
    "very",
    "via",
    "want",
    "wants",
    "was",
    "way",
    "ways",
    "well",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whole",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "work",
    "works",
    "would",
    "yes",
    "yet",
    "you",
    "your",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, &mut String::new(), |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn the_common_words_are_sorted() {
        assert!(COMMON.is_sorted());
        assert!(is_common("where") && !is_common("retry"));
    }

    #[test]
    fn identifiers_come_apart_at_their_joints() {
        assert_eq!(words("parseConfig()"), ["pars", "config", "parseconfig"]);
        assert_eq!(words("parse_config"), ["pars", "config", "parseconfig"]);
        assert_eq!(words("HTTPServer2"), ["http", "server2", "httpserver2"]);
        assert_eq!(words("__init__ MAX_ID x"), ["init", "max", "id", "maxid", "x"]);
        assert_eq!(words("\u{c9}t\u{e9}Caf\u{e9}"), ["\u{e9}t\u{e9}", "caf\u{e9}", "\u{e9}t\u{e9}caf\u{e9}"]);
        assert_eq!(words("\u{8a2d}\u{5b9a}\u{5024}"), ["\u{8a2d}\u{5b9a}", "\u{5b9a}\u{5024}"]);
        assert_eq!(words("_ -- !"), [""; 0]);
    }

    #[test]
    fn forms_of_one_word_meet() {
        for forms in [
            &["cache", "caches", "cached", "caching"][..],
            &["retry", "retries", "retried", "retrying"],
            &["validate", "validates", "validated", "validating", "validation", "validator"],
            &["parse", "parser", "parsers", "parsing", "parsed"],
            &["class", "classes"],
            &["stop", "stops", "stopped", "stopping"],
            &["call", "calls", "called", "calling"],
            &["status"],
            &["query", "queries"],
        ] {
            let mut stems: Vec<String> = forms.iter().map(|form| (*form).to_owned()).collect();
            stems.iter_mut().for_each(stem);
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms:?}: {stems:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_no_word_is_empty(text in "\\PC{0,40}") {
            prop_assert!(words(&text).iter().all(|word| !word.is_empty()));
        }
    }
}
