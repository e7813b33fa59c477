// Published servers behind the bridge, called by the client examples over gRPC and by every client over MCP.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { text } from "node:stream/consumers";

import { afterAll, beforeAll, describe, test } from "vitest";

import { binary, descendants, waitForExit, python, root, start } from "./bridge.ts";
import { clients } from "./clients.mjs";
import { Lines } from "./lines.ts";
import type { ClientRow, Peer, Place, Progress } from "./peer.ts";
import { prepare, session, type ServerRow } from "./servers.ts";
import { textOf } from "./tour.ts";

const examples: Record<string, string[]> = {
  go: [resolve(root, "bin/client-go")],
  python: [python, resolve(root, "examples/client-python/client.py")],
  typescript: [process.execPath, resolve(root, "examples/client-typescript/dist/client.js")],
  java: [
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-jar",
    resolve(root, "examples/client-java/target/client-java.jar"),
  ],
};

const { servers, work, config, socket, remove } = await prepare();
const log = new Lines(60_000);
let bridge: Awaited<ReturnType<typeof start>>;
beforeAll(async () => {
  bridge = await start(log, "-c", config, "--grpc", socket);
});
afterAll(async () => {
  await bridge.stop();
  remove();
});

for (const [name, server] of Object.entries(servers)) {
  describe(`the server ${name}`, () => {
    for (const [language, command] of Object.entries(examples)) {
      test(`is called by the client example in ${language}`, async () => {
        const { input, output } = session(name, work);
        const example = new Example([...command, socket, name]);
        example.stdin.end(input);
        assert.equal(await example.end(), output);
      });
    }

    for (const client of clients) {
      for (const transport of client.transports) {
        test(`is served to ${client.name}, which ${client.manner}, over ${transport}`, async () => {
          const before = new Set(descendants(process.pid));
          const peer = await client.connect(place(name, transport));
          const own = descendants(process.pid).filter((pid) => !before.has(pid));
          await useAll(peer, client, server);
          await peer.close();
          if (transport === "stdio") await waitForExit(own);
        });
      }
    }
  });
}

// Each process of the slow server takes 7 s more to start: for the bridge, for callers with capabilities, and for the
// other era.
for (const slow of ["memory", "time"]) {
  test(`the first list has the tools of four servers, of which ${slow} is slow to start`, async () => {
    const names = ["everything-2024", "filesystem", "memory", "time"];
    const backends = names.map((name) => {
      const { command, env } = servers[name] ?? assert.fail(name);
      return {
        name,
        mcp: { command: name === slow ? ["sh", "-c", 'sleep 7; exec "$@"', "slow", ...command] : command, env },
      };
    });
    const file = resolve(work, `slow-${slow}.yaml`);
    writeFileSync(file, JSON.stringify({ version: 1, backends }));
    const merged = await start(new Lines(60_000), "-c", file);
    const list = async (client: ClientRow, at: Place) => {
      const peer = await client.connect(at);
      const tools = (await peer.tools()).map((t) => t.name);
      await peer.close();
      return tools;
    };
    try {
      const rows = clients.filter((c) => c.name.endsWith("/sdk 1.32.2") || c.manner.startsWith("probes"));
      assert.equal(rows.length, 2);
      const lists = await Promise.all(
        rows.flatMap((client) => [
          list(client, { transport: "http", url: merged.url }),
          list(client, {
            transport: "stdio",
            command: binary,
            args: ["run", "-c", file, "--stdio"],
            onStderr: () => undefined,
          }),
        ]),
      );
      const [first = assert.fail()] = rows;
      const own = names.map(async (name) =>
        (await list(first, { transport: "http", url: `${merged.url}/${name}` })).map((tool) => `${name}_${tool}`)
      );
      const all = (await Promise.all(own)).flat();
      for (const tools of lists) assert.deepEqual(tools, all);
    } finally {
      await merged.stop();
    }
  }, 180_000);
}

for (const [language, command] of Object.entries(examples)) {
  test(`the client example in ${language} prints its usage`, async () => {
    for (const nothing of [[], [""]]) {
      const [program = "", ...args] = [...command, ...nothing];
      const example = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
      const code = new Promise((done) => example.once("close", done));
      const [stdout, stderr] = await Promise.all([text(example.stdout), text(example.stderr)]);
      assert.match(stderr, /^usage: \S+ ADDRESS \[SERVER\], where .*\n$/);
      assert.deepEqual([stdout, await code], ["", 2]);
    }
  });

  test(`the client example in ${language} listens`, async () => {
    const uri = "demo://resource/dynamic/text/1";
    const example = new Example([...command, socket, "everything"]);
    example.stdin.end(`listen ${uri}\n`);
    await example.lines.find(/^listening$/);
    // A legacy server sends changes to the session of their call: that of callers without capabilities.
    await toggleUpdates();
    await example.lines.find(/^changed: /);
    await toggleUpdates();
    assert.equal(await example.end(), `listening\nchanged: ${uri}\n`);
  });
}

