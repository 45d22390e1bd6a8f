//! Logs and panics, to standard error only: standard output is the protocol. What cannot be written is dropped; a client
//! that does not read standard error must not hold up the server.
//!
//! Must not: block a thread that logs, or write to standard output.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written before further ones are dropped.
const WAITING: usize = 1024;

enum Entry {
    Line(Vec<u8>),
    /// Everything before this has been written once it is dropped.
    Mark(SyncSender<()>),
}

/// Where log lines go.
#[derive(Clone)]
pub(crate) struct Log {
    lines: SyncSender<Entry>,
}

impl Log {
    /// Sets up logging as `RUST_LOG` says (default `warn`), and the panic hook.
    ///
    /// # Errors
    /// When the writer's thread cannot be started.
    pub(crate) fn start() -> io::Result<Self> {
        let log = Self::to(io::stderr())?;
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(log.clone())
            .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .log_internal_errors(false)
            .finish();
        // Refused only when one is set already, and then logs go there.
        let _ = tracing::subscriber::set_global_default(subscriber);
        let panics = log.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("unnamed");
            let trace = std::backtrace::Backtrace::capture();
            let _ = writeln!(panics.make_writer(), "flowdrive: thread `{name}` panicked: {panic}\n{trace}");
        }));
        Ok(log)
    }

    fn to(output: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING);
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&waiting, output))?;
        Ok(Self { lines })
    }

    /// Waits until what was logged so far is written, at most `limit`.
    pub(crate) fn flush(&self, limit: Duration) {
        let (mark, written) = sync_channel(1);
        if self.lines.try_send(Entry::Mark(mark)).is_ok() {
            let _ = written.recv_timeout(limit);
        }
    }
}

fn write_all(waiting: &Receiver<Entry>, mut output: impl Write) {
    while let Ok(entry) = waiting.recv() {
        match entry {
            // Nothing is left to tell of it with.
            Entry::Line(line) => {
                let _ = output.write_all(&line);
            }
            Entry::Mark(mark) => {
                let _ = mark.send(());
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { bytes: Vec::new(), lines: self.lines.clone() }
    }
}

/// One log line; it goes out when dropped.
pub(crate) struct Line {
    bytes: Vec<u8>,
    lines: SyncSender<Entry>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            let _ = self.lines.try_send(Entry::Line(std::mem::take(&mut self.bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    struct Stuck(Receiver<()>, Sender<usize>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            let _ = self.1.send(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_stuck_costs_lines_and_no_time() {
        let (release, held) = channel();
        let (wrote, written) = channel();
        let log = Log::to(Stuck(held, wrote)).unwrap();
        for _ in 0..WAITING * 3 {
            writeln!(log.make_writer(), "x").unwrap();
        }
        drop(release);
        drop(log);
        let lines = written.iter().count();
        assert!((WAITING..=WAITING + 1).contains(&lines), "{lines}");
    }
}
