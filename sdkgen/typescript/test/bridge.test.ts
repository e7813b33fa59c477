/** Calls through the real bridge, by the official client and as lines of JSON. */
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { describe, expect, test, vi } from "vitest";

import { start, type Client as BridgeClient, type StartOptions } from "../src/testing.js";

const path = (from: string) => fileURLToPath(new URL(from, import.meta.url));
const bridge = process.env.MCPBRIDGE_BIN ?? path("../../../bin/mcpbridge");
const command = [process.execPath, path("tools.mjs")];
const run = (options: StartOptions = {}) => start(command, { bridge, ...options });

if (!existsSync(bridge))
  throw new Error(`${bridge} is missing: build it with make, or say where it is with MCPBRIDGE_BIN`);

test("the official client", async () => {
  const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
  const logs: unknown[] = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => void logs.push(n.params.data));
  let action: "accept" | "decline" = "accept";
  client.setRequestHandler(ElicitRequestSchema, (r) => {
    expect(r.params).toMatchObject({
      message: "Name?",
      requestedSchema: { properties: { name: { type: "string" } }, required: ["name"] },
    });
    return { action, ...(action === "accept" ? { content: { name: "Ada" } } : {}) };
  });
  await client.connect(
    new StdioClientTransport({ command: bridge, args: ["run", "--stdio", "--", ...command], stderr: "ignore" }),
  );
  try {
    const text = async (name: string, args: Record<string, unknown> = {}) =>
      (await client.callTool({ name, arguments: args })).content;
    expect((await client.listTools()).tools.length).toBeGreaterThan(10);
    expect(await client.callTool({ name: "add", arguments: { a: 1, b: 2 } })).toMatchObject({
      structuredContent: { sum: 3 },
    });
    expect(await client.callTool({ name: "add", arguments: { a: "1" } })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/b: .*is required/) as string }],
    });
    expect(await text("loud")).toMatchObject([{ text: "ok" }]);
    expect(await text("greet")).toMatchObject([{ text: "Hello Ada" }]);
    action = "decline";
    expect(await text("greet")).toMatchObject([{ text: "You decline" }]);
    const progress: number[] = [];
    // It drops progress that arrives together with the result.
    await client.callTool({ name: "slow", arguments: { ms: 300 } }, undefined, {
      onprogress: (p) => progress.push(p.progress),
    });
    expect(progress).toEqual([0]);
    await expect(client.callTool({ name: "exact" })).rejects.toMatchObject({ code: -31042, data: { n: [1] } });
    expect((await client.readResource({ uri: "note:7" })).contents).toMatchObject([{
      uri: "note:7",
      text: "the note 7",
    }]);
    await expect(client.readResource({ uri: "note:none" })).rejects.toMatchObject({
      code: -32002,
      message: expect.stringContaining("no such note") as string,
    });
  } finally {
    await client.close();
  }
});

// The bridge answers initialize after 2 s, whether the backend has started or not.
test("start waits for a slow backend", async () => {
  const started = join(mkdtempSync(join(tmpdir(), "bridge-")), "started");
  await using client = await start(["sh", "-c", `sleep 3; touch '${started}'; exec "$@"`, "sh", ...command], {
    bridge,
  });
  expect(existsSync(started)).toBe(true);
  expect(await client.call("add", { a: 1, b: 2 })).toBe('{"sum":3}');
});

test("start fails if the backend does not start", async () => {
  await expect(start(["sh", "-c", "sleep 3; echo no luck >&2; exit 3"], { bridge })).rejects.toThrow(
    /its output:[^]*no luck[^]*exit status 3/,
  );
});

