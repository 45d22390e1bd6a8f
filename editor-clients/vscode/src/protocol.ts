/**
 * The wire types and methods. Generated from schema/protocol.schema.json by `npm run types`; not edited by hand.
 */

/** The protocol version that these types are of. */
export const PROTOCOL_VERSION = 1;

/** Parameters and result of every method. */
export interface Methods {
  doctor: { params: DoctorParams; result: DoctorResult };
  drive: { params: DriveParams; result: DriveResult };
  listFeedback: { params: ListFeedbackParams; result: ListFeedbackResult };
  listRuns: { params: ListRunsParams; result: ListRunsResult };
  listWorkflows: { params: ListWorkflowsParams; result: ListWorkflowsResult };
  preview: { params: PreviewParams; result: DrivePreview };
  pruneRuns: { params: PruneRunsParams; result: PruneRunsResult };
  resolveFeedback: { params: ResolveFeedbackParams; result: FeedbackRecord };
  resume: { params: ResumeParams; result: DriveResult };
  serverInfo: { params: ServerInfoParams; result: ServerInfo };
  showRun: { params: ShowRunParams; result: RunView };
  stop: { params: StopParams; result: StopResult };
  verifyRun: { params: VerifyRunParams; result: VerifyRunResult };
}

/** Parameters of every notification to the client. */
export interface Notifications {
  "flowdrive/progress": ProgressEvent;
}

/**
 * An agent as the user's configuration names it, or a built-in one such as `builtin:survey`.
 */
export type AgentName = string;
/**
 * Whether an earlier result would be used.
 */
export type CacheVerdict = "hit" | "miss" | "off";
/**
 * How a check went.
 */
export type CheckStatus = "ok" | "warn" | "fail";
/**
 * What the agent holds a finding to be.
 */
export type Classification = "real" | "conditional" | "non-issue" | "unknown";
/**
 * A commit of a run, such as `state-0001`.
 */
export type CommitId = string;
/**
 * A run: one execution of a workflow, and the name of its folder under `.cw/runs/`.
 */
export type RunId = string;
/**
 * A progress token: a string or an integer.
 */
export type ProgressToken = number | string;
/**
 * Which workflow: `{ "id": ... }`, `{ "path": ... }` or `{ "inline": ... }`.
 */
export type WorkflowRef =
  | {
      id: string;
    }
  | {
      path: string;
    }
  | {
      inline: unknown;
    };
/**
 * What `drive` would do first.
 */
export type NextAction = "dispatch" | "fulfill" | "commit" | "blocked" | "complete";
/**
 * A phase's id, unique in its workflow.
 */
export type PhaseId = string;
/**
 * A task's id, unique in its workflow. A looped task's later rounds carry `@r<n>`.
 */
export type TaskId = string;
/**
 * How a phase's tasks are run.
 */
export type PhaseMode = "sequential" | "parallel";
/**
 * How a phase stands.
 */
export type PhaseStatus = "pending" | "running" | "completed";
/**
 * How a task stands.
 */
export type TaskStatus = "pending" | "running" | "completed" | "failed";
/**
 * A workflow's id.
 */
export type WorkflowId = string;
/**
 * How a run stands.
 */
export type RunStatus = "complete" | "parked" | "blocked" | "in-progress";
/**
 * What a step did.
 */
export type StepAction = "dispatch" | "fulfill" | "accept" | "commit" | "park" | "blocked" | "complete";
/**
 * How a step went.
 */
export type StepStatus = "ok" | "parked" | "blocked" | "failed" | "complete";
/**
 * One attempt at a task, and the name of its folder.
 */
export type WorkerId = string;
/**
 * How a drive is stopped.
 */
export type StopMode = "graceful" | "now";
/**
 * What went wrong, for programs to match on. Stable.
 */
export type ErrorKind =
  | "run-not-found"
  | "run-locked"
  | "run-corrupt"
  | "unsupported-state"
  | "workflow-invalid"
  | "config-invalid"
  | "agent-not-configured"
  | "workspace-invalid"
  | "feedback-unknown"
  | "resolution-refused"
  | "overloaded"
  | "protocol-mismatch"
  | "storage-failed"
  | "internal";
