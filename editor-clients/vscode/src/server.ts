/**
 * The connection to the server: started when first needed, one for the window, ended with it. A server that ends by
 * itself is started again, after longer and longer pauses, and not for ever.
 * Must not: start anything in a workspace that is not trusted, or know what a run is.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  ExecuteCommandRequest,
  LanguageClient,
  State,
  TransportKind,
  type DynamicFeature,
  type ErrorHandler,
  type InitializeResult,
  type StaticFeature,
} from "vscode-languageclient/node";
import { check, type Binary } from "./binary";
import { show } from "./errors";
import * as methods from "./methods";
import { Backoff } from "./model/backoff";
import { Dismissed, ServerUnusable } from "./model/fault";
import { PROTOCOL_VERSION, type ProgressEvent } from "flowdrive-client/protocol";

/** What `initialize` tells the server: agents and limits as in its configuration file. */
function initializationOptions(): Record<string, unknown> {
  const settings = vscode.workspace.getConfiguration("flowdrive");
  const agents = settings.get<Record<string, unknown>>("agents", {});
  const defaultAgent = settings.get<string>("defaultAgent", "").trim();
  return {
    protocolVersion: PROTOCOL_VERSION,
    ...(Object.keys(agents).length > 0 ? { agents } : {}),
    ...(defaultAgent !== "" ? { defaultAgent } : {}),
  };
}

/** The Problems panel lists no hints, and unrated findings are hints: they are raised to what it lists. */
function listed(diagnostics: vscode.Diagnostic[]): vscode.Diagnostic[] {
  for (const one of diagnostics) {
    if (one.severity === vscode.DiagnosticSeverity.Hint) {
      one.severity = vscode.DiagnosticSeverity.Information;
    }
  }
  return diagnostics;
}

/** Whether the server speaks this extension's protocol version; a fault is what it speaks. */
function protocolFault(answer: InitializeResult | undefined): string | undefined {
  const experimental: unknown = answer?.capabilities.experimental;
  const spoken = (experimental as { flowdrive?: { protocolVersion?: number; minProtocolVersion?: number } } | undefined)?.flowdrive;
  const newest = spoken?.protocolVersion ?? 0;
  const oldest = spoken?.minProtocolVersion ?? newest;
  return oldest <= PROTOCOL_VERSION && PROTOCOL_VERSION <= newest
    ? undefined
    : newest === 0
      ? l10n.t("(none)")
      : l10n.t("{0} to {1}", oldest, newest);
}

/**
 * The server's commands (`flowdrive.drive` and so on) have the names of the extension's own, which do more: they ask, and
 * show. The library would register them a second time, and VS Code refuses that.
 */
class Client extends LanguageClient {
  override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    const method = "registrationType" in feature ? feature.registrationType.method : undefined;
    if (method !== ExecuteCommandRequest.method) {
      super.registerFeature(feature);
    }
  }
}

/** `failed`: it cannot be started, or ended too often. */
export type Condition = "idle" | "starting" | "running" | "restarting" | "failed";

export class Server implements vscode.Disposable {
  private readonly backoff = new Backoff();
  private readonly conditionChanged = new vscode.EventEmitter<Condition>();
  private readonly lost = new vscode.EventEmitter<void>();
  private readonly ready = new vscode.EventEmitter<{ again: boolean }>();
  private readonly progressed = new vscode.EventEmitter<ProgressEvent>();
  private current: Condition = "idle";
  private starting: Promise<LanguageClient> | undefined;
  private client: LanguageClient | undefined;
  private restart: NodeJS.Timeout | undefined;
  private used: Binary | undefined;

  readonly onCondition = this.conditionChanged.event;
  /** The server ended by itself. */
  readonly onLost = this.lost.event;
  /** A server runs; `again` where it takes the place of one that ended by itself. */
  readonly onReady = this.ready.event;
  readonly onProgress = this.progressed.event;

