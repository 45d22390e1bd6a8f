/**
 * Faults as the user sees them: what happened, where, what to do next, and a button that does it.
 * Must not: decide whether something is a fault.
 */
import * as vscode from "vscode";
import { LSPErrorCodes, ResponseError } from "vscode-languageclient/node";

/** Thrown to leave a command quietly, when the user dismissed a prompt. */
export class Dismissed extends Error {}

/** The server cannot be used. Names the program that was tried. */
export class ServerUnusable extends Error {
  constructor(
    message: string,
    /** The program, or the name that was looked for. */
    readonly tried: string,
  ) {
    super(`${message} (server: ${tried})`);
  }
}

/** Whether the request was answered "cancelled", which is what the user asked for. */
export function isCancelled(problem: unknown): boolean {
  return problem instanceof ResponseError && problem.code === LSPErrorCodes.RequestCancelled;
}

/** A fault in one sentence or more. */
export function explain(problem: unknown): string {
  if (problem instanceof ResponseError) {
    const data = (typeof problem.data === "object" && problem.data !== null ? problem.data : {}) as Record<string, unknown>;
    const place = [
      data["file"],
      data["line"] === undefined ? undefined : `line ${String(data["line"])}`,
      data["field"],
    ].filter((part) => part !== undefined && part !== null);
    const where = place.length > 0 ? ` (${place.join(", ")})` : "";
    const hint = typeof data["hint"] === "string" && data["hint"] !== "" ? ` ${data["hint"]}` : "";
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
  const settings = "Open settings";
  const showLog = "Show log";
  const actions = problem instanceof ServerUnusable ? [settings, showLog] : [showLog];
  void vscode.window.showErrorMessage(`Flowdrive: ${explain(problem)}`, ...actions).then((chosen) => {
    if (chosen === settings) {
      void vscode.commands.executeCommand("workbench.action.openSettings", "flowdrive.serverPath");
    } else if (chosen === showLog) {
      log.show();
    }
  });
}
