/** Converts schemas to JSON Schema, and JSON to values, with any Standard Schema library: zod, valibot, arktype. */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";

import { DefinitionError, InvalidAnswer, ToolError } from "./errors.js";
import { conforms, FORMAT_NAMES, formatIssues, formatOf } from "./formats.js";
import { isObject, toExactObject, toJson, toObject, type JsonObject } from "./json.js";

/**
 * A schema that validates values and generates JSON Schema: zod 4.2 or newer, arktype, valibot with
 * toStandardJsonSchema.
 */
export interface Schema<In = unknown, Out = In> {
  readonly "~standard": StandardSchemaV1.Props<In, Out> & StandardJSONSchemaV1.Props<In, Out>;
}

/** The schemas of an object's members, by name. */
export type Shape = { readonly [name: string]: Schema };

/** JSON Schema with `type: "object"`. Values are not validated. */
export interface JsonSchema {
  readonly type: "object";
  readonly [keyword: string]: unknown;
}

type Flat<T> = { [K in keyof T]: T[K] } & {};
type Members<T> = Flat<
  { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
    [K in keyof T as undefined extends T[K] ? K : never]?: T[K];
  }
>;

/** The type of validated values of this schema. */
export type OutputOf<S> = S extends Schema
  ? StandardSchemaV1.InferOutput<S>
  : S extends Shape
    ? Members<{ -readonly [K in keyof S]: StandardSchemaV1.InferOutput<S[K]> }>
    : JsonObject;

/** The type of input values of this schema. */
export type InputOf<S> = S extends Schema
  ? StandardSchemaV1.InferInput<S>
  : S extends Shape
    ? Members<{ -readonly [K in keyof S]: StandardSchemaV1.InferInput<S[K]> }>
    : JsonObject;

type Issue = StandardSchemaV1.Issue;
type Checked = StandardSchemaV1.Result<unknown>;

/** A compiled schema. */
export interface Compiled {
  readonly json: JsonObject;
  /** Parses JSON to a value for validate. */
  readonly read: (json: string) => unknown;
  readonly validate: (value: unknown) => Checked | Promise<Checked>;
}

/** Compiles a schema, a shape or a JSON Schema. Throws a TypeError if it is invalid. */
export function compile(schema: Schema | Shape | JsonSchema, side: "input" | "output"): Compiled {
  if (isSchema(schema)) {
    const c = withFormats(withBigintSupport(jsonSchemaOf(schema, side), (v) => schema["~standard"].validate(v)), side);
    return side === "input" ? strict(c) : c;
  }
  const members = Object.entries(schema);
  if (members.every(([, member]) => isSchema(member)))
    return withFormats(compileShape(members as [string, Schema][], side), side);
  if (schema.type === "object") return { json: schema, read: toObject, validate: (value) => ({ value }) };
  const invalid = members.find(([, member]) => !isSchema(member))?.[0] ?? "";
  throw new TypeError(
    `"${invalid}" is not a schema; write z.string(), or a schema of another library of the Standard Schema`,
  );
}

function isSchema(value: unknown): value is Schema {
  return (typeof value === "object" || typeof value === "function") && value !== null && "~standard" in value;
}

function compileShape(members: [string, Schema][], side: "input" | "output"): Compiled {
  const properties: JsonObject = {};
  const required: string[] = [];
  const defs: JsonObject = {};
  const mistakes: string[] = [];
  for (const [name, schema] of members) {
    try {
      properties[name] = embed(jsonSchemaOf(schema, side), name, defs);
    } catch (e) {
      mistakes.push(`"${name}": ${e instanceof Error ? e.message : String(e)}`);
    }
    if (!isOptional(schema)) required.push(name);
  }
  if (mistakes.length) throw new TypeError(mistakes.join("; "));
  const json: JsonObject = { type: "object", properties };
  if (required.length) json.required = required;
  if (Object.keys(defs).length) json.$defs = defs;
  json.additionalProperties = false;
  return withBigintSupport(json, (value) => {
    if (!isObject(value)) return { issues: [{ message: "has to be an object" }] };
    const issues: Issue[] = side === "input" ? unknownMembers(value, properties) : [];
    const out: JsonObject = {};
    const pending: Promise<unknown>[] = [];
    const collect = (name: string, checked: Checked) => {
      if (checked.issues)
        issues.push(...checked.issues.map((i) => ({ message: i.message, path: [name, ...(i.path ?? [])] })));
      else if (checked.value !== undefined) out[name] = checked.value;
    };
    for (const [name, schema] of members) {
      const checked = schema["~standard"].validate(Object.hasOwn(value, name) ? value[name] : undefined);
      if (checked instanceof Promise) pending.push(checked.then((c) => { collect(name, c); }));
      else collect(name, checked);
    }
    const done = (): Checked => (issues.length ? { issues } : { value: out });
    return pending.length ? Promise.all(pending).then(done) : done();
  });
}

