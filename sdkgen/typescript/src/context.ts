/** The context of a call: progress, logs, and questions to the user, the model and the client. */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { format, inspect } from "node:util";

import type { ClientCapabilities } from "./gen/mcpbridge/v1/capability.js";
import { LogLevel, type Implementation, type LogMessage, type Progress } from "./gen/mcpbridge/v1/common.js";
import {
  CreateMessageRequest,
  InputError_Reason,
  InputRequest,
  InputResponse,
  type InputError,
  type InputRequired,
} from "./gen/mcpbridge/v1/input.js";
import type { CallContext, CallToolRequest, Principal } from "./gen/mcpbridge/v1/service.js";
import type { TaskStarted } from "./gen/mcpbridge/v1/task.js";
import type { Tool } from "./gen/mcpbridge/v1/tool.js";
import { conversation, type Message, type Turn, turnOf } from "./content.js";
import {
  InvalidAnswer,
  lineOf,
  McpError,
  NoAnswer,
  NotAccepted,
  Refused,
  RoundEnd,
  ToolError,
  Unsupported,
} from "./errors.js";
import { checkJson, type JsonObject, objectToJson, toExactJson, toJson, toObject } from "./json.js";
import {
  type McpModelPreferences,
  type McpTool,
  type McpToolChoice,
  modelPreferencesOf,
  toolChoiceOf,
  toolOf,
} from "./mcp.js";
import { type Form, formOf, type JsonSchema, type OutputOf, type Schema, type Shape } from "./schema.js";

// The limit of the contract; the bridge refuses more.
const MAX_STATE = 32 * 1024;

export type Level = "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency";

/** An event of a call before the last one. Only tools send `taskStarted`. */
export type Event =
  | { $case: "progress"; value: Progress }
  | { $case: "log"; value: LogMessage }
  | { $case: "taskStarted"; value: TaskStarted };

/** Sends an event. The promise resolves when another one can be sent. */
export type Emit = (event: Event) => Promise<void>;

/** The common members of requests that can have several rounds. */
export interface Round {
  context?: CallContext | undefined;
  inputResponses: Record<string, InputResponse>;
  requestState?: Uint8Array | undefined;
}

/** The methods of App that a Context calls. */
export interface Owner {
  notifyUpdated(uri: string): void;
  toolMessage(name: string): Tool;
}

const UNKNOWN_CLIENT: Implementation = { name: "", version: "", icons: [], extra: "" };

/** The caller. */
export class Caller {
  protected readonly call: CallContext | undefined;
  #abort: AbortController | undefined;
  #canceled = false;
  #meta: JsonObject | undefined;

  constructor(call: CallContext | undefined) {
    this.call = call;
  }

  /** Aborted when the call is canceled. Pass it to functions that accept a signal, such as `fetch`. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#canceled) this.#abort.abort();
    return this.#abort.signal;
  }

  /** The name and version of the client, as it declares them. Not verified. */
  get clientInfo(): Implementation {
    return this.call?.clientInfo ?? UNKNOWN_CLIENT;
  }

  /** The capabilities of the client. Questions that it does not support throw Unsupported. */
  get clientCapabilities(): ClientCapabilities | undefined {
    return this.call?.clientCapabilities;
  }

  /** The MCP revision of the call, such as "2026-07-28". */
  get protocolVersion(): string {
    return this.call?.verified?.protocolVersion ?? "";
  }

  /** The authenticated caller, if authentication is configured. */
  get principal(): (Omit<Principal, "claims"> & { claims: JsonObject }) | undefined {
    const p = this.call?.verified?.principal;
    return p && { ...p, claims: toObject(p.claims) };
  }

  /** The HTTP headers in serve.http.passHeaders of the bridge, by lower-case names. */
  get headers(): Readonly<Record<string, string>> {
    return this.call?.verified?.headers ?? {};
  }

