/**
 * The item in the status bar: how far the drives are, or what waits for a person.
 * Must not: ask the server.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import type { Catalog } from "../model/catalog";
import * as format from "../model/format";
import { plain } from "../model/markdown";
import { question, runState } from "../model/runTree";
import type { Run } from "../model/run";
import { throttled } from "../once";
import type { Condition } from "../server";

const DRAW_MS = 150;

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem("flowdrive.status", vscode.StatusBarAlignment.Left, 10);
  private readonly draw = throttled(DRAW_MS, () => this.drawNow());
  private readonly disposables: { dispose(): void }[];
  private condition: Condition = "idle";

  constructor(
    private readonly catalog: Catalog,
    onCondition: vscode.Event<Condition>,
  ) {
    this.item.name = "Flowdrive";
    this.item.command = "flowdrive.showRuns";
    this.disposables = [
      catalog.onChange(() => this.draw()),
      onCondition((condition) => {
        this.condition = condition;
        this.draw();
      }),
    ];
  }

  private drawNow(): void {
    const driving = this.catalog.driving();
    const waiting = this.catalog.feedback().length;
    if (this.condition === "restarting") {
      this.say(`$(sync~spin) ${l10n.t("reconnecting")}`, l10n.t("Flowdrive: the server is started again"));
      this.item.tooltip = l10n.t("The Flowdrive server ended by itself and is started again.");
    } else if (driving.length > 0) {
      const done = driving.reduce((sum, run) => sum + run.summary.completedWorkers, 0);
      const all = driving.reduce((sum, run) => sum + run.summary.plannedWorkers, 0);
      this.say(`$(sync~spin) ${done}/${all}`, l10n.t("Flowdrive: {0} of {1} tasks accepted", done, all));
      this.item.tooltip = tooltip(driving);
    } else if (waiting > 0) {
      this.say(`$(comment-unresolved) ${waiting}`, `Flowdrive: ${format.waiting(waiting)}`);
      this.item.tooltip = l10n.t("Flowdrive feedback that waits for you");
    } else {
      this.item.hide();
    }
  }

  private say(text: string, spoken: string): void {
    this.item.text = text;
    this.item.accessibilityInformation = { label: spoken };
    this.item.show();
  }

  dispose(): void {
    this.draw.dispose();
    for (const one of this.disposables) {
      one.dispose();
    }
    this.item.dispose();
  }
}

function tooltip(driving: readonly Run[]): vscode.MarkdownString {
  const text = new vscode.MarkdownString("", true);
  // The links name commands; what runs are called is escaped.
  text.isTrusted = { enabledCommands: ["flowdrive.stop", "flowdrive.showRuns"] };
  for (const run of driving) {
    const { summary } = run;
    const phase = run.detail?.phases.find((one) => one.status === "running");
    const running = [...(run.detail?.tasks.values() ?? [])].filter((task) => task.status === "running");
    text.appendMarkdown(`**${plain(question(run) ?? summary.title)}**\n\n`);
    text.appendMarkdown(
      `${plain(format.joined(runState(run), `${summary.completedWorkers}/${summary.plannedWorkers}`, phase?.title, summary.parkedWorkers > 0 ? l10n.t("{0} parked", summary.parkedWorkers) : undefined))}\n\n`,
    );
    for (const task of running.slice(0, 8)) {
      text.appendMarkdown(`$(loading~spin) ${plain(format.joined(task.id, task.agent, task.activity === undefined ? undefined : format.oneLine(task.activity, 60)))}\n\n`);
    }
    const argument = encodeURIComponent(JSON.stringify([{ workspace: run.workspace, runId: summary.runId }]));
    text.appendMarkdown(`[$(debug-stop) ${l10n.t("Stop")}](command:flowdrive.stop?${argument})\n\n`);
  }
  return text;
}
