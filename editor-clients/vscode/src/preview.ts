/**
 * A preview as a Markdown document, `flowdrive-preview:<n>.md`, shown with the editor's own Markdown preview.
 * Must not: talk to the server.
 */
import * as vscode from "vscode";
import type { DrivePreview } from "./protocol";

const SCHEME = "flowdrive-preview";

/** Text inside a code span, whatever it holds. */
function code(text: string): string {
  const line = text.replace(/\s+/g, " ");
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map((match) => match[0].length));
  const fence = "`".repeat(longest + 1);
  return longest > 0 ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`;
}

/** Text of a workflow or agent outside code: shown as it is, never read as Markdown or HTML. */
function plain(text: string): string {
  return text.replace(/\s+/g, " ").replace(/[\\`*_{}[\]()#+!<>&|~-]/g, "\\$&");
}

/** The preview as Markdown. */
export function render(preview: DrivePreview): string {
  const lines = [
    `# Preview of ${plain(preview.runId ?? preview.workflowId)}`,
    "",
    `Next: **${preview.nextAction}**${preview.nextTaskId === undefined ? "" : ` ${code(preview.nextTaskId)}`}`,
    "",
    `${preview.plannedWorkers} tasks: ${preview.completedWorkers} accepted, ${preview.pendingWorkers} to do, ${preview.parkedWorkers} parked.`,
  ];
  if (!preview.agentConfigured) {
    lines.push("", "Not every task has an agent. *Flowdrive: Check installation* says more.");
  }
  for (const blocker of preview.blockers ?? []) {
    lines.push("", `In the way: ${plain(blocker)}`);
  }
  for (const phase of preview.plan) {
    lines.push("", `## ${plain(phase.title)}`, "", `${phase.mode}, ${phase.width} at once`, "");
    for (const task of phase.tasks) {
      const agent = task.agent === undefined ? "" : ` by ${plain(task.agent)}`;
      const cache = task.cache.state === "off" ? "" : `, cache ${task.cache.state}`;
      lines.push(`- ${code(task.id)} ${task.status}${agent}${cache}`);
      if (task.invocation !== undefined) {
        lines.push(`  - ${code(task.invocation)}`);
      }
      for (const blocker of task.blockers ?? []) {
        lines.push(`  - In the way: ${plain(blocker)}`);
      }
    }
  }
  return `${lines.join("\n")}\n`;
}

export class Previews implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  readonly onDidChange = this.changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.path) ?? "This preview is no longer there. Ask for it again.\n";
  }

  /** Shows a preview; one document per run or workflow. */
  async show(preview: DrivePreview): Promise<vscode.Uri> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/Preview of ${preview.runId ?? preview.workflowId}.md` });
    this.texts.set(uri.path, render(preview));
    this.changed.fire(uri);
    await vscode.commands.executeCommand("markdown.showPreview", uri);
    return uri;
  }

  dispose(): void {
    this.registration.dispose();
    this.changed.dispose();
  }
}
