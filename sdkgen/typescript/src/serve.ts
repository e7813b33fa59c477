/** Serves an App over gRPC: to the bridge that launched it (the handshake of hashicorp/go-plugin), or at an address. */
import { X509Certificate } from "node:crypto";
import type { EventEmitter } from "node:events";
import fs, { chmodSync, chownSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import type { Http2Server } from "node:http2";
import { syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { inspect } from "node:util";

import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import {
  Metadata,
  Server,
  ServerCredentials,
  status,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type ServiceError,
} from "@grpc/grpc-js";

import { Status } from "./gen/google/rpc/status.js";
import {
  type CallContext,
  CallToolResponse,
  type ListenRequest,
  type ListenResponse,
  type McpServiceServer,
  McpServiceService,
} from "./gen/mcpbridge/v1/service.js";
import type { App } from "./app.js";
import type { Caller, Emit, Event } from "./context.js";
import { Frames, FRAMES } from "./frames.js";
import { checkContract, statusOf } from "./status.js";
import { MANAGED, report, writeHandshake } from "./stdout.js";

const PROTOCOL = "1"; // The version of the plugin protocol, the second field of the handshake.
const DRAIN = 5_000; // The time in milliseconds for calls in flight to complete at shutdown.
const MAX_MESSAGE = 64 << 20;
// HTTP/2 flow-control windows: with the default of 64 KiB, larger requests wait for window updates.
const STREAM_WINDOW = 1 << 20;
const WINDOW = 16 << 20;
const MAX_SPARE = 1 << 20; // The maximum size of a response whose encoder is reused, in bytes.
const MAX_PATH = 100; // A unix socket's path: sun_path is 104 to 108 bytes.

/** Serves app until shutdown. See App.run. */
export async function run(app: App, listen = listenArgument(process.argv.slice(2))): Promise<void> {
  process.on("unhandledRejection", (reason) => {
    report("error", `mcpbridge: unhandled rejection: ${inspect(reason)}`);
  });
  if (listen !== undefined) await serveAt(app, listen);
  else if (MANAGED) await serveBridge(app);
  else {
    const program = basename(process.argv[1] ?? "tools.js");
    const node = /\.m?ts$/.test(program) && !Reflect.get(process.features, "typescript") ? "node --import tsx" : "node";
    exit(
      2,
      `${program} is a backend for mcpbridge, which serves it to MCP clients. Run\n\n` +
        `    mcpbridge run -- ${node} ${program}\n\n` +
        `or let it wait for a bridge, or a debugger, with\n\n` +
        `    ${node} ${program} --listen 127.0.0.1:50051`,
    );
  }
  // Code after run() has half a second. Open timers and watchers must not keep the process alive.
  setTimeout(() => process.exit(), 500).unref();
}

function listenArgument(argv: string[]): string | undefined {
  for (const [i, arg] of argv.entries()) {
    if (arg.startsWith("--listen=")) return arg.slice("--listen=".length);
    if (arg === "--listen") return argv[i + 1] ?? exit(2, "--listen requires an address: host:port or unix:///path");
  }
  return undefined;
}

function exit(code: number, message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

// Two modes: the bridge launched this program, or clients connect to an address.

async function serveAt(app: App, listen: string): Promise<void> {
  const host = new Host(app);
  // The bridge's address format: tcp:host:port, unix:///path.
  let address = listen.replace(/^tcp:(\/\/)?/, "");
  const socket = /^unix:(?:\/\/)?(.*)$/.exec(address)?.[1];
  if (socket !== undefined) address = `unix:${resolve(socket)}`;
  let port: number;
  try {
    port = await host.bind(address, ServerCredentials.createInsecure());
  } catch (e) {
    exit(1, `${app.name}: cannot listen at ${listen}: ${(e as Error).message}`);
  }
  const where = socket !== undefined
    ? `unix://${resolve(socket)}`
    : `tcp:${address.replace(/:\d+$/, "")}:${String(port)}`;
  process.stderr.write(`${app.name}: listening. Serve it with: mcpbridge run ${where}\n`);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => { host.stop(); });
  await host.stopped;
  if (socket !== undefined) rmSync(socket, { force: true });
}

async function serveBridge(app: App): Promise<void> {
  const versions = process.env.PLUGIN_PROTOCOL_VERSIONS ?? PROTOCOL;
  if (!versions.split(",").some((v) => v.trim() === PROTOCOL)) {
    exit(
      1,
      `the bridge supports version ${versions} of the plugin protocol, and this SDK supports version ${PROTOCOL}: ` +
        "update one of them",
    );
  }
  const { credentials, certificate } = await tls();
  const host = new Host(app);
  const { network, address, cleanup } = await bind(host, credentials);
  process.on("exit", cleanup);
  process.on("SIGINT", () => undefined); // The terminal also sends it to the bridge, which then stops this program.
  process.on("SIGTERM", () => { host.stop(); });
  watchParent(() => {
    // No caller is left: do not drain.
    host.stop(0);
    setTimeout(() => process.exit(0), 2_000);
  });
  const fields = ["1", PROTOCOL, network, address, "grpc", certificate];
  if (process.env.PLUGIN_MULTIPLEX_GRPC) fields.push("false");
  writeHandshake(fields.join("|"));
  if (FRAMES) host.connectFrames(FRAMES);
  await host.stopped;
}

/** Binds the server. Returns the network, the address, and a cleanup function. */
async function bind(
  host: Host,
  credentials: ServerCredentials,
): Promise<{ network: string; address: string; cleanup: () => void }> {
  const directory = process.env.PLUGIN_UNIX_SOCKET_DIR;
  const noUnix = !(process.env.PLUGIN_TRANSPORTS || "unix").includes("unix");
  if (noUnix || process.platform === "win32" || Buffer.byteLength(directory ?? "") > MAX_PATH - 20) {
    const port = await host.bind("127.0.0.1:0", credentials);
    return { network: "tcp", address: `127.0.0.1:${String(port)}`, cleanup: () => undefined };
  }
  const folder = directory ?? mkdtempSync(join(tmpdir(), "mcpbridge"));
  const path = join(folder, `${String(process.pid)}.sock`);
  await host.bind(`unix:${path}`, credentials);
  const group = process.env.PLUGIN_UNIX_SOCKET_GROUP;
  if (group) {
    chownSync(path, process.getuid?.() ?? -1, groupId(group));
    chmodSync(path, 0o660);
  }
  const cleanup = () => {
    rmSync(path, { force: true });
    try {
      if (!directory) rmdirSync(folder);
    } catch {
      // It has been removed.
    }
  };
  return { network: "unix", address: path, cleanup };
}

function groupId(name: string): number {
  if (/^\d+$/.test(name)) return Number(name);
  const line = readFileSync("/etc/group", "utf8").split("\n").find((l) => l.startsWith(`${name}:`));
  return Number(line?.split(":")[2] ?? exit(1, `there is no group ${name} for the plugin's socket`));
}

/** Returns the credentials for mutual TLS, if the bridge requires it, and the certificate as in the handshake. */
async function tls(): Promise<{ credentials: ServerCredentials; certificate: string }> {
  const client = process.env.PLUGIN_CLIENT_CERT;
  if (!client) return { credentials: ServerCredentials.createInsecure(), certificate: "" };
  let pair: { key: string; cert: string };
  const file = process.env.MCPBRIDGE_KEY_PAIR;
  if (file) {
    let pem = "";
    try {
      pem = readFileSync(file, "ascii");
    } catch (e) {
      exit(1, `cannot read the key pair that the bridge made for this plugin: ${(e as Error).message}`);
    }
    const begin = pem.indexOf("-----BEGIN CERTIFICATE-----");
    if (begin < 0) exit(1, "the key pair that the bridge made for this plugin has no certificate");
    pair = { key: pem.slice(0, begin), cert: pem.slice(begin) };
  } else {
    pair = (await import("./automtls.js")).makeKeyPair();
  }
  const keys = [{ private_key: Buffer.from(pair.key), cert_chain: Buffer.from(pair.cert) }];
  const credentials = ServerCredentials.createSsl(Buffer.from(client), keys, true);
  // go-plugin expects no padding.
  const certificate = new X509Certificate(pair.cert).raw.toString("base64").replace(/=+$/, "");
  return { credentials, certificate };
}

/** Calls `onExit` when the bridge exits or is killed. */
function watchParent(onExit: () => void): void {
  if (process.env.MCP_PLUGIN_LIFELINE === "stdin") {
    const lifeline = new Socket({ fd: 0, readable: true, writable: false });
    lifeline.once("close", onExit).on("error", () => undefined).resume();
    reserveInput();
    return;
  }
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) onExit();
  }, 1_000).unref();
}

