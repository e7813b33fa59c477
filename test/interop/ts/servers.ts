// Published servers, and what to expect of them: rows of test/interop/servers/servers.json, which test/interop/go uses
// too.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { resolve } from "node:path";

import { root } from "./bridge.ts";
import { Lines } from "./lines.ts";
import type { Feature } from "./peer.ts";

const here = resolve(root, "test/interop/servers");

/** The command of a server and its features. A feature that it does not have is absent. */
export interface ServerRow {
  command: string[];
  env?: Record<string, string>;
  /** The path of its URL, if it serves HTTP, at the port in the environment variable PORT. */
  path?: string;
  /** One of its tools. */
  tool: string;
  call: { name: string; arguments: Record<string, unknown>; contains: string };
  progress?: { name: string; arguments: Record<string, unknown>; steps: number[] };
  ask?: {
    name: string;
    arguments: Record<string, unknown>;
    answer: Record<string, string | boolean>;
    contains: string;
    /** The feature that a client needs; if absent, "questions". */
    needs?: Feature;
    /** The expected text for other clients. */
    otherwise: string;
  };
  think?: { name: string; arguments: Record<string, unknown>; contains: string };
  read?: { uri: string; contains: string };
  prompt?: { name: string; arguments: Record<string, string>; contains: string };
  complete?: { prompt: string; argument: string; value: string; values: string[] };
}

export type Servers = Record<string, ServerRow>;

/** Creates a working directory for the servers, and the bridge's configuration with all of them. */
export async function prepare(): Promise<
  { servers: Servers; work: string; config: string; socket: string; remove: () => void }
> {
  const work = mkdtempSync(resolve(tmpdir(), "interop-"));
  writeFileSync(resolve(work, "hello.txt"), "Hello from a file");
  writeFileSync(
    resolve(work, "memory.jsonl"),
    JSON.stringify({ type: "entity", name: "Ada", entityType: "person", observations: ["wrote programs"] }),
  );
  const servers = JSON.parse(fill(readFileSync(resolve(here, "servers.json"), "utf8"), work)) as Servers;
  const running: ChildProcess[] = [];
  const backends = await Promise.all(
    Object.entries(servers).map(async ([name, { command, env, path }]) => {
      if (!path) return { name, mcp: { command, env } };
      const [program, port] = await serve(command);
      running.push(program);
      return { name, mcp: { url: `http://127.0.0.1:${String(port)}${path}` } };
    }),
  );
  const config = resolve(work, "mcpbridge.yaml");
  const socket = resolve(work, "grpc.sock");
  writeFileSync(config, JSON.stringify({ version: 1, backends })); // JSON is YAML.
  const remove = () => {
    for (const program of running) program.kill();
    rmSync(work, { recursive: true });
  };
  return { servers, work, config, socket: `unix://${socket}`, remove };
}

/** Starts a server that serves HTTP, and returns it and its port when it is ready. */
async function serve([program = "", ...args]: string[]): Promise<[ChildProcess, number]> {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address() as AddressInfo;
  free.close();
  await once(free, "close");
  const child = spawn(program, args, {
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = new Lines(30_000);
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log.write(text);
  });
  await log.find(new RegExp(` on port ${String(port)}$`));
  return [child, port];
}

/** The session of a server: the input of a client example, each line after "> ", and the expected output. */
export function session(name: string, work: string): { input: string; output: string } {
  const lines = fill(readFileSync(resolve(here, "sessions", `${name}.txt`), "utf8"), work).split("\n");
  const input = lines.filter((l) => l.startsWith("> ")).map((l) => `${l.slice(2)}\n`);
  return { input: input.join(""), output: lines.filter((l) => !l.startsWith("> ")).join("\n") };
}

function fill(text: string, work: string): string {
  return text.replaceAll("{here}", here).replaceAll("{work}", work);
}
