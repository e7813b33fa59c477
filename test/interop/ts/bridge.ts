// Starts the bridge and its backend as processes, reads their output, and stops them.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import type { Lines } from "./lines.ts";
import type { Backend } from "./tour.ts";

export const root = fileURLToPath(new URL("../../..", import.meta.url));
export const binary = process.env.MCPBRIDGE_BIN ?? resolve(root, "bin/mcpbridge");
export const python = process.env.MCPBRIDGE_PYTHON ?? resolve(root, ".venv/bin/python");
const backends: Record<Backend, string[]> = {
  witness: [python, resolve(root, "test/interop/witness.py")],
  "conformance-go": [resolve(dirname(binary), "conformance-go")],
};

for (const file of [binary, ...Object.values(backends).flat()]) {
  if (existsSync(file)) continue;
  throw new Error(`${file} is missing: build it with make, or set MCPBRIDGE_BIN and MCPBRIDGE_PYTHON to its path`);
}

/** The stdio form of the bridge, for clients that start their own server. */
export function stdioCommand(backend: Backend): { command: string; args: string[] } {
  return { command: binary, args: ["run", "--stdio", "--", ...backends[backend]] };
}

/** Starts the bridge with a backend and a configuration file with the content `config`. */
export async function startHttp(backend: Backend, log: Lines, config = "version: 1\n"): ReturnType<typeof start> {
  const work = mkdtempSync(resolve(tmpdir(), "interop-"));
  const file = resolve(work, "mcpbridge.yaml");
  writeFileSync(file, config);
  const bridge = await start(log, "-c", file, "--", ...backends[backend]);
  const stop = async () => {
    await bridge.stop();
    rmSync(work, { recursive: true });
  };
  return { ...bridge, stop };
}

/** Starts the bridge on a free port. `stop` resolves when it and all its descendants have exited. */
export async function start(log: Lines, ...args: string[]): Promise<{ url: string; stop: () => Promise<void> }> {
  const child = spawn(binary, ["run", "--http", "127.0.0.1:0", ...args], {
    detached: true, // In its own process group, so that one signal reaches all processes.
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = new Promise<void>((done) => {
    child.once("close", () => {
      log.end();
      done();
    });
  });
  child.once("error", (e) => {
    log.end(e);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log.write(text);
  });

  const killGroup = (signal: NodeJS.Signals) => {
    try {
      if (child.pid) process.kill(-child.pid, signal);
    } catch {
      // It has exited.
    }
  };
  const killAll = () => {
    killGroup("SIGKILL");
  };
  process.once("exit", killAll);

  const stop = async () => {
    const processes = child.pid ? [child.pid, ...descendants(child.pid)] : [];
    child.kill("SIGTERM");
    const killTimer = setTimeout(killAll, 10_000);
    await exited;
    clearTimeout(killTimer);
    process.off("exit", killAll);
    await waitForExit(processes);
  };

  const ready = /http:\/\/[^\s"]+\/mcp/;
  try {
    const url = ready.exec(await log.find(ready))?.[0];
    if (!url) throw new Error("the ready line has no address");
    return { url, stop };
  } catch (e) {
    await stop();
    throw e;
  }
}

/** Returns all descendants of a process, by /proc; none on systems without it. */
export function descendants(of: number): number[] {
  if (!existsSync("/proc")) return [];
  const children = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    const parent = parentOf(pid);
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const descendantsOf = (pid: number): number[] => (children.get(pid) ?? []).flatMap((c) => [c, ...descendantsOf(c)]);
  return descendantsOf(of);
}

/**
 * Resolves when all of the processes have exited. It polls, because they may not be children of this process: their
 * parent may have exited.
 */
export async function waitForExit(pids: number[], limit = 10_000): Promise<void> {
  const deadline = Date.now() + limit;
  for (;;) {
    const running = pids.filter((pid) => parentOf(pid) !== undefined);
    if (running.length === 0) return;
    if (Date.now() > deadline) throw new Error(`still running after ${limit} ms: ${running.map(describe).join(", ")}`);
    await new Promise((r) => setTimeout(r, 20));
  }
}

/** Returns the parent of a running process, or undefined if it has exited or is a zombie. */
function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" || state === "X" ? undefined : Number(parent);
  } catch {
    return undefined;
  }
}

function describe(pid: number): string {
  try {
    return `${pid} (${readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim()})`;
  } catch {
    return String(pid);
  }
}
