/**
 * MCP tools in TypeScript: write functions, and the mcpbridge sidecar implements the protocol.
 *
 *     import { app } from "mcpbridge";
 *     import { z } from "zod";
 *
 *     const a = app("weather", "1.0.0");
 *     a.tool("add", { description: "Add two numbers.", input: { a: z.number(), b: z.number() } }, ({ a, b }) => a + b);
 *     await a.run();
 */

// The first import, so that output of those below cannot precede the handshake.
import "./stdout.js";
import "./frames.js"; // Child processes started from now on do not inherit the address of the bridge.

export { App, app } from "./app.js";
export type {
  AppOptions,
  Completer,
  Completions,
  PromptOptions,
  ResourceOptions,
  TaskOptions,
  ToolOptions,
} from "./app.js";
export {
  assistant,
  audio,
  Content,
  embedded,
  image,
  inputRequired,
  link,
  Message,
  Part,
  part,
  Required,
  Result,
  result,
  text,
  toolResult,
  user,
} from "./content.js";
export { Caller, Context, Log } from "./context.js";
export type { ResultOptions, Turn } from "./content.js";
export type { Answer, AskOptions, Level, Roots, Sample, SampleOptions, ToolCall } from "./context.js";
export {
  DefinitionError,
  InvalidAnswer,
  McpError,
  NoAnswer,
  NotAccepted,
  NotFound,
  Refused,
  ToolError,
  Unsupported,
  VisitRequired,
} from "./errors.js";
export type { McpAnnotations, McpContent, McpMessage, McpModelPreferences, McpTool, McpToolChoice } from "./mcp.js";
export type { InputOf, JsonSchema, OutputOf, Schema, Shape } from "./schema.js";