  constructor(
    private readonly extensionPath: string,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  get condition(): Condition {
    return this.current;
  }

  /** The program that runs, or ran last. */
  get binary(): Binary | undefined {
    return this.used;
  }

  /** The running client; started if need be. */
  async get(): Promise<LanguageClient> {
    if (!vscode.workspace.isTrusted) {
      const manage = l10n.t("Manage Workspace Trust");
      void vscode.window
        .showWarningMessage(l10n.t("Flowdrive starts agents, which are programs, only in a workspace that you trust."), manage)
        .then((chosen) => chosen === manage && vscode.commands.executeCommand("workbench.trust.manage"));
      throw new Dismissed();
    }
    if (this.client?.state === State.Running) {
      return this.client;
    }
    this.starting ??= this.start(this.current === "restarting");
    return this.starting;
  }

  /** The same for what the user did not ask for: nothing is shown, and nothing is started that failed already or waits. */
  async quietly(): Promise<LanguageClient | undefined> {
    if (!vscode.workspace.isTrusted || this.current === "failed" || this.current === "restarting") {
      return undefined;
    }
    return this.get().catch((problem: unknown) => {
      this.log.warn(problem instanceof Error ? problem.message : String(problem));
      return undefined;
    });
  }

  /** Ends the server; the next command starts it afresh. */
  async stop(): Promise<void> {
    clearTimeout(this.restart);
    const client = this.client ?? (await this.starting?.catch(() => undefined));
    this.client = undefined;
    this.starting = undefined;
    this.backoff.reset();
    this.become("idle");
    if (client !== undefined && client.state !== State.Stopped) {
      await client.stop();
    }
  }

  dispose(): void {
    void this.stop();
  }

  private become(condition: Condition): void {
    if (this.current !== condition) {
      this.current = condition;
      this.conditionChanged.fire(condition);
    }
  }

  private async start(again: boolean): Promise<LanguageClient> {
    clearTimeout(this.restart);
    this.become("starting");
    try {
      this.client = await this.connect();
    } catch (problem) {
      this.become("failed");
      throw problem;
    } finally {
      this.starting = undefined;
    }
    this.become("running");
    this.ready.fire({ again });
    return this.client;
  }

  private async connect(): Promise<LanguageClient> {
    const setting = vscode.workspace.getConfiguration("flowdrive").get<string>("path", "");
    const binary = await check(setting, this.extensionPath, process.env);
    this.used = binary;
    this.log.info(`Starting ${binary.path} (version ${binary.version})`);
    const errorHandler: ErrorHandler = {
      error: () => ({ action: ErrorAction.Continue }),
      // Restarted here and not by the library, which knows no pauses and shows its own messages.
      closed: () => {
        if (this.client === client) {
          this.onClosed(binary);
        }
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    };
    const client: LanguageClient = new Client(
      "flowdrive",
      "Flowdrive",
      { command: binary.path, args: ["serve"], transport: TransportKind.stdio },
      {
        documentSelector: [{ scheme: "file" }], // findings, and what can be done about them, may be in any file
        outputChannel: this.log,
        initializationOptions,
        errorHandler,
        middleware: { handleDiagnostics: (uri, diagnostics, next) => next(uri, listed(diagnostics)) },
        initializationFailedHandler: () => false, // `start` below rejects, and says why once
      },
    );
    client.onNotification(methods.progress, (event) => this.progressed.fire(event));
    try {
      await client.start();
    } catch (problem) {
      const why = problem instanceof Error ? problem.message : String(problem);
      throw new ServerUnusable(l10n.t("The server refused to start: {0}", why), [binary.path]);
    }
    const spoken = protocolFault(client.initializeResult);
    if (spoken !== undefined) {
      await client.stop();
      throw new ServerUnusable(
        l10n.t("The server speaks protocol version {0}, this extension version {1}. Update the older of the two.", spoken, PROTOCOL_VERSION),
        [binary.path],
      );
    }
    return client;
  }

  private onClosed(binary: Binary): void {
    this.client = undefined;
    this.lost.fire();
    this.startLater(new ServerUnusable(l10n.t("The server ended by itself too often, and is not started again by itself."), [binary.path]));
  }

  /** Starts the server again after a pause; `problem` is shown when there were too many. */
  private startLater(problem: unknown): void {
    const pause = this.backoff.next(Date.now());
    if (pause === undefined) {
      this.become("failed");
      show(problem, this.log);
      return;
    }
    this.log.warn(`The server ended by itself; it is started again in ${pause} ms.`);
    this.become("restarting");
    this.restart = setTimeout(() => {
      this.starting ??= this.start(true);
      this.starting.catch((failure: unknown) => this.startLater(failure));
    }, pause);
  }
}
