// Tests the tour: a correct peer passes, and each injected fault is detected.
import { describe, expect, test } from "vitest";

import { Lines } from "./lines.ts";
import type { CallOptions, Content, Feature, LogMessage, Peer, Tool, ToolResult } from "./peer.ts";
import { type CheckContext, tour } from "./tour.ts";

const newest: CheckContext["client"] = {
  features: ["annotations", "audio", "messages", "titles", "structure", "links", "questions", "choices"],
  notFound: -32602,
};
const oldest: CheckContext["client"] = { features: [], notFound: -32002 };

for (const [name, client] of Object.entries({ newest, oldest })) {
  test(`a correct peer passes, with the ${name} client`, async () => {
    for (const checks of Object.values(tour)) {
      const log = new Lines();
      const peer = correctPeer(log, client);
      for (const check of checks) await check.run(peer, { log, client });
    }
  });
}

const faults: {
  fault: string;
  check: string;
  client?: CheckContext["client"];
  breaks: (peer: Peer) => Partial<Peer>;
}[] = [
  {
    fault: "a tool is missing",
    check: "lists the tools with their schemas",
    breaks: (peer) => ({ tools: async () => (await peer.tools()).slice(1) }),
  },
  {
    fault: "a wrong sum",
    check: "calls a tool",
    breaks: () => ({ call: () => Promise.resolve(text("41")) }),
  },
  {
    fault: "text and structure disagree",
    check: "gets a structured result, and the same as text",
    breaks: (peer) => ({ call: async (...a) => ({ ...(await peer.call(...a)), ...text(`{"city":"Bergen"}`) }) }),
  },
  {
    fault: "progress is lost",
    check: "receives progress in order, before the result",
    breaks: (peer) => ({
      call: (name, args, o) =>
        peer.call(name, args, { ...o, onProgress: (p) => p.progress !== 2 && o?.onProgress?.(p) }),
    }),
  },
  {
    fault: "progress comes after the result",
    check: "receives progress in order, before the result",
    breaks: (peer) => ({
      call: (name, args, o) => peer.call(name, args, { ...o, onProgress: (p) => setTimeout(() => o?.onProgress?.(p)) }),
    }),
  },
  {
    fault: "the question comes twice",
    check: "answers a question",
    breaks: (peer) => ({
      call: async (...a) => {
        await peer.call(...a);
        return peer.call(...a);
      },
    }),
  },
  {
    fault: "a declined question is accepted",
    check: "declines a question",
    breaks: (peer) => ({
      onElicitation: () => {
        peer.onElicitation(() => ({ action: "accept", content: { colour: "green" } }));
      },
    }),
  },
  {
    fault: "logs are lost",
    check: "receives log messages; the tool's output goes to the bridge's log",
    breaks: () => ({ logs: [] }),
  },
  {
    fault: "a result goes to another caller",
    check: "gets the result of each concurrent call",
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
    fault: "a canceled call continues at the backend",
    check: "cancels a call, which ends at the backend",
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
    check: "gets the questions of each concurrent call",
    breaks: (peer) => ({
      onElicitation: (reply) => {
        peer.onElicitation((ask) => reply({ ...ask, message: ask.message.replace("Bob", "Eve") }));
      },
    }),
  },
  {
    fault: "the list is outdated",
    check: "receives notifications of changed tools",
    breaks: (peer) => {
      const old = peer.tools();
      return { tools: () => old };
    },
  },
  {
    fault: "an unknown tool is an error result",
    check: "gets an error for an unknown tool",
    breaks: () => ({ call: () => Promise.resolve({ ...text("no_such_tool"), isError: true }) }),
  },
  {
    fault: "invalid arguments are accepted",
    check: "gets an error result for invalid arguments",
    breaks: () => ({ call: () => Promise.resolve(text("a42")) }),
  },
  {
    fault: "a canceled call gets a response",
    check: "reports no errors",
    breaks: () => ({ errors: ["Received a response for an unknown message ID"] }),
  },
  {
    fault: "an old client is shown a title",
    check: "lists the tools with their schemas",
    client: oldest,
    breaks: (peer) => ({ tools: async () => (await peer.tools()).map((t) => ({ ...t, title: "Weather forecast" })) }),
  },
  {
    fault: "an old client gets structure",
    check: "gets a structured result, and the same as text",
    client: oldest,
    breaks: (peer) => ({ call: async (...a) => ({ ...(await peer.call(...a)), structuredContent: {} }) }),
  },
  {
    fault: "progress for an old client has a message",
    check: "receives progress in order, before the result",
    client: oldest,
    breaks: (peer) => ({
      call: (name, args, o) => peer.call(name, args, { onProgress: (p) => o?.onProgress?.({ ...p, message: "slow" }) }),
    }),
  },
  {
    fault: "an old client gets a result without its user's answer",
    check: "answers a question",
    client: oldest,
    breaks: () => ({ call: () => Promise.resolve(text("Hello Ada, here is something for you.")) }),
  },
  {
    fault: "a link lost its URI",
    check: "gets audio and links, or replacements",
    client: oldest,
    breaks: (peer) => ({
      call: async (...a) => ({ content: [...(await peer.call(...a)).content.slice(0, 1), ...text("song").content] }),
    }),
  },
  {
    fault: "an old client gets audio",
    check: "gets content of every type",
    client: oldest,
    breaks: () => ({ call: () => Promise.resolve({ content: [sound] }) }),
  },
  {
    fault: "another resource is read",
    check: "lists resources and templates, and reads them",
    breaks: (peer) => ({ read: () => peer.read("test://static-text") }),
  },
  {
    fault: "an unknown resource has another era's code",
    check: "gets an error for an unknown resource",
    client: oldest,
    breaks: () => ({ read: (uri) => Promise.reject(failure(-32602, uri)) }),
  },
  {
    fault: "notifications continue after unsubscribing",
    check: "receives updates of a resource until it unsubscribes",
    breaks: () => ({ unsubscribe: () => Promise.resolve() }),
  },
  {
    fault: "an outdated resource is read",
    check: "receives updates of a resource until it unsubscribes",
    breaks: (peer) => {
      const old = peer.read("test://watched-resource");
      return { read: () => old };
    },
  },
  {
    fault: "a prompt gets another's argument",
    check: "lists prompts and gets them",
    breaks: (peer) => ({ prompt: (name, args) => peer.prompt(name, args && { ...args, arg2: "a" }) }),
  },
  {
    fault: "a missing argument of a prompt is accepted",
    check: "gets an error for an unknown prompt or a missing argument",
    breaks: (peer) => ({ prompt: (name, args) => peer.prompt(name, args && { ...args, arg2: "" }) }),
  },
  {
    fault: "the list of prompts is outdated",
    check: "receives notifications of changed prompts",
    breaks: (peer) => {
      const old = peer.prompts();
      return { prompts: () => old };
    },
  },
  {
    fault: "a template is completed like a prompt",
    check: "completes arguments",
    breaks: (peer) => ({
      complete: (_, argument, value) => peer.complete({ type: "ref/prompt", name: "" }, argument, value),
    }),
  },
  {
    fault: "the model receives another prompt",
    check: "answers a sampling request",
    breaks: (peer) => ({
      onSampling: (reply) => {
        peer.onSampling(() => reply(""));
      },
    }),
  },
  {
    fault: "a root is missing",
    check: "lists its roots",
    breaks: () => ({ roots: ["file:///a", "file:///b", "file:///c"] }),
  },
  {
    fault: "one of several answers is lost",
    check: "answers several questions at once",
    breaks: (peer) => ({
      onSampling: () => {
        peer.onSampling(() => "");
      },
    }),
  },
  {
    fault: "the second question comes first",
    check: "answers one question after the other",
    breaks: (peer) => ({
      onElicitation: (reply) => {
        peer.onElicitation((ask) => reply({ ...ask, message: ask.message.replace("1", "3") }));
      },
    }),
  },
  {
    fault: "a supported question is not asked",
    check: "is asked only what it can answer",
    breaks: () => ({ call: () => Promise.resolve(text("The client answered 2 questions.")) }),
  },
  {
    fault: "one of several values is lost",
    check: "chooses several values",
    breaks: (peer) => ({
      onElicitation: () => {
        peer.onElicitation(() => ({ action: "accept", content: { untitledMulti: ["option1"] } }));
      },
    }),
  },
  {
    fault: "a prompt continues without an answer",
    check: "answers a prompt's question",
    client: oldest,
    breaks: () => ({ prompt: () => Promise.resolve([]) }),
  },
];

