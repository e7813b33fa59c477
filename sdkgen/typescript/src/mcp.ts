/** Objects in MCP's format for sampling, and their conversion to messages of the contract. */
import { Role } from "./gen/mcpbridge/v1/common.js";
import { ModelPreferences, SamplingMessage, ToolChoice } from "./gen/mcpbridge/v1/input.js";
import { Tool } from "./gen/mcpbridge/v1/tool.js";
import { isObject, toExactJson, toJson, type JsonObject } from "./json.js";

export interface McpAnnotations {
  audience?: readonly ("user" | "assistant")[] | undefined;
  priority?: number | undefined;
  lastModified?: string | undefined;
}

interface Common {
  annotations?: McpAnnotations | undefined;
  _meta?: object | undefined;
}

interface McpResource {
  uri: string;
  mimeType?: string | undefined;
  _meta?: object | undefined;
}

/** A piece of content: MCP `ContentBlock`, `ToolUseContent` and `ToolResultContent`. `data` and `blob` are base64. */
export type McpContent =
  | (Common & { type: "text"; text: string })
  | (Common & { type: "image" | "audio"; data: string; mimeType: string })
  | (Common & { type: "resource"; resource: McpResource & ({ text: string } | { blob: string }) })
  | (Common & {
      type: "resource_link";
      uri: string;
      name: string;
      title?: string | undefined;
      description?: string | undefined;
      mimeType?: string | undefined;
    })
  | { type: "tool_use"; id: string; name: string; input: object; _meta?: object | undefined }
  | {
      type: "tool_result";
      toolUseId: string;
      content: readonly McpContent[];
      structuredContent?: unknown;
      isError?: boolean | undefined;
      _meta?: object | undefined;
    };

/** A turn of a conversation with a model: MCP `SamplingMessage`. */
export interface McpMessage {
  role: "user" | "assistant";
  content: McpContent | readonly McpContent[];
  _meta?: object | undefined;
}

/** A tool that a model may call: MCP `Tool`. */
export interface McpTool {
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  inputSchema: object;
  outputSchema?: object | undefined;
  annotations?: object | undefined;
  _meta?: object | undefined;
}

/** MCP `ToolChoice`. */
export interface McpToolChoice {
  mode?: "auto" | "required" | "none" | undefined;
}

/** The preferred model: MCP `ModelPreferences`. */
export interface McpModelPreferences {
  hints?: readonly { name?: string | undefined }[] | undefined;
  costPriority?: number | undefined;
  speedPriority?: number | undefined;
  intelligencePriority?: number | undefined;
}

/** Converts the object of MCP at a path to the contract. The TypeError names the path. */
type Read = (value: unknown, path: string) => unknown;

function wrong(path: string, expected: string, value: unknown): TypeError {
  return new TypeError(`${path} must be ${expected}, got ${toJson(value).slice(0, 80)}`);
}

function simple(type: "string" | "number" | "boolean"): Read {
  return (value, path) => {
    if (typeof value !== type) throw wrong(path, `a ${type}`, value);
    return value;
  };
}

function list(read: Read): Read {
  return (value, path) => {
    if (!Array.isArray(value)) throw wrong(path, "a list", value);
    return value.map((item, i) => read(item, `${path}.${String(i)}`));
  };
}

/** Converts an object with these members, of which some are required. Unknown members go into `extra`. */
function object(members: Record<string, Read>, ...required: string[]): (value: unknown, path: string) => JsonObject {
  return (value, path) => {
    if (!isObject(value)) throw wrong(path, "an object of MCP", value);
    for (const name of required) {
      if (value[name] === undefined) throw new TypeError(`${path}.${name} is missing`);
    }
    const message: JsonObject = {};
    const extra: JsonObject = {};
    for (const [name, member] of Object.entries(value)) {
      if (member === undefined) continue;
      const read = Object.hasOwn(members, name) ? members[name] : undefined;
      if (read) message[name === "_meta" ? "meta" : name] = read(member, `${path}.${name}`);
      else extra[name] = member;
    }
    if (Object.keys(extra).length) message.extra = json(extra, path);
    return message;
  };
}

