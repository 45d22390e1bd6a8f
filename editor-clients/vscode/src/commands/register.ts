/**
 * Registers the commands of the manifest. Each asks for what its argument leaves open, does one thing, shows the outcome,
 * and returns the server's answer to who called it.
 * Must not: do what a command does.
 */
import * as vscode from "vscode";
import { show } from "../errors";
import * as driving from "./drive";
import type { Given, Parts } from "./parts";
import * as results from "./results";

/** Menus hand over a tree's node, whose fields are those of `Given`; or the URI of the file they are on. */
function given(argument: unknown): Given {
  if (argument instanceof vscode.Uri) {
    return argument.scheme === "file" ? { workflow: argument.fsPath, preview: true } : {};
  }
  return typeof argument === "object" && argument !== null ? (argument) : {};
}

export function register(parts: Parts): vscode.Disposable[] {
  const attempt = async <T>(body: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await body();
    } catch (problem) {
      show(problem, parts.log);
      return undefined;
    }
  };
  const command = <T>(name: string, body: (parts: Parts, given: Given) => Promise<T>) =>
    vscode.commands.registerCommand(`flowdrive.${name}`, (argument?: unknown) => attempt(() => body(parts, given(argument))));
  const resolve = (name: string, resolution: NonNullable<Given["resolution"]>) =>
    vscode.commands.registerCommand(`flowdrive.${name}`, (argument?: unknown) =>
      attempt(() => results.resolveFeedback(parts, { ...given(argument), resolution })),
    );
  return [
    command("drive", driving.driveWorkflow),
    command("driveAgain", driving.driveAgain),
    command("preview", driving.previewWorkflow),
    command("startPreviewed", async () => parts.panels.startPreviewed()),
    command("resume", driving.resumeRun),
    command("stop", driving.stopRun),
    command("stopNow", (all, asked) => driving.stopRun(all, { ...asked, mode: "now" })),
    command("resolveFeedback", results.resolveFeedback),
    resolve("retryFeedback", "retry"),
    resolve("rejectFeedback", "rejected"),
    resolve("settleFeedback", "resolved"),
    command("showFeedback", results.showFeedback),
    command("openReport", results.openReport),
    command("openTimeline", results.openTimeline),
    command("openResult", results.openResult),
    command("openAgentLog", results.openAgentLog),
    command("openPlace", results.openPlace),
    command("showRuns", results.showRuns),
    command("showFindings", results.showFindings),
    command("copyRunId", results.copyRunId),
    command("refresh", () => parts.follower.refresh()),
    command("groupBySeverity", async () => parts.views.group("severity")),
    command("groupByFile", async () => parts.views.group("file")),
    command("doctor", results.checkInstallation),
    command("showLog", async () => parts.log.show()),
    command("restartServer", async () => {
      await parts.server.stop();
      if (parts.views.visible) {
        await parts.follower.refresh();
      }
    }),
    command("walkthrough", async () => {
      await vscode.commands.executeCommand("workbench.action.openWalkthrough", "flowdrive.flowdrive#flowdrive.start", false);
    }),
  ];
}
