// The tour: the checks that every client runs with each backend, in this order, on one connection. Old clients run all
// checks: for a feature that they do not support, a check expects the replacement.
import assert from "node:assert/strict";

import type { Lines } from "./lines.ts";
import type { Ask, ClientRow, Feature, Peer, Progress, ToolResult } from "./peer.ts";

export interface Check {
  name: string;
  /** Throws if the server does not behave as specified. */
  run(peer: Peer, at: CheckContext): Promise<void>;
}

export interface CheckContext {
  /** The stderr of the bridge. */
  log: Lines;
  client: Pick<ClientRow, "features" | "notFound">;
}

/** The backend: test/interop/witness.py or examples/conformance-go. */
export type Backend = "witness" | "conformance-go";

const reportsNoErrors: Check = {
  name: "reports no errors",
  run(peer) {
    assert.deepEqual(peer.errors, []);
    return Promise.resolve();
  },
};

/** Checks of tools, with the backend in Python. */
const tools: Check[] = [
  {
    name: "lists the tools with their schemas",
    async run(peer, at) {
      const tools = new Map((await peer.tools()).map((t) => [t.name, t]));
      for (const name of ["add", "countdown", "forecast", "greet", "noisy"]) {
        const tool = tools.get(name);
        assert.ok(tool, `${name} is not in ${[...tools.keys()].join(", ")}`);
        assert.equal(tool.inputSchema.type, "object", `${name}: the input schema is of an object`);
        assert.ok(tool.description, `${name} has no description`);
      }
      const add = tools.get("add")?.inputSchema;
      assert.deepEqual(add?.required, ["a", "b"]);
      for (const name of ["a", "b"]) assert.equal(property(add.properties, name)?.type, "integer");

      const forecast = tools.get("forecast");
      assert.equal(isObject(forecast?.outputSchema), supports(at, "structure"), "an output schema");
      assert.equal(forecast?.title, supports(at, "titles") ? "Weather forecast" : undefined);
      assert.equal(forecast?.annotations?.readOnlyHint, supports(at, "annotations") ? true : undefined);
      // In 2025-03-26 the title is an annotation; before, there is none.
      if (!supports(at, "titles"))
        assert.equal(forecast?.annotations?.title, supports(at, "annotations") ? "Weather forecast" : undefined);
    },
  },
  {
    name: "calls a tool",
    async run(peer) {
      const result = await peer.call("add", { a: 2, b: 40 });
      assert.ok(!result.isError, textOf(result));
      assert.match(textOf(result), /\b42\b/);
    },
  },
  {
    name: "gets a structured result, and the same as text",
    async run(peer, at) {
      const result = await peer.call("forecast", { city: "Oslo" });
      assert.ok(!result.isError, textOf(result));
      if (!supports(at, "structure")) {
        assert.equal(result.structuredContent, undefined);
        assert.match(textOf(result), /^\{"city":"Oslo",.*\}$/);
        return;
      }
      assert.ok(isObject(result.structuredContent), "no structured content");
      assert.equal(result.structuredContent.city, "Oslo");
      assert.deepEqual(JSON.parse(textOf(result)), result.structuredContent);
    },
  },
  {
    name: "receives progress in order, before the result",
    async run(peer, at) {
      const seen: Progress[] = [];
      const result = await peer.call("countdown", { steps: 3, seconds: 0.02 }, { onProgress: (p) => seen.push(p) });
      const atResult = [...seen];
      assert.ok(!result.isError, textOf(result));
      assert.deepEqual(
        atResult.map((p) => [p.progress, p.total, p.message]),
        [
          [0, 3, supports(at, "messages") ? "3 ..." : undefined],
          [1, 3, supports(at, "messages") ? "2 ..." : undefined],
          [2, 3, supports(at, "messages") ? "1 ..." : undefined],
          [3, 3, undefined],
        ],
      );
    },
  },
  {
    name: "answers a question",
    async run(peer, at) {
      const asks: Ask[] = [];
      peer.onElicitation((ask) => {
        asks.push(ask);
        return { action: "accept", content: { colour: "green" } };
      });
      const result = await peer.call("greet", { name: "Ada" });
      if (!supports(at, "questions")) {
        assert.equal(asks.length, 0, "the client does not support questions");
        asksToAskTheUser(result);
        assert.match(textOf(result), /Ada/, "the text has the question");
        return;
      }
      assert.ok(!result.isError, textOf(result));
      assert.match(textOf(result), /Ada.*\bgreen\b/);
      assert.equal(asks.length, 1, "the question arrives once");
      assert.match(asks[0]?.message ?? "", /Ada/);
      const colour = property(asks[0]?.requestedSchema.properties, "colour");
      assert.deepEqual([colour?.type, colour?.enum], ["string", ["red", "green", "blue"]]);
    },
  },
  {
    name: "declines a question",
    async run(peer, at) {
      let asked = 0;
      peer.onElicitation(() => {
        asked++;
        return { action: "decline" };
      });
      const result = await peer.call("greet", { name: "Ada" });
      if (!supports(at, "questions")) {
        asksToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, textOf(result));
      assert.equal(asked, 1, "the question arrives once");
      assert.match(textOf(result), /to yourself/);
    },
  },
  {
    name: "gets the questions of each concurrent call",
    async run(peer, at) {
      const colours = new Map([
        ["Ada", "red"],
        ["Bob", "green"],
        ["Eve", "blue"],
      ]);
      peer.onElicitation((ask) => {
        const colour = colours.get(/Hello (\w+)!/.exec(ask.message)?.[1] ?? "");
        return colour ? { action: "accept", content: { colour } } : { action: "cancel" };
      });
      const greetings = await Promise.all(
        [...colours.keys()].map(async (name) => textOf(await peer.call("greet", { name }))),
      );
      assert.deepEqual(
        supports(at, "questions") ? greetings : greetings.map((g) => /Ada|Bob|Eve/.exec(g)?.[0]),
        supports(at, "questions")
          ? [...colours].map(([name, colour]) => `Hello ${name}, here is something ${colour} for you.`)
          : [...colours.keys()],
      );
    },
  },
  {
    name: "receives log messages; the tool's output goes to the bridge's log",
    async run(peer, { log }) {
      await peer.logLevel("debug");
      const before = peer.logs.length;
      const mark = log.mark;
      const result = await peer.call("noisy", { lines: 2 });
      assert.ok(!result.isError, textOf(result));
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
    name: "gets the result of each concurrent call",
    async run(peer) {
      const sums = await Promise.all(
        Array.from({ length: 20 }, async (_, i) => textOf(await peer.call("add", { a: i, b: 1000 }))),
      );
      sums.forEach((sum, i) => {
        assert.match(sum, new RegExp(`\\b${String(1000 + i)}\\b`));
      });
    },
  },
  {
    name: "cancels a call, which ends at the backend",
    async run(peer, { log }) {
      const mark = log.mark;
      const stop = new AbortController();
      const started = signal();
      const call = peer.call("linger", {}, { signal: stop.signal, onProgress: started.fire });
      await Promise.race([started.fired, call]); // A call that fails before it starts throws its error.
      stop.abort(new Error("canceled by the check"));
      await assert.rejects(call);
      await log.find(/linger: cancelled/, mark);
    },
  },
  {
    name: "calls tools after a canceled call",
    async run(peer) {
      for (let i = 0; i < 5; i++)
        assert.match(textOf(await peer.call("add", { a: i, b: 1 })), new RegExp(`\\b${String(i + 1)}\\b`));
    },
  },
  {
    name: "receives notifications of changed tools",
    async run(peer) {
      const listed = async () => (await peer.tools()).some((t) => t.name === "trick");
      await changes(peer, "tools", "learn", listed);
      assert.match(textOf(await peer.call("trick", {})), /Ta-da/);
      await changes(peer, "tools", "forget", async () => !(await listed()));
    },
  },
  {
    name: "gets an error for an unknown tool",
    async run(peer) {
      await fails(peer.call("no_such_tool", {}), -32602, /no_such_tool/);
    },
  },
  {
    name: "gets an error result for invalid arguments",
    async run(peer) {
      // Since 2025-11-25 bad input is a result that the model can read and correct, not a protocol error (SEP-1303).
      const result = await peer.call("add", { a: "two", b: 40 });
      assert.equal(result.isError, true, textOf(result));
      assert.match(textOf(result), /\ba\b/, "the text names the argument");
    },
  },
  {
    name: "gets audio and links, or replacements",
    async run(peer, at) {
      const { content } = await peer.call("offer", {});
      const [sound, link] = content;
      assert.equal(content.length, 2);
      if (supports(at, "audio")) {
        assert.deepEqual(pick(sound, "type", "data", "mimeType"), {
          type: "audio",
          data: "UklGRg==",
          mimeType: "audio/wav",
        });
      } else {
        assert.equal(sound?.type, "resource");
        assert.deepEqual(pick(sound.resource, "blob", "mimeType"), { blob: "UklGRg==", mimeType: "audio/wav" });
      }
      if (supports(at, "links")) {
        assert.deepEqual(pick(link, "type", "uri", "name"), {
          type: "resource_link",
          uri: "https://example.com/song",
          name: "song",
        });
      } else {
        assert.deepEqual(pick(link, "type", "text"), { type: "text", text: "song: https://example.com/song" });
      }
    },
  },
  reportsNoErrors,
];

/** All other checks, with the backend in Go. */
const others: Check[] = [
  {
    name: "lists resources and templates, and reads them",
    async run(peer) {
      const resources = await peer.resources();
      assert.deepEqual(
        resources.map((r) => [r.uri, r.name, r.mimeType]),
        [
          ["test://static-text", "static-text", "text/plain"],
          ["test://static-binary", "static-binary", "image/png"],
          [watched, "watched-resource", "text/plain"],
        ],
      );
      assert.deepEqual(
        (await peer.templates()).map((t) => t.uriTemplate),
        ["test://template/{id}/data"],
      );
      const [text] = await peer.read("test://static-text");
      assert.equal(text?.text, "This is the content of the static text resource.");
      const [binary] = await peer.read("test://static-binary");
      assert.match(binary?.blob ?? "", /^iVBORw0KGgo/, "a PNG in base64");
      const [data] = await peer.read("test://template/42/data");
      assert.deepEqual(JSON.parse(data?.text ?? ""), { id: "42", templateTest: true, data: "Data for ID: 42" });
    },
  },
  {
    name: "gets an error for an unknown resource",
    async run(peer, { client }) {
      await fails(peer.read("test://no-such-thing"), client.notFound, /no-such-thing/);
    },
  },
  {
    name: "receives updates of a resource until it unsubscribes",
    async run(peer) {
      let notified = 0;
      const count = () => {
        notified++;
      };
      const [before] = await peer.read(watched);

      await peer.subscribe(watched);
      const change = peer.change(watched).then(count);
      await peer.call("test_trigger_tool_change", {});
      await within5s(change, "no notification of the changed resource");
      const [after] = await peer.read(watched);
      assert.notEqual(after?.text, before?.text, "the changed resource is read");

      await peer.unsubscribe(watched);
      void peer.change(watched).then(count);
      const tools = peer.change("tools"); // The same backend sends both notifications at the same time.
      await peer.call("test_trigger_tool_change", {});
      await within5s(tools, "no notification of changed tools");
      await peer.read(watched);
      assert.equal(notified, 1, "notified after unsubscribing");
    },
  },
  {
    name: "lists prompts and gets them",
    async run(peer) {
      const prompts = new Map((await peer.prompts()).map((p) => [p.name, p]));
      assert.deepEqual(
        prompts.get("test_prompt_with_arguments")?.arguments?.map((a) => [a.name, a.required]),
        [
          ["arg1", true],
          ["arg2", true],
        ],
      );
      assert.deepEqual(await peer.prompt("test_simple_prompt"), [
        { role: "user", content: { type: "text", text: "This is a simple prompt for testing." } },
      ]);
      const [filled] = await peer.prompt("test_prompt_with_arguments", { arg1: "a", arg2: "ü" });
      assert.equal(filled?.content.text, "Prompt with arguments: arg1='a', arg2='ü'");
      const [embedding] = await peer.prompt("test_prompt_with_embedded_resource", { resourceUri: "test://x" });
      assert.deepEqual(pick(embedding?.content.resource, "uri", "text"), {
        uri: "test://x",
        text: "Embedded resource content for testing.",
      });
      const [picture] = await peer.prompt("test_prompt_with_image");
      assert.deepEqual(pick(picture?.content, "type", "mimeType"), { type: "image", mimeType: "image/png" });
    },
  },
  {
    name: "gets an error for an unknown prompt or a missing argument",
    async run(peer) {
      await fails(peer.prompt("no_such_prompt"), -32602, /no_such_prompt/);
      await fails(peer.prompt("test_prompt_with_arguments", { arg1: "a" }), -32602, /arg2/);
    },
  },
  {
    name: "receives notifications of changed prompts",
    async run(peer) {
      const listed = async () => (await peer.prompts()).some((p) => p.name === "test_transient_prompt");
      for (const has of [true, false]) {
        await changes(peer, "prompts", "test_trigger_prompt_change", async () => (await listed()) === has);
      }
    },
  },
  {
    name: "completes arguments",
    async run(peer) {
      const prompt = { type: "ref/prompt", name: "test_prompt_with_arguments" } as const;
      assert.deepEqual(await peer.complete(prompt, "arg1", "par"), ["paris", "park", "party"]);
      assert.deepEqual(await peer.complete(prompt, "arg1", "nothing like it"), []);
      const template = { type: "ref/resource", uri: "test://template/{id}/data" } as const;
      assert.deepEqual(await peer.complete(template, "id", "1"), ["123"]);
    },
  },
  {
    name: "gets content of every type",
    async run(peer, at) {
      const types = async (tool: string) => (await peer.call(tool, {})).content.map((c) => c.type);
      assert.deepEqual(await types("test_multiple_content_types"), ["text", "image", "resource"]);
      assert.deepEqual(await types("test_audio_content"), [supports(at, "audio") ? "audio" : "resource"]);
    },
  },
  {
    name: "answers a sampling request",
    async run(peer) {
      peer.onSampling((prompt) => `I do not know "${prompt}".`);
      const result = await peer.call("test_sampling", { prompt: "What is love?" });
      assert.ok(!result.isError, textOf(result));
      assert.equal(textOf(result), 'LLM response: I do not know "What is love?".');
    },
  },
  {
    name: "lists its roots",
    async run(peer) {
      const result = await peer.call("test_input_required_result_list_roots", {});
      assert.ok(!result.isError, textOf(result));
      assert.equal(textOf(result), `The client works in: ${peer.roots.join(", ")}`);
    },
  },
  {
    name: "answers several questions at once",
    async run(peer, at) {
      peer.onElicitation(() => ({ action: "accept", content: { name: "Ada" } }));
      peer.onSampling(() => "Good morning");
      const result = await peer.call("test_input_required_result_multiple_inputs", {});
      if (!supports(at, "questions")) {
        asksToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, textOf(result));
      assert.equal(textOf(result), `Good morning Ada, you work in ${peer.roots.join(", ")}`);
    },
  },
  {
    name: "answers one question after the other",
    async run(peer, at) {
      const asked: string[] = [];
      peer.onElicitation((ask) => {
        asked.push(ask.message);
        const first = property(ask.requestedSchema.properties, "name");
        return { action: "accept", content: first ? { name: "Ada" } : { color: "green" } };
      });
      const result = await peer.call("test_input_required_result_multi_round", {});
      if (!supports(at, "questions")) {
        asksToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, textOf(result));
      assert.equal(textOf(result), "Ada likes green");
      assert.deepEqual(asked, ["Step 1: What is your name?", "Step 2: What is your favorite color?"]);
    },
  },
  {
    name: "is asked only what it can answer",
    async run(peer, at) {
      peer.onElicitation(() => ({ action: "accept", content: { name: "Ada" } }));
      peer.onSampling(() => "Paris");
      const result = await peer.call("test_input_required_result_capabilities", {});
      assert.ok(!result.isError, textOf(result));
      assert.equal(textOf(result), `The client answered ${supports(at, "questions") ? 3 : 2} questions.`);
    },
  },
  {
    name: "chooses several values",
    async run(peer, at) {
      peer.onElicitation(() => ({ action: "accept", content: { untitledMulti: ["option1", "option3"] } }));
      const result = await peer.call("test_elicitation_sep1330_enums", {});
      if (!supports(at, "choices")) {
        asksToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, textOf(result));
      assert.match(textOf(result), /action=accept, content=\{"untitledMulti": ?\["option1", ?"option3"\]\}/);
    },
  },
  {
    name: "answers a prompt's question",
    async run(peer, at) {
      peer.onElicitation(() => ({ action: "accept", content: { context: "poetry" } }));
      const prompt = peer.prompt("test_input_required_result_prompt");
      if (!supports(at, "questions")) {
        // A prompt has no error result.
        await fails(prompt, undefined, /elicitation/);
        return;
      }
      assert.match((await prompt)[0]?.content.text ?? "", /poetry/);
    },
  },
  reportsNoErrors,
];

export const tour: Record<Backend, Check[]> = { witness: tools, "conformance-go": others };

/** The resource of conformance-go that changes whenever a list changes. */
const watched = "test://watched-resource";

function supports({ client }: CheckContext, feature: Feature): boolean {
  return client.features.includes(feature);
}

/** Expects the error for a client without elicitation, from which the model can continue. */
function asksToAskTheUser(result: ToolResult): void {
  assert.equal(result.isError, true, textOf(result));
  assert.match(textOf(result), /\bask the user\b/i);
}

/** Expects an error response. If code is undefined, any code is accepted. */
async function fails(request: Promise<unknown>, code: number | undefined, message: RegExp): Promise<void> {
  await assert.rejects(request, (e: unknown) => {
    assert.ok(
      e instanceof Error && "code" in e && typeof e.code === "number",
      `an error with a code, not ${String(e)}`,
    );
    if (code !== undefined) assert.equal(e.code, code, e.message);
    assert.match(e.message, message);
    return true;
  });
}

/** The text of a result. */
export function textOf(result: ToolResult): string {
  return result.content.map((c) => c.text ?? "").join("\n");
}

/** Returns some members of an object. */
function pick(from: object | undefined, ...names: string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(from ?? {}).filter(([name]) => names.includes(name)));
}

/** Returns the schema of a property. */
function property(properties: unknown, name: string): Record<string, unknown> | undefined {
  const found = isObject(properties) ? properties[name] : undefined;
  return isObject(found) ? found : undefined;
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null;
}

/**
 * Calls a tool that changes a list, and waits for notifications until the list is as expected: the first may be of an
 * earlier change.
 */
async function changes(peer: Peer, what: string, tool: string, isExpected: () => Promise<boolean>): Promise<void> {
  let change = peer.change(what);
  await peer.call(tool, {});
  do {
    await within5s(change, `no notification of the changed ${what} after ${tool}, or they are not as expected`);
    change = peer.change(what);
  } while (!(await isExpected()));
}

/** Waits for an event, for at most 5 s. */
async function within5s(event: Promise<void>, otherwise: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, failed) => {
    timer = setTimeout(() => {
      failed(new Error(otherwise));
    }, 5_000);
  });
  await Promise.race([event, timeout]).finally(() => {
    clearTimeout(timer);
  });
}

/** Returns a promise and the function that resolves it. */
function signal() {
  let fire: () => void = () => undefined;
  const fired = new Promise<void>((done) => {
    fire = done;
  });
  return { fire, fired };
}
