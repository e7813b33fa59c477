/** The content that tools, resources and prompts return, and its conversion to results. */
import { readFileSync } from "node:fs";
import { extname } from "node:path";

import { Resource, type Annotations, type ContentBlock, type ResourceContents } from "./gen/mcpbridge/v1/common.js";
import { InputRequired, type SamplingMessage } from "./gen/mcpbridge/v1/input.js";
import type { GetPromptResult, PromptMessage, ReadResourceResult } from "./gen/mcpbridge/v1/service.js";
import type { CallToolResult } from "./gen/mcpbridge/v1/tool.js";
import { objectToJson, textOf, toExactJson } from "./json.js";
import { messageOf, type McpMessage } from "./mcp.js";

/** Hints for the use of content. */
export interface Hints {
  audience?: ("user" | "assistant" | (string & {}))[];
  /** The importance, from 0 (optional) to 1 (effectively required). */
  priority?: number;
  lastModified?: Date | string;
  /** MCP `_meta`. */
  meta?: object;
}

/**
 * Content to return, created by `text`, `image`, `audio`, `embedded` and `link`, or with a block of the contract, such
 * as `new Content({ block: { $case: "raw", value: '{"type":"video",...}' } })`.
 */
export class Content {
  constructor(readonly block: ContentBlock) {}
}

/** Text with hints; for text without hints, return a string. */
export function text(text: string, hints?: Hints): Content {
  return block({ $case: "text", value: { text, ...fromHints(hints) } });
}

/** An image: `image(png)`, `image(jpeg, "image/jpeg")` or `image.file("map.png")`. */
export function image(data: Uint8Array, mimeType = "image/png", hints?: Hints): Content {
  return block({ $case: "image", value: { data: bytes(data), mimeType, ...fromHints(hints) } });
}
image.file = (path: string, hints?: Hints): Content =>
  image(readFileSync(path), typeOfFile(path) ?? "image/png", hints);

/** Audio: `audio(wav)`, `audio(mp3, "audio/mpeg")` or `audio.file("bell.wav")`. */
export function audio(data: Uint8Array, mimeType = "audio/wav", hints?: Hints): Content {
  return block({ $case: "audio", value: { data: bytes(data), mimeType, ...fromHints(hints) } });
}
audio.file = (path: string, hints?: Hints): Content =>
  audio(readFileSync(path), typeOfFile(path) ?? "audio/wav", hints);

/** An embedded resource: `embedded("file:///notes.txt", "the text")`, with text, bytes or any JSON value. */
export function embedded(uri: string, data: unknown, mimeType?: string, hints?: Hints): Content {
  return block({ $case: "resource", value: { resource: contents(data, uri, mimeType), ...fromHints(hints) } });
}

/** A link to a resource, which clients may read. */
export function link(
  uri: string,
  about: { name?: string; title?: string; description?: string; mimeType?: string; size?: number } = {},
  hints?: Hints,
): Content {
  const name = about.name ?? (uri.replace(/\/+$/, "").split("/").pop() || uri);  
  return block({ $case: "resourceLink", value: Resource.fromPartial({ uri, ...about, name, ...fromHints(hints) }) });
}

/**
 * The whole result of a tool. Bytes in `structured`, and a string in `meta` and `extra`, are JSON, and are sent
 * unchanged.
 */
export interface ResultOptions {
  content?: string | Content | (string | Content)[] | undefined;
  /** Any JSON value. Without `content`, its JSON is also the content, for clients that do not support it. */
  structured?: unknown;
  isError?: boolean | undefined;
  /** MCP `_meta`. */
  meta?: object | string | undefined;
  /** Unknown members. */
  extra?: object | string | undefined;
}

/** The whole result of a tool, for exact control. */
export class Result {
  constructor(readonly o: ResultOptions) {}
}

/** The whole result of a tool, for exact control. */
export function result(o: ResultOptions): Result {
  return new Result(o);
}

/** The input required before there is a result, in messages of the contract. */
export class Required {
  constructor(readonly message: InputRequired) {}
}

/**
 * Ends the round with input requests, in messages of the contract (`mcpbridge/v1`), and a state. In the next round,
 * `ctx.requestState` is the state, and `ctx.request.inputResponses` has the answers. `ctx.elicit` and the other
 * questions do this automatically.
 */
