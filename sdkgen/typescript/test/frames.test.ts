/** A real process that receives tool calls as frames from a socket, and other calls over gRPC. */
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { EVERYTHING } from "../src/testing.js";
import {
  CallToolRequest,
  CallToolResponse,
  type InputRequired,
  InputResponse,
  JsonRpcError,
  Status,
} from "../src/v1.js";
import { type Client, COOKIE, Plugin } from "./plugin.js";

// From proto/mcpbridge/v1/frames.md, independently of the SDK.
const [CALL, CANCEL, TAKEN, HELLO, EVENT, RESULT, ERROR, LAST] = [1, 2, 3, 16, 17, 18, 19, 20];
const UNREAD = 64;
const LIMIT = 64 << 20;
const NONE = Buffer.alloc(0);

interface Frame {
  kind: number;
  payload: Buffer;
}

interface End {
  events: NonNullable<CallToolResponse["event"]>[];
  kind: number;
  payload: Buffer;
}

function frame(kind: number, id: number, payload: Uint8Array = NONE): Buffer {
  const header = Buffer.alloc(9);
  header.writeUInt32BE(payload.length);
  header.writeUInt32BE(id, 4);
  header[8] = kind;
  return Buffer.concat([header, payload]);
}

function request(name: string, args: object = {}): Uint8Array {
  return CallToolRequest.encode(
    CallToolRequest.fromPartial({ context: EVERYTHING, name, arguments: Buffer.from(JSON.stringify(args)) }),
  ).finish();
}

/** The frames of one call, in order. */
class FrameQueue {
  readonly frames: Frame[] = [];
  #wake: () => void = () => undefined;

  add(f: Frame): void {
    this.frames.push(f);
    this.#wake();
  }

