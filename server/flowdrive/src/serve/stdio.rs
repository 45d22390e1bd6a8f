//! The process's standard input and output. They are moved away from descriptors 0 and 1, so that nothing in this process
//! or in a child of it can read from the client or write to it but through here. Both have a thread of their own, since
//! a read cannot be called off and a write may block for as long as the client likes.
//!
//! Must not: look at the bytes.

use std::fs::File;
use std::io::{self, Read, Write};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use super::outbox::Outbox;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that wait for the reader before no more are read.
const CHUNKS: usize = 16;

/// Takes standard input and output for the protocol. Descriptor 0 is empty from now on, 1 is standard error.
///
/// # Errors
/// When a descriptor cannot be duplicated.
#[cfg(unix)]
pub(crate) fn claim() -> io::Result<(File, File)> {
    use std::os::fd::AsFd;

    use nix::unistd::{dup2_stdin, dup2_stdout};

    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}

/// Takes standard input and output for the protocol: no child inherits them from now on.
///
/// # Errors
/// When a handle cannot be duplicated.
#[cfg(windows)]
pub(crate) fn claim() -> io::Result<(File, File)> {
    use std::os::windows::io::AsHandle;

    use flowdrive_engine::windows::keep_from_children;

    let input = io::stdin().as_handle().try_clone_to_owned()?;
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    keep_from_children(io::stdin())?;
    keep_from_children(io::stdout())?;
    Ok((input.into(), output.into()))
}

/// Reads `input` on a thread of its own. The channel closes when the input ends; the flag is set as soon as it is known
/// to have ended, also while what came before it waits to be taken.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn reading(mut input: File) -> io::Result<(mpsc::Receiver<Vec<u8>>, watch::Receiver<bool>)> {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let (end, ended) = watch::channel(false);
    let work = move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => {
                    let mut waiting = chunk[..count].to_vec();
                    while let Err(refused) = sender.try_send(waiting) {
                        let TrySendError::Full(back) = refused else { return };
                        waiting = back;
                        if hung_up(&input) {
                            end.send_replace(true);
                            // No sooner taken than there is room; nothing is looked for any more.
                            let _ = sender.blocking_send(waiting);
                            break;
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read any more");
                    break;
                }
            }
        }
        end.send_replace(true);
    };
    std::thread::Builder::new().name("stdin".into()).spawn(work)?;
    Ok((receiver, ended))
}

/// Whether nobody can write to `input` any more, whatever is still in it. Waits a moment for that.
#[cfg(target_os = "linux")]
fn hung_up(input: &File) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let moment = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let mut asked = [PollFd::new(input, PollFlags::RDHUP)];
    poll(&mut asked, Some(&moment)).is_ok_and(|found| found > 0)
}

/// Elsewhere the end is noticed once all before it was taken.
#[cfg(not(target_os = "linux"))]
fn hung_up(_: &File) -> bool {
    std::thread::sleep(std::time::Duration::from_millis(10));
    false
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
