//! What Windows is asked that the standard library has no call for: job objects, a process that is put into one before it
//! runs, the end of a process, and handles that children must not inherit.
//!
//! Must not: know what an agent is, or decide anything. The only module of a Windows build with `unsafe` code.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle as _, BorrowedHandle, FromRawHandle as _, OwnedHandle};
use std::os::windows::process::CommandExt as _;
use std::process::{Child, Command};
use std::ptr;

use tokio_util::sync::CancellationToken;
use windows_sys::Win32::Foundation::{
    ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, HANDLE, HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, SetHandleInformation,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_BASIC_PROCESS_ID_LIST,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, INFINITE, OpenProcess, OpenThread,
    PROCESS_SYNCHRONIZE, RegisterWaitForSingleObject, ResumeThread, THREAD_SUSPEND_RESUME, UnregisterWaitEx,
    WT_EXECUTEINWAITTHREAD, WT_EXECUTEONLYONCE,
};

/// The exit code of what a job object ended.
const ENDED_BY_US: u32 = 1;

/// A job object: every process in it, and every process those start, ends with it. They cannot leave it.
///
/// It ends when the last handle to it is closed, and its only handle is here and not inherited. So it ends when this is
/// dropped, and when this process dies, however it dies.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// An empty one.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new() -> io::Result<Self> {
        // SAFETY: both arguments may be null: no attributes (so the handle is not inherited) and no name.
        let handle = owned(unsafe { CreateJobObjectW(ptr::null(), ptr::null()) })?;
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the handle is open; the pointer and the length are those of a live value of the type this class of
        // information asks for, and the call does not keep the pointer.
        let set = unsafe {
            SetInformationJobObject(
                handle.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                ptr::from_ref(&limits).cast(),
                size_of_u32::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
            )
        };
        succeeded(set)?;
        Ok(Self(handle))
    }

    /// Puts a process into it.
    fn take_in(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        // SAFETY: both handles are open for the time of the call.
        succeeded(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process.as_raw_handle()) })
    }

    /// Ends every process in it. They are gone a little later: [`Job::processes`] says when.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn end(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        succeeded(unsafe { TerminateJobObject(self.0.as_raw_handle(), ENDED_BY_US) })
    }

    /// The processes in it that are alive now.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        // The structure ends in an array of one; what is asked for is as many as there are.
        const HEAD: usize = std::mem::offset_of!(JOBOBJECT_BASIC_PROCESS_ID_LIST, ProcessIdList);
        let mut room = 64_usize;
        loop {
            // Of machine words, so that it is aligned as the structure is.
            let mut buffer = vec![0_usize; HEAD.div_ceil(size_of::<usize>()) + room];
            let bytes = u32::try_from(buffer.len() * size_of::<usize>()).map_err(io::Error::other)?;
            // SAFETY: the handle is open; the buffer is writable for the length given and aligned for the structure.
            let asked = unsafe {
                QueryInformationJobObject(
                    self.0.as_raw_handle(),
                    JobObjectBasicProcessIdList,
                    buffer.as_mut_ptr().cast(),
                    bytes,
                    ptr::null_mut(),
                )
            };
            match succeeded(asked) {
                Ok(()) => {}
                Err(error) if is(&error, ERROR_MORE_DATA) && room < 1 << 20 => {
                    room *= 4;
                    continue;
                }
                Err(error) => return Err(error),
            }
            // SAFETY: the buffer is longer than the structure, aligned for it, and any bytes are a value of it.
            let head = unsafe { &*buffer.as_ptr().cast::<JOBOBJECT_BASIC_PROCESS_ID_LIST>() };
            let count = (head.NumberOfProcessIdsInList as usize).min(room);
            let ids = &buffer[HEAD / size_of::<usize>()..][..count];
            return Ok(ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect());
        }
    }
}

/// Starts a command inside a job of its own, without a window. It is in the job before it runs its first instruction.
///
/// Between its start and its being put into the job it stands still; were this process killed at that very moment, a
/// process that has done nothing and does nothing would stay.
///
/// # Errors
/// What the system says when it cannot; nothing of it is left then.
pub fn start(command: &mut Command) -> io::Result<(Child, Job)> {
    let job = Job::new()?;
    let mut child = command.creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW).spawn()?;
    match job.take_in(child.as_handle()).and_then(|()| resume(child.id())) {
        Ok(()) => Ok((child, job)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Lets a process run that was started standing still. Its number is its own, since its handle is open.
fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    let snapshot = owned(snapshot)?;
    let mut entry = THREADENTRY32 { dwSize: size_of_u32::<THREADENTRY32>(), ..Default::default() };
    let mut resumed = false;
    // SAFETY: the handle is a snapshot's, and the entry is a live value that knows its own size.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) };
    while more != 0 {
        if entry.th32OwnerProcessID == pid {
            // SAFETY: plain numbers.
            let thread = owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) })?;
            // SAFETY: the handle is open and allows this.
            if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
                return Err(io::Error::last_os_error());
            }
            resumed = true;
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) };
    }
    if resumed { Ok(()) } else { Err(io::Error::other("the process has no thread to be started")) }
}

