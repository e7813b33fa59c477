/** Schemas as clients receive them, and the errors that a model receives for invalid arguments. */
import { readFileSync } from "node:fs";

import { describe, expect, test, vi } from "vitest";
import { z } from "zod";

import { app, DefinitionError, result, type App } from "../src/index.js";
import type { JsonSchema, Schema, Shape } from "../src/index.js";
import { compile, didYouMean, formOf, usageOf } from "../src/schema.js";
import { textOf, toExactObject, toJson } from "../src/json.js";
import { call, EVERYTHING } from "../src/testing.js";
import { CallToolRequest } from "../src/v1.js";

type Any = Schema | Shape | JsonSchema;

interface Tree {
  name: string;
  children: Tree[];
}
const Tree: z.ZodType<Tree> = z.object({ name: z.string(), get children() { return z.array(Tree); } });
const closed = { additionalProperties: false };

const inputs: [string, Any, unknown, string][] = [
  ["nothing", {}, { type: "object", properties: {}, ...closed }, "t()"],
  [
    "required, optional and default",
    {
      city: z.string().min(1).describe("City name"),
      days: z.number().int().min(1).max(14).default(3),
      unit: z.enum(["c", "f"]).optional(),
    },
    {
      type: "object",
      properties: {
        city: { type: "string", minLength: 1, description: "City name" },
        days: { type: "integer", minimum: 1, maximum: 14, default: 3 },
        unit: { type: "string", enum: ["c", "f"] },
      },
      required: ["city"],
      ...closed,
    },
    't(city: string, days: integer 1..14 = 3, unit: "c" | "f" = ...)',
  ],
  [
    "an integer without bounds",
    { n: z.int(), list: z.array(z.int()) },
    {
      type: "object",
      properties: { n: { type: "integer" }, list: { type: "array", items: { type: "integer" } } },
      required: ["n", "list"],
      ...closed,
    },
    "t(n: integer, list: integer[])",
  ],
  [
    "a recursive member",
    { tree: Tree },
    {
      type: "object",
      properties: { tree: { $ref: "#/$defs/tree" } },
      required: ["tree"],
      $defs: {
        tree: {
          type: "object",
          properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/tree" } } },
          required: ["name", "children"],
        },
      },
      ...closed,
    },
    "t(tree: tree)",
  ],
  [
    "two recursive members",
    { a: z.array(Tree), b: z.array(Tree) },
    expect.objectContaining({
      properties: {
        a: { type: "array", items: { $ref: "#/$defs/__schema0" } },
        b: { type: "array", items: { $ref: "#/$defs/b___schema0" } },
      },
    }),
    "t(a: __schema0[], b: b___schema0[])",
  ],
  [
    "a union and a literal",
    { x: z.union([z.string(), z.number()]), y: z.literal(7), z: z.any() },
    expect.objectContaining({
      properties: { x: { type: ["string", "number"] }, y: { type: "number", const: 7 }, z: {} },
      required: ["x", "y"],
    }),
    "t(x: string | number, y: 7, z: any = ...)",
  ],
  ["an object schema", z.object({ a: z.string() }), {
    type: "object",
    properties: { a: { type: "string" } },
    required: ["a"],
    ...closed,
  }, "t(a: string)"],
  ["a loose object", z.looseObject({ a: z.string() }), {
    type: "object",
    properties: { a: { type: "string" } },
    required: ["a"],
    additionalProperties: {},
  }, "t(a: string)"],
  [
    "JSON Schema",
    { type: "object", properties: { a: {} } },
    { type: "object", properties: { a: {} } },
    "t(a: any = ...)",
  ],
];

