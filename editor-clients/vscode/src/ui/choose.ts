/**
 * What else the user is asked: folder, run, feedback, resolution. Each throws `Dismissed` when the user leaves.
 * Must not: talk to the server.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import * as format from "../model/format";
import { BACK } from "../model/steps";
import type { FeedbackRecord, Resolution, RunSummary } from "flowdrive-client/protocol";
import { pick, text } from "./ask";

/** Without a position there is no way back. */
function never<T>(answer: T | typeof BACK): T {
  return answer as T;
}

/** The folder that the run is about: the only one, else that of the open file, else the one chosen. */
export async function folder(): Promise<vscode.WorkspaceFolder> {
  const folders = (vscode.workspace.workspaceFolders ?? []).filter((one) => one.uri.scheme === "file");
  const only = folders[0];
  if (only === undefined) {
    throw new Error(l10n.t("Open a folder first: runs are kept in it, and agents read its files."));
  }
  if (folders.length === 1) {
    return only;
  }
  const file = vscode.window.activeTextEditor?.document.uri;
  const current = file && vscode.workspace.getWorkspaceFolder(file);
  if (current !== undefined && folders.includes(current)) {
    return current;
  }
  const choices = folders.map((value) => ({ label: value.name, description: value.uri.fsPath, value }));
  return never(await pick({ title: "Flowdrive", placeholder: l10n.t("Which folder?"), choices }));
}

export async function run(
  runs: readonly RunSummary[],
  placeholder: string,
  none: string,
  titleOf: (run: RunSummary) => string,
): Promise<RunSummary> {
  if (runs.length === 0) {
    throw new Error(none);
  }
  const now = Date.now();
  const choices = runs.map((value) => ({
    label: titleOf(value),
    description: format.joined(
      value.driving ? l10n.t("running") : format.status(value.status),
      `${value.completedWorkers}/${value.plannedWorkers}`,
      value.openFeedback > 0 ? format.waiting(value.openFeedback) : undefined,
      format.ago(value.updatedAt, now),
    ),
    detail: value.runId,
    value,
  }));
  return never(await pick({ title: l10n.t("Flowdrive: Run"), placeholder, choices }));
}

export async function feedback(records: readonly FeedbackRecord[]): Promise<FeedbackRecord> {
  const choices = records.map((value) => ({
    label: value.taskId ?? value.id,
    description: format.joined(value.severity, value.code),
    detail: format.oneLine(value.message),
    value,
  }));
  return never(await pick({ title: l10n.t("Flowdrive: Feedback"), placeholder: l10n.t("Which one?"), choices }));
}

export interface Decision {
  resolution: Resolution;
  nodeId?: string;
  guidance?: string;
  message?: string;
}

/** How feedback is closed: what was given, and answers for what was not. An empty text that was given stays empty. */
export async function decision(given: Partial<Decision>, about: string): Promise<Decision> {
  const title = l10n.t("Resolve Feedback: {0}", about);
  const resolution =
    given.resolution ??
    never(
      await pick<Resolution>({
        title,
        placeholder: l10n.t("How is it closed?"),
        choices: [
          { label: `$(debug-rerun) ${l10n.t("Retry")}`, detail: l10n.t("Open the task again, with guidance"), value: "retry" },
          { label: `$(circle-slash) ${l10n.t("Reject")}`, detail: l10n.t("Close without a correction; the task stays parked"), value: "rejected" },
          { label: `$(verified) ${l10n.t("Resolved")}`, detail: l10n.t("Settled by a verified node"), value: "resolved" },
        ],
      }),
    );
  const made: Decision = { resolution };
  if (resolution === "resolved") {
    const problem = (typed: string) => (typed.trim() === "" ? l10n.t("Name the node") : undefined);
    made.nodeId = given.nodeId ?? never(await text({ title, prompt: l10n.t("The verified node that settles it"), problem }));
  }
  const field = resolution === "retry" ? "guidance" : "message";
  const prompt =
    resolution === "retry" ? l10n.t("Guidance for the next attempt (may be left empty)") : l10n.t("A note (may be left empty)");
  const note = given[field] ?? never(await text({ title, prompt }));
  if (note !== "") {
    made[field] = note;
  }
  return made;
}
