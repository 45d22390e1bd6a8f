/**
 * What a drive would do, as a page: the phases and tasks, and what each is run with; with a button that starts it.
 * Must not: know the editor, or talk to the server.
 */
import * as l10n from "@vscode/l10n";
import type { DrivePreview, NextAction, PlannedPhase, PlannedTask } from "flowdrive-client/protocol";
import * as format from "./format";
import { escape, render } from "./page";

export interface Asked {
  title: string;
  inputs: Readonly<Record<string, unknown>>;
  /** Whether the page can start what it shows. */
  startable: boolean;
}

const STYLE = `body{font-family:var(--vscode-font-family);font-size:var(--vscode-font-size);color:var(--vscode-foreground);background:var(--vscode-editor-background);padding:0 1.5rem 3rem;margin:0;line-height:1.5}
main{max-width:60rem;margin:0 auto}
h1{font-size:1.6em;font-weight:600;margin:1.2rem 0 .2rem}h2{font-size:1.1em;font-weight:600;margin:1.8rem 0 .4rem}
h2 small,p.dim,.dim{color:var(--vscode-descriptionForeground);font-weight:400;font-size:1em}
code{font-family:var(--vscode-editor-font-family);font-size:.95em;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:1rem 0}dt{color:var(--vscode-descriptionForeground)}dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}
table{border-collapse:collapse;width:100%;table-layout:fixed}
th{text-align:left;font-weight:400;color:var(--vscode-descriptionForeground)}
th,td{padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--vscode-panel-border,#8884);vertical-align:top;overflow-wrap:anywhere}
th:nth-child(1){width:28%}th:nth-child(2){width:20%}th:nth-child(3){width:16%}
details{margin:.5rem 0 0}summary{cursor:pointer;color:var(--vscode-descriptionForeground)}
details code{display:block;margin:.4rem 0;padding:.5rem .75rem;background:var(--vscode-textCodeBlock-background);border-radius:3px}
.bar{position:sticky;top:0;display:flex;gap:.6rem;align-items:center;padding:.8rem 0;background:var(--vscode-editor-background);border-bottom:1px solid var(--vscode-panel-border,#8884);z-index:1}
button{font:inherit;padding:.35rem .9rem;border:1px solid var(--vscode-button-border,transparent);border-radius:2px;cursor:pointer;color:var(--vscode-button-foreground);background:var(--vscode-button-background)}
button:hover{background:var(--vscode-button-hoverBackground)}
button.second{color:var(--vscode-button-secondaryForeground);background:var(--vscode-button-secondaryBackground)}
button.second:hover{background:var(--vscode-button-secondaryHoverBackground)}
button:focus-visible,summary:focus-visible{outline:1px solid var(--vscode-focusBorder);outline-offset:2px}
.note{border-left:3px solid var(--vscode-editorWarning-foreground);background:var(--vscode-textBlockQuote-background);padding:.4rem .8rem;margin:.6rem 0}
.ok{color:var(--vscode-testing-iconPassed)}.warn{color:var(--vscode-editorWarning-foreground)}`;

const SCRIPT = `for (const button of document.querySelectorAll("button[data-do]")) {
  button.addEventListener("click", () => vscode.postMessage({ type: button.dataset.do }));
}
document.querySelector("button[data-do]")?.focus();
vscode.postMessage({ type: "ready" });`;

/** What a drive would do, in a sentence. */
function next(action: NextAction, todo: number): string {
  switch (action) {
    case "dispatch":
      return todo === 1 ? l10n.t("1 task is to be handed to an agent.") : l10n.t("{0} tasks are to be handed to agents.", todo);
    case "fulfill":
      return l10n.t("Results that are already there are to be judged.");
    case "commit":
      return l10n.t("All tasks are accepted; the run is to be committed.");
    case "blocked":
      return l10n.t("Nothing can be started: something is in the way.");
    case "complete":
      return l10n.t("The run is complete. There is nothing left to do.");
  }
}

function note(text: string): string {
  return `<p class="note">${escape(text)}</p>`;
}

function inputText(value: unknown): string {
  return Array.isArray(value) ? value.map(inputText).join("\n") : typeof value === "string" ? value : JSON.stringify(value);
}