test("the model of the official client calls a tool", async () => {
  const client = new Client({ name: "test", version: "1" }, { capabilities: { sampling: { tools: {} } } });
  const content = { type: "tool_use", id: "7", name: "add", input: { a: 1, b: 2 } } as const;
  client.setRequestHandler(CreateMessageRequestSchema, ({ params: { messages, tools } }) => {
    expect(tools?.map((t) => t.name)).toEqual(["add"]);
    if (messages.length === 1) return { role: "assistant", model: "m", stopReason: "toolUse", content };
    const result = {
      type: "tool_result",
      toolUseId: "7",
      content: [{ type: "text", text: '{"sum":3}' }],
      structuredContent: { sum: 3 },
    };
    expect(messages.slice(1)).toEqual([{ role: "assistant", content }, { role: "user", content: result }]);
    return { role: "assistant", model: "m", content: { type: "text", text: "It is 3." } };
  });
  await client.connect(
    new StdioClientTransport({ command: bridge, args: ["run", "--stdio", "--", ...command], stderr: "ignore" }),
  );
  try {
    expect((await client.callTool({ name: "advise", arguments: {} })).content).toMatchObject([{ text: "It is 3." }]);
  } finally {
    await client.close();
  }
});

describe("the bridge keeps tasks", () => {
  const answer = () => ({ action: "accept", content: { name: "Ada" } });
  const create = async (client: BridgeClient, name: string) => {
    const { task } = await client.request("tools/call", { name, arguments: {}, task: {} });
    return { taskId: (task as { taskId: string }).taskId };
  };
  const until = async (client: BridgeClient, id: { taskId: string }, members: object) => {
    await vi.waitFor(async () => { expect(await client.request("tasks/get", id)).toMatchObject(members); }, 30_000);
  };

  test("from the start", async () => {
    await using client = await run({ answer });
    const id = await create(client, "report");
    await until(client, id, { status: "input_required" });
    const result = client.request("tasks/result", id);
    await until(client, id, { status: "working", statusMessage: "reading" });
    await client.call("finish");
    expect((await result).content).toEqual([{ type: "text", text: "of Ada" }]);
    const { tools } = (await client.request("tools/list")) as { tools: { name: string; execution?: object }[] };
    expect(tools.find(({ name }) => name === "report")?.execution).toEqual({ taskSupport: "optional" });
    expect(tools.find(({ name }) => name === "add")?.execution).toBeUndefined();
  });

  test("once the tool starts them", async () => {
    await using client = await run({ answer });
    await expect(client.call("starts_later")).rejects.toThrow("as a task only");
    const result = await client.request("tasks/result", await create(client, "starts_later"));
    expect(result.content).toEqual([{ type: "text", text: "for Ada" }]);
  });
});

describe("lines of JSON", () => {
  test("carry questions and change notifications until the end", async () => {
    const asked: string[] = [];
    await using client = await run({
      answer: (method) => {
        asked.push(method);
        if (method === "sampling/createMessage")
          return { role: "assistant", model: "m", content: { type: "text", text: "3" } };
        return { action: "accept", content: { name: "Bob" } };
      },
    });
    expect(await client.call("greet")).toBe("Hello Bob");
    expect(await client.call("advise")).toBe("3");
    expect(asked).toEqual(["elicitation/create", "sampling/createMessage"]);
    await client.call("steps", { n: 3 });
    const progress = client.notifications.filter((n) => n.method === "notifications/progress");
    expect(progress.map((n) => n.params?.progress)).toEqual([0, 1, 2]);
    await client.request("resources/subscribe", { uri: "note:1" });
    await client.call("touch", { uri: "note:1" });
    expect(await client.notification("notifications/resources/updated")).toMatchObject({ params: { uri: "note:1" } });
    await client.call("grow", { name: "grown" });
    await client.notification("notifications/tools/list_changed");
    expect(await client.call("grown")).toBe("grown");
    await expect(client.request("prompts/get", { name: "none" })).rejects.toMatchObject({ code: -32602 });
  });

  test("of the modern era return input_required", async () => {
    await using client = await run();
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
    };
    const first = await client.request("tools/call", { name: "greet", arguments: {}, _meta: meta });
    expect(first).toMatchObject({ resultType: "input_required" });
    const [key = ""] = Object.keys(first.inputRequests as object);
    const inputResponses = { [key]: { action: "accept", content: { name: "Eve" } } };
    const second = await client.request("tools/call", {
      name: "greet",
      arguments: {},
      inputResponses,
      requestState: first.requestState,
      _meta: meta,
    });
    expect(second).toMatchObject({ resultType: "complete", content: [{ text: "Hello Eve" }] });
  });
});
