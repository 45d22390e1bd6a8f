//! `feedback list` and `feedback resolve`.

use std::fmt::Write as _;

use flowdrive_protocol::feedback::{FeedbackRecord, FeedbackSeverity, FeedbackStatus, Resolution};
use flowdrive_protocol::ids::{FeedbackId, RunId};
use flowdrive_protocol::method::{ListFeedbackParams, ResolveFeedbackParams};

use super::args::{FeedbackArgs, FeedbackCommand, FeedbackListArgs, ResolveArgs};
use super::error::CliError;
use super::format::{self, Paint, Tone};
use super::output;
use super::runs::{self, Miss};
use super::session::Session;
use super::table::Table;

pub(crate) async fn feedback(args: FeedbackArgs) -> Result<u8, CliError> {
    match args.command {
        FeedbackCommand::List(args) => list(args).await,
        FeedbackCommand::Resolve(args) => resolve(args).await,
    }
}

async fn list(args: FeedbackListArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let run_id = runs::find(session, &args.run).await?;
        let params = ListFeedbackParams { workspace: session.place(), run_id: run_id.clone(), status: args.status };
        let result = session.client.list_feedback(&params).await?;
        if args.place.json {
            output::json(&result)?;
        } else {
            output::out(&records_text(&result.feedback, &run_id, &session.flags, Paint(output::out_colours())))?;
        }
        Ok(0)
    })
    .await
}

fn records_text(records: &[FeedbackRecord], run_id: &RunId, flags: &str, paint: Paint) -> String {
    if records.is_empty() {
        return format!("No feedback in {run_id}.\n");
    }
    let mut table = Table::new(&["feedback", "status", "severity", "class", "task", "message"]);
    for record in records {
        let status = match record.status {
            FeedbackStatus::Open | FeedbackStatus::Tasked => Tone::Warn,
            FeedbackStatus::Resolved => Tone::Good,
            FeedbackStatus::Rejected => Tone::Dim,
        };
        let severity = match record.severity {
            FeedbackSeverity::High => Tone::Bad,
            FeedbackSeverity::Medium => Tone::Warn,
            FeedbackSeverity::Low => Tone::Plain,
        };
        table.row([
            (record.id.to_string(), Tone::Plain),
            (format::wire(&record.status), status),
            (format::wire(&record.severity), severity),
            (record.classification.as_str().to_owned(), Tone::Plain),
            (record.task_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string), Tone::Plain),
            (format::clip(&record.message, 120), Tone::Plain),
        ]);
    }
    let mut text = table.render(paint);
    if let Some(open) = records.iter().find(|record| record.status == FeedbackStatus::Open) {
        let _ = writeln!(
            text,
            "\nnext: flowdrive feedback resolve {run_id} {}{flags} --resolution retry --guidance '...'",
            open.id
        );
    }
    text
}

async fn resolve(args: ResolveArgs) -> Result<u8, CliError> {
    Session::with_runs(&args.place, async |session| {
        let run_id = runs::find(session, &args.run).await?;
        let mut ids = find(session, &run_id, &args.ids).await?.into_iter();
        let Some(feedback_id) = ids.next() else {
            return Err(CliError::usage(
                "no record was named",
                format!("`flowdrive feedback list {run_id}` lists them"),
            ));
        };
        let feedback_ids: Vec<FeedbackId> = ids.collect();
        let others = feedback_ids.len();
        let params = ResolveFeedbackParams {
            workspace: session.place(),
            run_id: run_id.clone(),
            feedback_id,
            feedback_ids,
            resolution: args.resolution,
            node_id: args.node,
            message: args.message,
            evidence: args.evidence,
            artifacts: args.artifact,
            guidance: args.guidance,
        };
        let record = session.client.resolve_feedback(&params).await?;
        if args.place.json {
            output::json(&record)?;
        } else {
            output::out(&resolved_text(&record, others, args.resolution, &session.flags))?;
        }
        Ok(0)
    })
    .await
}

