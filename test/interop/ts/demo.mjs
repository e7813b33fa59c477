// The output of `make demo`: one client of each era calls the Python example's tools over HTTP and over stdio.
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
  const connections = [];
  if (values.url) {
    const url = values.url;
    connections.push({ name: "http", open: () => ({ transport: "http", url }), stderr: [] });
  }
  if (values.command) {
    const [command, ...args] = words(values.command);
    if (command === undefined) throw new Error(usage);
    /** @type {string[]} */
    const stderr = [];
    connections.push({
      name: "stdio",
      open: () => ({ transport: "stdio", command, args, onStderr: (text) => stderr.push(text) }),
      stderr,
    });
  }
  if (connections.length === 0) throw new Error(usage);

  for (const era of ["legacy", "modern"]) {
    const client = clients.find((c) => c.era === era);
    if (!client) throw new Error(`no client of the ${era} era is in the table`);
    for (const connection of connections) {
      try {
        await show(client, connection.name, connection.open());
      } catch (e) {
        const wrote = connection.stderr.join("").trim();
        throw new Error(`${client.name} over ${connection.name}${wrote && `, its output:\n${wrote}\n`}`, { cause: e });
      }
      connection.stderr.length = 0;
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
    for (const name of ["add", "countdown", "forecast", "greet"])
      expect(names.includes(name), `there is no tool ${name}`);

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
    line(
      seen.length === 0 ? "countdown(3)" : "",
      dim(`progress ${p.progress} of ${p.total ?? "?"}${p.message ? `: ${p.message}` : ""}`),
    );
    seen.push(p);
  };
  const result = await peer.call("countdown", { steps: 3, seconds: 0.1 }, { onProgress });
  line("", text(result));
  expect(
    seen.map((p) => p.progress).join() === "0,1,2,3",
    `progress was ${seen.map((p) => p.progress).join() || "absent"}, not 0,1,2,3`,
  );
}

/** @param {Peer} peer */
async function greet(peer) {
  let asked = 0;
  peer.onElicitation((ask) => {
    asked++;
    line("greet(Ada)", dim(`asks "${ask.message}", answered with green`));
    return { action: "accept", content: { colour: "green" } };
  });
  const answer = text(await peer.call("greet", { name: "Ada" }));
  line("", answer);
  expect(asked === 1, `greet asked ${asked} times, not once`);
  expect(answer.includes("green"), `greet does not have the colour of the answer: ${answer}`);
}

/** @param {ToolResult} result */
function text(result) {
  const output = result.content.map((c) => c.text ?? "").join("\n");
  expect(!result.isError, `the tool failed: ${output}`);
  return output;
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
 * Returns the messages of an error and its causes.
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
 * Splits a command line into words, with quotes, without a shell.
 * @param {string} command
 */
function words(command) {
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? "");
}
