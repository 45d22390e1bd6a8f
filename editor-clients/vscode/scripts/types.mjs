// Writes src/protocol.ts from the committed schema. `node scripts/types.mjs [--check]`: with --check nothing is written,
// and a file that differs is an error.
import { compile } from "json-schema-to-typescript";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const schemaFile = new URL("../../../schema/protocol.schema.json", import.meta.url);
const target = fileURLToPath(new URL("../src/protocol.ts", import.meta.url));

const isNull = (schema) => schema?.type === "null";

/** The server leaves out what is absent and never sends null for it, so that an optional property need not admit null. */
function withoutNull(schema) {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return { ...schema, type: types.length === 1 ? types[0] : types };
  }
  if (schema.anyOf?.some(isNull)) {
    const rest = schema.anyOf.filter((one) => !isNull(one));
    const { anyOf: _, ...others } = schema;
    return rest.length === 1 ? { ...others, ...rest[0] } : { ...others, anyOf: rest };
  }
  return schema;
}

function simplify(schema) {
  if (Array.isArray(schema)) return schema.map(simplify);
  if (typeof schema !== "object" || schema === null) return schema;
  if (typeof schema.$ref === "string") {
    // Alone: beside a description, a reference would become a type of its own.
    return { $ref: schema.$ref.replace("#/$defs/", "#/definitions/") };
  }
  const result = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, simplify(value)]));
  if (result.properties !== undefined) {
    const required = new Set(result.required ?? []);
    for (const [name, property] of Object.entries(result.properties)) {
      if (!required.has(name) && typeof property === "object") result.properties[name] = simplify(withoutNull(property));
    }
  }
  // A map whose keys follow a pattern is, to TypeScript, a map.
  const patterns = Object.values(result.patternProperties ?? {});
  if (patterns.length === 1 && result.properties === undefined) {
    result.additionalProperties = patterns[0];
    delete result.patternProperties;
  }
  return result;
}

const { $defs, methods, notifications, protocolVersion } = JSON.parse(await readFile(schemaFile, "utf8"));
const types = await compile({ $id: "Protocol", type: "object", definitions: simplify($defs) }, "Protocol", {
  additionalProperties: false,
  bannerComment: "",
  style: { printWidth: 120 },
  unreachableDefinitions: true,
});

const typeOf = (schema) => schema.$ref.replace("#/$defs/", "");
const source = `/**
 * The wire types and methods. Generated from schema/protocol.schema.json by \`npm run types\`; not edited by hand.
 */

/** The protocol version that these types are of. */
export const PROTOCOL_VERSION = ${protocolVersion};

/** Parameters and result of every method. */
export interface Methods {
${Object.entries(methods).map(([name, { params, result }]) => `  ${name}: { params: ${typeOf(params)}; result: ${typeOf(result)} };`).join("\n")}
}

/** Parameters of every notification to the client. */
export interface Notifications {
${Object.entries(notifications).map(([name, { params }]) => `  ${JSON.stringify(name)}: ${typeOf(params)};`).join("\n")}
}

${types
  .replace(/^export interface Protocol \{\}\n/m, "")
  .replace(/\n?^ \* This (interface|type) was referenced by `Protocol`'s JSON-Schema\n \* via the `definition` ".*"\.\n( \*\n)?/gm, "\n")
  .replace(/^\/\*\*\n+ \*\/\n/gm, "")
  .replace(/^( \* .*)\n \*\n\n? \*\/$/gm, "$1\n */")
  .replace(/\n{3,}/g, "\n\n")
  .trim()}
`;

if (process.argv.includes("--check")) {
  if ((await readFile(target, "utf8").catch(() => "")) !== source) {
    console.error("src/protocol.ts does not follow schema/protocol.schema.json. Run `npm run types` in editor-clients/vscode.");
    process.exit(1);
  }
} else {
  await writeFile(target, source);
}
