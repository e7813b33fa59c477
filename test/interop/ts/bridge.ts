// The bridge and its backend as processes: started, watched by what they write, and gone at the end.
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
  throw new Error(`${file} is missing: build it with make, or say where it is with MCPBRIDGE_BIN and MCPBRIDGE_PYTHON`);
}

/** The stdio form of the bridge, for clients that start their own server. */
export function stdioCommand(backend: Backend): { command: string; args: string[] } {
  return { command: binary, args: ["run", "--stdio", "--", ...backends[backend]] };
}

/** The bridge in front of a backend, configured by a file that is `config`. */
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

/** The bridge on a free port. `stop` resolves when it and all that it started are gone. */
export async function start(log: Lines, ...args: string[]): Promise<{ url: string; stop: () => Promise<void> }> {
  const child = spawn(binary, ["run", "--http", "127.0.0.1:0", ...args], {
    detached: true, // a group of its own, so that one signal reaches all of it
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
      // It is gone already.
    }
  };
  const lastResort = () => {
    killGroup("SIGKILL");
  };
  process.once("exit", lastResort);

  const stop = async () => {
    const family = child.pid ? [child.pid, ...descendants(child.pid)] : [];
    child.kill("SIGTERM");
    const late = setTimeout(lastResort, 10_000);
    await exited;
    clearTimeout(late);
    process.off("exit", lastResort);
    await gone(family);
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

/** Every process below one, by the parents that the kernel names; none where the kernel has no /proc. */
export function descendants(of: number): number[] {
  if (!existsSync("/proc")) return [];
  const children = new Map<number, number[]>();
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    const parent = parentOf(pid);
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), pid]);
  }
  const below = (pid: number): number[] => (children.get(pid) ?? []).flatMap((c) => [c, ...below(c)]);
  return below(of);
}

/**
 * Resolves when none of the processes runs any more. They are not ours to wait for (their parent may be gone), so this
 * one looks now and then instead of being told.
 */
export async function gone(pids: number[], limit = 10_000): Promise<void> {
  const deadline = Date.now() + limit;
  for (;;) {
    const left = pids.filter((pid) => parentOf(pid) !== undefined);
    if (left.length === 0) return;
    if (Date.now() > deadline) throw new Error(`still running after ${limit} ms: ${left.map(describe).join(", ")}`);
    await new Promise((r) => setTimeout(r, 20));
  }
}

/** The parent of a process that runs; undefined for one that is gone or only waits to be reaped. */
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
