// The tour: what every client does with the Python example, in this order, on one connection.
import assert from "node:assert/strict";

import type { Lines } from "./lines.ts";
import type { Ask, Peer, Progress, ToolResult } from "./peer.ts";

export interface Stop {
  name: string;
  /** Throws when the server did not keep its promise. `log` is what the bridge wrote on stderr. */
  visit(peer: Peer, log: Lines): Promise<void>;
}

export const tour: Stop[] = [
  {
    name: "lists the tools with their schemas",
    async visit(peer) {
      const tools = new Map((await peer.tools()).map((t) => [t.name, t]));
      for (const name of ["add", "countdown", "forecast", "greet", "noisy"]) {
        const tool = tools.get(name);
        assert.ok(tool, `${name} is not among ${[...tools.keys()].join(", ")}`);
        assert.equal(tool.inputSchema.type, "object", `${name}: an input schema is an object's`);
        assert.ok(tool.description, `${name} has no description`);
      }
      const add = tools.get("add")?.inputSchema;
      assert.deepEqual(add?.required, ["a", "b"]);
      assert.equal(typeOf(add.properties, "a"), "integer");
      assert.equal(typeOf(add.properties, "b"), "integer");
      assert.ok(tools.get("forecast")?.outputSchema, "forecast has no output schema");
    },
  },
  {
    name: "calls a tool",
    async visit(peer) {
      const result = await peer.call("add", { a: 2, b: 40 });
      assert.ok(!result.isError, said(result));
      assert.match(said(result), /\b42\b/);
    },
  },
  {
    name: "gets a structured result, and the same as text",
    async visit(peer) {
      const result = await peer.call("forecast", { city: "Oslo" });
      assert.ok(!result.isError, said(result));
      assert.ok(isObject(result.structuredContent), "no structured content");
      assert.equal(result.structuredContent.city, "Oslo");
      assert.deepEqual(JSON.parse(said(result)), result.structuredContent);
    },
  },
  {
    name: "sees progress in order, all of it before the result",
    async visit(peer) {
      const seen: Progress[] = [];
      const result = await peer.call("countdown", { steps: 3 }, { onProgress: (p) => seen.push(p) });
      const atResult = [...seen];
      assert.ok(!result.isError, said(result));
      assert.deepEqual(
        atResult.map((p) => [p.progress, p.total]),
        [
          [1, 3],
          [2, 3],
          [3, 3],
        ],
      );
    },
  },
  {
    name: "answers a question",
    async visit(peer) {
      const asks: Ask[] = [];
      peer.answer((ask) => {
        asks.push(ask);
        return { action: "accept", content: { name: "Ada" } };
      });
      const result = await peer.call("greet", {});
      assert.ok(!result.isError, said(result));
      assert.match(said(result), /\bAda\b/);
      assert.equal(asks.length, 1, "the question came once");
      assert.ok(asks[0]?.message, "the question says what it wants");
      assert.equal(typeOf(asks[0].requestedSchema.properties, "name"), "string");
    },
  },
  {
    name: "declines to answer",
    async visit(peer) {
      let asked = 0;
      peer.answer(() => {
        asked++;
        return { action: "decline" };
      });
      const result = await peer.call("greet", {});
      assert.equal(asked, 1, "the question came once");
      assert.doesNotMatch(said(result), /\bAda\b/);
    },
  },
  {
    name: "gets log messages, and none of what the tool prints",
    async visit(peer, log) {
      await peer.logLevel("debug");
      const before = peer.logs.length;
      const mark = log.mark;
      const result = await peer.call("noisy", {});
      assert.ok(!result.isError, said(result));
      assert.ok(peer.logs.length > before, "no log message came before the result");
      await log.find(/noisy|print/i, mark);
    },
  },
  {
    name: "keeps calls that run together apart",
    async visit(peer) {
      const sums = await Promise.all(
        Array.from({ length: 20 }, async (_, i) => said(await peer.call("add", { a: i, b: 1000 }))),
      );
      sums.forEach((sum, i) => {
        assert.match(sum, new RegExp(`\\b${String(1000 + i)}\\b`));
      });
    },
  },
  {
    name: "cancels a running call, which ends at the backend",
    async visit(peer, log) {
      const mark = log.mark;
      const stop = new AbortController();
      const started = signal();
      const call = peer.call("countdown", { steps: 100_000 }, { signal: stop.signal, onProgress: started.fire });
      await Promise.race([started.fired, call]); // a call that fails before it starts tells why
      stop.abort(new Error("the tour has seen enough"));
      await assert.rejects(call);
      await log.find(/countdown.*cancel|cancel.*countdown/i, mark);
    },
  },
  {
    name: "goes on after a cancelled call",
    async visit(peer) {
      for (let i = 0; i < 5; i++) assert.match(said(await peer.call("add", { a: i, b: 1 })), new RegExp(`\\b${String(i + 1)}\\b`));
    },
  },
  {
    name: "is told that a tool is unknown",
    async visit(peer) {
      await assert.rejects(peer.call("no_such_tool", {}), (e: unknown) => {
        assert.ok(e instanceof Error && "code" in e, "an error with a code");
        assert.equal(e.code, -32602, e.message);
        assert.match(e.message, /no_such_tool/);
        return true;
      });
    },
  },
  {
    name: "is told that arguments are invalid",
    async visit(peer) {
      // Since 2025-11-25 bad input is a result that the model can read and correct, not a protocol error (SEP-1303).
      const result = await peer.call("add", { a: "two", b: 40 });
      assert.equal(result.isError, true, said(result));
      assert.match(said(result), /\ba\b/, "the text names the argument");
    },
  },
  {
    name: "has nothing to complain about",
    visit(peer) {
      assert.deepEqual(peer.complaints, []);
      return Promise.resolve();
    },
  },
];

/** The text of a result. */
export function said(result: ToolResult): string {
  return result.content.map((c) => c.text ?? "").join("\n");
}

/** The type that a schema's properties give to one of them. */
function typeOf(properties: unknown, name: string): unknown {
  const property = isObject(properties) ? properties[name] : undefined;
  return isObject(property) ? property.type : undefined;
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null;
}

/** Something that happens once, and somebody who waits for it. */
function signal() {
  let fire: () => void = () => undefined;
  const fired = new Promise<void>((done) => {
    fire = done;
  });
  return { fire, fired };
}