describe("input", () => {
  test.each(inputs)("%s", (_, schema, json, usage) => {
    const c = compile(schema, "input");
    expect(c.json).toEqual(json);
    expect(usageOf("t", c.json)).toBe(usage);
  });

  test("an error has each field, its expected and actual value, and the signature", async () => {
    const a = app("test", "1").tool(
      "forecast",
      {
        input: {
          city: z.string(),
          days: z.number().int().max(14).default(3),
          at: z.object({ hour: z.number() }).optional(),
        },
      },
      ({ city, days }) => `${city} ${days}`,
    );
    const wrong = await call(a, "forecast", { days: 30, citi: "Rome", at: { hour: "noon" } });
    expect(wrong.isError).toBe(true);
    expect(wrong.text).toBe(
      "forecast: the arguments are invalid.\n" +
        "- citi: does not exist; did you mean city?\n" +
        "- city: is required\n" +
        "- days: Too big: expected number to be <=14, got 30\n" +
        '- at.hour: Invalid input: expected number, received string, got "noon"\n' +
        "Usage: forecast(city: string, days: integer <= 14 = 3, at: object = ...)",
    );
    expect((await call(a, "forecast", { city: "Rome" })).text).toBe("Rome 3");
  });

  test("the signature has bounds and formats, and a date is a date", () => {
    const input = {
      day: z.iso.date(),
      mail: z.email().optional(),
      own: z.email({ pattern: /@corp\.example$/ }),
      price: z.number().positive().max(10),
      share: z.number().lt(1),
      codes: z.array(z.string().length(2)).min(1),
      either: z.array(z.union([z.string(), z.int()])),
    };
    const { json } = compile(input, "input");
    expect(usageOf("t", json)).toBe(
      "t(day: date, mail: email = ..., own: email, price: number > 0 <= 10, share: number < 1, codes: string[], " +
        "either: (string | integer)[])",
    );
    expect(json.properties).toMatchObject({
      day: { type: "string", format: "date" },
      own: { format: "email", pattern: "@corp\\.example$" },
    });
    expect(JSON.stringify(json.properties)).not.toContain("02-29");
  });

  test("an object schema rejects unknown members; a loose one allows them", async () => {
    const a = app("test", "1")
      .tool("strict", { input: z.object({ a: z.string() }) }, ({ a }) => a)
      .tool("loose", { input: z.looseObject({ a: z.string() }) }, (o) => JSON.stringify(o));
    expect((await call(a, "strict", { a: "x", b: 1 })).text).toContain("- b: does not exist");
    expect((await call(a, "loose", { a: "x", b: 1 })).text).toBe('{"a":"x","b":1}');
  });

  test("transforms and asynchronous checks run", async () => {
    const a = app("test", "1").tool(
      "t",
      {
        input: {
          n: z.string().transform(Number),
          even: z.number().refine((n) => Promise.resolve(n % 2 === 0), "has to be even"),
        },
      },
      ({ n, even }) => String(n + even),
    );
    expect((await call(a, "t", { n: "7", even: 2 })).text).toBe("9");
    expect((await call(a, "t", { n: "7", even: 3 })).text).toContain("- even: has to be even, got 3");
  });

  test("issues may be instances of a class, as in arktype", async () => {
    class Odd {
      get message() {
        return "is odd";
      }
    }
    const jsonSchema = { input: () => ({ type: "string" }), output: () => ({ type: "string" }) };
    const odd: Schema = {
      "~standard": { version: 1, vendor: "odd", validate: () => ({ issues: [new Odd()] }), jsonSchema },
    };
    const a = app("test", "1").tool("t", { input: { a: odd } }, () => "");
    expect((await call(a, "t", { a: "x" })).text).toContain('- a: is odd, got "x"');
  });

  test("inherited members are no arguments", async () => {
    const a = app("test", "1").tool(
      "t",
      { input: { toString: z.string().optional() } },
      (args) => Object.keys(args as object).join(),
    );
    expect((await call(a, "t", {})).text).toBe("");
  });

  test.each<[string, () => App, string]>([
    [
      "no schema",
      () => app("t", "1").tool("t", { input: { a: "string" } as never }, () => ""),
      'tool "t": input: "a" is not a schema; write z.string()',
    ],
    [
      "what JSON cannot hold",
      () => app("t", "1").tool("t", { input: { when: z.date() } }, () => ""),
      'tool "t": input: "when": Date cannot be represented',
    ],
    [
      "no object",
      () => app("t", "1").tool("t", { input: z.string() }, () => ""),
      'tool "t": input: has to be an object, not string',
    ],
    ["a name", () => app("t", "1").tool("t t", {}, () => ""), "a name is 1 to 128 letters"],
    [
      "a default of another type",
      () => app("t", "1").tool("t", { input: { n: z.int().default("seven" as never) } }, () => ""),
      'tool "t": input: "n": the default "seven" is invalid: Invalid input: expected number, received string',
    ],
    [
      "a default out of bounds",
      () => app("t", "1").tool("t", { input: { n: z.int().max(7).default(8) } }, () => ""),
      '"n": the default 8 is invalid: Too big',
    ],
    [
      "a default deep inside",
      () =>
        app("t", "1").tool("t", {
          input: { o: z.object({ at: z.array(z.object({ n: z.int().default("x" as never) })) }) },
        }, () => ""),
      '"o": the default "x" is invalid: expected integer',
    ],
    [
      "an unknown format",
      () => app("t", "1").tool("t", { input: { day: z.string().meta({ format: "dat" }) } }, () => ""),
      'tool "t": input: "day": there is no format "dat"; did you mean date?',
    ],
    [
      "an unknown format beside a bigint",
      () =>
        app("t", "1").tool("t", { input: z.object({ n: z.bigint(), day: z.string().meta({ format: "dat" }) }) }, () =>
          ""),
      'tool "t": input: there is no format "dat"',
    ],
    [
      "an unknown format deep inside",
      () =>
        app("t", "1").tool("t", {
          output: z.array(z.object({ a: z.string().meta({ format: "telephone" }).min(3).optional() })),
        }, () => []),
      'tool "t": output: there is no format "telephone"; ' +
        "there are date, time, date-time, duration, email, hostname, ipv4, ipv6, uri, uuid",
    ],
    [
      "an unknown format of a prompt",
      () => app("t", "1").prompt("p", { arguments: { day: z.iso.date().meta({ format: "dat" }) } }, () => ""),
      'prompt "p": arguments: "day": there is no format "dat"',
    ],
    [
      "an unknown format of a resource",
      () => app("t", "1").resource("a://{day}", { variables: { day: z.string().meta({ format: "dat" }) } }, () => ""),
      'resource "a://{day}": variables: "day": there is no format "dat"',
    ],
    [
      "a default of another format",
      () => app("t", "1").tool("t", { input: z.object({ day: z.iso.date().default("today") }) }, () => ""),
      'input: the default "today" is invalid: expected date',
    ],
    [
      "two arguments",
      () => app("t", "1").tool("t", { input: { a: z.date(), b: z.int().default("x" as never) } }, () => ""),
      'tool "t": input: "a": Date cannot be represented in JSON Schema; write z.iso.date() or z.iso.datetime(); ' +
        '"b": the default',
    ],
    [
      "twice",
      () => app("t", "1").tool("t", {}, () => "").tool("t", {}, () => ""),
      "is already defined at schema.test.ts:",
    ],
    ["no handler", () => app("t", "1").tool("t", {}, undefined as never), "has no handler"],
    [
      "a library without JSON Schema",
      () =>
        app("t", "1").tool("t", {
          input: { a: { "~standard": { version: 1, vendor: "zod", validate: () => ({ value: 1 }) } } as never },
        }, () => ""),
      "use zod 4.2 or newer",
    ],
  ])("an invalid definition is reported with its line: %s", (_, define, message) => {
    const check = () => { define().check(); };
    expect(check).toThrow(DefinitionError);
    expect(check).toThrow(/^schema\.test\.ts:\d+: /);
    expect(check).toThrow(message);
  });

  test("all mistakes are reported at once, each with its line", async () => {
    const a = app("t", "1", { instruction: "Hi" } as never)
      .tool(
        "t t",
        { input: { a: z.date(), b: "string" as never }, readonly: true, destructve: true } as object,
        undefined as never,
      )
      .tool("good", {}, () => "")
      .resource("nothing", { mimetype: "a/b" } as never, () => "")
      .resource("a://{x}", { complete: { y: [] } } as never, () => "")
      .prompt("p", { arguments: { list: z.array(z.string()) }, complete: { lst: [] } as never }, undefined as never);
    const lines = [
      'app "t": there is no option "instruction"; did you mean instructions?',
      `tool "t t": a name is 1 to 128 letters, digits, '_', '-' and '.'`,
      'tool "t t": has no handler; write tool(name, options, (args, ctx) => ...)',
      'tool "t t": there is no option "readonly"; did you mean readOnly?',
      'tool "t t": there is no option "destructve"; did you mean destructive?',
      'tool "t t": input: "b" is not a schema; write z.string(), or a schema of another library of the Standard Schema',
      'resource "nothing": a URI begins with a scheme, such as file:///',
      'resource "nothing": there is no option "mimetype"; did you mean mimeType?',
      'resource "a://{x}": there is no variable "y"; did you mean x?',
      'prompt "p": has no handler; write prompt(name, options, (args, ctx) => ...)',
      'prompt "p": arguments: "list" is sent as text, and cannot be an array; write z.string() or the like',
    ];
    expect(() => { a.check(); }).toThrow(DefinitionError);
    const message = await call(a, "good").then((c) => c.text, (e: unknown) => (e as Error).message);
    expect(message.split("\n").map((line) => line.replace(/^schema\.test\.ts:\d+: /, ""))).toEqual(lines);
  });
});