// It starts eight programs, one of them a JVM.
test("the commands in docs/clients.md work", { timeout: 180_000 }, async () => {
  const page = readFileSync(resolve(root, "docs/clients.md"), "utf8").replaceAll(
    "/tmp/mcp.sock",
    `${socket.replace("unix://", "")}-docs`,
  );
  const block = (name: string) => {
    const found = new RegExp(`<!-- test: ${name} -->\n\`{3}\\w*\n(.*?)\`{3}`, "s").exec(page)?.[1];
    assert.ok(found, `there is no block ${name}`);
    return found;
  };
  const [talk, printed, grpcurl] = [block("talk"), block("printed"), block("grpcurl")];
  const PATH = `${dirname(binary)}:${process.env.PATH ?? ""}`;
  // In this folder, npx finds the pinned server.
  const server = spawn("sh", ["-c", `exec ${block("start")}`], {
    cwd: resolve(root, "test/interop/servers"),
    env: { ...process.env, PATH },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise((done) => server.once("close", done));
  const lines = new Lines(30_000);
  server.stderr.setEncoding("utf8").on("data", (text: string) => {
    lines.write(text);
  });
  try {
    await lines.find(/"message":"ready"/);
    const commands = [talk, ...block("others").trim().split("\n").map((line) => talk.replace(/^.*(?= <<)/, line))];
    for (const command of commands) {
      const shell = spawn("sh", ["-c", command], { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
      assert.equal(await text(shell.stdout), printed, command);
    }
    const shell = spawn("sh", ["-c", grpcurl], { env: { ...process.env, PATH }, stdio: ["ignore", "pipe", "inherit"] });
    assert.deepEqual(JSON.parse(await text(shell.stdout)), JSON.parse(block("grpcurl printed")));
  } finally {
    server.kill("SIGTERM");
    await ended;
  }
});

/** Uses all features that both the server and the client support. */
async function useAll(peer: Peer, client: ClientRow, server: ServerRow): Promise<void> {
  assert.equal(peer.revision, client.revision);
  const names = (await peer.tools()).map((t) => t.name);
  assert.ok(names.includes(server.tool), `${server.tool} is not among ${names.join(", ")}`);

  const { call, progress, ask, think, read, prompt, complete } = server;
  assert.ok(textOf(await peer.call(call.name, call.arguments)).includes(call.contains));
  if (progress) {
    const seen: Progress[] = [];
    await peer.call(progress.name, progress.arguments, { onProgress: (p) => seen.push(p) });
    // If a server requests roots during the call, client 2.4.0 reports progress of its own, without a total.
    assert.deepEqual(
      seen.filter((p) => p.total !== undefined).map((p) => p.progress),
      progress.steps,
    );
  }
  if (ask) {
    peer.onElicitation(() => ({ action: "accept", content: ask.answer }));
    const result = await peer.call(ask.name, ask.arguments).catch((e: unknown) => String(e));
    const text = typeof result === "string" ? result : textOf(result);
    if (client.features.includes(ask.needs ?? "questions")) assert.ok(text.includes(ask.contains), text);
    else assert.match(text, new RegExp(ask.otherwise));
  }
  if (think) {
    peer.onSampling(() => "I do not know");
    const text = textOf(await peer.call(think.name, think.arguments));
    assert.ok(text.includes(think.contains), text);
  }
  if (read) {
    assert.ok((await peer.resources()).some((r) => r.uri === read.uri));
    const [contents] = await peer.read(read.uri);
    assert.ok(contents?.text?.includes(read.contains), JSON.stringify(contents));
  }
  if (prompt) {
    assert.ok((await peer.prompts()).some((p) => p.name === prompt.name));
    const [message] = await peer.prompt(prompt.name, prompt.arguments);
    assert.ok(message?.content.text?.includes(prompt.contains), JSON.stringify(message));
  }
  if (complete) {
    assert.deepEqual(
      await peer.complete({ type: "ref/prompt", name: complete.prompt }, complete.argument, complete.value),
      complete.values,
    );
  }
  assert.deepEqual(peer.errors, []);
}

/** The place of the server: the shared bridge over HTTP, or a bridge that the client starts. */
function place(name: string, transport: Place["transport"]): Place {
  if (transport !== "stdio") return { transport, url: `${bridge.url}/${name}` };
  return { transport, command: binary, args: ["run", "-c", config, "--stdio", name], onStderr: () => undefined };
}

/** A client example as a process. */
class Example {
  readonly lines = new Lines();
  readonly stdin;
  readonly #exit: Promise<number | null>;
  #out = "";

  constructor([program = "", ...args]: string[]) {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], timeout: 25_000 });
    this.stdin = child.stdin;
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#out += text;
      this.lines.write(text);
    });
    this.#exit = new Promise((done, failed) => {
      child.once("error", failed).once("close", done);
    });
  }

  /** Returns its output when it has exited, without dates and times. */
  async end(): Promise<string> {
    assert.equal(await this.#exit, 0, this.#out);
    return this.#out.replaceAll(/ +$/gm, "").replaceAll(/\b\d+:\d\d:\d\d [AP]M\b/g, "TIME").replaceAll(
      /\d{4}-\d\d-\d\d/g,
      "DATE",
    ).replaceAll(/"\w+day"/g, '"DAY"');
  }
}

/** Switches the updates of resources of the server "everything" on or off. */
async function toggleUpdates(): Promise<void> {
  const tool = "toggle-subscriber-updates";
  const revision = "2026-07-28";
  const response = await fetch(`${bridge.url}/everything`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "Mcp-Protocol-Version": revision,
      "Mcp-Method": "tools/call",
      "Mcp-Name": tool,
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name: tool,
        arguments: {},
        _meta: {
          "io.modelcontextprotocol/protocolVersion": revision,
          "io.modelcontextprotocol/clientCapabilities": {},
          "io.modelcontextprotocol/clientInfo": { name: "interop", version: "1" },
        },
      },
    }),
  });
  assert.match(await response.text(), /resource/);
}
