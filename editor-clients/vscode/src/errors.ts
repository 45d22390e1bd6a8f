/**
 * Faults as the user sees them: what happened, where, what to do next, and a button that does it.
 * Must not: decide whether something is a fault.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import { ConnectionError, ErrorCodes, LSPErrorCodes, ResponseError } from "vscode-languageclient/node";
import { Dismissed, ServerUnusable } from "./model/fault";
import type { ErrorData } from "flowdrive-client/protocol";

/** Whether the request was answered "cancelled", which is what the user asked for. */
export function isCancelled(problem: unknown): boolean {
  return problem instanceof ResponseError && problem.code === LSPErrorCodes.RequestCancelled;
}

/** Whether the request was never answered because the server's end came first. */
export function isLost(problem: unknown): boolean {
  const codes: readonly number[] = [ErrorCodes.PendingResponseRejected, ErrorCodes.ConnectionInactive];
  return problem instanceof ConnectionError || (problem instanceof ResponseError && codes.includes(problem.code));
}

/** A fault in one sentence or more. */
export function explain(problem: unknown): string {
  if (problem instanceof ResponseError) {
    // Only domain faults carry data; all of it is optional here.
    const data = (problem.data ?? {}) as Partial<ErrorData>;
    const place = [data.file, data.line === undefined ? undefined : l10n.t("line {0}", data.line), data.field].filter(
      (part) => part !== undefined,
    );
    const where = place.length > 0 ? ` (${place.join(", ")})` : "";
    const hint = data.hint === undefined || data.hint === "" ? "" : ` ${data.hint}`;
    return `${problem.message}${where}${/[.!?]$/.test(problem.message) || hint === "" ? "" : "."}${hint}`;
  }
  return problem instanceof Error ? problem.message : String(problem);
}

/** Shows a fault, with ways out of it. Does not wait for the user. */
export function show(problem: unknown, log: vscode.LogOutputChannel): void {
  if (problem instanceof Dismissed) {
    return;
  }
  log.error(problem instanceof Error && !(problem instanceof ResponseError) ? problem : explain(problem));
  const settings = l10n.t("Open Settings");
  const help = l10n.t("How to Install");
  const showLog = l10n.t("Show Log");
  const actions = problem instanceof ServerUnusable ? [settings, help, showLog] : [showLog];
  void vscode.window.showErrorMessage(`Flowdrive: ${explain(problem)}`, ...actions).then((chosen) => {
    if (chosen === settings) {
      void vscode.commands.executeCommand("workbench.action.openSettings", "flowdrive.path");
    } else if (chosen === help) {
      void vscode.commands.executeCommand("flowdrive.walkthrough");
    } else if (chosen === showLog) {
      log.show();
    }
  });
}
