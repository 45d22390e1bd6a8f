//! Both outputs of a process, read as they come. Room for what is read is made as it is needed: most agents print little,
//! and hundreds may run at once.
//!
//! Must not: look at what is read, or hold back a process that prints.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdout};

use super::os::Child;

/// Size of the first read from a pipe.
const SMALL: usize = 2 * 1024;

/// Size of a read after one that was full.
const LARGE: usize = 64 * 1024;

/// Both outputs of an agent.
#[derive(Debug)]
pub(super) struct Pipes {
    out: Output<ChildStdout>,
    err: Output<ChildStderr>,
}

/// What a read brought: how many bytes are in that output's chunk.
#[derive(Debug)]
pub(super) enum Read {
    /// Standard output.
    Out(usize),
    /// Standard error.
    Err(usize),
    /// One of them is closed.
    Closed,
}

impl Pipes {
    /// Those of a child started with both piped.
    pub(super) fn of(child: &mut Child) -> io::Result<Self> {
        Ok(Self {
            out: Output::of(child.stdout.take().map(ChildStdout::from_std).transpose()?),
            err: Output::of(child.stderr.take().map(ChildStderr::from_std).transpose()?),
        })
    }

    /// What the last read of standard output brought.
    pub(super) fn out(&self, len: usize) -> &[u8] {
        &self.out.chunk[..len]
    }

    /// What the last read of standard error brought.
    pub(super) fn err(&self, len: usize) -> &[u8] {
        &self.err.chunk[..len]
    }

    /// Whether neither has more to come.
    pub(super) const fn are_closed(&self) -> bool {
        self.out.pipe.is_none() && self.err.pipe.is_none()
    }

    /// The next bytes of either; never, when both are closed. Nothing is lost when this is dropped.
    pub(super) async fn read(&mut self) -> Read {
        tokio::select! {
            len = self.out.read() => len.map_or(Read::Closed, Read::Out),
            len = self.err.read() => len.map_or(Read::Closed, Read::Err),
        }
    }
}

/// One of them.
#[derive(Debug)]
struct Output<P> {
    /// None when it is closed.
    pipe: Option<P>,
    chunk: Vec<u8>,
    /// Whether the last read filled the chunk.
    full: bool,
}

impl<P: AsyncRead + Unpin> Output<P> {
    const fn of(pipe: Option<P>) -> Self {
        Self { pipe, chunk: Vec::new(), full: true }
    }

    /// How many bytes were read; none when it has just been closed. Never, when it was closed before.
    async fn read(&mut self) -> Option<usize> {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        if std::mem::take(&mut self.full) && self.chunk.len() < LARGE {
            let len = if self.chunk.is_empty() { SMALL } else { LARGE };
            self.chunk.resize(len, 0);
        }
        match pipe.read(&mut self.chunk).await {
            Ok(len @ 1..) => {
                self.full = len == self.chunk.len();
                Some(len)
            }
            // A pipe that cannot be read has nothing more for us.
            Ok(0) | Err(_) => {
                self.pipe = None;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// Gives what it has as fast as it is asked for, after one read that is not ready.
    struct Source(Vec<u8>, bool);

    impl AsyncRead for Source {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if !std::mem::replace(&mut self.1, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let len = buf.remaining().min(self.0.len());
            buf.put_slice(&self.0.drain(..len).collect::<Vec<_>>());
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn all_of_it_is_read_in_order_and_room_grows_with_what_comes() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let mut output = Output::of(Some(Source(bytes.clone(), false)));
        let (mut read, mut lens) = (Vec::new(), Vec::new());
        loop {
            // A read that is given up in the middle loses nothing.
            let waiting = futures::poll!(Box::pin(output.read()));
            let len = match waiting {
                Poll::Ready(len) => len,
                Poll::Pending => output.read().await,
            };
            let Some(len) = len else { break };
            read.extend_from_slice(&output.chunk[..len]);
            lens.push(len);
        }
        assert!(read == bytes);
        assert_eq!(lens[..3], [SMALL, LARGE, LARGE]);
        assert!(futures::poll!(Box::pin(output.read())).is_pending(), "closed is told once");
    }

    #[tokio::test]
    async fn little_output_takes_little_room() {
        let mut output = Output::of(Some(Source(b"a line\n".to_vec(), true)));
        assert_eq!(output.read().await, Some(7));
        assert_eq!(output.read().await, None);
        assert_eq!(output.chunk.len(), SMALL);
    }
}
