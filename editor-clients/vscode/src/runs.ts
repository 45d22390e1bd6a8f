/**
 * What is being driven now, kept from the server's events: for the status bar, and to know what can be stopped.
 * Must not: ask the server for anything.
 */
import * as vscode from "vscode";
import type { ProgressEvent } from "./protocol";

export interface ActiveRun {
  readonly id: string;
  title: string;
  planned: number;
  completed: number;
  parked: number;
  phase: string;
  stopping: boolean;
}

/** A drive that was asked for, and the run that it turns out to be. */
export interface Expectation extends vscode.Disposable {
  /** The run's id, once its first event has come. */
  runId: string | undefined;
}

/** One line of the log for one event; undefined for those that are not worth one. */
export function describe(event: ProgressEvent): string | undefined {
  switch (event.type) {
    case "runStarted":
      return `${event.resumed ? "resumed" : "started"}: ${event.title}, ${event.plannedWorkers} tasks`;
    case "phaseStarted":
      return `phase ${event.title}: ${event.tasks} tasks, ${event.width} at once`;
    case "taskDispatched":
      return `${event.taskId}: attempt ${event.attempt} by ${event.agent}`;
    case "agentActivity":
      return undefined;
    case "taskAccepted":
      return `${event.taskId}: accepted, ${event.findings} findings. ${event.summary}`;
    case "taskRetrying":
      return `${event.taskId}: attempt ${event.attempt} of ${event.maxAttempts} failed. ${event.reason}`;
    case "taskParked":
      return `${event.taskId}: parked. ${event.reason}`;
    case "feedbackOpened":
      return `feedback ${event.feedbackId}: ${event.message}`;
    case "stopRequested":
      return `stop (${event.mode}) asked for by ${event.by}`;
    case "runFinished":
      return `${event.status}: ${event.completedWorkers} accepted, ${event.parkedWorkers} parked. ${event.reason ?? ""}`.trim();
    default:
      return event.type;
  }
}

export class Runs implements vscode.Disposable {
  private readonly active = new Map<string, ActiveRun>();
  private readonly finished = new vscode.EventEmitter<ProgressEvent & { type: "runFinished" }>();
  private readonly expected: { workflowId: string | undefined; expectation: Expectation }[] = [];
  private readonly item = vscode.window.createStatusBarItem("flowdrive.runs", vscode.StatusBarAlignment.Left);

  /** A drive ended. */
  readonly onFinished = this.finished.event;

  constructor(private readonly log: vscode.LogOutputChannel) {
    this.item.name = "Flowdrive";
    this.item.command = "flowdrive.stop";
  }

  /** The runs that are driven now. */
  list(): readonly ActiveRun[] {
    return [...this.active.values()];
  }

  /** Learns the id of a run that is about to be driven. Of several at once, each gets one of its own. */
  expect(workflowId: string | undefined): Expectation {
    const entry = {
      workflowId,
      expectation: {
        runId: undefined as string | undefined,
        dispose: () => {
          const index = this.expected.indexOf(entry);
          if (index >= 0) this.expected.splice(index, 1);
        },
      },
    };
    this.expected.push(entry);
    return entry.expectation;
  }

  /** Takes in one event of the server. */
  apply(event: ProgressEvent): void {
    const line = describe(event);
    if (line !== undefined) {
      this.log.info(`${event.runId} ${line}`);
    }
    const run = this.active.get(event.runId);
    switch (event.type) {
      case "runStarted":
        this.active.set(event.runId, {
          id: event.runId,
          title: event.title,
          planned: event.plannedWorkers,
          completed: event.completedWorkers,
          parked: 0,
          phase: "",
          stopping: false,
        });
        if (!event.resumed) this.meet(event.runId, event.workflowId);
        break;
      case "phaseStarted":
        if (run) run.phase = event.title;
        break;
      case "taskAccepted":
        if (run) run.completed += 1;
        break;
      case "taskParked":
        if (run) run.parked += 1;
        break;
      case "stopRequested":
        if (run) run.stopping = true;
        break;
      case "runFinished":
        this.active.delete(event.runId);
        this.finished.fire(event);
        break;
      default:
        return;
    }
    this.draw();
  }

  /** The server is gone: nothing is driven any more. Answers what was. */
  serverEnded(): string[] {
    const ids = [...this.active.keys()];
    this.active.clear();
    this.draw();
    return ids;
  }

  private meet(runId: string, workflowId: string): void {
    const met = this.expected.find((entry) => entry.workflowId === undefined || entry.workflowId === workflowId);
    if (met !== undefined) {
      met.expectation.runId = runId;
      met.expectation.dispose();
    }
  }

  private draw(): void {
    const runs = this.list();
    const first = runs[0];
    if (first === undefined) {
      this.item.hide();
      return;
    }
    const done = runs.reduce((sum, run) => sum + run.completed, 0);
    const all = runs.reduce((sum, run) => sum + run.planned, 0);
    const what = runs.length === 1 ? first.phase : `${runs.length} runs`;
    this.item.text = `$(sync~spin) Flowdrive ${done}/${all} ${what}`.trimEnd();
    this.item.tooltip = `${runs.map((run) => `${run.title}: ${run.completed}/${run.planned}, ${run.parked} parked${run.stopping ? ", stopping" : ""}`).join("\n")}\nClick to stop.`;
    this.item.show();
  }

  dispose(): void {
    this.item.dispose();
    this.finished.dispose();
  }
}
