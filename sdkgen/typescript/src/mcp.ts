/** Objects in MCP's format for sampling. Their content is sent unchanged: the bridge converts it. */
import { ModelPreferences, type SamplingMessage, type ToolChoice } from "./gen/mcpbridge/v1/input.js";
import { Tool } from "./gen/mcpbridge/v1/tool.js";
import { isObject, toExactJson, toJson } from "./json.js";

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

function requireObject(value: unknown, path: string): void {
  if (!isObject(value))
    throw new TypeError(`${path} must be an object in MCP's format, got ${toJson(value).slice(0, 80)}`);
}

function jsonOf(value: object | undefined): string {
  return value === undefined ? "" : toExactJson(value);
}

/** Returns the members that are not in known, for `extra`. */
function othersOf(value: object, ...known: string[]): string {
  const others = Object.entries(value).filter(([name, member]) => !known.includes(name) && member !== undefined);
  return others.length ? toExactJson(Object.fromEntries(others)) : "";
}

export function messageOf(value: McpMessage, path: string): SamplingMessage {
  requireObject(value, path);
  const blocks = Array.isArray(value.content)
    ? (value.content as readonly McpContent[])
    : [value.content as McpContent];
  for (const block of blocks) requireObject(block, `${path}.content`);
  return {
    role: value.role,
    content: blocks.map((block) => ({ block: { $case: "raw", value: toExactJson(block) } })),
    meta: jsonOf(value._meta),
    extra: othersOf(value, "role", "content", "_meta"),
  };
}

export function toolOf(value: McpTool, path: string): Tool {
  requireObject(value, path);
  requireObject(value.inputSchema, `${path}.inputSchema`);
  const { inputSchema, outputSchema, annotations, _meta, ...same } = value;
  const hints = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
  return Tool.fromPartial({
    ...same,
    inputSchema: toExactJson(inputSchema),
    outputSchema: jsonOf(outputSchema),
    ...(annotations ? { annotations: { ...annotations, extra: othersOf(annotations, ...hints) } } : {}),
    meta: jsonOf(_meta),
    extra: othersOf(same, "name", "title", "description", "icons", "execution"),
  });
}

export function toolChoiceOf(value: string | McpToolChoice): ToolChoice {
  return typeof value === "string" ? { mode: value, extra: "" } : { mode: value.mode, extra: othersOf(value, "mode") };
}

/** Converts names of models, best first, or an object in MCP's format. */
export function modelPreferencesOf(value: string | readonly string[] | McpModelPreferences): ModelPreferences {
  const names = typeof value === "string" ? [value] : value;
  const preferences: McpModelPreferences = isObject(names)
    ? names
    : { hints: (names as readonly string[]).map((name) => ({ name })) };
  return ModelPreferences.fromPartial({
    ...preferences,
    hints: (preferences.hints ?? []).map((hint) => ({ ...hint, extra: othersOf(hint, "name") })),
    extra: othersOf(preferences, "hints", "costPriority", "speedPriority", "intelligencePriority"),
  });
}