export function inputRequired(needs: Parameters<typeof InputRequired.fromPartial>[0]): Required {
  return new Required(InputRequired.fromPartial(needs));
}

/** A part of a resource: text, bytes, or any JSON value. */
export class Part {
  constructor(readonly contents: ResourceContents) {}
}

/** A part of a resource that has several: `[part("file:///a/1", "text"), part("file:///a/2", png, "image/png")]`. */
export function part(uri: string, data: unknown, mimeType?: string): Part {
  return new Part(contents(data, uri, mimeType));
}

/** One turn of a prompt, or of a conversation with a model: `user("What is this?", image.file("map.png"))`. */
export class Message {
  readonly role: string;
  readonly blocks: ContentBlock[];
  /** The role is "user" or "assistant"; other roles are sent unchanged. */
  constructor(role: string, ...content: (string | Content)[]) {
    this.role = role;
    this.blocks = content.map(toBlock);
  }
}

/** Returns a message of the user. */
export function user(...content: (string | Content)[]): Message {
  return new Message("user", ...content);
}

/** Returns a message of the model. */
export function assistant(...content: (string | Content)[]): Message {
  return new Message("assistant", ...content);
}

function block(b: NonNullable<ContentBlock["block"]>): Content {
  return new Content({ block: b });
}

function fromHints(hints: Hints | undefined): { annotations: Annotations | undefined; meta: string; extra: string } {
  return { annotations: annotationsOf(hints), meta: objectToJson(hints?.meta), extra: "" };
}

export function annotationsOf(hints: Hints = {}): Annotations | undefined {
  const { audience, priority, lastModified } = hints;
  if (audience === undefined && priority === undefined && lastModified === undefined) return undefined;
  return {
    audience: audience ?? [],
    priority,
    lastModified: lastModified instanceof Date ? lastModified.toISOString() : lastModified,
    extra: "",
  };
}

const TYPES: Record<string, string> = {
  ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
  ".svg": "image/svg+xml", ".avif": "image/avif", ".bmp": "image/bmp", ".wav": "audio/wav", ".mp3": "audio/mpeg",
  ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4", ".aac": "audio/aac",
};

function typeOfFile(path: string): string | undefined {
  return TYPES[extname(path).toLowerCase()];
}

function bytes(data: Uint8Array): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

// Tools.

const NOTHING = Buffer.alloc(0);

/** Returns an error result for the model. */
export function failure(message: string): CallToolResult {
  return { content: [toBlock(message)], structuredContent: NOTHING, isError: true, meta: "", extra: "" };
}

/** Returns the result of a tool that returned value. `schema` is the kind of its output schema, if it has one. */
export function success(value: unknown, schema: "wrapped" | "object" | undefined): CallToolResult {
  const r: CallToolResult = { content: [], structuredContent: NOTHING, meta: "", extra: "" };
  if (value instanceof Result) {
    const { content, structured, isError, meta, extra } = value.o;
    if (content !== undefined) r.content = (Array.isArray(content) ? content : [content]).map(toBlock);
    if (structured !== undefined) {
      r.structuredContent = structured instanceof Uint8Array ? bytes(structured) : Buffer.from(toExactJson(structured));
      if (content === undefined) r.content = [toBlock(textOf(r.structuredContent))];
    }
    if (isError !== undefined) r.isError = isError;
    if (meta !== undefined) r.meta = jsonOf(meta);
    if (extra !== undefined) r.extra = jsonOf(extra);
  } else if (schema === undefined && typeof value === "string") {
    r.content = [toBlock(value)];
  } else if (schema === undefined && (value === undefined || value === null)) {
    // No content.
  } else if (value instanceof Content) {
    r.content = [value.block];
  } else if (Array.isArray(value) && value.some((v) => v instanceof Content)) {
    r.content = value.map(toBlock);
  } else if (value instanceof Uint8Array || value instanceof ArrayBuffer) {
    throw new TypeError("a tool cannot return bytes: return image(data, mimeType), audio(data, mimeType) or text");
  } else {
    // Structured content is an object in MCP, with its text as content for clients that do not support it.
    const json = toExactJson(value);
    r.content = [toBlock(json)];
    const wrap = schema ? schema === "wrapped" : !json.startsWith("{");
    r.structuredContent = Buffer.from(wrap ? `{"result":${json}}` : json);
  }
  return r;
}

