/** Questions: rounds, answers, and the state between rounds. */
import type {
  ModelPreferences,
  SamplingMessage,
  TextContent,
  Tool,
  ToolChoice,
} from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";

import {
  app,
  assistant,
  type Context,
  inputRequired,
  InvalidAnswer,
  McpError,
  NoAnswer,
  Refused,
  result,
  toolResult,
  Unsupported,
  user,
} from "../src/index.js";
import {
  CallToolRequest,
  ClientCapabilities,
  CreateMessageRequest,
  InputError_Reason,
  type InputResponse,
} from "../src/v1.js";
import { call, EVERYTHING, prompt, read } from "../src/testing.js";

const Colour = { colour: z.enum(["red", "green"]) };
const nowhere = () => Promise.resolve();
const tool = (handler: (args: object, ctx: Context) => unknown) => app("test", "1").tool("t", {}, handler);

test("a question ends the round and its answer returns", async () => {
  let rounds = 0;
  const a = tool(async (_, ctx) => {
    rounds++;
    const answer = await ctx.elicit("Which colour?", Colour);
    return answer.accepted ? answer.data.colour : answer.action;
  });
  const called = await call(a, "t", {}, { elicit: [{ colour: "red" }] });
  expect([called.text, called.rounds, rounds]).toEqual(["red", 2, 2]);
  const form = called.asked[0]?.request?.$case === "elicit" && called.asked[0].request.value.mode?.value;
  expect(form).toMatchObject({ message: "Which colour?" });
  expect((await call(a, "t", {}, { elicit: ["decline"] })).text).toBe("decline");
  expect((await call(a, "t", {}, { elicit: ["cancel"] })).text).toBe("cancel");
});

describe("a question ends the round even if the handler", () => {
  test.each<[string, (ctx: Context) => unknown]>([
    ["by catching everything", async (ctx) => {
      try {
        return (await ctx.elicit("A?", z.string())).data;
      } catch {
        return "swallowed";
      }
    }],
    ["by throwing something else", async (ctx) => {
      try {
        return (await ctx.elicit("A?", z.string())).data;
      } catch {
        throw new Error("another");
      }
    }],
    ["by settling", async (ctx) => {
      const [one] = await Promise.allSettled([ctx.elicit("A?", z.string())]);
      return one.status === "fulfilled" ? one.value.data : "lost";
    }],
    ["by Promise.catch", (ctx) => ctx.elicit("A?", z.string()).then((a) => a.data).catch(() => "swallowed")],
    ["by finally", (ctx) => ctx.elicit("A?", z.string()).finally(() => undefined).then((a) => a.data)],
  ])("%s", async (_, handler) => {
    expect((await call(tool((_, ctx) => handler(ctx)), "t", {}, { elicit: ["a"] })).text).toBe("a");
  });
});

test("a question that is not awaited fails the call with its line, answered or not", async () => {
  const quiet = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const a = tool((_, ctx) => `hi ${String(Reflect.get(ctx.elicit("Name?", { name: z.string() }), "data"))}`);
  const called = await call(a, "t");
  expect(called).toMatchObject({ rounds: 1, isError: true });
  expect(called.text).toMatch(
    /^the question at ask\.test\.ts:\d+ was not awaited; write: await ctx\.elicit\(\.\.\.\)$/,
  );
  expect(quiet.mock.calls.join()).toMatch(/^tool "t" failed at ask\.test\.ts:\d+: TypeError: the question at /);
  const second = tool(async (_, ctx) => {
    const [name, colour] = [ctx.elicit("Name?", z.string()), ctx.elicit("Colour?", z.string())];
    void colour;
    return (await name).data;
  });
  expect(await call(second, "t", {}, { elicit: ["Ada", "red"] })).toMatchObject({ rounds: 2, isError: true });
  quiet.mockRestore();
});

test("once keeps values over many rounds", async () => {
  const charged: unknown[] = [];
  const a = tool(async (_, ctx) => {
    const size = (await ctx.elicit("Size?", z.number())).data;
    const [receipt, again] = await Promise.all([1, 2].map(() =>
      ctx.once("charge", async () => {
        await Promise.resolve();
        charged.push(size);
        return { size };
      })
    ));
    const number = await ctx.once("number", () => charged.length);
    const name = (await ctx.elicit("Name?", z.string())).data;
    const second = (await ctx.elicit("Name?", z.string())).data;
    return [size, receipt, again, number, name, second];
  });
  const called = await call(a, "t", {}, { elicit: [7, "Ada", "Bob"] });
  expect(called.structured).toEqual({ result: [7, { size: 7 }, { size: 7 }, 1, "Ada", "Bob"] });
  expect([charged, called.rounds]).toEqual([[7], 4]);
});

