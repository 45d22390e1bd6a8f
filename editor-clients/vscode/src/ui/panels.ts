/**
 * The two webviews: a preview with its button, and the report with its timeline. No network, no local resources; scripts
 * only with the page's nonce.
 * Must not: start anything by itself.
 */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as path from "node:path";
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import type { Place } from "../model/findings";
import { canStart, previewPage, type Asked } from "../model/preview";
import { reportPage, target } from "../model/report";
import type { DrivePreview } from "flowdrive-client/protocol";

const nonce = () => randomBytes(18).toString("base64url");
const OPTIONS: vscode.WebviewPanelOptions & vscode.WebviewOptions = { enableScripts: true, localResourceRoots: [], enableFindWidget: true };

/** Opens a place of a file, its lines selected. */
export async function openPlace({ file, line, endLine }: Place): Promise<void> {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.file(file));
  const last = Math.min(endLine, document.lineCount) - 1;
  const first = Math.min(line, document.lineCount) - 1;
  const selection = new vscode.Range(first, 0, last, document.lineAt(last).text.length);
  await vscode.window.showTextDocument(document, { selection, preview: true });
}

export class Panels implements vscode.Disposable {
  private preview: { panel: vscode.WebviewPanel; settle(start: boolean): void } | undefined;
  private readonly reports = new Map<string, vscode.WebviewPanel>();

  /** Whether a preview waits for its button. */
  get waiting(): boolean {
    return this.preview !== undefined;
  }

  /** Shows a preview. Answers whether it is to be started: `false` once it is closed. */
  async showPreview(preview: DrivePreview, asked: Asked): Promise<boolean> {
    this.preview?.settle(false);
    const title = l10n.t("Preview: {0}", asked.title);
    const panel = vscode.window.createWebviewPanel("flowdrive.preview", title, vscode.ViewColumn.Active, OPTIONS);
    return new Promise((resolve) => {
      const startable = asked.startable && canStart(preview);
      const context = (value: boolean) => void vscode.commands.executeCommand("setContext", "flowdrive.previewWaits", value);
      const entry = {
        panel,
        settle: (start: boolean) => {
          if (this.preview === entry) {
            this.preview = undefined;
            context(false);
          }
          resolve(start);
          panel.dispose();
        },
      };
      panel.onDidDispose(() => entry.settle(false));
      panel.webview.onDidReceiveMessage((message: { type?: unknown }) => {
        if (message.type === "start" && startable) {
          entry.settle(true);
        } else if (message.type === "close") {
          entry.settle(false);
        }
      });
      panel.webview.html = previewPage(preview, asked, nonce(), vscode.env.language);
      if (asked.startable) {
        this.preview = entry;
        context(startable);
      }
    });
  }

  /** Presses the preview's button. */
  startPreviewed(): void {
    this.preview?.settle(true);
  }

  /** Shows a run's report with its timeline. */
  async showReport(runId: string, title: string, file: string, workspace: string): Promise<void> {
    const html = await readFile(file, "utf8");
    let panel = this.reports.get(runId);
    if (panel === undefined) {
      panel = vscode.window.createWebviewPanel("flowdrive.report", title, vscode.ViewColumn.Active, OPTIONS);
      this.reports.set(runId, panel);
      panel.onDidDispose(() => this.reports.delete(runId));
      panel.webview.onDidReceiveMessage(async (message: { type?: unknown; href?: unknown }) => {
        if (message.type !== "open" || typeof message.href !== "string") {
          return;
        }
        const found = target(message.href, path.dirname(file), workspace);
        if (found?.kind === "file") {
          await vscode.commands.executeCommand("flowdrive.openPlace", found);
        } else if (found?.kind === "web") {
          await vscode.env.openExternal(vscode.Uri.parse(found.address, true)); // asks before it leaves
        }
      });
    }
    panel.title = title;
    panel.webview.html = reportPage(html, nonce(), vscode.env.language);
    panel.reveal();
  }

  dispose(): void {
    this.preview?.settle(false);
    for (const panel of this.reports.values()) {
      panel.dispose();
    }
  }
}
