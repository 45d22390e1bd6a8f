//! What an attempt is given to read: `input.md` and `manifest.json`.

use std::fmt::Write as _;

use flowdrive_protocol::workflow::Sandbox;

use crate::model::agent::Assignment;
use crate::model::state::Refused;

/// The text of `input.md`.
#[must_use]
pub fn input(
    assignment: &Assignment,
    phase: &str,
    requires_evidence: bool,
    artifacts: &[String],
    refused: Option<&Refused>,
    guidance: Option<&str>,
) -> String {
    let mut text = String::with_capacity(assignment.prompt.len() + 2_048);
    // Writing to a String cannot fail.
    let mut line = |args: std::fmt::Arguments<'_>| {
        let _ = text.write_fmt(args);
        text.push('\n');
    };
    line(format_args!("# {}\n", assignment.task_id));
    line(format_args!("- run: {}", assignment.run_id));
    line(format_args!("- phase: {phase}"));
    line(format_args!("- attempt: {} ({})", assignment.attempt, assignment.worker_id));
    line(format_args!("- workspace: {}", assignment.workspace.display()));
    line(format_args!("- sandbox: {}", assignment.sandbox.as_str()));
    line(format_args!("\n## Task\n\n{}", assignment.prompt.trim_end()));
    if let Some(guidance) = guidance {
        line(format_args!("\n## Guidance\n\nFrom the operator:\n\n{}", guidance.trim_end()));
    }
    if let Some(refused) = refused {
        line(format_args!(
            "\n## What was refused before\n\nThe previous attempt was refused ({}):\n\n> {}\n\nMend exactly that.",
            refused.code,
            refused.reason.trim_end().replace('\n', "\n> ")
        ));
    }
    line(format_args!("\n## Deliver\n\nWrite your result as Markdown to `{}`.", assignment.folder.result.display()));
    line(format_args!("End it with one fenced block that opens with three backticks and `cw:result` and holds JSON:\n"));
    line(format_args!(
        "    {{\"summary\": \"one sentence\",\n     \"findings\": [{{\"id\": \"short-id\", \"summary\": \"the claim\", \"classification\": \
         \"real|conditional|non-issue|unknown\",\n                   \"severity\": \"P0|P1|P2|P3|none\", \"evidence\": \
         [\"src/file.rs:10-12\"]}}],\n     \"evidence\": [\"src/file.rs:10-12\"]}}\n"
    ));
    line(format_args!("Evidence is a place that can be looked up: `path:line` or `path:first-last` relative to the workspace, or a URL."));
    line(format_args!("Every cited file and line must exist. Findings rated P0 to P2 need evidence of their own."));
    if requires_evidence {
        line(format_args!("This task is refused without evidence."));
    }
    if !artifacts.is_empty() {
        line(format_args!("These paths must exist when you are done: {}.", artifacts.join(", ")));
    }
    line(format_args!("\n## Boundary\n"));
    line(format_args!("{}", boundary(assignment.sandbox)));
    line(format_args!("Write nothing outside `{}` otherwise.", assignment.folder.dir.display()));
    text
}

const fn boundary(sandbox: Sandbox) -> &'static str {
    match sandbox {
        Sandbox::Default => "Read the workspace. Commands and the network are allowed.",
        Sandbox::Readonly => "Read the workspace. Change nothing in it. Do not use the network.",
        Sandbox::WorkspaceWrite => "Read and change files of the workspace as the task asks.",
        Sandbox::LockedDown => "Read nothing but this file. Run no commands. Do not use the network.",
    }
}

/// The value of `manifest.json`.
#[must_use]
pub fn manifest(assignment: &Assignment, agent: &str, requires_evidence: bool) -> serde_json::Value {
    let folder = &assignment.folder;
    serde_json::json!({
        "schemaVersion": flowdrive_protocol::SCHEMA_VERSION,
        "runId": assignment.run_id,
        "taskId": assignment.task_id,
        "workerId": assignment.worker_id,
        "attempt": assignment.attempt,
        "agent": agent,
        "workspace": assignment.workspace,
        "workerDir": folder.dir,
        "inputPath": folder.input,
        "resultPath": folder.result,
        "artifactsDir": folder.artifacts,
        "logsDir": folder.logs,
        "sandboxProfileId": assignment.sandbox.as_str(),
        "requiresEvidence": requires_evidence,
        "model": assignment.model,
        "prompt": assignment.prompt,
    })
}
