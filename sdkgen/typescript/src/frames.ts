/**
 * Calls of tools as frames, on a socket of the bridge that started us: what gRPC's CallTool means, at a part of its cost.
 *
 * proto/mcpbridge/v1/frames.md says what goes over the socket. All else stays gRPC, and without the socket these calls do, too.
 */
import { connect, type Socket } from "node:net";

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { status } from "@grpc/grpc-js";

import type { App } from "./app.js";
import type { Caller, Event } from "./context.js";
import { CallToolRequest, CallToolResponse } from "./gen/mcpbridge/v1/service.js";
import { encodeStatus, StatusError, statusOf } from "./status.js";

// The kinds: the bridge's, and ours.
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
const AHEAD = 64; // Events of a call that its caller has not taken yet.
const BUFFER = 256 << 10; // Bytes of what is read at once. A longer frame has a buffer of its own while it comes.
const JOIN = 64 << 10; // Bytes of what is written at once, unless one frame has more.
const MAX_SPARE = 1 << 20; // Bytes of the answers whose encoder is used again.

/** Where the bridge waits for us. What we start is not to hear of it. */
export const FRAMES = process.env.MCPBRIDGE_FRAMES;
delete process.env.MCPBRIDGE_FRAMES;

/** The socket's end of an App. */
export class Frames {
  /** Resolves when the connection is over. */
  readonly over: Promise<void>;
  readonly app: App;
  readonly #socket: Socket;
  readonly #most: number;
  readonly #calls = new Map<number, Call>();
  #held = new Set<Call>(); // Those whose events wait for the bridge to read.
  #last = 0; // The id of the last call that was begun.
  #draining = false;
  #buffer = Buffer.allocUnsafeSlow(BUFFER); // A frame begins where it does.
  #end = 0; // Of what has been read into it.
  #out: Uint8Array[] = [];
  #size = 0; // Of out.
  #encoder = new BinaryWriter();