  /** MCP `_meta` of the request. */
  get meta(): Readonly<JsonObject> {
    return (this.#meta ??= toObject(this.call?.meta ?? ""));
  }

  /** Internal: whether the call was canceled. */
  get canceled(): boolean {
    return this.#canceled;
  }

  /** Internal: cancels the call. */
  cancel(): void {
    this.#canceled = true;
    this.#abort?.abort();
  }
}

export interface AskOptions {
  /**
   * Identifies a question across rounds. By default its message and schema identify it, and it is asked again if they
   * change. Set a key if the message varies, such as with the time.
   */
  key?: string;
}

export interface SampleOptions extends AskOptions {
  maxTokens?: number;
  system?: string;
  temperature?: number;
  stop?: string[];
  /** The preferred models, best first, or an object in MCP's format. */
  model?: string | readonly string[] | McpModelPreferences;
  /** The tools that the model may call: names of this app's tools, or objects in MCP's format. See Sample.toolCalls. */
  tools?: readonly (string | McpTool)[];
  toolChoice?: "auto" | "required" | "none" | McpToolChoice;
  includeContext?: "none" | "thisServer" | "allServers";
  metadata?: object;
}

/** The user's answer. `data` is the content of the form; it throws NotAccepted if the user did not accept. */
export type Answer<T> =
  | { readonly action: "accept"; readonly accepted: true; readonly data: T }
  | { readonly action: "decline" | "cancel"; readonly accepted: false; readonly data: never };

/** The model's answer. */
export interface Sample {
  readonly text: string;
  readonly model: string;
  readonly stopReason: string | undefined;
  /** The answer as a turn of the conversation, for the next question. */
  readonly turn: Message;
  /** The tool calls of the model. Answer each with a `toolResult` in the next turn. */
  readonly toolCalls: ToolCall[];
}

/** A tool call of the model. Its input is not validated. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

/** The client's root directories. */
export type Roots = { uri: string; name: string | undefined }[];

/**
 * One call, which can take several rounds: `elicit` and the other questions return their answer, or end the round if
 * there is none. When the client has answered, the handler runs again from the top. Code before a question therefore
 * runs in each round; put work that must happen only once into `once`.
 */
export class Context<Request extends Round = Round> extends Caller {
  /** The message of the contract: `ctx.request.arguments` are the unmodified arguments of a tool. */
  readonly request: Request;
  /** The requested URI of a resource. Empty for tools and prompts. */
  readonly uri: string;
  readonly #owner: Owner;
  readonly #emit: Emit;
  #log: Log | undefined;
  #closed = false;
  #ended = false;
  #sent = false;
  #repeated = false;
  #store: QuestionStore | undefined;

  constructor(owner: Owner, request: Request, emit: Emit, uri = "") {
    super(request.context);
    this.#owner = owner;
    this.request = request;
    this.#emit = emit;
    this.uri = uri;
  }

