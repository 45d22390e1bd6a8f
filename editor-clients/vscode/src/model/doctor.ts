/**
 * The server's checks as a document. Must not: know the editor.
 */
import * as l10n from "@vscode/l10n";
import type { CheckStatus, DoctorResult } from "flowdrive-client/protocol";
import { code, plain } from "./markdown";

function mark(status: CheckStatus): string {
  switch (status) {
    case "ok":
      return "✓";
    case "warn":
      return "⚠";
    case "fail":
      return "✗";
  }
}

export function document(result: DoctorResult, binary: { path: string; version: string }): string {
  const failed = result.checks.filter((check) => check.status === "fail").length;
  const verdict = result.ok
    ? l10n.t("Flowdrive is ready to drive workflows.")
    : failed === 1
      ? l10n.t("One thing has to be put right before Flowdrive can drive every workflow.")
      : l10n.t("{0} things have to be put right before Flowdrive can drive every workflow.", failed);
  const lines = [
    `# ${l10n.t("Installation")}`,
    "",
    `**${verdict}**`,
    "",
    `${l10n.t("Program")}: ${code(binary.path)}, ${l10n.t("version {0}", plain(binary.version))}`,
    "",
    `| | ${l10n.t("what")} | ${l10n.t("found")} |`,
    "| :-: | --- | --- |",
  ];
  for (const check of result.checks) {
    const hint = check.hint === undefined ? "" : `<br>${l10n.t("What to do:")} ${plain(check.hint)}`;
    lines.push(`| ${mark(check.status)} | ${plain(check.name)} | ${plain(check.message)}${hint} |`);
  }
  return `${lines.join("\n")}\n`;
}
