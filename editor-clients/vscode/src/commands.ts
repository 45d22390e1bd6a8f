/**
 * The commands. Each asks for what its argument leaves open, sends one request and shows the answer; each can be bound
 * to a key or called by another extension with everything given, and returns the server's answer.
 * Must not: keep state.
 */
import { access } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { announce, drive, type Stopping } from "./drive";
import { show } from "./errors";
import * as methods from "./methods";
import type { Previews } from "./preview";
import type { DrivePreview, DriveParams, DriveResult, FeedbackRecord, InputSpec, RunSummary, StopMode } from "./protocol";
import * as prompts from "./prompts";
import type { Runs } from "./runs";
import type { Server } from "./server";

/** What a command can be given. What is absent is asked for. */
export interface Given {
  /** A folder's path; the workspace folder when absent. */
  workspace?: string;
  /** A workflow's id, or the path of its file. */
  workflow?: string;
  inputs?: Record<string, unknown>;
  runId?: string;
  feedbackId?: string;
  resolution?: prompts.Decision["resolution"];
  guidance?: string;
  message?: string;
  nodeId?: string;
  agent?: string;
  concurrency?: number;
  mode?: StopMode;
  /** A report's path, as the server's code actions give it. */
  path?: string;
}

export interface Parts {
  log: vscode.LogOutputChannel;
  previews: Previews;
  runs: Runs;
  server: Server;
}

interface Session {
  client: LanguageClient;
  workspace: string;
}

async function open(parts: Parts, given: Given): Promise<Session> {
  const workspace = given.workspace ?? (await prompts.folder()).uri.fsPath;
  return { workspace, client: await parts.server.get() };
}

/** The workflow and its inputs, as `drive` and `preview` want them. */
async function selection(session: Session, given: Given): Promise<DriveParams & { workspace: string; title: string }> {
  const { client, workspace } = session;
  const { workflows } = await client.sendRequest(methods.listWorkflows, { workspace });
  let specs: Record<string, InputSpec> = {};
  let params: Pick<DriveParams, "workflow">;
  let title: string;
  const named = workflows.find((one) => one.id === given.workflow);
  if (given.workflow !== undefined && named === undefined) {
    if (!/\.(toml|json)$/.test(given.workflow)) {
      throw new Error(`There is no workflow ${JSON.stringify(given.workflow)}. There are: ${workflows.map((one) => one.id).join(", ")}.`);
    }
    params = { workflow: { path: given.workflow } };
    title = given.workflow;
  } else {
    const chosen = named ?? (await prompts.workflow(workflows));
    params = { workflow: { id: chosen.id } };
    title = chosen.title;
    specs = chosen.inputs;
  }
  const inputs = await prompts.inputs(specs, given.inputs ?? {});
  return {
    ...params,
    title,
    workspace,
    inputs,
    ...(given.agent === undefined ? {} : { agent: given.agent }),
    ...(given.concurrency === undefined ? {} : { concurrency: given.concurrency }),
  };
}

/** The run that was given, else the only one that fits, else the one chosen. */
async function chooseRun(
  session: Session,
  given: Given,
  question: string,
  none: string,
  fits: (run: RunSummary) => boolean = () => true,
): Promise<string> {
  if (given.runId !== undefined) {
    return given.runId;
  }
  const { runs } = await session.client.sendRequest(methods.listRuns, { workspace: session.workspace });
  const fitting = runs.filter(fits);
  const only = fitting[0];
  return only !== undefined && fitting.length === 1 ? only.runId : (await prompts.run(fitting, question, none)).runId;
}

async function driveWorkflow(parts: Parts, given: Given): Promise<DriveResult | Stopping> {
  const session = await open(parts, given);
  const { title, ...params } = await selection(session, given);
  const outcome = await drive(session.client, parts.runs, params, title);
  announce(outcome, parts.runs);
  return outcome;
}

async function previewWorkflow(parts: Parts, given: Given): Promise<DrivePreview> {
  const session = await open(parts, given);
  let params: DriveParams;
  if (given.runId === undefined) {
    const { title: _, ...selected } = await selection(session, given);
    params = selected;
  } else {
    params = { workspace: session.workspace, runId: given.runId };
  }
  const preview = await session.client.sendRequest(methods.preview, params);
  await parts.previews.show(preview);
  return preview;
}

