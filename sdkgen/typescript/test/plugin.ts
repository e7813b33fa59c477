/** Starts, calls and stops a plugin process as the bridge does. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { credentials, makeGenericClientConstructor, Metadata, type ServiceError } from "@grpc/grpc-js";

import { makeKeyPair } from "../src/automtls.js";
import { EVERYTHING } from "../src/testing.js";
import { CallToolRequest, McpServiceClient, type CallContext, type CallToolResponse } from "../src/v1.js";

export const COOKIE = { MCPBRIDGE_PLUGIN: "mcpbridge.v1", PLUGIN_PROTOCOL_VERSIONS: "1" };
const TOOLS = fileURLToPath(new URL("tools.mjs", import.meta.url));

export interface PluginOptions {
  tls?: "ours" | "its own" | "none";
  lifeline?: boolean;
  env?: Record<string, string>;
  args?: string[];
}

export class Plugin {
  readonly folder = mkdtempSync(join(tmpdir(), "mcpb"));
  readonly process: ChildProcess;
  readonly exited: Promise<number | string>;
  readonly client = makeKeyPair();
  stdout = "";
  stderr = "";
  readonly #waiting = new Set<() => void>();

  constructor(o: PluginOptions = {}) {
    const env: Record<string, string> = { PATH: process.env.PATH ?? "", PLUGIN_UNIX_SOCKET_DIR: this.folder, ...o.env };
    if (o.lifeline ?? true) env.MCP_PLUGIN_LIFELINE = "stdin";
    if (o.tls !== "none" && !o.args) env.PLUGIN_CLIENT_CERT = this.client.cert;
    if (o.tls === "ours") {
      env.MCPBRIDGE_KEY_PAIR = join(this.folder, "pair.pem");
      const pair = makeKeyPair();
      writeFileSync(env.MCPBRIDGE_KEY_PAIR, pair.key + pair.cert);
    }
    this.process = spawn(process.execPath, [TOOLS, ...(o.args ?? [])], { env, stdio: ["pipe", "pipe", "pipe"] });
    this.process.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      this.#wake();
    });
    this.process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.#wake();
    });
    this.exited = new Promise((resolve) =>
      this.process.once("close", (code, signal) => {
        resolve(code ?? signal ?? "");
        this.#wake();
      })
    );
  }

  /** Waits until `look` returns a value for the output of the process. */
  async find<T>(look: () => T | undefined | null | false): Promise<T> {
    for (;;) {
      const found = look();
      if (found) return found;
      if (this.process.exitCode !== null || this.process.signalCode !== null) {
        throw new Error(`the process ended; it wrote\n${this.stdout}\n${this.stderr}`);
      }
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  #wake(): void {
    for (const go of this.#waiting) go();
    this.#waiting.clear();
  }

  /** Returns the fields of the handshake. */
  async handshake(): Promise<string[]> {
    const line = await this.find(() => /^1\|.*(?=\n)/m.exec(this.stdout)?.[0]);
    return line.split("|");
  }

  /** Returns a client with the credentials of the handshake. */
  async connect(): Promise<Client> {
    const [, , network, address = "", , certificate] = await this.handshake();
    const secure = certificate
      ? credentials.createSsl(
        Buffer.from(pem(certificate)),
        Buffer.from(this.client.key),
        Buffer.from(this.client.cert),
      )
      : credentials.createInsecure();
    return new Client(network === "unix" ? `unix:${address}` : address, secure);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null) this.process.kill("SIGKILL");
    await this.exited;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function pem(base64: string): string {
  const padded = base64.padEnd(Math.ceil(base64.length / 4) * 4, "=");
  return `-----BEGIN CERTIFICATE-----\n${padded.replace(/.{1,64}/g, "$&\n")}-----END CERTIFICATE-----\n`;
}

const raw = {
  requestStream: false,
  responseStream: false,
  requestSerialize: (b: Buffer) => b,
  requestDeserialize: (b: Buffer) => b,
  responseSerialize: (b: Buffer) => b,
  responseDeserialize: (b: Buffer) => b,
};
const Other = makeGenericClientConstructor(
  {
    check: { path: "/grpc.health.v1.Health/Check", ...raw },
    watch: { path: "/grpc.health.v1.Health/Watch", ...raw, responseStream: true },
    shutdown: { path: "/plugin.GRPCController/Shutdown", ...raw },
  },
  "other",
);

export interface Called {
  events: NonNullable<CallToolResponse["event"]>[];
  error?: ServiceError;
}

export class Client {
  readonly mcp: McpServiceClient;
  readonly #other: InstanceType<typeof Other>;

  constructor(address: string, secure: ReturnType<typeof credentials.createInsecure>) {
    const options = {
      "grpc.default_authority": "localhost",
      "grpc.ssl_target_name_override": "localhost",
      "grpc.max_receive_message_length": -1,
    };
    this.mcp = new McpServiceClient(address, secure, options);
    this.#other = new Other(address, secure, options);
  }

  call(name: string, args: object = {}, context: CallContext = EVERYTHING): Promise<Called> {
    return this.round(CallToolRequest.fromPartial({ context, name, arguments: Buffer.from(JSON.stringify(args)) }));
  }

  /** Starts a call, and returns after its first event. */
  async begin(name: string, args: object, cancel?: AbortSignal): Promise<{ done: Promise<Called> }> {
    const request = CallToolRequest.fromPartial({
      context: EVERYTHING,
      name,
      arguments: Buffer.from(JSON.stringify(args)),
    });
    return await new Promise((resolve) => {
      const done: Promise<Called> = this.round(request, cancel, () => { resolve({ done }); });
    });
  }

  /** Makes one round of a call, and returns all its events. */
  round(request: CallToolRequest, cancel?: AbortSignal, onEvent?: () => void): Promise<Called> {
    return new Promise((resolve) => {
      const called: Called = { events: [] };
      const stream = this.mcp.callTool(request);
      cancel?.addEventListener("abort", () => { stream.cancel(); });
      stream.on("data", (r: CallToolResponse) => {
        if (r.event) called.events.push(r.event);
        onEvent?.();
      });
      stream.on("error", (e: ServiceError) => (called.error = e));
      stream.on("status", () => setImmediate(() => { resolve(called); }));
    });
  }

  async text(name: string, args: object = {}): Promise<string> {
    const { events, error } = await this.call(name, args);
    const last = events.at(-1);
    if (last?.$case !== "result") throw error ?? new Error("no result");
    return last.value.content.map(({ block }) => (block?.$case === "text" ? block.value.text : "")).join("\n");
  }

  unary<R>(method: "discover" | "listTools" | "listPrompts" | "complete", request: object): Promise<R> {
    return new Promise((resolve, reject) => {
      (this.mcp[method] as unknown as (r: object, done: (e: Error | null, r: R) => void) => void).call(
        this.mcp,
        request,
        (e, r) => {
          if (e) reject(e);
          else resolve(r);
        },
      );
    });
  }

  other(method: "check" | "shutdown", request = Buffer.alloc(0)): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const m = this.#other[method] as (r: Buffer, meta: Metadata, done: (e: Error | null, r: Buffer) => void) => void;
      m.call(this.#other, request, new Metadata(), (e, r) => { if (e) reject(e); else resolve(r); });
    });
  }

  close(): void {
    this.mcp.close();
    this.#other.close();
  }
}