function cacheText(task: PlannedTask): string {
  const { state, reason } = task.cache;
  const verdict = state === "hit" ? l10n.t("earlier result is used") : state === "miss" ? l10n.t("no earlier result fits") : "";
  return format.joined(verdict, reason);
}

function stateText(task: PlannedTask): string {
  switch (task.status) {
    case "completed":
      return `<span class="ok">${escape(l10n.t("accepted"))}</span>`;
    case "failed":
      return `<span class="warn">${escape(l10n.t("parked"))}</span>`;
    default:
      return escape(l10n.t("to do"));
  }
}

function phaseHtml(phase: PlannedPhase): string {
  const mode =
    phase.tasks.length === 1 ? format.tasks(1) : phase.mode === "parallel" ? l10n.t("{0}, {1} at once", format.tasks(phase.tasks.length), phase.width) : l10n.t("{0}, one after the other", format.tasks(phase.tasks.length));
  const cached = phase.tasks.some((task) => task.cache.state !== "off");
  const rows = phase.tasks.map((task) => {
    const blockers = (task.blockers ?? []).map(note).join("");
    const agent = task.agent === undefined ? `<span class="warn">${escape(l10n.t("none"))}</span>` : escape(task.agent);
    return `<tr><td><code>${escape(task.id)}</code>${blockers}</td><td>${agent}</td><td>${stateText(task)}</td>${cached ? `<td>${escape(cacheText(task))}</td>` : ""}</tr>`;
  });
  const heads = [l10n.t("task"), l10n.t("agent"), l10n.t("state"), ...(cached ? [l10n.t("cache")] : [])];
  const head = heads.map((text) => `<th scope="col">${escape(text)}</th>`).join("");
  return `<h2>${escape(phase.title)} <small>${escape(mode)}</small></h2>
<table><thead><tr>${head}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

/** The command lines, each once. */
function invocations(preview: DrivePreview): string {
  const lines = new Set(preview.plan.flatMap((phase) => phase.tasks).flatMap((task) => task.invocation ?? []));
  if (lines.size === 0) {
    return "";
  }
  const title = lines.size === 1 ? l10n.t("The command that each task is run with") : l10n.t("The {0} commands that tasks are run with", lines.size);
  return `<details><summary>${escape(title)}</summary>${[...lines].map((line) => `<code>${escape(line)}</code>`).join("")}</details>`;
}

/** Whether a drive would get anywhere. */
export function canStart(preview: DrivePreview): boolean {
  return preview.nextAction !== "complete" && preview.nextAction !== "blocked";
}

export function previewPage(preview: DrivePreview, asked: Asked, nonce: string, language: string): string {
  const started = preview.completedWorkers + preview.parkedWorkers > 0;
  const counts = started
    ? l10n.t("{0}: {1} accepted, {2} to do, {3} parked.", format.tasks(preview.plannedWorkers), preview.completedWorkers, preview.pendingWorkers, preview.parkedWorkers)
    : "";
  const button = preview.runId === undefined ? l10n.t("Start") : l10n.t("Resume");
  const bar = asked.startable
    ? `<div class="bar">${canStart(preview) ? `<button data-do="start">${escape(button)}</button>` : ""}<button class="second" data-do="close">${escape(l10n.t("Close"))}</button><span class="dim">${escape(l10n.t("Nothing has been started yet."))}</span></div>`
    : "";
  const inputs = Object.entries(asked.inputs).map(([name, value]) => `<dt>${escape(name)}</dt><dd>${escape(inputText(value))}</dd>`);
  const agents = preview.agentConfigured
    ? ""
    : note(l10n.t("Not every task has an agent. “Flowdrive: Check Installation” says what there is."));
  const body = `<main>
${bar}
<h1>${escape(asked.title)}</h1>
<p class="dim">${escape(`${next(preview.nextAction, preview.pendingWorkers)} ${counts}`.trim())}</p>
${inputs.length === 0 ? "" : `<dl>${inputs.join("")}</dl>`}
${agents}${(preview.blockers ?? []).map(note).join("")}
${preview.plan.map(phaseHtml).join("\n")}
${invocations(preview)}
</main>`;
  return render({ nonce, title: asked.title, language, styles: [STYLE], body, script: SCRIPT });
}