function jsonOf(value: object | string): string {
  return typeof value === "string" ? value : toExactJson(value);
}

function toBlock(value: unknown): ContentBlock {
  if (typeof value === "string") {
    return { block: { $case: "text", value: { text: value, annotations: undefined, meta: "", extra: "" } } };
  }
  if (value instanceof Content) return value.block;
  throw new TypeError(
    `content cannot be ${kindOf(value)}: use a string, text(), image(), audio(), embedded() or link()`,
  );
}

function kindOf(value: unknown): string {
  return typeof value === "object" && value !== null
    ? (value.constructor as { name: string } | undefined)?.name ?? "object"
    : String(value);
}

// Resources.

/** Returns the contents of a resource that returned value. */
export function readResult(value: unknown, uri: string, mimeType: string | undefined): ReadResourceResult {
  const parts = Array.isArray(value) && value.some((v) => v instanceof Part) ? value : [value];
  return { contents: parts.map((p) => contents(p, uri, mimeType)), cacheScope: "", meta: "", extra: "" };
}

/** Returns the contents for text or bytes, or for any other value its JSON. */
function contents(value: unknown, uri: string, mimeType: string | undefined): ResourceContents {
  const rest = { uri, meta: "", extra: "" };
  if (value instanceof Part) return value.contents;
  if (typeof value === "string") return { ...rest, mimeType: mimeType ?? "text/plain", body: { $case: "text", value } };
  if (value instanceof Uint8Array) {
    return { ...rest, mimeType: mimeType ?? "application/octet-stream", body: { $case: "blob", value: bytes(value) } };
  }
  if (value instanceof Content && (value.block.block?.$case === "image" || value.block.block?.$case === "audio")) {
    const { data, mimeType: own } = value.block.block.value;
    return { ...rest, mimeType: mimeType ?? own, body: { $case: "blob", value: data } };
  }
  if (value === undefined || value === null) {
    throw new TypeError(
      `a resource cannot return ${String(value)}: throw new NotFound(...) if there is no such resource`,
    );
  }
  if (value instanceof Content)
    throw new TypeError("a resource cannot return this content: return text, bytes or JSON");
  return { ...rest, mimeType: mimeType ?? "application/json", body: { $case: "text", value: toExactJson(value) } };
}

// Prompts.

/** Returns the messages of a prompt that returned value. */
export function promptResult(value: unknown, description: string | undefined): GetPromptResult {
  const turns: unknown[] = Array.isArray(value) ? value : [value];
  // A message of a prompt has one block.
  const messages = turns.flatMap((turn): PromptMessage[] => {
    const m = turn instanceof Message ? turn : new Message("user", turn as string);
    return m.blocks.map((content) => ({ role: m.role, content, extra: "" }));
  });
  return { description, messages, meta: "", extra: "" };
}

// Sampling.

/** A turn of a conversation with a model: from `user` or `assistant`, or an object in MCP's format. */
export type Turn = Message | McpMessage;

/** Converts a prompt to messages for sampling. */
export function conversation(prompt: string | Turn | readonly Turn[]): SamplingMessage[] {
  const turns = (Array.isArray(prompt) ? prompt : [prompt]) as readonly (string | Turn)[];
  return turns.map((turn, i) => {
    const m = typeof turn === "string" ? user(turn) : turn;
    if (!(m instanceof Message)) return messageOf(m, `messages.${String(i)}`);
    return { role: m.role, content: m.blocks, meta: "", extra: "" };
  });
}

/** Returns the answer of a model as a turn of the conversation. */
export function turnOf(role: string, content: ContentBlock[]): Message {
  return new Message(role, ...content.map((b) => new Content(b)));
}

/** Returns the result or failure of a tool call of the model, for the next turn: `user(toolResult(call, value))`. */
export function toolResult(
  call: { readonly id: string },
  returned: unknown,
  options: { isError?: boolean } = {},
): Content {
  const { content, structuredContent, isError } = success(returned, undefined);
  const value = {
    toolUseId: call.id,
    content,
    structuredContent: textOf(structuredContent),
    isError: options.isError ?? isError,
    meta: "",
    extra: "",
  };
  return block({ $case: "toolResult", value });
}