async function resumeRun(parts: Parts, given: Given): Promise<DriveResult | Stopping> {
  const session = await open(parts, given);
  const runId = await chooseRun(
    session,
    given,
    "Which run is carried on?",
    "No run can be carried on here.",
    (run) => run.status !== "complete" && !run.driving,
  );
  const params = {
    workspace: session.workspace,
    runId,
    ...(given.agent === undefined ? {} : { agent: given.agent }),
    ...(given.concurrency === undefined ? {} : { concurrency: given.concurrency }),
  };
  const outcome = await drive(session.client, parts.runs, params, `Resuming ${runId}`);
  announce(outcome, parts.runs);
  return outcome;
}

async function stopRun(parts: Parts, given: Given): Promise<{ driving: boolean }> {
  const session = await open(parts, given);
  const runId = await chooseRun(session, given, "Which run is stopped?", "Nothing is being driven here.", (run) => run.driving);
  const answer = await session.client.sendRequest(methods.stop, {
    workspace: session.workspace,
    runId,
    mode: given.mode ?? "graceful",
  });
  if (!answer.driving) {
    void vscode.window.showInformationMessage(`Flowdrive: ${runId} is not being driven.`);
  }
  return answer;
}

async function resolveFeedback(parts: Parts, given: Given): Promise<FeedbackRecord> {
  const session = await open(parts, given);
  const { client, workspace } = session;
  const runId = await chooseRun(
    session,
    given,
    "Feedback of which run?",
    "No feedback waits for you here.",
    (run) => run.openFeedback > 0,
  );
  let feedbackId = given.feedbackId;
  if (feedbackId === undefined) {
    const { feedback } = await client.sendRequest(methods.listFeedback, { workspace, runId, status: "open" });
    if (feedback.length === 0) {
      throw new Error(`No feedback of ${runId} waits for you.`);
    }
    feedbackId = (await prompts.feedback(feedback)).id;
  }
  const decision = await prompts.decision(given);
  const record = await client.sendRequest(methods.resolveFeedback, { workspace, runId, feedbackId, ...decision });
  const resume = "Resume";
  void vscode.window
    .showInformationMessage(`Flowdrive: ${record.taskId ?? record.id} is ${record.status}.`, ...(decision.resolution === "retry" ? [resume] : []))
    .then((chosen) => chosen === resume && vscode.commands.executeCommand("flowdrive.resume", { workspace, runId }));
  return record;
}

async function openReport(parts: Parts, given: Given): Promise<string> {
  let reportPath = given.path;
  if (reportPath === undefined) {
    const session = await open(parts, given);
    const { client, workspace } = session;
    const runId = await chooseRun(session, given, "Report of which run?", "There is no run here.");
    reportPath = path.resolve(workspace, (await client.sendRequest(methods.showRun, { workspace, runId })).reportPath);
  }
  await access(reportPath).catch(() => {
    throw new Error(`The report ${reportPath} is not there. Resuming its run writes it again.`);
  });
  await vscode.commands.executeCommand("markdown.showPreview", vscode.Uri.file(reportPath));
  return reportPath;
}

async function checkInstallation(parts: Parts, given: Given): Promise<boolean> {
  const { client, workspace } = await open(parts, given);
  const { version, ok, checks } = await client.sendRequest(methods.doctor, { workspace });
  parts.log.info(`flowdrive ${version}`);
  for (const check of checks) {
    const line = `${check.name}: ${check.message}${check.hint === undefined ? "" : ` ${check.hint}`}`;
    const { status } = check;
    parts.log[status === "ok" ? "info" : status === "warn" ? "warn" : "error"](line);
  }
  parts.log.show();
  return ok;
}

/** Registers every command of package.json. */
export function register(parts: Parts): vscode.Disposable[] {
  const command = <T>(name: string, body: (parts: Parts, given: Given) => Promise<T>) =>
    vscode.commands.registerCommand(`flowdrive.${name}`, async (argument?: unknown): Promise<T | undefined> => {
      // Menus hand over a URI or a tree item; only a plain object that was meant for the command counts.
      const given = typeof argument === "object" && argument !== null && !(argument instanceof vscode.Uri) ? (argument as Given) : {};
      try {
        return await body(parts, given);
      } catch (problem) {
        show(problem, parts.log);
        return undefined;
      }
    });
  return [
    command("drive", driveWorkflow),
    command("preview", previewWorkflow),
    command("resume", resumeRun),
    command("stop", stopRun),
    command("resolveFeedback", resolveFeedback),
    command("openReport", openReport),
    command("doctor", checkInstallation),
    command("showLog", () => Promise.resolve(parts.log.show())),
    command("restartServer", () => parts.server.stop()),
  ];
}