/** Standard input is reserved for the bridge: reading it throws at once, instead of blocking forever. */
function reserveInput(): void {
  Object.defineProperty(process, "stdin", { configurable: true, value: new ReservedInput() });
  for (const name of ["readFileSync", "readSync"] as const) {
    const read = fs[name] as (...args: unknown[]) => unknown;
    Object.defineProperty(fs, name, {
      value: (...args: unknown[]) => {
        if (args[0] === 0 || args[0] === "/dev/stdin") throw inputError();
        return read(...args);
      },
    });
  }
  syncBuiltinESMExports(); // For imports by name.
}

/** Replaces process.stdin. */
class ReservedInput extends Readable {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  override on(event: string | symbol, listener: (...args: any[]) => void): this {
    if (event === "data" || event === "readable") throw inputError();
    return super.on(event, listener);
  }

  override read(): never {
    throw inputError();
  }
}

function inputError(): Error {
  return new Error(
    "a tool cannot read standard input, which belongs to the bridge; ask the user: await ctx.elicit(message, schema)",
  );
}

// The services.

/** A request of the bridge. */
interface BridgeRequest {
  context?: CallContext | undefined;
}

/** Handles a call on a stream. */
type StreamHandler<Request, Response> = (
  request: Request,
  emit: Emit,
  onStart: (caller: Caller) => void,
) => Promise<Response>;

