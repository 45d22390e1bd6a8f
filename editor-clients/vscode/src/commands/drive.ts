/**
 * Drive, drive again, preview, resume, stop.
 * Must not: keep state but for what was driven last.
 */
import { randomBytes } from "node:crypto";
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import { isCancelled, isLost, show } from "../errors";
import * as methods from "../methods";
import { Dismissed } from "../model/fault";
import type { Asked } from "../model/preview";
import type { DriveParams, DrivePreview, DriveResult } from "flowdrive-client/protocol";
import { announce, announceStopping } from "../ui/announce";
import { withProgress, type Outcome } from "../ui/progress";
import { complete, type Selection } from "../ui/wizard";
import { chooseRun, nameOf, open, type Given, type Parts, type Session } from "./parts";

const LAST = "flowdrive.lastDrive";

interface Last {
  workspace: string;
  workflow: string;
  title: string;
  inputs: Record<string, unknown>;
  agent?: string;
}

interface Planned {
  params: DriveParams & { workspace: string };
  workflow: string;
  title: string;
  inputs: Record<string, unknown>;
  /** Whether the user was asked for anything. */
  asked: boolean;
}

const options = (given: Given) => ({
  ...(given.concurrency === undefined ? {} : { concurrency: given.concurrency }),
  ...(given.incremental === undefined ? {} : { incremental: given.incremental }),
});

/** The workflow and its inputs, as `drive` and `preview` want them. */
async function plan(parts: Parts, session: Session, given: Given): Promise<Planned> {
  const { client, workspace } = session;
  const { workflows } = await client.sendRequest(methods.listWorkflows, { workspace });
  const named = workflows.find((one) => one.id === given.workflow || one.source === given.workflow);
  if (given.workflow !== undefined && named === undefined && !/\.(toml|json)$/.test(given.workflow)) {
    const known = workflows.map((one) => one.id).join(", ");
    throw new Error(l10n.t("There is no workflow {0}. There are: {1}.", JSON.stringify(given.workflow), known));
  }
  if (given.workflow !== undefined && named === undefined) {
    // A file that is in none of the known places: the server reads it, and says what is wrong with it.
    const inputs = given.inputs ?? {};
    const params = { workflow: { path: given.workflow }, workspace, inputs, ...withAgent(given.agent), ...options(given) };
    return { params, workflow: given.workflow, title: path.basename(given.workflow), inputs, asked: false };
  }
  const last = parts.state.get<Last>(LAST);
  const selection: Selection = {
    workspace,
    inputs: { ...given.inputs },
    ...(named === undefined ? {} : { workflow: named }),
    ...(given.agent === undefined ? {} : { agent: given.agent }),
  };
  const asked = await complete(selection, {
    workflows,
    agents: async () => (await client.sendRequest(methods.listAgents, {})).agents,
    ...(last === undefined ? {} : { last }),
    askAgent: true,
  });
  if (selection.workflow === undefined) {
    throw new Dismissed();
  }
  const { id, title } = selection.workflow;
  const params = { workflow: { id }, workspace, inputs: selection.inputs, ...withAgent(selection.agent), ...options(given) };
  return { params, workflow: id, title, inputs: selection.inputs, asked };
}

function withAgent(agent: string | undefined): Pick<DriveParams, "agent"> {
  return agent === undefined || agent === "" ? {} : { agent };
}

/** An id for a run that is about to be: the events of a drive can then be told from all others from the first one on. */
function newRunId(workflow: string): string {
  const stem = path.basename(workflow).replace(/\.(toml|json)$/, "").replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 80) || "run";
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  return `${stem}-${time}-${randomBytes(3).toString("hex")}`;
}

async function start(parts: Parts, session: Session, planned: Planned): Promise<Outcome> {
  const runId = newRunId(planned.workflow);
  const { agent } = planned.params;
  const last: Last = { workspace: session.workspace, workflow: planned.workflow, title: planned.title, inputs: planned.inputs, ...withAgent(agent) };
  await parts.state.update(LAST, last);
  await setLast(parts);
  return run(parts, session, runId, planned.title, true, (token, cancelled) =>
    session.client.sendRequest(methods.drive, { ...planned.params, runId, workDoneToken: token }, cancelled),
  );
}

/** Drives with a toast, shows the run in its view, and says how it ended. */
async function run(
  parts: Parts,
  session: Session,
  runId: string,
  title: string,
  reveal: boolean,
  send: (token: string, cancelled: vscode.CancellationToken) => Promise<DriveResult>,
): Promise<Outcome> {
  const shown = reveal ? showWhenKnown(parts, session.workspace, runId) : undefined;
  try {
    const outcome = await withProgress(session.client, runId, title, send, (problem) =>
      // The server's end is told when the next one has found out what became of the run.
      isCancelled(problem) ? "cancelled" : isLost(problem) ? "lost" : undefined,
    );
    // A short drive is over before its run was read; what is said of it names it, and the view shows it.
    await parts.follower.know(runId);
    announce(outcome, parts);
    return outcome;
  } finally {
    shown?.dispose();
  }
}

