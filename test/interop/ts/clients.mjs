// The table of clients. A new client is a row here; the tour and the demo run it.
import * as v2 from "@modelcontextprotocol/client";
import { StdioClientTransport as V2Stdio } from "@modelcontextprotocol/client/stdio";
import EventSource from "eventsource";

/**
 * @import { Answer, Ask, ClientRow, Content, Contents, Feature, LogMessage, Peer, Place, Progress, Prompt, Tool,
 * ToolResult } from "./peer.ts"
 */

/**
 * Every 1.x SDK is used in the same way. The types are those of the newest; older ones have a subset.
 * @typedef {typeof import("sdk-1.32.2/client/index.js")
 *   & typeof import("sdk-1.32.2/client/stdio.js")
 *   & typeof import("sdk-1.32.2/client/sse.js")
 *   & typeof import("sdk-1.32.2/client/streamableHttp.js")
 *   & typeof import("sdk-1.32.2/types.js")} V1
 */

const identity = { name: "mcpbridge-interop", version: "1.0.0" };
const roots = ["file:///home/ada/songs", "file:///home/ada/poems"];

// The first SDK requires the EventSource of browsers. This is the package that it was tested with.
Object.assign(globalThis, { EventSource });

// The features of a client are those of its revision.
/** @type {Feature[]} */
const features202503 = ["annotations", "audio", "messages"];
/** @type {Feature[]} */
const features202506 = [...features202503, "titles", "structure", "links", "questions"];
/** @type {Feature[]} */
const features202511 = [...features202506, "choices"];

/** @type {ClientRow[]} */
export const clients = [
  {
    name: "@modelcontextprotocol/sdk 1.32.2",
    manner: "initializes",
    era: "legacy",
    revision: "2025-11-25",
    transports: ["stdio", "sse", "http"],
    features: features202511,
    notFound: -32002,
    resumes: "by itself",
    connect: (place) => connectV1("1.32.2", place, { elicitation: { form: {} } }),
  },
  {
    name: "@modelcontextprotocol/sdk 1.20.0",
    manner: "initializes",
    era: "legacy",
    revision: "2025-06-18",
    transports: ["stdio", "sse", "http"],
    features: features202506,
    notFound: -32002,
    resumes: "on request",
    connect: (place) => connectV1("1.20.0", place, { elicitation: {} }),
  },
  {
    name: "@modelcontextprotocol/sdk 1.12.0",
    manner: "initializes",
    era: "legacy",
    revision: "2025-03-26",
    transports: ["stdio", "sse", "http"],
    features: features202503,
    notFound: -32002,
    resumes: "by itself",
    connect: (place) => connectV1("1.12.0", place),
  },
  {
    name: "@modelcontextprotocol/sdk 1.8.0",
    manner: "initializes",
    era: "legacy",
    revision: "2024-11-05",
    transports: ["stdio", "sse"],
    features: [],
    notFound: -32002,
    connect: (place) => connectV1("1.8.0", place),
  },
  {
    name: "@modelcontextprotocol/sdk 1.0.4",
    manner: "initializes",
    era: "legacy",
    revision: "2024-11-05",
    transports: ["stdio", "sse"],
    features: [],
    notFound: -32002,
    connect: (place) => connectV1("1.0.4", place),
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "initializes",
    era: "legacy",
    revision: "2025-11-25",
    transports: ["stdio", "sse", "http"],
    features: features202511,
    notFound: -32602, // Whatever the server sent.
    resumes: "by itself",
    connect: (place) => connectV2(place, "legacy"),
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "probes",
    era: "modern",
    revision: "2026-07-28",
    transports: ["stdio", "http"],
    features: features202511,
    notFound: -32602,
    connect: (place) => connectV2(place, "auto"),
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "falls back",
    era: "legacy",
    revision: "2025-11-25",
    transports: ["sse"],
    features: features202511,
    notFound: -32602,
    connect: (place) => connectV2(place, "auto"),
  },
  {
    name: "@modelcontextprotocol/client 2.4.0",
    manner: "requires this revision",
    era: "modern",
    revision: "2026-07-28",
    transports: ["stdio", "http"],
    features: features202511,
    notFound: -32602,
    connect: (place) => connectV2(place, { pin: "2026-07-28" }),
  },
];