test("a question with another text is asked again, unless it has a key", async () => {
  let price = 0;
  const a = tool(async (_, ctx) => (await ctx.elicit(`Pay ${Math.min(++price, 2)}?`, z.boolean())).data);
  const called = await call(a, "t", {}, { elicit: [true, false] });
  expect([called.structured, called.rounds]).toEqual([{ result: false }, 3]);
  const keyed = tool(async (_, ctx) => (await ctx.elicit(`It is ${++price}. Why?`, z.string(), { key: "why" })).data);
  expect(await call(keyed, "t", {}, { elicit: ["so"] })).toMatchObject({ text: "so", rounds: 2 });
});

test("several questions are asked in one round", async () => {
  const all = tool(async (_, ctx) => {
    const deep = async () => (await ctx.elicit("C?", z.string())).data + (await ctx.elicit("D?", z.string())).data;
    const [a, b, cd, roots] = await ctx.all([
      ctx.elicit("A?", z.string()),
      ctx.elicit("B?", z.string()),
      deep(),
      ctx.roots(),
    ]);
    return a.data + b.data + cd + (roots[0]?.uri ?? "");
  });
  expect(await call(all, "t", {}, { elicit: ["a", "b", "c", "d"], roots: ["file:///x"] })).toMatchObject({
    text: "abcdfile:///x",
    rounds: 3,
  });
  const promiseAll = tool(async (_, ctx) =>
    (await Promise.all([ctx.elicit("A?", z.string()), ctx.elicit("B?", z.string())])).map((a) => a.data).join("")
  );
  expect(await call(promiseAll, "t", {}, { elicit: ["a", "b"] })).toMatchObject({ text: "ab", rounds: 2 });
});

test("using a declined answer returns an error to the model", async () => {
  const a = tool(async (_, ctx) => (await ctx.elicit("Which colour?", Colour)).data.colour);
  expect(await call(a, "t", {}, { elicit: ["decline"] })).toMatchObject({
    isError: true,
    text: "the user declined: Which colour?",
  });
});

test("an answer that violates the schema is invalid; one of another kind is ignored", async () => {
  const a = tool(async (_, ctx) => {
    try {
      return (await ctx.elicit("Which colour?", Colour)).data.colour;
    } catch (e) {
      return e instanceof InvalidAnswer ? `invalid: ${e.message}` : "other";
    }
  });
  const called = await call(a, "t", {}, { elicit: [{ colour: "mauve" }] });
  expect(called.text).toBe(
    'invalid: the answer violates the schema of the form:\n' +
      '- colour: Invalid option: expected one of "red"|"green", got "mauve"',
  );
  const other: InputResponse = { response: { $case: "listRoots", value: { roots: [], meta: "", extra: "" } } };
  expect(await call(a, "t", {}, { elicit: [other, { colour: "red" }] })).toMatchObject({ text: "red", rounds: 3 });
});

test.each([
  [InputError_Reason.NO_ANSWER, NoAnswer],
  [InputError_Reason.UNSUPPORTED, Unsupported],
  [InputError_Reason.REFUSED, Refused],
])("a question that failed (%s) throws in each round", async (reason, kind) => {
  const a = tool(async (_, ctx) => {
    try {
      await ctx.elicit("A?", z.string());
      return "no error";
    } catch (e) {
      if (!(e instanceof kind)) throw e;
    }
    return (await ctx.elicit("B?", z.string())).data;
  });
  const error: InputResponse = { response: { $case: "error", value: { reason, message: "", data: "" } } };
  expect(await call(a, "t", {}, { elicit: [error, "b"] })).toMatchObject({ text: "b", rounds: 3 });
});

test.each<[object, "elicit" | "url" | "sample" | "roots" | "tools", boolean]>([
  [{}, "elicit", false],
  [{ elicitation: {} }, "elicit", true],
  [{ elicitation: { form: {} } }, "elicit", true],
  [{ elicitation: { url: {} } }, "elicit", false],
  [{ elicitation: {} }, "url", false],
  [{ elicitation: { url: {} } }, "url", true],
  [{}, "sample", false],
  [{ sampling: {} }, "sample", true],
  [{ sampling: {} }, "tools", false],
  [{ sampling: { tools: {} } }, "tools", true],
  [{}, "roots", false],
  [{ roots: {} }, "roots", true],
])("only supported questions are asked: %o %s", async (can, what, supported) => {
  const a = tool(async (_, ctx) => {
    if (what === "elicit") await ctx.elicit("A?");
    if (what === "url") await ctx.elicitUrl("A?", "https://x");
    if (what === "sample") await ctx.sample("A?");
    if (what === "tools") await ctx.sample("A?", { tools: ["t"] });
    if (what === "roots") await ctx.roots();
  });
  const context = { ...EVERYTHING, clientCapabilities: ClientCapabilities.fromPartial(can) };
  const { event } = await a.callTool(CallToolRequest.fromPartial({ name: "t", context }), nowhere);
  expect(event?.$case).toBe(supported ? "inputRequired" : "result");
  if (event?.$case === "result")
    expect(event.value).toMatchObject({
      isError: true,
      content: [{ block: { value: { text: expect.stringContaining("This client") as string } } }],
    });
});

