/**
 * The client: typed methods, events, and the server's life. Must not: define a shape that crosses the connection.
 */
import { pathToFileURL } from "node:url";
import { CancellationTokenSource, ErrorCodes, ProgressType, ResponseError } from "vscode-jsonrpc/node";
import { FlowdriveError, ServerGoneError } from "./errors.js";
import { Follower } from "./follow.js";
import { ServerProcess, type ServerOptions } from "./process.js";
import { PROTOCOL_VERSION, type Config, type ErrorData, type Methods, type Notifications, type ProgressEvent } from "./protocol.js";

/** How a client is started. */
export interface ClientOptions extends ServerOptions {
  /** The folders that are open; a request without `workspace` is about the first. */
  readonly workspaceFolders?: readonly string[];
  /** Agents, limits, and the events that are not wanted; laid over the user's configuration. */
  readonly config?: Config;
  /**
   * How often a server that ended unasked is started again. Requests it left without an answer fail all the same; event
   * streams go on where they were. Default 0.
   */
  readonly restarts?: number;
  /** Told after each restart, when streams are being attached again. */
  readonly onRestart?: (why: ServerGoneError) => void;
}

/** How one request is made. */
export interface RequestOptions {
  /** Cancels the request. A drive is stopped gracefully. */
  readonly signal?: AbortSignal;
  /** Gets the work-done progress of a drive, as editors show it. */
  readonly onProgress?: (value: WorkDoneProgress) => void;
}

/** A value of `$/progress`, as the Language Server Protocol has it. */
export interface WorkDoneProgress {
  kind: "begin" | "report" | "end";
  title?: string;
  message?: string;
  percentage?: number;
}

/** Which events are read. */
export interface EventOptions {
  /** Only those of this run; else of all runs this server drives. */
  readonly runId?: string;
  /** With `runId`: begin after this event; 0 for the whole record. Without it, with what happens next. */
  readonly sinceSeq?: number;
  /** With `runId`: the folder it is about. The first workspace folder when absent. */
  readonly workspace?: string;
}

const workDone = new ProgressType<WorkDoneProgress>();

/** A server under this client's care. Close it, or use `await using`. */
export class FlowdriveClient implements AsyncDisposable {
  #server: ServerProcess;
  #restarts: number;
  #closing = false;
  /** Set while a server is being introduced to. */
  #ready: Promise<void>;
  #followers = new Set<Follower>();
  #tokens = 0;

  private constructor(private readonly options: ClientOptions) {
    this.#restarts = options.restarts ?? 0;
    this.#server = new ServerProcess(options);
    this.#ready = this.#introduce(this.#server);
  }

  /** Starts a server and introduces itself. */
  static async start(options: ClientOptions = {}): Promise<FlowdriveClient> {
    const client = new FlowdriveClient(options);
    try {
      await client.#ready;
      return client;
    } catch (error) {
      await client.#abandon();
      throw error;
    }
  }

  /** The server's process id. */
  get pid(): number | undefined {
    return this.#server.pid;
  }

  /** Calls a method. */
  async request<M extends keyof Methods>(
    method: M,
    params: Methods[M]["params"],
    options: RequestOptions = {},
  ): Promise<Methods[M]["result"]> {
    await this.#ready;
    return this.#send(this.#server, method, params, options);
  }

  drive = this.#method("drive");
  preview = this.#method("preview");
  resume = this.#method("resume");
  resolveFeedback = this.#method("resolveFeedback");
  stop = this.#method("stop");
  listRuns = this.#method("listRuns");
  showRun = this.#method("showRun");
  listFeedback = this.#method("listFeedback");
  listWorkflows = this.#method("listWorkflows");
  verifyRun = this.#method("verifyRun");
  doctor = this.#method("doctor");
  listAgents = this.#method("listAgents");
  serverInfo = this.#method("serverInfo");

