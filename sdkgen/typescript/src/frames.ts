/**
 * Tool calls as frames, on a socket of the bridge that launched this program, instead of CallTool over gRPC.
 *
 * proto/mcpbridge/v1/frames.md describes the protocol. Other methods use gRPC, and without the socket CallTool does
 * too.
 */
import { connect, type Socket } from "node:net";

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { status } from "@grpc/grpc-js";

import type { App } from "./app.js";
import type { Caller, Event } from "./context.js";
import { Status } from "./gen/google/rpc/status.js";
import { CallToolRequest, CallToolResponse } from "./gen/mcpbridge/v1/service.js";
import { checkContract, StatusError, statusOf } from "./status.js";

// The kinds of frames: from the bridge, and to it.
const CALL = 1;
const CANCEL = 2;
const TAKEN = 3;
const HELLO = 16;
const EVENT = 17;
const RESULT = 18;
const ERROR = 19;
const LAST = 20;

const VERSION = 1;
const HEADER = 9; // Bytes: the payload's length, the call's id, the kind.
const MAX_UNREAD = 64; // The maximum number of unread events of a call.
const BUFFER = 256 << 10; // The size of the read buffer in bytes. A longer frame gets a temporary buffer.
const BATCH = 64 << 10; // The maximum size of a batch of frames in bytes.
const MAX_SPARE = 1 << 20; // The maximum size of a response whose encoder is reused, in bytes.

/** The address of the bridge. Removed from the environment, so that child processes do not inherit it. */
export const FRAMES = process.env.MCPBRIDGE_FRAMES;
delete process.env.MCPBRIDGE_FRAMES;

/** The socket connection of an App. */
export class Frames {
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>;
  readonly app: App;
  readonly #socket: Socket;
  readonly #maxPayload: number;
  readonly #calls = new Map<number, Call>();
  #blocked = new Set<Call>(); // Calls whose events wait for the bridge to read.
  #last = 0; // The id of the last call that was started.
  #draining = false;
  #buffer = Buffer.allocUnsafeSlow(BUFFER); // It starts with a frame.
  #end = 0; // The end of the data in it.
  #out: Uint8Array[] = [];
  #size = 0; // The size of out.
  #encoder = new BinaryWriter();