/**
 * UTC with milliseconds.
 */
export type Timestamp = string;
/**
 * What kind of place evidence names.
 */
export type EvidenceKind = "file" | "url" | "token" | "ungrounded";
/**
 * What kind of fault a feedback record is about.
 */
export type FeedbackClass =
  | "missing-artifact"
  | "missing-evidence"
  | "verifier-failure"
  | "state-transition"
  | "contract-violation"
  | "sandbox-policy"
  | "parse-error"
  | "pipeline-failure"
  | "runtime-error"
  | "unknown";
/**
 * A feedback record.
 */
export type FeedbackId = string;
/**
 * A node of a run's provenance graph, such as `<run>:verifier:<task>`.
 */
export type NodeId = string;
/**
 * How a feedback record is closed.
 */
export type Resolution = "resolved" | "rejected" | "retry" | "tasked";
/**
 * How much a feedback record matters.
 */
export type FeedbackSeverity = "low" | "medium" | "high";
/**
 * Who found the fault.
 */
export type FeedbackSource = "state-node" | "pipeline-runner" | "verifier" | "contract" | "cli" | "manual";
/**
 * Where a feedback record stands.
 */
export type FeedbackStatus = "open" | "tasked" | "resolved" | "rejected";
/**
 * How bad a finding is. Ordered from worst to none.
 */
export type Severity = "P0" | "P1" | "P2" | "P3" | "none";
/**
 * The type of an input.
 */
export type InputType = "string" | "path" | "number" | "boolean" | "json";
/**
 * One event of a run.
 */
export type ProgressEvent = {
  at: Timestamp;
  runId: RunId;
  /**
   * The event's number; for `agentActivity`, that of the lifecycle event before it.
   */
  seq: number;
} & ProgressEvent1;
export type ProgressEvent1 =
  | {
      /**
       * Tasks already accepted by earlier drives.
       */
      completedWorkers: number;
      /**
       * Tasks in the run.
       */
      plannedWorkers: number;
      /**
       * Whether an earlier drive is carried on.
       */
      resumed: boolean;
      /**
       * The workflow's title.
       */
      title: string;
      type: "runStarted";
      /**
       * What of the workflow is allowed but likely a slip, such as a placeholder that names no input.
       */
      warnings?: string[];
      /**
       * The workflow's id.
       */
      workflowId: string;
    }
  | {
      phase: PhaseId;
      /**
       * Its tasks.
       */
      tasks: number;
      /**
       * Its name for people.
       */
      title: string;
      type: "phaseStarted";
      /**
       * How many run at once.
       */
      width: number;
    }
  | {
      agent: AgentName;
      /**
       * The attempt, from 1.
       */
      attempt: number;
      cache?: CacheState;
      phase: PhaseId;
      taskId: TaskId;
      type: "taskDispatched";
      workerId: WorkerId;
    }
  | {
      /**
       * Earlier lines of this task that were left out because the client reads slowly.
       */
      coalesced?: number;
      taskId: TaskId;
      /**
       * The line, cut to 500 characters, secrets replaced.
       */
      text: string;
      type: "agentActivity";
      workerId: WorkerId;
    }
  | {
      /**
       * How many findings it holds.
       */
      findings: number;
      phase: PhaseId;
      source: ResultSource;
      /**
       * Its first line.
       */
      summary: string;
      taskId: TaskId;
      type: "taskAccepted";
      usage?: Usage;
      workerId: WorkerId;
    }
  | {
      /**
       * The attempt that failed, from 1.
       */
      attempt: number;
      /**
       * The fault's code.
       */
      code: string;
      /**
       * Attempts allowed.
       */
      maxAttempts: number;
      notBefore?: Timestamp;
      /**
       * Why it failed.
       */
      reason: string;
      taskId: TaskId;
      type: "taskRetrying";
      workerId: WorkerId;
    }
  | {
      /**
       * Attempts made.
       */
      attempts: number;
      /**
       * The fault's code.
       */
      code: string;
      phase: PhaseId;
      /**
       * Why the last one failed.
       */
      reason: string;
      taskId: TaskId;
      type: "taskParked";
      workerId: WorkerId;
    }
  | {
      classification: FeedbackClass;
      feedbackId: FeedbackId;
      /**
       * The fault in a sentence.
       */
      message: string;
      severity: FeedbackSeverity;
      taskId?: TaskId;
      type: "feedbackOpened";
    }
  | {
      feedbackId: FeedbackId;
      status: FeedbackStatus;
      type: "feedbackClosed";
    }
  | {
      commitId: CommitId;
      /**
       * Why.
       */
      reason: string;
      type: "checkpoint";
      /**
       * Whether a verified verdict stands behind it.
       */
      verifierGated: boolean;
    }
  | {
      /**
       * Tasks accepted.
       */
      completed: number;
      phase: PhaseId;
      type: "phaseFinished";
    }
  | {
      /**
       * Tokens the run may spend.
       */
      budget: number;
      /**
       * Tokens recorded.
       */
      spent: number;
      type: "budgetWarning";
    }
  | {
      /**
       * By whom, such as `client`, `SIGTERM`, `shutdown`.
       */
      by: string;
      mode: StopMode;
      type: "stopRequested";
    }
  | {
      /**
       * Tasks accepted.
       */
      completedWorkers: number;
      /**
       * Tasks parked.
       */
      parkedWorkers: number;
      /**
       * Why, where there is something to say.
       */
      reason?: string;
      /**
       * Where the report is.
       */
      reportPath: string;
      status: RunStatus;
      type: "runFinished";
    };
