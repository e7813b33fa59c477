// The tour's own test: it likes a peer that keeps every promise, and finds each fault that we put into one.
import { describe, expect, test } from "vitest";

import { Lines } from "./lines.ts";
import type { CallOptions, Content, Feature, LogMessage, Peer, Tool, ToolResult } from "./peer.ts";
import { tour, type At } from "./tour.ts";

const newest: At["client"] = {
  can: ["annotations", "audio", "messages", "titles", "structure", "links", "questions", "choices"],
  notFound: -32602,
};
const oldest: At["client"] = { can: [], notFound: -32002 };

for (const [name, client] of Object.entries({ newest, oldest })) {
  test(`a peer that keeps every promise passes, with the ${name} client`, async () => {
    for (const stops of Object.values(tour)) {
      const log = new Lines();
      const peer = honest(log, client);
      for (const stop of stops) await stop.visit(peer, { log, client });
    }
  });
}

const faults: { fault: string; stop: string; client?: At["client"]; breaks: (peer: Peer) => Partial<Peer> }[] = [
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
        const undelivered = peer.call(name, args, o?.onProgress ? { onProgress: o.onProgress } : {});
        return new Promise((done, failed) => {
          undelivered.then(done, failed);
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
  {
    fault: "an old client is shown a title",
    stop: "lists the tools with their schemas",
    client: oldest,
    breaks: (peer) => ({ tools: async () => (await peer.tools()).map((t) => ({ ...t, title: "Weather forecast" })) }),
  },
  {
    fault: "an old client gets structure",
    stop: "gets a structured result, and the same as text",
    client: oldest,
    breaks: (peer) => ({ call: async (...a) => ({ ...(await peer.call(...a)), structuredContent: {} }) }),
  },
  {
    fault: "progress for an old client has a message",
    stop: "sees progress in order, all of it before the result",
    client: oldest,
    breaks: (peer) => ({
      call: (name, args, o) => peer.call(name, args, { onProgress: (p) => o?.onProgress?.({ ...p, message: "slow" }) }),
    }),
  },
  {
    fault: "an old client's user is answered for",
    stop: "answers a question",
    client: oldest,
    breaks: () => ({ call: () => Promise.resolve(text("Hello Ada, here is something for you.")) }),
  },
  {
    fault: "a link has lost its way",
    stop: "gets sound and links, or what stands for them",
    client: oldest,
    breaks: (peer) => ({ call: async (...a) => ({ content: [...(await peer.call(...a)).content.slice(0, 1), ...text("song").content] }) }),
  },
  {
    fault: "an old client gets sound",
    stop: "gets content of every type",
    client: oldest,
    breaks: () => ({ call: () => Promise.resolve({ content: [sound] }) }),
  },
  {
    fault: "what is read is not what is there",
    stop: "lists resources and templates, and reads them",
    breaks: (peer) => ({ read: () => peer.read("test://static-text") }),
  },
  {
    fault: "an unknown resource has another era's code",
    stop: "is told that a resource is unknown",
    client: oldest,
    breaks: () => ({ read: (uri) => Promise.reject(failure(-32602, uri)) }),
  },
  {
    fault: "changes are told to who does not want to know",
    stop: "is told that a resource has changed, for as long as it wants to know",
    breaks: () => ({ unsubscribe: () => Promise.resolve() }),
  },
  {
    fault: "what has changed is not read",
    stop: "is told that a resource has changed, for as long as it wants to know",
    breaks: (peer) => {
      const old = peer.read("test://watched-resource");
      return { read: () => old };
    },
  },
  {
    fault: "a prompt gets another's argument",
    stop: "lists prompts and gets them",
    breaks: (peer) => ({ prompt: (name, args) => peer.prompt(name, args && { ...args, arg2: "a" }) }),
  },
  {
    fault: "a prompt makes do without an argument",
    stop: "is told that a prompt is unknown, or lacks an argument",
    breaks: (peer) => ({ prompt: (name, args) => peer.prompt(name, args && { ...args, arg2: "" }) }),
  },
  {
    fault: "old prompts are listed",
    stop: "is told that the prompts have changed",
    breaks: (peer) => {
      const old = peer.prompts();
      return { prompts: () => old };
    },
  },
  {
    fault: "a template is completed like a prompt",
    stop: "completes arguments",
    breaks: (peer) => ({ complete: (_, argument, value) => peer.complete({ type: "ref/prompt", name: "" }, argument, value) }),
  },
  {
    fault: "the model is asked something else",
    stop: "has its model asked",
    breaks: (peer) => ({
      think: (reply) => {
        peer.think(() => reply(""));
      },
    }),
  },
  {
    fault: "a folder is missing",
    stop: "tells its folders",
    breaks: () => ({ roots: ["file:///a", "file:///b", "file:///c"] }),
  },
  {
    fault: "one of several answers is lost",
    stop: "answers several questions at once",
    breaks: (peer) => ({
      think: () => {
        peer.think(() => "");
      },
    }),
  },
  {
    fault: "the second question comes first",
    stop: "answers one question after the other",
    breaks: (peer) => ({
      answer: (reply) => {
        peer.answer((ask) => reply({ ...ask, message: ask.message.replace("1", "3") }));
      },
    }),
  },
  {
    fault: "what can be asked is not asked",
    stop: "is asked only what it can answer",
    breaks: () => ({ call: () => Promise.resolve(text("The client answered 2 questions.")) }),
  },
  {
    fault: "one of several values is lost",
    stop: "chooses several values",
    breaks: (peer) => ({
      answer: () => {
        peer.answer(() => ({ action: "accept", content: { untitledMulti: ["option1"] } }));
      },
    }),
  },
  {
    fault: "a prompt goes on without its answer",
    stop: "answers a prompt's question",
    client: oldest,
    breaks: () => ({ prompt: () => Promise.resolve([]) }),
  },
];

describe("the tour finds that", () => {
  for (const { fault, stop, breaks, client = newest } of faults) {
    test(fault, async () => {
      const log = new Lines(50);
      const peer = honest(log, client);
      const found = Object.values(tour).flat().find((s) => s.name === stop);
      if (!found) throw new Error(`the tour has no stop that ${stop}`);
      await found.visit(peer, { log, client }); // so it is the fault that makes the difference
      await expect(async () => {
        await found.visit({ ...peer, ...breaks(peer) }, { log, client });
      }).rejects.toThrow();
    });
  }

  test("every stop has a fault", () => {
    const missed = Object.values(tour).flat().map((s) => s.name).filter((name) => !faults.some((f) => f.stop === name));
    expect(missed).toEqual(["goes on after a cancelled call"]); // a peer that does not would have failed to cancel
  });
});

const sound: Content = { type: "audio", data: "UklGRg==", mimeType: "audio/wav" };

/** A peer in memory that does what both backends do behind a bridge without faults. */
function honest(log: Lines, client: At["client"]): Peer {
  const can = (f: Feature) => client.can.includes(f);
  const logs: LogMessage[] = [];
  const roots = ["file:///a", "file:///b"];
  let answer: Parameters<Peer["answer"]>[0] = () => ({ action: "cancel" });
  let think: Parameters<Peer["think"]>[0] = () => "";
  let changes = 0;
  let transientPrompt = false;
  const subscriptions = new Set<string>();
  let waiting: { what: string; tell: () => void }[] = [];
  const changed = (what: string) => {
    for (const w of waiting.filter((w) => w.what === what)) w.tell();
    waiting = waiting.filter((w) => w.what !== what);
  };
  const ask = (message: string, ...names: string[]) => {
    const got = answer({ message, requestedSchema: { properties: Object.fromEntries(names.map((name) => [name, {}])) } });
    return got.action === "accept" ? got.content : {};
  };
  const cannotAsk = (what: string): ToolResult => ({ ...text(`Ask the user yourself: ${what}`), isError: true });
  const listChanges = (what: string) => {
    changes++;
    if (subscriptions.has(watched)) changed(watched);
    changed(what);
  };

const handlers: Record<string, (args: Record<string, unknown>, o: CallOptions) => ToolResult | Promise<ToolResult>> = {
    add({ a, b }) {
      if (typeof a !== "number" || typeof b !== "number") return { ...text("a is not an integer"), isError: true };
      return text(String(a + b));
    },
    forecast({ city }) {
      return { ...text(JSON.stringify({ city, sky: "clear" })), ...(can("structure") && { structuredContent: { city, sky: "clear" } }) };
    },
    async countdown({ steps }, { onProgress }) {
      const total = Number(steps);
      for (let progress = 0; progress <= total; progress++) {
        const message = can("messages") && progress < total ? `${total - progress} ...` : undefined;
        onProgress?.({ progress, total, message });
      }
      await Promise.resolve();
      return text("Lift-off!");
    },
    greet({ name }) {
      if (!can("questions")) return cannotAsk(`Hello ${String(name)}!`);
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
      changed("tools");
      return text("It takes practice.");
    },
    forget() {
      delete handlers.trick;
      changed("tools");
      return text("What was it?");
    },
    offer() {
      const blob: Content = { type: "resource", resource: { uri: "ni:///", blob: "UklGRg==", mimeType: "audio/wav" } };
      const link: Content = { type: "resource_link", uri: "https://example.com/song", name: "song" };
      const noLink: Content = { type: "text", text: "song: https://example.com/song" };
      return { content: [can("audio") ? sound : blob, can("links") ? link : noLink] };
    },
    test_trigger_tool_change() {
      listChanges("tools");
      return text("changed");
    },
    test_trigger_prompt_change() {
      transientPrompt = !transientPrompt;
      listChanges("prompts");
      return text("changed");
    },
    test_multiple_content_types: () => ({ content: ["text", "image", "resource"].map((type) => ({ type })) }),
    test_audio_content: () => ({ content: [can("audio") ? sound : { type: "resource" }] }),
    test_sampling: ({ prompt }) => text(`LLM response: ${think(String(prompt))}`),
    test_input_required_result_list_roots: () => text(`The client works in: ${roots.join(", ")}`),
    test_input_required_result_multiple_inputs() {
      if (!can("questions")) return cannotAsk("What is your name?");
      return text(`${think("")} ${String(ask("What is your name?", "name").name)}, you work in ${roots.join(", ")}`);
    },
    test_input_required_result_multi_round() {
      if (!can("questions")) return cannotAsk("What is your name?");
      const { name } = ask("Step 1: What is your name?", "name");
      const { color } = ask("Step 2: What is your favorite color?", "color");
      return text(`${String(name)} likes ${String(color)}`);
    },
    test_input_required_result_capabilities: () => text(`The client answered ${can("questions") ? 3 : 2} questions.`),
    test_elicitation_sep1330_enums() {
      if (!can("choices")) return cannotAsk("Choose.");
      return text(`action=accept, content=${JSON.stringify(ask("Choose.", "untitledMulti"))}`);
    },
  };

  return {
    revision: "2026-07-28",
    roots,
    logs,
    complaints: [],
    complaint: () => Promise.reject(new Error("it has no complaints")),
    answer(reply) {
      answer = reply;
    },
    logLevel: () => Promise.resolve(),
    think(reply) {
      think = reply;
    },
    change: (what) => new Promise((tell) => waiting.push({ what, tell })),
    tools: () => Promise.resolve(Object.keys(handlers).map((name) => describeTool(name, can))),
    async call(name, args, o = {}) {
      const handler = handlers[name];
      if (!handler) throw failure(-32602, name);
      return handler(args, o);
    },
    resources: () =>
      Promise.resolve([
        { uri: "test://static-text", name: "static-text", mimeType: "text/plain" },
        { uri: "test://static-binary", name: "static-binary", mimeType: "image/png" },
        { uri: watched, name: "watched-resource", mimeType: "text/plain" },
      ]),
    templates: () => Promise.resolve([{ uriTemplate: "test://template/{id}/data", name: "template" }]),
    read(uri) {
      const contents: Record<string, { text: string } | { blob: string }> = {
        "test://static-text": { text: "This is the content of the static text resource." },
        "test://static-binary": { blob: "iVBORw0KGgo" },
        "test://template/42/data": { text: '{"id":"42","templateTest":true,"data":"Data for ID: 42"}' },
        [watched]: { text: String(changes) },
      };
      const found = contents[uri];
      return found ? Promise.resolve([{ uri, ...found }]) : Promise.reject(failure(client.notFound, uri));
    },
    subscribe(uri) {
      subscriptions.add(uri);
      return Promise.resolve();
    },
    unsubscribe(uri) {
      subscriptions.delete(uri);
      return Promise.resolve();
    },
    prompts() {
      const args = ["arg1", "arg2"].map((name) => ({ name, required: true }));
      const transient = transientPrompt ? [{ name: "test_transient_prompt" }] : [];
      return Promise.resolve([{ name: "test_prompt_with_arguments", arguments: args }, ...transient]);
    },
    async prompt(name, args = {}) {
      const says = await Promise.resolve(prompts[name]?.(args));
      if (typeof says === "string") throw failure(-32602, says);
      if (says) return [{ role: "user", content: says }];
      if (name !== "test_input_required_result_prompt") throw failure(-32602, name);
      if (!can("questions")) throw failure(-32603, "elicitation");
      return [{ role: "user", content: { type: "text", text: String(ask("Context?", "context").context) } }];
    },
    complete(of, argument, value) {
      const values = of.type === "ref/resource" ? ["123", "456"] : argument === "arg1" ? ["paris", "park", "party"] : [];
      return Promise.resolve(values.filter((v) => v.startsWith(value)));
    },
    close: () => Promise.resolve(),
  };
}

const watched = "test://watched-resource";

/** What the prompts hold, or why they do not. */
const prompts: Record<string, (args: Record<string, string>) => Content | string> = {
  test_simple_prompt: () => ({ type: "text", text: "This is a simple prompt for testing." }),
  test_prompt_with_arguments({ arg1, arg2 }) {
    if (arg1 === undefined || arg2 === undefined) return "there is no arg2";
    return { type: "text", text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` };
  },
  test_prompt_with_embedded_resource: ({ resourceUri }) => ({
    type: "resource",
    resource: { uri: resourceUri ?? "", text: "Embedded resource content for testing." },
  }),
  test_prompt_with_image: () => ({ type: "image", mimeType: "image/png" }),
};

function failure(code: number, message: string): Error {
  return Object.assign(new Error(message), { code });
}

function describeTool(name: string, can: (f: Feature) => boolean): Tool {
  const integer = { type: "integer" };
  return {
    name,
    description: `What ${name} does.`,
    inputSchema: { type: "object", properties: { a: integer, b: integer }, required: ["a", "b"] },
    ...(can("structure") && { outputSchema: { type: "object" } }),
    ...(can("titles") && { title: "Weather forecast" }),
    ...(can("annotations") && { annotations: { title: "Weather forecast", readOnlyHint: true } }),
  };
}

function text(said: string): ToolResult {
  return { content: [{ type: "text", text: said }] };
}
