/**
 * What can go wrong, as classes. Must not: decide whether something is a fault.
 */
import type { ErrorData, ErrorKind } from "./protocol.js";

/** The Language Server Protocol's code for a request that was cancelled; `vscode-jsonrpc` does not name it. */
const REQUEST_CANCELLED = -32800;

/** The server refused a request, and said why. */
export class FlowdriveError extends Error {
  override readonly name = "FlowdriveError";
  /** What went wrong, to match on; absent for faults of JSON-RPC itself. */
  readonly kind: ErrorKind | undefined;
  /** What to do next, in one sentence. */
  readonly hint: string | undefined;

  constructor(
    /** The method that was called. */
    readonly method: string,
    message: string,
    /** The JSON-RPC error code. */
    readonly code: number,
    /** All that the server said of it: also the file, line and field at fault. */
    readonly data: ErrorData | undefined,
  ) {
    super(message);
    this.kind = data?.kind;
    this.hint = data?.hint;
  }

  /** Whether the request was answered "cancelled", which is what its caller asked for. */
  get cancelled(): boolean {
    return this.code === REQUEST_CANCELLED;
  }
}

/** The server cannot be started, or is gone. Requests that waited for it get no answer any more. */
export class ServerGoneError extends Error {
  override readonly name = "ServerGoneError";
  /** What to do next, in one sentence. */
  readonly hint: string;

  constructor(
    message: string,
    hint: string,
    /** The exit code, where the server ended with one. */
    readonly exitCode: number | undefined,
    /** The end of what it wrote on its standard error. */
    readonly stderr: string,
  ) {
    super(message);
    this.hint = hint;
  }
}
