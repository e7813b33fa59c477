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
      for (const name of ["a", "b"]) assert.equal(property(add.properties, name)?.type, "integer");
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
      const result = await peer.call("countdown", { steps: 3, seconds: 0.02 }, { onProgress: (p) => seen.push(p) });
      const atResult = [...seen];
      assert.ok(!result.isError, said(result));
      assert.deepEqual(
        atResult.map((p) => [p.progress, p.total]),
        [
          [0, 3],
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
        return { action: "accept", content: { colour: "green" } };
      });
      const result = await peer.call("greet", { name: "Ada" });
      assert.ok(!result.isError, said(result));
      assert.match(said(result), /Ada.*\bgreen\b/);
      assert.equal(asks.length, 1, "the question comes once");
      assert.match(asks[0]?.message ?? "", /Ada/);
      const colour = property(asks[0]?.requestedSchema.properties, "colour");
      assert.deepEqual([colour?.type, colour?.enum], ["string", ["red", "green", "blue"]]);
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
      const result = await peer.call("greet", { name: "Ada" });
      assert.ok(!result.isError, said(result));
      assert.equal(asked, 1, "the question comes once");
      assert.match(said(result), /to yourself/);
    },
  },
  {
    name: "keeps questions of calls that run together apart",
    async visit(peer) {
      const colours = new Map([
        ["Ada", "red"],
        ["Bob", "green"],
        ["Eve", "blue"],
      ]);
      peer.answer((ask) => {
        const colour = colours.get(/Hello (\w+)!/.exec(ask.message)?.[1] ?? "");
        return colour ? { action: "accept", content: { colour } } : { action: "cancel" };
      });
      const greetings = await Promise.all([...colours.keys()].map(async (name) => said(await peer.call("greet", { name }))));
      assert.deepEqual(
        greetings,
        [...colours].map(([name, colour]) => `Hello ${name}, here is something ${colour} for you.`),
      );
    },
  },
  {
    name: "gets what the tool logs, and the bridge what it prints",
    async visit(peer, log) {
      await peer.logLevel("debug");
      const before = peer.logs.length;
      const mark = log.mark;
      const result = await peer.call("noisy", { lines: 2 });
      assert.ok(!result.isError, said(result));
      assert.deepEqual(
        peer.logs.slice(before).map((l) => [l.level, l.data]),
        [
          ["info", "logged line 0"],
          ["info", "logged line 1"],
          ["warning", { lines: 2 }],
        ],
      );
      await log.find(/printed line 1/, mark);
      await log.find(/an error line 1/, mark);
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
      const call = peer.call("linger", {}, { signal: stop.signal, onProgress: started.fire });
      await Promise.race([started.fired, call]); // a call that fails before it starts tells why
      stop.abort(new Error("the tour has seen enough"));
      await assert.rejects(call);
      await log.find(/linger: cancelled/, mark);
    },
  },
  {
    name: "goes on after a cancelled call",
    async visit(peer) {
      for (let i = 0; i < 5; i++) assert.match(said(await peer.call("add", { a: i, b: 1 })), new RegExp(`\\b${String(i + 1)}\\b`));
    },
  },
  {
    name: "is told that the tools have changed",
    async visit(peer) {
      const names = async () => (await peer.tools()).map((t) => t.name);
      let change = peer.toolsChange();
      await peer.call("learn", {});
      await soon(change, "nothing said that there is a new tool");
      assert.ok((await names()).includes("trick"), "the new tool is listed");
      assert.match(said(await peer.call("trick", {})), /Ta-da/);

      change = peer.toolsChange();
      await peer.call("forget", {});
      await soon(change, "nothing said that a tool is gone");
      assert.ok(!(await names()).includes("trick"), "the tool is not listed any more");
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

/** What a schema says of one of its properties. */
function property(properties: unknown, name: string): Record<string, unknown> | undefined {
  const found = isObject(properties) ? properties[name] : undefined;
  return isObject(found) ? found : undefined;
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null;
}

/** Waits for what has to happen soon. */
async function soon(event: Promise<void>, otherwise: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, failed) => {
    timer = setTimeout(() => {
      failed(new Error(otherwise));
    }, 5_000);
  });
  await Promise.race([event, late]).finally(() => {
    clearTimeout(timer);
  });
}

/** Something that happens once, and somebody who waits for it. */
function signal() {
  let fire: () => void = () => undefined;
  const fired = new Promise<void>((done) => {
    fire = done;
  });
  return { fire, fired };
}
