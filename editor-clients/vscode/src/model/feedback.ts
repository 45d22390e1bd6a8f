/**
 * Open feedback as rows, and a record as a document. Must not: know the editor, or keep state.
 */
import * as l10n from "@vscode/l10n";
import type { FeedbackRecord, FeedbackSeverity } from "flowdrive-client/protocol";
import * as format from "./format";
import { block, code, plain } from "./markdown";
import type { Icon, Row } from "./row";
import { question } from "./runTree";
import type { Run, Task } from "./run";

function icon(severity: FeedbackSeverity): Icon {
  switch (severity) {
    case "high":
      return { id: "error", color: "problemsErrorIcon.foreground" };
    case "medium":
      return { id: "warning", color: "problemsWarningIcon.foreground" };
    case "low":
      return { id: "info", color: "problemsInfoIcon.foreground" };
  }
}

export function feedbackRow(run: Run, record: FeedbackRecord, several: boolean, now: number): Row {
  const label = record.taskId ?? l10n.t("The run as a whole");
  const message = format.oneLine(record.message);
  return {
    id: `${record.runId} ${record.id}`,
    label,
    description: format.joined(message, several ? (question(run) ?? run.summary.title) : undefined),
    tooltip: [
      `**${plain(label)}** · ${code(record.code)}`,
      plain(record.message),
      plain(question(run) ?? run.summary.title),
      format.ago(record.createdAt, now),
    ].join("\n\n"),
    icon: icon(record.severity),
    context: record.taskId === undefined ? "feedback" : "feedback task",
    spoken: l10n.t("feedback on {0}, {1}: {2}", label, record.severity, message),
    children: "none",
  };
}

/** All that helps to decide about a record. */
export function document(run: Run, record: FeedbackRecord, task: Task | undefined): string {
  const what = record.taskId ?? l10n.t("The run as a whole");
  const lines = [
    `# ${plain(what)}`,
    "",
    plain(record.message),
    "",
    l10n.t("What can be done: try it again with guidance, reject it and leave the task parked, or name the node that settles it. All three are at its row in the Flowdrive view, and in “Flowdrive: Resolve Feedback…”."),
    "",
    "| | |",
    "| --- | --- |",
    `| ${l10n.t("fault")} | ${code(record.code)} (${plain(record.classification)}, ${record.severity}) |`,
    `| ${l10n.t("run")} | ${plain(question(run) ?? run.summary.title)} ${code(record.runId)} |`,
    `| ${l10n.t("since")} | ${plain(record.createdAt)} |`,
  ];
  if (task !== undefined) {
    lines.push(`| ${l10n.t("attempts")} | ${task.attempts}${task.agent === undefined ? "" : ` · ${code(task.agent)}`} |`);
  }
  if (record.path !== undefined) {
    lines.push(`| ${l10n.t("file")} | ${code(record.path)} |`);
  }
  if (record.guidance !== undefined) {
    lines.push("", `## ${l10n.t("Guidance so far")}`, "", block(record.guidance));
  }
  if (task?.failure !== undefined && task.failure !== record.message) {
    lines.push("", `## ${l10n.t("Why the newest attempt failed")}`, "", block(task.failure));
  }
  return `${lines.join("\n")}\n`;
}