  async next(): Promise<Frame> {
    for (;;) {
      const f = this.frames.shift();
      if (f) return f;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

/** The bridge's end: a socket in its own directory, and the frames of each call. */
class Bridge {
  readonly folder = mkdtempSync(join(tmpdir(), "mcpf"));
  readonly path = join(this.folder, "frames.sock");
  readonly closed: Promise<void>;
  socket!: Socket;
  /** The last call that a draining plugin accepted. */
  readonly drained: Promise<number>;
  readonly #server: Server;
  readonly #accepted: Promise<unknown>;
  readonly #queues = new Map<number, FrameQueue>();
  #id = 0;
  #end: () => void = () => undefined;
  #drain: (id: number) => void = () => undefined;

  constructor() {
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true }).listen(this.path);
    this.#accepted = once(this.#server, "connection");
    this.closed = new Promise((resolve) => (this.#end = resolve));
    this.drained = new Promise((resolve) => (this.#drain = resolve));
  }

  start(): Plugin {
    return new Plugin({ tls: "none", env: { ...COOKIE, MCPBRIDGE_FRAMES: `unix:${this.path}` } });
  }

  /** Waits for the plugin's connection, and reads nothing. */
  async accept(): Promise<void> {
    [this.socket] = (await this.#accepted) as [Socket];
    this.socket.on("error", () => undefined).on("close", this.#end);
    this.socket.on("end", () => this.socket.end());
  }

  /** Reads the frames of the plugin, HELLO first. */
  async read(): Promise<void> {
    let rest: Buffer[] = [];
    let size = 0;
    let needed = 9;
    this.socket.on("data", (data) => {
      rest.push(data);
      size += data.length;
      if (size < needed) return;
      let all = Buffer.concat(rest);
      for (needed = 9; all.length >= 9; needed = 9) {
        const length = all.readUInt32BE();
        if (all.length < (needed = 9 + length)) break;
        if (all[8] === LAST) this.#drain(all.readUInt32BE(4));
        else this.framesOf(all.readUInt32BE(4)).add({ kind: all[8] ?? 0, payload: all.subarray(9, needed) });
        all = all.subarray(needed);
      }
      rest = [all];
      size = all.length;
    });
    this.socket.resume();
    expect(await this.framesOf(0).next()).toEqual({ kind: HELLO, payload: Buffer.from([1]) });
  }

  framesOf(id: number): FrameQueue {
    let queue = this.#queues.get(id);
    if (!queue) this.#queues.set(id, (queue = new FrameQueue()));
    return queue;
  }

  /** The ids of calls with frames besides the final one. */
  get unfinished(): number[] {
    return [...this.#queues].filter(([, queue]) => queue.frames.length).map(([id]) => id);
  }

  sendFrame(kind: number, id: number, payload: Uint8Array = NONE): void {
    this.socket.write(frame(kind, id, payload));
  }

  call(name: string, args: object = {}): number {
    this.sendFrame(CALL, ++this.#id, request(name, args));
    return this.#id;
  }

  async event(id: number): Promise<CallToolResponse> {
    const { kind, payload } = await this.framesOf(id).next();
    expect(kind).toBe(EVENT);
    return CallToolResponse.decode(payload);
  }

  /** Returns the frames of a call until it ends, and acknowledges its events. */
  async end(id: number): Promise<End> {
    const events: End["events"] = [];
    for (;;) {
      const { kind, payload } = await this.framesOf(id).next();
      if (kind !== EVENT) return { events, kind, payload };
      this.sendFrame(TAKEN, id);
      const { event } = CallToolResponse.decode(payload);
      if (event) events.push(event);
    }
  }

  async last(id: number): Promise<NonNullable<CallToolResponse["event"]>> {
    const { kind, payload } = await this.end(id);
    if (kind !== RESULT) throw new Error(`call ${id} ended by ${kind}: ${payload.toString("latin1")}`);
    const { event } = CallToolResponse.decode(payload);
    if (!event) throw new Error("an empty result");
    return event;
  }

  async textOf(id: number): Promise<string> {
    const last = await this.last(id);
    if (last.$case !== "result") throw new Error(`it ended with ${last.$case}`);
    return last.value.content.map(({ block }) => (block?.$case === "text" ? block.value.text : "")).join("\n");
  }

  text(name: string, args: object = {}): Promise<string> {
    return this.textOf(this.call(name, args));
  }

  async error(id: number): Promise<Status> {
    const { kind, payload } = await this.end(id);
    expect(kind).toBe(ERROR);
    return Status.decode(payload);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    (this.socket as Socket | undefined)?.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A connected plugin, and the resources to dispose of. */
async function connected(): Promise<{ bridge: Bridge; plugin: Plugin; client: Client } & AsyncDisposable> {
  const bridge = new Bridge();
  const plugin = bridge.start();
  const client = await plugin.connect();
  await bridge.accept();
  await bridge.read();
  return {
    bridge,
    plugin,
    client,
    async [Symbol.asyncDispose]() {
      client.close();
      await plugin[Symbol.asyncDispose]();
      await bridge[Symbol.asyncDispose]();
    },
  };
}

describe("calls as frames", () => {
  let all: Awaited<ReturnType<typeof connected>>;
  let bridge: Bridge;
  beforeAll(async () => {
    all = await connected();
    bridge = all.bridge;
  });
  afterAll(async () => {
    expect(bridge.unfinished, "nothing comes after the end of a call").toEqual([]);
    await all[Symbol.asyncDispose]();
  });

  test("get their own answers, 10,000 at once", async () => {
    let next = 0;
    const caller = async () => {
      for (let i = next++; i < 10_000; i = next++) {
        if (i % 2) expect(await bridge.text("later", { n: i })).toBe(String(i));
        else expect(await bridge.text("echo", { text: `${i}` })).toBe(String(i));
      }
    };
    await Promise.all(Array.from({ length: 256 }, caller));
  });

  test("may be split at every byte", async () => {
    const two = Buffer.concat([
      frame(CALL, 1 << 20, request("echo", { text: "a" })),
      frame(CALL, (1 << 20) + 1, request("echo", { text: "b" })),
    ]);
    for (let at = 1; at < two.length; at++) {
      // A gRPC call between the halves, after which the process has read the first.
      bridge.socket.write(two.subarray(0, at));
      if (at % 16 === 0 || at < 12) await all.client.text("echo", { text: "between" });
      else await new Promise(setImmediate);
      bridge.socket.write(two.subarray(at));
      expect([await bridge.textOf(1 << 20), await bridge.textOf((1 << 20) + 1)]).toEqual(["a", "b"]);
    }
    for (const byte of two) {
      bridge.socket.write(Buffer.of(byte));
      await new Promise(setImmediate);
    }
    expect([await bridge.textOf(1 << 20), await bridge.textOf((1 << 20) + 1)]).toEqual(["a", "b"]);
  });

  test("may be large, with small ones in between", async () => {
    const large = "ü€x".repeat(3_000_000);
    const texts = ["a", large, "b", "y".repeat(300_000), large, "c"];
    const ids = texts.map((text) => bridge.call("echo", { text }));
    for (const [i, id] of ids.entries()) expect((await bridge.textOf(id)) === texts[i]).toBe(true);
  });

  test("keep their arguments when the buffer is reused", async () => {
    const texts = Array.from({ length: 500 }, (_, i) => `${i}:${"z".repeat(i * 17)}`);
    const ids = texts.map((text) => bridge.call("echo", { text }));
    expect(await Promise.all(ids.map((id) => bridge.textOf(id)))).toEqual(texts);
  });

  test("send events in order, and the result last", async () => {
    const ids = [1, 2, 3].map(() => bridge.call("steps", { n: 1000 }));
    for (const id of ids) {
      const { events, kind } = await bridge.end(id);
      expect(kind).toBe(RESULT);
      expect(events.map((e) => e.$case)).toEqual(Array.from({ length: 2000 }, (_, i) => (i % 2 ? "log" : "progress")));
      expect(events.flatMap((e) => (e.$case === "progress" ? [e.value.progress] : []))).toEqual(
        Array.from({ length: 1000 }, (_, i) => i),
      );
    }
  });

  test("wait until their events are read, and do not block other calls", async () => {
    const waits = bridge.call("steps", { n: UNREAD });
    for (let i = 0; i < UNREAD; i++) await bridge.event(waits);
    for (let i = 0; i < 100; i++) expect(await bridge.text("later", { n: i })).toBe(String(i));
    expect(bridge.framesOf(waits).frames).toEqual([]);
    for (let i = 0; i < 3; i++) {
      bridge.sendFrame(TAKEN, waits);
      await bridge.event(waits);
      expect(await bridge.text("echo", { text: "x" })).toBe("x");
      expect(bridge.framesOf(waits).frames).toEqual([]);
    }
    for (let i = 0; i < UNREAD; i++) bridge.sendFrame(TAKEN, waits);
    expect(await bridge.textOf(waits)).toBe("done");
  });

  test("send events that the handler did not await before the result", async () => {
    const waits = bridge.call("rush", { n: 200 });
    for (let i = 0; i < UNREAD; i++) await bridge.event(waits);
    expect(await bridge.text("echo", { text: "x" })).toBe("x");
    expect(bridge.framesOf(waits).frames).toEqual([]);
    for (let i = 0; i < UNREAD; i++) bridge.sendFrame(TAKEN, waits);
    const { events, kind } = await bridge.end(waits);
    expect([events.length, kind]).toEqual([200 - UNREAD, RESULT]);
  });

  test("end when they are canceled, and the signal is aborted", async () => {
    const id = bridge.call("slow", { ms: 60_000 });
    await bridge.event(id);
    bridge.sendFrame(CANCEL, id);
    bridge.sendFrame(CANCEL, id);
    bridge.sendFrame(TAKEN, id);
    expect(await bridge.error(id)).toMatchObject({ code: 1 });
    await all.plugin.find(() => all.plugin.stderr.includes("slow was aborted"));
    // Its id may be used again.
    bridge.sendFrame(CALL, id, request("echo", { text: "again" }));
    expect(await bridge.textOf(id)).toBe("again");
    // Also a call and its cancellation in one write.
    for (let id = 2000_000; id < 2000_100; id++) {
      bridge.socket.write(Buffer.concat([frame(CALL, id, request("later", { n: id })), frame(CANCEL, id)]));
      expect(await bridge.error(id)).toMatchObject({ code: 1 });
    }
  });

  test("that continue after they are canceled block nothing, and send nothing", async () => {
    const id = bridge.call("stubborn");
    await bridge.event(id);
    bridge.sendFrame(CANCEL, id);
    expect(await bridge.error(id)).toMatchObject({ code: 1 });
    await all.plugin.find(() => all.plugin.stderr.includes("stubborn went on"));
    const waits = bridge.call("rush", { n: 1000 });
    await bridge.event(waits);
    bridge.sendFrame(CANCEL, waits);
    const rest: number[] = [];
    while (rest.at(-1) !== ERROR) rest.push((await bridge.framesOf(waits).next()).kind);
    expect(rest.length).toBe(UNREAD);
    expect(await bridge.text("echo", { text: "x" })).toBe("x");
  });

  test("of a bridge of another contract version fail", async () => {
    const context = { ...EVERYTHING, verified: { contractVersion: 1 } };
    bridge.sendFrame(
      CALL,
      1 << 20,
      CallToolRequest.encode(CallToolRequest.fromPartial({ context, name: "echo" })).finish(),
    );
    expect(await bridge.error(1 << 20)).toMatchObject({
      code: 9,
      message: expect.stringContaining("version 1 of the contract") as string,
    });
  });

  test("fail with the same status as over gRPC", async () => {
    for (const name of ["exact", "ad", "circular"]) {
      const failure = await bridge.error(bridge.call(name));
      const { error } = await all.client.call(name);
      expect([failure.code, failure.message]).toEqual([error?.code, error?.details]);
      const details = error?.metadata.get("grpc-status-details-bin")[0];
      if (details) expect(Status.decode(details as Buffer)).toEqual(failure);
      else expect(failure.details).toEqual([]);
    }
    const [exact] = (await bridge.error(bridge.call("exact"))).details;
    expect(exact?.typeUrl).toBe("type.googleapis.com/mcpbridge.v1.JsonRpcError");
    expect(JsonRpcError.decode(exact?.value ?? Buffer.of())).toEqual({
      code: -31042,
      message: "exactly this",
      data: '{"n":[1]}',
    });
    expect(await bridge.text("crash")).toBe("no such thing");
    expect(await bridge.text("echo", {})).toContain("text");
    bridge.sendFrame(CALL, 1 << 21, Buffer.from([0xff, 0xff, 0xff]));
    expect(await bridge.error(1 << 21)).toMatchObject({
      code: 13,
      message: expect.stringContaining("cannot decode the request") as string,
    });
  });

  test("ask several questions in several rounds", async () => {
    const answers: Record<string, unknown> = { "Name?": "Ada", "Colour?": "red", "Size, Ada?": 3 };
    const rounds: number[] = [];
    let required: InputRequired | undefined;
    for (;;) {
      const next = CallToolRequest.fromPartial({
        context: EVERYTHING,
        name: "survey",
        ...(required?.requestState ? { requestState: required.requestState } : {}),
      });
      for (const { key, request } of required?.inputRequests ?? []) {
        const form = request?.$case === "elicit" && request.value.mode?.$case === "form"
          ? request.value.mode.value
          : undefined;
        const content = JSON.stringify({ value: answers[form?.message ?? ""] });
        next.inputResponses[key] = InputResponse.fromPartial({
          response: { $case: "elicit", value: { action: "accept", content } },
        });
      }
      const id = (1 << 22) + rounds.length;
      bridge.sendFrame(CALL, id, CallToolRequest.encode(next).finish());
      const last = await bridge.last(id);
      if (last.$case !== "inputRequired") {
        expect(last).toMatchObject({
          $case: "result",
          value: { content: [{ block: { value: { text: "Ada red 3" } } }] },
        });
        break;
      }
      required = last.value;
      rounds.push(required.inputRequests.length);
    }
    expect(rounds).toEqual([2, 1]);
  });

  test("with too large a result fail alone", async () => {
    const ids = [bridge.call("big", { size: LIMIT }), bridge.call("shout", { n: 2, size: LIMIT })];
    for (const id of ids) {
      const { code, message } = await bridge.error(id);
      expect(code).toBe(8);
      expect(message).toMatch(
        /^the call was executed, but its response of 6710\d+ bytes exceeds the maximum of 67108864 bytes$/,
      );
    }
    expect((await bridge.text("big", { size: LIMIT - 100 })).length).toBe(LIMIT - 100);
  });

  test("do not pass the socket to child processes", async () => {
    expect(await bridge.text("children")).not.toContain("MCPBRIDGE_FRAMES");
  });
});

describe("the connection", () => {
  test("applies flow control to events", async () => {
    await using bridge = new Bridge();
    await using plugin = bridge.start();
    const client = await plugin.connect();
    await bridge.accept();
    const id = bridge.call("shout", { n: UNREAD, size: 1_000_000 });
    // Each call is a turn of its event loop, in which it could send another event.
    let shouted = 0;
    for (let i = 0; i < 100; i++) shouted = Number(await client.text("shouted"));
    expect(shouted).toBeLessThan(5);
    await bridge.read();
    const { events, kind } = await bridge.end(id);
    expect([events.length, kind]).toEqual([UNREAD, RESULT]);
    client.close();
  });

  const mistakes = ["too long", "twice"];
  test.each(mistakes)("ends at a protocol violation of the bridge (%s), and calls use gRPC", async (mistake) => {
    await using all = await connected();
    const { bridge, plugin, client } = all;
    const id = bridge.call("slow", { ms: 60_000 });
    await bridge.event(id);
    if (mistake === "twice") bridge.sendFrame(CALL, id, request("echo", { text: "x" }));
    else {
      const header = frame(TAKEN, id);
      header.writeUInt32BE(LIMIT + 1);
      bridge.socket.write(header);
    }
    await bridge.closed;
    await plugin.find(() => plugin.stderr.includes("slow was aborted"));
    expect(plugin.stderr).toContain("the connection for frames is closed, and calls use gRPC");
    expect(await client.text("echo", { text: "x" })).toBe("x");
    expect(bridge.unfinished).toEqual([]);
  });

  test("cancels only its own calls when it ends", async () => {
    await using all = await connected();
    const { bridge, plugin, client } = all;
    const byGrpc = await client.begin("slow", { ms: 500 });
    for (let i = 0; i < 3; i++) await bridge.event(bridge.call("slow", { ms: 60_000 }));
    const rush = bridge.call("rush", { n: 1000 });
    await bridge.event(rush);
    bridge.socket.destroy();
    await plugin.find(() => plugin.stderr.match(/slow was aborted/g)?.length === 3);
    expect((await byGrpc.done).events.at(-1)).toMatchObject({ $case: "result" });
    expect(await client.text("echo", { text: "x" })).toBe("x");
    expect(plugin.stderr).not.toMatch(/nobody waited|fault of the SDK/);
  });

  test("is drained: calls complete, new ones are refused, and the process exits", async () => {
    await using all = await connected();
    const { bridge, plugin, client } = all;
    const id = bridge.call("slow", { ms: 1000 });
    await bridge.event(id);
    await client.other("shutdown");
    client.close();
    expect(await bridge.drained).toBe(id);
    bridge.call("echo", { text: "x" });
    expect(await bridge.textOf(id)).toBe("slept");
    bridge.socket.end(); // As the bridge does that has all answers.
    expect(await plugin.exited).toBe(0);
    expect(bridge.unfinished).toEqual([]);
    expect(plugin.stderr).toContain("run returned");
  });

  test("is drained for at most 5 seconds", async () => {
    await using all = await connected();
    const { bridge, plugin, client } = all;
    await bridge.event(bridge.call("slow", { ms: 60_000 }));
    const start = Date.now();
    await client.other("shutdown");
    client.close();
    await bridge.closed;
    expect(Date.now() - start).toBeGreaterThan(4500);
    expect(Date.now() - start).toBeLessThan(30_000);
    expect(await plugin.exited).toBe(0);
  });

  test("writes the last response completely before the process exits", async () => {
    await using all = await connected();
    const { bridge, plugin, client } = all;
    const id = bridge.call("big", { size: 20 << 20 });
    await bridge.text("echo", { text: "x" });
    await client.other("shutdown");
    client.close();
    expect((await bridge.textOf(id)).length).toBe(20 << 20);
    bridge.socket.end();
    expect(await plugin.exited).toBe(0);
  });

  const addresses = ["unix:/none/frames.sock", "unix:", "tcp:127.0.0.1:1", "x"];
  test.each(addresses)("that fails (%s) leaves gRPC", async (address) => {
    await using plugin = new Plugin({ env: { ...COOKIE, MCPBRIDGE_FRAMES: address } });
    const client = await plugin.connect();
    expect(await client.text("echo", { text: "x" })).toBe("x");
    await plugin.find(() => /^DEBUG mcpbridge: cannot connect for frames, calls use gRPC: /m.test(plugin.stderr));
    await client.other("shutdown");
    expect(await plugin.exited).toBe(0);
    client.close();
  });

  test("is removed from the environment by the import, before child processes start", () => {
    const sdk = fileURLToPath(new URL("../dist/index.js", import.meta.url));
    const program = `import ${JSON.stringify(sdk)}; process.stdout.write(String(process.env.MCPBRIDGE_FRAMES));`;
    const env = { ...process.env, MCPBRIDGE_FRAMES: "unix:/tmp/none" };
    const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { env });
    expect(stdout.toString()).toBe("undefined");
  });
});
