// Bundles the extension into one file, and puts beside it what it needs of the rest of the repository.
// `node scripts/build.mjs`
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";

await build({
  absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node18", // VS Code 1.82, the oldest that package.json admits, runs on Node.js 18
  external: ["vscode"],
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
});

const dist = new URL("../dist/", import.meta.url);
await mkdir(dist, { recursive: true });
for (const name of ["LICENSE-MIT", "LICENSE-APACHE", "schema/workflow.schema.json"]) {
  await copyFile(new URL(`../../../${name}`, import.meta.url), new URL(name.split("/").at(-1), dist));
}
