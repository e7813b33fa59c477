// Servers that others wrote, and what is known of them: rows of interop/servers/servers.json, for the clients of interop/go too.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { resolve } from "node:path";

import { root } from "./bridge.ts";
import type { Feature } from "./peer.ts";

const here = resolve(root, "interop/servers");

/** What a server has, and how it is started. What it has not is absent. */
export interface ServerRow {
  command: string[];
  env?: Record<string, string>;
  /** One of its tools. */
  tool: string;
  call: { name: string; arguments: Record<string, unknown>; says: string };
  progress?: { name: string; arguments: Record<string, unknown>; steps: number[] };
  ask?: {
    name: string;
    arguments: Record<string, unknown>;
    answer: Record<string, string | boolean>;
    says: string;
    /** What a client must be able to do to be asked: "questions" if it is absent. */
    needs?: Feature;
    /** What any other client is told. */
    otherwise: string;
  };
  think?: { name: string; arguments: Record<string, unknown>; says: string };
  read?: { uri: string; says: string };
  prompt?: { name: string; arguments: Record<string, string>; says: string };
  complete?: { prompt: string; argument: string; value: string; values: string[] };
}

export type Servers = Record<string, ServerRow>;

/** A folder for the servers to work in, and the bridge's configuration that has all of them. */
export function prepare(): { servers: Servers; work: string; config: string; socket: string; remove: () => void } {
  const work = mkdtempSync(resolve(tmpdir(), "interop-"));
  writeFileSync(resolve(work, "hello.txt"), "Hello from a file");
  writeFileSync(
    resolve(work, "memory.jsonl"),
    JSON.stringify({ type: "entity", name: "Ada", entityType: "person", observations: ["wrote programs"] }),
  );
  const servers = JSON.parse(fill(readFileSync(resolve(here, "servers.json"), "utf8"), work)) as Servers;
  const backends = Object.entries(servers).map(([name, { command, env }]) => ({ name, mcp: { command, env } }));
  const config = resolve(work, "mcpbridge.yaml");
  const socket = resolve(work, "grpc.sock");
  writeFileSync(config, JSON.stringify({ version: 1, backends })); // JSON is YAML
  const remove = () => {
    rmSync(work, { recursive: true });
  };
  return { servers, work, config, socket: `unix://${socket}`, remove };
}

/** The session of a server: what is typed to a client example, each line after "> ", and what it must print. */
export function session(name: string, work: string): { input: string; output: string } {
  const lines = fill(readFileSync(resolve(here, "sessions", `${name}.txt`), "utf8"), work).split("\n");
  const input = lines.filter((l) => l.startsWith("> ")).map((l) => `${l.slice(2)}\n`);
  return { input: input.join(""), output: lines.filter((l) => !l.startsWith("> ")).join("\n") };
}

function fill(text: string, work: string): string {
  return text.replaceAll("{here}", here).replaceAll("{work}", work);
}
