/**
 * Where VS Code enters and leaves: puts the parts together. The server is started by the first command or view that
 * needs it, and at once where the folder holds runs.
 * Must not: hold anything that outlives `deactivate`.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import { setLast } from "./commands/drive";
import type { Parts } from "./commands/parts";
import { register } from "./commands/register";
import { Follower } from "./follower";
import { Catalog } from "./model/catalog";
import { Server, type Condition } from "./server";
import { announceReattached } from "./ui/announce";
import { Documents } from "./ui/documents";
import { Panels } from "./ui/panels";
import { StatusBar } from "./ui/statusBar";
import { setContext, Views } from "./ui/views";

let parts: Parts | undefined;

export function activate(context: vscode.ExtensionContext): void {
  // One way to say things, in and out of the parts that know the editor.
  if (vscode.l10n.bundle !== undefined) {
    l10n.config({ contents: vscode.l10n.bundle });
  }
  const log = vscode.window.createOutputChannel("Flowdrive", { log: true });
  const state = context.workspaceState;
  const server = new Server(context.extensionPath, log);
  const catalog = new Catalog();
  const follower = new Follower(catalog, server, log, state);
  const views = new Views(catalog, {
    list: () => void follower.refresh(),
    run: (runId) => void follower.load(runId),
  });
  const documents = new Documents();
  const panels = new Panels();
  const statusBar = new StatusBar(catalog, server.onCondition);
  parts = { catalog, documents, follower, log, panels, server, state, views };
  const around = { catalog, follower, log };
  context.subscriptions.push(
    ...[log, documents, panels, statusBar, views, follower],
    ...register(parts),
    follower.onReattached((all) => announceReattached(all, around)),
    server.onCondition((condition) => tellCondition(condition)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void follower.refresh()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (["path", "agents", "defaultAgent"].some((name) => event.affectsConfiguration(`flowdrive.${name}`))) {
        onSettings(server);
      }
    }),
  );
  tellCondition(server.condition);
  void setLast({ state });
  // A folder that holds runs has findings to show, and perhaps a run that was interrupted with its window.
  if (follower.hasUnfinished || views.visible) {
    void follower.refresh();
  }
}

function tellCondition(condition: Condition): void {
  setContext("serverFailed", condition === "failed");
}

function onSettings(server: Server): void {
  if (server.condition !== "running") {
    // It could not be started with the old ones; the next attempt is with the new ones.
    void server.stop();
    return;
  }
  const restart = l10n.t("Restart Server");
  void vscode.window
    .showInformationMessage(
      l10n.t("Flowdrive: the settings take effect when the server is started again. What it drives is interrupted, and can be resumed."),
      restart,
    )
    .then((chosen) => (chosen === restart ? vscode.commands.executeCommand("flowdrive.restartServer") : undefined));
}

export async function deactivate(): Promise<void> {
  const { follower, server } = parts ?? {};
  parts = undefined;
  follower?.close();
  await server?.stop();
}
