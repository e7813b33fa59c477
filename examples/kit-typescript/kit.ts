// The tools of the contract kit, written with the SDK for TypeScript: the handler laws and `mcpbridge verify` call
// them.
//
// docs/verify.md specifies each of them. Try it: npm ci && npm run build && mcpbridge verify -- node dist/kit.js
import { setTimeout as sleep } from "node:timers/promises";

import {
  app,
  Content,
  image,
  inputRequired,
  InvalidAnswer,
  McpError,
  NoAnswer,
  NotFound,
  Refused,
  result,
  text,
  ToolError,
  Unsupported,
  type Context,
  type Level,
  type Result,
} from "mcpbridge";
import { LogLevel, type CallToolRequest, type InputResponse } from "mcpbridge/v1";
import { z } from "zod";

console.log("noise before the start"); // It is log, and not a handshake.

const a = app("bridgetest", "1", { title: "Bridge Test", instructions: "call anything" });

/** Adds a tool that accepts any arguments. */
function tool(name: string, handler: (args: any, ctx: Context<CallToolRequest>) => unknown): void {
  a.tool(name, { description: `does ${name}`, input: { type: "object" } }, handler);
}

// Questions in messages of the contract.

function form(key: string, message: string, field: string) {
  const requestedSchema = `{"type":"object","properties":{"${field}":{"type":"string"}},"required":["${field}"]}`;
  return {
    key,
    request: { $case: "elicit", value: { mode: { $case: "form", value: { message, requestedSchema } } } },
  } as const;
}

function elicited(answer: InputResponse | undefined) {
  return answer?.response?.$case === "elicit" ? answer.response.value : undefined;
}

// Tools, in the order of their names, which is the order of the list.

tool("add", ({ name }) => {
  tool(name, () => name);
  return "added";
});

tool("ask", async (_, ctx) => {
  await ctx.progress(1);
  const { right, name } = ctx.request.inputResponses;
  if (ctx.requestState) return `${Buffer.from(ctx.requestState).toString()} ${elicited(right)?.content}`;
  if (!name) return inputRequired({ inputRequests: [form("name", "who are you?", "name")] });
  const answer = elicited(name);
  if (answer?.action !== "accept") return `the user said ${answer?.action}`;
  return inputRequired({
    inputRequests: [form("right", "is that right?", "yes")],
    requestState: Buffer.from(`name=${answer.content}`),
  });
});

tool(
  "blob",
  ({ size }) => image(Buffer.alloc(size, Uint8Array.from({ length: 251 }, (_, i) => i)), "application/octet-stream"),
);

tool("count", async (_, ctx) => {
  await ctx.progress(0, 2, "begin");
  await ctx.log.debug("detail");
  await ctx.progress(1, 2);
  await ctx.progress(1, 2);
  await ctx.log.warning({ n: 9007199254740993n }, "l");
  await ctx.progress(2, 2);
  return "counted";
});

const ECHO = {
  type: "object",
  properties: {
    region: { type: "string", "x-mcp-header": "Region" },
    in: { type: "object", properties: { n: { type: "integer", "x-mcp-header": "Count" } } },
  },
} as const;

a.tool("echo", { description: "does echo", input: ECHO }, (_, ctx) => Buffer.from(ctx.request.arguments).toString());

/** The calls of wait with one n. */
class Waiting {
  started = () => {};
  ended = () => {};
  readonly start = new Promise<void>((resolve) => (this.started = resolve));
  readonly end = new Promise<void>((resolve) => (this.ended = resolve));
}

const waits = new Map<number, Waiting>();

function waitingFor(n: number): Waiting {
  const waiting = waits.get(n) ?? new Waiting();
  waits.set(n, waiting);
  return waiting;
}

tool("ended", async ({ n }) => {
  await waitingFor(n).end;
  return "ended";
});

tool("exact", () => {
  throw new McpError(-7, "no luck", { n: [1] });
});

tool("fail", () => {
  throw new ToolError("it does not work");
});

tool("levels", async (_, ctx) => {
  const levels: Level[] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
  for (const level of levels) await ctx.log.log(level, level);
  return "logged";
});

