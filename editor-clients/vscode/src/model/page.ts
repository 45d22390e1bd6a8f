/**
 * HTML for webviews: escaping, and the frame with its content security policy. Nothing is loaded from anywhere: what a
 * page needs is in it, and scripts and style sheets count only with the page's own nonce.
 * Must not: know the editor.
 */

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}

export interface Page {
  nonce: string;
  title: string;
  language: string;
  /** Style sheets, in order. */
  styles: readonly string[];
  /** HTML; every text in it escaped, or harmless under the policy. */
  body: string;
  /** Runs with `vscode` at hand. */
  script: string;
}

/** The only policy of the extension's pages. Places in the timeline are style attributes, so that these are admitted. */
export function policy(nonce: string): string {
  return [
    "default-src 'none'",
    `style-src-elem 'nonce-${nonce}'`,
    "style-src-attr 'unsafe-inline'",
    `script-src 'nonce-${nonce}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
}

export function render(page: Page): string {
  const styles = page.styles.map((style) => `<style nonce="${page.nonce}">${style}</style>`).join("\n");
  return `<!doctype html>
<html lang="${escape(page.language)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy(page.nonce)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(page.title)}</title>
${styles}
</head>
<body>
${page.body}
<script nonce="${page.nonce}">
(() => {
const vscode = acquireVsCodeApi();
${page.script}
})();
</script>
</body>
</html>
`;
}
