/** The examples in the README compile and run. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runInThisContext } from "node:vm";

import ts from "typescript";
import { expect, test } from "vitest";
import { z } from "zod";

import { app, toolResult, user, type App } from "../src/index.js";
import { call } from "../src/testing.js";
import { CreateMessageResult } from "../src/v1.js";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const readme = readFileSync(here("../README.md"), "utf8");
const options =
  ts.parseJsonConfigFileContent(
    ts.readConfigFile(here("../tsconfig.json"), (f) => ts.sys.readFile(f)).config,
    ts.sys,
    here(".."),
  ).options;

// Later blocks continue the first one. Each is a file of this package, which may import itself by its name.
const beginning =
  `import { app, assistant, NotFound, part, toolResult, user } from "mcpbridge";
import { z } from "zod"; import { expect } from "vitest";
const a = app("weather", "1.0.0"); void [a, assistant, NotFound, part, toolResult, user, z, expect];\n`;
const blocks = [...readme.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = ""]) =>
  (code.includes("const a = app(") ? code : beginning + code),
);

test("every TypeScript block compiles", () => {
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
  expect(wrong.map((d) => `${d.file?.fileName ?? ""}: ${ts.flattenDiagnosticMessageText(d.messageText, "\n")}`))
    .toEqual([]);
});

/** Returns an app with the definitions of a section's first block. */
function defined(section: string): App {
  const [, code = ""] = /```ts\n(.*?)^```/ms.exec(readme.split(`## ${section}\n`)[1] ?? "") ?? [];
  const a = app("weather", "1.0.0");
  const names = { a, toolResult, user, z };
  const source = ts.transpile(code, { target: ts.ScriptTarget.ES2022 });
  const define = runInThisContext(`(${Object.keys(names).join()}) => {${source}}`) as (...values: unknown[]) => void;
  define(...Object.values(names));
  return a;
}

test("choices have titles for the user, and values for the handler", async () => {
  const called = await call(defined("Choices with titles"), "pizza", {}, {
    elicit: [{ size: "s", toppings: ["egg", "ham"] }],
  });
  expect(called.text).toBe("A pizza of size s with egg and ham.");
  const request = called.asked[0]?.request;
  const form = request?.$case === "elicit" && request.value.mode?.$case === "form"
    ? request.value.mode.value.requestedSchema
    : "";
  expect(JSON.parse(form)).toMatchObject({
    properties: {
      size: { oneOf: [{ const: "s", title: "Small" }, { const: "l", title: "Large" }] },
      toppings: {
        items: { anyOf: [{ const: "egg", title: "A fried egg" }, { const: "ham", title: "ham" }] },
        maxItems: 2,
      },
    },
  });
});

test("a model calls a tool, and continues with its result", async () => {
  const wish = { block: { $case: "toolUse" as const, value: { id: "1", name: "degrees", input: '{"city":"oslo"}' } } };
  const wishes = CreateMessageResult.fromPartial({
    role: "assistant",
    content: [wish],
    model: "m",
    stopReason: "toolUse",
  });
  const called = await call(defined("Sampling with tools"), "advise", { question: "Do I need a coat?" }, {
    sample: [wishes, "Yes, a warm one."],
  });
  expect([called.text, called.rounds]).toEqual(["Yes, a warm one.", 3]);
  const [first, second] = called.asked.map(({ request }) =>
    (request?.$case === "createMessage" ? request.value : undefined),
  );
  expect(first).toMatchObject({ maxTokens: 500, tools: [{ name: "degrees" }], messages: [{ role: "user" }] });
  const result = { toolUseId: "1", content: [{ block: { $case: "text", value: { text: "12" } } }] };
  expect(second?.messages).toMatchObject([
    { role: "user", content: [{ block: { value: { text: "Do I need a coat?" } } }] },
    { role: "assistant", content: [wish] },
    { role: "user", content: [{ block: { $case: "toolResult", value: result } }] },
  ]);
});

test("a tool with tasks is called like others", async () => {
  const called = await call(defined("Tasks"), "report", { year: 2026 }, { elicit: [{ style: "short" }] });
  expect([called.text, called.progress.length]).toEqual(["The short report of 2026.", 12]);
});

test("the README has the sections of the Python guide", () => {
  const sections = (text: string) => [...text.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
  expect(sections(readme)).toEqual(sections(readFileSync(here("../../python/README.md"), "utf8")));
});

test("additions and removals are notified", async () => {
  const a = defined("Lists that change");
  let woken = 0;
  const listener = a.changes.listen(
    a.supported({ toolsListChanged: true, resourceSubscriptions: [], taskIds: [], extra: "" }),
    () => {
      woken++;
    },
  );
  const names = () => a.listTools({}).tools.map((t) => t.name);
  expect((await call(a, "login")).text).toBe("welcome");
  expect([names(), woken, listener.next()?.event?.$case]).toEqual([["login", "logout"], 1, "toolsListChanged"]);
  expect((await call(a, "logout")).text).toBe("bye");
  expect([names(), woken, listener.next()?.event?.$case]).toEqual([["login"], 2, "toolsListChanged"]);
});
