/** Values to the JSON bytes of the contract, and back. */
import { isAscii, isUtf8, transcode } from "node:buffer";
import { randomUUID } from "node:crypto";
import { types } from "node:util";

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const NOTHING = Buffer.alloc(0);

/** The JSON of a value, with every digit of a bigint; of what JSON cannot hold, such as a function or undefined, `null`. */
export function toJson(value: unknown): string {
  try {
    return stringify(value) ?? "null";
  } catch (e) {
    if (!(e instanceof TypeError)) throw e;
    // Perhaps a bigint, which JSON has no trouble with, but JSON.stringify has.
    return (stringify(value, (_, v) => (typeof v === "bigint" ? `${MARK}${String(v)}` : v)) ?? "null").replace(MARKED, "$1");
  }
}

/** The JSON of an author's value. A TypeError names the path of what JSON.stringify would write as null or {}, or leave out. */
export function toExactJson(value: unknown): string {
  checkJson(value);
  return toJson(value);
}

/** Throws a TypeError that names the path of what JSON cannot hold in a value. */
export function checkJson(value: unknown): void {
  const loss = lossIn(value, []);
  if (loss) throw new TypeError(`${loss.path.reverse().join(".") || "the value"} is ${loss.what}, which JSON cannot hold${loss.fix}`);
}

/** What JSON cannot hold in a value, and its path, the last name first. */
interface Loss {
  readonly what: string;
  readonly fix: string;
  readonly path: string[];
}

function loss(what: string, fix = ""): Loss {
  return { what, fix, path: [] };
}

function lossIn(value: unknown, around: object[]): Loss | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : loss(String(value));
  if (value === undefined) return loss("undefined");
  if (typeof value === "function" || typeof value === "symbol") return loss(`a ${typeof value}`);
  if (typeof value !== "object" || value === null || types.isBoxedPrimitive(value)) return undefined;
  if (around.includes(value)) return loss("an object that contains itself");
  if (ArrayBuffer.isView(value)) return loss(nameOf(value), "; write its base64");
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const told = (value as { toJSON: (key: string) => unknown }).toJSON("");
    if (told === null && types.isDate(value)) return loss("an invalid Date");
    return typeof told === "object" && told !== value ? lossIn(told, around) : undefined;
  }
  const keys = Object.keys(value);
  const list = Array.isArray(value);
  if (!list && (types.isNativeError(value) || (keys.length === 0 && !plain(value)))) {
    return loss(nameOf(value), value instanceof Map ? "; write Object.fromEntries(map)" : value instanceof Set ? "; write [...set]" : "");
  }
  around.push(value);
  // Not by its keys: a list may have holes, which are undefined. A member that is undefined is not there.
  const count = list ? value.length : keys.length;
  for (let i = 0; i < count; i++) {
    const name = list ? i : (keys[i] ?? "");
    const member = (value as JsonObject)[name];
    const found = !list && member === undefined ? undefined : lossIn(member, around);
    if (found) {
      found.path.push(String(name));
      return found;
    }
  }
  around.pop();
  return undefined;
}

function plain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function nameOf(value: object): string {
  return (value.constructor as { name: string } | undefined)?.name ?? "object";
}

// TypeScript believes that there is always a string.
const stringify = JSON.stringify as (value: unknown, replace?: (key: string, value: unknown) => unknown) => string | undefined;

/** The bytes of a JSON object; none for undefined. */
export function toBytes(value: object | undefined): Buffer {
  return value === undefined ? NOTHING : Buffer.from(toJson(value));
}

/** The object that bytes hold; no bytes are an empty one. Numbers are JavaScript's: beyond 2^53 the nearest there is. */
export function toObject(bytes: Uint8Array): JsonObject {
  return bytes.length === 0 ? {} : (JSON.parse(textOf(bytes)) as JsonObject);
}

/** As toObject, but what is beyond 2^53 is a bigint. */
export function toExactObject(bytes: Uint8Array): JsonObject {
  const value = toObject(bytes);
  const text = textOf(bytes);
  if (!/\d{16}/.test(text)) return value;
  const marked = text.replace(TOKENS, (token) => (LARGE.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token));
  const revive = (_: string, v: unknown) => (typeof v === "string" && v.startsWith(MARK) ? BigInt(v.slice(MARK.length)) : v);
  return JSON.parse(marked, revive) as JsonObject;
}

const LONG = 4096; // Bytes from which on text is worth a look at what is in it.

function textOf(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // Node decodes UTF-8 at a third of the speed of this. What is not quite UTF-8, only it decodes.
  if (buffer.length >= LONG && !isAscii(buffer) && isUtf8(buffer)) return transcode(buffer, "utf8", "utf16le").toString("utf16le");
  return buffer.toString();
}

// What begins with this is the digits of a number. Nobody outside this process knows it, so no text of theirs does.
const MARK = `${randomUUID()}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
// The strings and the numbers of valid JSON.
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LARGE = /^-?\d{16,}$/;