describe("the tour detects that", () => {
  for (const { fault, check, breaks, client = newest } of faults) {
    test(fault, async () => {
      const log = new Lines(50);
      const peer = correctPeer(log, client);
      const found = Object.values(tour).flat().find((s) => s.name === check);
      if (!found) throw new Error(`the tour has no check: ${check}`);
      await found.run(peer, { log, client }); // Without the fault, it passes.
      await expect(async () => {
        await found.run({ ...peer, ...breaks(peer) }, { log, client });
      }).rejects.toThrow();
    });
  }

  test("every check has a fault", () => {
    const missed = Object.values(tour).flat().map((s) => s.name).filter((name) =>
      !faults.some((f) => f.check === name)
    );
    expect(missed).toEqual(["calls tools after a canceled call"]); // A peer that cannot call fails to cancel.
  });
});

const sound: Content = { type: "audio", data: "UklGRg==", mimeType: "audio/wav" };

/** Returns a peer in memory that behaves like both backends behind a correct bridge. */
function correctPeer(log: Lines, client: CheckContext["client"]): Peer {
  const can = (f: Feature) => client.features.includes(f);
  const logs: LogMessage[] = [];
  const roots = ["file:///a", "file:///b"];
  let answer: Parameters<Peer["onElicitation"]>[0] = () => ({ action: "cancel" });
  let respond: Parameters<Peer["onSampling"]>[0] = () => "";
  let changes = 0;
  let transientPrompt = false;
  const subscriptions = new Set<string>();
  let waiters: { what: string; resolve: () => void }[] = [];
  const changed = (what: string) => {
    for (const w of waiters.filter((w) => w.what === what)) w.resolve();
    waiters = waiters.filter((w) => w.what !== what);
  };
  const ask = (message: string, ...names: string[]) => {
    const got = answer({
      message,
      requestedSchema: { properties: Object.fromEntries(names.map((name) => [name, {}])) },
    });
    return got.action === "accept" ? got.content : {};
  };
  const cannotAsk = (what: string): ToolResult => ({ ...text(`Ask the user yourself: ${what}`), isError: true });
  const listChanges = (what: string) => {
    changes++;
    if (subscriptions.has(watched)) changed(watched);
    changed(what);
  };

  const handlers: Record<string, (args: Record<string, unknown>, o: CallOptions) => ToolResult | Promise<ToolResult>> =
    {
      add({ a, b }) {
        if (typeof a !== "number" || typeof b !== "number") return { ...text("a is not an integer"), isError: true };
        return text(String(a + b));
      },
      forecast({ city }) {
        return {
          ...text(JSON.stringify({ city, sky: "clear" })),
          ...(can("structure") && { structuredContent: { city, sky: "clear" } }),
        };
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
        const blob: Content = {
          type: "resource",
          resource: { uri: "ni:///", blob: "UklGRg==", mimeType: "audio/wav" },
        };
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
      test_sampling: ({ prompt }) => text(`LLM response: ${respond(String(prompt))}`),
      test_input_required_result_list_roots: () => text(`The client works in: ${roots.join(", ")}`),
      test_input_required_result_multiple_inputs() {
        if (!can("questions")) return cannotAsk("What is your name?");
        return text(
          `${respond("")} ${String(ask("What is your name?", "name").name)}, you work in ${roots.join(", ")}`,
        );
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
    errors: [],
    waitForError: () => Promise.reject(new Error("it has no errors")),
    onElicitation(reply) {
      answer = reply;
    },
    logLevel: () => Promise.resolve(),
    onSampling(reply) {
      respond = reply;
    },
    change: (what) => new Promise((resolve) => waiters.push({ what, resolve })),
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
      const content = await Promise.resolve(prompts[name]?.(args));
      if (typeof content === "string") throw failure(-32602, content);
      if (content) return [{ role: "user", content }];
      if (name !== "test_input_required_result_prompt") throw failure(-32602, name);
      if (!can("questions")) throw failure(-32603, "elicitation");
      return [{ role: "user", content: { type: "text", text: String(ask("Context?", "context").context) } }];
    },
    complete(of, argument, value) {
      const values = of.type === "ref/resource"
        ? ["123", "456"]
        : argument === "arg1"
        ? ["paris", "park", "party"]
        : [];
      return Promise.resolve(values.filter((v) => v.startsWith(value)));
    },
    close: () => Promise.resolve(),
  };
}

const watched = "test://watched-resource";

/** The contents of the prompts, or their errors. */
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

function text(value: string): ToolResult {
  return { content: [{ type: "text", text: value }] };
}
