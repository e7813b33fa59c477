/**
 * Calls tools in a test, without a bridge and without gRPC:
 *
 *     const called = await call(app, "greet", { name: "Ada" }, { elicit: [{ colour: "red" }] });
 *     expect(called.text).toBe("Hello Ada, here is something red for you.");
 */
export { Client, start } from "./bridge.js";
export type { Message, StartOptions } from "./bridge.js";
import type { App } from "./app.js";
import type { InputRequest, InputRequired, InputResponse } from "./gen/mcpbridge/v1/input.js";
import { CreateMessageResult } from "./gen/mcpbridge/v1/input.js";
import { LogLevel, type LogMessage, type Progress } from "./gen/mcpbridge/v1/common.js";
import {
  CallContext,
  CallToolRequest,
  CallToolResponse,
  CompleteRequest,
  GetPromptRequest,
  GetPromptResponse,
  ReadResourceRequest,
  ReadResourceResponse,
  type GetPromptResult,
  type ReadResourceResult,
} from "./gen/mcpbridge/v1/service.js";
import type { CallToolResult } from "./gen/mcpbridge/v1/tool.js";
import type { Emit, Round } from "./context.js";
import { textOf, toJson } from "./json.js";
import { CONTRACT_VERSION } from "./status.js";

/** A caller that supports all questions, and requests progress and all logs. */
export const EVERYTHING = CallContext.fromPartial({
  clientInfo: { name: "mcpbridge/testing", version: "1" },
  clientCapabilities: { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} },
  logLevel: LogLevel.DEBUG,
  progressWanted: true,
  verified: { contractVersion: CONTRACT_VERSION, protocolVersion: "2026-07-28" },
});

/** The answers of a test, each list in the order of the questions. A missing answer fails the test. */
export interface Answers {
  /**
   * The content of a form, "decline" or "cancel"; a simple value for a form of one field; or an answer of the contract.
   */
  elicit?: unknown[];
  /** The answers of the model. */
  sample?: (string | CreateMessageResult)[];
  /** The client's root directories. */
  roots?: string[];
  /** The caller. */
  context?: CallContext;
}

/** The outcome of a call. */
export class Called<R> {
  readonly progress: Progress[] = [];
  readonly logs: LogMessage[] = [];
  readonly asked: InputRequest[] = [];
  rounds = 0;
  /** Whether the tool called `ctx.startTask` in the last round. */
  taskStarted = false;
  constructor(public result: R) {}
}

/** The outcome of a tool call. */
export class ToolCalled extends Called<CallToolResult> {
  get text(): string {
    return this.result.content.map(({ block }) => (block?.$case === "text" ? block.value.text : "")).join("\n");
  }
  get isError(): boolean {
    return this.result.isError ?? false;
  }
  get structured(): unknown {
    return this.result.structuredContent.length
      ? (JSON.parse(textOf(this.result.structuredContent)) as unknown)
      : undefined;
  }
}

/** Calls a tool, and answers its questions, as the bridge does. */
export async function call(app: App, name: string, args: object = {}, answers: Answers = {}): Promise<ToolCalled> {
  app.check();
  const request = CallToolRequest.fromPartial({
    context: answers.context ?? EVERYTHING,
    name,
    arguments: Buffer.from(toJson(args)),
  });
  const called = new ToolCalled({ content: [], structuredContent: Buffer.alloc(0), meta: "", extra: "" });
  return await rounds(
    called,
    answers,
    request,
    async (emit) =>
      CallToolResponse.decode(
        CallToolResponse.encode(
          await app.callTool(CallToolRequest.decode(CallToolRequest.encode(request).finish()), emit),
        ).finish(),
      ),
  );
}

/** Reads a resource. */
export async function read(app: App, uri: string, answers: Answers = {}): Promise<Called<ReadResourceResult>> {
  app.check();
  const request = ReadResourceRequest.fromPartial({ context: answers.context ?? EVERYTHING, uri });
  const called = new Called<ReadResourceResult>({ contents: [], cacheScope: "", meta: "", extra: "" });
  return await rounds(called, answers, request, async (emit) =>
    ReadResourceResponse.decode(ReadResourceResponse.encode(await app.readResource(request, emit)).finish()),
  );
}

