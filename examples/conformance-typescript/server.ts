// The backend for the official MCP conformance suite: its tools, prompts and resources, with its names.
//
// It returns the same as examples/conformance-go. The bridge implements the rest of the suite's requirements: sessions,
// headers, sealed state and capability checks.
//
// Try it: npm ci && npm run build && mcpbridge run -- node dist/server.js
import { setTimeout as sleep } from "node:timers/promises";

import { app, audio, embedded, image, McpError, ToolError, user, type Answer, type Context } from "mcpbridge";
import { z } from "zod";

const a = app("conformance-typescript", "1", {
  instructions: "Answers the official MCP conformance suite.",
  ttlMs: 0,
  cacheScope: "public",
});

const STEP = 50; // The duration of a step of a slow tool, in milliseconds.

const RED_PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==",
  "base64",
);

/** A silent WAV of 10 ms: 8000 samples per second of 8 bits, in which 128 is silence. */
function silence(): Buffer {
  const [rate, samples] = [8000, 80];
  const head = Buffer.alloc(44);
  head.write("RIFF");
  head.writeUInt32LE(36 + samples, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16); // the length of what describes the samples
  head.writeUInt16LE(1, 20); // PCM
  head.writeUInt16LE(1, 22); // channels
  head.writeUInt32LE(rate, 24); // samples a second
  head.writeUInt32LE(rate, 28); // bytes a second
  head.writeUInt16LE(1, 32); // bytes a sample
  head.writeUInt16LE(8, 34); // bits a sample
  head.write("data", 36);
  head.writeUInt32LE(samples, 40);
  return Buffer.concat([head, Buffer.alloc(samples, 128)]);
}

/** Returns the action of the user and the content of the form. */
function outcome(answer: Answer<unknown>): string {
  return `action=${answer.action}, content=${JSON.stringify(answer.accepted ? answer.data : {})}`;
}

// Tools, in the order of their list. The suite calls the first one without arguments to test headers.

a.tool("test_simple_text", { description: "Returns text." }, () => "This is a simple text response for testing.");

a.tool("test_image_content", { description: "Returns an image." }, () => image(RED_PIXEL));

a.tool("test_audio_content", { description: "Returns a sound." }, () => audio(silence()));

a.tool("test_embedded_resource", { description: "Returns an embedded resource." }, () =>
  embedded("test://embedded-resource", "This is an embedded resource content."),
);

a.tool("test_multiple_content_types", { description: "Returns text, an image and a resource." }, () => [
  "Multiple content types test:",
  image(RED_PIXEL),
  embedded("test://mixed-content-resource", { test: "data", value: 123 }),
]);

a.tool("test_error_handling", { description: "Always fails." }, () => {
  throw new ToolError("This tool intentionally returns an error for testing");
});

a.tool("test_tool_with_logging", { description: "Logs three lines." }, async (_, ctx) => {
  await ctx.log.info("Tool execution started", "conformance");
  await sleep(STEP);
  await ctx.log.info("Tool processing data", "conformance");
  await sleep(STEP);
  await ctx.log.info("Tool execution completed", "conformance");
  return "Tool with logging executed successfully";
});

a.tool("test_tool_with_progress", { description: "Reports progress three times." }, async (_, ctx) => {
  await ctx.progress(0, 100);
  await sleep(STEP);
  await ctx.progress(50, 100);
  await sleep(STEP);
  await ctx.progress(100, 100);
  return "Tool with progress executed successfully";
});

a.tool(
  "test_reconnection",
  { description: "Runs long enough for its stream to be closed and resumed." },
  async (_, ctx) => {
    await ctx.log.info("The stream may be closed now.", "conformance");
    await sleep(10 * STEP); // The bridge decides whether to close the stream.
    return "Reconnection test completed";
  },
);

const region = z.string().meta({ "x-mcp-header": "Region" }).default("");
a.tool(
  "test_x_mcp_header",
  { description: "Takes an argument that is also sent as a header.", input: { region } },
  (args) => JSON.stringify(args),
);

