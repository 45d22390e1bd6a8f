/**
 * The server's process: started, spoken to, ended. Must not: know a method by its name.
 */
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createMessageConnection, StreamMessageReader, StreamMessageWriter, type MessageConnection } from "vscode-jsonrpc/node";
import { ServerGoneError } from "./errors.js";

/** How the server is started. */
export interface ServerOptions {
  /** The program; `flowdrive` on the PATH when absent. */
  readonly command?: string;
  /** Its arguments; `serve --stdio` when absent. */
  readonly args?: readonly string[];
  /** The folder it is started in. */
  readonly cwd?: string;
  /** Its environment; that of this process when absent. */
  readonly env?: NodeJS.ProcessEnv;
  /** Gets what it writes on its standard error, as it comes. */
  readonly onStderr?: (text: string) => void;
}

/** How much of the standard error is kept for the fault that tells of the server's end. */
const TAIL = 4096;
/** What an ending server gets before it is ended by force: its own limit, and some room. */
const GRACE_MS = 5000;

/** One process of the server, and the connection to it. */
export class ServerProcess {
  readonly connection: MessageConnection;
  /** Resolves with why the server is gone, once it is. */
  readonly gone: Promise<ServerGoneError>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #command: string;
  #stderr = "";

  constructor(options: ServerOptions) {
    this.#command = options.command ?? "flowdrive";
    const args = options.args ?? ["serve", "--stdio"];
    this.#child = spawn(this.#command, args, {
      stdio: "pipe",
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.env === undefined ? {} : { env: options.env }),
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-TAIL);
      options.onStderr?.(text);
    });
    // The end of the process is told of by `gone`; a write to it that fails meanwhile says nothing more.
    this.#child.stdin.on("error", () => {});
    this.gone = new Promise((resolve) => {
      this.#child.once("error", (error) => resolve(this.#cannotStart(error)));
      this.#child.once("close", (code, signal) => resolve(this.#ended(code, signal)));
    });
    this.connection = createMessageConnection(
      new StreamMessageReader(this.#child.stdout),
      new StreamMessageWriter(this.#child.stdin),
    );
    this.connection.onError(() => {});
    this.connection.onUnhandledNotification(() => {});
  }

  /** The process id; absent when it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Waits for the process to end; ends it when it does not. */
  async end(): Promise<ServerGoneError> {
    const force = setTimeout(() => this.#child.kill("SIGKILL"), GRACE_MS);
    try {
      return await this.gone;
    } finally {
      clearTimeout(force);
      this.connection.dispose();
    }
  }

  #cannotStart(error: Error): ServerGoneError {
    return new ServerGoneError(
      `the server cannot be started: ${error.message}`,
      `Install Flowdrive, or name the program in \`command\` (tried: ${this.#command}).`,
      undefined,
      this.#stderr,
    );
  }

  #ended(code: number | null, signal: NodeJS.Signals | null): ServerGoneError {
    const how = signal === null ? `with exit code ${String(code)}` : `by ${signal}`;
    return new ServerGoneError(
      `the server ended ${how}`,
      "Start it again; a run that was under way is carried on with `resume`.",
      code ?? undefined,
      this.#stderr,
    );
  }
}
