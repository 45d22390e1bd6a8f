/**
 * Says how drives ended, and offers the next step. Never waits for the user.
 * Must not: drive, stop or resume by itself.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import type { Parts } from "../commands/parts";
import type { Reattached } from "../follower";
import * as format from "../model/format";
import { question } from "../model/runTree";
import type { Outcome } from "./progress";

type Around = Pick<Parts, "catalog" | "follower" | "log">;

const run = (command: string, argument?: unknown) => vscode.commands.executeCommand(`flowdrive.${command}`, argument);

function named(around: Around, runId: string): string {
  const known = around.catalog.get(runId);
  return known === undefined ? runId : (question(known) ?? known.summary.title);
}

/** Shows a message with a button for each offer. */
function offer(how: "info" | "warning", text: string, offers: readonly [string, () => unknown][]): void {
  const show = how === "info" ? vscode.window.showInformationMessage : vscode.window.showWarningMessage;
  const titles = offers.map(([title]) => title);
  void show(`Flowdrive: ${text}`, ...titles).then((chosen) => offers.find(([title]) => title === chosen)?.[1]());
}

function offerResume(around: Around, runId: string, text: string): void {
  const workspace = around.catalog.get(runId)?.workspace;
  offer("info", text, [[l10n.t("Resume"), () => run("resume", { workspace, runId })]]);
}

export function announce(outcome: Outcome, around: Around): void {
  const { runId } = outcome;
  if ("ended" in outcome) {
    if (outcome.ended === "cancelled") {
      announceCancelled(runId, around);
    }
    return;
  }
  const known = around.catalog.get(runId);
  const workspace = known?.workspace;
  const name = named(around, runId);
  const counts = l10n.t("{0} of {1} tasks accepted", outcome.completedWorkers, outcome.plannedWorkers);
  const reason = outcome.reason === undefined ? "" : ` ${outcome.reason}`;
  if (outcome.stopped !== undefined) {
    offerResume(around, runId, l10n.t("“{0}” is stopped: {1}.", name, counts) + reason);
  } else if (outcome.status === "complete") {
    offer("info", l10n.t("“{0}” is complete: {1}.", name, counts), [
      [l10n.t("Open Report"), () => run("openReport", { workspace, runId })],
      [l10n.t("Open Timeline"), () => run("openTimeline", { workspace, runId })],
    ]);
  } else if (outcome.status === "in-progress") {
    offerResume(around, runId, l10n.t("“{0}” is not finished: {1}.", name, counts) + reason);
  } else {
    const parked = outcome.parkedWorkers > 0 ? l10n.t(", {0} parked", outcome.parkedWorkers) : "";
    offer("warning", l10n.t("“{0}” is {1}: {2}{3}.", name, format.status(outcome.status), counts, parked) + reason, [
      [l10n.t("Resolve Feedback"), () => run("resolveFeedback", { workspace, runId })],
      [l10n.t("Show Feedback"), () => vscode.commands.executeCommand("flowdrive.feedback.focus")],
    ]);
  }
}

/** A run stops after what is in flight: offers to end that too. */
export function announceStopping(runId: string, around: Around): void {
  const name = named(around, runId);
  const workspace = around.catalog.get(runId)?.workspace;
  offer("info", l10n.t("“{0}” stops after what is in flight.", name), [
    [l10n.t("Stop Now"), () => run("stop", { workspace, runId, mode: "now" })],
  ]);
}

/** A drive was cancelled, so that nothing answers it any more: says when it is over. */
function announceCancelled(runId: string, around: Around): void {
  const name = named(around, runId);
  if (!around.follower.drives(runId)) {
    offer("info", l10n.t("“{0}” is stopped.", name), []);
    return;
  }
  const ended = around.follower.onFinished((event) => {
    if (event.runId === runId) {
      ended.dispose();
      const counts = l10n.t("{0} tasks accepted, {1} parked", event.completedWorkers, event.parkedWorkers);
      offerResume(around, runId, l10n.t("“{0}” is stopped: {1}.", name, counts));
    }
  });
  announceStopping(runId, around);
}

/** Runs that this window drove went on, or ended, unseen. */
export function announceReattached(all: readonly Reattached[], around: Around): void {
  for (const { run: known, missed, cause } of all) {
    const { summary, workspace } = known;
    const { runId } = summary;
    const name = named(around, runId);
    const counts = l10n.t("{0} of {1} tasks accepted", summary.completedWorkers, summary.plannedWorkers);
    const accepted = missed.filter((event) => event.type === "taskAccepted").length;
    const parked = missed.filter((event) => event.type === "taskParked").length;
    const unseen = [
      accepted > 0 ? l10n.t("{0} accepted", accepted) : undefined,
      parked > 0 ? l10n.t("{0} parked", parked) : undefined,
    ].filter((part) => part !== undefined);
    const since = unseen.length === 0 ? "" : ` ${l10n.t("Since you last saw it: {0}.", unseen.join(", "))}`;
    around.log.info(`${runId} re-attached after ${cause === "server" ? "the server's end" : "a reload"}, ${missed.length} events missed`);
    const show: [string, () => unknown] = [l10n.t("Show Run"), () => run("showRuns", { workspace, runId })];
    if (summary.driving) {
      offer("info", l10n.t("“{0}” is still running: {1}.", name, counts) + since, [show]);
    } else if (summary.status === "complete") {
      offer("info", l10n.t("“{0}” was completed: {1}.", name, counts) + since, [
        [l10n.t("Open Report"), () => run("openReport", { workspace, runId })],
      ]);
    } else {
      const why =
        cause === "server"
          ? l10n.t("The server ended by itself and was started again. “{0}” was interrupted: {1}.", name, counts)
          : l10n.t("“{0}” was interrupted when its window closed: {1}.", name, counts);
      offer("warning", why + since, [[l10n.t("Resume"), () => run("resume", { workspace, runId })], show]);
    }
  }
}
