/**
 * One drive or resume with its notification: progress, cancelling, and how it ended.
 * Must not: ask the user what to run; that is decided before.
 */
import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { WorkDoneProgress, type LanguageClient } from "vscode-languageclient/node";
import { isCancelled } from "./errors";
import * as methods from "./methods";
import type { DriveParams, DriveResult } from "./protocol";
import type { Runs } from "./runs";

/** A drive that the user cancelled: its run stops after what is in flight. */
export interface Stopping {
  runId: string | undefined;
  cancelled: true;
}

/**
 * Drives, with a cancellable notification. Cancelling is a graceful stop: the request ends at once, the run when its
 * agents in flight have ended, which a second notification tells.
 */
export async function drive(
  client: LanguageClient,
  runs: Runs,
  params: DriveParams & { workspace: string },
  title: string,
): Promise<DriveResult | Stopping> {
  const workDoneToken = `flowdrive-${randomUUID()}`;
  const { workflow } = params;
  const expected = params.runId === undefined ? runs.expect(workflow && "id" in workflow ? workflow.id : undefined) : undefined;
  try {
    return await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title, cancellable: true },
      async (progress, cancelled) => {
        let shown = 0;
        const reports = client.onProgress(WorkDoneProgress.type, workDoneToken, (value) => {
          if (value.kind === "end") {
            return;
          }
          // The server reports how far it is, VS Code wants how far it got since.
          const increment = value.percentage === undefined ? 0 : Math.max(value.percentage - shown, 0);
          shown += increment;
          progress.report({ increment, ...(value.message === undefined ? {} : { message: value.message }) });
        });
        try {
          const all = { ...params, workDoneToken };
          return params.runId === undefined
            ? await client.sendRequest(methods.drive, all, cancelled)
            : await client.sendRequest(methods.resume, { ...all, runId: params.runId }, cancelled);
        } catch (problem) {
          if (cancelled.isCancellationRequested && isCancelled(problem)) {
            return { runId: params.runId ?? expected?.runId, cancelled: true };
          }
          throw problem;
        } finally {
          reports.dispose();
        }
      },
    );
  } finally {
    expected?.dispose();
  }
}

/** Says how a drive ended, and offers the next step. Does not wait for the user. */
export function announce(outcome: DriveResult | Stopping, runs: Runs): void {
  const run = (command: string, ...args: unknown[]) => vscode.commands.executeCommand(command, ...args);
  if ("cancelled" in outcome) {
    const { runId } = outcome;
    if (runId === undefined || !runs.list().some((active) => active.id === runId)) {
      void vscode.window.showInformationMessage("Flowdrive: stopped.");
      return;
    }
    const now = "Stop at once";
    const ended = runs.onFinished((event) => {
      if (event.runId === runId) {
        ended.dispose();
        offerResume(runId, `${runId} is stopped: ${event.completedWorkers} tasks accepted, ${event.parkedWorkers} parked.`);
      }
    });
    void vscode.window
      .showInformationMessage(`Flowdrive: ${runId} stops after what is in flight.`, now)
      .then((chosen) => chosen === now && run("flowdrive.stop", { runId, mode: "now" }));
    return;
  }
  const { runId } = outcome;
  const counts = `${outcome.completedWorkers} of ${outcome.plannedWorkers} tasks accepted`;
  const reason = outcome.reason === undefined ? "" : ` ${outcome.reason}`;
  if (outcome.stopped !== undefined) {
    offerResume(runId, `${runId} is stopped: ${counts}.${reason}`);
  } else if (outcome.status === "complete") {
    const open = "Open report";
    void vscode.window
      .showInformationMessage(`Flowdrive: ${runId} is complete: ${counts}.`, open)
      .then((chosen) => chosen === open && run("flowdrive.openReport", { runId }));
  } else if (outcome.status === "in-progress") {
    offerResume(runId, `${runId} is in progress: ${counts}.${reason}`);
  } else {
    const resolve = "Resolve feedback";
    const parked = outcome.parkedWorkers > 0 ? `, ${outcome.parkedWorkers} parked` : "";
    void vscode.window
      .showWarningMessage(`Flowdrive: ${runId} is ${outcome.status}: ${counts}${parked}.${reason}`, resolve)
      .then((chosen) => chosen === resolve && run("flowdrive.resolveFeedback", { runId }));
  }
}

function offerResume(runId: string, text: string): void {
  const resume = "Resume";
  void vscode.window
    .showInformationMessage(`Flowdrive: ${text}`, resume)
    .then((chosen) => chosen === resume && vscode.commands.executeCommand("flowdrive.resume", { runId }));
}
