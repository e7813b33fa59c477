/** What the README shows compiles. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runInThisContext } from "node:vm";

import ts from "typescript";
import { expect, test } from "vitest";
import { z } from "zod";

import { app, type App } from "../src/index.js";
import { call } from "../src/testing.js";

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

/** An app that has what the first block of a section defines. */
function defined(section: string): App {
  const [, code = ""] = /```ts\n(.*?)^```/ms.exec(readme.split(`## ${section}\n`)[1] ?? "") ?? [];
  const define = runInThisContext(`(a, z) => {${ts.transpile(code, { target: ts.ScriptTarget.ES2022 })}}`) as (a: App, zod: typeof z) => void;
  const a = app("weather", "1.0.0");
  define(a, z);
  return a;
}

test("choices have titles for the user, and values for the handler", async () => {
  const called = await call(defined("Choices with titles"), "pizza", {}, { elicit: [{ size: "s", toppings: ["egg", "ham"] }] });
  expect(called.text).toBe("A pizza of size s with egg and ham.");
  const request = called.asked[0]?.request;
  const form = request?.$case === "elicit" && request.value.mode?.$case === "form" ? request.value.mode.value.requestedSchema : "";
  expect(JSON.parse(Buffer.from(form).toString())).toMatchObject({
    properties: {
      size: { oneOf: [{ const: "s", title: "Small" }, { const: "l", title: "Large" }] },
      toppings: { items: { anyOf: [{ const: "egg", title: "A fried egg" }, { const: "ham", title: "ham" }] }, maxItems: 2 },
    },
  });
});

test("what comes and goes is notified", async () => {
  const a = defined("What comes and goes");
  let woken = 0;
  const listener = a.changes.listen(a.canTell({ toolsListChanged: true, resourceSubscriptions: [], extra: new Uint8Array() }), () => { woken++; });
  const names = () => a.listTools({}).tools.map((t) => t.name);
  expect((await call(a, "login")).text).toBe("welcome");
  expect([names(), woken, listener.next()?.event?.$case]).toEqual([["login", "logout"], 1, "toolsListChanged"]);
  expect((await call(a, "logout")).text).toBe("bye");
  expect([names(), woken, listener.next()?.event?.$case]).toEqual([["login"], 2, "toolsListChanged"]);
});
