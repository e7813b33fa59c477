/** Formats of strings in JSON Schema. All SDKs accept the same values: sdkgen/testdata/formats.json. */
import { isIPv4, isIPv6 } from "node:net";

import type { StandardSchemaV1 } from "@standard-schema/spec";

import { isObject, type JsonObject } from "./json.js";

interface Format {
  readonly name: string;
  readonly sample: string;
  readonly test: (text: string) => boolean;
}

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const TIME = /^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;
const DURATION = /^P(?=.)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)$/;
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const HOSTNAME = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);
const WORD = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
const EMAIL = new RegExp(`^${WORD}(?:\\.${WORD})*@(?:${LABEL}\\.)+${LABEL}$`);
const UUID = /^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/;
// RFC 3986, section 3.
const HOST = "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*";
const USER = "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?";
const PCHAR = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const REST = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*";
const URI = new RegExp(
  `^[A-Za-z][A-Za-z0-9+.-]*:(?://${USER}(?:\\[([^\\]]*)\\]|${HOST})(?::\\d*)?(?:/${PCHAR}*)*|` +
    `/?${PCHAR}+(?:/${PCHAR}*)*|/)` +
    `(?:\\?${REST})?(?:#${REST})?$`,
);

function isDate(text: string): boolean {
  const [, year, month, day] = DATE.exec(text) ?? [];
  if (!year || year === "0000") return false;
  const date = new Date(`${text}T00:00:00Z`);
  return date.getUTCMonth() + 1 === Number(month) && date.getUTCDate() === Number(day);
}

const isIPv6Address = (text: string) => isIPv6(text) && !text.includes("%");

const FORMATS: Readonly<Record<string, Format>> = {
  date: { name: "a date", sample: "2026-01-31", test: isDate },
  time: { name: "a time with an offset", sample: "14:30:00Z", test: (text) => TIME.test(text) },
  "date-time": {
    name: "a date and time with an offset",
    sample: "2026-01-31T14:30:00Z",
    test: (text) => isDate(text.slice(0, 10)) && text[10] === "T" && TIME.test(text.slice(11)),
  },
  duration: { name: "an ISO 8601 duration", sample: "P1DT12H", test: (text) => DURATION.test(text) },
  email: { name: "an email address", sample: "ada@example.com", test: (text) => EMAIL.test(text) },
  hostname: {
    name: "a host name",
    sample: "www.example.com",
    test: (text) => text.length <= 253 && HOSTNAME.test(text),
  },
  ipv4: { name: "an IPv4 address", sample: "192.0.2.1", test: isIPv4 },
  ipv6: { name: "an IPv6 address", sample: "2001:db8::1", test: isIPv6Address },
  uri: { name: "a URI", sample: "https://example.com/a", test: isUri },
  uuid: { name: "a UUID", sample: "123e4567-e89b-12d3-a456-426614174000", test: (text) => UUID.test(text) },
};

/** The names of the supported formats. */
export const FORMAT_NAMES: readonly string[] = Object.keys(FORMATS);

function isUri(text: string): boolean {
  const match = URI.exec(text);
  return match !== null && (match[1] === undefined || isIPv6Address(match[1]));
}

/** Returns the format of a string's schema, if supported. */
export function formatOf(schema: JsonObject): Format | undefined {
  return typeof schema.format === "string" && Object.hasOwn(FORMATS, schema.format)
    ? FORMATS[schema.format]
    : undefined;
}

type Issue = StandardSchemaV1.Issue;

/** Reports whether the value conforms to the types, choices and formats of the schema. */
export function conforms(value: unknown, schema: JsonObject, root: JsonObject): boolean {
  return validate(value, schema, root, [], []);
}

/** Returns the violations of formats in an otherwise valid value. */
export function formatIssues(value: unknown, schema: JsonObject): Issue[] {
  const issues: Issue[] = [];
  validate(value, schema, schema, [], issues);
  return issues;
}

/** Adds the violations to issues, and reports whether the value may conform to this schema. */
function validate(value: unknown, schema: unknown, root: JsonObject, path: PropertyKey[], issues: Issue[]): boolean {
  if (!isObject(schema)) return true;
  if (schema.$ref !== undefined && !validate(value, resolveReference(schema.$ref, root), root, path, issues))
    return false;
  if (Array.isArray(schema.allOf) && !schema.allOf.every((s) => validate(value, s, root, path, issues))) return false;
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) {
    const wrong = choices.map((choice): Issue[] | undefined => {
      const own: Issue[] = [];
      return validate(value, choice, root, path, own) ? undefined : own;
    });
    if (!wrong.includes(undefined)) {
      issues.push(...(wrong.find((own) => own?.length) ?? []));
      return false;
    }
  }
  const isScalar = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  if (isScalar && "const" in schema && schema.const !== value) return false;
  if (isScalar && Array.isArray(schema.enum) && !schema.enum.includes(value)) return false;
  const types: unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type];
  if (schema.type !== undefined && !types.includes(typeOfValue(value, types))) return false;
  if (typeof value === "string") {
    const format = formatOf(schema);
    if (!format || format.test(value)) return true;
    issues.push({ message: `must be ${format.name} such as ${format.sample}`, path });
    return false;
  }
  if (Array.isArray(value)) {
    const first = Array.isArray(schema.prefixItems) ? (schema.prefixItems as unknown[]) : [];
    return value.map((item, i) => validate(item, first[i] ?? schema.items, root, [...path, i], issues)).every(Boolean);
  }
  if (!isObject(value)) return true;
  const properties = isObject(schema.properties) ? schema.properties : {};
  return Object.entries(value)
    .map(([name, v]) =>
      validate(v, Object.hasOwn(properties, name) ? properties[name] : schema.additionalProperties, root, [
        ...path,
        name,
      ], issues)
    )
    .every(Boolean);
}

function resolveReference($ref: unknown, root: JsonObject): unknown {
  return $ref === "#" ? root : (root.$defs as JsonObject | undefined)?.[String($ref).slice("#/$defs/".length)];
}

function typeOfValue(value: unknown, types: unknown[]): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value !== "number" && typeof value !== "bigint") return typeof value;
  return types.includes("integer") && (typeof value === "bigint" || Number.isInteger(value)) ? "integer" : "number";
}