  /** Connects to the bridge at an address, `unix:` and a path. `maxPayload` is in bytes. */
  constructor(app: App, address: string, maxPayload: number) {
    this.app = app;
    this.#maxPayload = maxPayload;
    this.#socket = connect({
      path: address.replace(/^unix:/, ""),
      onread: {
        buffer: () => this.#buffer.subarray(this.#end),
        callback: (n) => {
          this.#read(n);
          return true;
        },
      },
    });
    this.send(HELLO, 0, (w) => w.raw(Uint8Array.of(VERSION)));
    this.#socket.on(
      "error",
      (e) => console.debug(`DEBUG mcpbridge: cannot connect for frames, calls use gRPC: ${e.message}`),
    );
    this.#socket.on("drain", () => {
      const blocked = this.#blocked;
      this.#blocked = new Set();
      for (const call of blocked) call.resume();
    });
    this.closed = new Promise((resolve) => {
      this.#socket.on("close", () => {
        for (const call of this.#calls.values()) call.cancel();
        this.#calls.clear();
        resolve();
      });
    });
  }

  /** Refuses new calls. The bridge closes the connection when calls in flight have been answered. */
  drain(): void {
    this.#draining = true;
    this.send(LAST, this.#last, (w) => w);
  }

  /** Closes the connection, and cancels calls in flight. */
  destroy(): void {
    this.#socket.destroy();
  }

  #read(n: number): void {
    const buffer = this.#buffer;
    const end = this.#end + n;
    let at = 0;
    let size = HEADER;
    while (end - at >= HEADER) {
      const length = buffer.readUInt32BE(at);
      if (length > this.#maxPayload) {
        this.#protocolViolation(`a frame of ${length} bytes, more than the maximum of ${this.#maxPayload}`);
        return;
      }
      size = HEADER + length;
      if (end - at < size) break;
      const id = buffer.readUInt32BE(at + 4);
      const kind = buffer[at + 8];
      if (kind === CALL) {
        if (this.#calls.has(id)) {
          this.#protocolViolation(`a call with the id ${id}, which is in flight`);
          return;
        }
        // While draining, the LAST frame has informed the bridge. Copy the request: the buffer is reused.
        if (!this.#draining) this.#start(id, Buffer.from(buffer.subarray(at + HEADER, at + size)));
      } else if (kind === CANCEL) this.#calls.get(id)?.handleCancel();
      else if (kind === TAKEN) this.#calls.get(id)?.handleTaken();
      at += size;
      size = HEADER;
    }
    const capacity = Math.max(size, BUFFER);
    if (capacity !== buffer.length) this.#buffer = Buffer.allocUnsafeSlow(capacity);
    if (at > 0 || buffer !== this.#buffer) buffer.copy(this.#buffer, 0, at, end);
    this.#end = end - at;
  }

  #start(id: number, request: Uint8Array): void {
    this.#last = id;
    const call = new Call(this, id);
    this.#calls.set(id, call);
    void call.run(request);
  }

  #protocolViolation(what: string): void {
    console.error(
      `mcpbridge: protocol violation: the bridge sent ${what}; the connection for frames is closed, and calls use gRPC`,
    );
    this.#socket.destroy();
  }

  /** Encodes a frame. Throws if its message is invalid. */
  #frame(kind: number, id: number, write: (w: BinaryWriter) => void): Buffer {
    const w = this.#encoder;
    this.#encoder = new BinaryWriter(); // If encoding fails, the encoder has a partial frame.
    write(w.raw(HEADER_SPACE));
    const bytes = w.finish();
    if (bytes.length <= MAX_SPARE) this.#encoder = w;
    const length = bytes.length - HEADER;
    if (length > this.#maxPayload) {
      const what =
        `the call was executed, but its response of ${length} bytes exceeds the maximum of ${this.#maxPayload} bytes`;
      throw new StatusError(status.RESOURCE_EXHAUSTED, what);
    }
    const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    frame.writeUInt32BE(length);
    frame.writeUInt32BE(id, 4);
    frame[8] = kind;
    return frame;
  }

  /** For Call: sends a frame soon, batched with other frames. */
  send(kind: number, id: number, write: (w: BinaryWriter) => void): void {
    const frame = this.#frame(kind, id, write);
    if (this.#size + frame.length > BATCH) this.#flush();
    this.#size += frame.length;
    if (this.#out.push(frame) === 1) process.nextTick(() => { this.#flush(); }); // After all immediate work.
  }

  /** For Call: reports whether the bridge is reading. If not, calls resume() when the bridge reads again. */
  isWritable(call: Call): boolean {
    if (!this.#socket.writableNeedDrain) return true;
    this.#blocked.add(call);
    return false;
  }

  /** For Call: removes a call that has ended. */
  remove(id: number): void {
    this.#calls.delete(id);
  }

  #flush(): void {
    const [first] = this.#out;
    if (!first) return;
    if (this.#socket.writable)
      this.#socket.write(this.#out.length === 1 ? first : Buffer.concat(this.#out, this.#size));
    this.#out = [];
    this.#size = 0;
  }
}

const HEADER_SPACE = new Uint8Array(HEADER);
const DONE = Promise.resolve();

/** A call received as a frame. */
class Call {
  readonly #frames: Frames;
  readonly #id: number;
  #caller: Caller | undefined;
  #ended = false;
  #unread = 0;
  #events: Event[] = []; // Events that must wait.
  #waiters: (() => void)[] = [];

  constructor(frames: Frames, id: number) {
    this.#frames = frames;
    this.#id = id;
  }

  /** Calls the tool, and always sends exactly one final frame. */
  async run(request: Uint8Array): Promise<void> {
    try {
      const last = await this.#frames.app.callTool(checkContract(this.#read(request)), this.emit, this.onStart);
      while (this.#events.length > 0) await this.#waitForReader(); // Events that were not awaited precede the result.
      this.#finish(RESULT, (w) => CallToolResponse.encode(last, w));
    } catch (e) {
      this.#fail(e);
    }
  }

  #read(request: Uint8Array): CallToolRequest {
    try {
      return CallToolRequest.decode(request);
    } catch (e) {
      throw new StatusError(status.INTERNAL, `cannot decode the request: ${(e as Error).message}`);
    }
  }

  readonly onStart = (caller: Caller): void => {
    this.#caller = caller;
  };

  /** Sends an event, in order. */
  readonly emit = (event: Event): Promise<void> => {
    if (this.#ended) return DONE;
    this.#events.push(event);
    this.#sendEvents();
    return this.#canSend() ? DONE : this.#waitForReader();
  };

  #canSend(): boolean {
    return this.#ended || (this.#unread < MAX_UNREAD && this.#frames.isWritable(this));
  }

  #waitForReader(): Promise<void> {
    return new Promise((resume) => this.#waiters.push(resume));
  }

  /** Sends events up to the limit. */
  #sendEvents(): void {
    try {
      while (this.#events.length > 0 && this.#canSend()) {
        const event = this.#events.shift();
        this.#frames.send(EVENT, this.#id, (w) => CallToolResponse.encode({ event }, w));
        this.#unread++;
      }
    } catch (e) {
      this.#fail(e);
      this.cancel();
    }
  }

  /** Handles a TAKEN frame: the bridge has read an event. */
  handleTaken(): void {
    if (this.#unread > 0) this.#unread--;
    this.resume();
  }

  /** Sends events that had to wait, and resumes their senders. */
  resume(): void {
    this.#sendEvents();
    if (!this.#canSend()) return;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const resume of waiters) resume();
  }

  /** Handles a CANCEL frame: ends the call with CANCELLED. */
  handleCancel(): void {
    this.#fail(new StatusError(status.CANCELLED, "the caller canceled the call"));
    this.cancel();
  }

  /** Cancels the handler; its response is not sent. */
  cancel(): void {
    this.#ended = true;
    this.#events = [];
    this.#caller?.cancel();
    this.resume();
  }

  #fail(e: unknown): void {
    if (this.#ended) return;
    const s = statusOf(e);
    this.#finish(ERROR, (w) => Status.encode(s, w));
  }

  #finish(kind: number, write: (w: BinaryWriter) => void): void {
    if (this.#ended) return;
    this.#frames.send(kind, this.#id, write);
    this.#ended = true;
    this.#frames.remove(this.#id);
  }
}