tool("many", (_, ctx) => {
  const { form: filled, model, roots } = ctx.request.inputResponses;
  if (!filled) {
    const question = { role: "user", content: [{ block: { $case: "text" as const, value: { text: "2+2?" } } }] };
    return inputRequired({
      inputRequests: [
        form("form", "q", "a"),
        { key: "model", request: { $case: "createMessage", value: { maxTokens: 10, messages: [question] } } },
        { key: "roots", request: { $case: "listRoots", value: {} } },
      ],
    });
  }
  const block = model?.response?.$case === "createMessage" ? model.response.value.content[0]?.block : undefined;
  const reply = block?.$case === "text" ? block.value.text : "";
  const count = roots?.response?.$case === "listRoots" ? roots.response.value.roots.length : 0;
  return `form=${elicited(filled)?.content} model=${reply} roots=${count}`;
});

tool(
  "meta",
  (_, ctx): Result => result({ content: "meta", meta: ctx.request.context?.meta, extra: ctx.request.extra }),
);

tool("noise", () => {
  console.log("noise on stdout");
  console.log("a long line ".repeat(100_000 / 12));
  console.error("noise on stderr");
  return "quiet";
});

tool("remove", ({ name }) => {
  a.removeTool(name);
  return "removed";
});

tool("sleep", async ({ ms }, ctx) => {
  await sleep(ms, undefined, { signal: ctx.signal });
  return "slept";
});

tool("started", async ({ n }) => {
  await waitingFor(n).start;
  return "started";
});

tool("steps", async ({ n }, ctx) => {
  if (!Number.isInteger(n)) throw new ToolError(`n is not a whole number: ${String(n)}`);
  for (let i = 0; i < n; i++) await ctx.progress(i);
  return `${n} steps`;
});

tool("structured", (_, ctx): Result => result({ content: [], structured: ctx.request.arguments }));

let serials = 0;

tool("survey", async (_, ctx) => {
  const serial = await ctx.once("serial", () => ++serials);
  const [name, age] = await ctx.all([
    ctx.elicit("What is your name?", z.string()),
    ctx.elicit("How old are you?", z.int()),
  ]);
  const right = await ctx.elicit(`${name.data} is ${age.data}, right?`, z.boolean());
  return `${name.data} is ${age.data}: ${right.data}, ${serial}`;
});

tool("tell", async (_, ctx) => {
  try {
    const answer = await ctx.elicit("Say something.", z.string());
    if (answer.accepted) return `accepted: ${answer.data}`;
    return answer.action === "decline" ? "declined" : "cancelled";
  } catch (e) {
    if (e instanceof Unsupported) return "unsupported";
    if (e instanceof NoAnswer) return "no answer";
    if (e instanceof Refused) return "refused";
    if (e instanceof InvalidAnswer) return "invalid";
    throw e;
  }
});

tool("unknown", (_, ctx) => {
  const answer = ctx.request.inputResponses.new;
  if (!answer) {
    const raw = '{"method":"acme/ask","params":{"n":9007199254740993}}';
    return inputRequired({ inputRequests: [{ key: "new", request: { $case: "raw", value: raw } }] });
  }
  return [
    new Content({ block: { $case: "raw", value: '{"type":"acme","n":9007199254740993}' } }),
    text(answer.response?.$case === "raw" ? answer.response.value : "", { audience: ["judge"] }),
  ];
});

tool("update", ({ uri }) => {
  a.notifyUpdated(uri);
  return "updated";
});

tool("wait", async ({ n }, ctx) => {
  const waiting = waitingFor(n);
  waiting.started();
  await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve, { once: true }));
  waiting.ended();
  throw ctx.signal.reason;
});

tool("who", (_, ctx) => {
  const call = ctx.request.context;
  const forms = ctx.clientCapabilities?.elicitation;
  return (
    `${ctx.protocolVersion} ${ctx.clientInfo.name} progress=${call?.progressWanted}` +
    ` log=LOG_LEVEL_${LogLevel[call?.logLevel ?? 0]} forms=${
      forms !== undefined && (forms.form !== undefined || forms.url === undefined)
    }`
  );
});

// Resources and prompts.

const team = "team" as "public"; // A scope that MCP does not define.
a.resource("test://a", { name: "a", title: "The A", cacheScope: team }, () => "A");

a.resource("test://{id}", { name: "t" }, ({ id }) => {
  throw new NotFound(`there is no ${id}`);
});

a.prompt("p", { arguments: { x: z.string().optional() }, complete: { x: (typed) => [`${typed}!`] } }, ({ x }, ctx) => {
  if (x === undefined) {
    const answer = elicited(ctx.request.inputResponses.x);
    if (answer?.action !== "accept") return inputRequired({ inputRequests: [form("x", "which x?", "x")] });
    x = answer.content;
  }
  return `x is ${x}`;
});

await a.run();
