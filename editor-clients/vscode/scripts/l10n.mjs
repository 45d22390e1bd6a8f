// Writes l10n/bundle.l10n.json, the texts of the code that a translation starts from. `node scripts/l10n.mjs [--check]`:
// with --check nothing is written, and a file that differs is an error.
import { getL10nJson } from "@vscode/l10n-dev";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const source = new URL("../src/", import.meta.url);
const target = new URL("../l10n/bundle.l10n.json", import.meta.url);

const names = (await readdir(source, { recursive: true })).filter((name) => name.endsWith(".ts")).sort();
const files = await Promise.all(
  names.map(async (name) => ({ extension: ".ts", contents: await readFile(new URL(name.replaceAll("\\", "/"), source), "utf8") })),
);
const found = await getL10nJson(files);
const sorted = Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)));
const text = `${JSON.stringify(sorted, null, 2)}\n`;

if (process.argv.includes("--check")) {
  if ((await readFile(target, "utf8").catch(() => "")) !== text) {
    console.error("l10n/bundle.l10n.json does not follow the code. Run `npm run l10n` in editor-clients/vscode.");
    process.exit(1);
  }
} else {
  await mkdir(new URL(".", target), { recursive: true });
  await writeFile(target, text);
  console.log(`${Object.keys(sorted).length} texts in ${fileURLToPath(target)}`);
}
