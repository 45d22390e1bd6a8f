use proptest::prelude::*;

use super::*;

type Frames = Vec<Result<Vec<u8>, FrameError>>;

fn decode(framing: Option<Framing>, limit: usize, chunks: &[&[u8]]) -> Frames {
    let mut decoder = Decoder::new(framing, limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(frame) = decoder.next_frame() {
            frames.push(frame);
        }
    }
    frames.extend(decoder.finish());
    frames
}

fn bodies(frames: &Frames) -> Vec<String> {
    frames
        .iter()
        .map(|frame| match frame {
            Ok(body) => String::from_utf8_lossy(body).into_owned(),
            Err(error) => format!("! {error}"),
        })
        .collect()
}

fn texts(framing: Option<Framing>, input: &str) -> Vec<String> {
    bodies(&decode(framing, 100, &[input.as_bytes()]))
}

#[test]
fn the_first_byte_shows_the_framing() {
    for (input, framing) in [
        ("Content-Length: 2\r\n\r\n{}", Framing::Lsp),
        ("content-length: 2\r\n\r\n{}", Framing::Lsp),
        ("\r\n  Content-Length: 2\r\n\r\n{}", Framing::Lsp),
        ("{}\n", Framing::Ndjson),
        ("\u{feff}{}\n", Framing::Ndjson),
        ("\n\n[]\n", Framing::Ndjson),
        ("GET / HTTP/1.1\r\n", Framing::Ndjson),
    ] {
        let mut decoder = Decoder::new(None, 100);
        for byte in input.as_bytes() {
            decoder.push(&[*byte]);
        }
        assert_eq!(decoder.framing(), Some(framing), "{input:?}");
        assert!(matches!(decoder.next_frame(), Some(Ok(_))), "{input:?}");
    }
    let mut blank = Decoder::new(None, 100);
    blank.push(b" \r\n");
    assert_eq!((blank.framing(), blank.next_frame(), blank.finish()), (None, None, None));
}

#[test]
fn marks_and_blanks_before_the_first_message_are_none_however_they_are_cut() {
    for before in
        ["\u{feff}", " \u{feff}", "\u{feff}\u{feff}", "\u{feff} \r\n\u{feff}\n", "\n\u{feff}\n\u{feff}\u{feff} "]
    {
        for (message, framing) in [("{}\n", Framing::Ndjson), ("Content-Length: 2\r\n\r\n{}", Framing::Lsp)] {
            let input = format!("{before}{message}");
            for size in 1..=input.len() {
                let chunks: Vec<&[u8]> = input.as_bytes().chunks(size).collect();
                assert_eq!(bodies(&decode(None, 100, &chunks)), ["{}"], "{input:?} in pieces of {size}: {framing:?}");
            }
        }
    }
    let mut begun = Decoder::new(None, 100);
    begun.push(b"\xef\xbb");
    assert_eq!((begun.framing(), begun.next_frame(), begun.finish()), (None, None, None));
}

#[test]
fn headers_are_read_leniently_where_that_is_harmless() {
    for header in [
        "Content-Length: 2\r\n\r\n",
        "CONTENT-LENGTH:2\r\n\r\n",
        "content-length : 2\r\n\r\n",
        "Content-Length: 2\n\n",
        "Content-Type: application/vscode-jsonrpc; charset=latin1\r\nContent-Length: 2\r\n\r\n",
        "Content-Length: 2\r\nX-Other: a:b\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
        "Content-Length: 002\r\n\r\n",
    ] {
        assert_eq!(texts(Some(Framing::Lsp), &format!("{header}{{}}")), ["{}"], "{header:?}");
    }
}