// It has every kind of keyword, which clients must receive unchanged.
const FULL_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
} as const;
a.tool(
  "json_schema_2020_12_tool",
  { description: "Tool with JSON Schema 2020-12 features.", input: FULL_SCHEMA },
  (args) => JSON.stringify(args),
);

const prompt = z.string().describe("What to ask the model");
a.tool("test_sampling", { description: "Asks the model.", input: { prompt } }, async ({ prompt }, ctx) => {
  const { text } = await ctx.sample(prompt, { maxTokens: 100, key: "model" });
  return `LLM response: ${text}`;
});

const ADDRESS = {
  username: z.string().describe("User's response"),
  email: z.string().describe("User's email address"),
};
const message = z.string().describe("What to ask the user");
a.tool(
  "test_elicitation",
  { description: "Asks the user for a name and an address.", input: { message } },
  async ({ message }, ctx) => {
    return `User response: <${outcome(await ctx.elicit(message, ADDRESS, { key: "user" }))}>`;
  },
);

const DEFAULTS = {
  name: z.string().describe("User name").default("John Doe"),
  age: z.int().describe("User age").default(30),
  score: z.number().describe("User score").default(95.5),
  status: z.enum(["active", "inactive", "pending"]).describe("User status").default("active"),
  verified: z.boolean().describe("Verification status").default(true),
};
a.tool(
  "test_elicitation_sep1034_defaults",
  { description: "Asks the user with a form that has defaults." },
  async (_, ctx) => {
    return `Elicitation completed: ${outcome(await ctx.elicit("Please fill in this form", DEFAULTS, { key: "form" }))}`;
  },
);

const titled = (titles: Record<string, string>) =>
  Object.entries(titles).map(([value, title]) => ({ const: value, title }));
