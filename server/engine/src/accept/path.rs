//! Paths as agents write them, brought to one spelling: `/` between parts, no `.`, no `..`.
//!
//! Must not: look at a file system. Links are for the caller to follow and check.

/// The path in its one spelling, absolute if it was so; `.` for the workspace itself. None if it leads out of where it
/// starts.
pub(super) fn normalise(text: &str) -> Option<String> {
    let text = text.replace('\\', "/");
    let text = text.strip_prefix("//?/").unwrap_or(&text);
    let (root, rest) = match text.strip_prefix('/') {
        Some(rest) => ("/", rest),
        None if has_drive(text) => text.split_at(text.len().min(3)),
        None => ("", text),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                // Above an absolute root is the root itself; above a relative start is outside.
                if parts.pop().is_none() && root.is_empty() {
                    return None;
                }
            }
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    Some(if root.is_empty() && joined.is_empty() { ".".to_owned() } else { format!("{root}{joined}") })
}

/// The path relative to the first of the roots that holds it; `.` for a root itself. None if it is outside all of them.
///
/// `path` is in its one spelling; a relative one is taken to start at the workspace. Windows paths are compared without
/// regard to ASCII case, as that file system does.
pub(super) fn relative_to(roots: &[String], path: &str) -> Option<String> {
    if !path.starts_with('/') && !has_drive(path) {
        return Some(path.to_owned());
    }
    roots.iter().filter_map(|root| normalise(root)).find_map(|root| {
        let root = root.trim_end_matches('/');
        let head = path.get(..root.len())?;
        let same = head == root || has_drive(path) && head.eq_ignore_ascii_case(root);
        match path[root.len()..].strip_prefix('/') {
            _ if !same => None,
            Some("") => Some(".".to_owned()),
            Some(rest) => Some(rest.to_owned()),
            None => (path.len() == root.len()).then(|| ".".to_owned()),
        }
    })
}

/// The path of a `file://` URL, from what follows the `//`: host left off, percent signs decoded.
pub(super) fn from_url(rest: &str) -> String {
    let path = rest.find('/').map_or(rest, |at| &rest[at..]);
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let [first, tail @ ..] = left {
        let decoded = match left {
            [b'%', high, low, ..] => char::from(*high).to_digit(16).zip(char::from(*low).to_digit(16)),
            _ => None,
        };
        match decoded.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => {
                bytes.push(byte);
                left = &left[3..];
            }
            None => {
                bytes.push(*first);
                left = tail;
            }
        }
    }
    let path = String::from_utf8_lossy(&bytes).into_owned();
    match path.strip_prefix('/') {
        Some(rest) if has_drive(rest) => rest.to_owned(),
        _ => path,
    }
}

fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling() {
        for (text, wanted) in [
            ("a/b", Some("a/b")),
            ("./a//b/", Some("a/b")),
            ("a/./b/../c", Some("a/c")),
            ("", Some(".")),
            ("a/..", Some(".")),
            ("..", None),
            ("a/../..", None),
            ("/", Some("/")),
            ("/../a", Some("/a")),
            (r"C:\a\..\b", Some("C:/b")),
            (r"\\?\C:\a", Some("C:/a")),
            ("é/ß", Some("é/ß")),
        ] {
            assert_eq!(normalise(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn absolute_paths_become_relative_inside_a_root_only() {
        let roots = ["/work/repo/".to_owned(), "/private/work/repo".to_owned(), r"C:\Work".to_owned()];
        for (path, wanted) in [
            ("a/b", Some("a/b")),
            ("/work/repo/a", Some("a")),
            ("/work/repo", Some(".")),
            ("/private/work/repo/a/b", Some("a/b")),
            ("/work/repository/a", None),
            ("/work", None),
            ("/etc/passwd", None),
            ("c:/work/a", Some("a")),
            ("C:/Workshop/a", None),
            ("/é", None),
        ] {
            assert_eq!(relative_to(&roots, path).as_deref(), wanted, "{path}");
        }
        assert_eq!(relative_to(&["/".to_owned()], "/a").as_deref(), Some("a"));
    }

    #[test]
    fn file_urls_are_decoded() {
        for (rest, wanted) in [
            ("/a/b%20c", "/a/b c"),
            ("localhost/a", "/a"),
            ("/C:/a", "C:/a"),
            ("/100%/%zz/%", "/100%/%zz/%"),
            ("/%ff", "/\u{fffd}"),
        ] {
            assert_eq!(from_url(rest), wanted, "{rest}");
        }
    }
}
