/**
 * Documents that are made, not read: Markdown under the scheme `flowdrive`, shown with the editor's own preview.
 * Must not: know what they say.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";

export const SCHEME = "flowdrive";

export class Documents implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private readonly disposables = [
    this.changed,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
    vscode.workspace.onDidCloseTextDocument((document) => document.uri.scheme === SCHEME && this.texts.delete(document.uri.toString())),
  ];

  readonly onDidChange = this.changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.toString()) ?? `${l10n.t("This document was made in an earlier session. Ask for it again.")}\n`;
  }

  /** Shows a document; one tab per name and query. */
  async show(name: string, text: string, query = ""): Promise<vscode.Uri> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${name.replace(/[/\\]/g, "∕")}.md`, query });
    this.texts.set(uri.toString(), text);
    this.changed.fire(uri);
    await vscode.commands.executeCommand("markdown.showPreview", uri);
    return uri;
  }

  dispose(): void {
    for (const one of this.disposables) {
      one.dispose();
    }
  }
}