#[test]
fn a_bad_header_is_told_once_and_the_next_message_is_read() {
    for (bad, reason) in [
        ("Content-Length: -5\r\n\r\n{\"a\":1}", "not a number of bytes: `-5`"),
        ("Content-Length: +5\r\n\r\n{\"a\":1}", "not a number of bytes: `+5`"),
        ("Content-Length: \r\n\r\n", "not a number of bytes: ``"),
        ("Content-Length: 99999999999999999999999\r\n\r\n", "not a number of bytes"),
        ("Content-Length: 18446744073709551615\r\n\r\n", "not a number of bytes"),
        ("Content-Type: text/plain\r\n\r\n{}", "`Content-Length` is missing"),
        ("Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "given twice: 1 and 2"),
        ("Content-Length 5\r\n\r\nabcde", "without a colon"),
        ("{\"jsonrpc\":\"2.0\"}\n", "expected `Content-Length`"),
        ("no header\r\nat all\r\n\r\n", "without a colon"),
    ] {
        let frames =
            texts(Some(Framing::Lsp), &format!("{bad}Content-Length: 2\r\n\r\n[]Content-Length: 2\r\n\r\n{{}}"));
        assert_eq!(frames.len(), 3, "{bad:?}: {frames:?}");
        assert!(frames[0].contains(reason), "{bad:?}: {frames:?}");
        assert_eq!(frames[1..], ["[]", "{}"], "{bad:?}");
    }
}

#[test]
fn a_header_without_an_end_is_given_up() {
    let endless = "X-A: b\r\n".repeat(2000);
    let frames = texts(Some(Framing::Lsp), &format!("{endless}Content-Length: 2\r\n\r\n{{}}"));
    assert!(frames[0].contains("no blank line"), "{frames:?}");
    assert_eq!(frames[1..], ["{}"]);
}

#[test]
fn a_body_over_the_limit_is_passed_over_and_not_held() {
    let mut decoder = Decoder::new(Some(Framing::Lsp), 10);
    decoder.push(b"Content-Length: 1000000\r\n\r\n");
    assert_eq!(decoder.next_frame(), Some(Err(FrameError::TooLarge { size: Some(1_000_000), limit: 10 })));
    for _ in 0..1000 {
        decoder.push(&[b'x'; 1000]);
        assert_eq!(decoder.next_frame(), None);
        let State::Lsp(lsp) = &decoder.state else { unreachable!() };
        assert!(lsp.held() <= 1000);
    }
    decoder.push(b"Content-Length: 2\r\n\r\n{}");
    assert_eq!(decoder.next_frame(), Some(Ok(b"{}".to_vec())));
}

#[test]
fn lines_end_in_either_way_and_blank_ones_do_not_count() {
    assert_eq!(texts(Some(Framing::Ndjson), "{}\r\n\n  \n[1]\n\"last\""), ["{}", "[1]", "\"last\""]);
    assert_eq!(texts(Some(Framing::Ndjson), "{}\n"), ["{}"]);
}

#[test]
fn a_line_over_the_limit_is_passed_over_and_not_held() {
    let long = "x".repeat(1000);
    let input = format!("{long}\n{{}}\n{long}");
    for cut in [1, 7, 64, 5000] {
        let chunks: Vec<&[u8]> = input.as_bytes().chunks(cut).collect();
        let frames = decode(Some(Framing::Ndjson), 100, &chunks);
        let error = FrameError::TooLarge { size: None, limit: 100 };
        let last: &[Result<Vec<u8>, FrameError>] = &frames[2..];
        assert_eq!(frames[..2], [Err(error.clone()), Ok(b"{}".to_vec())], "chunks of {cut}");
        assert!(last.len() == 1, "chunks of {cut}: {:?}", bodies(&frames));
    }
}

#[test]
fn what_the_end_cuts_off_is_told() {
    assert_eq!(texts(Some(Framing::Lsp), "Content-Length: 5\r\n\r\n{}"), ["! the input ended inside a message"]);
    assert_eq!(texts(Some(Framing::Lsp), "Content-Le"), ["! the input ended inside a message"]);
    assert_eq!(texts(Some(Framing::Lsp), "Content-Length: 2\r\n\r\n{}\r\n"), ["{}"]);
}

#[test]
fn what_is_encoded_decodes_to_the_same() {
    for framing in [Framing::Lsp, Framing::Ndjson] {
        let mut bytes = Vec::new();
        for body in ["{}", "{\"text\":\"\u{e9}\"}", "[1,2]"] {
            encode(framing, body.as_bytes(), &mut bytes);
        }
        let frames = decode(None, 100, &[&bytes]);
        assert_eq!(bodies(&frames), ["{}", "{\"text\":\"\u{e9}\"}", "[1,2]"]);
    }
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~]{0,60}".prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()),
        "\\{[a-z\",:]{0,120}\\}\r?\n".prop_map(String::into_bytes),
        Just(b"Content-Length: -1\r\n\r\n".to_vec()),
        Just(b"Content-Length: 150\r\n\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..80),
    ]
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(
        pieces in prop::collection::vec(piece(), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
        framing in prop::sample::select(vec![None, Some(Framing::Lsp), Some(Framing::Ndjson)]),
    ) {
        let bytes = pieces.concat();
        let whole = decode(framing, 100, &[&bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        // A line over the limit may be told of before or after its end has come, but once either way.
        prop_assert_eq!(&whole, &decode(framing, 100, &cut(&bytes, &cuts)));
        prop_assert_eq!(&whole, &decode(framing, 100, &single));
    }

    #[test]
    fn well_formed_messages_all_arrive(
        all in prop::collection::vec("[ -~]{0,90}", 0..12),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut bytes = Vec::new();
        for body in &all {
            encode(Framing::Lsp, body.as_bytes(), &mut bytes);
        }
        prop_assert_eq!(&bodies(&decode(Some(Framing::Lsp), 100, &cut(&bytes, &cuts))), &all);
    }

    #[test]
    fn garbage_never_hides_the_message_after_it(
        garbage in "[ -~\r\n]{1,200}",
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        // Garbage that is itself a header would rightly swallow what follows as its body.
        prop_assume!(!garbage.to_ascii_lowercase().contains("content-l"));
        // A blank line ends the garbage's own header block, if it began one.
        let bytes = [garbage.as_bytes(), b"\r\n\r\nContent-Length: 5\r\n\r\n[1,2]"].concat();
        let frames = decode(Some(Framing::Lsp), 100, &cut(&bytes, &cuts));
        prop_assert_eq!(frames.last(), Some(&Ok(b"[1,2]".to_vec())));
    }
}