fn resolved_text(record: &FeedbackRecord, others: usize, resolution: Resolution, flags: &str) -> String {
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    let what = match resolution {
        Resolution::Retry if others > 0 => "closed; their tasks are open again",
        Resolution::Retry => "closed; its task is open again",
        Resolution::Rejected if others > 0 => "rejected; their tasks stay parked",
        Resolution::Rejected => "rejected; its task stays parked",
        Resolution::Resolved => "resolved",
        Resolution::Tasked => {
            let run = &record.run_id;
            return format!(
                "{}{more} given a correction task: .cw/runs/{run}/{}.md\nnext: do it, then flowdrive feedback resolve {run} \
                 {}{flags} --resolution retry\n",
                record.id, record.id, record.id
            );
        }
    };
    format!("{}{more} {what}.\nnext: flowdrive resume {}{flags}\n", record.id, record.run_id)
}

/// The records that ids, or the starts of some, name.
async fn find(session: &Session, run_id: &RunId, texts: &[String]) -> Result<Vec<FeedbackId>, CliError> {
    let params = ListFeedbackParams { workspace: session.place(), run_id: run_id.clone(), status: None };
    let records = session.client.list_feedback(&params).await?.feedback;
    let ids: Vec<String> = records.iter().map(|record| record.id.to_string()).collect();
    let one = |text: &String| {
        let id = match runs::pick(text, &ids) {
            Ok(id) => id.as_str(),
            // Not in the list: the server says so in its own words.
            Err(Miss::Nothing) => text,
            Err(Miss::Many(candidates)) => return Err(runs::ambiguous(text, "feedback records", &candidates)),
        };
        FeedbackId::new(id).map_err(|error| {
            CliError::usage(error.to_string(), format!("`flowdrive feedback list {run_id}` lists the records"))
        })
    };
    texts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(id: &str, status: &str) -> FeedbackRecord {
        serde_json::from_value(json!({"schemaVersion": 1, "id": id, "runId": "r", "createdAt": "2026-01-02T03:04:05Z",
            "updatedAt": "2026-01-02T03:04:05Z", "status": status, "severity": "high",
            "classification": "missing-evidence", "source": "verifier", "code": "c", "message": "nothing is cited",
            "taskId": "map:a", "retryable": true}))
        .unwrap()
    }

    #[test]
    fn records_are_listed_with_the_command_that_closes_the_first_open_one() {
        let records = [record("fb-1", "resolved"), record("fb-2", "open"), record("fb-3", "open")];
        let run = RunId::new("r").unwrap();
        let expected = "\
feedback  status    severity  class             task   message
fb-1      resolved  high      missing-evidence  map:a  nothing is cited
fb-2      open      high      missing-evidence  map:a  nothing is cited
fb-3      open      high      missing-evidence  map:a  nothing is cited

next: flowdrive feedback resolve r fb-2 -w x --resolution retry --guidance '...'
";
        assert_eq!(records_text(&records, &run, " -w x", Paint(false)), expected);
        assert!(!records_text(&records[..1], &run, "", Paint(false)).contains("next:"));
        assert_eq!(records_text(&[], &run, "", Paint(false)), "No feedback in r.\n");
    }

    #[test]
    fn closing_a_record_says_how_to_go_on() {
        let text = resolved_text(&record("fb-1", "resolved"), 0, Resolution::Retry, "");
        assert_eq!(text, "fb-1 closed; its task is open again.\nnext: flowdrive resume r\n");
        let text = resolved_text(&record("fb-1", "resolved"), 2, Resolution::Rejected, "");
        assert_eq!(text, "fb-1 and 2 more rejected; their tasks stay parked.\nnext: flowdrive resume r\n");
        let text = resolved_text(&record("fb-1", "tasked"), 0, Resolution::Tasked, "");
        assert!(
            text.contains("correction task: .cw/runs/r/fb-1.md\n") && text.contains("--resolution retry"),
            "{text}"
        );
    }
}
