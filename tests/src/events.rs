//! What must hold of the events of any run's first drive.

use flowdrive_protocol::event::ProgressEvent;

/// Asserts that lifecycle events are numbered 1, 2, 3 ..., and that activity carries the number before it.
///
/// # Panics
/// When one is not.
pub fn assert_numbered(events: &[ProgressEvent]) {
    let mut last = 0;
    for event in events {
        let expected = if event.event.is_lifecycle() { last + 1 } else { last };
        assert_eq!(event.seq, expected, "after {last} came {event:?}");
        last = event.seq;
    }
}
