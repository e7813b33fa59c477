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

// Of a message or a stack: the bridge takes a line of more than 8 KiB for text.
const MAX_TEXT = 2000;

/** Logs what the SDK has to say: for the bridge as a line of JSON, which it logs with its level and in one piece. */
export function report(level: "error" | "warn", text: string): void {
  if (!MANAGED) {
    console.error(text);
    return;
  }
  const [message = text, ...stack] = text.split(/\n(?= +at )/);
  process.stderr.write(`${JSON.stringify({ level, message: short(message), ...(stack.length ? { stack: short(stack.join("\n")) } : {}) })}\n`);
}

/** The beginning and the end, which say the most. */
function short(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT / 2)} ... ${text.slice(-MAX_TEXT / 2)}`;
}