const { formats } = JSON.parse(readFileSync(new URL("../../testdata/formats.json", import.meta.url), "utf8")) as {
  formats: Record<string, { is: string; accepts: string[]; refuses: string[] }>;
};
const own: Partial<Record<string, z.ZodType<string>>> = {
  date: z.iso.date(), "date-time": z.iso.datetime({ offset: true }), duration: z.iso.duration(), email: z.email(),
  ipv4: z.ipv4(), ipv6: z.ipv6(), uuid: z.guid(), hostname: z.hostname(),
};

describe.each(Object.entries(formats))("the format %s", (format, { is, accepts, refuses }) => {
  const named = z.string().meta({ format }); // Zod ignores it.
  describe.each<[string, z.ZodType<string>]>([["in meta", named], ["of zod", own[format] ?? named]])(
    "%s",
    (_, schema) => {
      const a = app("test", "1")
        .tool("shape", { input: { v: schema, list: z.array(z.union([schema, z.int()])).optional() } }, ({ v }) => v)
        .tool("object", { input: z.object({ v: schema }), output: { v: schema } }, ({ v }) => ({ v }))
        .tool(
          "out",
          { input: { v: z.string() }, output: z.object({ list: z.array(schema.nullable()) }) },
          ({ v }) => ({ list: [null, v] }),
        )
        .tool("ask", {}, async (_, ctx) => (await ctx.elicit("V?", { v: schema })).data.v);

    test.each(accepts)("accepts %j", async (v) => {
      expect((await call(a, "shape", { v, list: [7, v] })).text).toBe(v);
      expect((await call(a, "object", { v })).structured).toEqual({ v });
      expect((await call(a, "out", { v })).structured).toEqual({ list: [null, v] });
      expect((await call(a, "ask", {}, { elicit: [{ v }] })).text).toBe(v);
    });

      test.each(refuses)("refuses %j", async (v) => {
        const wrong = `must be ${is}, got ${JSON.stringify(v)}`;
        const quiet = vi.spyOn(console, "error").mockImplementation(() => undefined);
        expect((await call(a, "shape", { v, list: [7, v] })).text).toContain(
          `- v: ${wrong}\n- list.1: ${wrong}\nUsage: `,
        );
        expect((await call(a, "object", { v })).text).toContain(`- v: ${wrong}\n`);
        expect(await call(a, "out", { v })).toMatchObject({
          isError: true,
          text: `tool "out" returned a value that violates its output schema:\n- list.1: ${wrong}`,
        });
        expect((await call(a, "ask", {}, { elicit: [{ v }] })).text).toContain(
          `the answer violates the schema of the form:\n- v: ${wrong}`,
        );
        quiet.mockRestore();
      });
    },
  );
});