test("sampling", async () => {
  const a = tool(async (_, ctx) => {
    const sample = await ctx.sample([user("Hi")], {
      system: "Be nice",
      model: "opus",
      tools: ["t"],
      toolChoice: "none",
      stop: ["."],
    });
    return [sample.text, sample.model, sample.toolCalls];
  });
  const called = await call(a, "t", {}, { sample: ["Hello"] });
  expect(called.structured).toEqual({ result: ["Hello", "test", []] });
  expect(called.asked[0]?.request?.value).toMatchObject({
    systemPrompt: "Be nice",
    maxTokens: 1024,
    tools: [{ name: "t" }],
    toolChoice: { mode: "none" },
    modelPreferences: { hints: [{ name: "opus" }] },
  });
});

test("sampling accepts objects in MCP's format, as in the official SDK", async () => {
  const text: TextContent = { type: "text", text: "Hi", annotations: { audience: ["user"], priority: 0.5 } };
  const use = { type: "tool_use", id: "1", name: "look", input: { at: 1 }, "x-more": true } as const;
  const results: Exclude<SamplingMessage["content"], { type: string }> = [
    {
      type: "tool_result",
      toolUseId: "1",
      content: [text, { type: "resource", resource: { uri: "x://a", text: "t" } }],
      structuredContent: {},
      isError: true,
    },
    { type: "image", data: "AQI=", mimeType: "image/png", _meta: { a: 1 } },
  ];
  const turns: SamplingMessage[] = [
    { role: "user", content: text },
    { role: "assistant", content: [use] },
    { role: "user", content: results },
  ];
  const tools: Tool[] = [{
    name: "look",
    inputSchema: { type: "object", properties: { at: { type: "integer" } } },
    annotations: { readOnlyHint: true },
  }];
  const toolChoice: ToolChoice = { mode: "required" };
  const model: ModelPreferences = { hints: [{ name: "m" }], costPriority: 1 };
  const a = tool(async (_, ctx) => (await ctx.sample([...turns, assistant("So?")], { tools, toolChoice, model })).text);
  const called = await call(a, "t", {}, { sample: ["Hello"] });
  expect(called.text).toBe("Hello");
  const raw = (value: object) => ({ block: { $case: "raw" as const, value: JSON.stringify(value) } });
  const expected = CreateMessageRequest.fromPartial({
    messages: [
      { role: "user", content: [raw(text)] },
      { role: "assistant", content: [raw(use)] },
      { role: "user", content: results.map(raw) },
      { role: "assistant", content: [{ block: { $case: "text", value: { text: "So?" } } }] },
    ],
    tools: [{
      name: "look",
      inputSchema: '{"type":"object","properties":{"at":{"type":"integer"}}}',
      annotations: { readOnlyHint: true },
    }],
    toolChoice: { mode: "required" },
    modelPreferences: { hints: [{ name: "m" }], costPriority: 1 },
    maxTokens: 1024,
  });
  const request = called.asked[0]?.request;
  const asked = request?.$case === "createMessage" ? request.value : CreateMessageRequest.create();
  expect(Buffer.from(CreateMessageRequest.encode(asked).finish())).toEqual(
    Buffer.from(CreateMessageRequest.encode(expected).finish()),
  );
});

test.each<[unknown, string]>([
  [{ role: "user" }, "messages.0.content must be an object in MCP's format, got null"],
  [{ role: "user", content: ["x"] }, "messages.0.content must be an object in MCP's format, got \"x\""],
  [7, "messages.0 must be an object in MCP's format, got 7"],
])("an object that is not in MCP's format is rejected with its path: %j", async (turn, message) => {
  const quiet = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const a = tool(async (_, ctx) => (await ctx.sample([turn as SamplingMessage])).text);
  expect(await call(a, "t")).toMatchObject({ isError: true, text: message });
  expect(quiet.mock.calls.join()).toMatch(/^tool "t" failed at ask\.test\.ts:\d+: TypeError: messages\.0/);
  quiet.mockRestore();
});

test("the result of a model's tool call may be an error", () => {
  expect(toolResult({ id: "1" }, "no such city", { isError: true }).block.block).toMatchObject({
    $case: "toolResult",
    value: { toolUseId: "1", isError: true },
  });
  expect(toolResult({ id: "1" }, result({ content: "no", isError: true })).block.block).toMatchObject({
    value: { isError: true },
  });
  expect(toolResult({ id: "1" }, { n: 1 }).block.block?.value).toMatchObject({
    structuredContent: '{"n":1}',
    isError: undefined,
  });
});