/// Notices the end of a process.
#[derive(Debug)]
pub struct ProcessEnd {
    ended: CancellationToken,
    /// What the callback is given: a token made by `Box::into_raw`, freed when no callback can come any more.
    told: *mut CancellationToken,
    wait: HANDLE,
    _process: OwnedHandle,
}

// SAFETY: the pointer is to a value that may be sent and shared between threads, and is used by nobody but the callback
// until it is freed by the one drop; the wait's handle may be used from any thread.
unsafe impl Send for ProcessEnd {}
// SAFETY: as above; by reference only the token is used.
unsafe impl Sync for ProcessEnd {}

impl ProcessEnd {
    /// Of a process whose handle this is.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn of(process: OwnedHandle) -> io::Result<Self> {
        let ended = CancellationToken::new();
        let told = Box::into_raw(Box::new(ended.clone()));
        let mut wait: HANDLE = ptr::null_mut();
        // SAFETY: the process's handle stays open as long as the wait does, since both are dropped together and the wait
        // first; `told` stays valid until no callback can come any more.
        let registered = unsafe {
            RegisterWaitForSingleObject(
                &raw mut wait,
                process.as_raw_handle(),
                Some(tell),
                told.cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD | WT_EXECUTEONLYONCE,
            )
        };
        if let Err(error) = succeeded(registered) {
            // SAFETY: made by `Box::into_raw` above, and no callback was registered.
            drop(unsafe { Box::from_raw(told) });
            return Err(error);
        }
        Ok(Self { ended, told, wait, _process: process })
    }

    /// Of the process with this number; none when there is no such process.
    ///
    /// # Errors
    /// What the system refuses, for one that is another user's for example.
    pub fn of_pid(pid: u32) -> io::Result<Option<Self>> {
        // SAFETY: plain numbers.
        match owned(unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, pid) }) {
            Ok(process) => Self::of(process).map(Some),
            Err(error) if is(&error, ERROR_INVALID_PARAMETER) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Resolves when it has ended, at once if it has. Can be called and dropped any number of times.
    pub async fn wait(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for ProcessEnd {
    fn drop(&mut self) {
        // SAFETY: the wait was registered and is unregistered once. With this second argument the call returns only when
        // a callback under way has returned, so nobody uses `told` afterwards, which `Box::into_raw` made.
        unsafe {
            UnregisterWaitEx(self.wait, INVALID_HANDLE_VALUE);
            drop(Box::from_raw(self.told));
        }
    }
}

/// Called by a thread of the system's when the process has ended.
unsafe extern "system" fn tell(told: *mut c_void, _timed_out: bool) {
    // SAFETY: `ProcessEnd` keeps the token behind this pointer until the wait is unregistered.
    unsafe { &*told.cast::<CancellationToken>() }.cancel();
}

/// Keeps a handle from being inherited by the processes started from here on.
///
/// # Errors
/// What the system refuses.
pub fn keep_from_children(handle: impl AsHandle) -> io::Result<()> {
    // SAFETY: the handle is open for the time of the call.
    succeeded(unsafe { SetHandleInformation(handle.as_handle().as_raw_handle(), HANDLE_FLAG_INHERIT, 0) })
}

fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every caller passes what the system has just given it and keeps no copy.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn succeeded(answer: i32) -> io::Result<()> {
    if answer == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error().is_some_and(|raw| raw.cast_unsigned() == code)
}

/// The sizes of these structures are far below the limit of the type the system takes them in.
#[expect(clippy::cast_possible_truncation, reason = "structures of some hundred bytes")]
const fn size_of_u32<T>() -> u32 {
    size_of::<T>() as u32
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("cmd.exe");
        // A child of its own, so that there is a tree.
        command.args(["/c", "ping -n 1000 127.0.0.1"]).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    #[tokio::test]
    async fn a_job_ends_with_all_that_is_in_it() {
        let (mut child, job) = start(&mut sleeper()).unwrap();
        let end = ProcessEnd::of(child.as_handle().try_clone_to_owned().unwrap()).unwrap();
        assert!(job.processes().unwrap().contains(&child.id()));
        job.end().unwrap();
        end.wait().await;
        assert_eq!(child.wait().unwrap().code(), Some(1));
        while !job.processes().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_job_that_is_dropped_ends_too() {
        let (mut child, job) = start(&mut sleeper()).unwrap();
        let end = ProcessEnd::of_pid(child.id()).unwrap().unwrap();
        drop(job);
        end.wait().await;
        child.wait().unwrap();
    }
}
