/**
 * The server's report page, made fit for a webview: the editor's colours, and links that open files in the editor.
 * The page lies in the workspace, where anybody may have written it. So its scripts never run (they lack the nonce), its
 * policy is replaced by ours, and it can load nothing. Must not: know the editor, or read files.
 */
import * as path from "node:path";
import { render } from "./page";

/** The page's colours, as the editor's theme has them. */
const THEME = `:root{
--bg:var(--vscode-editor-background);--fg:var(--vscode-editor-foreground);--dim:var(--vscode-descriptionForeground);
--line:var(--vscode-panel-border,var(--vscode-contrastBorder,#8884));--card:var(--vscode-editorWidget-background);
--ok:var(--vscode-testing-iconPassed,#2e8555);--bad:var(--vscode-testing-iconFailed,#c4413a);
--cut:var(--vscode-charts-yellow,#a8741a);--run:var(--vscode-charts-blue,#3d6fd1);--code:var(--vscode-textCodeBlock-background)}
body{font-family:var(--vscode-font-family);font-size:14px;padding:0}
@media (max-width:46rem){.row{grid-template-columns:minmax(7rem,11rem) 1fr;gap:.1rem .9rem;padding:.3rem 0}.what{grid-column:2}}
a:focus-visible{outline:1px solid var(--vscode-focusBorder);outline-offset:2px}
body.vscode-dark .badge{color:#10131a}body.vscode-light .badge{color:#fff}
@media (prefers-reduced-motion:reduce){*{transition:none!important}}`;

/** Links go to the extension; those inside the page scroll. */
const SCRIPT = `document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const href = link === null ? null : link.getAttribute("href");
  if (href === null || href.startsWith("#")) return;
  event.preventDefault();
  event.stopPropagation();
  vscode.postMessage({ type: "open", href });
}, true);`;

/** The report as a webview's page. `html` is the whole of `report.html`. */
export function reportPage(html: string, nonce: string, language: string): string {
  const title = /<title>([^<]*)<\/title>/i.exec(html)?.[1] ?? "";
  const style = /<style>([\s\S]*?)<\/style>/i.exec(html)?.[1] ?? "";
  const body = /<body[^>]*>([\s\S]*)<\/body>/i.exec(html)?.[1] ?? html;
  // `title` is HTML text already.
  return render({ nonce, title: unescape(title), language, styles: [style, THEME], body, script: SCRIPT });
}

function unescape(text: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', amp: "&" };
  return text.replace(/&(lt|gt|quot|amp);/g, (_, name: string) => named[name] ?? "");
}

/** What a link of the report leads to. */
export type Target = { kind: "file"; file: string; line: number; endLine: number } | { kind: "web"; address: string };

/** Where a link leads: a file inside the workspace, or the web. Anything else leads nowhere. */
export function target(href: string, reportFolder: string, workspace: string): Target | undefined {
  if (/^https?:\/\//i.test(href)) {
    return { kind: "web", address: href };
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(href) || href.startsWith("//")) {
    return undefined;
  }
  const [encoded, fragment] = href.split("#", 2) as [string, string | undefined];
  let decoded: string;
  try {
    decoded = decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
  const file = path.resolve(reportFolder, decoded);
  const inside = path.relative(workspace, file);
  if (decoded === "" || decoded.includes("\0") || inside.startsWith("..") || path.isAbsolute(inside)) {
    return undefined;
  }
  const lines = /^L(\d+)(?:-L(\d+))?$/.exec(fragment ?? "");
  const line = Math.max(1, Number(lines?.[1] ?? 1));
  return { kind: "file", file, line, endLine: Math.max(line, Number(lines?.[2] ?? line)) };
}