/** Reports whether a member of this schema is optional. */
function isOptional(schema: Schema): boolean {
  try {
    const checked = schema["~standard"].validate(undefined);
    if (!(checked instanceof Promise)) return !checked.issues;
    checked.catch(() => undefined);
  } catch {
    // The schema does not accept undefined.
  }
  return false;
}

function jsonSchemaOf(schema: Schema, side: "input" | "output"): JsonObject {
  // Untyped code may pass a schema of a library that does not generate JSON Schema.
  const standard: Partial<Schema["~standard"]> = schema["~standard"];
  if (!standard.jsonSchema) {
    const hint = new Map([
      ["zod", "use zod 4.2 or newer"],
      ["valibot", "wrap it in toStandardJsonSchema of @valibot/to-json-schema"],
    ]);
    const vendor = standard.vendor ?? "its library";
    throw new TypeError(`${vendor} does not generate JSON Schema; ${hint.get(vendor) ?? "use a library that does"}`);
  }
  let generated: JsonObject;
  try {
    generated = generate(standard.jsonSchema[side], standard.vendor);
  } catch (e) {
    const what = e instanceof Error ? e.message : String(e);
    throw new TypeError(/^Date cannot/.test(what) ? `${what}; write z.iso.date() or z.iso.datetime()` : what, {
      cause: e,
    });
  }
  const json = structuredClone({ ...generated });
  delete json.$schema;
  simplify(json);
  const checked = "default" in json ? schema["~standard"].validate(json.default) : undefined;
  if (checked && !(checked instanceof Promise) && checked.issues)
    throw new TypeError(badDefault(json.default, checked.issues[0]?.message));
  checkDefaults(json, json);
  return json;
}

function badDefault(value: unknown, why = "it violates the schema"): string {
  return `the default ${toJson(value)} is invalid: ${why}`;
}

/** Throws a TypeError if a nested default does not conform to its schema: libraries do not validate defaults. */
function checkDefaults(json: JsonObject, root: JsonObject): void {
  if ("default" in json && !conforms(json.default, json, root))
    throw new TypeError(badDefault(json.default, `expected ${typeOf(json)}`));
  for (const part of partsOf(json)) checkDefaults(part, root);
}

/** Returns the direct subschemas of a schema. */
function partsOf(json: JsonObject): JsonObject[] {
  const { properties, $defs, prefixItems, anyOf, oneOf, allOf, items, additionalProperties } = json;
  const named = [properties, $defs].flatMap((map) => (isObject(map) ? Object.values(map) : []));
  return [...named, ...[prefixItems, anyOf, oneOf, allOf].flat(), items, additionalProperties].filter(isObject);
}

/** Returns a schema that also validates formats, because some libraries do not. */
function withFormats(c: Compiled, side: "input" | "output"): Compiled {
  if (!hasFormats(c.json)) return c;
  const join = (value: unknown, r: Checked): Checked => {
    const all = [...formatIssues(side === "output" && !r.issues ? r.value : value, c.json)];
    if (!all.length) return r;
    const at = (issue: Issue) => pathOf(issue).map(String).join("\n");
    const others = (r.issues ?? []).filter((issue) => !all.some((own) => at(own) === at(issue)));
    return { issues: [...others, ...all] };
  };
  return {
    ...c,
    validate: (value) => {
      const checked = c.validate(value);
      return checked instanceof Promise ? checked.then((r) => join(value, r)) : join(value, checked);
    },
  };
}

function hasFormats(json: JsonObject): boolean {
  return formatOf(json) !== undefined || partsOf(json).some(hasFormats);
}

function pathOf(issue: Issue): PropertyKey[] {
  return (issue.path ?? []).map((p) => (typeof p === "object" ? p.key : p));
}

type Generate = StandardJSONSchemaV1.Converter["input"];

/**
 * Returns the JSON Schema of the library. Zod rejects a bigint, which is an integer, and ignores formats in `.meta()`.
 */
