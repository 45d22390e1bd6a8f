/**
 * Feedback, reports, results, places, the installation.
 * Must not: keep state.
 */
import { access } from "node:fs/promises";
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import * as methods from "../methods";
import { document as doctorDocument } from "../model/doctor";
import type { Place } from "../model/findings";
import type { FeedbackRecord } from "flowdrive-client/protocol";
import * as choose from "../ui/choose";
import { openPlace as showPlace } from "../ui/panels";
import { chooseRun, nameOf, open, type Given, type Parts, type Session } from "./parts";

/** The record that was given; else that of the task that was given; else the only one; else the one chosen. */
async function chooseFeedback(session: Session, runId: string, given: Given): Promise<FeedbackRecord> {
  const { client, workspace } = session;
  const { feedback } = await client.sendRequest(methods.listFeedback, { workspace, runId, status: "open" });
  if (given.feedbackId !== undefined) {
    const named = feedback.find((record) => record.id === given.feedbackId);
    if (named === undefined) {
      throw new Error(l10n.t("No open feedback of this run is called {0}.", given.feedbackId));
    }
    return named;
  }
  const fitting = given.taskId === undefined ? feedback : feedback.filter((record) => record.taskId === given.taskId);
  const only = fitting[0];
  if (only === undefined) {
    throw new Error(l10n.t("No feedback waits for you there."));
  }
  return fitting.length === 1 ? only : choose.feedback(fitting);
}

export async function resolveFeedback(parts: Parts, given: Given): Promise<FeedbackRecord> {
  const session = await open(parts, given);
  const { client, workspace } = session;
  const runId = await chooseRun(
    parts,
    session,
    given,
    l10n.t("Feedback of which run?"),
    l10n.t("No feedback waits for you here."),
    (run) => run.openFeedback > 0,
  );
  const open_ = await chooseFeedback(session, runId, given);
  const decision = await choose.decision(given, open_.taskId ?? nameOf(parts, runId));
  const record = await client.sendRequest(methods.resolveFeedback, { workspace, runId, feedbackId: open_.id, ...decision });
  await parts.follower.load(runId);
  await parts.follower.refresh();
  const left = parts.catalog.get(runId)?.summary.openFeedback ?? 0;
  const what = record.taskId ?? record.id;
  const resume = l10n.t("Resume");
  const next = l10n.t("Next Feedback");
  const done =
    decision.resolution === "retry" ? l10n.t("{0} will be tried again.", what) : decision.resolution === "rejected" ? l10n.t("{0} stays parked.", what) : l10n.t("{0} is settled.", what);
  const more = left > 0 ? ` ${l10n.t("{0} more wait for you.", left)}` : "";
  void vscode.window
    .showInformationMessage(`Flowdrive: ${done}${more}`, ...(left > 0 ? [next] : []), ...(decision.resolution === "rejected" ? [] : [resume]))
    .then((chosen) => {
      if (chosen === resume) {
        void vscode.commands.executeCommand("flowdrive.resume", { workspace, runId });
      } else if (chosen === next) {
        void vscode.commands.executeCommand("flowdrive.resolveFeedback", { workspace, runId });
      }
    });
  return record;
}

export async function showFeedback(parts: Parts, given: Given): Promise<void> {
  const { runId, feedbackId } = given;
  const text = runId === undefined || feedbackId === undefined ? undefined : parts.views.feedbackDocument(runId, feedbackId);
  if (text === undefined || runId === undefined) {
    throw new Error(l10n.t("This feedback is closed."));
  }
  const query = JSON.stringify({ workspace: given.workspace, runId, feedbackId });
  await parts.documents.show(l10n.t("Feedback on {0}", given.taskId ?? nameOf(parts, runId)), text, query);
}

