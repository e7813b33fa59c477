/** Serves an App over gRPC: to the bridge that started us (hashicorp/go-plugin's handshake), or at an address. */
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

import { CallToolResponse, McpServiceService, type ListenRequest, type ListenResponse, type McpServiceServer } from "./gen/mcpbridge/v1/service.js";
import type { App } from "./app.js";
import type { Caller, Emit, Event } from "./context.js";
import { Frames, FRAMES } from "./frames.js";
import { NOTHING } from "./json.js";
import { encodeStatus, statusOf } from "./status.js";
import { MANAGED, report, writeHandshake } from "./stdout.js";

const PROTOCOL = "1"; // Of the handshake's second field: the contract's major version.
const DRAIN = 5_000; // Milliseconds that calls get to finish when we are told to stop.
const MAX_MESSAGE = 64 << 20;
// How much of a request, and of all of them, may be on its way to us: with HTTP/2's 64 KiB a larger request waits for our word.
const STREAM_WINDOW = 1 << 20;
const WINDOW = 16 << 20;
const MAX_SPARE = 1 << 20; // Bytes of the answers whose encoder is used again.
const MAX_PATH = 100; // A unix socket's path: sun_path is 104 to 108 bytes.

/** Serves app until it is told to stop. See App.run. */
export async function run(app: App, listen = listenArgument(process.argv.slice(2))): Promise<void> {
  process.on("unhandledRejection", (reason) => {
    report("error", `mcpbridge: nobody waited for this error: ${inspect(reason)}`);
  });
  if (listen !== undefined) await attached(app, listen);
  else if (MANAGED) await managed(app);
  else {
    const program = basename(process.argv[1] ?? "tools.js");
    const node = /\.m?ts$/.test(program) && !Reflect.get(process.features, "typescript") ? "node --import tsx" : "node";
    exit(
      2,
      `${program} is a backend for mcpbridge, which speaks MCP for it. Run\n\n` +
        `    mcpbridge run -- ${node} ${program}\n\n` +
        `or let it wait for a bridge, or a debugger, with\n\n` +
        `    ${node} ${program} --listen 127.0.0.1:50051`,
    );
  }
  // What the author does after run() gets a moment; timers and watchers that nobody closes do not keep us.
  setTimeout(() => process.exit(), 500).unref();
}

function listenArgument(argv: string[]): string | undefined {
  for (const [i, arg] of argv.entries()) {
    if (arg.startsWith("--listen=")) return arg.slice("--listen=".length);
    if (arg === "--listen") return argv[i + 1] ?? exit(2, "--listen wants an address: host:port or unix:///path");
  }
  return undefined;
}

function exit(code: number, message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

// The two modes.

async function attached(app: App, listen: string): Promise<void> {
  const host = new Host(app);
  // The same words as the bridge's: tcp:host:port, unix:///path.
  let address = listen.replace(/^tcp:(\/\/)?/, "");
  const socket = /^unix:(?:\/\/)?(.*)$/.exec(address)?.[1];
  if (socket !== undefined) address = `unix:${resolve(socket)}`;
  let port: number;
  try {
    port = await host.bind(address, ServerCredentials.createInsecure());
  } catch (e) {
    exit(1, `${app.name}: cannot listen at ${listen}: ${(e as Error).message}`);
  }
  const where = socket !== undefined ? `unix://${resolve(socket)}` : `tcp:${address.replace(/:\d+$/, "")}:${String(port)}`;
  process.stderr.write(`${app.name}: listening. Serve it with: mcpbridge run ${where}\n`);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => { host.stop(); });
  await host.stopped;
  if (socket !== undefined) rmSync(socket, { force: true });
}