/**
 * @param {string} version
 * @param {Place["transport"]} transport
 * @returns {Promise<V1>}
 */
async function loadV1(version, transport) {
  const files = { stdio: "client/stdio.js", sse: "client/sse.js", http: "client/streamableHttp.js" };
  const parts = ["client/index.js", "types.js", files[transport]];
  /** @type {object[]} */
  const loaded = await Promise.all(parts.map((part) => import(`sdk-${version}/${part}`)));
  return /** @type {V1} */ (Object.fromEntries(loaded.flatMap((part) => Object.entries(part))));
}

/**
 * @param {string} version
 * @param {Place} place
 * @param {{ elicitation?: { form?: {} } }} elicitation the capability of forms, in one of its two notations
 * @returns {Promise<Peer>}
 */
async function connectV1(version, place, elicitation = {}) {
  const sdk = await loadV1(version, place.transport);
  const client = new sdk.Client(identity, { capabilities: { sampling: {}, roots: {}, ...elicitation } });
  const m = clientState();
  client.onerror = m.onError;
  client.setNotificationHandler(sdk.ToolListChangedNotificationSchema, () => {
    m.changed("tools");
  });
  client.setNotificationHandler(sdk.PromptListChangedNotificationSchema, () => {
    m.changed("prompts");
  });
  client.setNotificationHandler(sdk.ResourceUpdatedNotificationSchema, (n) => {
    m.changed(n.params.uri);
  });
  client.setNotificationHandler(sdk.LoggingMessageNotificationSchema, (n) => {
    m.logs.push(n.params);
  });
  client.setRequestHandler(sdk.CreateMessageRequestSchema, (r) => m.sample(r.params.messages));
  client.setRequestHandler(sdk.ListRootsRequestSchema, () => m.listRoots());
  if (elicitation.elicitation)
    client.setRequestHandler(sdk.ElicitRequestSchema, (r) =>
      m.reply(/** @type {Ask} */ (r.params)));

  const transport = openV1(sdk, place);
  // Not every version has a method for the negotiated revision, so it is read from the response.
  let revision = "none";
  tap(transport, (message) => {
    const negotiated = /** @type {{ result?: { protocolVersion?: string } }} */ (message).result?.protocolVersion;
    if (negotiated !== undefined) revision = negotiated;
  });
  try {
    // The transport's optional members are typed without exactOptionalPropertyTypes in mind.
    await client.connect(/** @type {Parameters<typeof client.connect>[0]} */ (transport));
  } finally {
    // Older versions have it only now; earlier output waits in the pipe.
    if (place.transport === "stdio" && "stderr" in transport) transport.stderr?.on("data", text(place.onStderr));
  }

  return {
    ...m.peer,
    revision,
    async logLevel(level) {
      await client.setLoggingLevel(level);
    },
    async tools() {
      return /** @type {Tool[]} */ ((await client.listTools()).tools);
    },
    async call(name, args, o = {}) {
      m.watch(o.onProgress);
      const result = await client.callTool({ name, arguments: args }, undefined, {
        ...(o.signal && { signal: o.signal }),
        ...(o.onProgress && { onprogress: o.onProgress }),
        ...(o.onEvent && { onresumptiontoken: o.onEvent }),
        ...(o.after && { resumptionToken: o.after }),
      });
      return /** @type {ToolResult} */ (result);
    },
    async resources() {
      return (await client.listResources()).resources;
    },
    async templates() {
      return (await client.listResourceTemplates()).resourceTemplates;
    },
    async read(uri) {
      return /** @type {Contents[]} */ ((await client.readResource({ uri })).contents);
    },
    async subscribe(uri) {
      await client.subscribeResource({ uri });
    },
    async unsubscribe(uri) {
      await client.unsubscribeResource({ uri });
    },
    async prompts() {
      return /** @type {Prompt[]} */ ((await client.listPrompts()).prompts);
    },
    async prompt(name, args) {
      const got = await client.getPrompt({ name, ...(args && { arguments: args }) });
      return /** @type {{ role: string, content: Content }[]} */ (got.messages);
    },
    async complete(ref, name, value) {
      return (await client.complete({ ref, argument: { name, value } })).completion.values;
    },
    async close() {
      if ("terminateSession" in transport) await transport.terminateSession();
      await client.close();
    },
  };
}

