// Formats Lua files as StyLua does, by its own WebAssembly build: the program itself is not to be had from a registry
// without building it. Usage: format.mjs [--write] PACKAGE STYLUA_TOML FILE...
// Without --write it names the files that differ and ends with 1.
import { createRequire } from "node:module";
import { readFile, writeFile } from "node:fs/promises";

const words = process.argv.slice(2);
const write = words[0] === "--write" && words.shift() !== undefined;
const [folder, configuration, ...files] = words;
const stylua = createRequire(import.meta.url)(folder);

const settings = Object.fromEntries(
  (await readFile(configuration, "utf8"))
    .split("\n")
    .map((line) => line.match(/^\s*(\w+)\s*=\s*"?([^"#]*?)"?\s*$/))
    .filter(Boolean)
    .map(([, name, value]) => [name, value]),
);
const known = { column_width: Number, indent_width: Number, indent_type: (value) => stylua.IndentType[value] };
const configure = () => {
  const config = stylua.Config.new();
  for (const [name, value] of Object.entries(settings)) {
    if (!(name in known)) throw new Error(`${configuration}: ${name} is not handled by ${import.meta.url}`);
    config[name] = known[name](value);
  }
  return config;
};

let differing = 0;
for (const file of files) {
  const source = await readFile(file, "utf8");
  const formatted = stylua.formatCode(source, configure(), undefined, stylua.OutputVerification.Full);
  if (formatted === source) continue;
  differing += 1;
  if (write) await writeFile(file, formatted);
  else console.log(`${file} is not formatted`);
}
process.exitCode = differing > 0 && !write ? 1 : 0;
