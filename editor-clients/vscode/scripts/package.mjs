// Makes flowdrive-<target>.vsix with the server program inside. `node scripts/package.mjs [target]`; the target is
// VS Code's name of a platform, `linux-x64` when none is given. FLOWDRIVE_BIN names the program (default: the release
// build of this repository). It must run here, unless FLOWDRIVE_CROSS is set: its version is checked. FLOWDRIVE_VSCE names
// the packager's script, where it is at hand; otherwise npx fetches it.
import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const VSCE = "@vscode/vsce@3.9.2";
const extension = fileURLToPath(new URL("..", import.meta.url));
const target = process.argv[2] ?? "linux-x64";
const program = target.startsWith("win32") ? "flowdrive.exe" : "flowdrive";
const binary = path.resolve(process.env.FLOWDRIVE_BIN ?? path.join(extension, "../../target/release", program));
const { version } = JSON.parse(await readFile(path.join(extension, "package.json"), "utf8"));

if (process.env.FLOWDRIVE_CROSS === undefined) {
  const said = execFileSync(binary, ["--version"], { encoding: "utf8" }).trim();
  if (!said.startsWith(`flowdrive ${version}`)) {
    throw new Error(`${binary} says "${said}", and the extension is version ${version}`);
  }
}
const folder = path.join(extension, "server");
await mkdir(folder, { recursive: true });
try {
  await copyFile(binary, path.join(folder, program));
  await chmod(path.join(folder, program), 0o755);
  const out = path.join(extension, `flowdrive-${target}.vsix`);
  const options = ["package", "--no-dependencies", "--allow-missing-repository", "--skip-license", "--target", target, "--out", out];
  const vsce = process.env.FLOWDRIVE_VSCE;
  const [run, ...first] = vsce === undefined ? ["npx", "--yes", VSCE] : [process.execPath, vsce];
  execFileSync(run, [...first, ...options], { cwd: extension, stdio: "inherit" });
} finally {
  await rm(folder, { recursive: true, force: true });
}