function generate(convert: Generate, vendor: string | undefined): JsonObject {
  const options = { target: "draft-2020-12" } as const;
  if (vendor !== "zod") return convert(options);
  try {
    return convert({ ...options, libraryOptions: { override: rejectUnknownFormat } });
  } catch (e) {
    let bigints = 0;
    const override = ({ zodSchema, jsonSchema }: { zodSchema: ZodInternals; jsonSchema: JsonObject }) => {
      rejectUnknownFormat({ zodSchema });
      const { def } = zodSchema._zod;
      const isBig = def.type === "bigint" ||
        (def.type === "literal" && def.values?.every((v) => typeof v === "bigint"));
      if (!isBig) {
        // Other types that JSON Schema cannot represent are errors.
        if (WITHOUT_JSON_SCHEMA.includes(def.type) || def.values?.some((v) => typeof v === "bigint" || v === undefined))
          throw e;
        return;
      }
      bigints++;
      Object.assign(jsonSchema, { type: "integer", [BIGINT]: true });
    };
    const json = convert({ ...options, libraryOptions: { unrepresentable: "any", override } });
    if (!bigints) throw e;
    return json;
  }
}

/** Throws a TypeError for an unsupported format in a definition. Zod validates its own formats, such as `z.jwt()`. */
function rejectUnknownFormat({ zodSchema }: { zodSchema: ZodInternals }): void {
  const { format } = zodSchema.meta?.() ?? {};
  if (typeof format !== "string" || FORMAT_NAMES.includes(format)) return;
  const instead = didYouMean(format, FORMAT_NAMES) || `; there are ${FORMAT_NAMES.join(", ")}`;
  throw new TypeError(`there is no format "${format}"${instead}`);
}

interface ZodInternals {
  readonly meta?: () => JsonObject | undefined;
  readonly _zod: { readonly def: { readonly type: string; readonly values?: unknown[] } };
}

const WITHOUT_JSON_SCHEMA = [
  "custom",
  "date",
  "function",
  "map",
  "nan",
  "promise",
  "set",
  "symbol",
  "transform",
  "undefined",
  "void",
];

// Marks bigints in a JSON Schema, internally.
const BIGINT = "x-mcpbridge-bigint";

/** Returns a compiled schema. If it has bigints, values are parsed with every digit. */
function withBigintSupport(marked: JsonObject, validate: Compiled["validate"]): Compiled {
  const text = toJson(marked);
  if (!text.includes(`"${BIGINT}":true`)) return { json: marked, read: toObject, validate };
  const json = unmarked(marked) as JsonObject;
  return { json, read: (text) => withBigints(toExactObject(text), marked, marked), validate };
}

function unmarked(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(unmarked);
  if (!isObject(json)) return json;
  return Object.fromEntries(Object.entries(json).flatMap(([k, v]) => (k === BIGINT ? [] : [[k, unmarked(v)]])));
}

/** Returns the value with bigints according to its schema, and numbers elsewhere. */
function withBigints(value: unknown, schema: unknown, root: JsonObject): unknown {
  const all = schemasAt(schema, root);
  if (typeof value === "number" || typeof value === "bigint") {
    if (!all.some((s) => s[BIGINT] === true)) return Number(value);
    // If both are allowed, an exact number stays a number.
    const either = all.some((s) => s[BIGINT] !== true && (s.type === "number" || s.type === "integer"));
    return typeof value === "number" && Number.isInteger(value) && !either ? BigInt(value) : value;
  }
  if (Array.isArray(value)) {
    return value.map((v, i) =>
      withBigints(v, { anyOf: all.map((s) => (s.prefixItems as unknown[] | undefined)?.[i] ?? s.items) }, root)
    );
  }
  if (!isObject(value)) return value;
  const member = (s: JsonObject, name: string) =>
    isObject(s.properties) && Object.hasOwn(s.properties, name) ? s.properties[name] : s.additionalProperties;
  return Object.fromEntries(
    Object.entries(value).map(([k, v]) => [k, withBigints(v, { anyOf: all.map((s) => member(s, k)) }, root)]),
  );
}