  /**
   * Events as they come. With `runId` and `sinceSeq` the lifecycle events have no gap and no repetition: what was missed is
   * asked for, also from a server that was restarted. Ends with the client; fails with the server.
   */
  events(options: EventOptions = {}): AsyncIterableIterator<ProgressEvent> {
    const { runId, sinceSeq, workspace } = options;
    const ask = async (run: string, since: number) => {
      for (;;) {
        const server = this.#server;
        try {
          const params = { runId: run, sinceSeq: since, taskLimit: 0, ...(workspace === undefined ? {} : { workspace }) };
          return await this.request("showRun", params);
        } catch (error) {
          // Its successor is asked instead.
          if (!(error instanceof ServerGoneError) || server === this.#server) throw error;
        }
      }
    };
    const follower = new Follower(runId, sinceSeq, ask, (one) => this.#followers.delete(one));
    if (this.#closing) {
      follower.queue.finish();
    } else {
      this.#followers.add(follower);
      void follower.catchUp();
    }
    return follower.queue;
  }

  /** Ends the server and all it started. Returns when its process is gone. */
  async close(): Promise<void> {
    if (!this.#closing) {
      this.#closing = true;
      const server = this.#server;
      try {
        await this.#ready;
        await server.connection.sendRequest("shutdown");
        await server.connection.sendNotification("exit");
      } catch {
        // It is gone already, or was never there.
      }
    }
    await this.#server.end();
    this.#finish(undefined);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #method<M extends keyof Methods>(method: M) {
    return (params: Methods[M]["params"], options?: RequestOptions) => this.request(method, params, options);
  }

  async #introduce(server: ServerProcess): Promise<void> {
    const { connection } = server;
    connection.onNotification("flowdrive/progress", (event: Notifications["flowdrive/progress"]) => {
      for (const follower of this.#followers) follower.take(event);
    });
    connection.listen();
    void server.gone.then((why) => this.#lost(server, why));
    const folders = this.options.workspaceFolders ?? [];
    const params = {
      processId: process.pid,
      clientInfo: { name: "flowdrive-client" },
      capabilities: {},
      initializationOptions: { ...this.options.config, protocolVersion: PROTOCOL_VERSION },
      workspaceFolders: folders.map((folder) => ({ uri: pathToFileURL(folder).href, name: folder })),
    };
    await this.#send(server, "initialize", params, {});
    await connection.sendNotification("initialized", {});
  }

  async #send<R>(server: ServerProcess, method: string, params: object, options: RequestOptions): Promise<R> {
    const { signal, onProgress } = options;
    const source = new CancellationTokenSource();
    const cancel = () => source.cancel();
    const token = `flowdrive-client-${++this.#tokens}`;
    const progress =
      onProgress === undefined ? undefined : server.connection.onProgress(workDone, token, (value) => onProgress(value));
    signal?.addEventListener("abort", cancel, { once: true });
    if (signal?.aborted === true) cancel();
    try {
      const sent = progress === undefined ? params : { workDoneToken: token, ...params };
      return await server.connection.sendRequest<R>(method, sent, source.token);
    } catch (error) {
      if (error instanceof ResponseError && error.code !== ErrorCodes.PendingResponseRejected) {
        throw new FlowdriveError(method, error.message, error.code, error.data as ErrorData | undefined);
      }
      // The connection was given up, or could not be written to: the server is gone, or about to be.
      throw await server.gone;
    } finally {
      signal?.removeEventListener("abort", cancel);
      progress?.dispose();
      source.dispose();
    }
  }

  #lost(server: ServerProcess, why: ServerGoneError): void {
    // Requests that wait for an answer fail by this.
    server.connection.dispose();
    if (server !== this.#server || this.#closing) return;
    if (this.#restarts === 0) {
      this.#finish(why);
      return;
    }
    this.#restarts -= 1;
    this.#server = new ServerProcess(this.options);
    this.#ready = this.#introduce(this.#server);
    this.#ready.then(
      () => {
        this.options.onRestart?.(why);
        for (const follower of this.#followers) void follower.catchUp();
      },
      (error: unknown) => this.#finish(error as Error),
    );
  }

  async #abandon(): Promise<void> {
    this.#closing = true;
    const server = this.#server;
    try {
      await server.connection.sendNotification("exit");
    } catch {
      // It never came up.
    }
    await server.end();
  }

  #finish(error: Error | undefined): void {
    for (const follower of this.#followers) follower.queue.finish(error);
    this.#followers.clear();
  }
}
