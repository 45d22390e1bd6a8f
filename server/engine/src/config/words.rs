//! Splits a command line into words, as a shell does with quotes, and with nothing else of a shell: no variables, no
//! globs, no operators.

/// The words, or why there are none.
pub(super) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a single quote is not closed"),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a double quote is not closed"),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a double quote is not closed"),
                    }
                }
            }
            // On Windows a backslash parts folders; a path must not have to double them.
            '\\' if !cfg!(windows) => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("it ends in a backslash"),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_what_a_shell_makes_of_them() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  ", &[]),
            ("agent --in {{input}}\t--out  {{result}}", &["agent", "--in", "{{input}}", "--out", "{{result}}"]),
            ("'/opt/my agent/run' \"a b\"c", &["/opt/my agent/run", "a bc"]),
            ("a '' \"\"", &["a", "", ""]),
            ("'a\"b' \"c'd\"", &["a\"b", "c'd"]),
            (r#""a\"b\\c\n$x""#, &[r#"a"b\c\n$x"#]),
            ("$HOME ; *", &["$HOME", ";", "*"]),
            ("caf\u{e9}\u{a0}x", &["caf\u{e9}", "x"]),
        ];
        for (line, words) in table {
            assert_eq!(split(line).unwrap(), *words, "{line:?}");
        }
        #[cfg(not(windows))]
        assert_eq!(split(r"a\ b \' c\\d").unwrap(), ["a b", "'", r"c\d"]);
        for line in ["'a", "a \"b", "\"a\\"] {
            assert!(split(line).is_err(), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back_whole(words in proptest::collection::vec("[^\u{0}']{0,8}", 0..5)) {
            let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(&line).unwrap(), words);
        }
    }
}
