/**
 * Makes console.log() safe: stdout has one line for the bridge, the handshake. All other output goes to stderr, which
 * the bridge logs. The bridge separates output of child processes on an inherited stdout.
 */
import { writeSync } from "node:fs";

export const MANAGED = process.env.MCPBRIDGE_PLUGIN === "mcpbridge.v1";

if (MANAGED) {
  process.stdout.write = process.stderr.write.bind(process.stderr);
}

/** Writes the handshake to the original stdout in one write. */
export function writeHandshake(line: string): void {
  writeSync(1, `${line}\n`);
}

// The maximum length of a message or a stack: the bridge does not parse lines of more than 8 KiB.
const MAX_TEXT = 2000;

/** Logs a message of the SDK: for the bridge as one line of JSON, which it logs with its level. */
export function report(level: "error" | "warn", text: string): void {
  if (!MANAGED) {
    console.error(text);
    return;
  }
  const [message = text, ...stack] = text.split(/\n(?= +at )/);
  process.stderr.write(
    `${
      JSON.stringify({ level, message: short(message), ...(stack.length ? { stack: short(stack.join("\n")) } : {}) })
    }\n`,
  );
}

/** Keeps the beginning and the end. */
function short(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT / 2)} ... ${text.slice(-MAX_TEXT / 2)}`;
}
