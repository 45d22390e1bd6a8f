//! The crash matrix, whole: `crash-matrix [--stride N] [--from K] [crash|torn|full|broken ...]`. Prints how many points
//! were tried; ends with the first that fails. Builds what it needs.

use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::time::Instant;

use flowdrive_tests::binary;
use flowdrive_tests::matrix::{self, Blow};

fn main() -> ExitCode {
    let (mut stride, mut first, mut blows) = (1, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|value| value.parse::<u64>().ok()).filter(|value| *value > 0);
        match argument.as_str() {
            "--stride" => match number() {
                Some(value) => stride = value,
                None => return usage(),
            },
            "--from" => match number() {
                Some(value) => first = value,
                None => return usage(),
            },
            "crash" => blows.push(Blow::Crash),
            "torn" => blows.push(Blow::Torn),
            "full" => blows.push(Blow::Full),
            "broken" => blows.push(Blow::Broken),
            _ => return usage(),
        }
    }
    if blows.is_empty() {
        blows = vec![Blow::Crash, Blow::Torn, Blow::Full, Blow::Broken];
    }
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--locked", "-p", "flowdrive-tests", "--bin", "fixture-agent"])
        .current_dir(binary::repository())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        say("the fixture agent cannot be built");
        return ExitCode::FAILURE;
    }
    let program = binary::fault_injected();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for blow in blows {
        let since = Instant::now();
        let summary = runtime.block_on(matrix::run(program, blow, first, stride, &mut say));
        let seconds = since.elapsed().as_secs_f64();
        say(&format!("{blow:?}: {} points tried, all recovered, in {seconds:.0} s", summary.points));
        if matches!(blow, Blow::Full | Blow::Broken) {
            say(&format!("  of these, {} did not keep the drive from its end", summary.shrugged));
        }
        for (name, count) in &summary.names {
            say(&format!("  {name}: {count}"));
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    say("usage: crash-matrix [--stride N] [--from K] [crash] [torn] [full] [broken]");
    ExitCode::from(2)
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("the figures can be printed");
}
