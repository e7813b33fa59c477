/** Calls in process: results, errors, resources, prompts, completion, changes. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { status } from "@grpc/grpc-js";
import { z } from "zod";

import {
  app,
  assistant,
  audio,
  DefinitionError,
  embedded,
  image,
  link,
  McpError,
  NotFound,
  part,
  result,
  text,
  ToolError,
  user,
  VisitRequired,
  type App,
  type Caller,
  type ToolOptions,
} from "../src/index.js";
import {
  CallToolRequest,
  CompleteRequest,
  GetPromptRequest,
  type ListenResponse,
  LogLevel,
  ReadResourceRequest,
  VerifiedCaller,
} from "../src/v1.js";
import { call, complete, EVERYTHING, prompt, read } from "../src/testing.js";

const printed = vi.spyOn(console, "error");
beforeEach(() => {
  printed.mockImplementation(() => undefined);
});
afterEach(() => {
  printed.mockReset();
});
const log = () => printed.mock.calls.map((c) => c.join(" ")).join("\n");

const png = new Uint8Array([1, 2, 3]);

describe("the result of a tool", () => {
  test.each<[string, unknown, string[], unknown]>([
    ["text", "hello", ["text"], undefined],
    ["nothing", undefined, [], undefined],
    ["an object", { a: 1n }, ["text"], { a: 1 }],
    ["a list", [1, 2], ["text"], { result: [1, 2] }],
    ["a number", 7, ["text"], { result: 7 }],
    ["an image", image(png), ["image"], undefined],
    ["content", ["x", image(png), audio(png), embedded("a:b", "x"), link("a:b"), text("t", { priority: 0 })], [
      "text",
      "image",
      "audio",
      "resource",
      "resourceLink",
      "text",
    ], undefined],
    ["a result", result({ content: "x", structured: { a: 1 }, meta: { m: 1 } }), ["text"], { a: 1 }],
    ["a structured result", result({ structured: { a: 1 } }), ["text"], { a: 1 }],
  ])("%s", async (_, value, kinds, structured) => {
    const called = await call(app("test", "1").tool("t", {}, () => value), "t");
    expect(called.result.content.map((c) => c.block?.$case)).toEqual(kinds);
    expect(called.structured).toEqual(structured);
    expect(called.isError).toBe(false);
  });

  test("content has hints", async () => {
    const t = text("x", { audience: ["user"], priority: 0, lastModified: new Date(0), meta: { k: 1 } });
    const called = await call(app("test", "1").tool("t", {}, () => t), "t");
    expect(called.result.content[0]?.block?.value).toMatchObject({
      annotations: { audience: ["user"], priority: 0, lastModified: "1970-01-01T00:00:00.000Z" },
      meta: '{"k":1}',
    });
  });

  class Opaque {
    readonly #secret = 1;
    get secret() { return this.#secret; }
  }
  const cycle: Record<string, unknown> = {};
  cycle.self = { cycle };
  test.each<[string, unknown, string]>([
    ["NaN", { degrees: [1, NaN] }, "degrees.1 is NaN, which JSON cannot represent"],
    ["an infinity", -Infinity, "the value is -Infinity, which"],
    [
      "a Map",
      { by: { city: new Map([["rome", 1]]) } },
      "by.city is Map, which JSON cannot represent; write Object.fromEntries(map)",
    ],
    ["a Set", [new Set([1])], "0 is Set, which JSON cannot represent; write [...set]"],
    ["an object that shows nothing", { o: new Opaque() }, "o is Opaque, which"],
    ["an error", { e: Object.assign(new Error("x"), { code: 1 }) }, "e is Error, which"],
    ["a promise", { p: Promise.resolve(1) }, "p is Promise, which"],
    ["a function", { f: () => 1 }, "f is a function, which"],
    ["bytes", { b: png }, "b is Uint8Array, which JSON cannot represent; write its base64"],
    ["a hole", { list: [1, undefined] }, "list.1 is undefined, which"],
    ["a cycle", cycle, "self.cycle is an object that contains itself, which"],
    ["an invalid date", { d: new Date(NaN) }, "d is an invalid Date, which"],
  ])("a value that JSON cannot represent is rejected with its path: %s", async (_, value, message) => {
    const a = app("test", "1")
      .tool("t", {}, () => value)
      .tool("any", { output: z.object({ a: z.any() }) }, () => ({ a: value }))
      .tool("structured", {}, () => result({ structured: { a: value } }))
      .resource("a:b", {}, () => ({ a: value }));
    expect(await call(a, "t")).toMatchObject({ isError: true, text: expect.stringContaining(message) as string });
    const nested = message.replace("the value", "a").replace(/^(?!a )/, "a.");
    for (const tool of ["any", "structured"]) expect((await call(a, tool)).text).toContain(nested);
    await expect(read(a, "a:b")).rejects.toThrow(nested);
  });

  test("values with toJSON and undefined members are accepted", async () => {
    const value = {
      d: new Date(0),
      u: new URL("https://x/"),
      n: Object.create(null) as object,
      s: new String("x"),
      none: undefined,
      empty: {},
    };
    const a = app("test", "1").tool("t", {}, () => value);
    expect((await call(a, "t")).structured).toEqual({
      d: "1970-01-01T00:00:00.000Z",
      u: "https://x/",
      n: {},
      s: "x",
      empty: {},
    });
  });

  test("bytes are rejected", async () => {
    const called = await call(app("test", "1").tool("t", {}, () => png), "t");
    expect(called.text).toContain("a tool cannot return bytes: return image(data, mimeType)");
  });
});

describe("errors", () => {
  test("of a tool are results, and their line is logged", async () => {
    const a = app("test", "1").tool("t", {}, () => {
      throw new RangeError("too far");
    });
    const called = await call(a, "t");
    expect([called.isError, called.text]).toEqual([true, "too far"]);
    expect(log()).toMatch(/^tool "t" failed at call\.test\.ts:\d+: RangeError: too far\n +at /);
  });

  test("thrown as ToolError are not logged", async () => {
    const a = app("test", "1").tool("t", {}, () => Promise.reject(new ToolError("no such city")));
    expect((await call(a, "t")).text).toBe("no such city");
    expect(log()).toBe("");
  });

  test("may be values that are not Errors", async () => {
    const a = app("test", "1").tool("t", {}, () => {
      throw "thrown"; // eslint-disable-line @typescript-eslint/only-throw-error
    });
    expect((await call(a, "t")).text).toBe("thrown");
  });

  test("with a code are sent unchanged", async () => {
    const a = app("test", "1").tool("t", {}, () => {
      throw new McpError(-32042, "exactly", { n: 1 });
    });
    await expect(call(a, "t")).rejects.toMatchObject({ code: -32042, message: "exactly", data: { n: 1 } });
  });

  test("of an unknown tool are NOT_FOUND", async () => {
    await expect(call(app("test", "1").tool("search", {}, () => ""), "serch")).rejects.toThrow(
      'there is no tool "serch"; did you mean search?',
    );
  });

  test("of arguments that are not JSON are results", async () => {
    const a = app("test", "1").tool("t", {}, () => "");
    const { event } = await a.callTool(
      { name: "t", arguments: Buffer.from("{"), inputResponses: {}, extra: "" },
      () => Promise.resolve(),
    );
    expect(event).toMatchObject({ $case: "result", value: { isError: true } });
  });
});

test("the context describes the caller", async () => {
  const a = app("test", "1").tool("t", {}, async (_, ctx) => {
    await ctx.progress(1, 2, "half");
    await ctx.log.info({ a: 1 }, "here");
    await ctx.log.debug("too fine");
    return {
      name: ctx.clientInfo.name,
      who: ctx.principal?.subject,
      claims: ctx.principal?.claims,
      header: ctx.headers["x-a"],
      meta: ctx.meta,
      version: ctx.protocolVersion,
    };
  });
  const context = {
    ...EVERYTHING,
    logLevel: LogLevel.INFO,
    meta: '{"m":1}',
    verified: VerifiedCaller.fromPartial({
      protocolVersion: "2025-11-25",
      headers: { "x-a": "1" },
      principal: { subject: "ada", issuer: "x", scopes: [], claims: '{"email":"a@x"}' },
    }),
  };
  const called = await call(a, "t", {}, { context });
  expect(called.structured).toEqual({
    name: "mcpbridge/testing",
    who: "ada",
    claims: { email: "a@x" },
    header: "1",
    meta: { m: 1 },
    version: "2025-11-25",
  });
  expect(called.progress).toMatchObject([{ progress: 1, total: 2, message: "half" }]);
  expect(called.logs.map((l) => [l.level, l.logger, l.data])).toEqual([[LogLevel.INFO, "here", '{"a":1}']]);
  const quiet = await call(a, "t", {}, {
    context: { ...context, logLevel: LogLevel.UNSPECIFIED, progressWanted: false },
  });
  expect([quiet.progress, quiet.logs]).toEqual([[], []]);
});

test("hints are absent by default", () => {
  const a = app("test", "1").tool("a", {}, () => "").tool(
    "b",
    { readOnly: false, title: "B", icons: ["data:,"] },
    () => "",
  );
  expect(a.toolMessage("a").annotations).toBeUndefined();
  expect(a.toolMessage("b")).toMatchObject({
    title: "B",
    annotations: { readOnlyHint: false },
    icons: [{ src: "data:," }],
  });
  expect(a.toolMessage("b").annotations?.destructiveHint).toBeUndefined();
});

describe("resources", () => {
  const make = (): App =>
    app("test", "1")
      .resource("note:1", { name: "one", mimeType: "text/markdown", size: 3, ttlMs: 0 }, () => "abc")
      .resource("note:bytes", {}, () => png)
      .resource("note:json", {}, () => Promise.resolve({ a: 1 }))
      .resource("note:parts", {}, () => [part("note:parts/1", "x"), part("note:parts/2", png, "image/png")])
      .resource("note:image", {}, () => image(png))
      .resource("note:nothing", {}, () => undefined)
      .resource(
        "user:{id}{?field}",
        { description: "A user", complete: { id: ["7", "70", "8"] } },
        ({ id, field }, ctx) => {
          if (id === "0") throw new NotFound("no user 0");
          return `${id} ${field ?? "-"} ${ctx.uri}`;
        },
      );

  test("are listed", () => {
    const a = make();
    expect(a.listResources({}).resources[0]).toMatchObject({
      uri: "note:1",
      name: "one",
      mimeType: "text/markdown",
      size: 3,
    });
    expect(a.listResourceTemplates({}).resourceTemplates).toMatchObject([{
      uriTemplate: "user:{id}{?field}",
      description: "A user",
    }]);
    expect(() => a.listResources({ cursor: "" })).toThrow('there is no page at cursor ""');
    expect(a.discover().capabilities).toMatchObject({
      resources: { subscribe: true, listChanged: true },
      completions: {},
    });
    expect(a.discover().capabilities?.tools).toBeUndefined();
  });

  test.each([
    ["note:1", [["note:1", "text/markdown", "abc"]]],
    ["note:bytes", [["note:bytes", "application/octet-stream", png]]],
    ["note:json", [["note:json", "application/json", '{"a":1}']]],
    ["note:parts", [["note:parts/1", "text/plain", "x"], ["note:parts/2", "image/png", png]]],
    ["note:image", [["note:image", "image/png", png]]],
    ["user:7?field=name", [["user:7?field=name", "text/plain", "7 name user:7?field=name"]]],
  ])("%s is read", async (uri, contents) => {
    const called = await read(make(), uri);
    expect(
      called.result.contents.map((c) =>
        [c.uri, c.mimeType, c.body?.$case === "blob" ? new Uint8Array(c.body.value) : c.body?.value],
      ),
    ).toEqual(contents);
    expect(called.result.ttlMs).toBe(uri === "note:1" ? 0 : undefined);
  });

  test("that do not exist or are empty", async () => {
    await expect(read(make(), "note:2")).rejects.toMatchObject({
      code: 5,
      message: expect.stringContaining('there is no resource "note:2"; did you mean') as string,
    });
    await expect(read(make(), "user:0")).rejects.toMatchObject({ code: 5, message: "no user 0" });
    await expect(read(make(), "note:nothing")).rejects.toMatchObject({ code: -32603 });
    expect(log()).toContain("throw new NotFound(...)");
  });

  test("with invalid definitions are rejected", () => {
    expect(() => {
      app("t", "1").resource("notes", {}, () => "").check();
    }).toThrow(/^call\.test\.ts:\d+: resource "notes": a URI begins with a scheme/);
    expect(() => {
      app("t", "1").resource("a:{b}{c}", {}, () => "").check();
    }).toThrow(DefinitionError);
    expect(() => {
      app("t", "1").resource("a:{b}", { complete: { c: [] } as never }, () => "").check();
    }).toThrow('there is no variable "c"');
    expect(() => {
      app("t", "1").resource("a:{b}", { variables: { b: z.date() } }, () => "").check();
    }).toThrow(/^call\.test\.ts:\d+: resource "a:\{b\}": variables: "b": Date/);
  });

  test("convert variables by their schemas", async () => {
    const a = app("t", "1").resource(
      "w:{city}/{station}{?days}",
      {
        variables: {
          city: z.enum(["rome", "oslo"]),
          station: z.coerce.number().int(),
          days: z.coerce.number().default(1),
        },
      },
      ({ city, station, days }) => `${city satisfies "rome" | "oslo"} ${(station satisfies number) + 1} ${days + 1}`,
    );
    expect((await read(a, "w:rome/1?days=3")).result.contents[0]?.body?.value).toBe("rome 2 4");
    expect((await read(a, "w:oslo/1")).result.contents[0]?.body?.value).toBe("oslo 2 2");
    await expect(read(a, "w:paris/1")).rejects.toMatchObject({ code: 5 });
    await expect(read(a, "w:rome/x")).rejects.toMatchObject({ code: 5 });
    expect(await complete(a, { resource: "w:{city}/{station}{?days}" }, "city", "o")).toEqual(["oslo"]);
  });

  test("can ask questions", async () => {
    const a = app("t", "1").resource("a:b", {}, async (_, ctx) => (await ctx.elicit("Why?", z.string())).data);
    expect((await read(a, "a:b", { elicit: ["so"] })).result.contents[0]?.body?.value).toBe("so");
  });
});

describe("prompts", () => {
  const make = () =>
    app("test", "1").prompt(
      "review",
      {
        description: "Review code",
        arguments: { code: z.string().describe("The code"), style: z.enum(["kind", "harsh"]).optional() },
        complete: { code: (typed, others) => [`${typed}!`, others.style ?? ""] },
      },
      ({ code, style }) => [user(`Review ${code}`, image(png)), assistant(style ?? "any"), "Go"],
    );

  test("are listed and get their arguments", async () => {
    const a = make();
    expect(a.listPrompts({}).prompts).toMatchObject([
      {
        name: "review",
        description: "Review code",
        arguments: [{ name: "code", description: "The code", required: true }, { name: "style", required: false }],
      },
    ]);
    const { result } = await prompt(a, "review", { code: "x", style: "kind" });
    expect(result.messages.map((m) => [m.role, m.content?.block?.$case])).toEqual([
      ["user", "text"],
      ["user", "image"],
      ["assistant", "text"],
      ["user", "text"],
    ]);
    expect(result.description).toBe("Review code");
  });

  test("convert their arguments by their schemas", async () => {
    const types = {
      n: z.number(),
      i: z.int().optional(),
      big: z.bigint().optional(),
      b: z.boolean().optional(),
      s: z.string().optional(),
      u: z.union([z.string(), z.number()]).optional(),
    };
    const got: unknown[] = [];
    const a = app("test", "1").prompt("p", { arguments: types }, (args) => {
      got.push(args);
      return "";
    });
    a.resource("n:{n}{?b}", { variables: { n: z.number(), b: z.boolean().optional() } }, (variables) => variables);
    await prompt(a, "p", { n: "-1.5e3", i: "7", big: "12345678901234567890", b: "false", s: "8", u: "9" });
    expect(got).toEqual([{ n: -1500, i: 7, big: 12345678901234567890n, b: false, s: "8", u: "9" }]);
    for (const n of ["0x10", "", "1 ", "true", "NaN", '1,"s":2'])
      await expect(prompt(a, "p", { n })).rejects.toThrow("- n: ");
    const { contents } = (await read(a, "n:5?b=true")).result;
    expect(contents[0]?.body?.value).toBe('{"n":5,"b":true}');
    await expect(read(a, "n:five")).rejects.toMatchObject({ code: 5 });
  });

  test("reject invalid arguments", async () => {
    await expect(prompt(make(), "review", { style: "rude" })).rejects.toMatchObject({
      code: -32602,
      message:
        'prompt "review": the arguments are invalid.\n- code: is required\n' +
          '- style: Invalid option: expected one of "kind"|"harsh", got "rude"',
    });
    await expect(prompt(make(), "reviews")).rejects.toThrow("did you mean review?");
  });

  test("complete their arguments", async () => {
    const a = make();
    const get = (name: string, value: string, others = {}) => complete(a, { prompt: "review" }, name, value, others);
    expect(await get("style", "H")).toEqual(["harsh"]);
    expect(await get("by itself", "")).toEqual([]);
    expect(await get("code", "a", { style: "kind" })).toEqual(["a!", "kind"]);
    expect(await get("toString", "")).toEqual([]);
  });

  test("a template's variables are completed, at most 100 at a time", async () => {
    const a = app("t", "1").resource("n:{n}", { complete: { n: () => Array.from({ length: 120 }, String) } }, () => "");
    const complete = (uri: string) =>
      a.complete(
        CompleteRequest.fromPartial({
          reference: { reference: { $case: "resource", value: { uri } } },
          argument: { name: "n", value: "" },
        }),
      );
    expect((await complete("n:{n}")).completion).toMatchObject({ total: 120, hasMore: true, values: { length: 100 } });
    expect((await complete("n:5")).completion?.total).toBe(120);
    await expect(complete("m:5")).rejects.toThrow('there is no resource "m:5"');
  });

  test.each([undefined, { reference: { $case: "raw" as const, value: '{"type":"ref/acme"}' } }])(
    "an unknown reference is invalid",
    async (reference) => {
      const request = CompleteRequest.fromPartial({ reference, argument: { name: "n", value: "" } });
      const error = {
        code: status.INVALID_ARGUMENT,
        message: "the reference is neither a prompt nor a resource template",
      };
      await expect(app("t", "1").complete(request)).rejects.toMatchObject(error);
    },
  );
});

test("an McpError has a code of 32 bits", () => {
  expect(() => new McpError(2 ** 31, "x")).toThrow("32-bit integer, not 2147483648");
  expect(() => new McpError(1.5, "x")).toThrow("32-bit integer, not 1.5");
  expect(new McpError(-(2 ** 31), "x").code).toBe(-(2 ** 31));
});

// Extension ui, 2026-01-26: tool metadata, resources.
test("a user interface is declared, and has its type", async () => {
  const a = app("a", "1");
  a.tool("report", { ui: "ui://a/page" }, () => "");
  a.tool("refresh", { ui: "ui://a/page", meta: { b: 1, ui: { visibility: ["app"] } }, task: true }, () => "");
  a.resource("ui://a/page", {}, () => "<!doctype html>");
  a.resource("ui://a/{kind}", { mimeType: "text/html" }, () => "<!doctype html>");
  const page = { resourceUri: "ui://a/page" };
  expect(["report", "refresh"].map((name) => JSON.parse(a.toolMessage(name).meta) as object)).toEqual([
    { ui: page },
    { b: 1, ui: { visibility: ["app"], ...page } },
  ]);
  expect(JSON.parse(a.discover().capabilities?.extensions ?? "")).toEqual({
    "io.modelcontextprotocol/tasks": {},
    "io.modelcontextprotocol/ui": {},
  });
  const type = "text/html;profile=mcp-app";
  expect(a.listResources({}).resources).toMatchObject([{ mimeType: type }]);
  expect((await read(a, "ui://a/page")).result.contents).toMatchObject([{ mimeType: type }]);
  expect((await read(a, "ui://a/x")).result.contents).toMatchObject([{ mimeType: "text/html" }]);

  const plain = app("a", "1").tool("t", { meta: { ui: null } }, () => "");
  expect(plain.discover().capabilities?.extensions).toBe("");
  const mistaken = app("a", "1").tool("t", { ui: "https://example.com" }, () => "");
  expect(() => { mistaken.check(); }).toThrow("ui: the URI of a user interface starts with ui://");
});

describe("tasks", () => {
  test("a tool defines its tasks", () => {
    const defined = (task?: ToolOptions<never, never>["task"]) => {
      const a = app("a", "1");
      a.tool("t", task === undefined ? {} : { task }, () => "");
      return [a.toolMessage("t").execution, a.discover().capabilities?.extensions];
    };
    const extensions = '{"io.modelcontextprotocol/tasks":{}}';
    const optional = { taskSupport: "optional", retry: false, startsLater: false };
    expect(defined()).toEqual([undefined, ""]);
    expect(defined(true)).toMatchObject([optional, extensions]);
    expect(defined({})).toMatchObject([optional, extensions]);
    expect(defined({ required: true })).toMatchObject([{ ...optional, taskSupport: "required" }, extensions]);
    expect(defined({ retry: true, startsLater: true })).toMatchObject([
      { ...optional, retry: true, startsLater: true },
      extensions,
    ]);
    const mistaken = app("a", "1").tool("t", { task: { retries: 1 } as object }, () => "");
    expect(() => { mistaken.check(); }).toThrow('task: there is no option "retries"; ');
  });

  test("a tool starts its task", async () => {
    const a = app("a", "1");
    a.tool("t", { input: { start: z.boolean() }, task: { startsLater: true } }, async ({ start }, ctx) => {
      const { data } = await ctx.elicit("Name?", { name: z.string() });
      if (start) await ctx.startTask();
      return data.name;
    });
    for (const start of [true, false]) {
      const called = await call(a, "t", { start }, { elicit: [{ name: "Ada" }] });
      expect([called.text, called.rounds, called.taskStarted]).toEqual(["Ada", 2, start]);
    }
  });
});

describe("changes", () => {
  const listen = (a: App, uris: string[] = []) => {
    const events: (ListenResponse["event"] | undefined)[] = [];
    const filter = {
      toolsListChanged: true, resourcesListChanged: true, resourceSubscriptions: uris, taskIds: [], extra: "",
    };
    const l = a.changes.listen(filter, () => undefined);
    return {
      events: () => {
        for (let n; (n = l.next());) events.push(n.event);
        return events.map((e) => e?.$case === "resourceUpdated" ? e.value.uri : e?.$case);
      },
    };
  };

  test("are sent once, to subscribers", () => {
    const a = app("test", "1", { declares: ["resources"] });
    const { events } = listen(a, ["a:1"]);
    a.tool("t", {}, () => "").tool("u", {}, () => "").prompt("p", {}, () => "");
    a.notifyUpdated("a:1");
    a.notifyUpdated("a:1");
    a.notifyUpdated("a:2");
    a.removeTool("t");
    a.resource("a:1", {}, () => "").removeResource("a:1");
    expect(events()).toEqual(["toolsListChanged", "a:1", "resourcesListChanged"]);
    expect(a.removeTool("t")).toBe(false);
    expect(a.listTools({}).tools.map((t) => t.name)).toEqual(["u"]);
  });

  test("of a capability that was not declared are logged", () => {
    const a = app("test", "1");
    a.discover();
    a.prompt("p", {}, () => "");
    expect(log()).toContain('write app(name, version, { declares: ["prompts"] })');
  });
});

test("console output is sent only to the caller that requested logs", async () => {
  const original = { ...console };
  const a = app("test", "1").forwardConsole().forwardConsole();
  a.tool("t", { input: { n: z.number() } }, async ({ n }) => {
    await Promise.resolve();
    console.error("n is %d", n);
  });
  const [one, two] = await Promise.all([call(a, "t", { n: 1 }), call(a, "t", { n: 2 })]);
  console.error("without a call");
  Object.assign(console, original);
  expect([one, two].map((c) => c.logs.map((l) => [l.level, l.logger, l.data]))).toEqual([
    [[5, "console", '"n is 1"']],
    [[5, "console", '"n is 2"']],
  ]);
});

test("VisitRequired returns a URL elicitation", async () => {
  const a = app("test", "1").tool("t", {}, () => {
    throw new VisitRequired("Sign in", "https://x", "7");
  });
  const data = { elicitations: [{ mode: "url", elicitationId: "7", url: "https://x", message: "Sign in" }] };
  await expect(call(a, "t")).rejects.toMatchObject({ code: -32042, data });
  const l = a.changes.listen(
    a.supported({ elicitationsCompleted: true, resourceSubscriptions: ["a:b"], taskIds: [], extra: "" }),
    () => undefined,
  );
  a.notifyVisited("7");
  a.notifyUpdated("a:b"); // It has no resources.
  expect([l.next()?.event, l.next()]).toMatchObject([
    { $case: "elicitationCompleted", value: { elicitationId: "7" } },
    undefined,
  ]);
});

test("lists without a declared capability are UNIMPLEMENTED", () => {
  const a = app("test", "1", { ttlMs: 0, cacheScope: "public" }).tool("t", {}, () => "");
  expect(a.listTools({})).toMatchObject({ ttlMs: 0, cacheScope: "public" });
  expect(() => a.listPrompts({})).toThrow("test has no prompts");
});

test("errors of a canceled call are not logged", async () => {
  const untilCanceled = (_: unknown, { signal }: Caller) =>
    new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(new DOMException("aborted", "AbortError"));
      });
    });
  const a = app("test", "1")
    .tool("wait", {}, untilCanceled)
    .prompt(
      "wait",
      { arguments: { n: z.string() }, complete: { n: (_, __, caller) => untilCanceled(_, caller) } },
      untilCanceled,
    )
    .resource("wait:now", {}, untilCanceled);
  const emit = () => Promise.resolve();
  const cancel = (caller: Caller) => void setImmediate(() => { caller.cancel(); });
  const reference = { reference: { $case: "prompt" as const, value: { name: "wait" } } };
  const calls = [
    a.callTool(CallToolRequest.fromPartial({ name: "wait" }), emit, cancel),
    a.getPrompt(GetPromptRequest.fromPartial({ name: "wait", arguments: { n: "1" } }), emit, cancel),
    a.readResource(ReadResourceRequest.fromPartial({ uri: "wait:now" }), emit, cancel),
    a.complete(CompleteRequest.fromPartial({ reference: reference, argument: { name: "n" } }), cancel),
  ];
  for (const outcome of await Promise.allSettled(calls)) expect(outcome).toMatchObject({ reason: { code: 1 } });
  expect(printed).not.toHaveBeenCalled();
});
