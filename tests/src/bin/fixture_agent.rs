//! An agent for tests: does what its arguments say. Writes down that it ran, waits, makes trouble, delivers a result.
//!
//! The order is fixed: ledger line, child processes, trouble with signals, waiting, output, result, ledger line, exit.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use flowdrive_tests::ledger::{self, What};
use flowdrive_tests::results::{self, Kind};

/// No fixture outlives a test by more than this, whatever goes wrong.
const LIFE: Duration = Duration::from_secs(300);

struct Options {
    input: Option<PathBuf>,
    result: Option<PathBuf>,
    worker: Option<PathBuf>,
    ledger: Option<PathBuf>,
    kind: Kind,
    good_when: Option<String>,
    cite: String,
    sleep: Duration,
    gate: Option<PathBuf>,
    meet: Option<(PathBuf, usize)>,
    fail_times: Option<(PathBuf, usize)>,
    exit: u8,
    exit_after_failures: u8,
    print: Option<String>,
    pad_kilobytes: usize,
    print_megabytes: usize,
    print_error_megabytes: usize,
    fork: usize,
    ignore_term: bool,
    linger: bool,
    write_env: Option<PathBuf>,
    wait_for_stdin_end: bool,
}

fn main() -> ExitCode {
    match Options::parse(env::args().skip(1)).and_then(|options| options.run().map_err(|error| error.to_string())) {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            let _ = writeln!(io::stderr(), "fixture-agent: {fault}");
            ExitCode::from(99)
        }
    }
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            input: None,
            result: None,
            worker: None,
            ledger: None,
            kind: Kind::Good,
            good_when: None,
            cite: "src/lib.rs:1".to_owned(),
            sleep: Duration::ZERO,
            gate: None,
            meet: None,
            fail_times: None,
            exit: 0,
            exit_after_failures: 1,
            print: None,
            pad_kilobytes: 0,
            print_megabytes: 0,
            print_error_megabytes: 0,
            fork: 0,
            ignore_term: false,
            linger: false,
            write_env: None,
            wait_for_stdin_end: false,
        };
        while let Some(flag) = arguments.next() {
            match flag.as_str() {
                "--ignore-term" => options.ignore_term = true,
                "--linger" => options.linger = true,
                "--read-stdin" => options.wait_for_stdin_end = true,
                _ => {
                    let value = arguments.next().ok_or_else(|| format!("{flag} takes a value"))?;
                    options.set(&flag, value)?;
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: String) -> Result<(), String> {
        let number = || value.parse::<usize>().map_err(|error| format!("{flag} {value}: {error}"));
        let counted = || {
            let (count, path) = value.split_once(':').ok_or_else(|| format!("{flag} takes COUNT:PATH"))?;
            Ok::<_, String>((PathBuf::from(path), count.parse().map_err(|_| format!("{flag} takes COUNT:PATH"))?))
        };
        match flag {
            "--input" => self.input = Some(value.into()),
            "--result" => self.result = Some(value.into()),
            "--worker" => self.worker = Some(value.into()),
            "--ledger" => self.ledger = Some(value.into()),
            "--kind" => self.kind = value.parse()?,
            "--good-when" => self.good_when = Some(value),
            "--cite" => self.cite = value,
            "--sleep-ms" => self.sleep = Duration::from_millis(number()? as u64),
            "--gate" => self.gate = Some(value.into()),
            "--meet" => self.meet = Some(counted()?),
            "--fail-times" => self.fail_times = Some(counted()?),
            "--exit" => self.exit = u8::try_from(number()?).map_err(|_| format!("{flag} takes 0 to 255"))?,
            "--print" => self.print = Some(value),
            "--pad-kb" => self.pad_kilobytes = number()?,
            "--print-mb" => self.print_megabytes = number()?,
            "--print-err-mb" => self.print_error_megabytes = number()?,
            "--fork" => self.fork = number()?,
            "--write-env" => self.write_env = Some(value.into()),
            _ => return Err(format!("unknown flag {flag}")),
        }
        Ok(())
    }

    fn run(&self) -> io::Result<u8> {
        if self.linger {
            // A child of an agent: holds the pipes it inherited and does nothing.
            thread::sleep(LIFE);
            return Ok(0);
        }
        let prompt = self.input.as_deref().map(fs::read_to_string).transpose()?.unwrap_or_default();
        let task = results::marker(&prompt).unwrap_or("?").to_owned();
        self.note(&task, What::Start)?;
        for _ in 0..self.fork {
            // The marker in the child's command line is how a test finds it when its parent is gone.
            let marker = self.worker.as_deref().unwrap_or(Path::new("?"));
            Command::new(env::current_exe()?)
                .arg("--linger")
                .arg("--worker")
                .arg(marker)
                .stdin(Stdio::null())
                .spawn()?;
        }
        if self.ignore_term {
            ignore_term()?;
        }
        if self.wait_for_stdin_end {
            io::copy(&mut io::stdin().lock(), &mut io::sink())?;
        }
        if let Some(path) = &self.write_env {
            let names: Vec<String> = env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            fs::write(path, names.join("\n"))?;
        }
        self.wait()?;
        self.speak()?;
        let failing = self.fail_times.as_ref().map(|(file, times)| Ok::<_, io::Error>(count(file)? <= *times));
        if failing.transpose()?.unwrap_or(false) {
            self.note(&task, What::End)?;
            return Ok(self.exit_after_failures);
        }
        // Told by the input rather than counted, so that an attempt that a crash cut short changes nothing.
        let told = self.good_when.as_deref().is_some_and(|words| prompt.contains(words));
        let kind = if told { Kind::Good } else { self.kind };
        if let (Some(path), Some(text)) = (&self.result, results::text(kind, &task, &self.cite)) {
            let padding = "So much more was said about it.\n".repeat(self.pad_kilobytes * 32);
            fs::write(path, format!("{padding}{text}"))?;
        }
        self.note(&task, What::End)?;
        Ok(self.exit)
    }

    fn note(&self, task: &str, what: What) -> io::Result<()> {
        let Some(file) = &self.ledger else { return Ok(()) };
        let worker = self.worker.as_deref().and_then(Path::file_name).unwrap_or_default();
        ledger::append(file, task, &worker.to_string_lossy(), what)
    }

    /// Sleeps, meets others, waits at a gate.
    fn wait(&self) -> io::Result<()> {
        thread::sleep(self.sleep);
        if let Some((file, others)) = &self.meet {
            count(file)?;
            poll(|| fs::metadata(file).is_ok_and(|about| about.len() >= *others as u64))?;
        }
        if let Some(gate) = &self.gate {
            poll(|| gate.exists())?;
        }
        Ok(())
    }

    fn speak(&self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        if let Some(text) = &self.print {
            writeln!(stdout, "{text}")?;
        }
        megabytes(&mut stdout, self.print_megabytes)?;
        megabytes(&mut io::stderr().lock(), self.print_error_megabytes)
    }
}

fn megabytes(output: &mut impl Write, count: usize) -> io::Result<()> {
    let mut line = [b'x'; 1024];
    line[1023] = b'\n';
    for _ in 0..count * 1024 {
        output.write_all(&line)?;
    }
    output.flush()
}

/// Adds one byte to a file and returns how many there are. `O_APPEND` keeps apart those who do it at once.
fn count(file: &Path) -> io::Result<usize> {
    let mut counter = fs::OpenOptions::new().append(true).create(true).open(file)?;
    counter.write_all(b"x")?;
    Ok(usize::try_from(counter.metadata()?.len()).unwrap_or(usize::MAX))
}

fn poll(ready: impl Fn() -> bool) -> io::Result<()> {
    let since = Instant::now();
    while !ready() {
        if since.elapsed() > LIFE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody opened the gate"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// SIGTERM is blocked rather than ignored, which needs no unsafe code and comes to the same.
fn ignore_term() -> io::Result<()> {
    use nix::sys::signal::{SigSet, Signal};
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.thread_block().map_err(io::Error::from)
}
