// The packaged extension, installed: it brings its own server, and passes the same suite.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { cache, Editor, environment, extension, scratch, test } from "../harness.mjs";
import { inExtensionHost } from "./host.mjs";

const MOST_BYTES = 60e6;

export async function run(server) {
  const vsix = path.join(extension, "flowdrive-linux-x64.vsix");
  const editor = new Editor("vsix");
  const made = await test("the extension is packaged with the server inside, and installed", () => {
    const env = { ...environment, FLOWDRIVE_BIN: server, FLOWDRIVE_VSCE: path.join(cache, "vsce/node_modules/@vscode/vsce/vsce") };
    execFileSync(process.execPath, ["scripts/package.mjs", "linux-x64"], { cwd: extension, env, stdio: "pipe", encoding: "utf8" });
    if (fs.statSync(vsix).size > MOST_BYTES) throw new Error(`${fs.statSync(vsix).size} bytes`);
    const said = editor.install(vsix);
    if (!/successfully installed/.test(said)) throw new Error(said);
  });
  if (!made) return;
  await test("the package holds what it needs and nothing else", () => {
    const [name] = fs.readdirSync(editor.extensions).filter((one) => one.startsWith("flowdrive.flowdrive"));
    const root = path.join(editor.extensions, name);
    const files = fs.readdirSync(root, { recursive: true, withFileTypes: true }).filter((one) => one.isFile()).map((one) => path.relative(root, path.join(one.parentPath ?? one.path, one.name)));
    const wanted = ["dist/extension.js", "dist/workflow.schema.json", "dist/LICENSE-MIT", "l10n/bundle.l10n.json", "media/flowdrive.svg", "media/icon.png", "package.nls.json", "server/flowdrive"];
    for (const file of wanted) if (!files.includes(file)) throw new Error(`no ${file}`);
    const unwanted = files.filter((file) => /^(src|scripts|node_modules)\/|\.(ts|map|mjs)$/.test(file));
    if (unwanted.length > 0) throw new Error(unwanted.join(", "));
    fs.accessSync(path.join(root, "server/flowdrive"), fs.constants.X_OK);
  });
  // Tests are loaded beside an extension under development: here an empty one.
  const development = path.join(scratch, "nothing");
  fs.mkdirSync(development, { recursive: true });
  fs.writeFileSync(path.join(development, "package.json"), JSON.stringify({ name: "nothing", publisher: "test", version: "0.0.1", engines: { vscode: "*" } }));
  await inExtensionHost("installed", { development, extensions: editor.extensions, settings: {} });
}

