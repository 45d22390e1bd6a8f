/**
 * One drive or resume with its notification: how far it is, and a way to cancel it.
 * Must not: ask the user what to run, or say how it ended.
 */
import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { WorkDoneProgress, type LanguageClient } from "vscode-languageclient/node";
import type { DriveResult } from "flowdrive-client/protocol";

/** How a drive ended for who asked for it: with an answer; cancelled, so that its run is stopping; or with its server. */
export type Outcome = DriveResult | { runId: string; ended: "cancelled" | "lost" };

/**
 * Drives, with a cancellable notification. Cancelling is a graceful stop: the request ends at once, the run when its
 * agents in flight have ended. `judge` says of a fault whether it is such an end.
 */
export async function withProgress(
  client: LanguageClient,
  runId: string,
  title: string,
  send: (token: string, cancelled: vscode.CancellationToken) => Promise<DriveResult>,
  judge: (problem: unknown) => "cancelled" | "lost" | undefined,
): Promise<Outcome> {
  const token = `flowdrive-${randomUUID()}`;
  return vscode.window.withProgress(
    { location: vscode.ProgressLocation.Notification, title, cancellable: true },
    async (progress, cancelled): Promise<Outcome> => {
      let shown = 0;
      const reports = client.onProgress(WorkDoneProgress.type, token, (value) => {
        if (value.kind === "end") {
          return;
        }
        // The server reports how far it is, VS Code wants how far it got since.
        const increment = value.percentage === undefined ? 0 : Math.max(value.percentage - shown, 0);
        shown += increment;
        progress.report({ increment, ...(value.message === undefined ? {} : { message: value.message }) });
      });
      try {
        return await send(token, cancelled);
      } catch (problem) {
        const ended = judge(problem);
        if (ended === undefined || (ended === "cancelled" && !cancelled.isCancellationRequested)) {
          throw problem;
        }
        return { runId, ended };
      } finally {
        reports.dispose();
      }
    },
  );
}
