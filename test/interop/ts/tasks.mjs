// Clients that call tools as tasks: `node tasks.mjs CLIENT VISITS`; see test/interop/README.md.
import process from "node:process";

import * as v2 from "@modelcontextprotocol/client";
import { Client as V1Client } from "sdk-1.32.2/client/index.js";
import { StreamableHTTPClientTransport as V1Http } from "sdk-1.32.2/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "sdk-1.32.2/types.js";

/**
 * @typedef {{ tool: string, arguments: Record<string, unknown>, cancel?: boolean,
 *   answer?: Record<string, string> }} Call
 * @typedef {{ task: boolean, listed?: boolean, status: string, result?: unknown, error?: string }} Outcome
 * @typedef {{ taskId: string, status: string, pollInterval?: number, pollIntervalMs?: number, result?: unknown,
 *   error?: { message: string }, inputRequests?: Record<string, { method: string }> }} Task
 * @typedef {{ call: (c: Call) => Promise<Outcome>, unknown: () => Promise<unknown>,
 *   close: () => Promise<void> }} Session
 */

const identity = { name: "mcpbridge-interop", version: "1.0.0" };
const extension = "io.modelcontextprotocol/tasks";
const unknownTask = "00000000-no-such-task";

/** @param {string} status */
const isFinal = (status) => ["completed", "failed", "cancelled"].includes(status);
/** @param {unknown} e */
const codeOf = (e) => /** @type {{ code?: unknown }} */ (e).code;
/** @param {number | undefined} ms */
const sleep = (ms) => new Promise((done) => setTimeout(done, ms ?? 100));

/**
 * The 1.x SDK, with the functions that it has for tasks.
 * @param {string} url
 * @returns {Promise<Session>}
 */
async function connectV1(url) {
  const client = new V1Client(identity, { capabilities: { elicitation: { form: {} } } });
  /** @type {Call["answer"]} */
  let answer;
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: answer }));
  await client.connect(/** @type {Parameters<typeof client.connect>[0]} */ (new V1Http(new URL(url))));
  await client.listTools();
  const { tasks } = client.experimental;
  return {
    async call(c) {
      answer = c.answer;
      let id = "";
      let listed = false;
      /** @type {Outcome | undefined} */
      let outcome;
      // The SDK requests a task by itself only if the tool requires one.
      const stream = tasks.callToolStream({ name: c.tool, arguments: c.arguments }, CallToolResultSchema, { task: {} });
      for await (const message of stream) {
        switch (message.type) {
          case "taskCreated":
            id = message.task.taskId;
            listed = (await tasks.listTasks()).tasks.some((task) => task.taskId === id);
            if (c.cancel) await tasks.cancelTask(id);
            break;
          case "result":
            outcome = { task: id !== "", listed, status: "completed", result: message.result };
            break;
          case "error":
            outcome = { task: id !== "", listed, status: "none", error: message.error.message };
        }
      }
      if (id === "") return outcome ?? { task: false, status: "none" };
      const { status } = await tasks.getTask(id);
      // For a tool that failed, the stream has the status only.
      const result = isFinal(status) && status !== "cancelled" && await tasks.getTaskResult(id, CallToolResultSchema);
      return { task: true, listed, status, ...(result && { result }) };
    },
    unknown: () => tasks.getTask(unknownTask),
    close: () => client.close(),
  };
}

/**
 * The 2.x SDK, which has no functions for tasks.
 * @param {string} url
 * @param {v2.VersionNegotiationMode} mode
 * @returns {Promise<Session>}
 */
async function connectV2(url, mode) {
  const client = new v2.Client(identity, {
    capabilities: { elicitation: { form: {} }, extensions: { [extension]: {} } },
    versionNegotiation: { mode },
  });
  /** @type {Call["answer"]} */
  let answer;
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: answer ?? {} }));
  const transport = new v2.StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  // In the modern era the SDK rejects the type of the result, so the task is read from the message.
  /** @type {Record<string, unknown>} */
  let last = {};
  const { onmessage } = transport;
  transport.onmessage = (/** @type {v2.JSONRPCMessage} */ message) => {
    if ("result" in message) last = message.result;
    onmessage?.(message);
  };
  await client.listTools();
  const modern = client.getProtocolEra() === "modern";
  /** @type {v2.StandardSchemaV1<unknown, Record<string, unknown>>} */
  const schema = {
    "~standard": {
      version: 1,
      vendor: "mcpbridge-interop",
      validate: (value) => ({ value: /** @type {Record<string, unknown>} */ (value) }),
    },
  };
  /**
   * @param {string} method
   * @param {Record<string, unknown>} params
   */
  const request = (method, params) => client.request({ method, params }, schema);
  /**
   * @param {string} id
   * @returns {Promise<Task>}
   */
  const get = async (id) => /** @type {Task} */ (/** @type {unknown} */ (await request("tasks/get", { taskId: id })));
  return {
    async call(c) {
      answer = c.answer;
      const params = { name: c.tool, arguments: c.arguments, ...(!modern && { task: {} }) };
      const created = await request("tools/call", params).catch((/** @type {unknown} */ e) => {
        if (codeOf(e) === v2.SdkErrorCode.UnsupportedResultType) return last;
        throw e;
      });
      const first = /** @type {Task | undefined} */ (modern ? created : created.task);
      if (first?.taskId === undefined) return { task: false, status: "none", result: created };
      const id = first.taskId;
      if (c.cancel) await request("tasks/cancel", { taskId: id });
      for (;;) {
        const task = await get(id);
        if (isFinal(task.status)) {
          const result = modern
            ? task.result
            : task.status !== "cancelled" && await request("tasks/result", { taskId: id });
          return {
            task: true,
            status: task.status,
            ...(result ? { result } : {}),
            ...(task.error && { error: task.error.message }),
          };
        }
        if (task.status === "input_required") {
          if (modern) {
            const keys = Object.keys(task.inputRequests ?? {});
            const inputResponses = Object.fromEntries(
              keys.map((key) => [key, { action: "accept", content: answer ?? {} }]),
            );
            await request("tasks/update", { taskId: id, inputResponses });
          } else {
            await request("tasks/result", { taskId: id }); // it sends the input requests
          }
        } else {
          await sleep(task.pollInterval ?? task.pollIntervalMs);
        }
      }
    },
    unknown: () => get(unknownTask),
    close: () => client.close(),
  };
}

/** @type {Record<string, (url: string) => Promise<Session>>} */
const clients = {
  "sdk-1": connectV1,
  "sdk-2-legacy": (url) => connectV2(url, "legacy"),
  "sdk-2-modern": (url) => connectV2(url, { pin: "2026-07-28" }),
};

const connect = clients[process.argv[2] ?? ""];
if (!connect) throw new Error(`the client must be one of ${Object.keys(clients).join(", ")}`);
/** @type {unknown} */
const visits = JSON.parse(process.argv[3] ?? "[]");
const reports = await Promise.all(/** @type {{ url: string, calls: Call[] }[]} */ (visits).map(async (visit) => {
  const session = await connect(visit.url);
  /** @type {Outcome[]} */
  const outcomes = [];
  for (const call of visit.calls) outcomes.push(await session.call(call));
  const code = await session.unknown().then(() => 0, codeOf);
  await session.close();
  return { outcomes, unknown: code };
}));
process.stdout.write(JSON.stringify(reports));
