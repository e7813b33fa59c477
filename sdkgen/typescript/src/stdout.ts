/**
 * Makes console.log() safe: the bridge reads one line from our stdout, the handshake. Everything else that is printed goes
 * to stderr, which the bridge takes for log. What child processes print to a stdout they inherit the bridge sorts out.
 */
import { writeSync } from "node:fs";

export const MANAGED = process.env.MCPBRIDGE_PLUGIN === "mcpbridge.v1";

if (MANAGED) {
  process.stdout.write = process.stderr.write.bind(process.stderr);
}

/** Writes the handshake to the real stdout, in one piece. */
export function writeHandshake(line: string): void {
  writeSync(1, `${line}\n`);
}
