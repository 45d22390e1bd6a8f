//! Where a report is written to, piece by piece: one of ten thousand tasks is never in memory as a whole.

use std::fmt;
use std::io::{self, Write};

/// A page in the making. What it is written to may fail; the first fault is told at the end.
pub(super) struct Page<'o> {
    out: &'o mut dyn Write,
    written: io::Result<()>,
}

impl<'o> Page<'o> {
    pub(super) fn on(out: &'o mut dyn Write) -> Self {
        Self { out, written: Ok(()) }
    }

    /// Adds to it, unless that failed before.
    pub(super) fn put(&mut self, args: fmt::Arguments<'_>) {
        if self.written.is_ok() {
            self.written = self.out.write_fmt(args);
        }
    }

    /// How it went.
    pub(super) fn finish(self) -> io::Result<()> {
        self.written
    }
}