test("formats of zod alone are validated by zod", async () => {
  const a = app("test", "1").tool("t", { input: { id: z.nanoid(), token: z.jwt().optional() } }, ({ id }) => id);
  expect((await call(a, "t", { id: "V1StGXR8_Z5jdHi6B-myT" })).text).toBe("V1StGXR8_Z5jdHi6B-myT");
  expect((await call(a, "t", { id: "V1StGXR8_Z5jdHi6B-myT", token: "a" })).text).toContain("- token: Invalid JWT");
});

test("a value may conform to one of several formats, or be a choice", async () => {
  const when = z.union([z.literal("now"), z.iso.date(), z.object({ at: z.iso.datetime() })]);
  const a = app("test", "1").tool("t", { input: { when } }, ({ when }) => JSON.stringify(when));
  for (const when of ["now", "2026-01-31", { at: "2026-01-31T14:30:00Z" }])
    expect((await call(a, "t", { when })).text).toBe(JSON.stringify(when));
  const b = app("test", "1").tool("t", { input: { url: z.url() } }, ({ url }) => url);
  expect((await call(b, "t", { url: "https://example.com/a b" })).text).toContain(
    "- url: must be a URI such as https://example.com/a, got",
  );
  for (const when of ["then", "2026-02-31", { at: "2026-01-31T14:30Z" }])
    expect((await call(a, "t", { when })).isError).toBe(true);
});

