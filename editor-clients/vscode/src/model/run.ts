/**
 * One run as the views show it: what the server last said of it, brought up to date by its events.
 * Must not: ask the server, or know the editor.
 */
import type { PhaseView, ProgressEvent, RunSummary, RunView, StopMode, TaskView } from "flowdrive-client/protocol";

export interface Task extends TaskView {
  /** The newest line of what its agent is doing. */
  activity?: string;
}

export interface Detail {
  inputs: Readonly<Record<string, unknown>>;
  lastSeq: number;
  phases: PhaseView[];
  reportPath: string;
  /** By id, in the run's order. */
  tasks: Map<string, Task>;
}

export interface Run {
  readonly workspace: string;
  summary: RunSummary;
  /** What `showRun` said; absent until it was asked. */
  detail?: Detail;
  stopping?: StopMode;
}

/** What has to be asked of the server after an event. */
export type Wanted = { kind: "task"; taskId: string } | { kind: "run" } | { kind: "feedback" };

/** What an event did: changed the run; was known already; or shows that events before it were missed. */
export type Effect = { kind: "applied"; wanted?: Wanted } | { kind: "known" } | { kind: "missed" };

/** The run's detail from the pages of one or more `showRun` answers. */
export function detailOf(pages: readonly RunView[]): Detail {
  const [first] = pages;
  if (first === undefined) {
    throw new Error("no page of the run");
  }
  return {
    inputs: first.inputs,
    // The oldest page's number: what came while the others were read is replayed, which does no harm.
    lastSeq: first.lastSeq,
    phases: first.phases,
    reportPath: first.reportPath,
    tasks: new Map(pages.flatMap((page) => page.tasks).map((task) => [task.id, { ...task }])),
  };
}

/** Takes in one event of the run. Events that are in the detail already, and repeated ones, change nothing. */
export function apply(run: Run, event: ProgressEvent): Effect {
  const { detail } = run;
  if (event.type === "agentActivity") {
    const task = detail?.tasks.get(event.taskId);
    if (task?.status !== "running") {
      return { kind: "known" };
    }
    task.activity = event.text;
    return { kind: "applied" };
  }
  if (detail !== undefined) {
    if (event.seq <= detail.lastSeq) {
      return { kind: "known" };
    }
    if (event.seq > detail.lastSeq + 1) {
      return { kind: "missed" };
    }
    detail.lastSeq = event.seq;
  }
  run.summary = { ...run.summary, updatedAt: event.at };
  const wanted = lifecycle(run, event);
  return wanted === undefined ? { kind: "applied" } : { kind: "applied", wanted };
}

/** Changes one task. A task that is not there yet (a loop's next round) has the run read again. */
function change(run: Run, taskId: string, body: (task: Task) => void): Wanted | undefined {
  const task = run.detail?.tasks.get(taskId);
  if (task === undefined) {
    return { kind: "run" };
  }
  delete task.activity;
  delete task.notBefore;
  body(task);
  return undefined;
}

function phase(run: Run, id: string): PhaseView | undefined {
  return run.detail?.phases.find((one) => one.id === id);
}

type Lifecycle = Exclude<ProgressEvent, { type: "agentActivity" }>;

function lifecycle(run: Run, event: Lifecycle): Wanted | undefined {
  const { summary } = run;
  switch (event.type) {
    case "runStarted":
      delete run.stopping;
      summary.driving = true;
      summary.status = "in-progress";
      summary.plannedWorkers = event.plannedWorkers;
      summary.completedWorkers = event.completedWorkers;
      return undefined;
    case "phaseStarted": {
      const started = phase(run, event.phase);
      if (started === undefined) {
        return { kind: "run" };
      }
      started.status = "running";
      return undefined;
    }
    case "taskDispatched":
      return change(run, event.taskId, (task) => {
        task.status = "running";
        task.agent = event.agent;
        task.attempts = event.attempt;
        task.startedAt = event.at;
        task.workerId = event.workerId;
        delete task.endedAt;
        delete task.failure;
      });
    case "taskAccepted": {
      summary.completedWorkers += 1;
      const its = phase(run, event.phase);
      if (its !== undefined) {
        its.completed += 1;
      }
      const unknown = change(run, event.taskId, (task) => {
        task.status = "completed";
        task.endedAt = event.at;
        task.source = event.source;
        task.summary = event.summary;
        if (event.usage !== undefined) {
          task.usage = event.usage;
        }
        delete task.failure;
      });
      return unknown ?? { kind: "task", taskId: event.taskId };
    }
    case "taskRetrying":
      return change(run, event.taskId, (task) => {
        task.status = "pending";
        task.failure = event.reason;
        if (event.notBefore !== undefined) {
          task.notBefore = event.notBefore;
        }
      });
    case "taskParked":
      summary.parkedWorkers += 1;
      return change(run, event.taskId, (task) => {
        task.status = "failed";
        task.attempts = event.attempts;
        task.failure = event.reason;
        task.endedAt = event.at;
      });
    case "feedbackOpened":
      summary.openFeedback += 1;
      return { kind: "feedback" };
    case "feedbackClosed":
      summary.openFeedback = Math.max(0, summary.openFeedback - 1);
      return { kind: "feedback" };
    case "phaseFinished": {
      const finished = phase(run, event.phase);
      if (finished !== undefined) {
        finished.status = "completed";
        finished.completed = event.completed;
      }
      return undefined;
    }
    case "stopRequested":
      run.stopping = event.mode;
      return undefined;
    case "runFinished":
      summary.status = event.status;
      summary.completedWorkers = event.completedWorkers;
      summary.parkedWorkers = event.parkedWorkers;
      ended(run);
      return { kind: "run" };
    case "checkpoint":
    case "budgetWarning":
      return undefined;
  }
}

/** Nobody drives the run any more: what was in flight will be done again. */
export function ended(run: Run): void {
  run.summary = { ...run.summary, driving: false };
  delete run.stopping;
  for (const task of run.detail?.tasks.values() ?? []) {
    if (task.status === "running") {
      task.status = "pending";
      delete task.activity;
    }
  }
}

/** A drive of the run as one sentence each, for the log; undefined for what is not worth a line. */
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
    case "budgetWarning":
      return `${event.spent} of ${event.budget} tokens are spent`;
    case "stopRequested":
      return `stop (${event.mode}) asked for by ${event.by}`;
    case "runFinished":
      return `${event.status}: ${event.completedWorkers} accepted, ${event.parkedWorkers} parked. ${event.reason ?? ""}`.trim();
    default:
      return event.type;
  }
}
