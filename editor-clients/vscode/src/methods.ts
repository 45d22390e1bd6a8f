/**
 * The server's methods as request types. Names, parameters and results come from the schema, so that a method that is
 * not in it does not compile. Must not: define a shape of its own.
 */
import { NotificationType, RequestType } from "vscode-languageclient/node";
import type { ErrorData, Methods, Notifications } from "flowdrive-client/protocol";

function request<M extends keyof Methods>(name: M) {
  return new RequestType<Methods[M]["params"], Methods[M]["result"], ErrorData>(name);
}
function notification<N extends keyof Notifications>(name: N) {
  return new NotificationType<Notifications[N]>(name);
}

export const drive = request("drive");
export const resume = request("resume");
export const preview = request("preview");
export const stop = request("stop");
export const listRuns = request("listRuns");
export const showRun = request("showRun");
export const listAgents = request("listAgents");
export const listWorkflows = request("listWorkflows");
export const listFeedback = request("listFeedback");
export const resolveFeedback = request("resolveFeedback");
export const doctor = request("doctor");
export const progress = notification("flowdrive/progress");