describe("a warning that events are repeated", () => {
  type Step = (ctx: Context) => Promise<unknown>;
  const ask: Step = (ctx) => ctx.elicit("Sure?", z.boolean());
  const report: Step = (ctx) => ctx.progress(1);
  const write: Step = (ctx) => ctx.log.info("begun");
  const reportOnce: Step = (ctx) => ctx.once("report", () => ctx.progress(1));
  test.each<[string, Step[], number]>([
    ["progress before the question", [report, ask], 1],
    ["log message before the question", [write, ask], 1],
    ["progress between two questions", [ask, report, ask], 1],
    ["progress after the question", [ask, report], 0],
    ["progress in once", [reportOnce, ask], 0],
    ["no question", [report, write], 0],
  ])("is logged once: %s", async (_, steps, warnings) => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const a = tool(async (_, ctx) => {
      for (const step of steps) await step(ctx);
      return "done";
    });
    for (let i = 0; i < 2; i++) expect((await call(a, "t", {}, { elicit: [true, true] })).text).toBe("done");
    const warning = expect.stringMatching(
      /^mcpbridge: ask\.test\.ts:\d+: tool "t" sends progress or log messages before an answered question,/,
    ) as string;
    expect(log.mock.calls).toEqual(Array.from({ length: warnings }, () => [warning]));
    log.mockRestore();
  });
});

test("the size of the state is limited", async () => {
  const a = tool(async (_, ctx) => {
    await ctx.once("orders", () => "x".repeat(40_000));
    await ctx.elicit("A?", z.string());
  });
  const called = await call(a, "t");
  expect([called.isError, called.text]).toEqual([
    true,
    expect.stringMatching(/more than the maximum of 32768; the largest part is ctx.once\("orders"\), 40002 bytes/),
  ]);
});

test("once keeps only JSON", async () => {
  const quiet = vi.spyOn(console, "error").mockImplementation(() => undefined);
  for (const value of [() => 1, Symbol("x"), new Map(), { a: [1n] }]) {
    expect(
      (await call(
        tool(async (_, ctx) => {
          await ctx.once("o", () => value);
        }),
        "t",
      )).text,
    ).toContain("must return JSON");
  }
  expect((await call(tool((_, ctx) => ctx.once("o", () => undefined)), "t")).text).toBe("");
  quiet.mockRestore();
});

test("a handler returns input requests and its own state in messages of the contract", async () => {
  const request = {
    request: { $case: "elicit", value: { mode: { $case: "form", value: { message: "Are you there?" } } } },
  } as const;
  const states: (string | undefined)[] = [];
  const a = tool((_, ctx) => {
    states.push(ctx.requestState && Buffer.from(ctx.requestState).toString());
    if (ctx.requestState === undefined)
      return inputRequired({ inputRequests: [{ key: "there", ...request }], requestState: Buffer.from("asked") });
    const answer = ctx.request.inputResponses.there?.response;
    return answer?.$case === "elicit" ? `action ${answer.value.action}` : "no answer";
  });
  const called = await call(a, "t", {}, { elicit: [{}] });
  expect([called.text, called.rounds, states]).toEqual(["action accept", 2, [undefined, "asked"]]);

  const p = app("test", "1").prompt(
    "p",
    {},
    (_, ctx) => (ctx.requestState ? "continued" : inputRequired({ requestState: Buffer.from("s") })),
  );
  expect((await prompt(p, "p")).rounds).toBe(2);
  const r = app("test", "1").resource(
    "a:b",
    {},
    (_, ctx) => (ctx.requestState ? "continued" : inputRequired({ requestState: Buffer.from("s") })),
  );
  expect((await read(r, "a:b")).rounds).toBe(2);
});

test("a state of another format is rejected", async () => {
  const a = tool(async (_, ctx) => { await ctx.elicit("A?"); });
  const request = CallToolRequest.fromPartial({ name: "t", context: EVERYTHING, requestState: Buffer.from("?") });
  await expect(a.callTool(request, nowhere)).rejects.toThrow(McpError);
});

test("an answer without a question is ignored and not kept", async () => {
  const a = tool(async (_, ctx) => { await ctx.elicit("A?"); });
  const other: InputResponse = { response: { $case: "listRoots", value: { roots: [], meta: "", extra: "" } } };
  const { event } = await a.callTool(
    CallToolRequest.fromPartial({ name: "t", context: EVERYTHING, inputResponses: { other } }),
    nowhere,
  );
  expect(event?.$case === "inputRequired" && JSON.parse(Buffer.from(event.value.requestState ?? "").toString()))
    .toMatchObject({ answers: {}, asked: [expect.stringMatching(/^elicit-/)] });
});