  /** Takes calls at an address, `unix:` and a path. No payload is longer than most. */
  constructor(app: App, address: string, most: number) {
    this.app = app;
    this.#most = most;
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
    this.#socket.on("error", (e) => console.debug(`DEBUG mcpbridge: calls go by gRPC, not by frames: ${e.message}`));
    this.#socket.on("drain", () => {
      const held = this.#held;
      this.#held = new Set();
      for (const call of held) call.go();
    });
    this.over = new Promise((resolve) => {
      this.#socket.on("close", () => {
        for (const call of this.#calls.values()) call.cancel();
        this.#calls.clear();
        resolve();
      });
    });
  }

  /** Begins no more calls. The bridge ends the connection when it has the answers of those that are under way. */
  drain(): void {
    this.#draining = true;
    this.send(LAST, this.#last, (w) => w);
  }

  /** Ends the connection, and the calls that are under way. */
  destroy(): void {
    this.#socket.destroy();
  }

  #read(n: number): void {
    const buffer = this.#buffer;
    const end = this.#end + n;
    let at = 0;
    let wanted = HEADER;
    while (end - at >= HEADER) {
      const length = buffer.readUInt32BE(at);
      if (length > this.#most) {
        this.#mistake(`a frame of ${length} bytes, more than the ${this.#most} of a message`);
        return;
      }
      wanted = HEADER + length;
      if (end - at < wanted) break;
      const id = buffer.readUInt32BE(at + 4);
      const kind = buffer[at + 8];
      if (kind === CALL) {
        if (this.#calls.has(id)) {
          this.#mistake(`a call ${id}, which is under way`);
          return;
        }
        // If we are draining, the bridge knows by our LAST. The handler may keep what is in the request, and the buffer is read into again.
        if (!this.#draining) this.#begin(id, Buffer.from(buffer.subarray(at + HEADER, at + wanted)));
      } else if (kind === CANCEL) this.#calls.get(id)?.giveUp();
      else if (kind === TAKEN) this.#calls.get(id)?.taken();
      at += wanted;
      wanted = HEADER;
    }
    const size = Math.max(wanted, BUFFER);
    if (size !== buffer.length) this.#buffer = Buffer.allocUnsafeSlow(size);
    if (at > 0 || buffer !== this.#buffer) buffer.copy(this.#buffer, 0, at, end);
    this.#end = end - at;
  }

  #begin(id: number, request: Uint8Array): void {
    this.#last = id;
    const call = new Call(this, id);
    this.#calls.set(id, call);
    void call.answer(request);
  }

  #mistake(what: string): void {
    console.error(`mcpbridge: the bridge sent ${what}; the connection for frames is closed, and gRPC goes on`);
    this.#socket.destroy();
  }

  /** Makes a frame. Throws if what it says cannot be sent. */
  #frame(kind: number, id: number, write: (w: BinaryWriter) => void): Buffer {
    const w = this.#encoder;
    this.#encoder = new BinaryWriter(); // If this one fails, half a frame is in it.
    write(w.raw(ROOM));
    const bytes = w.finish();
    if (bytes.length <= MAX_SPARE) this.#encoder = w;
    const length = bytes.length - HEADER;
    if (length > this.#most) {
      const what = `the call was executed, and its answer has ${length} bytes, more than the ${this.#most} of a message`;
      throw new StatusError(status.RESOURCE_EXHAUSTED, what);
    }
    const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    frame.writeUInt32BE(length);
    frame.writeUInt32BE(id, 4);
    frame[8] = kind;
    return frame;
  }

  /** For Call: sends a frame soon, with those that others send. */
  send(kind: number, id: number, write: (w: BinaryWriter) => void): void {
    const frame = this.#frame(kind, id, write);
    if (this.#size + frame.length > JOIN) this.#flush();
    this.#size += frame.length;
    if (this.#out.push(frame) === 1) process.nextTick(() => { this.#flush(); }); // After all that does not wait for something.
  }

  /** For Call: whether the bridge reads what it is sent. If not, go() says when. */
  hasRoom(call: Call): boolean {
    if (!this.#socket.writableNeedDrain) return true;
    this.#held.add(call);
    return false;
  }

  /** For Call: it is over. */
  ended(id: number): void {
    this.#calls.delete(id);
  }

  #flush(): void {
    const [first] = this.#out;
    if (!first) return;
    if (this.#socket.writable) this.#socket.write(this.#out.length === 1 ? first : Buffer.concat(this.#out, this.#size));
    this.#out = [];
    this.#size = 0;
  }
}

const ROOM = new Uint8Array(HEADER);
const DONE = Promise.resolve();

/** A call that came by a frame. */
class Call {
  readonly #frames: Frames;
  readonly #id: number;
  #caller: Caller | undefined;
  #over = false;
  #untaken = 0;
  #events: Event[] = []; // That have no room yet.
  #waiting: (() => void)[] = [];

  constructor(frames: Frames, id: number) {
    this.#frames = frames;
    this.#id = id;
  }

  /** Makes the call, and ends it by one frame whatever happens. */
  async answer(request: Uint8Array): Promise<void> {
    try {
      const last = await this.#frames.app.callTool(this.#read(request), this.emit, this.started);
      while (this.#events.length > 0) await this.#room(); // What the handler has not waited for comes before its result.
      this.#finish(RESULT, (w) => CallToolResponse.encode(last, w));
    } catch (e) {
      this.#fail(e);
    }
  }

  #read(request: Uint8Array): CallToolRequest {
    try {
      return CallToolRequest.decode(request);
    } catch (e) {
      throw new StatusError(status.INTERNAL, `the request is no message of the contract: ${(e as Error).message}`);
    }
  }

  readonly started = (caller: Caller): void => {
    this.#caller = caller;
  };

  /** Sends an event, in its turn. */
  readonly emit = (event: Event): Promise<void> => {
    if (this.#over) return DONE;
    this.#events.push(event);
    this.#tell();
    return this.#hasRoom() ? DONE : this.#room();
  };

  #hasRoom(): boolean {
    return this.#over || (this.#untaken < AHEAD && this.#frames.hasRoom(this));
  }

  #room(): Promise<void> {
    return new Promise((go) => this.#waiting.push(go));
  }

  /** Sends the events that there is room for. */
  #tell(): void {
    try {
      while (this.#events.length > 0 && this.#hasRoom()) {
        const event = this.#events.shift();
        this.#frames.send(EVENT, this.#id, (w) => CallToolResponse.encode({ event }, w));
        this.#untaken++;
      }
    } catch (e) {
      this.#fail(e);
      this.cancel();
    }
  }

  /** The caller has taken an event. */
  taken(): void {
    if (this.#untaken > 0) this.#untaken--;
    this.go();
  }

  /** There may be room. */
  go(): void {
    this.#tell();
    if (!this.#hasRoom()) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }

  /** The caller has given up. */
  giveUp(): void {
    this.#fail(new StatusError(status.CANCELLED, "the caller has given up"));
    this.cancel();
  }

  /** Nobody waits for the answer. */
  cancel(): void {
    this.#over = true;
    this.#events = [];
    this.#caller?.cancel();
    this.go();
  }

  #fail(e: unknown): void {
    if (this.#over) return;
    const s = statusOf(e);
    this.#finish(ERROR, (w) => encodeStatus(s, w));
  }

  #finish(kind: number, write: (w: BinaryWriter) => void): void {
    if (this.#over) return;
    this.#frames.send(kind, this.#id, write);
    this.#over = true;
    this.#frames.ended(this.#id);
  }
}
