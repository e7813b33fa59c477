// The table of clients. A new client is a row here; the tour and the demo run it.
import * as v2 from "@modelcontextprotocol/client";
import { StdioClientTransport as V2Stdio } from "@modelcontextprotocol/client/stdio";
import { Client as V1Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as V1Stdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as V1Http } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

/** @import { Answer, Ask, ClientRow, LogMessage, Peer, Place, Progress, Tool, ToolResult } from "./peer.ts" */

const identity = { name: "mcpbridge-interop", version: "1.0.0" };

/** @type {ClientRow[]} */
export const clients = [
  {
    name: "@modelcontextprotocol/sdk 1.32.2",
    manner: "initializes",
    era: "legacy",
    revision: "2025-11-25",
    connect: connectV1,
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "initializes",
    era: "legacy",
    revision: "2025-11-25",
    connect: (place) => connectV2(place, "legacy"),
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "probes",
    era: "modern",
    revision: "2026-07-28",
    connect: (place) => connectV2(place, "auto"),
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "insists",
    era: "modern",
    revision: "2026-07-28",
    connect: (place) => connectV2(place, { pin: "2026-07-28" }),
  },
];

/**
 * @param {Place} place
 * @returns {Promise<Peer>}
 */
async function connectV1(place) {
  const client = new V1Client(identity, { capabilities: { elicitation: { form: {} } } });
  const { logs, complaints, reply, setReply, watch, complain, changed, toolsChange } = memory();
  client.onerror = complain;
  client.setNotificationHandler(ToolListChangedNotificationSchema, changed);
  client.setRequestHandler(ElicitRequestSchema, (r) => reply(/** @type {Ask} */ (r.params)));
  client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => {
    logs.push(n.params);
  });

  const transport = "url" in place ? new V1Http(new URL(place.url)) : new V1Stdio(piped(place));
  if (transport instanceof V1Stdio && "command" in place) transport.stderr?.on("data", text(place.onStderr));
  // The transport's optional members are typed without exactOptionalPropertyTypes in mind.
  await client.connect(/** @type {Parameters<V1Client["connect"]>[0]} */ (transport));

  return {
    // Neither the client nor the stdio transport of this SDK tells what was negotiated; the HTTP transport does.
    revision: (transport instanceof V1Http ? transport.protocolVersion : undefined) ?? "2025-11-25",
    logs,
    complaints,
    answer: setReply,
    async logLevel(level) {
      await client.setLoggingLevel(level);
    },
    async tools() {
      return /** @type {Tool[]} */ ((await client.listTools()).tools);
    },
    toolsChange,
    async call(name, args, o = {}) {
      watch(o.onProgress);
      const result = await client.callTool({ name, arguments: args }, undefined, {
        ...(o.signal && { signal: o.signal }),
        ...(o.onProgress && { onprogress: o.onProgress }),
      });
      return /** @type {ToolResult} */ (result);
    },
    async close() {
      if (transport instanceof V1Http) await transport.terminateSession();
      await client.close();
    },
  };
}

/**
 * @param {Place} place
 * @param {v2.VersionNegotiationMode} mode
 * @returns {Promise<Peer>}
 */
async function connectV2(place, mode) {
  const { logs, complaints, reply, setReply, watch, complain, changed, toolsChange } = memory();
  const client = new v2.Client(identity, {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode },
    // In the modern era this makes the client listen (subscriptions/listen) from the start.
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: changed } },
  });
  client.onerror = complain;
  client.setRequestHandler("elicitation/create", (r) => reply(/** @type {Ask} */ (r.params)));
  client.setNotificationHandler("notifications/message", (n) => {
    logs.push(n.params);
  });

  const transport = "url" in place ? new v2.StreamableHTTPClientTransport(new URL(place.url)) : new V2Stdio(piped(place));
  if (transport instanceof V2Stdio && "command" in place) transport.stderr?.on("data", text(place.onStderr));
  await client.connect(transport);

  /** @type {string | undefined} */
  let level;
  return {
    revision: client.getNegotiatedProtocolVersion() ?? "none",
    logs,
    complaints,
    answer: setReply,
    async logLevel(l) {
      // The modern era has no session to remember a level: each request says it.
      if (client.getProtocolEra() === "modern") level = l;
      else await client.setLoggingLevel(l);
    },
    async tools() {
      return /** @type {Tool[]} */ ((await client.listTools()).tools);
    },
    toolsChange,
    async call(name, args, o = {}) {
      watch(o.onProgress);
      const result = await client.callTool(
        { name, arguments: args, ...(level && { _meta: { [v2.LOG_LEVEL_META_KEY]: level } }) },
        { ...(o.signal && { signal: o.signal }), ...(o.onProgress && { onprogress: o.onProgress }) },
      );
      return /** @type {ToolResult} */ (result);
    },
    async close() {
      if (transport instanceof v2.StreamableHTTPClientTransport) await transport.terminateSession();
      await client.close();
    },
  };
}

/** What a client remembers between calls: the logs that came, who answers questions, what it complained about. */
function memory() {
  /** @type {LogMessage[]} */
  const logs = [];
  /** @type {string[]} */
  const complaints = [];
  /** @type {(ask: Ask) => Answer} */
  let current = () => ({ action: "cancel" });
  /** @type {((p: Progress) => void) | undefined} */
  let progress;
  /** @type {(() => void)[]} */
  const waiting = [];
  return {
    logs,
    complaints,
    reply: (/** @type {Ask} */ ask) => current(ask),
    setReply: (/** @type {(ask: Ask) => Answer} */ r) => {
      current = r;
    },
    changed: () => {
      for (const tell of waiting.splice(0)) tell();
    },
    /** @returns {Promise<void>} */
    toolsChange: () => new Promise((tell) => waiting.push(tell)),
    watch: (/** @type {typeof progress} */ p) => {
      progress = p;
    },
    // Both SDKs forget who wants the progress of a call when they read its result, and hand notifications over a little
    // later. Progress that is read together with the result is so lost to onprogress and told to onerror instead.
    complain: (/** @type {Error} */ e) => {
      const lost = /^Received a progress notification for an unknown token: (.*)$/s.exec(e.message)?.[1];
      if (lost === undefined) {
        complaints.push(e.message);
        return;
      }
      /** @type {unknown} */
      const notification = JSON.parse(lost);
      progress?.(/** @type {{ params: Progress }} */ (notification).params);
    },
  };
}

/** @param {Extract<Place, { command: string }>} place */
function piped({ command, args }) {
  return { command, args, stderr: /** @type {const} */ ("pipe") };
}

/** @param {(text: string) => void} sink */
function text(sink) {
  const decoder = new TextDecoder();
  return (/** @type {Uint8Array} */ chunk) => {
    sink(decoder.decode(chunk, { stream: true }));
  };
}
