/**
 * The connection to the server: started when first needed, one for the window, ended with it.
 * Must not: start anything in a workspace that is not trusted.
 */
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
import { check } from "./binary";
import { Dismissed, ServerUnusable, show } from "./errors";
import { progress } from "./methods";
import { PROTOCOL_VERSION } from "./protocol";
import type { Runs } from "./runs";

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

/** Whether the server speaks this extension's protocol version; a fault is what it speaks. */
function protocolFault(answer: InitializeResult | undefined): string | undefined {
  const experimental: unknown = answer?.capabilities.experimental;
  const spoken = (experimental as { flowdrive?: { protocolVersion?: number; minProtocolVersion?: number } } | undefined)?.flowdrive;
  const newest = spoken?.protocolVersion ?? 0;
  const oldest = spoken?.minProtocolVersion ?? newest;
  return oldest <= PROTOCOL_VERSION && PROTOCOL_VERSION <= newest ? undefined : newest === 0 ? "(none)" : `${oldest} to ${newest}`;
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

export class Server implements vscode.Disposable {
  private starting: Promise<LanguageClient> | undefined;
  private client: LanguageClient | undefined;

  constructor(
    private readonly extensionPath: string,
    private readonly log: vscode.LogOutputChannel,
    private readonly runs: Runs,
  ) {}

  /** The running client; started if need be. */
  async get(): Promise<LanguageClient> {
    if (!vscode.workspace.isTrusted) {
      const manage = "Manage workspace trust";
      void vscode.window
        .showWarningMessage("Flowdrive starts agents, which are programs, only in a workspace that you trust.", manage)
        .then((chosen) => chosen === manage && vscode.commands.executeCommand("workbench.trust.manage"));
      throw new Dismissed();
    }
    if (this.client?.state === State.Stopped) {
      this.starting = undefined;
    }
    this.starting ??= this.start().catch((problem: unknown) => {
      this.starting = undefined;
      throw problem;
    });
    return this.starting;
  }

  /** The process of the running server, for those who must know that it is gone. */
  get running(): boolean {
    return this.client?.state === State.Running;
  }

  private async start(): Promise<LanguageClient> {
    const setting = vscode.workspace.getConfiguration("flowdrive").get<string>("serverPath", "");
    const binary = await check(setting, this.extensionPath, process.env);
    this.log.info(`Starting ${binary.path} (version ${binary.version})`);
    const errorHandler: ErrorHandler = {
      error: () => ({ action: ErrorAction.Continue }),
      // No restart by itself: what was driven is interrupted, and the user decides whether to carry it on.
      closed: () => {
        this.starting = undefined;
        const interrupted = this.runs.serverEnded();
        const what = interrupted.length > 0 ? ` ${interrupted.join(", ")} can be resumed.` : "";
        show(new ServerUnusable(`The server ended unexpectedly.${what}`, binary.path), this.log);
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    };
    const client = new Client(
      "flowdrive",
      "Flowdrive",
      { command: binary.path, args: ["serve"], transport: TransportKind.stdio },
      {
        documentSelector: [{ scheme: "file" }], // findings, and what can be done about them, may be in any file
        outputChannel: this.log,
        initializationOptions,
        errorHandler,
        initializationFailedHandler: () => false, // `start` below rejects, and says why once
      },
    );
    client.onNotification(progress, (event) => this.runs.apply(event));
    try {
      await client.start();
    } catch (problem) {
      throw new ServerUnusable(`The server refused to start: ${problem instanceof Error ? problem.message : String(problem)}`, binary.path);
    }
    const spoken = protocolFault(client.initializeResult);
    if (spoken !== undefined) {
      await client.stop();
      throw new ServerUnusable(
        `The server speaks protocol version ${spoken}, this extension version ${PROTOCOL_VERSION}. Update the older of the two.`,
        binary.path,
      );
    }
    this.client = client;
    return client;
  }

  /** Ends the server; the next command starts it afresh. */
  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.starting = undefined;
    if (client !== undefined && client.state !== State.Stopped) {
      await client.stop();
    }
    this.runs.serverEnded();
  }

  dispose(): void {
    void this.stop();
  }
}
