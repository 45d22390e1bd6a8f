//! What the known agents print: a stream of JSON events, a line each, read in pieces. The first byte says whose it is and
//! how it is cut, which must make no difference.
#![no_main]

use flowdrive_engine::delegate::read_stream;
use flowdrive_protocol::config::Preset;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&first, stream)) = input.split_first() else { return };
    let presets = [Preset::Claude, Preset::Codex, Preset::Gemini, Preset::Opencode];
    let preset = presets[usize::from(first) % presets.len()];
    let whole = read_stream(preset, stream.chunks(usize::MAX));
    assert_eq!(whole, read_stream(preset, stream.chunks(1 + usize::from(first))));
});
