//! `runs prune`: removing runs, and kept results, that nobody needs any more.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use flowdrive_protocol::prune::{PruneRunsParams, PruneRunsResult};
use flowdrive_protocol::run::RunStatus;
use flowdrive_protocol::time::Timestamp;

use super::args::{PlaceArgs, wire};
use super::error::CliError;
use super::format::{self, Paint, Tone};
use super::output;
use super::session::Session;
use super::table::Table;

/// What may go. Where both `--keep` and `--older-than` are given, a run goes only when both allow it.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Keep so many of the newest runs, of those whose status may go.
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<u32>,
    /// Remove only what last changed so long ago, such as 30d, 12h, 45m.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Remove runs that stand like this; several with commas. Complete ones when absent.
    #[arg(
        long,
        value_name = "complete|parked|blocked|in-progress",
        value_parser = wire::<RunStatus>,
        value_delimiter = ','
    )]
    pub(crate) status: Vec<RunStatus>,
    /// Remove results kept for later runs that were neither kept nor used for so long.
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) cache_older_than: Option<Duration>,
    /// Say what would go, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// `90s`, `45m`, `12h`, `30d`, `4w`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and one of s, m, h, d, w, such as 30d".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(|| "that is too long".to_owned())
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) async fn prune(args: PruneArgs) -> Result<u8, CliError> {
    if args.keep.is_none() && args.older_than.is_none() {
        let hint =
            "add --keep N, --older-than AGE, or both: `flowdrive runs prune --keep 20 --older-than 30d --dry-run`";
        if !args.status.is_empty() {
            return Err(CliError::usage("--status says which runs may go, not how many or how old", hint));
        }
        if args.cache_older_than.is_none() {
            return Err(CliError::usage("nothing says which runs may go", hint));
        }
    }
    Session::with_runs(&args.place, async |session| {
        let params = PruneRunsParams {
            workspace: session.place(),
            keep: args.keep,
            older_than_ms: args.older_than.map(millis),
            statuses: (!args.status.is_empty()).then(|| args.status.clone()),
            cache_older_than_ms: args.cache_older_than.map(millis),
            dry_run: args.dry_run,
        };
        let result = session.client.prune_runs(&params).await?;
        if args.place.json {
            output::json(&result)?;
        } else {
            output::out(&told(&result, &args.status, Timestamp::now(), Paint(output::out_colours())))?;
        }
        Ok(if result.skipped.is_empty() { 0 } else { super::FAULT })
    })
    .await
}

fn told(result: &PruneRunsResult, asked: &[RunStatus], now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    if !result.removed.is_empty() {
        let mut table = Table::new(&["run", "status", "changed", "size", "title"]);
        for run in &result.removed {
            let children = match run.children.len() {
                0 => String::new(),
                _ => format!(" (and {})", format::count(run.children.len() as u64, "run of sub-workflows")),
            };
            table.row([
                (run.run_id.to_string(), Tone::Plain),
                (run.status.as_str().to_owned(), format::run_tone(run.status)),
                (format::ago(run.updated_at, now), Tone::Plain),
                (size(run.bytes), Tone::Plain),
                (format::clip(&format!("{}{children}", run.title), 60), Tone::Plain),
            ]);
        }
        text.push_str(&table.render(paint));
    }
    for run in &result.skipped {
        let _ =
            writeln!(text, "{} {}: {}", paint.tone("not removed", Tone::Bad), run.name, format::clean(&run.message));
    }
    let mut gone = vec![format::count(result.removed.len() as u64, "run")];
    if result.cached_results > 0 {
        gone.push(format::count(result.cached_results, "kept result"));
    }
    if result.leftovers > 0 {
        gone.push(format::count(result.leftovers, "leftover"));
    }
    let verb = if result.dry_run { "would be removed" } else { "removed" };
    let stay = format::count(result.kept, "run");
    let _ = writeln!(text, "{}, {} {verb}; {stay} kept", gone.join(", "), size(result.bytes));
    if result.kept > 0 && asked.is_empty() {
        text.push_str("Only complete runs go, unless --status names others.\n");
    }
    text
}

/// `512 B`, `3.4 kB`, `1.2 GB`.
fn size(bytes: u64) -> String {
    let mut unit = "B";
    let (mut whole, mut tenth) = (bytes, 0);
    for next in ["kB", "MB", "GB", "TB"] {
        if whole < 1000 {
            break;
        }
        (whole, tenth, unit) = (whole / 1000, whole % 1000 / 100, next);
    }
    if unit == "B" { format!("{whole} B") } else { format!("{whole}.{tenth} {unit}") }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::super::args::{Cli, Command, RunsArgs, RunsCommand};
    use super::*;

    fn parse(line: &str) -> Result<PruneArgs, clap::Error> {
        match Cli::try_parse_from(line.split_whitespace())?.command {
            Command::Runs(RunsArgs { command: Some(RunsCommand::Prune(args)), .. }) => Ok(args),
            other => panic!("another command: {other:?}"),
        }
    }

    #[test]
    fn what_may_go_is_read_as_people_write_it() {
        let args =
            parse("flowdrive runs prune --keep 5 --older-than 30d --status complete,parked --dry-run --json").unwrap();
        assert_eq!((args.keep, args.older_than), (Some(5), Some(Duration::from_secs(30 * 86_400))));
        assert_eq!(args.status, [RunStatus::Complete, RunStatus::Parked]);
        assert!(args.dry_run && args.place.json && args.cache_older_than.is_none());
        for (text, seconds) in [("0s", 0), ("90s", 90), ("45m", 2_700), ("12h", 43_200), ("2w", 1_209_600)] {
            assert_eq!(age(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "d", "30", "1.5d", "-1d", "+1d", "30 d", "30y", "99999999999999999999w", "18446744073709551615w", "é"]
        {
            assert!(age(text).is_err(), "{text:?}");
        }
        assert_eq!(parse("flowdrive runs prune --status done").unwrap_err().exit_code(), 2);
        assert!(Cli::try_parse_from(["flowdrive", "runs", "--limit", "3", "prune"]).is_err());
        assert!(matches!(
            Cli::try_parse_from(["flowdrive", "runs", "--limit", "3"]).unwrap().command,
            Command::Runs(RunsArgs { command: None, .. })
        ));
    }

    #[test]
    fn the_answer_says_what_went_how_big_it_was_and_what_could_not_go() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (15_360, "15.3 kB"), (2_500_000_000, "2.5 GB")]
        {
            assert_eq!(size(bytes), text);
        }
        let now = Timestamp::from_millis(10 * 86_400_000);
        let result: PruneRunsResult = serde_json::from_value(json!({
            "dryRun": true, "kept": 3, "cachedResults": 2, "leftovers": 1, "bytes": 3_400,
            "removed": [{ "runId": "r-1", "title": "Quick survey", "status": "complete",
                "updatedAt": Timestamp::from_millis(0), "children": ["sub-r-1-a"], "bytes": 2_000 }],
            "skipped": [{ "name": "r-2", "kind": "run-locked", "message": "run r-2 is being driven" }],
        }))
        .unwrap();
        let text = told(&result, &[], now, Paint(false));
        for part in [
            "r-1",
            "complete",
            "10 days ago",
            "2.0 kB",
            "Quick survey (and 1 run of sub-workflows)",
            "not removed r-2: run r-2 is being driven",
            "1 run, 2 kept results, 1 leftover, 3.4 kB would be removed; 3 runs kept",
            "Only complete runs go",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(!told(&result, &[RunStatus::Parked], now, Paint(false)).contains("Only complete"));
    }
}