describe("output", () => {
  test("an object is structured content, with its JSON as text", async () => {
    const a = app("test", "1").tool("t", { output: { n: z.number(), s: z.string().default("x") } }, () => ({ n: 1 }));
    const tool = a.toolMessage("t");
    expect(JSON.parse(tool.outputSchema)).toMatchObject({ type: "object", required: ["n"] });
    const called = await call(a, "t");
    expect(called.structured).toEqual({ n: 1, s: "x" });
    expect(called.text).toBe('{"n":1,"s":"x"}');
  });

  test("other values are wrapped", async () => {
    const a = app("test", "1").tool("t", { output: z.array(z.number()) }, () => [1, 2]);
    expect(JSON.parse(a.toolMessage("t").outputSchema)).toEqual({
      type: "object",
      properties: { result: { type: "array", items: { type: "number" } } },
      required: ["result"],
    });
    expect((await call(a, "t")).structured).toEqual({ result: [1, 2] });
  });

  test("has no unknown members", async () => {
    const value = { n: 1, secret: "x" };
    const a = app("test", "1")
      .tool("shape", { output: { n: z.number() } }, () => value)
      .tool("object", { output: z.object({ n: z.number() }) }, () => value);
    expect([(await call(a, "shape")).structured, (await call(a, "object")).structured]).toEqual([{ n: 1 }, { n: 1 }]);
  });

  test("a result that violates the schema is logged as an error of the tool", async () => {
    const a = app("test", "1").tool("t", { output: { n: z.number() } }, () => ({ n: "one" }) as never);
    const called = await call(a, "t");
    expect([called.isError, called.text]).toEqual([
      true,
      'tool "t" returned a value that violates its output schema:\n' +
        '- n: Invalid input: expected number, received string, got "one"',
    ]);
  });
});

describe("forms", () => {
  test("have flat schemas", () => {
    const form = formOf({
      text: z.string(),
      mail: z.email(),
      size: z.enum(["s", "l"]),
      either: z.union([z.literal("a"), z.literal("b")]),
      toppings: z.array(z.enum(["ham", "egg"])).default([]),
      note: z.string().nullable(),
      only: z.literal("x").default("x"),
    });
    expect(form.schema).toEqual({
      type: "object",
      properties: {
        text: { type: "string" },
        mail: { type: "string", format: "email" },
        size: { type: "string", enum: ["s", "l"] },
        either: { type: "string", enum: ["a", "b"] },
        toppings: { type: "array", items: { type: "string", enum: ["ham", "egg"] }, default: [] },
        note: { type: "string" },
        only: { type: "string", enum: ["x"], default: "x" },
      },
      required: ["text", "mail", "size", "either"],
    });
  });

  test("have the titles of choices", () => {
    const one = z.union([
      z.literal("r").meta({ title: "Red" }),
      z.literal("g").meta({ title: "Green" }),
      z.literal("b"),
    ]);
    const titled = [{ const: "r", title: "Red" }, { const: "g", title: "Green" }, { const: "b", title: "b" }];
    expect(
      formOf({
        one,
        several: z.array(one).min(1).max(2),
        maybe: one.optional(),
        single: z.literal("x").meta({ title: "X" }),
      }).schema,
    ).toEqual({
      type: "object",
      properties: {
        one: { type: "string", oneOf: titled },
        several: { type: "array", items: { anyOf: titled }, minItems: 1, maxItems: 2 },
        maybe: { type: "string", oneOf: titled },
        single: { type: "string", enum: ["x"], title: "X" },
      },
      required: ["one", "several", "single"],
    });
    expect(formOf(one).parse({ value: "g" })).toBe("g");
    expect(() => formOf(one).parse({ value: "Green" })).toThrow("the answer violates the schema of the form");
  });

  test("of a simple type have one field", () => {
    const form = formOf(z.boolean());
    expect(form.schema).toEqual({ type: "object", properties: { value: { type: "boolean" } }, required: ["value"] });
    expect(form.parse({ value: true })).toBe(true);
  });

  test("cannot be nested", () => {
    expect(() => formOf({ inner: z.object({ a: z.string() }) })).toThrow('a form cannot ask for "inner"');
  });
});

