// Bundles the extension into one file. `node scripts/build.mjs`
import { build } from "esbuild";
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
