//! The process's standard input and output. They are moved away from descriptors 0 and 1, so that nothing in this process
//! or in a child of it can read from the client or write to it but through here. Both have a thread of their own, since
//! a read cannot be called off and a write may block for as long as the client likes.
//!
//! Must not: look at the bytes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use nix::unistd::{dup2_stdin, dup2_stdout};
use tokio::sync::mpsc;

use super::outbox::Outbox;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that wait for the reader before no more are read.
const CHUNKS: usize = 16;

/// Takes standard input and output for the protocol. Descriptor 0 is empty from now on, 1 is standard error.
///
/// # Errors
/// When a descriptor cannot be duplicated.
pub(crate) fn claim() -> io::Result<(File, File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}

/// Reads `input` on a thread of its own. The channel closes when the input ends.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn reading(mut input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let work = move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match input.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => {
                    if sender.blocking_send(chunk[..count].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read any more");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("stdin".into()).spawn(work)?;
    Ok(receiver)
}

/// Writes what is in the outbox to `output` on a thread of its own, until the outbox is closed or the client is gone.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn writing(outbox: Outbox, mut output: impl Write + Send + 'static) -> io::Result<()> {
    let work = move || {
        while let Some(bytes) = outbox.take() {
            if let Err(error) = output.write_all(&bytes).and_then(|()| output.flush()) {
                tracing::warn!(%error, "the client takes no more output");
                outbox.break_off();
                break;
            }
        }
        outbox.writer_ended();
    };
    std::thread::Builder::new().name("stdout".into()).spawn(work)?;
    Ok(())
}