/** Where a run's report is; it must be there. */
async function reportOf(parts: Parts, given: Given): Promise<{ report: string; runId: string; workspace: string }> {
  const session = await open(parts, given);
  const { client, workspace } = session;
  const runId = await chooseRun(parts, session, given, l10n.t("Report of which run?"), l10n.t("There is no run here."));
  const { reportPath } = await client.sendRequest(methods.showRun, { workspace, runId, taskLimit: 1 });
  return { report: path.resolve(workspace, reportPath), runId, workspace };
}

async function mustExist(file: string): Promise<void> {
  await access(file).catch(() => {
    throw new Error(l10n.t("The report {0} is not there. Resuming its run writes it again.", file));
  });
}

export async function openReport(parts: Parts, given: Given): Promise<string> {
  const report = given.path ?? (await reportOf(parts, given)).report;
  await mustExist(report);
  await vscode.commands.executeCommand("markdown.showPreview", vscode.Uri.file(report));
  return report;
}

export async function openTimeline(parts: Parts, given: Given): Promise<string> {
  const { report, runId, workspace } = await reportOf(parts, given);
  const html = report.replace(/\.md$/, ".html");
  await mustExist(html);
  await parts.panels.showReport(runId, l10n.t("Timeline: {0}", nameOf(parts, runId)), html, workspace);
  return html;
}

/** The accepted result of a task, as Markdown. */
export async function openResult(parts: Parts, given: Given): Promise<void> {
  const result = given.runId === undefined || given.taskId === undefined ? undefined : parts.catalog.get(given.runId)?.detail?.tasks.get(given.taskId)?.resultPath;
  if (result === undefined) {
    throw new Error(l10n.t("This task has no accepted result."));
  }
  await vscode.commands.executeCommand("markdown.showPreview", vscode.Uri.file(result));
}

/** What the agent of a task's newest attempt wrote to standard error, or else to standard output. */
export async function openAgentLog(parts: Parts, given: Given): Promise<string> {
  const run = given.runId === undefined ? undefined : parts.catalog.get(given.runId);
  const worker = given.taskId === undefined ? undefined : run?.detail?.tasks.get(given.taskId)?.workerId;
  if (run?.detail !== undefined && worker !== undefined) {
    const folder = path.join(path.dirname(path.resolve(run.workspace, run.detail.reportPath)), "workers", worker, "logs");
    for (const name of ["stderr.log", "stdout.log"]) {
      const uri = vscode.Uri.file(path.join(folder, name));
      const size = await vscode.workspace.fs.stat(uri).then(
        (found) => found.size,
        () => 0,
      );
      if (size > 0) {
        await vscode.window.showTextDocument(uri, { preview: true });
        return uri.fsPath;
      }
    }
  }
  throw new Error(l10n.t("The agent of this task wrote nothing."));
}

export async function openPlace(_: Parts, given: Given): Promise<void> {
  await showPlace(given as unknown as Place);
}

export async function checkInstallation(parts: Parts, given: Given): Promise<boolean> {
  const { client, workspace } = await open(parts, given);
  const result = await client.sendRequest(methods.doctor, { workspace });
  const binary = parts.server.binary ?? { path: "flowdrive", version: result.version };
  await parts.documents.show(l10n.t("Flowdrive installation"), doctorDocument(result, binary));
  return result.ok;
}

/** Shows the views; with a run, that one. */
export async function showRuns(parts: Parts, given: Given): Promise<void> {
  const run = given.runId === undefined ? (parts.catalog.driving()[0] ?? parts.catalog.feedback()[0]?.run) : parts.catalog.get(given.runId);
  if (run === undefined) {
    await vscode.commands.executeCommand("flowdrive.runs.focus");
  } else {
    await parts.views.reveal(run.workspace, run.summary.runId);
  }
}

export async function showFindings(parts: Parts, given: Given): Promise<void> {
  parts.catalog.choose(given.runId);
  await vscode.commands.executeCommand("flowdrive.findings.focus");
}

export async function copyRunId(_: Parts, given: Given): Promise<void> {
  if (given.runId !== undefined) {
    await vscode.env.clipboard.writeText(given.runId);
  }
}