/**
 * Where an accepted result came from.
 */
export type ResultSource = "agent" | "cache" | "sub-workflow";

/**
 * Whether an earlier result would be used, and why or why not.
 */
export interface CacheState {
  /**
   * In a preview: the earlier task, or phase, whose result this hangs on. It cannot be known before, and a `miss` is then no
   * more than what is known now.
   */
  dependsOn?: string;
  /**
   * Why.
   */
  reason?: string;
  state: CacheVerdict;
}
/**
 * One check of `doctor`.
 */
export interface DoctorCheck {
  /**
   * What to do about it.
   */
  hint?: string;
  /**
   * What was found.
   */
  message: string;
  /**
   * What was looked at.
   */
  name: string;
  status: CheckStatus;
}
/**
 * Parameters of `doctor`.
 */
export interface DoctorParams {
  /**
   * Absolute path of a folder to look at too.
   */
  workspace?: string;
}
/**
 * The answer to `doctor`.
 */
export interface DoctorResult {
  /**
   * What was looked at.
   */
  checks: DoctorCheck[];
  /**
   * Whether nothing failed.
   */
  ok: boolean;
  /**
   * The server's version.
   */
  version: string;
}
/**
 * Parameters of `drive`. Either `workflow` with `inputs`, or `runId`.
 */
