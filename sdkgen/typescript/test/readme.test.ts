/** What the README shows compiles. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import ts from "typescript";
import { expect, test } from "vitest";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const readme = readFileSync(here("../README.md"), "utf8");
const options = ts.parseJsonConfigFileContent(ts.readConfigFile(here("../tsconfig.json"), (f) => ts.sys.readFile(f)).config, ts.sys, here("..")).options;

// Later blocks go on where the first stopped. Each is a file of this package, which may import itself by its name.
const beginning = `import { app, assistant, NotFound, part, user } from "mcpbridge"; import { z } from "zod"; import { expect } from "vitest";
const a = app("weather", "1.0.0"); void [a, assistant, NotFound, part, user, z, expect];\n`;
const blocks = [...readme.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = ""]) => (code.includes("const a = app(") ? code : beginning + code));

test("every block of TypeScript compiles", () => {
  expect(blocks.length).toBeGreaterThan(4);
  const files = new Map(blocks.map((code, i) => [here(`readme-${String(i)}.ts`), `export {};\n${code}`]));
  const host = ts.createCompilerHost(options);
  host.readFile = (name) => files.get(name) ?? ts.sys.readFile(name);
  host.fileExists = (name) => files.has(name) || ts.sys.fileExists(name);
  host.getSourceFile = (name, language) => {
    const text = host.readFile(name);
    return text === undefined ? undefined : ts.createSourceFile(name, text, language);
  };
  const wrong = ts.getPreEmitDiagnostics(ts.createProgram([...files.keys()], options, host));
  expect(wrong.map((d) => `${d.file?.fileName ?? ""}: ${ts.flattenDiagnosticMessageText(d.messageText, "\n")}`)).toEqual([]);
});