  /** Logs to the caller, at the levels that it requested. */
  get log(): Log {
    return (this.#log ??= new Log(this));
  }

  /**
   * The state in the `inputRequired` of the previous round. `elicit` and the other questions use the state too, so a
   * handler cannot combine both.
   */
  get requestState(): Uint8Array | undefined {
    return this.request.requestState;
  }

  // Progress and logs.

  /** Reports progress, if the caller requested it. `done` must increase. */
  async progress(done: number, total?: number, message?: string): Promise<void> {
    if (!this.call?.progressWanted || this.#closed) return;
    this.#sent = true;
    await this.#emit({ $case: "progress", value: { progress: done, total, message, meta: "", extra: "" } });
  }

  /** Continues the call as a task, if the client supports tasks. For tools with `task: { startsLater: true }`. */
  async startTask(this: Context<CallToolRequest>): Promise<void> {
    if (!this.#closed) await this.#emit({ $case: "taskStarted", value: {} });
  }

  /** Notifies subscribers that the resource with this URI has changed, like App.notifyUpdated. */
  notifyUpdated(uri: string): void {
    this.#owner.notifyUpdated(uri);
  }

  /** For Log: sends a message of a requested level. */
  async write(level: Level, data: unknown, logger: string | undefined): Promise<void> {
    const severity = LogLevel[level.toUpperCase() as Uppercase<Level>];
    const requested = this.call?.logLevel ?? LogLevel.UNSPECIFIED;
    if (requested === LogLevel.UNSPECIFIED || severity < requested || this.#closed) return;
    const value = { level: severity, logger, data: dataToJson(data), meta: "", extra: "" };
    this.#sent = true;
    await this.#emit({ $case: "log", value });
  }

  // Questions.

  /** Asks the user to fill in a form: a shape such as `{ sure: z.boolean() }`, a schema, or a JSON Schema. */
  elicit(message: string): Promise<Answer<JsonObject>>;
  elicit<const S extends Schema | Shape | JsonSchema>(
    message: string,
    schema: S,
    options?: AskOptions,
  ): Promise<Answer<OutputOf<S>>>;
  elicit(message: string, schema?: Schema | Shape | JsonSchema, options: AskOptions = {}): Promise<Answer<unknown>> {
    const can = this.call?.clientCapabilities?.elicitation;
    // No mode means form, as in 2025-06-18.
    if (!can || (can.url && !can.form)) throw new Unsupported(unsupportedMessage("show a form to its user", message));
    const form = formOf(schema);
    const value = { message, requestedSchema: toJson(form.schema), meta: "", extra: "" };
    return this.#question(
      { $case: "elicit", value: { mode: { $case: "form", value } } },
      options.key,
      (r) => readAnswer(r, message, form),
    );
  }

  /** Asks the user to visit a web page. Accepted means that they agreed, not that they have completed it. */
  elicitUrl(message: string, url: string, options: AskOptions = {}): Promise<Answer<undefined>> {
    if (!this.call?.clientCapabilities?.elicitation?.url) {
      throw new Unsupported(unsupportedMessage("open a web page for its user", `${message} ${url}`));
    }
    const value = { message, url, meta: "", extra: "" };
    return this.#question(
      { $case: "elicit", value: { mode: { $case: "url", value } } },
      options.key,
      (r) => readAnswer(r, message, undefined) as Promise<Answer<undefined>>,
    );
  }

  /** Asks the client's model. Deprecated by MCP 2026-07-28: call the API of a model instead. */
  sample(prompt: string | Turn | readonly Turn[], options: SampleOptions = {}): Promise<Sample> {
    const can = this.call?.clientCapabilities?.sampling;
    const instead = "Answer this yourself and go on without the tool.";
    if (!can) throw new Unsupported(`This client does not let tools ask its model. ${instead}`);
    if (options.tools?.length && !can.tools)
      throw new Unsupported(`This client does not give its model tools. ${instead}`);
    const value = CreateMessageRequest.fromPartial({
      messages: conversation(prompt),
      systemPrompt: options.system,
      includeContext: options.includeContext,
      temperature: options.temperature,
      maxTokens: options.maxTokens ?? 1024,
      stopSequences: options.stop ?? [],
      metadata: objectToJson(options.metadata),
      tools: (options.tools ?? []).map((t, i) =>
        (typeof t === "string" ? this.#owner.toolMessage(t) : toolOf(t, `tools.${String(i)}`)),
      ),
    });
    if (options.model !== undefined) value.modelPreferences = modelPreferencesOf(options.model);
    if (options.toolChoice !== undefined) value.toolChoice = toolChoiceOf(options.toolChoice);
    return this.#question({ $case: "createMessage", value }, options.key, readSample);
  }

  /** Requests the root directories of the client. Deprecated by MCP 2026-07-28: take them as arguments instead. */
  roots(options: AskOptions = {}): Promise<Roots> {
    if (!this.call?.clientCapabilities?.roots) {
      throw new Unsupported(unsupportedMessage("list the folders that it works in", "Which folder is meant?"));
    }
    return this.#question({ $case: "listRoots", value: { meta: "", extra: "" } }, options.key, (r) =>
      r?.$case === "listRoots" ? r.value.roots.map(({ uri, name }) => ({ uri, name })) : [],
    );
  }

  /** Asks several questions in one round, and waits for all answers: `const [name, roots] = await ctx.all([...])`. */
  async all<const T extends readonly unknown[]>(questions: T): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
    // Await all of them, even after one has ended the round, so that questions that follow belong to the same round.
    const settled = await Promise.allSettled(questions);
    const failures = settled.filter((s) => s.status === "rejected").map((s): unknown => s.reason);
     
    if (failures.length) throw failures.find((reason) => reason instanceof RoundEnd) ?? failures[0];
    return settled.map((s) => (s as PromiseFulfilledResult<unknown>).value) as {
      -readonly [K in keyof T]: Awaited<T[K]>;
    };
  }

  /** Calls fn in the first round only, and returns its result, which must be JSON, in every round. */
  async once<T>(key: string, fn: () => T): Promise<Awaited<T>> {
    const { once, running } = this.#load();
    if (once.has(key)) return once.get(key) as Awaited<T>;
    const existing = running.get(key);
    if (existing) return (await existing) as Awaited<T>;
    const start = (async () => {
      const value = jsonCopy(await fn(), key);
      once.set(key, value);
      return value;
    })();
    running.set(key, start);
    try {
      return (await start) as Awaited<T>;
    } finally {
      running.delete(key);
    }
  }

  // Internal methods.

  /** Loads the state of earlier rounds and the answers of the last one. */
  #load(): QuestionStore {
    if (this.#store) return this.#store;
    const store = (this.#store = new QuestionStore());
    if (this.request.requestState?.length) {
      try {
        const state = JSON.parse(Buffer.from(this.request.requestState).toString()) as {
          answers: Record<string, string>;
          asked: string[];
          once: JsonObject;
        };
        for (const [key, answer] of Object.entries(state.answers)) {
          store.answers.set(key, InputResponse.decode(Buffer.from(answer, "base64")));
          store.asked.add(key);
        }
        for (const key of state.asked) store.asked.add(key);
        for (const [key, value] of Object.entries(state.once)) store.once.set(key, value);
      } catch (e) {
        const error = new McpError(-32602, "the request's state is not one that this tool returned");
        error.cause = e;
        throw error;
      }
    }
    for (const [key, answer] of Object.entries(this.request.inputResponses)) store.answers.set(key, answer);
    return store;
  }

  #question<T>(request: QuestionRequest, key: string | undefined, read: Read<T>): Question<T> {
    const question = new Question(this, this.#ask(request, key), read);
    this.#load().created.push(question);
    return question;
  }

  /** Returns the answer to a question, if there is one. */
  #ask(request: QuestionRequest, key: string | undefined): InputResponse | undefined {
    const { answers, asked, counts, questions } = this.#load();
    const kind = request.$case;
    if (key === undefined) {
      const digest = createHash("sha256").update(InputRequest.encode({ key: "", request }).finish()).digest("hex")
        .slice(0, 12);
      const count = (counts.get(digest) ?? 0) + 1;
      counts.set(digest, count);
      key = count === 1 ? `${kind}-${digest}` : `${kind}-${digest}-${String(count)}`;
    }
    asked.add(key);
    const answer = answers.get(key);
    // An answer of another kind is ignored: the question is asked again.
    if (answer?.response && [kind, "error"].includes(answer.response.$case)) {
      this.#repeated ||= this.#sent;
      return answer;
    }
    questions.set(key, { key, request });
    return undefined;
  }

  /** For Question: ends the round, because an answer is missing. */
  endRound(): never {
    this.#ended = true;
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- not an error
    throw new RoundEnd();
  }

  /** Reports whether a question without an answer was awaited. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Reports whether an event was sent before an answered question, and therefore in an earlier round too. */
  get repeated(): boolean {
    return this.#repeated;
  }

  /** Throws if the handler returned without awaiting a question. */
  checkAwaited(): void {
    const unawaited = this.#store?.created.find((question) => !question.awaited)?.asked;
    if (!unawaited) return;
    const { stack = "" } = unawaited;
    const error = new TypeError(
      `the question at ${lineOf(stack) ?? "an unknown line"} was not awaited; write: await ctx.elicit(...)`,
    );
    error.stack = `TypeError: ${error.message}${stack.slice(stack.indexOf("\n"))}`;
    throw error;
  }

  /** Returns the InputRequired of a round with unanswered questions. */
  inputRequired(): InputRequired {
    const store = this.#load();
    const answers: Record<string, string> = {};
    for (const [key, answer] of store.answers) {
      // Do not keep answers to questions that were not asked.
      if (!store.asked.has(key) || store.questions.has(key)) continue;
      answers[key] = Buffer.from(InputResponse.encode(answer).finish()).toString("base64");
    }
    const once = Object.fromEntries(store.once);
    const state = Buffer.from(JSON.stringify({ answers, asked: [...store.questions.keys()], once }));
    if (state.length > MAX_STATE) {
      const sizes: [string, number][] = [
        ...Object.entries(once).map(([k, v]): [string, number] =>
          [`ctx.once(${JSON.stringify(k)})`, JSON.stringify(v).length],
        ),
        ...Object.entries(answers).map(([k, a]): [string, number] => [`the answer ${k}`, a.length]),
      ];
      const [what, size] = sizes.reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
      throw new ToolError(
        `the state of the call is ${String(state.length)} bytes, more than the maximum of ${String(MAX_STATE)}; ` +
          `the largest part is ${what}, ${String(size)} bytes`,
      );
    }
    return { inputRequests: [...store.questions.values()], requestState: state, meta: "", extra: "" };
  }

  /** Stops sending events: the result is the last event. */
  close(): void {
    this.#closed = true;
  }

  override cancel(): void {
    this.#closed = true;
    super.cancel();
  }
}

/** The questions and answers of a call. Created for the first question, because most calls have none. */
class QuestionStore {
  readonly answers = new Map<string, InputResponse>();
  readonly asked = new Set<string>();
  readonly once = new Map<string, unknown>();
  readonly running = new Map<string, Promise<unknown>>();
  readonly counts = new Map<string, number>();
  readonly questions = new Map<string, InputRequest>();
  readonly created: Question<unknown>[] = [];
}

type QuestionRequest = NonNullable<InputRequest["request"]>;
type Read<T> = (response: InputResponse["response"]) => T | Promise<T>;

function unsupportedMessage(cannot: string, question: string): string {
  return `This client cannot ${cannot}. Ask the user yourself: ${
    JSON.stringify(question)
  }, and call the tool again with the answer.`;
}

/** Converts a value to JSON and back, so that it is the same in every round. */
function jsonCopy(value: unknown, key: string): unknown {
  if (value === undefined) return null;
  try {
    checkJson(value);
    return JSON.parse(JSON.stringify(value));
  } catch (e) {
    throw new TypeError(`ctx.once(${JSON.stringify(key)}) must return JSON: ${(e as Error).message}`, { cause: e });
  }
}

/** Returns the JSON of any value, or its text if it has no JSON. */
function dataToJson(value: unknown): string {
  try {
    return toExactJson(value);
  } catch {
    return JSON.stringify(inspect(value));
  }
}

/** Writes to the call's log. Nothing is sent below the level that the caller requested, or if it requested none. */
export class Log {
  readonly #ctx: Context;
  constructor(ctx: Context) {
    this.#ctx = ctx;
  }
  /** Logs any JSON value. */
  log(level: Level, data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write(level, data, logger);
  }
  debug(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("debug", data, logger);
  }
  info(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("info", data, logger);
  }
  notice(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("notice", data, logger);
  }
  warning(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("warning", data, logger);
  }
  error(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("error", data, logger);
  }
  critical(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("critical", data, logger);
  }
  alert(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("alert", data, logger);
  }
  emergency(data: unknown, logger?: string): Promise<void> {
    return this.#ctx.write("emergency", data, logger);
  }
}

const LEVELS = { debug: "debug", log: "info", info: "info", warn: "warning", error: "error" } as const;

/** Forwards `console` output to the current call in the store. */
export function forwardConsole(): AsyncLocalStorage<Context> {
  const current = new AsyncLocalStorage<Context>();
  for (const [method, level] of Object.entries(LEVELS) as [keyof typeof LEVELS, Level][]) {
    const print = console[method].bind(console);
    console[method] = (...args: unknown[]) => {
      print(...args);
      void current.getStore()?.log.log(level, format(...args), "console");
    };
  }
  return current;
}

/**
 * A question and its answer. Creating it adds it to the round; awaiting it without an answer ends the round. All
 * questions of a Promise.all are therefore asked in one round.
 */
class Question<T> implements Promise<T> {
  readonly [Symbol.toStringTag] = "Promise";
  /** The error for a question that is not awaited; its stack has the line of the question. */
  readonly asked = new TypeError();
  awaited = false;
  readonly #ctx: Context;
  readonly #response: InputResponse | undefined;
  readonly #read: Read<T>;

