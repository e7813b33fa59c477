/** Values to the JSON bytes of the contract, and back. */
import { isAscii, isUtf8, transcode } from "node:buffer";
import { randomUUID } from "node:crypto";

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