async function managed(app: App): Promise<void> {
  const offered = process.env.PLUGIN_PROTOCOL_VERSIONS ?? PROTOCOL;
  if (!offered.split(",").some((v) => v.trim() === PROTOCOL)) {
    exit(1, `the bridge speaks version ${offered} of the plugin contract and this SDK ${PROTOCOL}: upgrade one of them`);
  }
  const { credentials, certificate } = await tls();
  const host = new Host(app);
  const { network, address, tidy } = await bind(host, credentials);
  process.on("exit", tidy);
  process.on("SIGINT", () => undefined); // The terminal sends it to the bridge too, which then tells us.
  process.on("SIGTERM", () => { host.stop(); });
  watchParent(() => {
    // There is nobody to answer to: no drain.
    host.stop(0);
    setTimeout(() => process.exit(0), 2_000);
  });
  const fields = ["1", PROTOCOL, network, address, "grpc", certificate];
  if (process.env.PLUGIN_MULTIPLEX_GRPC) fields.push("false");
  writeHandshake(fields.join("|"));
  if (FRAMES) host.takeFrames(FRAMES);
  await host.stopped;
}

/** Binds the server. Returns the network, the address, and what removes the traces. */
async function bind(host: Host, credentials: ServerCredentials): Promise<{ network: string; address: string; tidy: () => void }> {
  const given = process.env.PLUGIN_UNIX_SOCKET_DIR;
  const noUnix = !(process.env.PLUGIN_TRANSPORTS || "unix").includes("unix");
  if (noUnix || process.platform === "win32" || Buffer.byteLength(given ?? "") > MAX_PATH - 20) {
    const port = await host.bind("127.0.0.1:0", credentials);
    return { network: "tcp", address: `127.0.0.1:${String(port)}`, tidy: () => undefined };
  }
  const folder = given ?? mkdtempSync(join(tmpdir(), "mcpbridge"));
  const path = join(folder, `${String(process.pid)}.sock`);
  await host.bind(`unix:${path}`, credentials);
  const group = process.env.PLUGIN_UNIX_SOCKET_GROUP;
  if (group) {
    chownSync(path, process.getuid?.() ?? -1, groupId(group));
    chmodSync(path, 0o660);
  }
  const tidy = () => {
    rmSync(path, { force: true });
    try {
      if (!given) rmdirSync(folder);
    } catch {
      // It is gone already.
    }
  };
  return { network: "unix", address: path, tidy };
}

function groupId(name: string): number {
  if (/^\d+$/.test(name)) return Number(name);
  const line = readFileSync("/etc/group", "utf8").split("\n").find((l) => l.startsWith(`${name}:`));
  return Number(line?.split(":")[2] ?? exit(1, `there is no group ${name} for the plugin's socket`));
}

/** Mutual TLS if the bridge wants it: our credentials, and our certificate as the handshake says it. */
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
  // go-plugin reads it without padding: with padding it works or fails by the certificate's length.
  const certificate = new X509Certificate(pair.cert).raw.toString("base64").replace(/=+$/, "");
  return { credentials, certificate };
}

/** Calls gone when the bridge is, however it went. */
function watchParent(gone: () => void): void {
  if (process.env.MCP_PLUGIN_LIFELINE === "stdin") {
    const lifeline = new Socket({ fd: 0, readable: true, writable: false });
    lifeline.once("close", gone).on("error", () => undefined).resume();
    refuseInput();
    return;
  }
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) gone();
  }, 1_000).unref();
}

/** Standard input belongs to the bridge: reading it throws in the line that does, rather than wait for what never comes. */
function refuseInput(): void {
  Object.defineProperty(process, "stdin", { configurable: true, value: new NoInput() });
  for (const name of ["readFileSync", "readSync"] as const) {
    const read = fs[name] as (...args: unknown[]) => unknown;
    Object.defineProperty(fs, name, {
      value: (...args: unknown[]) => {
        if (args[0] === 0 || args[0] === "/dev/stdin") throw noInput();
        return read(...args);
      },
    });
  }
  syncBuiltinESMExports(); // For those who import them by name.
}

/** What process.stdin is then. */
class NoInput extends Readable {
  override on(event: string | symbol, listener: (...args: any[]) => void): this { // eslint-disable-line @typescript-eslint/no-explicit-any
    if (event === "data" || event === "readable") throw noInput();
    return super.on(event, listener);
  }

  override read(): never {
    throw noInput();
  }
}