/**
 * @param {V1} sdk
 * @param {Place} place
 */
function openV1(sdk, place) {
  switch (place.transport) {
    case "stdio":
      return new sdk.StdioClientTransport(withPipe(place));
    case "sse":
      return new sdk.SSEClientTransport(new URL(place.url));
    case "http":
      return new sdk.StreamableHTTPClientTransport(new URL(place.url));
  }
}

/**
 * @param {Place} place
 * @param {v2.VersionNegotiationMode} mode
 * @returns {Promise<Peer>}
 */
async function connectV2(place, mode) {
  const m = clientState();
  const options = { autoRefresh: false, debounceMs: 0 };
  const client = new v2.Client(identity, {
    capabilities: { sampling: {}, roots: {}, elicitation: { form: {} } },
    versionNegotiation: { mode },
    // In the modern era this makes the client listen (subscriptions/listen) from the start.
    listChanged: {
      tools: { ...options, onChanged: () => { m.changed("tools"); } },
      prompts: { ...options, onChanged: () => { m.changed("prompts"); } },
    },
  });
  client.onerror = m.onError;
  client.setNotificationHandler("notifications/resources/updated", (n) => {
    m.changed(n.params.uri);
  });
  client.setNotificationHandler("notifications/message", (n) => {
    m.logs.push(n.params);
  });
  client.setRequestHandler("sampling/createMessage", (r) => m.sample(r.params.messages));
  client.setRequestHandler("roots/list", () => m.listRoots());
  client.setRequestHandler("elicitation/create", (r) => m.reply(/** @type {Ask} */ (r.params)));

  const transport = openV2(place);
  if (place.transport === "stdio" && "stderr" in transport) transport.stderr?.on("data", text(place.onStderr));
  await client.connect(transport);
  const modern = client.getProtocolEra() === "modern";

  /** @type {string | undefined} */
  let level;
  /** @type {Map<string, v2.McpSubscription>} */
  const subscriptions = new Map();
  return {
    ...m.peer,
    revision: client.getNegotiatedProtocolVersion() ?? "none",
    async logLevel(l) {
      // The modern era has no session with a level: each request has it.
      if (modern) level = l;
      else await client.setLoggingLevel(l);
    },
    async tools() {
      return /** @type {Tool[]} */ ((await client.listTools()).tools);
    },
    async call(name, args, o = {}) {
      m.watch(o.onProgress);
      const result = await client.callTool(
        { name, arguments: args, ...(level && { _meta: { [v2.LOG_LEVEL_META_KEY]: level } }) },
        {
          ...(o.signal && { signal: o.signal }),
          ...(o.onProgress && { onprogress: o.onProgress }),
          ...(o.onEvent && { onresumptiontoken: o.onEvent }),
          ...(o.after && { resumptionToken: o.after }),
        },
      );
      return /** @type {ToolResult} */ (result);
    },
    async resources() {
      return (await client.listResources()).resources;
    },
    async templates() {
      return (await client.listResourceTemplates()).resourceTemplates;
    },
    async read(uri) {
      return /** @type {Contents[]} */ ((await client.readResource({ uri })).contents);
    },
    async subscribe(uri) {
      if (modern) subscriptions.set(uri, await client.listen({ resourceSubscriptions: [uri] }));
      else await client.subscribeResource({ uri });
    },
    async unsubscribe(uri) {
      if (modern) await subscriptions.get(uri)?.close();
      else await client.unsubscribeResource({ uri });
    },
    async prompts() {
      return /** @type {Prompt[]} */ ((await client.listPrompts()).prompts);
    },
    async prompt(name, args) {
      const got = await client.getPrompt({ name, ...(args && { arguments: args }) });
      return /** @type {{ role: string, content: Content }[]} */ (got.messages);
    },
    async complete(ref, name, value) {
      return (await client.complete({ ref, argument: { name, value } })).completion.values;
    },
    async close() {
      if (transport instanceof v2.StreamableHTTPClientTransport) await transport.terminateSession();
      await client.close();
    },
  };
}

