/**
 * The server's methods, each with the types of its parameters and result.
 * Must not: define a shape of its own; those come from `protocol.ts`.
 */
import { NotificationType, RequestType } from "vscode-languageclient/node";
import type {
  DoctorResult,
  DrivePreview,
  DriveParams,
  DriveResult,
  FeedbackRecord,
  ProgressEvent,
  Resolution,
  RunSummary,
  RunView,
  StopMode,
  WorkflowSummary,
} from "./protocol";

/** The protocol version this extension was written for. */
export const PROTOCOL_VERSION = 1;

interface InWorkspace {
  workspace: string;
}
interface OfRun extends InWorkspace {
  runId: string;
}

export const drive = new RequestType<DriveParams, DriveResult, unknown>("drive");
export const resume = new RequestType<DriveParams & OfRun, DriveResult, unknown>("resume");
export const preview = new RequestType<DriveParams, DrivePreview, unknown>("preview");
export const stop = new RequestType<OfRun & { mode: StopMode }, { driving: boolean }, unknown>("stop");
export const listRuns = new RequestType<InWorkspace, { runs: RunSummary[] }, unknown>("listRuns");
export const showRun = new RequestType<OfRun, RunView, unknown>("showRun");
export const listWorkflows = new RequestType<InWorkspace, { workflows: WorkflowSummary[] }, unknown>("listWorkflows");
export const listFeedback = new RequestType<OfRun & { status?: "open" }, { feedback: FeedbackRecord[] }, unknown>(
  "listFeedback",
);
export const resolveFeedback = new RequestType<
  OfRun & { feedbackId: string; resolution: Resolution; nodeId?: string; message?: string; guidance?: string },
  FeedbackRecord,
  unknown
>("resolveFeedback");
export const doctor = new RequestType<InWorkspace, DoctorResult, unknown>("doctor");
export const progress = new NotificationType<ProgressEvent>("flowdrive/progress");
