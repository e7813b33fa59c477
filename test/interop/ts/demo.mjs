// What `make demo` shows: one client of each era calls the Python example's tools over HTTP and over stdio.
//
//   node demo.mjs --url http://127.0.0.1:8080/mcp --command "bin/mcpbridge run --stdio -- python3 tools.py"
import { parseArgs } from "node:util";

import { clients } from "./clients.mjs";

/** @import { ClientRow, Peer, Place, Progress, ToolResult } from "./peer.ts" */

const usage = `usage: node demo.mjs [--url URL] [--command "CMD ARGS..."]   (at least one of them)`;

await main().catch((/** @type {unknown} */ e) => {
  console.error(`\ndemo: ${reasons(e)}`);
  process.exitCode = 1;
});

async function main() {
  const { values } = parseArgs({ options: { url: { type: "string" }, command: { type: "string" } } });
  /** @type {{ name: string, open: () => Place, stderr: string[] }[]} */
  const ways = [];
  if (values.url) {
    const url = values.url;
    ways.push({ name: "http", open: () => ({ transport: "http", url }), stderr: [] });
  }
  if (values.command) {
    const [command, ...args] = words(values.command);
    if (command === undefined) throw new Error(usage);
    /** @type {string[]} */
    const stderr = [];
    ways.push({ name: "stdio", open: () => ({ transport: "stdio", command, args, onStderr: (text) => stderr.push(text) }), stderr });
  }
  if (ways.length === 0) throw new Error(usage);

  for (const era of ["legacy", "modern"]) {
    const client = clients.find((c) => c.era === era);
    if (!client) throw new Error(`no client of the ${era} era is in the table`);
    for (const way of ways) {
      try {
        await show(client, way.name, way.open());
      } catch (e) {
        const wrote = way.stderr.join("").trim();
        throw new Error(`${client.name} over ${way.name}${wrote && `, where the server wrote\n${wrote}\n`}`, { cause: e });
      }
      way.stderr.length = 0;
    }
  }
}

/**
 * @param {ClientRow} client
 * @param {string} transport
 * @param {Place} place
 */
async function show(client, transport, place) {
  const peer = await client.connect(place);
  try {
    console.log(`\n${bold(client.name)}, ${client.era} era (${peer.revision}), over ${transport}`);
    expect(peer.revision === client.revision, `speaks ${peer.revision}, not ${client.revision}`);

    const names = (await peer.tools()).map((t) => t.name);
    line("tools", names.join(", "));
    for (const name of ["add", "countdown", "forecast", "greet"]) expect(names.includes(name), `there is no tool ${name}`);

    await sum(peer);
    await forecast(peer);
    await countdown(peer);
    await greet(peer);
  } finally {
    await peer.close();
  }
}

/** @param {Peer} peer */
async function sum(peer) {
  const answer = text(await peer.call("add", { a: 2, b: 40 }));
  line("add(2, 40)", answer);
  expect(/\b42\b/.test(answer), `2 + 40 is 42, not ${answer}`);
}

/** @param {Peer} peer */
async function forecast(peer) {
  const result = await peer.call("forecast", { city: "Oslo" });
  line("forecast(Oslo)", JSON.stringify(result.structuredContent));
  expect(text(result) !== "" && result.structuredContent !== undefined, "forecast has a structured result and a text");
}

/** @param {Peer} peer */
async function countdown(peer) {
  /** @type {Progress[]} */
  const seen = [];
  const onProgress = (/** @type {Progress} */ p) => {
    line(seen.length === 0 ? "countdown(3)" : "", dim(`progress ${p.progress} of ${p.total ?? "?"}${p.message ? `: ${p.message}` : ""}`));
    seen.push(p);
  };
  const result = await peer.call("countdown", { steps: 3, seconds: 0.1 }, { onProgress });
  line("", text(result));
  expect(seen.map((p) => p.progress).join() === "0,1,2,3", `progress was ${seen.map((p) => p.progress).join() || "not told"}, not 0,1,2,3`);
}

/** @param {Peer} peer */
async function greet(peer) {
  let asked = 0;
  peer.answer((ask) => {
    asked++;
    line("greet(Ada)", dim(`asks "${ask.message}", is told green`));
    return { action: "accept", content: { colour: "green" } };
  });
  const answer = text(await peer.call("greet", { name: "Ada" }));
  line("", answer);
  expect(asked === 1, `greet asked ${asked} times, not once`);
  expect(answer.includes("green"), `greet does not know the colour it was told: ${answer}`);
}

/** @param {ToolResult} result */
function text(result) {
  const said = result.content.map((c) => c.text ?? "").join("\n");
  expect(!result.isError, `the tool failed: ${said}`);
  return said;
}

/** @type {(holds: boolean, otherwise: string) => asserts holds} */
function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

/**
 * @param {string} call
 * @param {string} answer
 */
function line(call, answer) {
  console.log(`  ${call.padEnd(14)}  ${answer}`);
}

/**
 * What went wrong, from the outside in.
 * @param {unknown} e
 * @returns {string}
 */
function reasons(e) {
  if (!(e instanceof Error)) return String(e);
  return e.cause === undefined ? e.message : `${e.message}: ${reasons(e.cause)}`;
}

/** @param {string} s */
function bold(s) {
  return process.stdout.isTTY ? `\x1b[1m${s}\x1b[0m` : s;
}

/** @param {string} s */
function dim(s) {
  return process.stdout.isTTY ? `\x1b[2m${s}\x1b[0m` : s;
}

/**
 * A command line as words; quotes keep blanks together. No shell is involved.
 * @param {string} command
 */
function words(command) {
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? "");
}