/** @param {Place} place */
function openV2(place) {
  switch (place.transport) {
    case "stdio":
      return new V2Stdio(withPipe(place));
    case "sse":
      return new v2.SSEClientTransport(new URL(place.url));
    case "http":
      return new v2.StreamableHTTPClientTransport(new URL(place.url));
  }
}

/** Returns the state of a client: messages, functions that answer requests, and errors. */
function clientState() {
  /** @type {LogMessage[]} */
  const logs = [];
  /** @type {string[]} */
  const errors = [];
  /** @type {(ask: Ask) => Answer} */
  let answer = () => ({ action: "cancel" });
  /** @type {(prompt: string) => string} */
  let respond = () => "";
  /** @type {((p: Progress) => void) | undefined} */
  let progress;
  /** @type {{ what: string, resolve: () => void }[]} */
  let waiters = [];
  const changed = (/** @type {string} */ what) => {
    const resolved = waiters.filter((w) => w.what === what);
    waiters = waiters.filter((w) => w.what !== what);
    for (const { resolve } of resolved) resolve();
  };
  return {
    logs,
    reply: (/** @type {Ask} */ ask) => answer(ask),
    sample: (/** @type {{ content: unknown }[]} */ messages) => {
      const prompt = messages.flatMap((message) => message.content).map((block) =>
        /** @type {Content} */ (block).text ?? ""
      );
      return {
        model: "ada-1",
        role: /** @type {const} */ ("assistant"),
        content: { type: /** @type {const} */ ("text"), text: respond(prompt.join("\n")) },
      };
    },
    listRoots: () => ({ roots: roots.map((uri) => ({ uri })) }),
    changed,
    watch: (/** @type {typeof progress} */ p) => {
      progress = p;
    },
    // Both SDKs remove the progress handler of a call when they read its result, and dispatch notifications a little
    // later. Progress that is read together with the result is therefore reported to onerror instead of onprogress.
    onError: (/** @type {Error} */ e) => {
      const lost = /^Received a progress notification for an unknown token: (.*)$/s.exec(e.message)?.[1];
      if (lost === undefined) {
        errors.push(e.message);
        changed("errors");
        return;
      }
      /** @type {unknown} */
      const notification = JSON.parse(lost);
      progress?.(/** @type {{ params: Progress }} */ (notification).params);
    },
    /** The members of Peer that are the same for all clients. */
    peer: {
      logs,
      errors,
      waitForError: async (/** @type {string} */ part) => {
        while (!errors.some((c) => c.includes(part))) {
          await new Promise((/** @type {(_: void) => void} */ resolve) => waiters.push({ what: "errors", resolve }));
        }
      },
      roots,
      onElicitation: (/** @type {typeof answer} */ a) => {
        answer = a;
      },
      onSampling: (/** @type {typeof respond} */ t) => {
        respond = t;
      },
      /** @type {Peer["change"]} */
      change: (what) => new Promise((resolve) => waiters.push({ what, resolve })),
    },
  };
}

/**
 * Calls `observe` with each message that a transport delivers to its client.
 * @param {{ onmessage?: unknown }} transport
 * @param {(message: unknown) => void} observe
 */
function tap(transport, observe) {
  /** @type {((message: unknown, ...rest: unknown[]) => void) | undefined} */
  let client;
  Object.defineProperty(transport, "onmessage", {
    get: () => client && deliver,
    set: (/** @type {typeof client} */ c) => {
      client = c;
    },
  });
  const deliver = (/** @type {unknown} */ message, /** @type {unknown[]} */ ...rest) => {
    observe(message);
    client?.(message, ...rest);
  };
}

/** @param {Extract<Place, { command: string }>} place */
function withPipe({ command, args }) {
  return { command, args, stderr: /** @type {const} */ ("pipe") };
}

/** @param {(text: string) => void} sink */
function text(sink) {
  const decoder = new TextDecoder();
  return (/** @type {Uint8Array} */ chunk) => {
    sink(decoder.decode(chunk, { stream: true }));
  };
}
