#!/usr/bin/env node
/** The command of the npm package. It runs the program of this platform, which is in an optional dependency. */
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const name = `@mcpbridge/${process.platform}-${process.arch}`;

function program(): string {
  const file = process.platform === "win32" ? "mcpbridge.exe" : "mcpbridge";
  try {
    return createRequire(import.meta.url).resolve(`${name}/bin/${file}`);
  } catch {
    console.error(
      `mcpbridge: the package ${name} is not installed: install mcpbridge with optional dependencies, ` +
        "or the program of this platform without npm",
    );
    process.exit(1);
  }
}

const bridge = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
bridge.on("error", (e) => {
  console.error(`mcpbridge: ${e.message}`);
  process.exitCode = 1;
});
bridge.on("exit", (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal ?? "SIGKILL"];
});

process.on("SIGTERM", () => bridge.kill("SIGTERM"));
// The terminal sends these to the bridge too, which does not drain if it receives a second one.
process.on("SIGINT", () => undefined);
process.on("SIGHUP", () => undefined);
