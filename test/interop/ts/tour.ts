// The tour: what every client does with each backend, in this order, on one connection. No stop is left out for a client that
// is too old for something: what it gets instead is as much of a promise.
import assert from "node:assert/strict";

import type { Lines } from "./lines.ts";
import type { Ask, ClientRow, Feature, Peer, Progress, ToolResult } from "./peer.ts";

export interface Stop {
  name: string;
  /** Throws when the server did not keep its promise. */
  visit(peer: Peer, at: At): Promise<void>;
}

export interface At {
  /** What the bridge writes on stderr. */
  log: Lines;
  client: Pick<ClientRow, "can" | "notFound">;
}

/** What is behind the bridge: test/interop/witness.py, or examples/conformance-go. */
export type Backend = "witness" | "conformance-go";

const nothingToComplainAbout: Stop = {
  name: "has nothing to complain about",
  visit(peer) {
    assert.deepEqual(peer.complaints, []);
    return Promise.resolve();
  },
};

/** Tools, in Python. */
const tools: Stop[] = [
  {
    name: "lists the tools with their schemas",
    async visit(peer, at) {
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

      const forecast = tools.get("forecast");
      assert.equal(isObject(forecast?.outputSchema), can(at, "structure"), "an output schema");
      assert.equal(forecast?.title, can(at, "titles") ? "Weather forecast" : undefined);
      assert.equal(forecast?.annotations?.readOnlyHint, can(at, "annotations") ? true : undefined);
      // In 2025-03-26 the title has its place among the annotations, and before it has none.
      if (!can(at, "titles")) assert.equal(forecast?.annotations?.title, can(at, "annotations") ? "Weather forecast" : undefined);
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
    async visit(peer, at) {
      const result = await peer.call("forecast", { city: "Oslo" });
      assert.ok(!result.isError, said(result));
      if (!can(at, "structure")) {
        assert.equal(result.structuredContent, undefined);
        assert.match(said(result), /^\{"city":"Oslo",.*\}$/);
        return;
      }
      assert.ok(isObject(result.structuredContent), "no structured content");
      assert.equal(result.structuredContent.city, "Oslo");
      assert.deepEqual(JSON.parse(said(result)), result.structuredContent);
    },
  },
  {
    name: "sees progress in order, all of it before the result",
    async visit(peer, at) {
      const seen: Progress[] = [];
      const result = await peer.call("countdown", { steps: 3, seconds: 0.02 }, { onProgress: (p) => seen.push(p) });
      const atResult = [...seen];
      assert.ok(!result.isError, said(result));
      assert.deepEqual(
        atResult.map((p) => [p.progress, p.total, p.message]),
        [
          [0, 3, can(at, "messages") ? "3 ..." : undefined],
          [1, 3, can(at, "messages") ? "2 ..." : undefined],
          [2, 3, can(at, "messages") ? "1 ..." : undefined],
          [3, 3, undefined],
        ],
      );
    },
  },
  {
    name: "answers a question",
    async visit(peer, at) {
      const asks: Ask[] = [];
      peer.answer((ask) => {
        asks.push(ask);
        return { action: "accept", content: { colour: "green" } };
      });
      const result = await peer.call("greet", { name: "Ada" });
      if (!can(at, "questions")) {
        assert.equal(asks.length, 0, "there is no way to ask");
        tellsToAskTheUser(result);
        assert.match(said(result), /Ada/, "what to ask");
        return;
      }
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
    async visit(peer, at) {
      let asked = 0;
      peer.answer(() => {
        asked++;
        return { action: "decline" };
      });
      const result = await peer.call("greet", { name: "Ada" });
      if (!can(at, "questions")) {
        tellsToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, said(result));
      assert.equal(asked, 1, "the question comes once");
      assert.match(said(result), /to yourself/);
    },
  },
  {
    name: "keeps questions of calls that run together apart",
    async visit(peer, at) {
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
        can(at, "questions") ? greetings : greetings.map((g) => /Ada|Bob|Eve/.exec(g)?.[0]),
        can(at, "questions")
          ? [...colours].map(([name, colour]) => `Hello ${name}, here is something ${colour} for you.`)
          : [...colours.keys()],
      );
    },
  },
  {
    name: "gets what the tool logs, and the bridge what it prints",
    async visit(peer, { log }) {
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
    async visit(peer, { log }) {
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
      const listed = async () => (await peer.tools()).some((t) => t.name === "trick");
      await changes(peer, "tools", "learn", listed);
      assert.match(said(await peer.call("trick", {})), /Ta-da/);
      await changes(peer, "tools", "forget", async () => !(await listed()));
    },
  },
  {
    name: "is told that a tool is unknown",
    async visit(peer) {
      await fails(peer.call("no_such_tool", {}), -32602, /no_such_tool/);
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
    name: "gets sound and links, or what stands for them",
    async visit(peer, at) {
      const { content } = await peer.call("offer", {});
      const [sound, link] = content;
      assert.equal(content.length, 2);
      if (can(at, "audio")) {
        assert.deepEqual(pick(sound, "type", "data", "mimeType"), { type: "audio", data: "UklGRg==", mimeType: "audio/wav" });
      } else {
        assert.equal(sound?.type, "resource");
        assert.deepEqual(pick(sound.resource, "blob", "mimeType"), { blob: "UklGRg==", mimeType: "audio/wav" });
      }
      if (can(at, "links")) {
        assert.deepEqual(pick(link, "type", "uri", "name"), { type: "resource_link", uri: "https://example.com/song", name: "song" });
      } else {
        assert.deepEqual(pick(link, "type", "text"), { type: "text", text: "song: https://example.com/song" });
      }
    },
  },
  nothingToComplainAbout,
];

/** Everything else, in Go. */
const everythingElse: Stop[] = [
  {
    name: "lists resources and templates, and reads them",
    async visit(peer) {
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
    name: "is told that a resource is unknown",
    async visit(peer, { client }) {
      await fails(peer.read("test://no-such-thing"), client.notFound, /no-such-thing/);
    },
  },
  {
    name: "is told that a resource has changed, for as long as it wants to know",
    async visit(peer) {
      let told = 0;
      const count = () => {
        told++;
      };
      const [before] = await peer.read(watched);

      await peer.subscribe(watched);
      const change = peer.change(watched).then(count);
      await peer.call("test_trigger_tool_change", {});
      await soon(change, "nothing said that the resource has changed");
      const [after] = await peer.read(watched);
      assert.notEqual(after?.text, before?.text, "what has changed is read");

      await peer.unsubscribe(watched);
      void peer.change(watched).then(count);
      const tools = peer.change("tools"); // which are told of by the same backend, at the same time
      await peer.call("test_trigger_tool_change", {});
      await soon(tools, "nothing said that the tools have changed");
      await peer.read(watched);
      assert.equal(told, 1, "nobody wants to know any more");
    },
  },
  {
    name: "lists prompts and gets them",
    async visit(peer) {
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
    name: "is told that a prompt is unknown, or lacks an argument",
    async visit(peer) {
      await fails(peer.prompt("no_such_prompt"), -32602, /no_such_prompt/);
      await fails(peer.prompt("test_prompt_with_arguments", { arg1: "a" }), -32602, /arg2/);
    },
  },
  {
    name: "is told that the prompts have changed",
    async visit(peer) {
      const listed = async () => (await peer.prompts()).some((p) => p.name === "test_transient_prompt");
      for (const has of [true, false]) {
        await changes(peer, "prompts", "test_trigger_prompt_change", async () => (await listed()) === has);
      }
    },
  },
  {
    name: "completes arguments",
    async visit(peer) {
      const prompt = { type: "ref/prompt", name: "test_prompt_with_arguments" } as const;
      assert.deepEqual(await peer.complete(prompt, "arg1", "par"), ["paris", "park", "party"]);
      assert.deepEqual(await peer.complete(prompt, "arg1", "nothing like it"), []);
      const template = { type: "ref/resource", uri: "test://template/{id}/data" } as const;
      assert.deepEqual(await peer.complete(template, "id", "1"), ["123"]);
    },
  },
  {
    name: "gets content of every type",
    async visit(peer, at) {
      const types = async (tool: string) => (await peer.call(tool, {})).content.map((c) => c.type);
      assert.deepEqual(await types("test_multiple_content_types"), ["text", "image", "resource"]);
      assert.deepEqual(await types("test_audio_content"), [can(at, "audio") ? "audio" : "resource"]);
    },
  },
  {
    name: "has its model asked",
    async visit(peer) {
      peer.think((prompt) => `I do not know "${prompt}".`);
      const result = await peer.call("test_sampling", { prompt: "What is love?" });
      assert.ok(!result.isError, said(result));
      assert.equal(said(result), 'LLM response: I do not know "What is love?".');
    },
  },
  {
    name: "tells its folders",
    async visit(peer) {
      const result = await peer.call("test_input_required_result_list_roots", {});
      assert.ok(!result.isError, said(result));
      assert.equal(said(result), `The client works in: ${peer.roots.join(", ")}`);
    },
  },
  {
    name: "answers several questions at once",
    async visit(peer, at) {
      peer.answer(() => ({ action: "accept", content: { name: "Ada" } }));
      peer.think(() => "Good morning");
      const result = await peer.call("test_input_required_result_multiple_inputs", {});
      if (!can(at, "questions")) {
        tellsToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, said(result));
      assert.equal(said(result), `Good morning Ada, you work in ${peer.roots.join(", ")}`);
    },
  },
  {
    name: "answers one question after the other",
    async visit(peer, at) {
      const asked: string[] = [];
      peer.answer((ask) => {
        asked.push(ask.message);
        const first = property(ask.requestedSchema.properties, "name");
        return { action: "accept", content: first ? { name: "Ada" } : { color: "green" } };
      });
      const result = await peer.call("test_input_required_result_multi_round", {});
      if (!can(at, "questions")) {
        tellsToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, said(result));
      assert.equal(said(result), "Ada likes green");
      assert.deepEqual(asked, ["Step 1: What is your name?", "Step 2: What is your favorite color?"]);
    },
  },
  {
    name: "is asked only what it can answer",
    async visit(peer, at) {
      peer.answer(() => ({ action: "accept", content: { name: "Ada" } }));
      peer.think(() => "Paris");
      const result = await peer.call("test_input_required_result_capabilities", {});
      assert.ok(!result.isError, said(result));
      assert.equal(said(result), `The client answered ${can(at, "questions") ? 3 : 2} questions.`);
    },
  },
  {
    name: "chooses several values",
    async visit(peer, at) {
      peer.answer(() => ({ action: "accept", content: { untitledMulti: ["option1", "option3"] } }));
      const result = await peer.call("test_elicitation_sep1330_enums", {});
      if (!can(at, "choices")) {
        tellsToAskTheUser(result);
        return;
      }
      assert.ok(!result.isError, said(result));
      assert.match(said(result), /action=accept, content=\{"untitledMulti": ?\["option1", ?"option3"\]\}/);
    },
  },
  {
    name: "answers a prompt's question",
    async visit(peer, at) {
      peer.answer(() => ({ action: "accept", content: { context: "poetry" } }));
      const prompt = peer.prompt("test_input_required_result_prompt");
      if (!can(at, "questions")) {
        // A prompt has no way to fail that a model reads.
        await fails(prompt, undefined, /elicitation/);
        return;
      }
      assert.match((await prompt)[0]?.content.text ?? "", /poetry/);
    },
  },
  nothingToComplainAbout,
];

export const tour: Record<Backend, Stop[]> = { witness: tools, "conformance-go": everythingElse };

/** The resource of conformance-go that changes whenever a list does. */
const watched = "test://watched-resource";

function can({ client }: At, feature: Feature): boolean {
  return client.can.includes(feature);
}

/** What a client gets whose user cannot be asked: a text from which the model can go on. */
function tellsToAskTheUser(result: ToolResult): void {
  assert.equal(result.isError, true, said(result));
  assert.match(said(result), /\bask the user\b/i);
}

/** Sees that a request is answered with an error. No code stands for any. */
async function fails(request: Promise<unknown>, code: number | undefined, message: RegExp): Promise<void> {
  await assert.rejects(request, (e: unknown) => {
    assert.ok(e instanceof Error && "code" in e && typeof e.code === "number", `an error with a code, not ${String(e)}`);
    if (code !== undefined) assert.equal(e.code, code, e.message);
    assert.match(e.message, message);
    return true;
  });
}

/** The text of a result. */
export function said(result: ToolResult): string {
  return result.content.map((c) => c.text ?? "").join("\n");
}

/** Some members of something, to compare it by. */
function pick(from: object | undefined, ...names: string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(from ?? {}).filter(([name]) => names.includes(name)));
}

/** What a schema says of one of its properties. */
function property(properties: unknown, name: string): Record<string, unknown> | undefined {
  const found = isObject(properties) ? properties[name] : undefined;
  return isObject(found) ? found : undefined;
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null;
}

/** Has a tool change a list, and waits until one is told so and it is right. What one is told first can be of a change before. */
async function changes(peer: Peer, what: string, tool: string, right: () => Promise<boolean>): Promise<void> {
  let change = peer.change(what);
  await peer.call(tool, {});
  do {
    await soon(change, `nothing said that ${tool} has changed the ${what}, or they are not what they should be`);
    change = peer.change(what);
  } while (!(await right()));
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