  constructor(ctx: Context, response: InputResponse | undefined, read: Read<T>) {
    this.#ctx = ctx;
    this.#response = response;
    this.#read = read;
  }

  then<A = T, B = never>(
    resolve?: ((value: T) => A | PromiseLike<A>) | null,
    reject?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#get().then(resolve, reject);
  }

  catch<B = never>(reject?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, reject);
  }

  finally(act?: (() => void) | null): Promise<T> {
    return this.#get().finally(act);
  }

  async #get(): Promise<T> {
    this.awaited = true;
    if (!this.#response) this.#ctx.endRound();
    const response = this.#response.response;
    if (response?.$case === "error") throw errorOf(response.value);
    return await this.#read(response);
  }
}

function errorOf(error: InputError): ToolError {
  if (error.reason === InputError_Reason.UNSUPPORTED) {
    return new Unsupported(`This client cannot be asked this: ${error.message}. Ask the user yourself and call again.`);
  }
  if (error.reason === InputError_Reason.NO_ANSWER)
    return new NoAnswer(error.message || "the client did not answer in time");
  return new Refused(error.message || "the client refused to answer");
}

async function readAnswer(
  response: InputResponse["response"],
  message: string,
  form: Form | undefined,
): Promise<Answer<unknown>> {
  if (response?.$case !== "elicit") throw new InvalidAnswer("the client's response is not the answer of a user");
  const { action, content } = response.value;
  if (action === "accept") {
    return { action: "accept", accepted: true, data: form ? await form.parse(readContent(content, form)) : undefined };
  }
  const decline = action === "decline"; // An unknown action is treated as "cancel".
  return {
    action: decline ? "decline" : "cancel",
    accepted: false,
    get data(): never {
      throw new NotAccepted(`the user ${decline ? "declined" : "closed the question without an answer"}: ${message}`);
    },
  };
}

function readContent(content: string, form: Form): JsonObject {
  let value: unknown;
  try {
    value = form.read(content);
  } catch (e) {
    throw new InvalidAnswer(`the answer is not JSON: ${(e as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new InvalidAnswer("the answer is not a JSON object");
  return value as JsonObject;
}

function readSample(response: InputResponse["response"]): Sample {
  if (response?.$case !== "createMessage")
    throw new InvalidAnswer("the client's response is not a message of its model");
  const { role, content, model, stopReason } = response.value;
  return {
    text: content.map(({ block }) => (block?.$case === "text" ? block.value.text : "")).join(""),
    model,
    stopReason,
    turn: turnOf(role, content),
    toolCalls: content.flatMap(({ block }) =>
      block?.$case === "toolUse"
        ? [{ id: block.value.id, name: block.value.name, input: toObject(block.value.input) }]
        : []
    ),
  };
}
