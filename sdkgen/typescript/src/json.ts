/** Converts values to the JSON text of the contract, and back. */
import { isAscii, isUtf8, transcode } from "node:buffer";
import { randomUUID } from "node:crypto";
import { types } from "node:util";

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Returns the JSON of a value, with every digit of a bigint. A value that JSON cannot represent, such as a function, is
 * `null`.
 */
export function toJson(value: unknown): string {
  try {
    return stringify(value) ?? "null";
  } catch (e) {
    if (!(e instanceof TypeError)) throw e;
    // JSON.stringify does not support bigint.
    return (stringify(value, (_, v) => (typeof v === "bigint" ? `${MARK}${String(v)}` : v)) ?? "null").replace(
      MARKED,
      "$1",
    );
  }
}

/**
 * Returns the JSON of a value. The TypeError names the path of a value that JSON.stringify would write as null or {},
 * or omit.
 */
export function toExactJson(value: unknown): string {
  checkJson(value);
  return toJson(value);
}

/** Throws a TypeError with the path of a value that JSON cannot represent. */
export function checkJson(value: unknown): void {
  const found = findUnrepresentable(value, []);
  if (found)
    throw new TypeError(
      `${found.path.reverse().join(".") || "the value"} is ${found.what}, which JSON cannot represent${found.fix}`,
    );
}

/** A value that JSON cannot represent, and its path in reverse. */
interface Unrepresentable {
  readonly what: string;
  readonly fix: string;
  readonly path: string[];
}

function unrepresentable(what: string, fix = ""): Unrepresentable {
  return { what, fix, path: [] };
}

/** Returns the first value that JSON cannot represent, if any. */
function findUnrepresentable(value: unknown, ancestors: object[]): Unrepresentable | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : unrepresentable(String(value));
  if (value === undefined) return unrepresentable("undefined");
  if (typeof value === "function" || typeof value === "symbol") return unrepresentable(`a ${typeof value}`);
  if (typeof value !== "object" || value === null || types.isBoxedPrimitive(value)) return undefined;
  if (ancestors.includes(value)) return unrepresentable("an object that contains itself");
  if (ArrayBuffer.isView(value)) return unrepresentable(nameOf(value), "; write its base64");
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const json = (value as { toJSON: (key: string) => unknown }).toJSON("");
    if (json === null && types.isDate(value)) return unrepresentable("an invalid Date");
    return typeof json === "object" && json !== value ? findUnrepresentable(json, ancestors) : undefined;
  }
  const keys = Object.keys(value);
  const list = Array.isArray(value);
  if (!list && (types.isNativeError(value) || (keys.length === 0 && !isPlainObject(value)))) {
    return unrepresentable(
      nameOf(value),
      value instanceof Map ? "; write Object.fromEntries(map)" : value instanceof Set ? "; write [...set]" : "",
    );
  }
  ancestors.push(value);
  // By index: a list may have holes, which are undefined. An undefined member is absent.
  const count = list ? value.length : keys.length;
  for (let i = 0; i < count; i++) {
    const name = list ? i : (keys[i] ?? "");
    const member = (value as JsonObject)[name];
    const found = !list && member === undefined ? undefined : findUnrepresentable(member, ancestors);
    if (found) {
      found.path.push(String(name));
      return found;
    }
  }
  ancestors.pop();
  return undefined;
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function nameOf(value: object): string {
  return (value.constructor as { name: string } | undefined)?.name ?? "object";
}

// TypeScript declares that JSON.stringify always returns a string; for some values it returns undefined.
const stringify = JSON.stringify as (
  value: unknown,
  replace?: (key: string, value: unknown) => unknown,
) => string | undefined;

/** Returns the JSON of an object, empty for undefined. */
export function objectToJson(value: object | undefined): string {
  return value === undefined ? "" : toJson(value);
}

/** Parses an object. Empty text is an empty object. Numbers beyond 2^53 are the nearest number in JavaScript. */
export function toObject(text: string): JsonObject {
  return text === "" ? {} : (JSON.parse(text) as JsonObject);
}

/** Like toObject, but integers beyond 2^53 are bigints. */
export function toExactObject(text: string): JsonObject {
  const value = toObject(text);
  if (!/\d{16}/.test(text)) return value;
  const marked = text.replace(
    TOKENS,
    (token) => (LARGE.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token),
  );
  const revive = (
    _: string,
    v: unknown,
  ) => (typeof v === "string" && v.startsWith(MARK) ? BigInt(v.slice(MARK.length)) : v);
  return JSON.parse(marked, revive) as JsonObject;
}

const LONG = 4096; // The minimum size of text for the fast path, in bytes.

/** Decodes UTF-8. Invalid UTF-8 becomes U+FFFD. */
export function textOf(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // Up to ten times as fast as toString in Node, but for valid UTF-8 only.
  if (buffer.length >= LONG && !isAscii(buffer) && isUtf8(buffer))
    return transcode(buffer, "utf8", "utf16le").toString("utf16le");
  return buffer.toString();
}

// The prefix of encoded digits. It is random, so that no input has it.
const MARK = `${randomUUID()}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
// Matches strings and numbers of valid JSON.
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LARGE = /^-?\d{16,}$/;