test("text of any length and with any characters is decoded", () => {
  for (const letters of ["x", "é", "東京", "𝄞", "\u2028", "\\ud834"]) {
    for (const n of [1, 5_000]) {
      const text = `{"${letters}":"${letters.repeat(n)}"}`;
      expect(textOf(Buffer.from(text))).toBe(text);
      // Invalid UTF-8 is replaced.
      const cut = Buffer.concat([Buffer.from(text.slice(0, -2)), Buffer.of(0xe6, 0x9d), Buffer.from('"}')]);
      expect(textOf(cut)).toBe(`${text.slice(0, -2)}\ufffd"}`);
    }
  }
});

describe("integers beyond 2^53", () => {
  const echo = async (input: Any, json: string) => {
    let got: unknown;
    let raw = "";
    const a = app("test", "1").tool("t", { input }, (args, ctx) => {
      got = args;
      raw = Buffer.from(ctx.request.arguments).toString();
      return result({ structured: ctx.request.arguments });
    });
    const { event } = await a.callTool(
      CallToolRequest.fromPartial({ name: "t", context: EVERYTHING, arguments: Buffer.from(json) }),
      () => Promise.resolve(),
    );
    const answer = event?.$case === "result" ? event.value : undefined;
    return {
      got,
      raw,
      structured: Buffer.from(answer?.structuredContent ?? "").toString(),
      text: answer?.content[0]?.block?.value,
    };
  };
  const json = '{"n":9007199254740993, "m":{"-1":[-9007199254740993,5,"9007199254740993"]}}';

  test("are exact for a bigint schema, and the nearest number for a number schema", async () => {
    const m = z.record(z.string(), z.tuple([z.bigint(), z.bigint(), z.string()]));
    expect((await echo({ n: z.number(), m }, json)).got).toEqual({
      n: 9007199254740992,
      m: { "-1": [-9007199254740993n, 5n, "9007199254740993"] },
    });
    const either = z.object({
      n: z.union([z.number(), z.bigint()]),
      o: z.bigint().optional(),
      p: z.bigint().nullable(),
      q: z.literal([5n, 7n]),
    });
    expect((await echo(either, '{"n":7,"o":7,"p":null,"q":7}')).got).toEqual({ n: 7, o: 7n, p: null, q: 7n });
    expect((await echo(either, '{"n":1e30,"p":12345678901234567890,"q":5}')).got).toEqual({
      n: 1e30,
      p: 12345678901234567890n,
      q: 5n,
    });
    const recursive: z.ZodType = z.object({
      n: z.bigint(),
      get children() {
        return z.array(recursive);
      },
    });
    expect((await echo(recursive, '{"n":1,"children":[{"n":9007199254740993,"children":[]}]}')).got).toEqual({
      n: 1n,
      children: [{ n: 9007199254740993n, children: [] }],
    });
  });

  test("are rejected by z.int() instead of rounded", async () => {
    expect((await echo({ n: z.int() }, '{"n":9007199254740993}')).text).toMatchObject({
      text: expect.stringContaining("n: Too big") as string,
    });
  });

  test("can be returned byte for byte", async () => {
    for (const input of [{ type: "object" }, { n: z.number(), m: z.unknown() }] as Any[]) {
      expect(await echo(input, json)).toMatchObject({ raw: json, structured: json });
    }
  });

  test("are integers in the JSON Schema", () => {
    expect(compile({ n: z.bigint().min(5n), id: z.int64() }, "input").json).toEqual({
      type: "object",
      properties: { n: { type: "integer" }, id: { type: "integer" } },
      required: ["n", "id"],
      ...closed,
    });
    expect(() => compile({ n: z.bigint(), d: z.date() }, "input")).toThrow(
      '"d": Date cannot be represented in JSON Schema',
    );
    expect(() => compile(z.object({ n: z.bigint(), d: z.date() }), "input")).toThrow(
      "cannot be represented in JSON Schema",
    );
  });

  test("keep their digits in a result, with any text around them", () => {
    expect(toJson({ a: 9007199254740993n, b: ["1", '"-7', 5n] })).toBe('{"a":9007199254740993,"b":["1","\\"-7",5]}');
    expect(toExactObject('{"a\\"9007199254740993":[0.12345678901234567890,12345678901234567e-1,-12345678901234567]}'))
      .toEqual({
        'a"9007199254740993': [0.12345678901234568, 1234567890123456.8, -12345678901234567n],
      });
  });
});

test("did you mean", () => {
  expect(didYouMean("serch", ["search", "list"])).toBe("; did you mean search?");
  expect(didYouMean("zzz", ["search", "list"])).toBe("");
});