export interface DriveParams {
  agent?: AgentName;
  /**
   * Accept results whose usage carries no valid signature, though the agent must sign it. What is accepted so is recorded
   * and stands in the report. For this drive only.
   */
  allowUnattested?: boolean;
  /**
   * How many agents at once, in every phase. Wins over the workflow's limits.
   */
  concurrency?: number;
  /**
   * Reuse results of earlier runs wherever nothing they depend on changed.
   */
  incremental?: boolean;
  /**
   * Values for its inputs.
   */
  inputs?: {
    [k: string]: unknown;
  };
  /**
   * Attempts before a task parks. Default 3.
   */
  maxAttempts?: number;
  /**
   * Fill one window, settle it, stop.
   */
  once?: boolean;
  runId?: RunId;
  /**
   * Tokens the run may spend in all, in place of the workflow's limit. 0: no limit. Kept for later drives of the run.
   */
  tokenBudget?: number;
  workDoneToken?: ProgressToken;
  workflow?: WorkflowRef;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `preview`.
 */
export interface DrivePreview {
  /**
   * Whether every task that is left has an agent.
   */
  agentConfigured: boolean;
  /**
   * What stands in the way, in sentences.
   */
  blockers?: string[];
  /**
   * Tasks accepted.
   */
  completedWorkers: number;
  nextAction: NextAction;
  nextPhase?: PhaseId;
  nextTaskId?: TaskId;
  /**
   * Tasks parked.
   */
  parkedWorkers: number;
  /**
   * Tasks to do.
   */
  pendingWorkers: number;
  /**
   * The phases, and what each task would be run with: of `taskLimit` tasks, counted over all phases.
   */
  plan: PlannedPhase[];
  /**
   * Tasks in the run.
   */
  plannedWorkers: number;
  runId?: RunId;
  /**
   * Version of this shape.
   */
  schemaVersion: number;
  /**
   * What is allowed but likely a slip, such as a placeholder that names no input.
   */
  warnings?: string[];
  workflowId: WorkflowId;
}
/**
 * A phase of a preview.
 */
export interface PlannedPhase {
  id: PhaseId;
  loop?: PlannedLoop;
  mode: PhaseMode;
  status: PhaseStatus;
  /**
   * Those of its tasks that were asked for.
   */
  tasks: PlannedTask[];
  /**
   * Its name for people.
   */
  title: string;
  /**
   * How many tasks it has.
   */
  totalTasks?: number;
  /**
   * How many would run at once.
   */
  width: number;
}
/**
 * The loop that a phase of a preview belongs to.
 */
export interface PlannedLoop {
  /**
   * Whether it was decided how this round ends.
   */
  decided: boolean;
  /**
   * Rounds at most.
   */
  maxRounds: number;
  /**
   * Which round the phase is, from 1. Later rounds are planned when they are decided.
   */
  round: number;
  /**
   * What ends the loop before that, in words.
   */
  until: string;
}
/**
 * A task of a preview.
 */
export interface PlannedTask {
  agent?: AgentName;
  /**
   * What stands in this task's way.
   */
  blockers?: string[];
  cache: CacheState;
  id: TaskId;
  /**
   * The command line or URL, secrets replaced. Placeholders that depend on the attempt are left as they are.
   */
  invocation?: string;
  status: TaskStatus;
  subWorkflow?: PlannedSubWorkflow;
}
/**
 * The workflow that is driven in a task's place, as a preview tells of it.
 */
export interface PlannedSubWorkflow {
  /**
   * The agents they go to.
   */
  agents: AgentName[];
  /**
   * What the task names.
   */
  id: string;
  /**
   * Its tasks, those of the workflows inside it with them.
   */
  tasks: number;
  /**
   * The workflow's title.
   */
  title: string;
}
/**
 * The answer to `drive` and `resume`.
 */
export interface DriveResult {
  /**
   * Whether every task that is left has an agent.
   */
  agentConfigured: boolean;
  commitId?: CommitId;
  /**
   * Tasks accepted.
   */
  completedWorkers: number;
  /**
   * Tasks parked.
   */
  parkedWorkers: number;
  /**
   * Tasks in the run when the drive began.
   */
  plannedWorkers: number;
  /**
   * Why the drive ended, where there is something to say.
   */
  reason?: string;
  /**
   * Where the report is.
   */
  reportPath: string;
  runId: RunId;
  /**
   * Version of this shape.
   */
  schemaVersion: number;
  /**
   * Where the snapshot of the state is.
   */
  statePath: string;
  status: RunStatus;
  /**
   * What this drive did, in task order.
   */
  steps: Step[];
  stopped?: StopMode;
  workflowId: WorkflowId;
}
/**
 * One step of a drive.
 */
export interface Step {
  action: StepAction;
  /**
   * The attempt, from 1.
   */
  attempts?: number;
  /**
   * `agent`, where an agent did it.
   */
  backendId?: string;
  /**
   * `process`, `endpoint`, `result-cache` or `sub-workflow`.
   */
  handleKind?: string;
  phase?: PhaseId;
  /**
   * Why.
   */
  reason?: string;
  /**
   * The model, as the agent reported it; `unreported` otherwise.
   */
  reportedModel?: string;
  runId: RunId;
  /**
   * Version of this shape.
   */
  schemaVersion: number;
  status: StepStatus;
  taskId?: TaskId;
  workerId?: WorkerId;
}
/**
 * `data` of a domain error.
 */
export interface ErrorData {
  /**
   * The field at fault, such as `phases[1].tasks[0].id`.
   */
  field?: string;
  /**
   * The file at fault.
   */
  file?: string;
  /**
   * What to do next, in one sentence.
   */
  hint: string;
  /**
   * For `run-locked`: the machine that process is on.
   */
  host?: string;
  kind: ErrorKind;
  /**
   * The line at fault, from 1.
   */
  line?: number;
  /**
   * For `run-locked`: the process that drives the run.
   */
  pid?: number;
  since?: Timestamp;
}
/**
 * A place that a claim is tied to.
 */
export interface Evidence {
  /**
   * SHA-256 (`sha256:` and 64 hex digits) of the cited lines when the result was accepted, joined by `\n`.
   */
  digest?: string;
  /**
   * For a file: the last line cited, from 1.
   */
  endLine?: number;
  kind: EvidenceKind;
  /**
   * For a file: the first line cited, from 1.
   */
  line?: number;
  /**
   * The locator as the agent wrote it, such as `src/main.rs:10-12`.
   */
  locator: string;
  /**
   * For a file: its path relative to the workspace, with `/` between parts.
   */
  path?: string;
  /**
   * The first cited line when the result was accepted, cut to 200 characters.
   */
  text?: string;
}
/**
 * A feedback record.
 */
export interface FeedbackRecord {
  /**
   * Files brought forward for the resolution.
   */
  artifacts?: string[];
  classification: FeedbackClass;
  /**
   * The fault's code, such as `missing-required-evidence`.
   */
  code: string;
  correctionTaskId?: TaskId;
  createdAt: Timestamp;
  /**
   * What was brought forward for the resolution.
   */
  evidence?: Evidence[];
  /**
   * What the task is told when it is tried again, or whoever does the correction task.
   */
  guidance?: string;
  id: FeedbackId;
  /**
   * The fault in a sentence.
   */
  message: string;
  nodeId?: NodeId;
  /**
   * The file at fault.
   */
  path?: string;
  resolution?: Resolution;
  /**
   * What the person who closed it wrote.
   */
  resolutionNote?: string;
  resolvedAt?: Timestamp;
  resolvedByNodeId?: NodeId;
  /**
   * Whether doing the same again could help.
   */
  retryable: boolean;
  runId: RunId;
  /**
   * Version of this shape.
   */
  schemaVersion: number;
  severity: FeedbackSeverity;
  source: FeedbackSource;
  status: FeedbackStatus;
  taskId?: TaskId;
  updatedAt: Timestamp;
  workerId?: WorkerId;
}
/**
 * One claim of a result.
 */
export interface Finding {
  classification: Classification;
  /**
   * What it stands on.
   */
  evidence: Evidence[];
  /**
   * As the agent named it, or `finding-<n>`.
   */
  id: string;
  severity: Severity;
  /**
   * The claim.
   */
  summary?: string;
}
/**
 * One input of a workflow.
 */
export interface InputSpec {
  /**
   * The value when none is given.
   */
  default?: {
    [k: string]: unknown;
  };
  /**
   * What it is for.
   */
  description?: string;
  /**
   * Whether it takes a list of values.
   */
  repeated?: boolean;
  /**
   * Whether a run can be planned without it.
   */
  required?: boolean;
  type: InputType;
}
/**
 * Parameters of `listFeedback`.
 */
export interface ListFeedbackParams {
  runId: RunId;
  status?: FeedbackStatus;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `listFeedback`.
 */
export interface ListFeedbackResult {
  /**
   * The records, in task order.
   */
  feedback: FeedbackRecord[];
}
/**
 * Parameters of `listRuns`.
 */
export interface ListRunsParams {
  /**
   * How many at most. Default 100.
   */
  limit?: number;
  /**
   * How many to pass over.
   */
  offset?: number;
  /**
   * Absolute path of the folder. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `listRuns`.
 */
export interface ListRunsResult {
  /**
   * The runs, newest first.
   */
  runs: RunSummary[];
  /**
   * How many there are in all.
   */
  total: number;
  /**
   * Folders that hold no readable run.
   */
  unreadable?: UnreadableRun[];
}
/**
 * One line of a list of runs.
 */
export interface RunSummary {
  /**
   * Tasks accepted.
   */
  completedWorkers: number;
  createdAt: Timestamp;
  /**
   * Whether a process drives it now.
   */
  driving: boolean;
  /**
   * What to do next, where it is not driven and something is left to do.
   */
  next?: string;
  /**
   * Feedback that waits for a person.
   */
  openFeedback: number;
  /**
   * Tasks parked.
   */
  parkedWorkers: number;
  /**
   * Tasks in it.
   */
  plannedWorkers: number;
  /**
   * Why it stands so, where there is something to say.
   */
  reason?: string;
  runId: RunId;
  status: RunStatus;
  /**
   * The workflow's title.
   */
  title: string;
  updatedAt: Timestamp;
  workflowId: WorkflowId;
}
/**
 * A run that could not be listed, and why.
 */
export interface UnreadableRun {
  kind: ErrorKind;
  /**
   * The same in a sentence.
   */
  message: string;
  /**
   * The folder's name.
   */
  name: string;
}
/**
 * Parameters of `listWorkflows`.
 */
export interface ListWorkflowsParams {
  /**
   * Absolute path of a folder whose `.cw/workflows/` is listed too.
   */
  workspace?: string;
}
/**
 * The answer to `listWorkflows`.
 */
export interface ListWorkflowsResult {
  /**
   * Files of the workspace's workflow folder that cannot be driven as they are, and why.
   */
  unusable?: UnusableWorkflow[];
  /**
   * The workflows, bundled ones first.
   */
  workflows: WorkflowSummary[];
}
/**
 * A workflow file that is not listed among the workflows.
 */
export interface UnusableWorkflow {
  /**
   * What to do about it.
   */
  hint?: string;
  /**
   * What is wrong with it, a line for each fault.
   */
  message: string;
  /**
   * The file, relative to the workspace.
   */
  path: string;
}
/**
 * A workflow that can be driven.
 */
export interface WorkflowSummary {
  id: WorkflowId;
  /**
   * What the user is asked for.
   */
  inputs: {
    [k: string]: InputSpec;
  };
  /**
   * `bundled`, or the file it was read from.
   */
  source: string;
  /**
   * What it is for.
   */
  summary: string;
  /**
   * How many tasks it has.
   */
  tasks: number;
  /**
   * One line for people.
   */
  title: string;
}
/**
 * A phase of a run.
 */
export interface PhaseView {
  /**
   * Those accepted.
   */
  completed: number;
  id: PhaseId;
  mode: PhaseMode;
  status: PhaseStatus;
  /**
   * Its tasks.
   */
  tasks: number;
  /**
   * Its name for people.
   */
  title: string;
}
/**
 * Parameters of `preview`: the same selection as `drive`.
 */
export interface PreviewParams {
  agent?: AgentName;
  /**
   * How many agents at once, in every phase.
   */
  concurrency?: number;
  /**
   * Whether results of earlier runs would be reused.
   */
  incremental?: boolean;
  /**
   * Values for its inputs.
   */
  inputs?: {
    [k: string]: unknown;
  };
  runId?: RunId;
  /**
   * Tasks of the plan at most. Default 1,000.
   */
  taskLimit?: number;
  /**
   * Tasks of the plan to pass over. The counts and what is next are always those of the whole run.
   */
  taskOffset?: number;
  /**
   * Tokens the run may spend in all, in place of the limit it has.
   */
  tokenBudget?: number;
  workflow?: WorkflowRef;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * What an agent said it used. A bucket it did not report is absent, never 0.
 */
export interface Usage {
  /**
   * Tokens read from the provider's cache.
   */
  cacheReadTokens?: number;
  /**
   * Tokens written to the provider's cache.
   */
  cacheWriteTokens?: number;
  /**
   * Tokens read.
   */
  inputTokens?: number;
  /**
   * Tokens written.
   */
  outputTokens?: number;
  /**
   * The agent's own total.
   */
  totalTokens?: number;
}
/**
 * Parameters of `pruneRuns`. At least one of `keep`, `olderThanMs` and `cacheOlderThanMs` says what may go; where both
 * `keep` and `olderThanMs` are given, a run goes only when both allow it.
 */
export interface PruneRunsParams {
  /**
   * Results kept for later runs go when they were neither kept nor used for so long.
   */
  cacheOlderThanMs?: number;
  /**
   * Say what would go, and remove nothing.
   */
  dryRun?: boolean;
  /**
   * So many of the newest runs stay, of those whose status may go.
   */
  keep?: number;
  /**
   * Only runs that last changed so long ago go.
   */
  olderThanMs?: number;
  /**
   * Only runs that stand like this go. Complete ones when absent.
   */
  statuses?: RunStatus[];
  /**
   * Absolute path of the folder the runs are about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `pruneRuns`.
 */
export interface PruneRunsResult {
  /**
   * Bytes of all that went, or would go.
   */
  bytes: number;
  /**
   * Kept results that went, or would go.
   */
  cachedResults: number;
  /**
   * Whether nothing was removed.
   */
  dryRun: boolean;
  /**
   * Runs that stay.
   */
  kept: number;
  /**
   * Folders left by an earlier removal that was cut short, which went too.
   */
  leftovers: number;
  /**
   * The runs that went, or would go, oldest first.
   */
  removed: PrunedRun[];
  /**
   * Runs that were to go and could not, and why.
   */
  skipped?: UnreadableRun[];
}
/**
 * A run that was removed.
 */
export interface PrunedRun {
  /**
   * Bytes of its files and theirs.
   */
  bytes: number;
  /**
   * Runs of its sub-workflows, which went with it.
   */
  children?: RunId[];
  runId: RunId;
  status: RunStatus;
  /**
   * Its workflow's name for people.
   */
  title: string;
  updatedAt: Timestamp;
}
/**
 * Parameters of `resolveFeedback`.
 */
export interface ResolveFeedbackParams {
  /**
   * Files that support the resolution.
   */
  artifacts?: string[];
  /**
   * Locators that support the resolution.
   */
  evidence?: string[];
  feedbackId: FeedbackId;
  /**
   * Further records to close in the same way. All are closed, or none.
   */
  feedbackIds?: FeedbackId[];
  /**
   * For `retry`: what the task is told when it is tried again. For `tasked`: what the correction task says.
   */
  guidance?: string;
  /**
   * A note.
   */
  message?: string;
  nodeId?: NodeId;
  resolution: Resolution;
  runId: RunId;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * Parameters of `resume`.
 */
export interface ResumeParams {
  agent?: AgentName;
  /**
   * Accept results whose usage carries no valid signature, though the agent must sign it. What is accepted so is recorded
   * and stands in the report. For this drive only.
   */
  allowUnattested?: boolean;
  /**
   * How many agents at once, in every phase.
   */
  concurrency?: number;
  /**
   * Reuse results of earlier runs wherever nothing they depend on changed.
   */
  incremental?: boolean;
  /**
   * Attempts before a task parks.
   */
  maxAttempts?: number;
  /**
   * Fill one window, settle it, stop.
   */
  once?: boolean;
  runId: RunId;
  /**
   * Tokens the run may spend in all, in place of the limit it had. 0: no limit. Kept for later drives of the run.
   */
  tokenBudget?: number;
  workDoneToken?: ProgressToken;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `showRun`.
 */
export interface RunView {
  /**
   * With `sinceSeq`: the lifecycle events after it, oldest first.
   */
  events?: ProgressEvent[];
  /**
   * What it was asked.
   */
  inputs: {
    [k: string]: unknown;
  };
  /**
   * The number of its newest lifecycle event.
   */
  lastSeq: number;
  /**
   * With `sinceSeq`: whether there are more than were sent.
   */
  moreEvents?: boolean;
  /**
   * Its phases, in order.
   */
  phases: PhaseView[];
  /**
   * Where the report is.
   */
  reportPath: string;
  /**
   * Version of this shape.
   */
  schemaVersion: number;
  /**
   * Where the snapshot of the state is.
   */
  statePath: string;
  summary: RunSummary;
  /**
   * Its tasks, in order, from `taskOffset` on.
   */
  tasks: TaskView[];
  /**
   * How many tasks there are in all.
   */
  totalTasks: number;
}
/**
 * A task of a run.
 */
export interface TaskView {
  agent?: AgentName;
  /**
   * Attempts begun.
   */
  attempts: number;
  endedAt?: Timestamp;
  /**
   * Why the newest attempt failed.
   */
  failure?: string;
  /**
   * The accepted result's findings.
   */
  findings?: Finding[];
  id: TaskId;
  phase: PhaseId;
  /**
   * The model, as the agent reported it; `unreported` otherwise.
   */
  reportedModel?: string;
  /**
   * The accepted result's file.
   */
  resultPath?: string;
  source?: ResultSource;
  startedAt?: Timestamp;
  status: TaskStatus;
  /**
   * The accepted result's first line.
   */
  summary?: string;
  usage?: Usage;
  workerId?: WorkerId;
}
/**
 * The answer to `serverInfo`.
 */
export interface ServerInfo {
  /**
   * Why the user's configuration is of no use. Requests that need an agent are refused with it; those that only read
   * are answered.
   */
  configurationFault?: string;
  /**
   * Every method it answers.
   */
  methods: string[];
  /**
   * The oldest protocol version it still understands.
   */
  minProtocolVersion: number;
  /**
   * `flowdrive`.
   */
  name: string;
  /**
   * The protocol version it speaks.
   */
  protocolVersion: number;
  /**
   * The server's version.
   */
  version: string;
}
/**
 * Parameters of `serverInfo`.
 */
export interface ServerInfoParams {
  /**
   * The protocol version the client was made for.
   */
  protocolVersion?: number;
}
/**
 * Parameters of `showRun`.
 */
export interface ShowRunParams {
  runId: RunId;
  /**
   * Send the lifecycle events after this one.
   */
  sinceSeq?: number;
  /**
   * Tasks at most. Default 1,000.
   */
  taskLimit?: number;
  /**
   * Tasks to pass over.
   */
  taskOffset?: number;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
  /**
   * Write `report.md` and `report.html` anew from the run's record before answering; also while the run is driven. The
   * same record always gives the same bytes.
   */
  writeReport?: boolean;
}
/**
 * Parameters of `stop`.
 */
export interface StopParams {
  mode?: StopMode;
  runId: RunId;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `stop`. How the drive ended is told by `runFinished` and by the answer to `drive`.
 */
export interface StopResult {
  /**
   * Whether anybody drives it.
   */
  driving: boolean;
  mode: StopMode;
  runId: RunId;
}
/**
 * One thing that does not add up in a run's record.
 */
export interface VerifyProblem {
  /**
   * What kind of problem it is, such as `hash-mismatch`.
   */
  code: string;
  /**
   * The line, from 1.
   */
  line?: number;
  /**
   * The same in a sentence.
   */
  message: string;
  /**
   * The file.
   */
  path: string;
}
/**
 * Parameters of `verifyRun`.
 */
export interface VerifyRunParams {
  runId: RunId;
  /**
   * Absolute path of the folder the run is about. The first workspace folder when absent.
   */
  workspace?: string;
}
/**
 * The answer to `verifyRun`.
 */
export interface VerifyRunResult {
  /**
   * Journal lines checked.
   */
  events: number;
  /**
   * The hash of the newest one, which stands for the whole journal.
   */
  head: string;
  /**
   * Whether everything adds up.
   */
  ok: boolean;
  /**
   * What does not add up.
   */
  problems: VerifyProblem[];
  runId: RunId;
}