/** Gets a prompt. */
export async function prompt(
  app: App,
  name: string,
  args: Record<string, string> = {},
  answers: Answers = {},
): Promise<Called<GetPromptResult>> {
  app.check();
  const request = GetPromptRequest.fromPartial({ context: answers.context ?? EVERYTHING, name, arguments: args });
  const called = new Called<GetPromptResult>({ messages: [], meta: "", extra: "" });
  return await rounds(called, answers, request, async (emit) =>
    GetPromptResponse.decode(GetPromptResponse.encode(await app.getPrompt(request, emit)).finish()),
  );
}

/** Returns the completions of an argument of a prompt or a resource template. */
export async function complete(
  app: App,
  of: { prompt: string } | { resource: string },
  argument: string,
  typed = "",
  others: Record<string, string> = {},
): Promise<string[]> {
  const reference =
    "prompt" in of
      ? { $case: "prompt" as const, value: { name: of.prompt } }
      : { $case: "resource" as const, value: { uri: of.resource } };
  app.check();
  const request = CompleteRequest.fromPartial({
    context: EVERYTHING,
    reference: { reference },
    argument: { name: argument, value: typed },
    argumentContext: { arguments: others },
  });
  return (await app.complete(request)).completion?.values ?? [];
}

/** The last event of a round. */
interface Last {
  event?: { $case: string; value: unknown } | undefined;
}

async function rounds<R, C extends Called<R>>(
  called: C,
  answers: Answers,
  request: Round,
  once: (emit: Emit) => Promise<Last>,
): Promise<C> {
  const remaining = { elicit: [...(answers.elicit ?? [])], sample: [...(answers.sample ?? [])] };
  const emit: Emit = (event) => {
    if (event.$case === "progress") called.progress.push(event.value);
    else if (event.$case === "log") called.logs.push(event.value);
    else called.taskStarted = true;
    return Promise.resolve();
  };
  for (;;) {
    called.rounds++;
    called.taskStarted = false;
    const { event } = await once(emit);
    if (event?.$case === "result") {
      called.result = event.value as R;
      return called;
    }
    if (event?.$case !== "inputRequired") throw new Error("the call ended without a result");
    const { inputRequests, requestState } = event.value as InputRequired;
    request.inputResponses = {};
    request.requestState = requestState;
    for (const question of inputRequests) {
      called.asked.push(question);
      request.inputResponses[question.key] = answer(question, remaining, answers.roots);
    }
  }
}

function answer(
  question: InputRequest,
  remaining: { elicit: unknown[]; sample: (string | CreateMessageResult)[] },
  roots?: string[],
): InputResponse {
  const request = question.request;
  if (request?.$case === "elicit" && remaining.elicit.length) return elicitResponse(remaining.elicit.shift());
  if (request?.$case === "createMessage" && remaining.sample.length) {
    const sample = remaining.sample.shift() ?? "";
    const content = [{ block: { $case: "text" as const, value: { text: typeof sample === "string" ? sample : "" } } }];
    const value = typeof sample === "string"
      ? CreateMessageResult.fromPartial({ role: "assistant", content, model: "test" })
      : sample;
    return { response: { $case: "createMessage", value } };
  }
  if (request?.$case === "listRoots" && roots) {
    const value = { roots: roots.map((uri) => ({ uri, meta: "", extra: "" })), meta: "", extra: "" };
    return { response: { $case: "listRoots", value } };
  }
  throw new Error(`the test has no answer to this question: ${JSON.stringify(question)}`);
}

function elicitResponse(answer: unknown): InputResponse {
  if (typeof answer === "object" && answer !== null && "response" in answer) return answer as InputResponse;
  if (answer === "decline" || answer === "cancel") {
    return { response: { $case: "elicit", value: { action: answer, content: "", meta: "", extra: "" } } };
  }
  const content = toJson(typeof answer === "object" && answer !== null ? answer : { value: answer });
  return { response: { $case: "elicit", value: { action: "accept", content, meta: "", extra: "" } } };
}