/** Shows the run as soon as there is something to show. */
function showWhenKnown(parts: Parts, workspace: string, runId: string): { dispose(): void } {
  const listener = parts.catalog.onChange(() => {
    if (parts.catalog.get(runId)?.detail !== undefined) {
      listener.dispose();
      void parts.views.reveal(workspace, runId);
    }
  });
  return listener;
}

/** Has menus know whether there is something to drive again. */
export async function setLast(parts: Pick<Parts, "state">): Promise<void> {
  await vscode.commands.executeCommand("setContext", "flowdrive.canDriveAgain", parts.state.get(LAST) !== undefined);
}

export async function driveWorkflow(parts: Parts, given: Given): Promise<Outcome | undefined> {
  const session = await open(parts, given);
  const planned = await plan(parts, session, given);
  if (planned.asked || given.preview === true) {
    // Asked by hand: shown before anything starts. Called with everything given: the caller knows what it wants.
    const preview = await session.client.sendRequest(methods.preview, planned.params);
    if (!(await parts.panels.showPreview(preview, { title: planned.title, inputs: planned.inputs, startable: true }))) {
      throw new Dismissed();
    }
  }
  return start(parts, session, planned);
}

export async function driveAgain(parts: Parts): Promise<Outcome | undefined> {
  const last = parts.state.get<Last>(LAST);
  if (last === undefined) {
    return driveWorkflow(parts, {});
  }
  const { workspace, workflow, inputs, agent } = last;
  const session = await open(parts, { workspace });
  return start(parts, session, await plan(parts, session, { workspace, workflow, inputs, ...withAgent(agent) }));
}

export async function previewWorkflow(parts: Parts, given: Given): Promise<DrivePreview> {
  const session = await open(parts, given);
  const { client, workspace } = session;
  if (given.runId !== undefined) {
    const { runId } = given;
    const preview = await client.sendRequest(methods.preview, { workspace, runId, ...withAgent(given.agent) });
    const { inputs } = await client.sendRequest(methods.showRun, { workspace, runId, taskLimit: 1 });
    const asked = { title: nameOf(parts, runId), inputs, startable: true };
    startLater(parts, preview, asked, () => resumeRun(parts, { ...given, workspace }));
    return preview;
  }
  const planned = await plan(parts, session, given);
  const preview = await client.sendRequest(methods.preview, planned.params);
  const asked = { title: planned.title, inputs: planned.inputs, startable: true };
  startLater(parts, preview, asked, () => start(parts, session, planned));
  return preview;
}

/** Shows a preview that answers the command; its button starts what it shows. */
function startLater(parts: Parts, preview: DrivePreview, asked: Asked, begin: () => Promise<unknown>): void {
  parts.panels
    .showPreview(preview, asked)
    .then((chosen) => (chosen ? begin() : undefined))
    .catch((problem: unknown) => show(problem, parts.log));
}

export async function resumeRun(parts: Parts, given: Given): Promise<Outcome | undefined> {
  const session = await open(parts, given);
  const { client, workspace } = session;
  const runId = await chooseRun(
    parts,
    session,
    given,
    l10n.t("Which run is carried on?"),
    l10n.t("No run can be carried on here."),
    (one) => one.status !== "complete" && !one.driving,
  );
  const params = { workspace, runId, ...withAgent(given.agent), ...options(given) };
  return run(parts, session, runId, l10n.t("Resuming {0}", nameOf(parts, runId)), false, (token, cancelled) =>
    client.sendRequest(methods.resume, { ...params, workDoneToken: token }, cancelled),
  );
}

export async function stopRun(parts: Parts, given: Given): Promise<{ driving: boolean }> {
  const session = await open(parts, given);
  const { client, workspace } = session;
  const runId = await chooseRun(
    parts,
    session,
    given,
    l10n.t("Which run is stopped?"),
    l10n.t("Nothing is being driven here."),
    (one) => one.driving,
  );
  // The second stop of a run that stops already is meant for what is in flight.
  const mode = given.mode ?? (parts.catalog.get(runId)?.stopping === undefined ? "graceful" : "now");
  const answer = await client.sendRequest(methods.stop, { workspace, runId, mode });
  if (!answer.driving) {
    void vscode.window.showInformationMessage(l10n.t("Flowdrive: “{0}” is not being driven.", nameOf(parts, runId)));
  } else if (mode === "graceful" && given.mode === undefined) {
    announceStopping(runId, parts);
  }
  return answer;
}
