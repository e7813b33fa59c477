// The tour's own test: it likes a peer that keeps every promise, and finds each fault that we put into one.
import { describe, expect, test } from "vitest";

import { Lines } from "./lines.ts";
import type { CallOptions, LogMessage, Peer, Tool, ToolResult } from "./peer.ts";
import { tour } from "./tour.ts";

test("a peer that keeps every promise passes", async () => {
  const log = new Lines();
  const peer = honest(log);
  for (const stop of tour) await stop.visit(peer, log);
});

const faults: { fault: string; stop: string; breaks: (peer: Peer, log: Lines) => Partial<Peer> }[] = [
  {
    fault: "a tool is missing",
    stop: "lists the tools with their schemas",
    breaks: (peer) => ({ tools: async () => (await peer.tools()).slice(1) }),
  },
  {
    fault: "a wrong sum",
    stop: "calls a tool",
    breaks: () => ({ call: () => Promise.resolve(text("41")) }),
  },
  {
    fault: "text and structure disagree",
    stop: "gets a structured result, and the same as text",
    breaks: (peer) => ({ call: async (...a) => ({ ...(await peer.call(...a)), ...text(`{"city":"Bergen"}`) }) }),
  },
  {
    fault: "progress is lost",
    stop: "sees progress in order, all of it before the result",
    breaks: (peer) => ({
      call: (name, args, o) => peer.call(name, args, { ...o, onProgress: (p) => p.progress !== 2 && o?.onProgress?.(p) }),
    }),
  },
  {
    fault: "progress comes after the result",
    stop: "sees progress in order, all of it before the result",
    breaks: (peer) => ({
      call: (name, args, o) => peer.call(name, args, { ...o, onProgress: (p) => setTimeout(() => o?.onProgress?.(p)) }),
    }),
  },
  {
    fault: "the question comes twice",
    stop: "answers a question",
    breaks: (peer) => ({
      call: async (...a) => {
        await peer.call(...a);
        return peer.call(...a);
      },
    }),
  },
  {
    fault: "a refusal is taken for an answer",
    stop: "declines to answer",
    breaks: (peer) => ({
      answer: () => {
        peer.answer(() => ({ action: "accept", content: { colour: "green" } }));
      },
    }),
  },
  {
    fault: "logs are swallowed",
    stop: "gets what the tool logs, and the bridge what it prints",
    breaks: () => ({ logs: [] }),
  },
  {
    fault: "an answer goes to another caller",
    stop: "keeps calls that run together apart",
    breaks: (peer) => {
      let previous = peer.call("add", { a: 0, b: 0 });
      return {
        call: (...a) => {
          const mine = previous;
          previous = peer.call(...a);
          return mine;
        },
      };
    },
  },
  {
    fault: "a cancelled call goes on at the backend",
    stop: "cancels a running call, which ends at the backend",
    breaks: (peer) => ({
      call: (name, args, o) => {
        const unheard = peer.call(name, args, o?.onProgress ? { onProgress: o.onProgress } : {});
        return new Promise((done, failed) => {
          unheard.then(done, failed);
          o?.signal?.addEventListener("abort", () => {
            failed(new Error("the client gave up"));
          });
        });
      },
    }),
  },
  {
    fault: "an answer goes to another question",
    stop: "keeps questions of calls that run together apart",
    breaks: (peer) => ({
      answer: (reply) => {
        peer.answer((ask) => reply({ ...ask, message: ask.message.replace("Bob", "Eve") }));
      },
    }),
  },
  {
    fault: "an old list is listed",
    stop: "is told that the tools have changed",
    breaks: (peer) => {
      const old = peer.tools();
      return { tools: () => old };
    },
  },
  {
    fault: "an unknown tool is a tool's own failure",
    stop: "is told that a tool is unknown",
    breaks: () => ({ call: () => Promise.resolve({ ...text("no_such_tool"), isError: true }) }),
  },
  {
    fault: "bad arguments get through",
    stop: "is told that arguments are invalid",
    breaks: () => ({ call: () => Promise.resolve(text("a42")) }),
  },
  {
    fault: "a cancelled call is answered",
    stop: "has nothing to complain about",
    breaks: () => ({ complaints: ["Received a response for an unknown message ID"] }),
  },
];

describe("the tour finds that", () => {
  for (const { fault, stop, breaks } of faults) {
    test(fault, async () => {
      const log = new Lines(50);
      const peer = honest(log);
      const found = tour.find((s) => s.name === stop);
      await found?.visit(peer, log); // so it is the fault that makes the difference
      await expect(async () => {
        await found?.visit({ ...peer, ...breaks(peer, log) }, log);
      }).rejects.toThrow();
    });
  }
});

/** A peer in memory that does what the Python example does behind a bridge without faults. */
function honest(log: Lines): Peer {
  const logs: LogMessage[] = [];
  let answer: Parameters<Peer["answer"]>[0] = () => ({ action: "cancel" });

  const handlers: Record<string, (args: Record<string, unknown>, o: CallOptions) => ToolResult | Promise<ToolResult>> = {
    add({ a, b }) {
      if (typeof a !== "number" || typeof b !== "number") return { ...text("a is not an integer"), isError: true };
      return text(String(a + b));
    },
    forecast({ city }) {
      return { ...text(JSON.stringify({ city })), structuredContent: { city } };
    },
    async countdown({ steps }, { onProgress }) {
      for (let done = 0; done <= Number(steps); done++) onProgress?.({ progress: done, total: Number(steps) });
      await Promise.resolve();
      return text("Lift-off!");
    },
    greet({ name }) {
      const colour = { type: "string", enum: ["red", "green", "blue"] };
      const got = answer({ message: `Hello ${String(name)}!`, requestedSchema: { properties: { colour } } });
      if (got.action !== "accept") return text("You keep it to yourself.");
      return text(`Hello ${String(name)}, here is something ${String(got.content.colour)} for you.`);
    },
    noisy() {
      log.write("printed line 1\nan error line 1\n");
      for (const line of ["logged line 0", "logged line 1"]) logs.push({ level: "info", data: line });
      logs.push({ level: "warning", data: { lines: 2 } });
      return text("Nothing broke.");
    },
    linger(_, { signal, onProgress }) {
      onProgress?.({ progress: 0 });
      return new Promise((_, failed) => {
        signal?.addEventListener("abort", () => {
          log.write("linger: cancelled\n");
          failed(new Error("cancelled"));
        });
      });
    },
    learn() {
      handlers.trick = () => text("Ta-da!");
      return text("It takes practice.");
    },
    forget() {
      delete handlers.trick;
      return text("What was it?");
    },
  };

  return {
    revision: "2026-07-28",
    logs,
    complaints: [],
    answer(reply) {
      answer = reply;
    },
    logLevel: () => Promise.resolve(),
    tools: () => Promise.resolve(Object.keys(handlers).map(describeTool)),
    toolsChange: () => Promise.resolve(),
    async call(name, args, o = {}) {
      const handler = handlers[name];
      if (!handler) throw Object.assign(new Error(`unknown tool ${name}`), { code: -32602 });
      return handler(args, o);
    },
    close: () => Promise.resolve(),
  };
}

function describeTool(name: string): Tool {
  const integer = { type: "integer" };
  return {
    name,
    description: `What ${name} does.`,
    inputSchema: { type: "object", properties: { a: integer, b: integer }, required: ["a", "b"] },
    outputSchema: { type: "object" },
  };
}

function text(said: string): ToolResult {
  return { content: [{ type: "text", text: said }] };
}