/** The gRPC server of an App. */
class Host {
  /** Resolves when the server has stopped and its calls have ended. */
  readonly stopped: Promise<void>;
  readonly #app: App;
  readonly #server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE,
    "grpc.max_send_message_length": MAX_MESSAGE,
    "grpc.enable_channelz": 0,
  });
  #frames: Frames | undefined;
  readonly #endStreams = new Set<() => void>(); // Ends endless streams.
  #stopping = false;
  #drain = Infinity;
  #deadline: NodeJS.Timeout | undefined;
  #resolve: () => void = () => undefined;

  constructor(app: App) {
    this.#app = app;
    this.stopped = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    // Without the methods of tasks, which are unimplemented: the bridge keeps the tasks of tools.
    const services: Pick<
      McpServiceServer,
      "discover" | "listTools" | "callTool" | "listResources" | "listResourceTemplates" | "readResource" | "listPrompts"
      | "getPrompt" | "complete" | "listen"
    > = {
      discover: unary(() => app.discover()),
      listTools: unary((r) => app.listTools(r)),
      callTool: streaming((r, emit, onStart) => app.callTool(r, emit, onStart)),
      listResources: unary((r) => app.listResources(r)),
      listResourceTemplates: unary((r) => app.listResourceTemplates(r)),
      readResource: streaming((r, emit, onStart) => app.readResource(r, emit, onStart)),
      listPrompts: unary((r) => app.listPrompts(r)),
      getPrompt: streaming((r, emit, onStart) => app.getPrompt(r, emit, onStart)),
      complete: unary((r, onStart) => app.complete(r, onStart)),
      listen: (call) => { this.#listen(call); },
    };
    this.#server.addService(SERVICE, services);
    this.#server.addService(HEALTH, {
      check: (call: ServerUnaryCall<Service, Health>, done: sendUnaryData<Health>) => {
        const { service } = call.request;
        const health = this.#health(service);
        if (health === undefined)
          done({ code: status.NOT_FOUND, details: `there is no service "${service.slice(0, 128)}"` });
        else done(null, health);
      },
      watch: (call: ServerWritableStream<Service, Health>) => {
        call.write(this.#health(call.request.service) ?? Health.SERVICE_UNKNOWN);
        this.#endless(call, () => {
          call.write(Health.NOT_SERVING);
          call.end();
        });
      },
    });
    // The service of go-plugin, with empty messages.
    this.#server.addService(CONTROLLER, {
      shutdown: (_call: unknown, done: sendUnaryData<Buffer>) => {
        done(null, Buffer.alloc(0));
        setImmediate(() => { this.stop(); }); // Respond first.
      },
    });
  }

  /** Returns the port. */
  bind(address: string, credentials: ServerCredentials): Promise<number> {
    enlargeWindows(this.#server);
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, credentials, (e, port) => {
        if (e) reject(e);
        else resolve(port);
      });
    });
  }

  /** Also accepts tool calls as frames, from the bridge at this address. */
  connectFrames(address: string): void {
    this.#frames = new Frames(this.#app, address, MAX_MESSAGE);
  }

  /** Waits for calls in flight, then stops the server. The shortest drain applies. */
  stop(drain = DRAIN): void {
    if (drain >= this.#drain) return;
    this.#drain = drain;
    const force = () => {
      this.#server.forceShutdown();
      this.#frames?.destroy();
      this.#resolve();
    };
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(force, drain + 200); // 200 ms more for responses in transit.
    if (this.#stopping) return;
    this.#stopping = true;
    for (const end of this.#endStreams) end();
    const start = Date.now();
    let framesOpen = this.#frames !== undefined;
    const timer = setInterval(() => {
      if ((this.#app.running || framesOpen) && Date.now() - start < this.#drain) return;
      clearInterval(timer);
      clearTimeout(this.#deadline);
      this.#deadline = setTimeout(force, 200);
    }, 20);
    this.#frames?.drain();
    // gRPC stops only after frames, because the bridge makes no new calls over gRPC after LAST.
    const served = Promise.resolve(this.#frames?.closed).then(() => {
      framesOpen = false;
      return new Promise((resolve) => { this.#server.tryShutdown(resolve); });
    });
    void served.then(() => {
      clearInterval(timer);
      clearTimeout(this.#deadline);
      this.#resolve();
    });
  }

  #health(service: string): Health | undefined {
    if (service !== "" && service !== "plugin") return undefined;
    return this.#stopping ? Health.NOT_SERVING : Health.SERVING;
  }

  /** Handles a stream that lasts until its caller disconnects or the server stops. */
  #endless(call: EventEmitter, end: () => void): void {
    if (this.#stopping) {
      end();
      return;
    }
    this.#endStreams.add(end);
    call.on("cancelled", () => this.#endStreams.delete(end));
  }

  #listen(call: ServerWritableStream<ListenRequest, ListenResponse>): void {
    try {
      checkContract(call.request);
    } catch (e) {
      call.emit("error", failure(e));
      return;
    }
    const supported = this.#app.supported(call.request.notifications);
    let writable = call.write({
      event: { $case: "acknowledged", value: { notifications: supported, meta: "", extra: "" } },
    });
    const send = () => {
      for (let next; writable && (next = listener.next()); ) writable = call.write(next);
    };
    const listener = this.#app.changes.listen(supported, send);
    call.on("drain", () => {
      writable = true;
      send();
    });
    call.on("cancelled", listener.remove);
    this.#endless(call, () => {
      listener.remove();
      call.end();
    });
  }
}

/** Enlarges the HTTP/2 windows; grpc-js has an option for clients only. */
function enlargeWindows(server: Server): void {
  const internals = server as unknown as { createHttp2Server: (credentials: ServerCredentials) => Http2Server };
  const create = internals.createHttp2Server.bind(server);
  internals.createHttp2Server = (credentials) =>
    create(credentials).on("session", (session) => {
      session.settings({ initialWindowSize: STREAM_WINDOW });
      session.setLocalWindowSize(WINDOW);
    });
}

/** Adapts a unary method. */
function unary<Request extends BridgeRequest, Response>(
  handle: (request: Request, onStart: (caller: Caller) => void) => Response | Promise<Response>,
) {
  return (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>): void => {
    const reply = async () => {
      try {
        done(
          null,
          await handle(checkContract(call.request), (caller) =>
            call.on("cancelled", () => {
              caller.cancel();
            })),
        );
      } catch (e) {
        done(failure(e));
      }
    };
    void reply();
  };
}

/** Adapts a streaming method. */
function streaming<Request extends BridgeRequest, Response>(handle: StreamHandler<Request, Response>) {
  return (call: ServerWritableStream<Request, Response>): void => {
    let cancelled = false;
    let caller: Caller | undefined;
    const waiters = new Set<() => void>();
    const resume = () => {
      for (const go of waiters) go();
      waiters.clear();
    };
    call.on("cancelled", () => {
      cancelled = true;
      resume();
      caller?.cancel();
    });
    const emit = async (event: Event) => {
      if (cancelled || call.write({ event } as Response)) return;
      if (!waiters.size) call.once("drain", resume);
      await new Promise<void>((go) => waiters.add(go));
    };
    const reply = async () => {
      try {
        const last = await handle(checkContract(call.request), emit, (c) => (caller = c));
        if (cancelled) return;
        call.write(last);
        call.end();
      } catch (e) {
        if (!cancelled) call.emit("error", failure(e));
      }
    };
    void reply();
  };
}

function failure(e: unknown): Partial<ServiceError> {
  const s = statusOf(e);
  const metadata = new Metadata();
  if (s.details.length) metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(s).finish()));
  return { code: s.code, details: s.message, metadata };
}

// Responses can be large: a shared encoder keeps its buffer, and grpc-js makes the only copy.
let encoder = new BinaryWriter();

function serialize(response: CallToolResponse): Buffer {
  const w = encoder;
  encoder = new BinaryWriter(); // If encoding fails, the encoder has a partial response.
  const bytes = CallToolResponse.encode(response, w).finish();
  if (bytes.length <= MAX_SPARE) encoder = w;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const SERVICE = { ...McpServiceService, callTool: { ...McpServiceService.callTool, responseSerialize: serialize } };

// grpc.health.v1.Health: a request is one string, and a response one number.

interface Service {
  service: string;
}

enum Health {
  SERVING = 1,
  NOT_SERVING = 2,
  SERVICE_UNKNOWN = 3,
}

const health = {
  requestStream: false,
  requestSerialize: ({ service }: Service) => Buffer.from(new BinaryWriter().uint32(10).string(service).finish()),
  // An object, because grpc-js treats an empty string as no request.
  requestDeserialize: (bytes: Buffer): Service => {
    const r = new BinaryReader(bytes);
    let service = "";
    while (r.pos < r.len) {
      const [field, type] = r.tag();
      if (field === 1) service = r.string();
      else r.skip(type);
    }
    return { service };
  },
  responseSerialize: (is: Health) => Buffer.from([8, is]),
  responseDeserialize: (bytes: Buffer): number => bytes[1] ?? 0, // For clients only; not used.
};
const identity = (bytes: Buffer) => bytes;

const HEALTH: ServiceDefinition = {
  check: { path: "/grpc.health.v1.Health/Check", responseStream: false, ...health },
  watch: { path: "/grpc.health.v1.Health/Watch", responseStream: true, ...health },
};
const CONTROLLER: ServiceDefinition = {
  shutdown: {
    path: "/plugin.GRPCController/Shutdown",
    requestStream: false,
    responseStream: false,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  },
};
