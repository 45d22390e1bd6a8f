//! Lines out of chunks: complete lines as text, invalid bytes replaced, with a cap on how long one may be.
//!
//! Must not: know what a line means.

use std::borrow::Cow;

/// Puts lines together.
#[derive(Debug)]
pub(super) struct Lines {
    held: Vec<u8>,
    cap: usize,
    on_longer: OnLonger,
    skipping: bool,
}

/// What becomes of a line longer than the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnLonger {
    /// It is an error.
    Fail,
    /// Its beginning counts as the line, the rest is passed over.
    Cut,
}

/// A line was longer than the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// Lines of at most `cap` bytes.
    #[must_use]
    pub(super) fn new(cap: usize, on_longer: OnLonger) -> Self {
        Self { held: Vec::new(), cap, on_longer, skipping: false }
    }

    /// Tells `line` of every line that this chunk completes, without its line end.
    ///
    /// # Errors
    /// [`TooLong`] when a line is longer than the cap and that is an error.
    pub(super) fn push(&mut self, mut chunk: &[u8], mut line: impl FnMut(&str)) -> Result<(), TooLong> {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = chunk.split_at(end);
            chunk = &tail[1..];
            self.add(head)?;
            if self.held.is_empty() && !self.skipping {
                tell(head, &mut line);
            } else {
                let held = std::mem::take(&mut self.held);
                tell(&held, &mut line);
            }
            self.skipping = false;
        }
        self.hold(chunk)
    }

    /// Tells of what came after the last line end.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&str)) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            tell(&held, &mut line);
        }
    }

    /// The end of a line: joined with what is held, if anything is, else only measured.
    fn add(&mut self, head: &[u8]) -> Result<(), TooLong> {
        if self.held.is_empty() && !self.skipping && head.len() <= self.cap { Ok(()) } else { self.hold(head) }
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.skipping {
            return Ok(());
        }
        let room = self.cap - self.held.len();
        if bytes.len() <= room {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        self.held.extend_from_slice(&bytes[..room]);
        self.skipping = true;
        match self.on_longer {
            OnLonger::Fail => Err(TooLong),
            OnLonger::Cut => Ok(()),
        }
    }
}

fn tell(bytes: &[u8], line: &mut impl FnMut(&str)) {
    let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes));
    line(match &text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => text,
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(chunks: &[&[u8]], cap: usize, on_longer: OnLonger) -> Result<Vec<String>, TooLong> {
        let mut lines = Lines::new(cap, on_longer);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(chunk, |line| out.push(line.to_owned()))?;
        }
        lines.finish(|line| out.push(line.to_owned()));
        Ok(out)
    }

    #[test]
    fn characters_and_lines_cut_by_chunks_are_whole_again() {
        let text = "日本\r\n語\n\nend".as_bytes();
        for cut in 0..text.len() {
            let lines = all(&[&text[..cut], &text[cut..]], 100, OnLonger::Fail).unwrap();
            assert_eq!(lines, ["日本", "語", "", "end"], "cut at {cut}");
        }
    }

    #[test]
    fn invalid_bytes_do_not_stop_the_reader() {
        assert_eq!(all(&[b"a\xff\nb\xe6\x97", b"\nc"], 100, OnLonger::Fail).unwrap(), ["a\u{fffd}", "b\u{fffd}", "c"]);
    }

    #[test]
    fn long_lines_fail_or_are_cut() {
        for chunks in [&[b"12345678\nx\n".as_slice()][..], &[b"1234", b"56", b"78\n", b"x\n"]] {
            assert_eq!(all(chunks, 7, OnLonger::Fail), Err(TooLong));
            assert_eq!(all(chunks, 5, OnLonger::Cut).unwrap(), ["12345", "x"]);
            assert_eq!(all(chunks, 8, OnLonger::Fail).unwrap(), ["12345678", "x"]);
        }
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_lines(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..9, 0..20), cap in 1usize..6) {
            let bytes = text.as_bytes();
            let mut chunks = Vec::new();
            let mut at = 0;
            for cut in cuts {
                let next = (at + cut).min(bytes.len());
                chunks.push(&bytes[at..next]);
                at = next;
            }
            chunks.push(&bytes[at..]);
            let cut = |line: &str| line.chars().take(cap).collect::<String>();
            let mut expected: Vec<String> = text.split('\n').map(cut).collect();
            if expected.last().is_some_and(String::is_empty) {
                expected.pop();
            }
            prop_assert_eq!(all(&chunks, cap, OnLonger::Cut).unwrap(), expected);
        }
    }
}
