/** Common mistakes behind the real bridge: the message has the file, the line and the fix. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { start } from "../src/testing.js";

const bridge = process.env.MCPBRIDGE_BIN ?? fileURLToPath(new URL("../../../bin/mcpbridge", import.meta.url));
let folder = ""; // In the package, so that it may be imported by its name.

beforeAll(() => {
  folder = mkdtempSync(fileURLToPath(new URL("mistakes-", import.meta.url)));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

// three lines
const BEGIN = 'import { app } from "mcpbridge";\nimport { z } from "zod";\nconst a = app("tools", "1");\n';

function write(name: string, text: string): string[] {
  writeFileSync(join(folder, name), text);
  return [process.execPath, join(folder, name)];
}

/** The bridge's output if the backend does not start. */
async function outputOfFailedStart(command: string[]): Promise<string> {
  const run = spawn(bridge, ["run", "--log-format", "text", "--stdio", "--", ...command], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  run.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(run, "close")) as [number];
  expect(code).toBe(7);
  return output;
}

describe("a backend does not start", () => {
  test.each<[string, string, string, string]>([
    [
      "a wrong schema",
      "a.mjs",
      `${BEGIN}a.tool("t", { description: "d", input: { n: "number" } }, () => 1);\nawait a.run();`,
      'DefinitionError: a.mjs:4: tool "t": input: "n" is not a schema; write z.string()',
    ],
    [
      "no handler",
      "b.mjs",
      `${BEGIN}a.tool("t", ({ n }) => n);\nawait a.run();`,
      'DefinitionError: b.mjs:4: tool "t": has no handler; write tool(name, options, (args, ctx) => ...)',
    ],
    [
      "a misspelt option",
      "i.mjs",
      `${BEGIN}a.tool("t", { description: "d", readonly: true }, () => 1);\nawait a.run();`,
      'DefinitionError: i.mjs:4: tool "t": there is no option "readonly"; did you mean readOnly?',
    ],
    [
      "a list where there is text",
      "j.mjs",
      `${BEGIN}a.prompt("p", { arguments: { n: z.array(z.int()) } }, () => "");\nawait a.run();`,
      'DefinitionError: j.mjs:4: prompt "p": arguments: "n" is sent as text, and cannot be an array; write z.string()',
    ],
    [
      "a crash at import",
      "c.mjs",
      `${BEGIN}JSON.parse("{");`,
      "SyntaxError: Expected property name or '}' in JSON at position 1",
    ],
    [
      "a typing error",
      "d.mjs",
      `${BEGIN}a.tool("t", { description "d" }, () => 1);`,
      "SyntaxError: Unexpected string at FOLDER/d.mjs:4",
    ],
    [
      "a file that is not there",
      "e.mjs",
      'import "./none.mjs";',
      "Cannot find module 'FOLDER/none.mjs' imported from FOLDER/e.mjs",
    ],
    [
      "a module in a .cjs",
      "f.cjs",
      BEGIN,
      'name the file .mjs or .mts, or have "type": "module" in package.json at FOLDER/f.cjs:1',
    ],
  ])("with %s", async (_, name, text, fix) => {
    const output = await outputOfFailedStart(write(name, text));
    const [, hint = output] = /^ {2}fix: {3}(.*)$/m.exec(output) ?? [];
    expect(hint).toMatch(/^correct its last error: /);
    expect(hint).toContain(fix.replaceAll("FOLDER", folder));
    if (name !== "e.mjs") expect(hint).toMatch(new RegExp(`at .*${basename(name)}:\\d+$`)); // Node names no line there.
  });

  test("with several mistakes, and reports all", async () => {
    const output = await outputOfFailedStart(
      write(
        "k.mjs",
        `${BEGIN}a.tool("t", { readonly: true }, () => 1);\n` +
          `a.tool("u", { input: { n: z.int().default("seven") } }, () => 1);\nawait a.run();`,
      ),
    );
    expect(output).toContain(
      'DefinitionError: k.mjs:4: tool "t": there is no option "readonly"; did you mean readOnly?',
    );
    expect(output).toContain(
      'k.mjs:5: tool "u": input: "n": the default "seven" is invalid: Invalid input: expected number, received string',
    );
  });

  test("with an app that is not run", async () => {
    const output = await outputOfFailedStart(write("g.mjs", `${BEGIN}a.tool("t", { description: "d" }, () => 1);`));
    expect(output).toContain('mcpbridge: g.mjs:3: the app "tools" was never run; end the file with: await a.run()');
    expect(output).toContain("fix:   it ended without serving;");
  });
});

test("a backend starts with a noisy import and without a description, and logs the line of an exception", async () => {
  const text =
    `console.log("noise");\n${BEGIN}` +
      `a.tool("t", {}, () => {\n  const o = undefined;\n  return o.x;\n});\nawait a.run();`;
  await using client = await start(write("h.mjs", text), { bridge });
  expect(await client.call("t")).toBe("Cannot read properties of undefined (reading 'x')");
  await client.close();
  expect(client.log).toContain('"message":"noise"');
  expect(client.log).toContain(
    'mcpbridge: h.mjs:5: tool \\"t\\" has no description, by which models select tools; ' +
        'write { description: \\"...\\" }',
  );
  const failed = client.log.split("\n").find((line) => line.includes("failed at")) ?? "";
  expect(failed).toMatch(/^{"level":"error",.*"stack":".*h\.mjs:7:/); // In one piece.
  expect(failed).toContain('"message":"tool \\"t\\" failed at h.mjs:7: TypeError: Cannot read properties of undefined');
});
