/** The part of the wire types that the extension uses. Seam: replaced by types generated from the committed schema. */

export type RunStatus = "complete" | "parked" | "blocked" | "in-progress";
export type StopMode = "graceful" | "now";
export type Resolution = "resolved" | "rejected" | "retry";
export type InputType = "string" | "path" | "number" | "boolean" | "json";

export interface InputSpec {
  type: InputType;
  required?: boolean;
  repeated?: boolean;
  default?: unknown;
  description?: string;
}

export interface WorkflowSummary {
  id: string;
  title: string;
  summary: string;
  source: string;
  inputs: { [name: string]: InputSpec };
  tasks: number;
}

export type WorkflowRef = { id: string } | { path: string } | { inline: unknown };

export interface DriveParams {
  workspace?: string;
  workflow?: WorkflowRef;
  inputs?: { [name: string]: unknown };
  runId?: string;
  agent?: string;
  concurrency?: number;
  workDoneToken?: string | number;
}

export interface DriveResult {
  runId: string;
  workflowId: string;
  status: RunStatus;
  plannedWorkers: number;
  completedWorkers: number;
  parkedWorkers: number;
  reportPath: string;
  reason?: string;
  stopped?: StopMode;
}

export interface PlannedTask {
  id: string;
  status: string;
  agent?: string;
  invocation?: string;
  cache: { state: "hit" | "miss" | "off"; reason?: string };
  blockers?: string[];
}

export interface DrivePreview {
  runId?: string;
  workflowId: string;
  plannedWorkers: number;
  pendingWorkers: number;
  completedWorkers: number;
  parkedWorkers: number;
  nextAction: "dispatch" | "fulfill" | "commit" | "blocked" | "complete";
  nextTaskId?: string;
  agentConfigured: boolean;
  blockers?: string[];
  plan: { id: string; title: string; mode: string; width: number; tasks: PlannedTask[] }[];
}

export interface RunSummary {
  runId: string;
  workflowId: string;
  title: string;
  status: RunStatus;
  createdAt: string;
  plannedWorkers: number;
  completedWorkers: number;
  parkedWorkers: number;
  openFeedback: number;
  driving: boolean;
}

export interface RunView {
  summary: RunSummary;
  reportPath: string;
}

export interface FeedbackRecord {
  id: string;
  runId: string;
  status: "open" | "tasked" | "resolved" | "rejected";
  severity: "low" | "medium" | "high";
  code: string;
  message: string;
  taskId?: string;
}

export interface DoctorResult {
  version: string;
  ok: boolean;
  checks: { name: string; status: "ok" | "warn" | "fail"; message: string; hint?: string }[];
}

export interface ErrorData {
  kind: string;
  hint: string;
  file?: string;
  line?: number;
  field?: string;
}

export type ProgressEvent = { runId: string; seq: number; at: string } & (
  | { type: "runStarted"; workflowId: string; title: string; plannedWorkers: number; completedWorkers: number; resumed: boolean }
  | { type: "phaseStarted"; phase: string; title: string; tasks: number; width: number }
  | { type: "taskDispatched"; taskId: string; phase: string; agent: string; attempt: number }
  | { type: "agentActivity"; taskId: string; text: string }
  | { type: "taskAccepted"; taskId: string; source: string; summary: string; findings: number }
  | { type: "taskRetrying"; taskId: string; attempt: number; maxAttempts: number; reason: string }
  | { type: "taskParked"; taskId: string; attempts: number; reason: string }
  | { type: "feedbackOpened"; feedbackId: string; taskId?: string; message: string }
  | { type: "feedbackClosed"; feedbackId: string }
  | { type: "checkpoint"; commitId: string; reason: string }
  | { type: "phaseFinished"; phase: string; completed: number }
  | { type: "stopRequested"; mode: StopMode; by: string }
  | { type: "runFinished"; status: RunStatus; reason?: string; completedWorkers: number; parkedWorkers: number; reportPath: string }
);
