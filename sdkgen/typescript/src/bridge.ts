/**
 * Starts a backend behind the real bridge, and a client for it, in a test:
 *
 *     await using client = await start(["node", "tools.js"]);
 *     expect(await client.call("add", { a: 1, b: 2 })).toBe("3");
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

import type { JsonObject } from "./json.js";

// The time that a test waits for one message, in milliseconds.
const TIMEOUT = 30_000;

const METHOD_NOT_FOUND = -32601;

export interface StartOptions {
  /** The program of the bridge. If empty, MCPBRIDGE_BIN, or `mcpbridge` in PATH. */
  bridge?: string;
  /** Returns the result of a server's request, such as "elicitation/create". If not set, such requests fail. */
  answer?: (method: string, params: JsonObject) => unknown;
  /** The working directory of the backend. */
  cwd?: string;
}

/** A JSON-RPC message. */
export interface Message {
  id?: number | string;
  method?: string;
  params?: JsonObject;
  result?: JsonObject;
  error?: { code: number; message: string; data?: unknown };
}

/**
 * Runs a command behind the bridge and connects to it as a client of 2025-11-25 with all capabilities. Waits for the
 * backend with a list request, because the bridge responds to initialize while the backend starts.
 */
export async function start(command: string[], options: StartOptions = {}): Promise<Client> {
  const client = new Client(command, options);
  try {
    await client.request("initialize", {
      protocolVersion: "2025-11-25",
      clientInfo: { name: "mcpbridge/testing", version: "1" },
      capabilities: { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} },
    });
    client.notify("notifications/initialized");
    await client.request("tools/list").catch((e: unknown) => {
      if ((e as { code?: number }).code !== METHOD_NOT_FOUND) throw e;
    });
  } catch (e) {
    throw (await client.close()) === 0
      ? e
      : new Error(`the bridge has exited; its output:\n${client.log}`, { cause: e });
  }
  return client;
}

/** An MCP client of a program behind the real bridge, over stdio. */
export class Client {
  /** Notifications that have not been read. */
  readonly notifications: Message[] = [];
  /** The output of the bridge and the backend on stderr. */
  log = "";
  readonly #process: ChildProcess;
  readonly #answer: StartOptions["answer"];
  readonly #exited: Promise<number | null>;
  readonly #pending = new Map<number | string, (m: Message) => void>();
  readonly #notified = new Set<() => void>();
  #id = 0;

  constructor(command: string[], options: StartOptions) {
    this.#answer = options.answer;
    const bridge = options.bridge ?? process.env.MCPBRIDGE_BIN ?? "mcpbridge";
    this.#process = spawn(bridge, ["run", "--stdio", "--", ...command], {
      stdio: ["pipe", "pipe", "pipe"],
      cwd: options.cwd,
    });
    this.#process.stdin?.on("error", () => undefined);
    this.#process.stderr?.setEncoding("utf8").on("data", (text: string) => (this.log += text));
    const lines = createInterface({ input: this.#process.stdout ?? process.stdin });
    lines.on("line", (line) => void this.#receive(JSON.parse(line) as Message));
    this.#exited = new Promise((resolve) => {
      const end = (why: string, code: number | null) => {
        for (const done of this.#pending.values())
          done({ error: { code: 0, message: `${why}; its output:\n${this.log}` } });
        resolve(code);
      };
      this.#process.once("error", (e) => end(`the bridge did not start: ${e.message}`, 0));
      this.#process.once("close", (code) => end("the bridge has exited", code));
    });
  }

  /** Sends a notification. */
  notify(method: string, params: object = {}): void {
    this.#send({ method, params });
  }

  /** Sends a request and returns its result. A JSON-RPC error is thrown, with `code` and `data`. */
  async request(method: string, params: object = {}): Promise<JsonObject> {
    const id = ++this.#id;
    const answer = new Promise<Message>((resolve) => this.#pending.set(id, resolve));
    this.#send({ id, method, params });
    const { result, error } = await within(answer, `an answer to ${method}`);
    this.#pending.delete(id);
    if (error) throw Object.assign(new Error(error.message), { code: error.code, data: error.data });
    return result ?? {};
  }

  /** Calls a tool and returns the text of its result. */
  async call(name: string, args: object = {}): Promise<string> {
    const result = await this.request("tools/call", { name, arguments: args, _meta: { progressToken: this.#id } });
    return (result.content as { text?: string }[]).map((block) => block.text ?? "").join("");
  }

  /** Returns the next notification of a method, or a previous unread one. */
  async notification(method: string): Promise<Message> {
    for (;;) {
      const i = this.notifications.findIndex((m) => m.method === method);
      const [found] = i < 0 ? [] : this.notifications.splice(i, 1);
      if (found) return found;
      await within(new Promise<void>((resolve) => this.#notified.add(resolve)), method);
    }
  }

  /** Stops the bridge and the backend gracefully, and returns the bridge's exit code. */
  async close(): Promise<number | null> {
    this.#process.stdin?.end(); // Closing stdin stops a stdio server.
    return this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #receive(m: Message): Promise<void> {
    if (m.method === undefined) {
      this.#pending.get(m.id ?? "")?.(m);
    } else if (m.id === undefined) {
      this.notifications.push(m);
      for (const resume of this.#notified) resume();
      this.#notified.clear();
    } else if (this.#answer) {
      this.#send({ id: m.id, result: await this.#answer(m.method, m.params ?? {}) });
    } else {
      this.#send({ id: m.id, error: { code: -1, message: "the test has no answer" } });
    }
  }

  #send(m: object): void {
    this.#process.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...m })}\n`);
  }
}

async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not arrive within ${TIMEOUT / 1000} s`)), TIMEOUT);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