const OPTIONS = { type: "string", enum: ["option1", "option2", "option3"] };
const ENUMS = {
  type: "object",
  properties: {
    untitledSingle: OPTIONS,
    titledSingle: {
      type: "string",
      oneOf: titled({ value1: "First Option", value2: "Second Option", value3: "Third Option" }),
    },
    legacyEnum: {
      type: "string",
      enum: ["opt1", "opt2", "opt3"],
      enumNames: ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti: { type: "array", items: OPTIONS },
    titledMulti: {
      type: "array",
      items: { anyOf: titled({ value1: "First Choice", value2: "Second Choice", value3: "Third Choice" }) },
    },
  },
  required: [],
} as const;
a.tool(
  "test_elicitation_sep1330_enums",
  { description: "Asks the user with a form that has choices." },
  async (_, ctx) => {
    return `Elicitation completed: ${outcome(await ctx.elicit("Please fill in this form", ENUMS, { key: "form" }))}`;
  },
);

a.tool(
  "test_input_required_result_elicitation",
  { description: "Asks the user for a name and greets." },
  async (_, ctx) => {
    const answer = await ctx.elicit("What is your name?", { name: z.string() }, { key: "user_name" });
    return `Hello, ${answer.data.name}!`;
  },
);

a.tool("test_input_required_result_sampling", { description: "Asks the model for a capital." }, async (_, ctx) => {
  const { text } = await ctx.sample("What is the capital of France?", { maxTokens: 100, key: "capital_question" });
  return `The model says: ${text}`;
});

a.tool("test_input_required_result_list_roots", { description: "Asks for the client's folders." }, async (_, ctx) => {
  const roots = await ctx.roots({ key: "client_roots" });
  return `The client works in: ${roots.map(({ uri }) => uri).join(", ")}`;
});

/** Asks for a confirmation. The bridge refuses a state that a client has changed. */
async function confirm(ctx: Context): Promise<string> {
  const answer = await ctx.elicit("Please confirm", { ok: z.boolean() }, { key: "confirm" });
  return `state-ok: action=${answer.action}`;
}

a.tool(
  "test_input_required_result_request_state",
  { description: "Asks for a confirmation, with request state." },
  (_, ctx) => confirm(ctx),
);

a.tool("test_input_required_result_tampered_state", {
  description: "Asks for a confirmation, with unchanged request state.",
}, (_, ctx) => confirm(ctx));

a.tool("test_input_required_result_multiple_inputs", {
  description: "Makes three input requests at once.",
}, async (_, ctx) => {
  const [name, greeting, roots] = await ctx.all([
    ctx.elicit("What is your name?", { name: z.string() }, { key: "user_name" }),
    ctx.sample("Generate a greeting", { maxTokens: 50, key: "greeting" }),
    ctx.roots({ key: "client_roots" }),
  ]);
  return `${greeting.text} ${name.data.name}, you work in ${roots.map(({ uri }) => uri).join(", ")}`;
});

a.tool(
  "test_input_required_result_multi_round",
  { description: "Asks the user twice, one after the other." },
  async (_, ctx) => {
    const name = await ctx.elicit("Step 1: What is your name?", { name: z.string() }, { key: "step1" });
    const color = await ctx.elicit("Step 2: What is your favorite color?", { color: z.string() }, { key: "step2" });
    return `${name.data.name} likes ${color.data.color}`;
  },
);

a.tool(
  "test_input_required_result_capabilities",
  { description: "Asks only what the client can answer." },
  async (_, ctx) => {
    const can = ctx.clientCapabilities;
    const asked: Promise<unknown>[] = [];
    if (can?.elicitation) asked.push(ctx.elicit("What is your name?", { name: z.string() }, { key: "user_name" }));
    if (can?.sampling) asked.push(
        ctx.sample("What is the capital of France?", { maxTokens: 100, key: "capital_question" }),
      );
    if (can?.roots) asked.push(ctx.roots({ key: "client_roots" }));
    return `The client answered ${(await ctx.all(asked)).length} questions.`;
  },
);

a.tool("test_missing_capability", { description: "Needs a client with sampling." }, (_, ctx) => {
  // For tools that check the capability first. Others get Unsupported from ctx.sample.
  if (!ctx.clientCapabilities?.sampling) {
    throw new McpError(-32021, "this tool needs a client with sampling", { requiredCapabilities: { sampling: {} } });
  }
  return "The client can sample.";
});

a.tool("test_streaming_elicitation", { description: "Asks for a confirmation." }, async (_, ctx) => {
  const answer = await ctx.elicit("Please fill in this form", { ok: z.boolean() }, { key: "confirm" });
  return `Elicitation completed: action=${answer.action}`;
});

a.tool("test_logging_tool", { description: "Logs a line." }, async (_, ctx) => {
  await ctx.log.info("Only clients that set a log level receive this line.", "conformance");
  return "Logged.";
});

const WATCHED = "test://watched-resource";
let changes = 0;

function changed(): void {
  changes++;
  a.notifyUpdated(WATCHED);
}

a.tool("test_trigger_tool_change", { description: "Changes the list of tools." }, () => {
  const name = "test_transient_tool";
  if (!a.removeTool(name)) a.tool(name, { description: "Added and removed by a tool." }, () => "I am here.");
  changed();
  return "The list of tools has changed.";
});

a.tool("test_trigger_prompt_change", { description: "Changes the list of prompts." }, () => {
  const name = "test_transient_prompt";
  if (!a.removePrompt(name)) a.prompt(name, { description: "Added and removed by a tool." }, () => "I am here.");
  changed();
  return "The list of prompts has changed.";
});

// Tools with tasks.

a.tool(
  "greet",
  { description: "Greets, never as a task.", input: { name: z.string() } },
  ({ name }) => `Hello, ${name}!`,
);

a.tool(
  "slow_compute",
  { description: "Takes some seconds.", input: { seconds: z.number(), label: z.string().default("") }, task: true },
  async ({ seconds, label }, ctx) => {
    await sleep(seconds * 1000, undefined, { signal: ctx.signal });
    return `${label || "The computation"} took ${seconds} seconds.`;
  },
);

a.tool("failing_job", { description: "Fails after a second.", task: { required: true } }, async () => {
  await sleep(20 * STEP);
  throw new ToolError("This job intentionally fails");
});

a.tool("protocol_error_job", { description: "Ends with a JSON-RPC error.", task: true }, () => {
  throw new McpError(-32603, "This job intentionally ends with a JSON-RPC error");
});

const deletion = { confirm: z.boolean() };

a.tool(
  "confirm_delete",
  {
    description: "Asks the user before it pretends to delete a file.",
    input: { filename: z.string() },
    task: true,
  },
  async ({ filename }, ctx) => {
    const answer = await ctx.elicit(`Delete ${filename}?`, deletion, { key: "confirm" });
    return `${filename} was ${answer.accepted && answer.data.confirm ? "deleted" : "kept"}.`;
  },
);

a.tool(
  "multi_input",
  { description: "Asks the user for a name and a confirmation, at once.", task: true },
  async (_, ctx) => {
    const [name, confirmation] = await ctx.all([
      ctx.elicit("What is your name?", { name: z.string() }, { key: "name" }),
      ctx.elicit("Delete it?", deletion, { key: "confirm" }),
    ]);
    return `The user answered ${name.action} and ${confirmation.action}.`;
  },
);

a.tool(
  "test_tool_with_task",
  { description: "Asks the user for a name, then greets as a task.", task: { required: true, startsLater: true } },
  async (_, ctx) => {
    const answer = await ctx.elicit("What is your name?", { name: z.string() }, { key: "user_name" });
    await ctx.startTask();
    await sleep(STEP);
    return `Hello, ${answer.data.name}!`;
  },
);

// Prompts.

a.prompt(
  "test_simple_prompt",
  { description: "A prompt without arguments." },
  () => "This is a simple prompt for testing.",
);

a.prompt(
  "test_prompt_with_arguments",
  {
    description: "A prompt with two arguments.",
    arguments: { arg1: z.string().describe("First test argument"), arg2: z.string().describe("Second test argument") },
    complete: {
      arg1: ["paris", "park", "party", "test-value-1", "test-value-2"],
      arg2: ["test-value-a", "test-value-b"],
    },
  },
  ({ arg1, arg2 }) => `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`,
);

a.prompt(
  "test_prompt_with_embedded_resource",
  {
    description: "A prompt that holds a resource.",
    arguments: { resourceUri: z.string().describe("URI of the resource to embed") },
  },
  ({ resourceUri }) =>
    [embedded(resourceUri, "Embedded resource content for testing."), "Please process the embedded resource above."],
);

a.prompt("test_prompt_with_image", { description: "A prompt that holds an image." }, () => [
  user(image(RED_PIXEL), "Please analyze the image above."),
]);

a.prompt(
  "test_input_required_result_prompt",
  { description: "A prompt that asks the user for its context." },
  async (_, ctx) => {
    const answer = await ctx.elicit("What context should the prompt use?", { context: z.string() }, {
      key: "user_context",
    });
    return `Use this context: ${answer.data.context}`;
  },
);

// Resources.

a.resource(
  "test://static-text",
  { name: "static-text", description: "A text that stays the same.", mimeType: "text/plain" },
  () => "This is the content of the static text resource.",
);

a.resource(
  "test://static-binary",
  { name: "static-binary", description: "An image that stays the same.", mimeType: "image/png" },
  () => RED_PIXEL,
);

a.resource(
  WATCHED,
  { name: "watched-resource", description: "How often the lists have changed.", mimeType: "text/plain" },
  () => `The lists have changed ${changes} times.`,
);

a.resource(
  "test://template/{id}/data",
  { name: "template", description: "Data by id.", mimeType: "application/json", complete: { id: ["123", "456"] } },
  ({ id }) => ({ id, templateTest: true, data: `Data for ID: ${id}` }),
);

await a.run();
