/**
 * Where VS Code enters and leaves: puts the parts together. The server is started by the first command that needs it.
 * Must not: hold anything that outlives `deactivate`.
 */
import * as vscode from "vscode";
import { register } from "./commands";
import { Previews } from "./preview";
import { Runs } from "./runs";
import { Server } from "./server";

let server: Server | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Flowdrive", { log: true });
  const runs = new Runs(log);
  const previews = new Previews();
  server = new Server(context.extensionPath, log, runs);
  context.subscriptions.push(log, runs, previews, ...register({ log, previews, runs, server }));
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("flowdrive") && server?.running) {
        const restart = "Restart server";
        void vscode.window
          .showInformationMessage("Flowdrive: the settings take effect when the server is started again. What it drives is interrupted, and can be resumed.", restart)
          .then((chosen) => (chosen === restart ? server?.stop() : undefined));
      }
    }),
  );
}

export async function deactivate(): Promise<void> {
  await server?.stop();
  server = undefined;
}
