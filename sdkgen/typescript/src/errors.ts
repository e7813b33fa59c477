/** What a tool, a resource or a prompt throws to say how its call ends. */
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";

/** A tool, resource or prompt is written in a way that cannot work. The message names the line to change. */
export class DefinitionError extends TypeError {
  override name = "DefinitionError";
  constructor(message: string) {
    super(message);
    // What ends a program is read from its last lines: without ours among them.
    const frames = (this.stack ?? "").split("\n").filter((line) => /^ +at /.test(line) && placeOf(line) !== undefined);
    this.stack = [`DefinitionError: ${message}`, ...frames].join("\n");
  }
}

/**
 * The tool failed, and the model reads why. Any other error does the same, but its stack is logged too.
 *
 * Resources and prompts have no such results: there the client reads it, as a JSON-RPC error.
 */
export class ToolError extends Error {
  override name = "ToolError";
}

/** What a resource's URI or a prompt's arguments name does not exist. */
export class NotFound extends ToolError {
  override name = "NotFound";
}

/** Answers the call with this JSON-RPC error, exactly. The model does not see it; the client does. */
export class McpError extends Error {
  override name = "McpError";
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message);
  }
}

/**
 * The user has to visit a web page first: `throw new VisitRequired("Sign in", url)`. Then the client calls again.
 *
 * App.notifyVisited, with the same id, tells it that the user is done there. To ask and go on, there is ctx.elicitUrl.
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

/** The client cannot be asked this. Uncaught, it tells the model to ask the user itself. */
export class Unsupported extends ToolError {
  override name = "Unsupported";
}

/** The user declined or cancelled a question whose answer the tool went on to use. */
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

/** The client's answer is not of the form that was asked for. */
export class InvalidAnswer extends ToolError {
  override name = "InvalidAnswer";
}

/**
 * Unwinds a handler that asked something there is no answer to yet. It is called again when there is.
 *
 * Not an Error, so that it does not look like one in a handler's `catch`. Whoever catches it changes nothing: the
 * Context remembers that the round is over.
 */
export class Suspend {
  toString(): string {
    return "mcpbridge: this round of the call is over; the handler runs again when the question is answered";
  }
}

// Where things are.

// This file lies beside all others of the SDK.
const here = fileURLToPath(new URL(".", import.meta.url));

/** The author's own place in a stack, `tools.ts:12`: the first that is neither the SDK's, nor a library's, nor Node's. */
export function placeOf(stack: string | undefined): string | undefined {
  for (const line of (stack ?? "").split("\n")) {
    const found = /(?:\(|at (?:async )?)((?:file:|\/|[A-Za-z]:\\)[^()]*?):(\d+):\d+\)?$/.exec(line);
    if (!found?.[1] || found[1].includes("node_modules")) continue;
    const path = found[1].startsWith("file:") ? fileURLToPath(found[1]) : found[1];
    if (!path.startsWith(here)) return `${path.replace(/^.*[\\/]/, "")}:${found[2] ?? ""}`;
  }
  return undefined;
}

/** Where the author calls us from. */
export function place(): string {
  return placeOf(new Error().stack) ?? "(unknown line)";
}
