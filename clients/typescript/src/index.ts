/** A typed client of Flowdrive. */
export { FlowdriveClient } from "./client.js";
export type { ClientOptions, EventOptions, RequestOptions, WorkDoneProgress } from "./client.js";
export type { ServerOptions } from "./process.js";
export { FlowdriveError, ServerGoneError } from "./errors.js";
export * from "./protocol.js";
