//! What Linux is asked directly: to start a program, and to tell when a process ends. The only module of a Unix build with
//! `unsafe` code.
//!
//! A program is started as by `vfork`: until it runs, the child borrows this process's memory. `fork` would copy the page
//! tables of a server that holds a run of ten thousand tasks, and have it fault on each of its pages afterwards, for every
//! agent anew. (`posix_spawn`, which does the same, cannot ask for the parent-death signal.)
//!
//! Must not: decide what is run, or do anything in the child but system calls on what was made ready before.
#![allow(unsafe_code)]

use std::ffi::{CString, NulError, OsStr};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{ChildStderr, ChildStdout};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use rustix::process::Pid;

use super::child::Child;
use crate::delegate::launch::Launch;

/// What the child runs on until it is a program: a handful of system calls, with much room to spare.
const STACK: usize = 64 * 1024;

/// What runs a program that has neither a format the kernel knows nor a first line that says what runs it.
const SHELL: &str = "/bin/sh";

/// Descriptors a program begins with: input, output, error output.
const STDIO: RawFd = 3;

/// A program, ready to be started.
#[derive(Debug)]
pub(super) struct Ready {
    path: CString,
    /// Its name and arguments.
    argv: Vec<CString>,
    env: Vec<CString>,
    dir: CString,
    stdin: OwnedFd,
    out: (PipeReader, OwnedFd),
    err: (PipeReader, OwnedFd),
}

/// Where programs are started, one at a time: by a thread that outlives them all.
#[derive(Debug)]
pub(super) struct Starter {
    stack: Box<[Aligned]>,
}

/// As stacks are to be aligned.
#[derive(Debug, Clone, Copy)]
#[repr(align(16))]
struct Aligned(#[expect(dead_code, reason = "room, which only the child uses")] [u8; 16]);

/// What the child has, in the memory of its parent, which stands still meanwhile.
struct Order {
    path: *const libc::c_char,
    argv: *const *const libc::c_char,
    shell: *const libc::c_char,
    shell_argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    dir: *const libc::c_char,
    stdio: [RawFd; STDIO as usize],
    parent: libc::pid_t,
    /// Why the child did not become a program; 0 when it did.
    fault: AtomicI32,
}

fn string(text: impl AsRef<OsStr>) -> io::Result<CString> {
    text_of(text.as_ref().as_bytes().to_vec())
}

fn text_of(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|fault: NulError| io::Error::new(io::ErrorKind::InvalidInput, fault))
}

/// A list as the kernel wants it. Good as long as the strings are.
fn pointers<'s>(strings: impl IntoIterator<Item = &'s CString>) -> Vec<*const libc::c_char> {
    strings.into_iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The descriptor, out of the way of those that the program begins with.
fn above_stdio(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= STDIO { Ok(fd) } else { duplicate(&fd) }
}

fn duplicate(fd: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, STDIO)?)
}

fn pipe() -> io::Result<(PipeReader, OwnedFd)> {
    let (read, write): (PipeReader, PipeWriter) = io::pipe()?;
    Ok((read, above_stdio(write.into())?))
}

impl Ready {
    /// Makes all that is needed, on whichever thread.
    ///
    /// # Errors
    /// When a string holds a zero byte, or there is no room for more open files.
    pub(super) fn of(launch: &Launch<'_>) -> io::Result<Self> {
        let stdin = match launch.stdin {
            Some(file) => duplicate(file)?,
            None => above_stdio(File::open("/dev/null")?.into())?,
        };
        let names = [launch.name].into_iter().chain(launch.args.iter().map(String::as_str));
        let env = launch.env().into_iter().map(|(name, value)| text_of([name, "=", value].concat().into_bytes()));
        Ok(Self {
            path: string(launch.path)?,
            argv: names.map(string).collect::<io::Result<_>>()?,
            env: env.collect::<io::Result<_>>()?,
            dir: string(launch.dir)?,
            stdin,
            out: pipe()?,
            err: pipe()?,
        })
    }
}

impl Starter {
    /// Ready for the first.
    pub(super) fn new() -> Self {
        Self { stack: vec![Aligned([0; 16]); STACK / size_of::<Aligned>()].into_boxed_slice() }
    }

