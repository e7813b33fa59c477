/** App: a set of tools, resources and prompts, and the methods that serve the bridge. */
import type { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";

import { status } from "@grpc/grpc-js";

import { Resource, type Icon } from "./gen/mcpbridge/v1/common.js";
import type { InputRequired } from "./gen/mcpbridge/v1/input.js";
import {
  DiscoverResponse,
  ListPromptsResponse,
  ListResourcesResponse,
  ListResourceTemplatesResponse,
  ListToolsResponse,
  Prompt,
  ResourceTemplate,
  type CallToolRequest,
  type CallToolResponse,
  type CompleteRequest,
  type CompleteResponse,
  type GetPromptRequest,
  type GetPromptResponse,
  type ReadResourceRequest,
  type ReadResourceResponse,
  type SubscriptionFilter,
} from "./gen/mcpbridge/v1/service.js";
import { Tool, type ToolExecution } from "./gen/mcpbridge/v1/tool.js";
import { Changes, type List } from "./changes.js";
import {
  annotationsOf,
  Content,
  failure,
  type Hints,
  type Message,
  promptResult,
  readResult,
  Required,
  Result,
  success,
} from "./content.js";
import { Caller, Context, type Emit, forwardConsole, type Round } from "./context.js";
import { callerLine, DefinitionError, lineOf, McpError, NotFound, RoundEnd, ToolError } from "./errors.js";
import { objectToJson, textOf, toJson, type JsonObject } from "./json.js";
import {
  check,
  compile,
  didYouMean,
  fromText,
  describeIssues,
  rejectLists,
  usageOf,
  type Compiled,
  type InputOf,
  type JsonSchema,
  type OutputOf,
  type Schema,
  type Shape,
} from "./schema.js";
import { CONTRACT_VERSION, StatusError } from "./status.js";
import { MANAGED, report } from "./stdout.js";
import { Template, type Variables } from "./template.js";

type MaybePromise<T> = T | Promise<T>;
type AnySchema = Schema | Shape | JsonSchema;

export interface AppOptions {
  /** The display name. */
  title?: string;
  description?: string;
  websiteUrl?: string;
  icons?: (string | Icon)[];
  /** Instructions for the model. */
  instructions?: string;
  /** Lists that are empty at startup and get entries later: clients request only declared lists. */
  declares?: List[];
  /** How long clients may cache the lists, in milliseconds. The lists are the same for all callers. */
  ttlMs?: number;
  /** Whether clients may share cached lists. */
  cacheScope?: "public" | "private";
  /** MCP `_meta`. */
  meta?: object;
  /** The maximum number of concurrent calls. Further calls wait in the bridge. */
  maxConcurrentCalls?: number;
}

interface Description {
  /** The display name. */
  title?: string;
  description?: string;
  icons?: (string | Icon)[];
  /** MCP `_meta`. */
  meta?: object;
}

export interface ToolOptions<I extends AnySchema, O extends Schema | Shape> extends Description {
  /** The arguments: a shape such as `{ city: z.string() }`, a schema of an object, or a JSON Schema. */
  input?: I;
  /** The schema of the result. The returned value is validated against it, and becomes structured content. */
  output?: O;
  /** The tool has no side effects. */
  readOnly?: boolean;
  /** The tool may destroy something. If not set, clients assume true. */
  destructive?: boolean;
  /** The tool is idempotent. */
  idempotent?: boolean;
  /** The tool interacts with external systems. If not set, clients assume true. */
  openWorld?: boolean;
  /** Calls become tasks, which continue in the background, if the client supports tasks. `true` means `{}`. */
  task?: true | TaskOptions;
  /** The URI of a resource, `ui://...`: clients that support MCP Apps show the results in that HTML page. */
  ui?: string;
}

/** How calls of a tool become tasks. */
export interface TaskOptions {
  /** Calls of clients that do not support tasks are errors. Otherwise such clients wait for the result. */
  required?: boolean;
  /** The bridge calls the tool again, once, if the program ends during the call. Otherwise the task fails. */
  retry?: boolean;
  /** A call becomes a task when the tool calls `ctx.startTask`, for example after a question, and not before. */
  startsLater?: boolean;
}

/** Completes an argument: a list of values, which is filtered by the typed prefix, or a function. */
export type Completer =
  | readonly string[]
  | ((prefix: string, others: Readonly<Record<string, string>>, caller: Caller) => MaybePromise<readonly string[]>);

export type Completions<Name extends string> = { readonly [N in Name]?: Completer };

/** Schemas of a template's variables, which are text in the URI: `{ station: z.number() }` converts them to numbers. */
export type VariableSchemas<Name extends string> = { readonly [N in Name]?: Schema };

type Typed<U extends string, V> = Flat<Omit<Variables<U>, keyof V> & OutputOf<V>>;
type Flat<T> = { [K in keyof T]: T[K] } & {};

export interface ResourceOptions<Name extends string = string, V = VariableSchemas<Name>> extends Description {
  /** The name for programs. If empty, the URI. */
  name?: string;
  mimeType?: string;
  /** In bytes. */
  size?: number;
  /** How long clients may cache the content, in milliseconds. */
  ttlMs?: number;
  /** Whether clients may share the cached content. */
  cacheScope?: "public" | "private";
  /** Hints for its use. */
  hints?: Omit<Hints, "meta">;
  /** For a template: schemas of variables that are not text. A URI that does not conform to them does not match. */
  variables?: V;
  /** For a template: completions of its variables. Those with an enum are completed automatically. */
  complete?: Completions<Name>;
}

export interface PromptOptions<A extends Shape> extends Description {
  /** The arguments: a shape of schemas. They are text in the protocol, and converted to numbers and booleans. */
  arguments?: A;
  complete?: Completions<Extract<keyof A, string>>;
}

type Handler = (values: never, ctx: Context<never>) => unknown;

interface ToolEntry {
  readonly message: Tool;
  readonly input: Compiled;
  readonly output: Compiled | undefined;
  readonly usage: string;
  readonly handler: Handler;
  readonly location: string;
}

interface ResourceEntry {
  readonly message: Resource | ResourceTemplate;
  readonly template: Template | undefined;
  readonly schemas: [string, Compiled][]; // The schemas of its variables.
  readonly options: ResourceOptions;
  readonly completers: Map<string, Completer>;
  readonly handler: Handler;
  readonly location: string;
}

interface PromptEntry {
  readonly message: Prompt;
  readonly input: Compiled;
  readonly completers: Map<string, Completer>;
  readonly handler: Handler;
  readonly location: string;
}

/** A set of tools, resources and prompts: `const a = app("weather", "1.0.0")`. */
export function app(name: string, version: string, options: AppOptions = {}): App {
  return new App(name, version, options);
}

export class App {
  /** Internal. */
  readonly changes = new Changes();
  /** Internal: calls without a response. */
  running = 0;
  readonly #tools = new Map<string, ToolEntry>();
  readonly #resources = new Map<string, ResourceEntry>();
  readonly #templates = new Map<string, ResourceEntry>();
  readonly #prompts = new Map<string, PromptEntry>();
  readonly #capabilities: Set<List>; // Capabilities that have been declared to clients.
  #discovered = false;
  #isRunning = false;
  #current: AsyncLocalStorage<Context> | undefined; // The current call, if console output is forwarded.
  #toolList: ListToolsResponse | undefined;
  readonly #mistakes: string[] = [];
  readonly #warned = new Set<string>(); // Definitions whose handlers repeat events.

  constructor(
    readonly name: string,
    readonly version: string,
    readonly options: AppOptions = {},
  ) {
    this.#capabilities = new Set(options.declares);
    const location = callerLine();
    rejectUnknown(options, APP_OPTIONS, (what) => this.#mistakes.push(`${location}: app "${name}": ${what}`));
    if (MANAGED) {
      process.once("exit", (code) => {
        if (code === 0 && !this.#isRunning)
          console.error(`mcpbridge: ${location}: the app "${name}" was never run; end the file with: await a.run()`);
      });
    }
  }

  /**
   * Throws a DefinitionError with all mistakes in definitions, each with its line. `run` calls it first. Invalid
   * definitions that are added while the app runs throw immediately.
   */
  check(): void {
    if (this.#mistakes.length) throw new DefinitionError(this.#mistakes.join("\n"));
  }

  /** Records the mistakes in a definition for check, and reports whether it is valid. */
  #accept(what: string, location: string, mistakes: string[]): boolean {
    if (!mistakes.length) return true;
    this.#mistakes.push(...mistakes.map((w) => `${location}: ${what}: ${w}`));
    if (this.#isRunning) throw new DefinitionError(this.#mistakes.splice(0).join("\n"));
    return false;
  }

  // Tools.

  /** Adds a tool, also while the app runs; clients are notified. */
  tool<const I extends AnySchema = Record<never, never>, const O extends Schema | Shape = never>(
    name: string,
    options: ToolOptions<I, O>,
    handler: (
      args: OutputOf<I>,
      ctx: Context<CallToolRequest>,
    ) => MaybePromise<[O] extends [never] ? unknown : InputOf<O> | Result | Content | Required>,
  ): this {
    const location = callerLine();
    const what = `tool "${name}"`;
    const mistakes: string[] = [];
    if (!/^[A-Za-z0-9_.-]{1,128}$/.test(name)) mistakes.push("a name is 1 to 128 letters, digits, '_', '-' and '.'");
    const existing = this.#tools.get(name);
    if (existing) mistakes.push(`is already defined at ${existing.location}`);
    if (typeof handler !== "function") mistakes.push("has no handler; write tool(name, options, (args, ctx) => ...)");
    rejectUnknown(options, TOOL_OPTIONS, (w) => mistakes.push(w));
    if (typeof options.task === "object") rejectUnknown(options.task, TASK_OPTIONS, (w) => mistakes.push(`task: ${w}`));
    if (options.ui !== undefined && !options.ui.startsWith(UI_SCHEME))
      mistakes.push(`ui: the URI of a user interface starts with ${UI_SCHEME}, not "${options.ui}"`);
    const input = attempt(mistakes, "input", () => compile(options.input ?? {}, "input"));
    if (input && input.json.type !== "object") {
      mistakes.push(
        `input: has to be an object, not ${typeof input.json.type === "string" ? input.json.type : "anything"}`,
      );
    }
    const output = options.output && attempt(mistakes, "output", () => compile(options.output as AnySchema, "output"));
    if (!this.#accept(what, location, mistakes) || !input) return this;
    const wrap = output && output.json.type !== "object";
    const annotations = {
      readOnlyHint: options.readOnly,
      destructiveHint: options.destructive,
      idempotentHint: options.idempotent,
      openWorldHint: options.openWorld,
    };
    // Absent is not false: a tool is destructive by default.
    const hasHints = Object.values(annotations).some((hint) => hint !== undefined);
    const message = Tool.fromPartial({
      name,
      ...describe(options),
      inputSchema: toJson(input.json),
      outputSchema: output ? toJson(wrap ? wrapSchema(output.json) : output.json) : "",
      ...(hasHints ? { annotations } : {}),
      ...(options.task ? { execution: executionOf(options.task === true ? {} : options.task) } : {}),
      ...(options.ui === undefined ? {} : { meta: toJson(withUi(options.meta, options.ui)) }),
    });
    const entry = { message, input, output, usage: usageOf(name, input.json), handler, location };
    this.#tools.set(name, entry);
    if (this.#isRunning) lint(entry);
    this.#changed("tools");
    return this;
  }

  /** Removes a tool, also while the app runs; clients are notified. */
  removeTool(name: string): boolean {
    return this.#tools.delete(name) && this.#changed("tools");
  }

  /** Internal: the definition of a tool for sampling. */
  toolMessage(name: string): Tool {
    const tool = this.#tools.get(name);
    if (!tool) throw new TypeError(`there is no tool "${name}"${didYouMean(name, this.#tools.keys())}`);
    return tool.message;
  }

  // Resources.

  /**
   * Adds a resource, or a template such as `file:///{+path}`, also while the app runs; clients are notified. The
   * handler returns text, bytes, any JSON value, or `part`s, and throws NotFound if the resource does not exist.
   * `ctx.uri` is the requested URI.
   */
  resource<
    const U extends string,
    const V extends VariableSchemas<Extract<keyof Variables<U>, string>> = Record<never, never>,
  >(
    uri: U,
    options: ResourceOptions<Extract<keyof Variables<U>, string>, V>,
    handler: (variables: Typed<U, V>, ctx: Context<ReadResourceRequest>) => unknown,
  ): this {
    const location = callerLine();
    const mistakes: string[] = [];
    const existing = this.#resources.get(uri) ?? this.#templates.get(uri);
    if (existing) mistakes.push(`is already defined at ${existing.location}`);
    if (!/^[A-Za-z][A-Za-z0-9+.-]*:/.test(uri)) mistakes.push("a URI begins with a scheme, such as file:///");
    if (typeof handler !== "function")
      mistakes.push("has no handler; write resource(uri, options, (variables, ctx) => ...)");
    rejectUnknown(options, RESOURCE_OPTIONS, (w) => mistakes.push(w));
    const { mimeType = uri.startsWith(UI_SCHEME) ? UI_TYPE : undefined, size, name = uri } = options;
    const template = uri.includes("{") ? attempt(mistakes, undefined, () => new Template(uri)) : undefined;
    const variables = template?.variables ?? [];
    for (const unknown of Object.keys({ ...options.variables, ...options.complete })) {
      if (template && !variables.includes(unknown))
        mistakes.push(`there is no variable "${unknown}"${didYouMean(unknown, variables)}`);
    }
    const completers = completersOf(options.complete);
    const schemas = Object.entries((options.variables ?? {}) as Shape).flatMap(([n, schema]): [string, Compiled][] => {
      const c = attempt(mistakes, "variables", () => compileTexts({ [n]: schema }));
      const choices = (c?.json.properties as Record<string, JsonObject> | undefined)?.[n]?.enum;
      if (!completers.has(n) && Array.isArray(choices)) completers.set(n, choices.map(String));
      return c ? [[n, c]] : [];
    });
    if (!this.#accept(`resource "${uri}"`, location, mistakes)) return this;
    const annotations = annotationsOf(options.hints);
    if (template) {
      const message = ResourceTemplate.fromPartial({
        uriTemplate: uri,
        name,
        ...describe(options),
        mimeType,
        annotations,
      });
      this.#templates.set(uri, { message, template, schemas, options, completers, handler, location });
    } else {
      const message = Resource.fromPartial({ uri, name, ...describe(options), mimeType, size, annotations });
      this.#resources.set(uri, { message, template, schemas: [], options, completers: new Map(), handler, location });
    }
    this.#changed("resources");
    return this;
  }

  /** Removes a resource or a template, also while the app runs; clients are notified. */
  removeResource(uri: string): boolean {
    return (this.#resources.delete(uri) || this.#templates.delete(uri)) && this.#changed("resources");
  }

  /** Notifies subscribers that the resource with this URI has changed. */
  notifyUpdated(uri: string): void {
    this.changes.updated(uri);
  }

  // Prompts.

  /**
   * Adds a prompt, also while the app runs; clients are notified. The handler returns text, or `user` and `assistant`
   * messages.
   */
  prompt<const A extends Shape = Record<never, never>>(
    name: string,
    options: PromptOptions<A>,
    handler: (
      args: OutputOf<A>,
      ctx: Context<GetPromptRequest>,
    ) => MaybePromise<string | Content | Message | (string | Content | Message)[] | Required>,
  ): this {
    const location = callerLine();
    const mistakes: string[] = [];
    const existing = this.#prompts.get(name);
    if (existing) mistakes.push(`is already defined at ${existing.location}`);
    if (typeof handler !== "function") mistakes.push("has no handler; write prompt(name, options, (args, ctx) => ...)");
    rejectUnknown(options, PROMPT_OPTIONS, (w) => mistakes.push(w));
    const input = attempt(mistakes, "arguments", () => compileTexts(options.arguments ?? {}));
    const required = (input?.json.required ?? []) as string[];
    const properties = Object.entries((input?.json.properties ?? {}) as Record<string, JsonObject>);
    for (const unknown of Object.keys(options.complete ?? {})) {
      const names = properties.map(([n]) => n);
      if (input && !names.includes(unknown))
        mistakes.push(`complete: there is no argument "${unknown}"${didYouMean(unknown, names)}`);
    }
    if (!this.#accept(`prompt "${name}"`, location, mistakes) || !input) return this;
    const message = Prompt.fromPartial({
      name,
      ...describe(options),
      arguments: properties.map(([n, s]) => ({
        name: n,
        ...(typeof s.title === "string" ? { title: s.title } : {}),
        ...(typeof s.description === "string" ? { description: s.description } : {}),
        required: required.includes(n),
      })),
    });
    const completers = completersOf(options.complete);
    for (const [n, s] of properties) {
      if (!completers.has(n) && Array.isArray(s.enum)) completers.set(n, s.enum.map(String)); // Automatic.
    }
    this.#prompts.set(name, { message, input, completers, handler, location });
    this.#changed("prompts");
    return this;
  }

  /** Removes a prompt, also while the app runs; clients are notified. */
  removePrompt(name: string): boolean {
    return this.#prompts.delete(name) && this.#changed("prompts");
  }

  #changed(which: List): true {
    this.#toolList = undefined;
    this.changes.listChanged(which);
    if (this.#discovered && !this.#capabilities.has(which)) {
      report(
        "warn",
        `mcpbridge: ${callerLine()}: ${this.name} declared no ${which} at startup, so clients do not list them; ` +
          `write app(name, version, { declares: ["${which}"] })`,
      );
    }
    this.#capabilities.add(which);
    return true;
  }

  /** Notifies the client that its user has completed the URL elicitation of a VisitRequired. */
  notifyVisited(id: string): void {
    this.changes.elicitationCompleted(id);
  }

  // Methods of the contract.

  /** Implements Discover. */
  discover(): DiscoverResponse {
    this.#discovered = true;
    const { title, description, websiteUrl, icons, instructions, maxConcurrentCalls, meta } = this.options;
    const completes = [...this.#templates.values(), ...this.#prompts.values()].some((e) => e.completers.size > 0);
    const tools = [...this.#tools.values()].map((t) => t.message);
    const extensions = {
      ...(tools.some((t) => t.execution) ? { "io.modelcontextprotocol/tasks": {} } : {}),
      ...(tools.some(hasUi) ? { "io.modelcontextprotocol/ui": {} } : {}),
    };
    return DiscoverResponse.fromPartial({
      serverInfo: { name: this.name, version: this.version, title, description, websiteUrl, icons: iconsOf(icons) },
      capabilities: {
        ...(this.#capabilities.has("tools") ? { tools: { listChanged: true } } : {}),
        ...(this.#capabilities.has("resources") ? { resources: { listChanged: true, subscribe: true } } : {}),
        ...(this.#capabilities.has("prompts") ? { prompts: { listChanged: true } } : {}),
        ...(completes ? { completions: {} } : {}),
        ...(Object.keys(extensions).length > 0 ? { extensions: toJson(extensions) } : {}),
        logging: {},
      },
      instructions,
      ...(maxConcurrentCalls === undefined ? {} : { limits: { maxConcurrentCalls } }),
      meta: objectToJson(meta),
      contractVersion: CONTRACT_VERSION,
      ...cache(this.options),
    });
  }

  /** Returns the part of the requested changes that Listen reports. */
  supported(requested: SubscriptionFilter | undefined): SubscriptionFilter {
    const resources = this.#capabilities.has("resources");
    return {
      ...(requested?.toolsListChanged && this.#capabilities.has("tools") ? { toolsListChanged: true } : {}),
      ...(requested?.promptsListChanged && this.#capabilities.has("prompts") ? { promptsListChanged: true } : {}),
      ...(requested?.resourcesListChanged && resources ? { resourcesListChanged: true } : {}),
      ...(requested?.elicitationsCompleted ? { elicitationsCompleted: true } : {}),
      resourceSubscriptions: resources ? (requested?.resourceSubscriptions ?? []) : [],
      taskIds: [],
      extra: "",
    };
  }

  /** Implements ListTools: one page, in the order of definition, like the other lists. */
  listTools(request: { cursor?: string | undefined }): ListToolsResponse {
    this.#firstPage(request, "tools");
    return (this.#toolList ??= ListToolsResponse.fromPartial({
      tools: [...this.#tools.values()].map((t) => t.message),
      ...cache(this.options),
    }));
  }

  listResources(request: { cursor?: string | undefined }): ListResourcesResponse {
    this.#firstPage(request, "resources");
    const resources = [...this.#resources.values()].map((r) => r.message as Resource);
    return ListResourcesResponse.fromPartial({ resources, ...cache(this.options) });
  }

  listResourceTemplates(request: { cursor?: string | undefined }): ListResourceTemplatesResponse {
    this.#firstPage(request, "resources");
    const resourceTemplates = [...this.#templates.values()].map((r) => r.message as ResourceTemplate);
    return ListResourceTemplatesResponse.fromPartial({ resourceTemplates, ...cache(this.options) });
  }

  listPrompts(request: { cursor?: string | undefined }): ListPromptsResponse {
    this.#firstPage(request, "prompts");
    return ListPromptsResponse.fromPartial({
      prompts: [...this.#prompts.values()].map((p) => p.message),
      ...cache(this.options),
    });
  }

  #firstPage(request: { cursor?: string | undefined }, which: List): void {
    if (!this.#capabilities.has(which)) throw new StatusError(status.UNIMPLEMENTED, `${this.name} has no ${which}`);
    if (request.cursor === undefined) return;
    throw new StatusError(
      status.INVALID_ARGUMENT,
      `there is no page at cursor ${JSON.stringify(request.cursor.slice(0, 128))}`,
    );
  }

  /**
   * Implements CallTool: returns the last event. Throws StatusError and McpError only. `onStart` receives the call, so
   * that it can be canceled.
   */
  async callTool(request: CallToolRequest, emit: Emit, onStart?: (caller: Caller) => void): Promise<CallToolResponse> {
    const tool = this.#tools.get(request.name);
    if (!tool) throw notFound("tool", request.name, this.#tools.keys());
    const what = `tool "${request.name}"`;
    return await this.#round<CallToolResponse>(
      request,
      emit,
      "",
      onStart,
      `${tool.location}: ${what}`,
      async (ctx) =>
        tool.handler(
          (await check(tool.input, request.name, tool.usage, parse(tool.input, request.arguments))) as never,
          ctx as never,
        ),
      async (value) => {
        if (tool.output && !isContent(value)) value = await validated(tool.output, value, what);
        const schema = tool.output && (tool.output.json.type === "object" ? "object" : "wrapped");
        return { event: { $case: "result", value: success(value, schema) } };
      },
      (e) => {
        if (e instanceof McpError) throw e;
        if (!(e instanceof ToolError)) logCrash(what, e, tool.location);
        return { event: { $case: "result", value: failure(messageOf(e)) } };
      },
    );
  }

  /** Implements ReadResource, like callTool. */
  async readResource(
    request: ReadResourceRequest,
    emit: Emit,
    onStart?: (caller: Caller) => void,
  ): Promise<ReadResourceResponse> {
    const { uri } = request;
    const [resource, variables] = await this.#find(uri);
    const what = `resource "${uri}"`;
    const definition = "uriTemplate" in resource.message ? `resource template "${resource.message.uriTemplate}"` : what;
    return await this.#round<ReadResourceResponse>(
      request,
      emit,
      uri,
      onStart,
      `${resource.location}: ${definition}`,
      (ctx) => resource.handler(variables as never, ctx as never),
      (value) => {
        const result = readResult(value, uri, resource.message.mimeType);
        return { event: { $case: "result", value: { ...result, ...cache(resource.options) } } };
      },
      (e) => rethrow(what, e, resource.location),
    );
  }

  async #find(uri: string): Promise<[ResourceEntry, JsonObject]> {
    const exact = this.#resources.get(uri);
    if (exact) return [exact, {}];
    for (const entry of this.#templates.values()) {
      const variables: JsonObject | undefined = entry.template?.match(uri);
      if (variables && (await conform(entry.schemas, variables))) return [entry, variables];
    }
    throw notFound("resource", uri, this.#resources.keys());
  }

  /** Implements GetPrompt, like callTool. */
  async getPrompt(
    request: GetPromptRequest,
    emit: Emit,
    onStart?: (caller: Caller) => void,
  ): Promise<GetPromptResponse> {
    const prompt = this.#prompts.get(request.name);
    if (!prompt) throw notFound("prompt", request.name, this.#prompts.keys());
    const what = `prompt "${request.name}"`;
    return await this.#round<GetPromptResponse>(
      request,
      emit,
      "",
      onStart,
      `${prompt.location}: ${what}`,
      async (ctx) => {
        const checked = await prompt.input.validate(fromText(prompt.input, request.arguments));
        if (checked.issues) {
          throw new McpError(
            -32602,
            `${what}: the arguments are invalid.\n${describeIssues(checked.issues, request.arguments)}`,
          );
        }
        return prompt.handler(checked.value as never, ctx as never);
      },
      (value) => ({ event: { $case: "result", value: promptResult(value, prompt.message.description) } }),
      (e) => rethrow(what, e, prompt.location),
    );
  }

  /** Runs one round of a call, which returns a result or input requests. */
  async #round<R extends { event?: unknown }>(
    request: Round,
    emit: Emit,
    uri: string,
    onStart: ((caller: Caller) => void) | undefined,
    definition: string,
    call: (ctx: Context) => unknown,
    finish: (value: unknown) => MaybePromise<R>,
    failed: (e: unknown) => R,
  ): Promise<R> {
    const required = (value: InputRequired) => ({ event: { $case: "inputRequired", value } }) as unknown as R;
    const ctx = new Context(this, request, emit, uri);
    onStart?.(ctx);
    this.running++;
    let response: R | undefined;
    try {
      const value = await (this.#current ? this.#current.run(ctx, call, ctx) : call(ctx));
      if (!ctx.ended) ctx.checkAwaited();
      response = value instanceof Required ? required(value.message) : await finish(value);
    } catch (e) {
      if (ctx.canceled) throw CANCELED;
      // A question without an answer ends the round, even if the handler threw another error.
      if (!ctx.ended) response = failed(e instanceof RoundEnd ? new Error(e.toString()) : e);
    } finally {
      this.running--;
      ctx.close();
      if (ctx.repeated) this.#warnOfRepeated(definition);
    }
    if (!ctx.ended && response) return response;
    try {
      return required(ctx.inputRequired());
    } catch (e) {
      return failed(e);
    }
  }

  #warnOfRepeated(definition: string): void {
    if (this.#warned.has(definition)) return;
    this.#warned.add(definition);
    const where = "send them after the question or in ctx.once";
    report(
      "warn",
      `mcpbridge: ${definition} sends progress or log messages before an answered question, and so again in each ` +
        `round; ${where}`,
    );
  }

  /** Implements Complete. */
  async complete(request: CompleteRequest, onStart?: (caller: Caller) => void): Promise<CompleteResponse> {
    const reference = request.reference?.reference;
    let completers: Map<string, Completer>;
    if (reference?.$case === "prompt") {
      const prompt = this.#prompts.get(reference.value.name);
      if (!prompt) throw notFound("prompt", reference.value.name, this.#prompts.keys());
      completers = prompt.completers;
    } else if (reference?.$case === "resource") {
      const { uri } = reference.value;
      const entry = this.#templates.get(uri) ?? (await this.#find(uri))[0];
      completers = entry.completers;
    } else {
      throw new StatusError(status.INVALID_ARGUMENT, "the reference is neither a prompt nor a resource template");
    }
    const { name = "", value: prefix = "" } = request.argument ?? {};
    const completer = completers.get(name);
    let values: readonly string[] = [];
    if (typeof completer === "function") {
      const caller = new Caller(request.context);
      onStart?.(caller);
      this.running++;
      try {
        values = await completer(prefix, request.argumentContext?.arguments ?? {}, caller);
      } catch (e) {
        if (caller.canceled) throw CANCELED;
        rethrow(`the completion of "${name}"`, e, undefined);
      } finally {
        this.running--;
      }
    } else if (completer) {
      values = completer.filter((v) => v.toLowerCase().startsWith(prefix.toLowerCase()));
    }
    const completion = { values: values.slice(0, 100), total: values.length, hasMore: values.length > 100, extra: "" };
    return { completion, meta: "", extra: "" };
  }

  // Serving.

  /**
   * Also sends `console` output of handlers to their callers, if those requested that level. The output is still sent
   * to the bridge's log.
   */
  forwardConsole(): this {
    this.#current ??= forwardConsole();
    return this;
  }

  /**
   * Serves until shutdown: the bridge that launched this program, or clients at an address.
   *
   * `listen`, or `--listen` on the command line, is the address: `127.0.0.1:50051` or `unix:///run/tools.sock`. It has
   * no TLS: use a loopback address.
   */
  async run(options: { listen?: string } = {}): Promise<void> {
    this.check();
    this.#isRunning = true;
    for (const tool of this.#tools.values()) lint(tool);
    const { run } = await import("./serve.js");
    await run(this, options.listen);
  }
}

// The error of a canceled call, which is not sent. Errors of its handler are not logged, because the cancellation may
// have caused them.
const CANCELED = new StatusError(status.CANCELLED, "the caller canceled the call");

const APP_OPTIONS = [
  "title",
  "description",
  "websiteUrl",
  "icons",
  "instructions",
  "declares",
  "ttlMs",
  "cacheScope",
  "meta",
  "maxConcurrentCalls",
];
const DESCRIPTION_OPTIONS = ["title", "description", "icons", "meta"];
const TOOL_OPTIONS = [
  ...DESCRIPTION_OPTIONS,
  "input",
  "output",
  "readOnly",
  "destructive",
  "idempotent",
  "openWorld",
  "task",
  "ui",
];
const TASK_OPTIONS = ["required", "retry", "startsLater"];
const RESOURCE_OPTIONS = [
  ...DESCRIPTION_OPTIONS,
  "name",
  "mimeType",
  "size",
  "ttlMs",
  "cacheScope",
  "hints",
  "variables",
  "complete",
];
const PROMPT_OPTIONS = [...DESCRIPTION_OPTIONS, "arguments", "complete"];

// User interfaces (MCP Apps).
const UI_SCHEME = "ui://";
const UI_TYPE = "text/html;profile=mcp-app";

/** Returns the `_meta` of a tool whose results are shown in a page. */
function withUi(meta: { ui?: object } = {}, resourceUri: string): object {
  return { ...meta, ui: { ...meta.ui, resourceUri } };
}

function hasUi({ meta }: Tool): boolean {
  return meta !== "" && (JSON.parse(meta) as { ui?: { resourceUri?: unknown } }).ui?.resourceUri !== undefined;
}

/** Rejects unknown options, which JavaScript would ignore. */
function rejectUnknown(options: object, known: string[], addMistake: (what: string) => void): void {
  for (const unknown of Object.keys(options)) {
    if (!known.includes(unknown))
      addMistake(`there is no option "${unknown}"${didYouMean(unknown, known) || `; there are ${known.join(", ")}`}`);
  }
}

/** Returns the result of make, or undefined and the error. */
function attempt<T>(mistakes: string[], what: string | undefined, make: () => T): T | undefined {
  try {
    return make();
  } catch (e) {
    mistakes.push((what ? `${what}: ` : "") + (e instanceof Error ? e.message : String(e)));
    return undefined;
  }
}

/** Returns the schema of values that are text in the protocol. */
function compileTexts(shape: Shape): Compiled {
  const c = compile(shape, "input");
  rejectLists(c);
  return c;
}

/** Logs warnings about definitions. */
function lint({ message, location }: ToolEntry): void {
  if (message.description) return;
  report(
    "warn",
    `mcpbridge: ${location}: tool "${message.name}" has no description, by which models select tools; ` +
      'write { description: "..." }',
  );
}

function describe(o: Description): { title?: string; description?: string; icons: Icon[]; meta: string } {
  return {
    ...(o.title === undefined ? {} : { title: o.title }),
    ...(o.description === undefined ? {} : { description: o.description }),
    icons: iconsOf(o.icons),
    meta: objectToJson(o.meta),
  };
}

function completersOf(complete: Readonly<Record<string, Completer | undefined>> = {}): Map<string, Completer> {
  return new Map(Object.entries(complete).filter((entry): entry is [string, Completer] => entry[1] !== undefined));
}

function iconsOf(icons: (string | Icon)[] = []): Icon[] {
  return icons.map((i) => (typeof i === "string" ? { src: i, sizes: [], extra: "" } : i));
}

function executionOf({ required, retry = false, startsLater = false }: TaskOptions): ToolExecution {
  return { taskSupport: required ? "required" : "optional", retry, startsLater, extra: "" };
}

/** Returns the schema of `{"result": value}`, because structured content is an object in MCP. */
function wrapSchema(json: JsonObject): JsonObject {
  const { $defs, ...result } = json;
  return { type: "object", properties: { result }, required: ["result"], ...($defs ? { $defs } : {}) };
}

/** Converts the variables by their schemas, and reports whether they conform. */
async function conform(schemas: [string, Compiled][], variables: JsonObject): Promise<boolean> {
  for (const [name, c] of schemas) {
    const checked = await c.validate(
      Object.hasOwn(variables, name) ? fromText(c, { [name]: String(variables[name]) }) : {},
    );
    if (checked.issues) return false;
    Object.assign(variables, checked.value);
  }
  return true;
}

function cache(o: { ttlMs?: number; cacheScope?: string }): { ttlMs?: number; cacheScope: string } {
  return { ...(o.ttlMs === undefined ? {} : { ttlMs: o.ttlMs }), cacheScope: o.cacheScope ?? "" };
}

function notFound(what: string, name: string, names: Iterable<string>): StatusError {
  const queried = name.slice(0, 128); // A status is sent in the trailers, which are limited.
  return new StatusError(status.NOT_FOUND, `there is no ${what} "${queried}"${didYouMean(queried, names)}`);
}

function parse(c: Compiled, json: Uint8Array): unknown {
  try {
    return c.read(textOf(json));
  } catch (e) {
    throw new ToolError(`the arguments are not JSON: ${(e as Error).message}`);
  }
}

function isContent(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(isContent);
  return value instanceof Result || value instanceof Content;
}

async function validated(output: Compiled, value: unknown, what: string): Promise<unknown> {
  const checked = await output.validate(value);
  // A mistake of the author, not of the model.
  if (checked.issues)
    throw new TypeError(
      `${what} returned a value that violates its output schema:\n${describeIssues(checked.issues, value)}`,
    );
  return checked.value;
}

/** Throws the error for the client of a resource or prompt that failed with e. */
function rethrow(what: string, e: unknown, location: string | undefined): never {
  if (e instanceof McpError) throw e;
  if (e instanceof NotFound) throw new StatusError(status.NOT_FOUND, e.message);
  if (e instanceof ToolError) throw new McpError(-32603, e.message);
  logCrash(what, e, location);
  throw new McpError(-32603, messageOf(e));
}

/** Logs the failure of a handler, with its line and its stack. */
function logCrash(what: string, e: unknown, definition: string | undefined): void {
  const location = (e instanceof Error ? lineOf(e.stack) : undefined) ?? definition;
  report("error", `${what} failed${location ? ` at ${location}` : ""}: ${inspect(e)}`);
}

function messageOf(e: unknown): string {
  if (e instanceof Error) return e.message || e.name;
  return typeof e === "string" ? e : toJson(e);
}
