//! Where a block begins in Markdown, and where it is only shown.
//!
//! Must not: take more than linear time for each length of fence, whatever an agent wrote.

/// The least back quotes of a fence that can hold a fence of three, and the least tildes.
const LONG: [(char, usize); 2] = [('`', 4), ('~', 3)];

/// The first place of `marker` that is not inside a longer fence. A long fence that is not closed holds nothing, and
/// one around the whole text is the writer's wrapping of it.
pub(super) fn opening(text: &str, marker: &str) -> Option<usize> {
    let mut fences = None;
    let mut from = 0;
    loop {
        let found = from + text.get(from..)?.find(marker)?;
        // Most texts hold one marker, outside of any fence; only then is it worth looking for fences.
        let shown = fences.get_or_insert_with(|| long_fences(text, marker));
        match shown.iter().find(|(begin, end)| *begin < found && found < *end) {
            Some((_, end)) => from = *end,
            None => return Some(found),
        }
    }
}

/// A line that consists of a fence.
struct Fence<'a> {
    at: usize,
    sign: char,
    length: usize,
    info: &'a str,
}

/// The spans of all long fences, each from its opening line to the end of its closing one.
fn long_fences(text: &str, marker: &str) -> Vec<(usize, usize)> {
    let result = marker.trim_start_matches('`');
    let mut at = 0;
    let mut fences = Vec::new();
    for line in text.split_inclusive('\n') {
        fences.extend(fence(line, at));
        at += line.len();
    }
    let mut spans: Vec<(usize, usize)> = Vec::new();
    // Of each sign, the least length for which no closing line is left.
    let mut unclosed = LONG.map(|(sign, _)| (sign, usize::MAX));
    let mut next = 0;
    while let Some(open) = fences.get(next) {
        next += 1;
        let hopeless = unclosed.iter().any(|(sign, length)| *sign == open.sign && open.length >= *length);
        if hopeless || open.info.contains('`') || open.info.starts_with(result) {
            continue;
        }
        let closes =
            |fence: &Fence<'_>| fence.sign == open.sign && fence.length >= open.length && fence.info.is_empty();
        match fences[next..].iter().position(closes) {
            Some(distance) => {
                let close = &fences[next + distance];
                let end = close.at + close.length;
                let around = text[..open.at].trim().is_empty() && text[end..].trim().is_empty();
                if !around {
                    spans.push((open.at, end));
                    next += distance + 1;
                }
            }
            None => {
                let known = unclosed.iter_mut().find(|(sign, _)| *sign == open.sign);
                known.into_iter().for_each(|(_, length)| *length = open.length);
            }
        }
    }
    spans
}

/// The long fence that a line is, if it is one. `at` is where the line begins.
fn fence(line: &str, at: usize) -> Option<Fence<'_>> {
    let start = line.trim_start_matches([' ', '\t']);
    let (sign, least) = LONG.into_iter().find(|(sign, _)| start.starts_with(*sign))?;
    let rest = start.trim_start_matches(sign);
    let length = start.len() - rest.len();
    (length >= least).then(|| Fence { at: at + line.len() - start.len(), sign, length, info: rest.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: &str = "```cw:result";

    #[test]
    fn a_block_that_is_only_shown_is_passed_over() {
        let real = "```cw:result\n{\"summary\": \"real\"}\n```\n";
        for shown in [
            "````\n```cw:result\n{}\n```\n````\n",
            "````markdown\n```cw:result\n{}\n```\n````\n",
            "  `````md\n```cw:result\n{}\n```\n````\n  `````\n",
            "~~~\n```cw:result\n{}\n```\n~~~\n",
            "~~~~ text\n~~~\n```cw:result\n{}\n```\n~~~~\n",
        ] {
            let text = format!("intro\n{shown}{real}");
            assert_eq!(opening(&text, MARKER), Some("intro\n".len() + shown.len()), "{shown}");
            assert_eq!(opening(&format!("intro\n{shown}"), MARKER), None, "{shown}");
        }
    }

    #[test]
    fn a_block_that_counts_is_found() {
        for before in ["", "text ", "```md\n", "````\nnever closed\n", "``` `x` ````\n", "````\nx\n````\n", "`"] {
            let text = format!("{before}```cw:result\n{{}}\n```\n");
            assert_eq!(opening(&text, MARKER), Some(before.len()), "{before}");
        }
        assert_eq!(opening("````cw:result\n{}\n````", MARKER), Some(1));
        let whole = "\n````markdown\n# T\n```cw:result\n{}\n```\n````\n";
        assert_eq!(opening(whole, MARKER), whole.find(MARKER), "a wrapping around the whole text");
        assert_eq!(opening("nothing", MARKER), None);
    }

    #[test]
    fn many_fences_take_linear_time() {
        for unit in ["````a\n", "~~~\n", "````\n```cw:result\n", "~~~~~x\n````\n"] {
            let _ = opening(&format!("x\n{}```cw:result", unit.repeat(50_000)), MARKER);
        }
    }
}
