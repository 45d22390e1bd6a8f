/**
 * What every command works with: the parts of the extension, what the command was given, and the run it is about.
 * Must not: know a particular command.
 */
import type * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import type { Follower } from "../follower";
import * as methods from "../methods";
import type { Catalog } from "../model/catalog";
import { question } from "../model/runTree";
import type { RunSummary, StopMode } from "flowdrive-client/protocol";
import type { Server } from "../server";
import * as choose from "../ui/choose";
import type { Documents } from "../ui/documents";
import type { Panels } from "../ui/panels";
import type { Views } from "../ui/views";

/** What a command can be given: by a key, another extension, a menu, or the server. What is absent is asked for. */
export interface Given {
  /** A folder's path; the workspace folder when absent. */
  workspace?: string;
  /** A workflow's id, or the path of its file. */
  workflow?: string;
  inputs?: Record<string, unknown>;
  runId?: string;
  taskId?: string;
  feedbackId?: string;
  resolution?: choose.Decision["resolution"];
  guidance?: string;
  message?: string;
  nodeId?: string;
  agent?: string;
  concurrency?: number;
  incremental?: boolean;
  /** Shows what would be done, and starts it only from there. */
  preview?: boolean;
  mode?: StopMode;
  /** A report's path, as the server's code actions give it. */
  path?: string;
}

export interface Parts {
  catalog: Catalog;
  documents: Documents;
  follower: Follower;
  log: vscode.LogOutputChannel;
  panels: Panels;
  server: Server;
  state: vscode.Memento;
  views: Views;
}

export interface Session {
  client: LanguageClient;
  workspace: string;
}

export async function open(parts: Parts, given: Given): Promise<Session> {
  const workspace = given.workspace ?? (await choose.folder()).uri.fsPath;
  return { workspace, client: await parts.server.get() };
}

/** What a run is called in a sentence: what it was asked, else its workflow's title. */
export function nameOf(parts: Parts, runId: string): string {
  const run = parts.catalog.get(runId);
  return run === undefined ? runId : (question(run) ?? run.summary.title);
}

/** The run that was given, else the only one that fits, else the one chosen. */
export async function chooseRun(
  parts: Parts,
  session: Session,
  given: Given,
  prompt: string,
  none: string,
  fits: (run: RunSummary) => boolean = () => true,
): Promise<string> {
  if (given.runId !== undefined) {
    return given.runId;
  }
  const { runs } = await session.client.sendRequest(methods.listRuns, { workspace: session.workspace });
  const fitting = runs.filter(fits);
  const only = fitting[0];
  return only !== undefined && fitting.length === 1
    ? only.runId
    : (await choose.run(fitting, prompt, none, (run) => nameOf(parts, run.runId))).runId;
}