function oneOf<V>(values: Record<string, V>, value: unknown, path: string): V {
  if (typeof value === "string" && Object.hasOwn(values, value)) return values[value] as V;
  throw wrong(path, `one of ${Object.keys(values).join(", ")}`, value);
}

const string = simple("string");
const number = simple("number");
const boolean = simple("boolean");
const json: Read = (value) => toExactJson(value);
const base64: Read = (value, path) => Buffer.from(string(value, path) as string, "base64");
const role: Read = (value, path) => oneOf({ user: Role.USER, assistant: Role.ASSISTANT }, value, path);

const _meta = json;
const annotations = object({ audience: list(role), priority: number, lastModified: string });
const icons = list(object({ src: string, mimeType: string, sizes: list(string), theme: string }));
const named = { name: string, title: string, description: string };
const data = object({ data: base64, mimeType: string, annotations, _meta }, "data", "mimeType");

const contents = object({ uri: string, mimeType: string, text: string, blob: base64, _meta }, "uri");
const resource: Read = (value, path) => {
  const { text, blob, ...rest } = contents(value, path);
  if (text === undefined && blob === undefined) throw new TypeError(`${path} has neither text nor blob`);
  return { ...rest, body: text === undefined ? { $case: "blob", value: blob } : { $case: "text", value: text } };
};

const CONTENT: Record<string, { $case: string; read: Read }> = {
  text: { $case: "text", read: object({ text: string, annotations, _meta }, "text") },
  image: { $case: "image", read: data },
  audio: { $case: "audio", read: data },
  resource: { $case: "resource", read: object({ resource, annotations, _meta }, "resource") },
  resource_link: {
    $case: "resourceLink",
    read: object({ ...named, uri: string, mimeType: string, size: number, annotations, icons, _meta }, "uri", "name"),
  },
  tool_use: { $case: "toolUse", read: object({ id: string, name: string, input: json, _meta }, "id", "name", "input") },
  tool_result: {
    $case: "toolResult",
    read: object(
      { toolUseId: string, content: list(block), structuredContent: json, isError: boolean, _meta },
      "toolUseId",
      "content",
    ),
  },
};

function block(value: unknown, path: string): unknown {
  if (!isObject(value)) throw wrong(path, "an object of MCP", value);
  const { type, ...rest } = value;
  const { $case, read } = oneOf(CONTENT, type, `${path}.type`);
  return { block: { $case, value: read(rest, path) } };
}

const content: Read = (value, path) => (Array.isArray(value) ? list(block)(value, path) : [block(value, path)]);
const toolAnnotations = object({
  title: string,
  readOnlyHint: boolean,
  destructiveHint: boolean,
  idempotentHint: boolean,
  openWorldHint: boolean,
});
const message = object({ role, content, _meta }, "role", "content");
const tool = object(
  {
    ...named,
    inputSchema: json,
    outputSchema: json,
    annotations: toolAnnotations,
    icons,
    execution: object({ taskSupport: string }),
    _meta,
  },
  "name",
  "inputSchema",
);
const toolChoice = object({ mode: string });
const modelPreferences = object({
  hints: list(object({ name: string })),
  costPriority: number,
  speedPriority: number,
  intelligencePriority: number,
});

export function messageOf(value: McpMessage, path: string): SamplingMessage {
  return SamplingMessage.fromPartial(message(value, path));
}

export function toolOf(value: McpTool, path: string): Tool {
  return Tool.fromPartial(tool(value, path));
}

export function toolChoiceOf(value: string | McpToolChoice): ToolChoice {
  return ToolChoice.fromPartial(toolChoice(typeof value === "string" ? { mode: value } : value, "toolChoice"));
}

/** Converts names of models, best first, or an object in MCP's format. */
export function modelPreferencesOf(value: string | readonly string[] | McpModelPreferences): ModelPreferences {
  const named = typeof value === "string" ? [value] : value;
  const preferences = Array.isArray(named) ? { hints: named.map((name: unknown) => ({ name })) } : named;
  return ModelPreferences.fromPartial(modelPreferences(preferences, "model"));
}