    /// Starts a program in a process group of its own, to be killed when the calling thread ends.
    ///
    /// # Errors
    /// What the system says when it cannot.
    pub(super) fn start(&mut self, ready: Ready) -> io::Result<Child> {
        let shell = string(SHELL)?;
        let argv = pointers(&ready.argv);
        let shell_argv = pointers([&shell, &ready.path].into_iter().chain(&ready.argv[1..]));
        let env = pointers(&ready.env);
        let order = Order {
            path: ready.path.as_ptr(),
            argv: argv.as_ptr(),
            shell: shell.as_ptr(),
            shell_argv: shell_argv.as_ptr(),
            env: env.as_ptr(),
            dir: ready.dir.as_ptr(),
            stdio: [ready.stdin.as_raw_fd(), ready.out.1.as_raw_fd(), ready.err.1.as_raw_fd()],
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            fault: AtomicI32::new(0),
        };
        let pid = self.carry_out(&order)?;
        Ok(Child::new(
            pid,
            ChildStdout::from(OwnedFd::from(ready.out.0)),
            ChildStderr::from(OwnedFd::from(ready.err.0)),
        ))
    }

    fn carry_out(&mut self, order: &Order) -> io::Result<Pid> {
        // A handler of ours must not run in the child, where it would write to our memory: no signal reaches the child
        // before it has done away with the handlers.
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
        let top = self.stack.as_mut_ptr_range().end;
        // SAFETY: the stack grows down from the end of memory that is this thread's alone (`&mut self`) and aligned; the
        // child is done with it, and with `order`, when it has become a program or ended, and with CLONE_VFORK this call
        // returns no sooner. CLONE_VM shares memory, without CLONE_FILES, CLONE_FS or CLONE_SIGHAND nothing else is shared.
        // What the child does in that memory is said at `become_program`.
        let made = unsafe {
            libc::clone(
                child,
                top.cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                ptr::from_ref(order).cast_mut().cast(),
            )
        };
        let failed = io::Error::last_os_error();
        // The mask this thread had is one that can be set again.
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
        let pid = Pid::from_raw(made).filter(|_| made > 0).ok_or(failed)?;
        match order.fault.load(Ordering::Relaxed) {
            0 => Ok(pid),
            fault => {
                // Never a program: it is reaped here, and nobody hears of it.
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                Err(io::Error::from_raw_os_error(fault))
            }
        }
    }
}

/// Where the child begins. Back from here, it ends.
extern "C" fn child(order: *mut libc::c_void) -> libc::c_int {
    // SAFETY: this is what `carry_out` passed, and its parent stands still as long as this runs.
    let order = unsafe { &*order.cast::<Order>() };
    // SAFETY: this is the child, and `order` was filled in for it.
    order.fault.store(unsafe { become_program(order) }, Ordering::Relaxed);
    127
}

/// Comes back only when it failed, with the error's number.
///
/// # Safety
/// Only for a child that shares its parent's memory and that the parent waits for, with all signals blocked, and with
/// pointers in `order` that lead to strings that end with a zero, and to lists of such that end with a null. It makes
/// system calls through functions that are async-signal-safe and touch, beside their arguments, only `errno` (its parent's,
/// who does not look at it); it neither allocates nor locks nor panics.
unsafe fn become_program(order: &Order) -> libc::c_int {
    fn errno() -> libc::c_int {
        rustix::io::Errno::from_io_error(&io::Error::last_os_error()).map_or(libc::EINVAL, |errno| errno.raw_os_error())
    }
    // SAFETY: as said above; all other pointers are to locals.
    unsafe {
        // What is ignored stays ignored, as by any other way to start a program. But that broken pipes are is this
        // process's own choice, and no program expects it.
        for signal in 1..=libc::SIGRTMAX() {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
            let handled = !matches!(action.sa_sigaction, libc::SIG_IGN | libc::SIG_DFL);
            if known && (handled || signal == libc::SIGPIPE) {
                action = std::mem::zeroed();
                action.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
        if libc::setpgid(0, 0) != 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return errno();
        }
        // The parent may have died before the call above took effect.
        if libc::getppid() != order.parent {
            return libc::ESRCH;
        }
        for (at, from) in (0..STDIO).zip(order.stdio) {
            if libc::dup2(from, at) < 0 {
                return errno();
            }
        }
        // What this process was itself started with may be open for all to inherit: an editor's channel, a pipe of a build
        // tool. It is no agent's. A kernel that does not know the call (before 5.11) leaves such files open; ours close
        // by themselves.
        libc::syscall(libc::SYS_close_range, STDIO, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        if libc::chdir(order.dir) != 0 {
            return errno();
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve(order.path, order.argv, order.env);
        if errno() == libc::ENOEXEC {
            libc::execve(order.shell, order.shell_argv, order.env);
        }
        errno()
    }
}

/// Watches a process handle for becoming readable, which it does when its process ends.
pub(super) fn watch(handle: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, stays open and gives the same descriptor until it is dropped, and it is moved into
    // the `AsyncFd`, from which nothing here takes it out again.
    unsafe { tokio::io::unix::AsyncFd::register_with_interest(handle, tokio::io::Interest::READABLE) }
        .map_err(io::Error::from)
}