/** Returns the schema, its references and its alternatives. */
function schemasAt(schema: unknown, root: JsonObject, seen = new Set<unknown>()): JsonObject[] {
  if (!isObject(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const { $ref, anyOf, oneOf, allOf } = schema;
  const parts = [anyOf, oneOf, allOf].flatMap((p) => (Array.isArray(p) ? (p as unknown[]) : []));
  if ($ref === "#") parts.push(root);
  else if (typeof $ref === "string")
    parts.push((root.$defs as JsonObject | undefined)?.[$ref.slice("#/$defs/".length)]);
  return [schema, ...parts.flatMap((p) => schemasAt(p, root, seen))];
}

/** Removes the bounds of safe integers, and the redundant patterns of formats. */
function simplify(json: unknown): void {
  if (typeof json !== "object" || json === null) return;
  const o = json as JsonObject;
  if (o.type === "integer" && o.minimum === Number.MIN_SAFE_INTEGER) delete o.minimum;
  if (o.type === "integer" && o.maximum === Number.MAX_SAFE_INTEGER) delete o.maximum;
  const format = formatOf(o);
  if (format && typeof o.pattern === "string" && new RegExp(o.pattern).test(format.sample)) delete o.pattern;
  for (const member of Object.values(o)) simplify(member);
}

/** Merges a member's schema into the whole, with its definitions. */
function embed(json: JsonObject, name: string, defs: JsonObject): JsonObject {
  const names = new Map<string, string>();
  const own = (json.$defs ?? {}) as JsonObject;
  for (const def of Object.keys(own)) names.set(`#/$defs/${def}`, def in defs ? `${name}_${def}` : def);
  const found = { recursion: false };
  const rewrite = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(rewrite);
    if (!isObject(value)) return value;
    const copy: JsonObject = {};
    for (const [key, v] of Object.entries(value)) {
      if (key === "$ref" && v === "#") {
        found.recursion = true;
        copy.$ref = `#/$defs/${name}`;
      } else if (key === "$ref" && typeof v === "string") {
        copy.$ref = names.has(v) ? `#/$defs/${names.get(v) ?? ""}` : v;
      } else copy[key] = rewrite(v);
    }
    return copy;
  };
  const { $defs: _, ...rest } = json;
  const whole = rewrite(rest) as JsonObject;
  for (const [def, v] of Object.entries(own)) defs[names.get(`#/$defs/${def}`) ?? def] = rewrite(v);
  if (!found.recursion) return whole;
  defs[name] = whole;
  return { $ref: `#/$defs/${name}` };
}

/** Disallows unknown members, so that a misspelled optional member is an error. */
function strict(c: Compiled): Compiled {
  const { json } = c;
  const closed = "additionalProperties" in json || "patternProperties" in json;
  if (
    json.type !== "object" || !isObject(json.properties) || closed || "allOf" in json || "anyOf" in json ||
    "oneOf" in json
  ) return c;
  const properties = json.properties;
  return {
    ...c,
    json: { ...json, additionalProperties: false },
    validate: (value) => {
      const unknown = isObject(value) ? unknownMembers(value, properties) : [];
      const checked = c.validate(value);
      if (!unknown.length) return checked;
      const join = (r: Checked): Checked => ({ issues: [...unknown, ...(r.issues ?? [])] });
      return checked instanceof Promise ? checked.then(join) : join(checked);
    },
  };
}

function unknownMembers(value: JsonObject, properties: JsonObject): Issue[] {
  const issues: Issue[] = [];
  for (const name in value) {
    if (Object.hasOwn(properties, name)) continue;
    issues.push({ message: `does not exist${didYouMean(name, Object.keys(properties))}`, path: [name] });
  }
  return issues;
}

// Arguments.

/** Parses the arguments of tool `name`. Throws a ToolError with the violations and the signature. */
export function check(c: Compiled, name: string, usage: string, value: unknown): unknown {
  const checked = c.validate(value);
  const done = (r: Checked): unknown => {
    if (!r.issues) return r.value;
    throw new ToolError(`${name}: the arguments are invalid.\n${describeIssues(r.issues, value)}\nUsage: ${usage}`);
  };
  return checked instanceof Promise ? checked.then(done) : done(checked);
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Converts text arguments according to their schemas. Text that cannot be converted stays text. */
export function fromText(c: Compiled, texts: Readonly<Record<string, string>>): unknown {
  const members = Object.entries(texts).map(([name, text]) => {
    const types = typesOf(c, name);
    const number = (types.includes("number") || types.includes("integer")) && NUMBER.test(text);
    const boolean = types.includes("boolean") && /^(true|false)$/.test(text);
    return `${JSON.stringify(name)}:${!types.includes("string") && (number || boolean) ? text : JSON.stringify(text)}`;
  });
  return c.read(`{${members.join(",")}}`);
}

/** Throws a TypeError if text can never conform to the schema. */
export function rejectLists(c: Compiled): void {
  for (const name of Object.keys(c.json.properties ?? {})) {
    const types = typesOf(c, name);
    if (types.length && types.every((t) => t === "array" || t === "object")) {
      throw new TypeError(
        `"${name}" is sent as text, and cannot be an ${types[0] ?? ""}; write z.string() or the like`,
      );
    }
  }
}

function typesOf(c: Compiled, name: string): unknown[] {
  const properties = c.json.properties;
  if (!isObject(properties) || !Object.hasOwn(properties, name)) return [];
  return schemasAt(properties[name], c.json).flatMap((s) =>
    s.type ?? (Array.isArray(s.enum) ? s.enum.map((v) => typeof v) : [])
  );
}

/** Returns a line for each violation, with the field, the expected value and the actual one. */
export function describeIssues(issues: readonly Issue[], value: unknown): string {
  return issues
    .map((issue) => {
      const path = pathOf(issue);
      const field = path.map(String).join(".") || "(all)";
      let got: unknown = value;
      for (const key of path)
        got = isObject(got) || Array.isArray(got)
          ? (got as JsonObject)[key as string]
          : undefined;
      if (issue.message.startsWith("does not exist")) return `- ${field}: ${issue.message}`;
      if (got === undefined && path.length) return `- ${field}: is required`;
      return `- ${field}: ${issue.message}, got ${shorten(toJson(got))}`;
    })
    .join("\n");
}

function shorten(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 80)} ...`;
}

/** Returns the signature of a tool for the model: `forecast(city: string, from: date, days: integer 1..14 = 3)`. */
export function usageOf(name: string, json: JsonObject): string {
  const required = (json.required ?? []) as string[];
  const parts = Object.entries((json.properties ?? {}) as JsonObject).map(([field, s]) => {
    const fallback = isObject(s) && "default" in s
      ? ` = ${toJson(s.default)}`
      : required.includes(field)
      ? ""
      : " = ...";
    return `${field}: ${typeOf(s)}${fallback}`;
  });
  return `${name}(${parts.join(", ")})`;
}

function typeOf(s: unknown): string {
  if (!isObject(s)) return "any";
  if ("const" in s) return toJson(s.const);
  if (Array.isArray(s.enum)) return s.enum.map(toJson).join(" | ");
  const union = s.anyOf ?? s.oneOf;
  if (Array.isArray(union)) return union.map(typeOf).join(" | ");
  if (typeof s.$ref === "string") return s.$ref.slice(s.$ref.lastIndexOf("/") + 1);
  if (Array.isArray(s.type)) return s.type.join(" | ");
  if (s.type === "array") {
    const items = typeOf(s.items);
    return items.includes(" | ") ? `(${items})[]` : `${items}[]`;
  }
  if (s.type === "string" && formatOf(s)) return String(s.format);
  return typeof s.type === "string" ? s.type + bounds(s) : "any";
}

/** Returns the bounds of a number, after its type: ` 1..14`, ` > 0`. */
function bounds({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: JsonObject): string {
  if (minimum !== undefined && maximum !== undefined) return ` ${toJson(minimum)}..${toJson(maximum)}`;
  const each = [[">=", minimum], [">", exclusiveMinimum], ["<=", maximum], ["<", exclusiveMaximum]] as const;
  return each.map(([sign, at]) => (at === undefined ? "" : ` ${sign} ${toJson(at)}`)).join("");
}

/** Returns `; did you mean "days"?`, if one of the names is similar. */
export function didYouMean(name: string, names: Iterable<string>): string {
  if (name.length > 128) return "";
  let best = "";
  let least = Math.max(1, Math.floor(name.length * 0.4)) + 1;
  for (const candidate of names) {
    const d = candidate.length > 128 ? Infinity : distance(name.toLowerCase(), candidate.toLowerCase());
    if (d < least) [best, least] = [candidate, d];
  }
  return best ? `; did you mean ${best}?` : "";
}

/** Returns the edit distance of a and b. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + same));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

// Forms.

/** The form of a question: its schema, and a function to parse its content. */
export interface Form {
  readonly schema: JsonObject;
  readonly read: (json: string) => unknown;
  readonly parse: (content: JsonObject) => unknown;
}

const forms = new WeakMap<object, Form>();
const EMPTY: Form = { schema: { type: "object", properties: {} }, read: toObject, parse: (content) => content };

/**
 * Returns the form for a schema, a shape, or a JSON Schema. If undefined, it has no fields. A simple type has one
 * field.
 */
export function formOf(schema: Schema | Shape | JsonSchema | undefined): Form {
  if (!schema) return EMPTY;
  const cached = forms.get(schema);
  if (cached) return cached;
  const form = makeForm(schema);
  forms.set(schema, form);
  return form;
}

function makeForm(schema: Schema | Shape | JsonSchema): Form {
  const whole = compile(schema, "input");
  if (!isSchema(schema) && "type" in schema && !isSchema(schema.type)) return { ...EMPTY, schema: whole.json };
  const single = whole.json.type !== "object";
  const c = single ? compile({ value: schema as Schema }, "input") : whole;
  return {
    schema: flatten(c.json),
    read: c.read,
    parse: (content) => {
      const checked = c.validate(content);
      const done = (r: Checked): unknown => {
        if (r.issues)
          throw new InvalidAnswer(`the answer violates the schema of the form:\n${describeIssues(r.issues, content)}`);
        return single ? (r.value as JsonObject).value : r.value;
      };
      return checked instanceof Promise ? checked.then(done) : done(checked);
    },
  };
}

// The types of fields in MCP's forms, besides lists of choices.
const PRIMITIVES: unknown[] = ["string", "number", "integer", "boolean"];

/** Reports whether a schema lists its strings: by literals, enums, or unions of these. */
function isChoice(s: JsonObject): boolean {
  return s.type === "string" && (Array.isArray(s.enum) || Array.isArray(s.oneOf));
}

/** Returns the strings of several such schemas, with titles if one of them has a title. */
function choice(schemas: JsonObject[]): JsonObject {
  const all = schemas.flatMap(({ enum: values, oneOf, title }) =>
    Array.isArray(oneOf)
      ? (oneOf as JsonObject[])
      : (values as unknown[]).map((value) => ({ const: value, ...(title === undefined ? {} : { title }) }))
  ) as { const: unknown; title?: unknown }[];
  if (all.every((c) => c.title === undefined)) return { enum: all.map((c) => c.const) };
  return { oneOf: all.map((c) => ({ const: c.const, title: c.title ?? c.const })) };
}

/** Converts a schema to the flat schema of MCP's forms: no references, no nulls, no nesting. */
function flatten(json: JsonObject): JsonObject {
  const defs = (json.$defs ?? {}) as Record<string, JsonObject>;
  const resolve = (s: JsonObject): JsonObject => {
    if (typeof s.$ref === "string") {
      const { $ref, ...rest } = s;
      s = { ...defs[($ref).slice("#/$defs/".length)], ...rest };
    }
    if (Array.isArray(s.anyOf)) {
      const { anyOf, ...rest } = s;
      const choices = (anyOf as JsonObject[]).filter((c) => c.type !== "null").map(resolve);
      if (choices.length === 1) s = { ...choices[0], ...rest };
      else if (choices.every(isChoice)) s = { type: "string", ...choice(choices), ...rest };
    }
    if (Array.isArray(s.type)) {
      const types = s.type.filter((t) => t !== "null");
      if (types.length === 1) s = { ...s, type: types[0] as unknown };
    }
    const { const: only, pattern, ...rest } = s;
    s = rest;
    if (only !== undefined) s = { type: "string", ...rest, enum: [only] };
    if (pattern !== undefined && !("format" in s)) s.pattern = pattern;
    if (s.default === null) delete s.default;
    if (s.type === "array" && isObject(s.items)) {
      const { oneOf, type, ...items } = resolve(s.items);
      // In MCP, titled choices are oneOf for a single choice, and anyOf for several.
      s.items = { ...(oneOf ? { anyOf: oneOf } : { type }), ...items };
    }
    return s;
  };
  let required = (json.required ?? []) as string[];
  const properties: JsonObject = {};
  for (const [name, s] of Object.entries((json.properties ?? {}) as Record<string, JsonObject>)) {
    const nullable = Array.isArray(s.anyOf)
      ? s.anyOf.some((c: JsonObject) => c.type === "null")
      : Array.isArray(s.type) && s.type.includes("null");
    if (nullable) required = required.filter((r) => r !== name);
    const field = resolve(s);
    const choices = field.type === "array" && isObject(field.items) &&
      ("enum" in field.items || "anyOf" in field.items);
    if (!PRIMITIVES.includes(field.type) && !choices) {
      throw new DefinitionError(
        `a form cannot ask for "${name}": its fields are strings, numbers, booleans, enums, and lists of enums`,
      );
    }
    properties[name] = field;
  }
  return required.length ? { type: "object", properties, required } : { type: "object", properties };
}
