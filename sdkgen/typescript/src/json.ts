/** Values to the JSON bytes of the contract, and back. */

export type JsonObject = Record<string, unknown>;

export const NOTHING = Buffer.alloc(0);

// Node 22 and newer can write every digit of a bigint.
const rawJSON = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON;

function bigints(_key: string, value: unknown): unknown {
  if (typeof value !== "bigint") return value;
  if (rawJSON) return rawJSON(value.toString());
  return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString();
}

/** The JSON of a value; of what JSON cannot hold, such as a function or undefined, `null`. */
export function toJson(value: unknown): string {
  // TypeScript believes that this is always a string.
  const json = JSON.stringify(value, bigints) as string | undefined;
  return json ?? "null";
}

/** The bytes of a JSON object; none for undefined. */
export function toBytes(value: object | undefined): Buffer {
  return value === undefined ? NOTHING : Buffer.from(toJson(value));
}

/** The object that bytes hold; no bytes are an empty one. */
export function toObject(bytes: Uint8Array): JsonObject {
  if (bytes.length === 0) return {};
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) as JsonObject;
}
