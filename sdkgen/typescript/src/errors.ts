/** Errors that tools, resources and prompts throw to fail a call. */
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";

/** The definition of a tool, resource or prompt is invalid. The message names the line to change. */
export class DefinitionError extends TypeError {
  override name = "DefinitionError";
  constructor(message: string) {
    super(message);
    // Remove frames of the SDK from the stack that Node prints at exit.
    const frames = (this.stack ?? "").split("\n").filter((line) => /^ +at /.test(line) && lineOf(line) !== undefined);
    this.stack = [`DefinitionError: ${message}`, ...frames].join("\n");
  }
}

/**
 * The tool failed; the model reads the message. Other errors have the same effect, but their stacks are logged too.
 *
 * Resources and prompts have no error results: the client receives a JSON-RPC error instead.
 */
export class ToolError extends Error {
  override name = "ToolError";
}

/** The resource does not exist, or a prompt's arguments refer to an object that does not exist. */
export class NotFound extends ToolError {
  override name = "NotFound";
}

/** Fails the call with exactly this JSON-RPC error. The client receives it; the model does not. */
export class McpError extends Error {
  override name = "McpError";
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    if ((code | 0) !== code) throw new RangeError(`the code of an McpError is a 32-bit integer, not ${String(code)}`);
    super(message);
  }
}

/**
 * The user must visit a web page first: `throw new VisitRequired("Sign in", url)`. The client then calls again.
 *
 * App.notifyVisited, with the same id, notifies the client that the user has finished on the page. To continue the same
 * call after the visit, use ctx.elicitUrl.
 */
export class VisitRequired extends McpError {
  override name = "VisitRequired";
  constructor(
    message: string,
    url: string,
    readonly id: string = randomUUID(),
  ) {
    super(-32042, message, { elicitations: [{ mode: "url", elicitationId: id, url, message }] });
  }
}

/** The client does not support the request. If uncaught, its message instructs the model to ask the user itself. */
export class Unsupported extends ToolError {
  override name = "Unsupported";
}

/** The tool read the content of an answer, although the user declined or canceled the question. */
export class NotAccepted extends ToolError {
  override name = "NotAccepted";
}

/** The client did not answer in time. */
export class NoAnswer extends ToolError {
  override name = "NoAnswer";
}

/** The client answered a question with an error. */
export class Refused extends ToolError {
  override name = "Refused";
}

/** The client's answer does not conform to the requested schema. */
export class InvalidAnswer extends ToolError {
  override name = "InvalidAnswer";
}

/**
 * Unwinds a handler whose question has no answer yet. The handler runs again once the answer has arrived.
 *
 * RoundEnd is not an Error, so that a handler's `catch` can distinguish it. A `catch` has no effect: the Context
 * records the end of the round.
 */
export class RoundEnd {
  toString(): string {
    return "mcpbridge: this round of the call has ended; the handler runs again when the question is answered";
  }
}

// Source locations.

const SDK_DIRECTORY = fileURLToPath(new URL(".", import.meta.url));

/** Returns the first frame outside of the SDK, libraries and Node in a stack: `tools.ts:12`. */
export function lineOf(stack: string | undefined): string | undefined {
  for (const line of (stack ?? "").split("\n")) {
    const found = /(?:\(|at (?:async )?)((?:file:|\/|[A-Za-z]:\\)[^()]*?):(\d+):\d+\)?$/.exec(line);
    if (!found?.[1] || found[1].includes("node_modules")) continue;
    const path = found[1].startsWith("file:") ? fileURLToPath(found[1]) : found[1];
    if (!path.startsWith(SDK_DIRECTORY)) return `${path.replace(/^.*[\\/]/, "")}:${found[2] ?? ""}`;
  }
  return undefined;
}

/** Returns the line of the app that called the SDK. */
export function callerLine(): string {
  return lineOf(new Error().stack) ?? "(unknown line)";
}