function noInput(): Error {
  return new Error("a tool cannot read standard input, which belongs to the bridge; ask the user: await ctx.elicit(message, schema)");
}

// The services.

/** What answers a call that comes in on a stream. */
type Answer<Request, Response> = (request: Request, emit: Emit, started: (caller: Caller) => void) => Promise<Response>;

/** A gRPC server of one App. */
class Host {
  /** Resolves when the server has been stopped and its calls are over. */
  readonly stopped: Promise<void>;
  readonly #app: App;
  readonly #server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE,
    "grpc.max_send_message_length": MAX_MESSAGE,
    "grpc.enable_channelz": 0,
  });
  #frames: Frames | undefined;
  readonly #atStop = new Set<() => void>(); // The ends of the streams without an end.
  #stopping = false;
  #drain = Infinity;
  #deadline: NodeJS.Timeout | undefined;
  #resolve: () => void = () => undefined;

  constructor(app: App) {
    this.#app = app;
    this.stopped = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    const services: McpServiceServer = {
      discover: unary(() => app.discover()),
      listTools: unary((r) => app.listTools(r)),
      callTool: streaming((r, emit, started) => app.callTool(r, emit, started)),
      listResources: unary((r) => app.listResources(r)),
      listResourceTemplates: unary((r) => app.listResourceTemplates(r)),
      readResource: streaming((r, emit, started) => app.readResource(r, emit, started)),
      listPrompts: unary((r) => app.listPrompts(r)),
      getPrompt: streaming((r, emit, started) => app.getPrompt(r, emit, started)),
      complete: unary((r, started) => app.complete(r, started)),
      listen: (call) => { this.#listen(call); },
    };
    this.#server.addService(SERVICE, services);
    this.#server.addService(HEALTH, {
      check: (call: ServerUnaryCall<Service, Health>, done: sendUnaryData<Health>) => {
        const { service } = call.request;
        const health = this.#health(service);
        if (health === undefined) done({ code: status.NOT_FOUND, details: `there is no service "${service.slice(0, 128)}"` });
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
    // go-plugin's. Its messages are empty.
    this.#server.addService(CONTROLLER, {
      shutdown: (_call: unknown, done: sendUnaryData<Buffer>) => {
        done(null, NOTHING);
        setImmediate(() => { this.stop(); }); // the answer goes first
      },
    });
  }

  /** Returns the port. */
  bind(address: string, credentials: ServerCredentials): Promise<number> {
    widen(this.#server);
    return new Promise((resolve, reject) => {
      this.#server.bindAsync(address, credentials, (e, port) => {
        if (e) reject(e);
        else resolve(port);
      });
    });
  }

  /** Takes calls of tools as frames, too, at the address where the bridge waits for us. */
  takeFrames(address: string): void {
    this.#frames = new Frames(this.#app, address, MAX_MESSAGE);
  }

  /** Lets the calls finish, and then ends the server. A shorter drain than before counts. */
  stop(drain = DRAIN): void {
    if (drain >= this.#drain) return;
    this.#drain = drain;
    const force = () => {
      this.#server.forceShutdown();
      this.#frames?.destroy();
      this.#resolve();
    };
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(force, drain + 200); // Answers on their way get a moment more.
    if (this.#stopping) return;
    this.#stopping = true;
    for (const end of this.#atStop) end();
    const began = Date.now();
    let framed = this.#frames !== undefined;
    const look = setInterval(() => {
      if ((this.#app.running || framed) && Date.now() - began < this.#drain) return;
      clearInterval(look);
      clearTimeout(this.#deadline);
      this.#deadline = setTimeout(force, 200);
    }, 20);
    this.#frames?.drain();
    // Only then: as soon as it knows, the bridge makes no calls over gRPC, either.
    const served = Promise.resolve(this.#frames?.over).then(() => {
      framed = false;
      return new Promise((resolve) => { this.#server.tryShutdown(resolve); });
    });
    void served.then(() => {
      clearInterval(look);
      clearTimeout(this.#deadline);
      this.#resolve();
    });
  }

  #health(service: string): Health | undefined {
    if (service !== "" && service !== "plugin") return undefined;
    return this.#stopping ? Health.NOT_SERVING : Health.SERVING;
  }

  /** A stream that lasts until its caller leaves or we stop. */
  #endless(call: EventEmitter, end: () => void): void {
    if (this.#stopping) {
      end();
      return;
    }
    this.#atStop.add(end);
    call.on("cancelled", () => this.#atStop.delete(end));
  }

  #listen(call: ServerWritableStream<ListenRequest, ListenResponse>): void {
    const told = this.#app.canTell(call.request.notifications);
    let room = call.write({ event: { $case: "acknowledged", value: { notifications: told, meta: NOTHING, extra: NOTHING } } });
    const tell = () => {
      for (let next; room && (next = listener.next()); ) room = call.write(next);
    };
    const listener = this.#app.changes.listen(told, tell);
    call.on("drain", () => {
      room = true;
      tell();
    });
    call.on("cancelled", listener.forget);
    this.#endless(call, () => {
      listener.forget();
      call.end();
    });
  }
}

/** Widens the windows of HTTP/2, for which grpc-js has an option for clients only. */
function widen(server: Server): void {
  const inside = server as unknown as { createHttp2Server: (credentials: ServerCredentials) => Http2Server };
  const create = inside.createHttp2Server.bind(server);
  inside.createHttp2Server = (credentials) =>
    create(credentials).on("session", (session) => {
      session.settings({ initialWindowSize: STREAM_WINDOW });
      session.setLocalWindowSize(WINDOW);
    });
}

/** A method with one answer. */
function unary<Request, Response>(answer: (request: Request, started: (caller: Caller) => void) => Response | Promise<Response>) {
  return (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>): void => {
    const reply = async () => {
      try {
        done(null, await answer(call.request, (caller) => call.on("cancelled", () => { caller.cancel(); })));
      } catch (e) {
        done(failure(e));
      }
    };
    void reply();
  };
}

/** A method that streams events, the last of which is the answer. */
function streaming<Request, Response>(answer: Answer<Request, Response>) {
  return (call: ServerWritableStream<Request, Response>): void => {
    let cancelled = false;
    let caller: Caller | undefined;
    const waiting = new Set<() => void>();
    const flow = () => {
      for (const go of waiting) go();
      waiting.clear();
    };
    call.on("cancelled", () => {
      cancelled = true;
      flow();
      caller?.cancel();
    });
    const emit = async (event: Event) => {
      if (cancelled || call.write({ event } as Response)) return;
      if (!waiting.size) call.once("drain", flow);
      await new Promise<void>((go) => waiting.add(go));
    };
    const reply = async () => {
      try {
        const last = await answer(call.request, emit, (c) => (caller = c));
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
  if (s.detail) metadata.set("grpc-status-details-bin", Buffer.from(encodeStatus(s).finish()));
  return { code: s.code, details: s.message, metadata };
}

// What tools answer can be large: one encoder for all keeps its room, and grpc-js makes the only copy.
let encoder = new BinaryWriter();

function serialize(response: CallToolResponse): Buffer {
  const w = encoder;
  encoder = new BinaryWriter(); // If this one fails, half an answer is in it.
  const bytes = CallToolResponse.encode(response, w).finish();
  if (bytes.length <= MAX_SPARE) encoder = w;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const SERVICE = { ...McpServiceService, callTool: { ...McpServiceService.callTool, responseSerialize: serialize } };

// grpc.health.v1.Health, of which a request is one string and an answer one number.

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
  // An object, as grpc-js takes an empty string for no request.
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
  responseDeserialize: (bytes: Buffer): number => bytes[1] ?? 0, // A client's, of which there is none here.
};
const same = (bytes: Buffer) => bytes;

const HEALTH: ServiceDefinition = {
  check: { path: "/grpc.health.v1.Health/Check", responseStream: false, ...health },
  watch: { path: "/grpc.health.v1.Health/Watch", responseStream: true, ...health },
};
const CONTROLLER: ServiceDefinition = {
  shutdown: {
    path: "/plugin.GRPCController/Shutdown",
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  },
};
